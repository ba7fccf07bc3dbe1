"""Reductions over a few elements run as additions of slices: their values are those of the order contract, bit for bit."""

import itertools

import pytest
import quabla as qb

np = pytest.importorskip("numpy")

SHAPES = [((70, k, 9), (1,)) for k in range(2, 10)]
SHAPES += [((k, 70), (0,)) for k in (2, 5, 8)]
SHAPES += [
    ((3, 2, 80), (0, 1)),
    ((9, 2, 3, 11), (1, 2)),
    ((2, 9, 4, 8), (0, 2)),
    ((80, 4), (1,)),
    ((40, 3, 2), (1, 2)),
    ((5, 1, 6), (0,)),
]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, 1e-300, -1e300]
FORMS = [(np.float64, None), (np.float32, None), (np.float32, "float32")]


def drawn(shape, dtype):
    """Normal numbers with special ones among them."""
    r = np.random.RandomState(0)
    x = r.randn(*shape)
    some = r.rand(*shape) < 0.2
    x[some] = r.choice(SPECIAL, some.sum())
    with np.errstate(over="ignore"):
        return x.astype(dtype)


def contract(x, axes, dtype):
    """Eight lanes from -0.0 on and the fixed tree, in dtype; x has at most 128 elements along the axes, in row-major order."""
    rest = [a for a in range(x.ndim) if a not in axes]
    rows = x.transpose(*axes, *rest).reshape(-1, *(x.shape[a] for a in rest)).astype(dtype)
    lanes = np.full((8, *rows.shape[1:]), -0.0, dtype)
    for k, row in enumerate(rows):
        lanes[k % 8] += row
    for half in (4, 2, 1):
        lanes = lanes[:half] + lanes[half : 2 * half]
    return lanes[0], len(rows)


@pytest.mark.parametrize("shape, axes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype, precision", FORMS, ids=["float64", "float32", "native"])
def test_sums_and_means_are_those_of_the_contract(shape, axes, dtype, precision):
    x = drawn(shape, dtype)
    with np.errstate(all="ignore"):
        total, count = contract(x, axes, np.float32 if precision else np.float64)
        want = total.astype(x.dtype), (total.astype(np.float64) / count).astype(x.dtype)
    got = qb.jit(lambda x: (qb.sum(x, axis=axes), qb.mean(x, axis=axes)), precision=precision)(qb.asarray(x))
    for g, w in zip(got, want):
        np.testing.assert_array_equal(g.numpy(), w)
        signs = ~np.isnan(w)  # of a NaN the sign says nothing
        np.testing.assert_array_equal(np.signbit(g.numpy())[signs], np.signbit(w)[signs])


@pytest.mark.parametrize("shape, axes", SHAPES, ids=str)
def test_any_and_all_over_a_few_truth_values(shape, axes):
    x = np.random.RandomState(1).rand(*shape) < 0.3
    got = qb.jit(lambda x: (qb.any(x, axis=axes), qb.all(~x, axis=axes)))(qb.asarray(x))
    np.testing.assert_array_equal(got[0].numpy(), x.any(axes))
    np.testing.assert_array_equal(got[1].numpy(), (~x).all(axes))


@pytest.mark.parametrize("k, wrt", itertools.product((2, 3, 8, 9), (0, 1)))
def test_gradients_through_a_broadcast_keep_their_masks(k, wrt):
    """The unselected 1/0 of a value that is repeated along a short axis reaches nothing, as for each of its copies alone."""
    x = qb.asarray(np.where(np.arange(9 * 20).reshape(9, 1, 20) % 3, 1.5, 0.0))
    w = qb.random.normal(qb.random.key(0), (9, k, 20))

    def f(x, w):
        return qb.sum(qb.where(x > 0.0, qb.log(x) * w, w))

    got = qb.jit(qb.grad(f, wrt))(x, w).numpy()
    parts = [qb.jit(qb.grad(f, wrt))(x, w[:, i : i + 1]).numpy() for i in range(k)]
    np.testing.assert_allclose(got, sum(parts) if wrt == 0 else np.concatenate(parts, 1), rtol=1e-13, atol=1e-15)
    twice = qb.jit(qb.grad(lambda x, w: qb.sum(qb.grad(f, wrt)(x, w) ** 2), wrt))(x, w)
    assert np.isfinite(twice.numpy()).all()
