"""What a wrong use of a transform gets: the class, the argument, its path, both shapes or dtypes, and what to do."""

import collections
import dataclasses

import numpy as np
import pytest
import quabla as qb

X, X32, A4 = qb.array([1.0, 2.0]), qb.ones((2,), dtype=qb.float32), qb.zeros((4,))


@dataclasses.dataclass
class Unknown:
    w: object


def leaked():
    kept = []
    qb.jit(lambda x: kept.append(x) or x)(X)
    return kept[0]


def two(x, y):
    return x


def sized(x, n):
    return x


def pull_of(f):
    return qb.vjp(f, X)[1]


def compiled(f, *args, **options):
    return qb.jit(f, **options).lower(*args).compile()


LEAKS = {
    "used later": (lambda: leaked() + 1, ("trace has ended", "return it from the traced function")),
    "as an argument": (
        lambda: qb.jit(two)(X, {"a": [leaked()]}),
        ("jit(two)", "argument 1 'a/0'", "trace has ended", "return it"),
    ),
    "returned": (lambda: (lambda t: qb.jit(lambda x: t)(X))(leaked()), ("trace has ended", "return it")),
    "in a branch": (lambda: qb.jit(lambda x: 1 if qb.sum(x) > 0 else 2)(X), ("`if`", "quabla.where", "quabla.cond")),
    "as a float": (lambda: qb.jit(lambda x: float(qb.sum(x)))(X), ("float()", "outside the traced function")),
    "as an int": (lambda: qb.jit(lambda x: int(qb.sum(x)))(X), ("int()", "outside the traced function")),
    "as an item": (lambda: qb.jit(lambda x: x[0].item())(X), ("item()", "outside the traced function")),
    "as a list": (lambda: qb.jit(lambda x: x.tolist())(X), ("tolist()", "outside the traced function")),
    "as NumPy's": (lambda: qb.jit(lambda x: np.asarray(x))(X), ("NumPy", "outside the traced function")),
    "as numpy()": (lambda: qb.jit(lambda x: x.numpy())(X), ("outside the traced function",)),
}

AXES = {
    "too few": (
        lambda: qb.vmap(two, in_axes=(0,))(X, X),
        ("in_axes (0,)", "the arguments, which have", "TreeDef((*, *))"),
    ),
    "other keys": (
        lambda: qb.vmap(lambda p: p["w"], in_axes=({"b": 0},))({"w": X}),
        ("in_axes {'b': 0}", "argument 0, which has", "TreeDef({'w': *})"),
    ),
    "no such axis": (
        lambda: qb.vmap(lambda p: p["w"], in_axes=1)({"w": X}),
        ("argument 0 'w' is float64[2]", "in_axes cannot be 1", "one of its axes, or None"),
    ),
    "too negative": (lambda: qb.vmap(lambda x: x, in_axes=-2)(X), ("argument 0 is float64[2]", "in_axes cannot be -2")),
    "a scalar": (lambda: qb.vmap(two)(X, qb.array(1.0)), ("argument 1 is float64[]", "give it None")),
    "a number": (lambda: qb.vmap(two)(X, 2.0), ("argument 1 is a Python number", "give it None in in_axes")),
    "two sizes": (
        lambda: qb.vmap(two)({"w": X}, {"b": [A4]}),
        ("argument 1 'b/0' has 4 along axis 0", "argument 0 'w' has 2"),
    ),
    "nothing mapped": (lambda: qb.vmap(lambda x: x, in_axes=None)(X), ("nothing is mapped", "at least one")),
    "an unmapped result": (
        lambda: qb.vmap(lambda x: {"y": x}, out_axes={"y": None})(X),
        ("result 'y' depends on a mapped argument", "out_axes cannot be None", "give the axis"),
    ),
    "the whole result": (lambda: qb.vmap(lambda x: x, out_axes=None)(X), ("the result depends on a mapped argument",)),
    "no such axis out": (
        lambda: qb.vmap(lambda x: [x], out_axes=3)(X),
        ("result '0' has 1 axis with the batch's", "out_axes cannot be 3"),
    ),
    "other keys out": (
        lambda: qb.vmap(lambda x: {"y": x}, out_axes={"z": 0})(X),
        ("out_axes {'z': 0}", "the result, which has", "TreeDef({'y': *})"),
    ),
}

