"""Which float32 and which exact results an op gives: those of float64, rounded once."""

import math

import numpy as np
import pytest
import quabla as qb

NAN, INF, F32 = math.nan, math.inf, np.float32
ROWS = [r for r in qb._core._ops() if r["elementwise"] and r["name"] != "cast" and "logical" not in r["name"]]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r["name"])
def test_a_float32_op_is_the_float64_result_rounded(row):
    f = (lambda x: qb.powi(x, 3)) if row["name"] == "powi" else getattr(qb, row["name"])
    r = np.random.default_rng(0)
    special = np.array([0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 3.4e38, 1e-45, 0.5, 2.0], F32)
    args = [
        np.concatenate([r.permutation(special), (r.normal(size=2000) * 10.0 ** r.uniform(-3, 3, 2000)).astype(F32)])
        for _ in range(row["arity"])
    ]
    with np.errstate(all="ignore"):
        want = np.asarray(f(*[a.astype(np.float64) for a in args]))
        want = want if want.dtype == bool else want.astype(F32)
    got = np.asarray(f(*args))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_plus_minus_times_divide_and_sqrt_are_ieee_float32():
    r = np.random.default_rng(1)
    x, y = (r.integers(0, 2**32, 20000, dtype=np.uint64).astype(np.uint32).view(F32) for _ in range(2))
    with np.errstate(all="ignore"):
        for got, want in [
            (qb.add(x, y), x + y),
            (qb.sub(x, y), x - y),
            (qb.mul(x, y), x * y),
            (qb.div(x, y), x / y),
            (qb.sqrt(x), np.sqrt(x)),
        ]:
            np.testing.assert_array_equal(np.asarray(got), want)


def test_exp2_is_exact_for_every_integer():
    n = np.arange(-1074, 1024)
    np.testing.assert_array_equal(np.asarray(qb.exp2(n)), np.ldexp(1.0, n))
