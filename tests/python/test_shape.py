"""Functions that move elements do what NumPy's do, for any shape, axis and dtype, eager and compiled, and are differentiable."""

import numpy as np
import pytest
import quabla as qb
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_oracle import axes, axis, bits, compare, data, shapes

DTYPES = st.sampled_from([np.float64, np.float32, bool])
few = settings(max_examples=80, deadline=None)


@st.composite
def arrays(draw, least=0, most=4, length=4):
    return data(draw(shapes(least, most, length)), draw(st.integers(0, 9)), draw(DTYPES))


@few
@given(st.data())
def test_axes_move_as_numpys(d):
    x = d.draw(arrays())
    source, destination = d.draw(axes(x.ndim)), d.draw(axes(x.ndim))
    if source is not None and destination is not None:
        compare(lambda a: qb.moveaxis(a, source, destination), lambda a: np.moveaxis(a, source, destination), x)
    i, j = d.draw(axis(x.ndim)), d.draw(axis(x.ndim))
    compare(lambda a: qb.swapaxes(a, i, j), lambda a: np.swapaxes(a, i, j), x)
    order = d.draw(st.permutations(range(x.ndim)))
    compare(lambda a: qb.transpose(a, order), lambda a: np.transpose(a, order), x)
    compare(lambda a: a.T, lambda a: a.T, x)


@few
@given(st.data())
def test_axes_of_length_one_come_and_go_as_numpys(d):
    x = d.draw(arrays())
    new = d.draw(
        st.integers(-x.ndim - 2, x.ndim + 1) | st.lists(st.integers(-x.ndim - 3, x.ndim + 2), max_size=3).map(tuple)
    )
    compare(lambda a: qb.expand_dims(a, new), lambda a: np.expand_dims(a, new), x)
    gone = d.draw(axes(x.ndim))
    compare(lambda a: qb.squeeze(a, gone), lambda a: np.squeeze(a, gone), x)
    compare(qb.ravel, np.ravel, x)
    compare(
        lambda a: qb.reshape(a, (-1, x.shape[0] if x.ndim else 1)),
        lambda a: a.reshape(-1, x.shape[0] if x.ndim else 1),
        x,
    )


@few
@given(st.data())
def test_flip_and_roll_are_numpys(d):
    x = d.draw(arrays(least=1))
    where = d.draw(axes(x.ndim))
    compare(lambda a: qb.flip(a, where), lambda a: np.flip(a, where), x)
    shift = d.draw(st.integers(-9, 9) | st.lists(st.integers(-9, 9), min_size=1, max_size=3).map(tuple))
    compare(lambda a: qb.roll(a, shift, where), lambda a: np.roll(a, shift, where), x)


@few
@given(st.data())
def test_split_is_numpys(d):
    x = d.draw(arrays(least=1))
    cuts = d.draw(st.integers(-1, 5) | st.lists(st.integers(-5, 5), max_size=3))
    where = d.draw(axis(x.ndim))
    try:
        parts = np.split(x, cuts, where)
    except (ValueError, IndexError, ZeroDivisionError):
        parts = None
    if parts is None or any(p.size == 0 for p in parts):
        with pytest.raises(ValueError):
            qb.split(x, cuts, where)
        return
    compare(lambda a: qb.split(a, cuts, where), lambda a: np.split(a, cuts, where), x)


@few
@given(st.data())
def test_repeat_and_tile_are_numpys(d):
    x = d.draw(arrays())
    where = d.draw(st.none() | axis(x.ndim))
    n = x.size if where is None else x.shape[where] if -x.ndim <= where < x.ndim else 1
    counts = d.draw(st.integers(-1, 3) | st.lists(st.integers(0, 3), min_size=n, max_size=n))
    compare(lambda a: qb.repeat(a, counts, where), lambda a: np.repeat(a, counts, where), x)
    reps = d.draw(st.integers(0, 3) | st.lists(st.integers(0, 3), max_size=5).map(tuple))
    compare(lambda a: qb.tile(a, reps), lambda a: np.tile(a, reps), x)


