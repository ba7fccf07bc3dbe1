"""Elementwise functions and reductions: NumPy's values, dtypes and shapes; weak numbers; masks."""

import math

import numpy as np
import pytest
import quabla as qb
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_oracle import axes, bits, compare, data, shapes

few = settings(max_examples=60, deadline=None)


def smooth(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


special = np.vectorize(math.erfc, otypes=[float])
UNARY = {
    "exp": np.exp, "expm1": np.expm1, "exp2": np.exp2, "log": np.log, "log1p": np.log1p, "log2": np.log2, "log10": np.log10,
    "sqrt": np.sqrt, "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos, "tan": np.tan, "arcsin": np.arcsin, "arccos": np.arccos,
    "arctan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "arcsinh": np.arcsinh, "arccosh": np.arccosh,
    "arctanh": np.arctanh, "floor": np.floor, "ceil": np.ceil, "round": np.round, "sign": np.sign, "abs": np.abs, "neg": np.negative,
    "square": np.square, "reciprocal": np.reciprocal, "isfinite": np.isfinite, "isnan": np.isnan, "isinf": np.isinf,
    "relu": lambda x: np.maximum(x, 0), "sigmoid": smooth, "softplus": lambda x: np.logaddexp(x, 0), "silu": lambda x: x * smooth(x),
    "nan_to_num": np.nan_to_num, "erfc": special, "erf": lambda x: 1 - special(x),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "power": np.power, "maximum": np.maximum,
    "minimum": np.minimum, "fmod": np.fmod, "mod": np.mod, "remainder": np.remainder, "floor_divide": np.floor_divide,
    "hypot": np.hypot, "atan2": np.arctan2, "logaddexp": np.logaddexp, "greater": np.greater, "greater_equal": np.greater_equal,
    "less": np.less, "less_equal": np.less_equal, "equal": np.equal, "not_equal": np.not_equal,
}  # fmt: skip
POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.75, 1e-3, 40.0, -40.0, 1e10, math.inf, -math.inf, math.nan]


def tolerance(dtype):
    return {"rtol": 3e-7, "atol": 1e-7} if dtype is np.float32 else {"rtol": 1e-13, "atol": 1e-15}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", UNARY)
def test_unary_functions_are_numpys(name, dtype):
    x = np.array(POINTS + list(np.linspace(-3, 3, 50)), dtype)

    def numpys(a):
        # A float32 result is the float64 one, rounded.
        with np.errstate(all="ignore"):
            if name == "nan_to_num":
                return np.nan_to_num(a)
            out = np.asarray(UNARY[name](a.astype(np.float64)))
            return out if out.dtype == bool else out.astype(dtype)

    compare(getattr(qb, name), numpys, x, **tolerance(dtype))
    assert bits(getattr(qb.array(x), name)()) == bits(getattr(qb, name)(x))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", BINARY)
def test_binary_functions_are_numpys(name, dtype):
    x, y = (a.ravel() for a in np.meshgrid(np.array(POINTS, dtype), np.array(POINTS, dtype)))
    if name == "atan2":  # two infinities: NumPy's C library has its own angle there
        keep = ~(np.isinf(x) & np.isinf(y))
        x, y = x[keep], y[keep]

    def numpys(a, b):
        with np.errstate(all="ignore"):
            if name in ("add", "sub", "mul", "div"):
                return BINARY[name](a, b)
            out = BINARY[name](a.astype(np.float64), b.astype(np.float64))
            return out if out.dtype == bool else out.astype(dtype)

    compare(getattr(qb, name), numpys, x, y, **tolerance(dtype))
    assert bits(getattr(qb.array(x), name)(y)) == bits(getattr(qb, name)(x, y))


@few
@given(st.data())
def test_operands_broadcast_as_numpys(d):
    shape, other = d.draw(shapes(0, 3, 3)), d.draw(shapes(0, 3, 3))
    x, y, z = data(shape, 0), data(other, 1), data(d.draw(shapes(0, 2, 3)), 2)
    compare(lambda a, b: a + b, lambda a, b: a + b, x, y)
    compare(qb.maximum, np.maximum, x, y)
    compare(qb.logaddexp, np.logaddexp, x, y)
    compare(lambda a, b, c: qb.where(a > 0, b, c), lambda a, b, c: np.where(a > 0, b, c), x, y, z)
    compare(lambda a, b, c: qb.clip(a, b, c), lambda a, b, c: np.clip(a, b, c), x, y, z)
    compare(lambda a: qb.clip(a, 0.5), lambda a: np.clip(a, 0.5, None), x)
    compare(lambda a: qb.clip(a, hi=0.5), lambda a: np.clip(a, None, 0.5), x)


