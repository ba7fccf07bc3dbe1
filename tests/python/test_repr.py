"""Printing is NumPy's, with the dtype always there."""

import math

import pytest
import quabla as qb

np = pytest.importorskip("numpy")


def expected(a):
    """NumPy's own text of the elements, with our name and dtype around it."""
    text = "Tensor(" + np.array2string(a, separator=", ", prefix="Tensor(", suffix=",") + ","
    dtype = f"dtype={a.dtype.name})"
    last = len(text) - (text.rfind("\n") + 1)
    return text + ("\n" + " " * 7 if last + len(dtype) + 1 > 75 else " ") + dtype


def test_figures_of_the_manual():
    assert repr(qb.array([1.0, 2.0], dtype=qb.float32)) == "Tensor([1., 2.], dtype=float32)"
    assert repr(qb.array([True, False])) == "Tensor([ True, False], dtype=bool)"
    assert repr(qb.array(3.5)) == "Tensor(3.5, dtype=float64)"
    assert repr(qb.array(True)) == "Tensor(True, dtype=bool)"
    assert str(qb.array(0.95885108)) == "Tensor(0.95885108, dtype=float64)"


CASES = [
    [0.0, -0.0], [1.0, math.nan], [math.inf, -math.inf, 1.5], [math.nan], [1e-5], [1e-4, 1.0], [1e8], [99999999.0], [0.1 + 0.2],
    [123456.789, 1.0], [1000.0, 1.0], [1001.0, 1.0], [5e-324], [1.7976931348623157e308], [-1e-300, 1e300], [1.0, -2.5, 3.25],
    [1 / 3] * 9, [[1 / 3] * 4] * 3, [0.5], [1e-10, math.nan, math.inf], [-1e10, math.nan], [[True, False], [False, False]],
    [2.0**k for k in range(-30, 30)], [12345678.12345678], [1.00000000001, 2.0], [0.99999999999], [9.999999999e7],
]  # fmt: skip


@pytest.mark.parametrize("data", CASES, ids=lambda c: str(c)[:40])
def test_text_equals_numpys(data):
    a = np.array(data)
    assert repr(qb.array(a)) == expected(a)
    if a.dtype == float:
        keep = (np.abs(a) < 1e6) | (
            (np.abs(a) >= 1e8) & (np.abs(a) < 3e38)
        )  # between, NumPy versions differ for float32
        b = a[keep].astype(np.float32)
        if b.size:
            assert repr(qb.array(b)) == expected(b)


@pytest.mark.parametrize(
    "shape", [(1,), (40,), (1000,), (1001,), (3, 400), (2, 3, 4), (20, 60), (7, 7, 7, 7), (2000, 2), (1, 1, 1)]
)
@pytest.mark.parametrize("kind", ["f32", "f64", "bool"])
def test_layout_equals_numpys(shape, kind):
    r = np.random.RandomState(0)
    for scale in (1.0, 1e-6, 300.0):
        a = r.randn(*shape) * scale
        a = a > 0 if kind == "bool" else a.astype(np.float32 if kind == "f32" else np.float64)
        assert repr(qb.array(a)) == expected(a)


def test_shortest_digits_of_random_bits():
    r = np.random.RandomState(1)
    for _ in range(200):
        a = r.randint(0, 2**32, size=5, dtype=np.uint64).astype(np.uint32).view(np.float32)
        big = np.abs(a[np.isfinite(a)])
        if not (big.size and 1e6 <= big.max() < 1e8):  # NumPy versions differ there
            assert repr(qb.array(a)) == expected(a)
        b = (r.randint(0, 2**63, size=5, dtype=np.uint64) * 2 + r.randint(0, 2, size=5).astype(np.uint64)).view(
            np.float64
        )
        assert repr(qb.array(b)) == expected(b)


def test_a_float32_array_turns_scientific_at_1e8():
    assert repr(qb.array([5e7], dtype=qb.float32)) == "Tensor([50000000.], dtype=float32)"
    assert repr(qb.array([1e8], dtype=qb.float32)) == "Tensor([1.e+08], dtype=float32)"


def test_tracer_text():
    seen = []
    qb.jit(lambda x: seen.append((repr(x), x.node_id)) or x)(qb.ones((2,), dtype=qb.float32))
    text, node_id = seen[0]
    assert text == f"TraceTensor(node_id={node_id}, shape=[2], dtype=float32)"


def generated(r):
    """An array of random shape, magnitude and mix of special values."""
    rank = r.integers(0, 5)
    shape = tuple(int(n) for n in r.choice([1, 1, 2, 3, 4, 7, 11, 40], rank))
    if r.random() < 0.1:
        shape = (
            (int(r.choice([999, 1000, 1001, 3000])),)
            if r.random() < 0.5
            else (int(r.choice([2, 30, 400])), int(r.choice([4, 40])))
        )
    kind = r.integers(0, 8)
    if kind == 0:
        return np.asarray(r.random(shape) < 0.5)
    a = np.asarray(r.normal(size=shape))
    scale = 10.0 ** r.uniform(-12, 12) if kind < 4 else 10.0 ** r.uniform(-3, 3)
    a = np.asarray(a * scale)
    if kind == 5:
        a = np.round(a, int(r.integers(0, 4)))
    if kind == 6:
        a = np.asarray(a * 10.0 ** np.round(r.uniform(-6, 6, shape)))
    for value in (math.nan, math.inf, -math.inf, 0.0, -0.0):
        if r.random() < 0.15:
            a = np.where(r.random(shape) < 0.2, value, a)
    # Where the largest of the elements shown is between 1e6 and 1e8, NumPy versions differ for float32.
    most = np.max(np.abs(a[np.isfinite(a)]), initial=0)
    single = r.random() < 0.4 and (most < 1e6 * (1 - 1e-7) or (most >= 1e8 and a.size <= 1000))
    return np.asarray(a, np.float32 if single else np.float64)


@pytest.mark.parametrize("seed", range(8))
def test_text_of_generated_arrays_equals_numpys(seed):
    r = np.random.default_rng(seed)
    for _ in range(500):
        a = generated(r)
        assert repr(qb.array(a)) == expected(a), (a.shape, a.dtype)
