"""Differences, integrals, polynomials and interpolation: NumPy's values, and their derivatives."""

import math

import numpy as np
import pytest
import quabla as qb
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_oracle import axis, compare, data, shapes

few = settings(max_examples=80, deadline=None)
close = {"rtol": 1e-12, "atol": 1e-12}
trapezoid = np.trapezoid if hasattr(np, "trapezoid") else np.trapz


@few
@given(st.data())
def test_diff_is_numpys(d):
    x = data(d.draw(shapes(1, 3, 5)), 1)
    n, where = d.draw(st.integers(1, 3)), d.draw(axis(x.ndim))
    compare(lambda a: qb.diff(a, n, where), lambda a: np.diff(a, n, where), x)
    compare(
        lambda a: qb.diff(a, 1, where, prepend=0.5, append=a), lambda a: np.diff(a, 1, where, prepend=0.5, append=a), x
    )


@few
@given(st.data())
def test_trapezoid_is_numpys(d):
    x = data(d.draw(shapes(1, 3, 5)), 1)
    where = d.draw(axis(x.ndim))
    if -x.ndim <= where < x.ndim and x.shape[where] > 1:
        points = np.sort(data((x.shape[where],), 2))
        compare(lambda a: qb.trapezoid(a, dx=0.25, axis=where), lambda a: trapezoid(a, dx=0.25, axis=where), x, **close)
        compare(
            lambda a, p: qb.trapezoid(a, p, axis=where), lambda a, p: trapezoid(a, p, axis=where), x, points, **close
        )
        compare(lambda a: qb.trapezoid(a, a, axis=where), lambda a: trapezoid(a, a, axis=where), x, **close)
    else:
        with pytest.raises(ValueError):
            qb.trapezoid(x, axis=where)


def test_trapezoid_is_differentiable_in_samples_points_and_step():
    y, x = qb.array([1.0, 4.0, 2.0]), qb.array([0.0, 1.0, 3.0])
    assert qb.grad(lambda a: qb.trapezoid(a, x))(y).tolist() == [0.5, 1.5, 1.0]
    assert qb.grad(lambda p: qb.trapezoid(y, p))(x).tolist() == [-2.5, -0.5, 3.0]
    assert qb.grad(lambda h: qb.trapezoid(y, dx=h))(2.0).tolist() == 5.5
    with pytest.raises(ValueError, match="2 points for 3 samples"):
        qb.trapezoid(y, [0.0, 1.0])


@few
@given(st.data())
def test_polyval_is_numpys(d):
    p, x = data((d.draw(st.integers(1, 5)),), 1), data(d.draw(shapes(0, 3)), 2)
    compare(qb.polyval, np.polyval, p, x, **close)


def test_polyval_wants_a_vector_of_coefficients():
    with pytest.raises(ValueError, match="one axis"):
        qb.polyval([[1.0]], [1.0])


@few
@given(st.data())
def test_interp_is_numpys(d):
    n = d.draw(st.integers(1, 6))
    xp = np.cumsum(np.random.default_rng(d.draw(st.integers(0, 9))).uniform(0.1, 1, n))
    fp = data((n,), 3)
    x = np.concatenate([data((7,), 4), xp, [math.nan, -math.inf, math.inf]])
    if n == 1:  # NumPy gives a constant its value at NaN too
        x = x[~np.isnan(x)]
    left, right = d.draw(st.sampled_from([(None, None), (7.0, None), (None, -3.0)]))
    compare(
        lambda a, b, c: qb.interp(a, b, c, left, right),
        lambda a, b, c: np.interp(a, b, c, left, right),
        x,
        xp,
        fp,
        **close,
    )


@pytest.mark.parametrize("mode", [lambda f: f, qb.jit], ids=["eager", "jit"])
def test_interp_is_exact_at_knots_beside_infinite_and_nan_values(mode):
    xp, inf, nan = [0.0, 1.0, 2.0], math.inf, math.nan
    x = [-1.0, 0.0, 0.5, 1.0, 1.25, 2.0, 3.0]
    for fp in (
        [1.0, 2.0, inf],
        [inf, 2.0, 3.0],
        [-inf, 1.0, inf],
        [1.0, inf, inf],
        [inf, -inf, 1.0],
        [1.0, nan, 3.0],
        [nan, 1.0, -inf],
    ):
        got = mode(lambda a, f: qb.interp(a, xp, f))(qb.array(x), qb.array(fp))
        np.testing.assert_array_equal(got, np.interp(x, xp, fp))
    slope = mode(qb.grad(lambda a, f: qb.interp(a, xp, f)))
    assert slope(qb.array(1.0), qb.array([0.0, 1.0, 4.0])).item() == 3.0
    assert slope(qb.array(0.5), qb.array([0.0, 1.0, inf])).item() == 1.0


def test_interp_of_many_points_is_the_compiled_one():
    x, xp = data((40, 50, 3), 1) * 2, np.linspace(-1.5, 1.5, 40)
    fp = np.sin(3 * xp)
    got = qb.interp(x, xp, fp)
    np.testing.assert_array_equal(got, qb.jit(qb.interp)(qb.array(x), qb.array(xp), qb.array(fp)))
    np.testing.assert_allclose(got, np.interp(x, xp, fp), rtol=1e-13, atol=1e-13)


def test_interp_keeps_shape_and_dtype():
    x = qb.array([[0.5, 1.5]], dtype=qb.float32)
    y = qb.interp(x, qb.array([0, 1, 2], dtype=qb.float32), qb.array([0, 10, 40], dtype=qb.float32))
    assert (y.shape, y.dtype, y.tolist()) == ([1, 2], qb.float32, [[5.0, 25.0]])
    for xp, fp in [
        ([1.0, 1.0], [0.0, 1.0]),
        ([1.0, 0.0], [0.0, 1.0]),
        ([0.0, 1.0], [1.0]),
        ([[0.0, 1.0]], [[0.0, 1.0]]),
    ]:
        with pytest.raises(ValueError, match="interp"):
            qb.interp(0.5, xp, fp)


def test_interp_has_exact_gradients_between_knots():
    xp, fp = qb.array([0.0, 1.0, 3.0]), qb.array([1.0, 2.0, 8.0])

    def f(x, p, v):
        return qb.sum(qb.interp(x, p, v) ** 2)

    x = qb.array([0.25, 2.0, 5.0, -1.0])
    got = qb.grad(f, argnums=(0, 1, 2))(x, xp, fp)
    args, h = [np.asarray(a) for a in (x, xp, fp)], 1e-6
    for k in range(3):
        for i in range(len(args[k])):
            e = [a.copy() for a in args]
            e[k][i] += h
            up = float(f(*map(qb.array, e)))
            e[k][i] -= 2 * h
            near = (up - float(f(*map(qb.array, e)))) / (2 * h)
            assert abs(near - float(got[k][i])) < 1e-6 * max(1, abs(near))