@few
@given(st.data())
def test_pad_is_numpys(d):
    x = d.draw(arrays(least=1, most=3))
    width = st.integers(0, 9)
    widths = d.draw(
        width | st.tuples(width, width) | st.lists(st.tuples(width, width), min_size=x.ndim, max_size=x.ndim)
    )
    mode = d.draw(st.sampled_from(["edge", "reflect", "symmetric", "wrap"]))
    compare(lambda a: qb.pad(a, widths, mode), lambda a: np.pad(a, widths, mode), x)
    value = st.sampled_from([0, 1, 2])
    values = d.draw(
        value | st.tuples(value, value) | st.lists(st.tuples(value, value), min_size=x.ndim, max_size=x.ndim)
    )
    compare(
        lambda a: qb.pad(a, widths, constant_values=values),
        lambda a: np.pad(a, widths, "constant", constant_values=values),
        x,
    )


@few
@given(st.data())
def test_diagonals_are_numpys(d):
    x = d.draw(arrays(least=1, most=4))
    k = d.draw(st.integers(-4, 4))
    if x.ndim <= 2:
        compare(lambda a: qb.diag(a, k), lambda a: np.diag(a, k), x)
    if x.ndim >= 2:
        i, j = d.draw(axis(x.ndim)), d.draw(axis(x.ndim))
        compare(lambda a: qb.diagonal(a, k, i, j), lambda a: np.diagonal(a, k, i, j), x)
        if x.dtype != bool and -x.shape[0] < k < x.shape[1]:
            compare(lambda a: qb.trace(a, k), lambda a: np.trace(a, k), x, rtol=1e-6)
        compare(lambda a: qb.tril(a, k), lambda a: np.tril(a, k), x)
        compare(lambda a: qb.triu(a, k), lambda a: np.triu(a, k), x)


@few
@given(st.data())
def test_joining_is_numpys(d):
    shape = d.draw(shapes(1, 3))
    dtype = d.draw(DTYPES)
    xs = [data(shape, k, dtype) for k in range(d.draw(st.integers(1, 3)))]
    where = d.draw(axis(len(shape)))
    compare(lambda *a: qb.concat(a, where), lambda *a: np.concatenate(a, where), *xs)
    compare(lambda *a: qb.stack(a, where), lambda *a: np.stack(a, where), *xs)


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_meshgrid_is_numpys(indexing, count):
    xs = [data((k + 2,), k) for k in range(count)]
    compare(lambda *a: qb.meshgrid(*a, indexing=indexing), lambda *a: np.meshgrid(*a, indexing=indexing), *xs)


def test_broadcast_to_is_numpys():
    for shape, to in [((3, 1), (2, 3, 4)), ((), (2,)), ((1,), (3,)), ((3,), (2,)), ((2, 3), (3,))]:
        compare(lambda a, to=to: qb.broadcast_to(a, to), lambda a, to=to: np.broadcast_to(a, to), data(shape))


# ---- indices ----


def test_gather_of_the_manual():
    x = qb.array([[1, 2, 3], [4, 5, 6]])
    assert x.gather([2, 0], axis=1).tolist() == [[3, 1], [6, 4]]
    assert qb.zeros((3,)).scatter_add([0, 2, 0], [1, 2, 3]).tolist() == [4, 0, 2]


@few
@given(st.data())
def test_gather_is_numpys_take(d):
    x = d.draw(arrays(least=1))
    where = d.draw(st.integers(-x.ndim, x.ndim - 1))
    n = x.shape[where]
    indices = d.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=6))
    compare(lambda a: qb.gather(a, indices, where), lambda a: np.take(a, indices, where), x)


@few
@given(st.data())
def test_scatter_add_is_numpys_add_at(d):
    x = data(d.draw(shapes(1, 3)), dtype=d.draw(st.sampled_from([np.float32, np.float64])))
    where = d.draw(st.integers(0, x.ndim - 1))
    n = x.shape[where]
    indices = d.draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=6))
    u = data((*x.shape[:where], len(indices), *x.shape[where + 1 :]), 5, x.dtype)

    def at(a, b):
        out = np.moveaxis(a.copy(), where, 0)
        np.add.at(out, indices, np.moveaxis(b, where, 0))
        return np.moveaxis(out, 0, where)

    compare(lambda a, b: qb.scatter_add(a, indices, b, where), at, x, u, rtol=0, atol=0)


