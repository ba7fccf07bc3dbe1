"""Every name of the interface is there, with its parameters in their order, their names and defaults, and can be called so."""

import ast
import inspect
import pathlib
import re

import pytest
import quabla as qb
from interface import FUNCTIONS, METHODS, STATIC, TENSOR_ALONE, signatures

ROOT = pathlib.Path(__file__).parents[2]
BUILTIN = {"abs", "all", "any", "max", "min", "round", "sum"}
METHODS_OF = [(qb.Tensor, {**signatures(METHODS), **signatures(TENSOR_ALONE)}), (qb.TraceTensor, signatures(METHODS))]


@pytest.mark.parametrize("name, parameters", signatures(FUNCTIONS).items())
def test_a_function_has_the_parameters_of_the_interface(name, parameters):
    assert str(inspect.signature(getattr(qb, name))) == parameters
    assert (name in qb.__all__) is (name not in BUILTIN)


@pytest.mark.parametrize("cls, name, parameters", [(c, n, p) for c, names in METHODS_OF for n, p in names.items()])
def test_a_method_has_the_parameters_of_the_interface(cls, name, parameters):
    signature = inspect.signature(getattr(cls, name))
    given = list(signature.parameters.values())
    if name not in STATIC and not isinstance(inspect.getattr_static(cls, name), type(list.append)):
        given = given[1:]  # self, which some methods call x
    assert str(signature.replace(parameters=given)) == parameters


def test_the_names_that_shadow_python_are_attributes_but_not_imported_by_a_star():
    assert not BUILTIN & set(qb.__all__)
    assert all(callable(getattr(qb, name)) for name in BUILTIN)


def test_the_function_table_shows_every_function():
    shown = set(re.findall(r"^\| `(\w+)", (ROOT / "docs/functions.md").read_text(), re.M))
    assert not set(signatures(FUNCTIONS)) - shown
    more = shown - set(signatures(FUNCTIONS))  # and it shows nothing that is not there, but for the ops of a program
    ops = {row["name"] for row in qb._core._ops()}
    assert not [name for name in more if name not in ops and not callable(getattr(qb, name, None))]


def test_parameters_can_be_named():
    x, y, m = qb.array([1.0, 4.0]), qb.array([2.0, 3.0]), qb.array([True, False])
    assert x.add(rhs=y).tolist() == qb.add(x1=x, x2=y).tolist() == [3.0, 7.0]
    assert x.maximum(rhs=y).tolist() == qb.maximum(x1=x, x2=y).tolist() == [2.0, 4.0]
    assert x.atan2(x=y).tolist() == qb.atan2(x1=x, x2=y).tolist()
    assert x.fmod(y=y).tolist() == qb.fmod(x1=x, x2=y).tolist() == [1.0, 1.0]
    assert x.less(rhs=y).tolist() == qb.less(lhs=x, rhs=y).tolist() == [True, False]
    assert m.logical_and(rhs=m).tolist() == qb.logical_and(lhs=m, rhs=m).tolist() == [True, False]
    assert x.matmul(rhs=y).tolist() == qb.matmul(x1=x, x2=y).tolist() == 14.0
    assert qb.isnan(value=x).tolist() == qb.logical_not(value=qb.array([True, True])).tolist() == [False, False]
    assert qb.where(mask=m, on_true=x, on_false=y).tolist() == m.where_select(on_true=x, on_false=y).tolist()
    assert qb.concat(matrices=[x, y], axis=0).tolist() == [1.0, 4.0, 2.0, 3.0]
    assert qb.einsum(equation="i,i", operands=[x, y]).tolist() == 14.0
    assert qb.tile(A=x, reps=2).tolist() == [1.0, 4.0, 1.0, 4.0]
    with pytest.raises(TypeError, match="no parameter 'x2'"):
        x.add(x2=y)
    with pytest.raises(TypeError, match="lacks argument 'rhs'"):
        x.add()


def stubs():
    """(name, parameters with their defaults) of every function in the stubs beside Python files."""
    for path in sorted((ROOT / "python/quabla").glob("*.pyi")):
        if (path.with_suffix(".py")).exists() and path.stem != "__init__":
            for f in ast.parse(path.read_text()).body:
                if isinstance(f, ast.FunctionDef):
                    for part in ast.walk(f.args):
                        if isinstance(part, ast.arg):
                            part.annotation = None
                    yield f"{path.stem}.{f.name}", ast.unparse(f.args)


@pytest.mark.parametrize(("name", "parameters"), stubs())
def test_a_stub_has_the_parameters_of_its_function(name, parameters):
    module, function = name.split(".")
    real = inspect.signature(getattr(getattr(qb, module), function))
    plain = [p.replace(annotation=p.empty) for p in real.parameters.values()]
    assert str(real.replace(parameters=plain)).replace(" ", "") == f"({parameters})".replace(" ", "")


def test_every_composed_function_has_a_stub():
    named = {name.split(".")[1] for name, _ in stubs()}
    assert {name for names in qb._COMPOSED.values() for name in names.split()} <= named
