"""Every public function says what it does, with an example that runs."""

import ast
import doctest
import pathlib

import pytest
import quabla as qb

BUILTIN_NAMES = ["abs", "all", "any", "max", "min", "pow", "round", "sum"]


def functions():
    for name in sorted({*qb.__all__, *BUILTIN_NAMES}):
        f = getattr(qb, name)
        if callable(f) and not isinstance(f, type):
            yield name, f


FUNCTIONS = dict(functions())
TRANSFORMS = ("grad", "jit", "jvp", "value_and_grad", "vjp", "vmap")


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in TRANSFORMS])
def test_the_example_of_a_function_prints_what_it_shows(name):
    doc = FUNCTIONS[name].__doc__
    assert doc and len(doc.strip()) > 20
    examples = doctest.DocTestParser().get_doctest(doc, {"qb": qb}, name, None, None)
    assert examples.examples, f"{name} has no example"
    result = doctest.DocTestRunner(verbose=False, optionflags=doctest.REPORT_NDIFF).run(examples)
    assert not result.failed


def test_functions_that_take_an_array_first_are_methods():
    elsewhere = {"array", "asarray", "full", "ones", "zeros", "arange", "linspace", "eye", "concat", "stack", "einsum", "meshgrid", "where",
                 "polyval", "from_dlpack", "full_like", "ones_like", "zeros_like"}  # fmt: skip
    for name in [*qb._FUNCTIONS, *qb._BUILTIN_NAMES]:
        if name not in elsewhere and name not in TRANSFORMS:
            for cls in (qb.Tensor, qb.TraceTensor):
                assert hasattr(cls, name), f"{cls.__name__}.{name}"


def test_the_stub_lists_every_name_of_the_extension_and_every_method():
    path = pathlib.Path(__file__).parents[2] / "python/quabla/_core.pyi"
    body = ast.parse(path.read_text()).body
    names = {n.name for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    names |= {n.target.id for n in body if isinstance(n, ast.AnnAssign)}
    assert not [n for n in dir(qb._core) if not n.startswith("__") and n not in names]
    methods = {m.name for c in body if isinstance(c, ast.ClassDef) for m in c.body if isinstance(m, ast.FunctionDef)}
    assert not [
        n
        for cls in (qb.Tensor, qb.TraceTensor, qb.TensorView)
        for n in dir(cls)
        if not n.startswith("_") and n not in methods
    ]
