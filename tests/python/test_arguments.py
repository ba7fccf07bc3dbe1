"""Every public function with wrong arguments of every kind: a clear exception or a result, never anything else.

The calls are generated: a good call of each function (calls.py), with one argument replaced. `QUABLA_FUZZ=seconds` is how long the random
part runs; what it found stands in FOUND.
"""

import math
import os
import signal
import time
import warnings

import numpy as np
import pytest
import quabla as qb
from calls import APART, GOOD, KEY, LONG, MASK, MORE, WRONG, V, X, find
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CLEAR = (TypeError, ValueError, IndexError, MemoryError, BufferError)
# Files that are not there; numbers beyond a C double; rules that are not given yet.
CLEAR_TOO = (OSError, OverflowError, AttributeError, EOFError)


def call(name, args, kwargs):
    """True when the call was refused, clearly; False for a result. Anything else fails."""
    clear = CLEAR if name in GOOD else (*CLEAR, *CLEAR_TOO)
    signal.alarm(60)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", qb.RetraceWarning)
            out = find(name)(*args, **kwargs)
    except clear as e:
        assert str(e), f"{name}: an exception without a message"
        return True
    finally:
        signal.alarm(0)
    if name not in GOOD:
        return False
    for x in out if isinstance(out, (list, tuple)) else [out]:
        assert isinstance(x, (qb.Tensor, qb.TensorView)), f"{name} returned {type(x)}"
    return False


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Names of files among the wrong arguments are names in an empty folder; a call that hangs ends; threads are as they were."""
    monkeypatch.chdir(tmp_path)
    old = signal.signal(signal.SIGALRM, hangs)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, old)
    qb.set_num_threads(0)


class Hang(BaseException):
    pass


def hangs(signal, frame):
    raise Hang


def test_the_good_calls_are_good_and_every_public_function_has_one():
    for name, (args, kwargs) in {**GOOD, **MORE}.items():
        assert not call(name, args, kwargs), name
    public = {name for name in [*qb.__all__, *qb._BUILTIN_NAMES] if callable(getattr(qb, name))}
    for module in ("random", "optim", "tree"):
        names = getattr(getattr(qb, module), "__all__", None) or vars(getattr(qb, module))
        public |= {f"{module}.{n}" for n in names if n[0] != "_" and callable(getattr(getattr(qb, module), n))}
    missing = public - set(GOOD) - set(MORE) - set(APART)
    assert not missing


def wrong_for(name):
    """No counts of billions for what goes on so long."""
    return [w for w in WRONG if name not in LONG or not isinstance(w, int) or w < 100]


@pytest.mark.parametrize("name", [*GOOD, *MORE])
def test_one_wrong_argument_is_refused_or_means_something(name):
    args, kwargs = GOOD.get(name) or MORE[name]
    for wrong in wrong_for(name):
        for k in range(len(args)):
            call(name, (*args[:k], wrong, *args[k + 1 :]), kwargs)
        for k in kwargs:
            call(name, args, {**kwargs, k: wrong})
    assert call(name, args, {**kwargs, "no_such_parameter": 1})
    if name not in ("einsum", "meshgrid") and name in GOOD:
        assert call(name, (*args, *[None] * 9), kwargs)
    if name != "meshgrid" and name in GOOD:
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


def for_long(test):
    """The test once, or as often as it goes in QUABLA_FUZZ seconds."""

    def run():
        end = time.monotonic() + float(os.environ.get("QUABLA_FUZZ", 0))
        test()
        while time.monotonic() < end:
            test()

    return run


@for_long
@fuzz
@given(
    st.sampled_from(sorted({*GOOD, *MORE} - LONG)),
    st.lists(anything, max_size=4),
    st.dictionaries(st.sampled_from(KEYS), anything, max_size=2),
)
def test_random_calls(name, args, kwargs):
    call(name, args, kwargs)


# What reads the values of its arguments may refuse, eagerly, what it cannot see in a trace.
READS = {"arange", "linspace", "eye", "zeros", "ones", "full", "from_dlpack", "interp", "array", "asarray"}


@for_long
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


# (name, args, kwargs) of calls that once crashed, hung or raised something unclear.
FOUND = [
    ("random.split", (KEY, 2**40), {}),  # made keys until the memory was full
    ("random.glorot_normal", (KEY, (0, 0)), {}),  # divided by zero
    ("random.he_normal", (KEY, (3, 0, 2)), {}),
]


def test_what_the_fuzz_found_stays_fixed():
    for name, args, kwargs in FOUND:
        call(name, args, kwargs)
