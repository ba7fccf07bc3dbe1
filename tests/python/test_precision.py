"""precision="float32": float32 programs computed in float32. None and "float64" are the program as written."""

import numpy as np
import pytest
import quabla as qb

FUNCTIONS = ("exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sin", "cos", "sinh", "cosh", "tanh")


def data(*shape, seed=0, dtype=np.float32):
    return qb.array(np.random.default_rng(seed).normal(size=shape).astype(dtype))


def as_bytes(tree):
    return [leaf.numpy().tobytes() for leaf in qb.tree.leaves(tree)]


def both(fun, *args):
    """Results in the default and in native float32, as lists of arrays."""
    results = (qb.jit(fun)(*args), qb.jit(fun, precision="float32")(*args))
    return [[leaf.numpy() for leaf in qb.tree.leaves(r)] for r in results]


def assert_near(fun, *args, tolerance=1e-5):
    for default, native in zip(*both(fun, *args)):
        assert native.dtype == np.float32
        np.testing.assert_allclose(native, default, rtol=tolerance, atol=tolerance * np.abs(default).max())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_within_3_ulp_of_the_default(name):
    x = np.concatenate([np.linspace(1e-3, 20, 5001), [1e-30, 80.0]]).astype(np.float32)
    default, native = (r[0] for r in both(getattr(qb, name), qb.array(x)))
    assert np.all(np.abs(native - default) <= 3 * np.spacing(np.abs(default)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_points_stay(name):
    x = qb.array(np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1000.0, -1000.0, -1.0], np.float32))
    default, native = (r[0] for r in both(getattr(qb, name), x))
    special = ~np.isfinite(default) | (default == 0)
    assert np.array_equal(native[special], default[special], equal_nan=True)
    assert np.array_equal(
        np.signbit(native[special & ~np.isnan(default)]), np.signbit(default[special & ~np.isnan(default)])
    )


def test_a_function_that_has_no_float32_form_is_the_default():
    def f(x):
        return qb.erf(x), qb.arctan(x), qb.tan(x), qb.sqrt(qb.abs(x)), x / (x + 3)

    default, native = both(f, data(777))
    assert all(np.array_equal(a, b) for a, b in zip(default, native))


def test_a_product_is_a_chain_in_float32():
    a, b = data(3, 100), data(100, 5, seed=1)
    got = qb.jit(qb.matmul, precision="float32")(a, b).numpy()
    x, y = a.numpy().astype(np.float64), b.numpy().astype(np.float64)
    want = np.zeros((3, 5), np.float32)
    for k in range(100):  # a float64 product of float32 numbers is exact: one rounding, as in fma
        want = (want + x[:, k : k + 1] * y[k : k + 1]).astype(np.float32)
    np.testing.assert_allclose(got, want, rtol=0, atol=np.spacing(np.float32(8)))
    assert not np.array_equal(got, qb.matmul(a, b).numpy())


def test_a_sum_has_eight_lanes_in_float32():
    x = data(100)
    lanes = np.zeros(8, np.float32)
    for k, v in enumerate(x.numpy()):
        lanes[k % 8] += v
    four = lanes[:4] + lanes[4:]
    two = four[:2] + four[2:]
    assert qb.jit(qb.sum, precision="float32")(x).item() == two[0] + two[1]


def test_long_sums_and_products_stay_accurate():
    assert_near(lambda x: (qb.sum(x), qb.mean(x)), qb.array(np.full(1_000_003, 0.1, np.float32)), tolerance=1e-6)
    assert_near(lambda x: x.T @ x, data(20_000, 3))


def test_reductions_over_any_axis_are_near_the_default():
    x = data(150, 33, 7)
    assert_near(lambda x: [qb.sum(qb.exp(x), axis=a) for a in (0, 1, 2, (0, 1), (1, 2), None)], x)
    assert_near(lambda x: [qb.mean(x, axis=a) for a in (0, 1, 2, None)], x)
    assert_near(lambda x: [qb.max(x, axis=0), qb.min(x, axis=2)], x, tolerance=0)


def test_derivatives_and_loops_are_native_too():
    w = data(12, 12) * 0.3

    def loss(w, x):
        h = qb.fori_loop(0, 4, lambda i, h: qb.tanh(h @ w), x)
        return qb.mean(h**2)

    x = data(300, 12, seed=2)
    assert_near(qb.value_and_grad(loss), w, x)
    default, native = both(qb.value_and_grad(loss), w, x)
    assert not np.array_equal(default[1], native[1])


def test_float64_values_of_the_program_stay_float64():
    def f(x, y):
        return qb.sum(qb.exp(x)), qb.exp(y)

    x, y = data(1000, dtype=np.float64), data(1000)
    default, native = both(f, x, y)
    assert np.array_equal(default[0], native[0])
    assert native[0].dtype == np.float64
    assert not np.array_equal(default[1], native[1])


def test_float64_is_the_program_as_written():
    x = data(1000)
    assert as_bytes(qb.jit(qb.exp, precision="float64")(x)) == as_bytes(qb.exp(x))


def test_precisions_of_one_function_do_not_share_traces():
    x, results = data(1000), {}
    for precision in (None, "float32", "float64", None, "float32"):
        results.setdefault(precision, []).append(as_bytes(qb.jit(qb.exp, precision=precision)(x)))
    assert results[None] == [results["float64"][0]] * 2
    assert results["float32"][0] == results["float32"][1] != results[None][0]


@pytest.mark.parametrize("precision", ["float16", "FLOAT32", "", 32])
def test_another_precision_is_a_value_error(precision):
    with pytest.raises(ValueError, match="precision is None, 'float32' or 'float64'"):
        qb.jit(lambda x: x, precision=precision)(data(3))
    with pytest.raises(ValueError, match="precision is None, 'float32' or 'float64'"):
        qb.optim.Trainer(lambda p: qb.sum(p**2), data(3), qb.optim.Adam(0.1), precision=precision).step()


def test_a_trainer_trains_in_float32():
    x = qb.linspace(-1, 1, 500).astype(qb.float32).reshape([500, 1])

    def loss(p, x):
        return qb.mean((qb.tanh(x @ p[0]) @ p[1] - qb.sin(3 * x)) ** 2)

    results = []
    for precision in (None, "float32"):
        trainer = qb.optim.Trainer(
            loss, [data(1, 16), data(16, 1, seed=1)], qb.optim.Adam(0.02), x, precision=precision
        )
        trainer.run(200)
        results.append(trainer.loss().item())
    assert results[0] != results[1]
    assert results[1] < 0.01
    assert abs(results[0] - results[1]) < 0.05 * results[0]