def test_gather_and_scatter_add_are_each_others_derivative():
    x, u = qb.array([1.0, 2.0, 3.0]), qb.array([5.0, 7.0])
    picked, pull = qb.vjp(lambda a: a.gather([2, 2]), x)
    assert picked.tolist() == [3.0, 3.0]
    assert pull(u)[0].tolist() == [0.0, 0.0, 12.0]
    _, pull = qb.vjp(lambda a, b: a.scatter_add([1, 1], b), x, u)
    assert [g.tolist() for g in pull(x)] == [[1.0, 2.0, 3.0], [2.0, 2.0]]
    assert "gather(%0, axis=0, indices=[1, 0])" in qb.jit(lambda a: a.gather([1, 0])).lower(x).as_text()
    text = qb.jit(lambda a, b: a.scatter_add([0, 0], b)).lower(x, u).as_text()
    assert "scatter_add(%0, %1, axis=0, indices=[0, 0])" in text


def test_indices_out_of_range_are_index_errors():
    x = qb.zeros((3, 2))
    for indices, where in [([3], 0), ([-4], 0), ([2], 1), ([10**30], 0)]:
        with pytest.raises(IndexError, match="gather: index"):
            x.gather(indices, where)
    with pytest.raises(ValueError, match="empty list"):
        x.gather([])
    for wrong in ([0.5], "0", 0, [True], [qb.array(1.0)]):
        with pytest.raises(TypeError):
            x.gather(wrong)
    with pytest.raises(ValueError, match="axis 2"):
        x.gather([0], 2)
    with pytest.raises(qb.TracerError, match="indices are fixed"):
        qb.jit(lambda i: x.gather(i))(qb.array([1.0]))


def test_many_indices_are_not_kept_in_a_cache():
    x = qb.arange(10)
    indices = [i % 10 for i in range(20000)]
    assert x.gather(indices).tolist() == [float(i) for i in indices]
    assert bits(qb.jit(lambda a: a.gather(indices))(x)) == bits(x.gather(indices))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("reverse", [False, True])
def test_cumsum_is_numpys(dtype, reverse):
    x = np.random.default_rng(0).normal(size=(3, 70, 4)).astype(dtype)
    for where in (None, 0, 1, 2, -1):

        def numpys(a, where=where):
            if not reverse:
                return np.cumsum(a, where)
            a, i = (a.ravel(), 0) if where is None else (a, where)
            return np.flip(np.cumsum(np.flip(a, i), i), i)

        compare(lambda a, where=where: qb.cumsum(a, where, reverse), numpys, x, rtol=0, atol=0)


def test_shape_functions_are_differentiable_to_second_order():
    x = qb.array(data((3, 3), 1) + 0.1)

    def f(a):
        parts = [
            qb.flip(a, 0),
            qb.roll(a, 1, 1),
            qb.gather(a, [2, 0, 2]),
            qb.pad(a, 1, "reflect")[:3, 1:4],
            qb.tril(a),
            qb.diag(qb.diagonal(a)),
            qb.repeat(a, [1, 0, 2], 0),
            qb.tile(a, 2)[:, 1:4],
            qb.cumsum(a, 1, reverse=True),
            qb.moveaxis(a, 0, 1),
        ]
        return qb.sum(qb.stack([qb.sum(p**3) for p in parts]))

    n = np.asarray(x)
    h = 1e-5
    got = np.asarray(qb.grad(f)(x))
    second = np.asarray(qb.jvp(qb.grad(f), (x,), (qb.ones_like(x),))[1])
    for index in np.ndindex(3, 3):
        e = np.zeros((3, 3))
        e[index] = h
        near = (float(f(qb.array(n + e))) - float(f(qb.array(n - e)))) / (2 * h)
        assert abs(near - got[index]) < 1e-6 * max(1, abs(near))
    up, down = (np.asarray(qb.grad(f)(qb.array(n + s * h))) for s in (1, -1))
    np.testing.assert_allclose(second, (up - down) / (2 * h), rtol=1e-6, atol=1e-6)


def test_shape_functions_batch_as_a_loop():
    x = qb.array(data((4, 3, 3), 1))
    for f in (
        lambda a: qb.roll(a, 1),
        lambda a: qb.pad(a, 2, "wrap"),
        lambda a: qb.diagonal(a, 1),
        lambda a: qb.triu(a),
        lambda a: qb.repeat(a, 2, 0),
        lambda a: qb.einsum("ii", a),
        lambda a: a.gather([1, 1]),
        lambda a: a.scatter_add([0, 0], a[:2]),
        lambda a: qb.cumsum(a),
    ):
        assert bits(qb.vmap(f)(x)) == bits(qb.stack([f(x[i]) for i in range(4)]))