REDUCTIONS = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "var": np.var, "std": np.std,
    "any": np.any, "all": np.all,
    "norm": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims)),
    "logsumexp": lambda x, axis, keepdims: np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims)),
}  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
@few
@given(d=st.data())
def test_reductions_are_numpys(name, d):
    x = data(d.draw(shapes(0, 4)), d.draw(st.integers(0, 9)))
    where, keep = d.draw(axes(x.ndim)), d.draw(st.booleans())
    compare(
        lambda a: getattr(qb, name)(a, axis=where, keepdims=keep),
        lambda a: REDUCTIONS[name](a, axis=where, keepdims=keep),
        x,
        rtol=1e-12,
        atol=1e-12,
    )
    if isinstance(where, tuple) and where:
        try:
            want = getattr(qb, name)(x, where, keep)
        except ValueError:
            return
        assert bits(getattr(qb.array(x), name)(list(where), keep)) == bits(want)


@few
@given(st.data())
def test_softmax_along_any_axis(d):
    x = data(d.draw(shapes(1, 3)), 3)
    where = d.draw(st.integers(-x.ndim, x.ndim - 1))
    compare(lambda a: qb.softmax(a, where), lambda a: softmax(a, where), x)
    compare(lambda a: qb.log_softmax(a, where), lambda a: np.log(softmax(a, where)), x)
    compare(lambda a: qb.var(a, where, ddof=1), lambda a: np.var(a, where, ddof=1), x) if x.shape[where] > 1 else None
    compare(lambda a: qb.std(a, where, ddof=0.5), lambda a: np.std(a, where, ddof=0.5), x)


def test_any_and_all_take_every_dtype_and_nan_is_true():
    assert qb.any([0.0, math.nan]).tolist() is True
    assert qb.all([1.0, math.nan]).tolist() is True
    assert qb.any([False, False]).tolist() is False
    assert qb.array([[True, False], [True, True]]).all(axis=0).tolist() == [True, False]
    assert (qb.any(qb.zeros((200, 3), dtype=qb.float32), axis=0).dtype, qb.all(1.0).dtype) == (qb.bool_, qb.bool_)


def test_numbers_are_weak_beside_arrays_and_float64_alone():
    x = qb.array([1.0, -2.0], dtype=qb.float32)
    for f in (qb.maximum, qb.minimum, qb.mod, qb.floor_divide, qb.logaddexp, qb.add, qb.hypot):
        assert f(x, 2).dtype is f(0.5, x).dtype is qb.float32
        assert f(1.0, 2.0).dtype is qb.float64
    assert qb.clip(x, 0, 1).dtype is qb.nan_to_num(x).dtype is qb.softplus(x).dtype is qb.float32
    assert qb.where(x > 0, x, 0).dtype is qb.float32
    assert qb.where(x > 0, 1, 0).dtype is qb.float64
    assert qb.relu(3).dtype is qb.float64


def test_bool_has_no_arithmetic():
    b = qb.array([True, False])
    for name in [
        *UNARY,
        "sum",
        "mean",
        "prod",
        "max",
        "min",
        "norm",
        "var",
        "std",
        "logsumexp",
        "softmax",
        "cumsum",
        "clip",
    ]:
        with pytest.raises(ValueError, match="astype"):
            getattr(qb, name)(b) if name != "clip" else qb.clip(b, b, b)
    for name in set(BINARY) - {"greater", "greater_equal", "less", "less_equal", "equal", "not_equal"}:
        with pytest.raises(ValueError, match="astype"):
            getattr(qb, name)(b, b)


def test_a_float_mask_selects_where_it_is_not_zero():
    assert qb.where([0.0, 2.0, math.nan], 1, 0).tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("approximate", [True, False])
def test_gelu_has_two_forms(approximate):
    x = np.linspace(-5, 5, 41)
    exact = 0.5 * x * special(-x / math.sqrt(2))
    want = UNARY["gelu"](x) if approximate else exact
    compare(lambda a: qb.gelu(a, approximate=approximate), lambda a: want, x, rtol=1e-11)


def test_nan_to_num_takes_replacements():
    x = qb.array([math.nan, math.inf, -math.inf, 1.0])
    assert qb.nan_to_num(x, nan=5, posinf=6, neginf=7).tolist() == [5.0, 6.0, 7.0, 1.0]
    assert qb.nan_to_num(x, copy=False, nan=-1.0).tolist()[0] == -1.0


def test_floor_division_and_remainder_are_operators():
    x = np.array([7.5, -7.5, 1e17])
    t = qb.array(x)
    assert (t // 2).tolist() == (x // 2).tolist()
    assert (t % -2).tolist() == (x % -2).tolist()
    assert (7.5 // t[:2]).tolist() == (7.5 // x[:2]).tolist()
    assert qb.grad(lambda v: qb.sum(v // 2))(t).tolist() == [0.0] * 3


def test_eager_composites_are_one_plan_with_the_bits_of_the_compiled_function():
    x = qb.array(np.random.default_rng(0).normal(size=(33, 50)))
    for name in (
        "softplus",
        "sigmoid",
        "silu",
        "gelu",
        "relu",
        "softmax",
        "log_softmax",
        "logsumexp",
        "norm",
        "var",
        "std",
        "prod",
    ):
        f = getattr(qb, name)
        assert bits(f(x)) == bits(qb.jit(lambda a, f=f: f(a))(x))
        assert bits(qb.vmap(f)(x)) == bits(qb.stack([f(x[i]) for i in range(33)]))