STATIC = {
    "a list": (
        lambda: qb.jit(sized, static_argnums=1)(X, [1]),
        TypeError,
        ("jit(sized)", "'n' is a list", "not hashable", "use a tuple"),
    ),
    "a list by name": (
        lambda: qb.jit(sized, static_argnames="n")(X, n=[1]),
        TypeError,
        ("'n' is a list", "not hashable", "use a tuple"),
    ),
    "an array": (
        lambda: qb.jit(sized, static_argnums=1)(X, X),
        TypeError,
        ("'n' is an array", "leave it out of static_argnums"),
    ),
    "out of range": (
        lambda: qb.jit(sized, static_argnums=5)(X, 1),
        ValueError,
        ("static_argnums 5", "2 positional parameters"),
    ),
    "no such name": (
        lambda: qb.jit(sized, static_argnames="m")(X, 1),
        ValueError,
        ("static_argnames 'm'", "no parameter"),
    ),
    "a keyword": (
        lambda: qb.jit(lambda x, **k: x)(X, m=2),
        TypeError,
        ("'m' must be static", "by position", "static_argnames"),
    ),
    "a keyword of grad": (lambda: qb.grad(two)(X, y=X), TypeError, ("grad(two)", "positional arguments only", "jit")),
}

RESULTS = {
    "a vector": (lambda: qb.grad(lambda x: x)(X), ValueError, ("shape []", "float64[2]", "sum or mean", "jacobian")),
    "one element": (lambda: qb.grad(lambda x: x[:1])(X), ValueError, ("shape []", "float64[1]")),
    "a bool": (lambda: qb.grad(lambda x: qb.sum(x) > 0)(X), ValueError, ("floating scalar", "bool[]")),
    "a number": (lambda: qb.grad(lambda x: 1.0)(X), ValueError, ("Python number 1.0", "depends on no argument")),
    "None": (lambda: qb.grad(lambda x: None)(X), TypeError, ("floating scalar array, not None",)),
    "a tuple": (lambda: qb.grad(lambda x: (qb.sum(x), x))(X), TypeError, ("not a tuple", "has_aux=True")),
    "no aux": (lambda: qb.value_and_grad(qb.sum, has_aux=True)(X), TypeError, ("has_aux=True", "(value, aux)")),
    "no aux of vjp": (lambda: qb.vjp(qb.sum, X, has_aux=True), TypeError, ("has_aux=True", "(value, aux)")),
    "a string": (
        lambda: qb.jacobian(lambda x: {"a": "s"})(X),
        TypeError,
        ("jacobian", "returns a str at 'a'", "arrays"),
    ),
}

ARGUMENTS = {
    "an OrderedDict": (
        lambda: qb.jit(two)(X, {"k": collections.OrderedDict(a=X)}),
        TypeError,
        ("jit(two)", "argument 1 'k' is an OrderedDict", "registered classes", "static_argnums"),
    ),
    "a dataclass": (
        lambda: qb.grad(lambda p: 0.0)([Unknown(X)]),
        TypeError,
        ("argument 0 '0' is an Unknown", "registered classes"),
    ),
    "a string": (lambda: qb.jit(lambda p: p)((X, "s")), TypeError, ("argument 0 '1' is a str", "static_argnums")),
    "half floats": (
        lambda: qb.jit(lambda p: p)({"a": np.zeros(2, np.float16)}),
        TypeError,
        ("argument 0 'a'", "float16", "convert to float64, float32 or bool"),
    ),
    "half floats later": (
        lambda: [qb.jit(two)({"a": x}, X) for x in (X, np.zeros(2, np.float16))],
        TypeError,
        ("argument 0 'a'", "float16", "convert to"),
    ),
    "keys that do not sort": (lambda: qb.jit(lambda p: p)({1: X, "a": X}), TypeError, ("dict", "sortable")),
    "argnums": (
        lambda: qb.grad(lambda x: qb.sum(x), argnums=3)(X),
        ValueError,
        ("argnums 3 is out of range", "1 argument"),
    ),
    "argnums twice": (lambda: qb.grad(two, argnums=(0, -2))(X, X), ValueError, ("argnums", "argument 0 twice")),
    "argnums of a kind": (
        lambda: qb.grad(two, argnums="a"),
        TypeError,
        ("argnums is an int or a tuple of ints", "'a'"),
    ),
    "no function": (lambda: qb.jit(3), TypeError, ("jit takes a function, not an int",)),
    "no function of grad": (lambda: qb.grad(3), TypeError, ("grad takes a function, not an int",)),
    "a device": (
        lambda: qb.jit(two, device="cuda:x")(X, X),
        ValueError,
        ("'cuda:x'", "'cpu', 'cuda', 'cuda:0', 'mlx'"),
    ),
    "a precision": (
        lambda: qb.jit(two, precision="half")(X, X),
        ValueError,
        ("'half'", "None, 'float32' or 'float64'"),
    ),
    "max_traces": (lambda: qb.jit(two, max_traces=0), ValueError, ("max_traces must be at least 1, not 0",)),
    "max_traces, no int": (lambda: qb.jit(two, max_traces=1.5), TypeError, ("max_traces is an int, not 1.5",)),
    "max_traces, a bool": (lambda: qb.jit(two, max_traces=True), TypeError, ("max_traces is an int, not True",)),
}

