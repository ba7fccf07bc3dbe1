"""Every array function with wrong arguments of every kind: a clear exception or a result, never anything else.

The calls are generated: a good call of each function, with one argument replaced. `QUABLA_FUZZ=seconds` runs the random part that
long; what it found stands in FOUND.
"""

import math
import os
import time

import numpy as np
import pytest
import quabla as qb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CLEAR = (TypeError, ValueError, IndexError, MemoryError, BufferError)
X, Y = qb.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), qb.array([[1.0, 0.5, 2.0], [3.0, 0.25, 1.0]])
V, SQUARE, MASK = (
    qb.array([0.5, 1.0, 2.0]),
    qb.array([[2.0, 1.0], [1.0, 3.0]]),
    qb.array([[True, False, True], [False, False, True]]),
)

ONE = """
    exp expm1 exp2 log log1p log2 log10 sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh erf erfc floor
    ceil round sign abs neg square reciprocal relu sigmoid softplus silu gelu isfinite isnan isinf nan_to_num ravel transpose
    stop_gradient squeeze tril triu zeros_like ones_like array asarray
"""
TWO = """
    add sub mul div power pow maximum minimum fmod mod remainder floor_divide hypot atan2 logaddexp greater greater_equal less less_equal
    equal not_equal outer kron
"""
OVER = "sum mean max min prod any all norm var std logsumexp"
# A good call of each function: (positional arguments, keywords).
GOOD = {name: ((X,), {}) for name in ONE.split()}
GOOD |= {name: ((X, Y), {}) for name in TWO.split()}
GOOD |= {name: ((X,), {"axis": 1, "keepdims": True}) for name in OVER.split()}
GOOD |= {
    "logical_and": ((MASK, MASK), {}), "logical_or": ((MASK, MASK), {}), "logical_not": ((MASK,), {}), "where": ((MASK, X, Y), {}),
    "clip": ((X, 1.0, 2.0), {}), "softmax": ((X,), {"axis": 0}), "log_softmax": ((X,), {"axis": 0}), "cumsum": ((X,), {"axis": 1}),
    "powi": ((X, 3), {}), "astype": ((X, qb.float32), {}), "reshape": ((X, (3, 2)), {}), "broadcast_to": ((V, (2, 3)), {}),
    "concat": (([X, Y], 0), {}), "stack": (([X, Y], 0), {}), "split": ((X, 3), {"axis": 1}), "repeat": ((X, 2), {"axis": 0}),
    "tile": ((X, (2, 1)), {}), "flip": ((X,), {"axis": 0}), "roll": ((X, 1), {"axis": 0}), "pad": ((X, 1), {"mode": "edge"}),
    "diag": ((V,), {"k": 1}), "diagonal": ((X,), {"offset": 1}), "trace": ((X,), {"offset": 1}), "meshgrid": ((V, V), {}),
    "moveaxis": ((X, 0, 1), {}), "swapaxes": ((X, 0, 1), {}), "expand_dims": ((X, 1), {}), "gather": ((X, [1, 0]), {"axis": 1}),
    "scatter_add": ((V, [0, 1], [1.0, 2.0]), {"axis": 0}), "matmul": ((X, V), {}), "dot": ((X, V), {}),
    "tensordot": ((X, V, 1), {}), "cross": ((V, V), {"axis": 0}), "einsum": (("ij,j->i", X, V), {}), "diff": ((X,), {"n": 1, "axis": 1}),
    "trapezoid": ((X,), {"x": V, "axis": 1}), "polyval": ((V, X), {}), "interp": ((X, V, V), {}), "zeros": (((2,),), {}),
    "ones": (((2,),), {}), "full": (((2,), 3.0), {}), "full_like": ((X, 3.0), {}), "eye": ((2, 3), {}), "arange": ((0, 3, 0.5), {}),
    "linspace": ((0.0, 1.0, 5), {}), "from_dlpack": ((X,), {}),
}  # fmt: skip

