"""Every public function says what it does, with an example that runs."""

import ast
import doctest
import inspect
import math
import pathlib
import re
import types

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


# What a docstring of an array function says, and a word of it.
SECTIONS = {
    "shapes": r"\bshapes?\b|\bax[ei]s\b|scalar|elements",
    "dtypes": r"dtype|float32|float64|floating|\bbool\b",
    "errors": r"Raises|[A-Z]\w+Error",
}
ARRAYS = [n for n in [*qb._FUNCTIONS, *qb._BUILTIN_NAMES] if n not in TRANSFORMS]


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_function_says_shapes_dtypes_and_errors(name):
    text = getattr(qb, name).__doc__.split(">>>")[0]
    assert not [what for what, word in SECTIONS.items() if not re.search(word, text)]


POINT = re.compile(r"(\w+)('?)\((.*)\) = (\S+)$")


@pytest.mark.parametrize("name", ARRAYS)
def test_the_special_points_of_a_function_are_as_its_docstring_says(name):
    text = re.search(r"Special points: (.*)\.$", getattr(qb, name).__doc__, re.M)
    apart = {"logical_and", "logical_or", "logical_not", "cast", "stop_gradient", "where"}
    elementwise = {r["name"] for r in qb._core._ops() if r["elementwise"]} - apart
    reductions = {"sum", "mean", "prod", "max", "min", "norm", "var", "std", "logsumexp", "any", "all"}
    assert text or name not in elementwise | reductions
    for point in text[1].split("; ") if text else ():
        f, derivative, args, want = POINT.match(point).groups()
        assert f == name
        spelled = re.sub(r"-0(?![.\d])", "-0.0", args)
        args = eval(f"({spelled},)", {"inf": math.inf, "nan": math.nan})
        f = getattr(qb, f)
        got = qb.grad(f)(*[qb.array(float(a)) for a in args]).item() if derivative else f(*args).item()
        if want in ("True", "False"):
            assert got is (want == "True"), point
            continue
        want = float(want)
        assert got == want or (math.isnan(got) and math.isnan(want)), (point, got)
        assert math.isnan(want) or math.copysign(1, got) == math.copysign(1, want), (point, got)


TRAINING = {f"{m.__name__}.{n}": getattr(m, n) for m in (qb.optim, qb.random) for n in m.__all__}


@pytest.mark.parametrize("name", TRAINING)
def test_optimizers_and_random_numbers_are_described_whole(name):
    thing = TRAINING[name]
    assert len(thing.__doc__) > 60
    assert ">>> " in thing.__doc__
    assert "Raises " in thing.__doc__
    for member, value in vars(thing).items() if isinstance(thing, type) else ():
        if not member.startswith("_") and (callable(value) or isinstance(value, property)):
            assert value.__doc__, member


def test_functions_that_take_an_array_first_are_methods():
    elsewhere = {"array", "asarray", "full", "ones", "zeros", "arange", "linspace", "eye", "concat", "stack", "einsum", "meshgrid", "where",
                 "polyval", "from_dlpack", "full_like", "ones_like", "zeros_like"}  # fmt: skip
    for name in [*qb._FUNCTIONS, *qb._BUILTIN_NAMES]:
        if name not in elsewhere and name not in TRANSFORMS:
            for cls in (qb.Tensor, qb.TraceTensor):
                assert hasattr(cls, name), f"{cls.__name__}.{name}"


def stub():
    return ast.parse((pathlib.Path(__file__).parents[2] / "python/quabla/_core.pyi").read_text()).body


def parameters(f):
    """Names of a function in a stub, without self."""
    if any(isinstance(d, ast.Name) and d.id in ("overload", "property") for d in f.decorator_list):
        return None
    a = f.args
    names = [x.arg for x in a.posonlyargs + a.args] + ([a.vararg.arg] if a.vararg else [])
    return [n for n in names + [x.arg for x in a.kwonlyargs] if n != "self"]


def test_the_stub_has_the_parameters_of_the_extension():
    wrong = []
    named = [(qb._core, f) for f in stub() if isinstance(f, ast.FunctionDef) and f.name in FUNCTIONS]
    arrays = {"_Array": (qb.Tensor, qb.TraceTensor), "Tensor": (qb.Tensor,), "TraceTensor": (qb.TraceTensor,)}
    for c in stub():
        if isinstance(c, ast.ClassDef):
            named += [(cls, m) for cls in arrays.get(c.name, ()) for m in c.body if isinstance(m, ast.FunctionDef)]
    for owner, f in named:
        want = parameters(f)
        if want is None or f.name.startswith("__"):
            continue
        have = list(inspect.signature(getattr(owner, f.name)).parameters)
        plain = isinstance(owner, type) and isinstance(inspect.getattr_static(owner, f.name), types.FunctionType)
        have = (
            have[1:] if plain or have[:1] == ["self"] else have
        )  # functions as methods call their array by other names
        if have != want:
            wrong.append((owner, f.name, have, want))
    assert not wrong
    assert len(named) > 250


def test_the_stub_lists_every_name_of_the_extension_and_every_method():
    body = stub()
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