DIRECTIONS = {
    "primals": (lambda: qb.jvp(two, X, X), TypeError, ("primals is a tuple or list", "not a Tensor")),
    "count": (lambda: qb.jvp(two, (X, X), (X,)), ValueError, ("2 primals and 1 tangents",)),
    "structure": (
        lambda: qb.jvp(lambda p: p["a"], ({"a": X},), ({"b": X},)),
        ValueError,
        ("TreeDef(({'a': *},))", "TreeDef(({'b': *},))"),
    ),
    "shape": (
        lambda: qb.jvp(lambda p: p["a"], ({"a": X},), ({"a": A4},)),
        TypeError,
        ("'0/a' is float64[2]", "float64[4]", "agree"),
    ),
    "dtype": (
        lambda: qb.jvp(lambda p: p["a"], ({"a": X},), ({"a": X32},)),
        TypeError,
        ("float64[2]", "float32[2]", "agree"),
    ),
    "cotangent's structure": (
        lambda: pull_of(lambda x: {"o": x})({"z": X}),
        ValueError,
        ("TreeDef({'o': *})", "TreeDef({'z': *})"),
    ),
    "cotangent's shape": (
        lambda: pull_of(lambda x: {"o": x})({"o": A4}),
        TypeError,
        ("'o' is float64[2]", "float64[4]", "agree"),
    ),
    "cotangent's dtype": (
        lambda: pull_of(lambda x: {"o": x})({"o": X32}),
        TypeError,
        ("'o' is float64[2]", "float32[2]", "agree"),
    ),
}

LOWERED = {
    "structure": (
        lambda: compiled(lambda p: p["a"], {"a": X})({"b": X}),
        ValueError,
        ("compiled for the signature", "({'a': float64[2]},)", "({'b': float64[2]},)", "lower it"),
    ),
    "shape": (
        lambda: compiled(lambda p: p["a"], {"a": X})({"a": A4}),
        ValueError,
        ("({'a': float64[2]},)", "p/a was float64[2] and is float64[4]", "lower it"),
    ),
    "static": (lambda: compiled(sized, X, 1, static_argnums=1)(X, 2), ValueError, ("n was static 1 and is static 2",)),
    "length": (lambda: qb.ShapeDtype((2, -1)), ValueError, ("ShapeDtype", "(2, -1)")),
}


def cases(*tables):
    for table in tables:
        for name, case in table.items():
            yield pytest.param(*case, id=name)


def check(call, error, words):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    missing = [word for word in words if word not in str(caught.value)]
    assert not missing, f"{missing} not in: {caught.value}"


@pytest.mark.parametrize(("call", "words"), cases(LEAKS))
def test_a_tracer_in_a_wrong_place(call, words):
    check(call, qb.TracerError, words)


@pytest.mark.parametrize(("call", "words"), cases(AXES))
def test_axes_that_do_not_fit(call, words):
    check(call, ValueError, ("vmap: ", *words))


@pytest.mark.parametrize(("call", "error", "words"), cases(STATIC))
def test_static_arguments_and_keywords(call, error, words):
    check(call, error, words)


@pytest.mark.parametrize(("call", "error", "words"), cases(RESULTS))
def test_results_that_have_no_derivative(call, error, words):
    check(call, error, words)


@pytest.mark.parametrize(("call", "error", "words"), cases(ARGUMENTS))
def test_arguments_that_no_transform_takes(call, error, words):
    check(call, error, words)


@pytest.mark.parametrize(("call", "error", "words"), cases(DIRECTIONS))
def test_tangents_and_cotangents_that_do_not_fit(call, error, words):
    check(call, error, words)


@pytest.mark.parametrize(("call", "error", "words"), cases(LOWERED))
def test_a_compiled_program_called_with_something_else(call, error, words):
    check(call, error, words)


def test_the_library_is_usable_after_each_of_them():
    assert qb.jit(qb.grad(lambda x: qb.sum(qb.vmap(lambda t: t * t)(x))))(X).tolist() == [2.0, 4.0]