WRONG = [
    None, "x", "", b"x", object(), {}, {"a": X}, [], (), [[]], [None], ["x"], 1j, float, qb, lambda: 0, set(), Ellipsis, slice(1),
    True, 0, -1, 7, 2**40, 2**63, 10**30, -(2**63), 0.5, math.nan, math.inf, -math.inf,
    (0, 0), (5,), (-9, 1), [1.5], (2**40, 2**40), (1,) * 17, [2**62, 4], range(0), range(3), "edge", ("a", "b"), [[1, 2], [3]],
    X, V, SQUARE, MASK, qb.array(1.0), qb.array([[[1.0]]]), X.astype(qb.float32), X.slice(1, 0, 2), [X, V], [MASK, X],
    np.zeros((2, 3)), np.zeros(3, np.int8), np.zeros(2, complex), np.zeros((0, 3)), np.float32(2), np.zeros(3, "U1"), np.array(None),
    qb.float32, np.float16, "float99", bytearray(8), memoryview(b"abcd"), iter([1.0]), X.shape,
]  # fmt: skip


def call(name, args, kwargs):
    """True when the call was refused, clearly; False for a result. Anything else fails."""
    try:
        out = getattr(qb, name)(*args, **kwargs)
    except CLEAR as e:
        assert str(e), f"{name}: an exception without a message"
        assert not isinstance(e, SystemError)
        return True
    for x in out if isinstance(out, (list, tuple)) else [out]:
        assert isinstance(x, (qb.Tensor, qb.TensorView)), f"{name} returned {type(x)}"
    return False


def test_the_good_calls_are_good_and_all_functions_have_one():
    for name, (args, kwargs) in GOOD.items():
        assert not call(name, args, kwargs), name
    missing = set(qb._FUNCTIONS) | set(qb._BUILTIN_NAMES)
    missing -= set(GOOD) | {"grad", "jit", "jvp", "value_and_grad", "vjp", "vmap"}
    assert not missing


@pytest.mark.parametrize("name", GOOD)
def test_one_wrong_argument_is_refused_or_means_something(name):
    args, kwargs = GOOD[name]
    for wrong in WRONG:
        for k in range(len(args)):
            call(name, (*args[:k], wrong, *args[k + 1 :]), kwargs)
        for k in kwargs:
            call(name, args, {**kwargs, k: wrong})
    assert call(name, args, {**kwargs, "no_such_parameter": 1})
    if name not in ("einsum", "meshgrid"):
        assert call(name, (*args, *[None] * 9), kwargs)
    if name not in ("meshgrid", "grad"):
        assert call(name, (), {})


@pytest.mark.parametrize("name", GOOD)
def test_one_wrong_argument_inside_a_trace(name):
    args, kwargs = GOOD[name]
    if not args or not isinstance(args[0], qb.Tensor) or name == "from_dlpack":
        return
    for wrong in WRONG[::3]:

        def f(x, wrong=wrong):
            return getattr(qb, name)(
                x,
                *args[1:-1],
                *([wrong] if len(args) > 1 else []),
                **({k: wrong for k in kwargs} if len(args) < 2 else kwargs),
            )

        try:
            qb.jit(f)(args[0])
        except CLEAR as e:
            assert str(e)


def test_a_tracer_where_a_number_decides_the_shape_is_a_tracer_error():
    for f in (
        lambda n: qb.zeros((n,)),
        lambda n: qb.reshape(X, (n, -1)),
        lambda n: qb.arange(n),
        lambda n: qb.linspace(0.0, 1.0, n),
        lambda n: X.gather([n]),
        lambda n: qb.roll(X, n),
        lambda n: qb.repeat(X, n),
        lambda n: X[n],
        lambda n: qb.sum(X, axis=n),
    ):
        with pytest.raises(TypeError):
            qb.jit(f)(qb.array(1.0))


def test_a_wrong_axis_is_a_value_error_and_a_wrong_index_an_index_error():
    for name in (
        "sum",
        "mean",
        "max",
        "prod",
        "any",
        "norm",
        "var",
        "logsumexp",
        "softmax",
        "cumsum",
        "flip",
        "diff",
        "squeeze",
    ):
        for axis in (2, -3):
            with pytest.raises(ValueError, match="axis"):
                getattr(qb, name)(X, axis=axis)
    for f in (lambda: X[2], lambda: X[0, 3], lambda: X.gather([2]), lambda: qb.scatter_add(V, [3], [1.0])):
        with pytest.raises(IndexError):
            f()


