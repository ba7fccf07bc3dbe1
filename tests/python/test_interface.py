"""Every name of the interface is there, with its parameters in their order, their names and defaults, and can be called so."""

import ast
import inspect
import operator
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
    """(module, its statements) of every stub beside a Python file, but that of the package itself."""
    package = ROOT / "python/quabla"
    for path in sorted(package.rglob("*.pyi")):
        if path.with_suffix(".py").exists() and path != package / "__init__.pyi":
            yield (path.parent if path.stem == "__init__" else path).stem, ast.parse(path.read_text()).body


def stubbed():
    """(name, whether it is an attribute, parameters with their defaults) of every function and method in them.

    What a private class has is checked in each class that is made from it.
    """
    for module, body in stubs():
        classes = {c.name: c for c in body if isinstance(c, ast.ClassDef)}
        members = [(module, f) for f in body]
        for c in classes.values():
            bases = [classes[b.id] for b in c.bases if isinstance(b, ast.Name) and b.id.startswith("_")]
            members += [(f"{module}.{c.name}", f) for k in [c, *bases] for f in k.body if not c.name.startswith("_")]
        for place, f in members:
            if isinstance(f, ast.FunctionDef):
                for part in ast.walk(f.args):
                    if isinstance(part, ast.arg):
                        part.annotation = None
                parameters = ast.unparse(f.args).removeprefix("self").removeprefix(", ")
                yield f"{place}.{f.name}", bool(f.decorator_list), parameters


@pytest.mark.parametrize(("name", "attribute", "parameters"), stubbed())
def test_a_stub_has_the_parameters_of_its_function(name, attribute, parameters):
    real = operator.attrgetter(name)(qb)
    assert inspect.isdatadescriptor(real) == attribute
    if not attribute:
        signature = inspect.signature(real)
        plain = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
        assert str(signature.replace(parameters=plain)).replace(" ", "") == f"({parameters})".replace(" ", "")


def test_every_composed_function_has_a_stub():
    named = {name.split(".")[1] for name, *_ in stubbed()}
    assert {name for names in qb._COMPOSED.values() for name in names.split()} <= named


@pytest.mark.parametrize("module", ["optim", "random", "tree"])
def test_a_stub_has_every_public_name_of_its_module(module):
    body, real = dict(stubs())[module], getattr(qb, module)
    defined = {d.name: d for d in body if isinstance(d, (ast.FunctionDef, ast.ClassDef)) and not d.name.startswith("_")}
    assert defined.keys() == set(real.__all__)
    for name, c in defined.items():
        if isinstance(c, ast.ClassDef):
            members = {getattr(m, "name", None) or m.target.id for m in c.body}
            assert not [m for m in vars(getattr(real, name)) if not m.startswith("_") and m not in members]