def test_dtypes_that_do_not_mix_are_named():
    single = X.astype(qb.float32)
    for f in (
        lambda: qb.maximum(X, single),
        lambda: qb.where(MASK, X, single),
        lambda: qb.concat([X, single]),
        lambda: qb.stack([X, single]),
        lambda: qb.matmul(single, V),
        lambda: qb.scatter_add(V, [0], single[0, :1]),
        lambda: qb.clip(X, single, 3.0),
        lambda: qb.interp(X, V, V.astype(qb.float32)),
        lambda: qb.einsum("ij,ij->", X, single),
    ):
        with pytest.raises(ValueError, match=r"(?s)f(32|64).*f(32|64).*astype"):
            f()


# ---- random calls ----

numbers = st.sampled_from([0.0, -0.0, 1.0, -2.5, 1e300, 1e-300, math.inf, -math.inf, math.nan, 3.0])
dims = st.lists(st.integers(1, 4), max_size=4)
arrays = st.builds(
    lambda shape, v, dtype: qb.full(tuple(shape), v, dtype),
    dims,
    numbers,
    st.sampled_from([qb.float32, qb.float64, qb.bool_]),
)
anything = st.one_of(
    arrays,
    arrays,
    numbers,
    st.integers(-5, 5),
    st.lists(st.integers(-5, 5), max_size=4),
    st.lists(st.integers(-5, 5), max_size=4).map(tuple),
    st.lists(arrays, max_size=3),
    st.sampled_from(WRONG),
)
fuzz = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
KEYS = [
    "axis",
    "keepdims",
    "k",
    "ddof",
    "mode",
    "offset",
    "axis1",
    "axis2",
    "reverse",
    "indices",
    "x",
    "dtype",
    "n",
    "prepend",
    "approximate",
]


@fuzz
@given(
    st.sampled_from(sorted(GOOD)),
    st.lists(anything, max_size=4),
    st.dictionaries(st.sampled_from(KEYS), anything, max_size=2),
)
def test_random_calls(name, args, kwargs):
    call(name, args, kwargs)


# What reads the values of its arguments may refuse, eagerly, what it cannot see in a trace.
READS = {"arange", "linspace", "eye", "zeros", "ones", "full", "from_dlpack", "interp", "array", "asarray"}


@fuzz
@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(set(GOOD) - READS)), st.lists(anything, max_size=2)), min_size=1, max_size=5
    ),
    arrays,
)
def test_random_programs_run_eagerly_compiled_and_differentiated(steps, x):
    def program(a):
        for name, rest in steps:
            try:
                out = getattr(qb, name)(a, *rest)
            except CLEAR:
                continue
            out = out[0] if isinstance(out, (list, tuple)) else out
            if isinstance(out, (qb.Tensor, qb.TraceTensor)) and out.size < 4096:
                a = out
        return a

    eager, compiled = program(x), qb.jit(program)(x)
    assert (eager.shape, eager.dtype) == (compiled.shape, compiled.dtype)
    nans = np.isnan(np.asarray(eager, float))
    np.testing.assert_array_equal(nans, np.isnan(np.asarray(compiled, float)))
    np.testing.assert_array_equal(np.asarray(eager)[~nans], np.asarray(compiled)[~nans])
    if x.dtype is not qb.bool_ and eager.dtype is not qb.bool_:
        grad = qb.grad(lambda a: qb.sum(program(a)))
        assert qb.jit(grad)(x).shape == x.shape
        qb.vmap(grad)(qb.stack([x, x]))


@pytest.mark.skipif(not os.environ.get("QUABLA_FUZZ"), reason="the long fuzz runs with QUABLA_FUZZ=seconds")
def test_random_calls_for_long():
    end = time.monotonic() + float(os.environ["QUABLA_FUZZ"])
    while time.monotonic() < end:
        test_random_calls()
        test_random_programs_run_eagerly_compiled_and_differentiated()


FOUND = []


@pytest.mark.parametrize("call_", FOUND)
def test_what_the_fuzz_found_stays_fixed(call_):
    call(*call_)
