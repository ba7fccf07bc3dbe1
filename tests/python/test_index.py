"""Basic indexing is NumPy's."""

import pytest
import quabla as qb

np = pytest.importorskip("numpy")

S = slice
KEYS = [
    0, -1, (1, 2), (1, -1), S(None), S(1, None), S(None, None, -1), S(None, None, 2), (S(None), 1), (S(None, None, -2), S(1, 3)),
    None, (None, 0), (0, None), (Ellipsis, 0), (0, Ellipsis), Ellipsis, (Ellipsis, None), (None, Ellipsis, None, S(1, 2)),
    (S(5, 0, -1), Ellipsis, S(-1, None)), (1, 2, 3), (S(0, 1), S(0, 1), S(0, 1)), (),
    (S(-100, 100), 0), (S(None, None, -1), S(None, None, -1), S(None, None, -1)), np.int64(1), (np.int32(0), S(None)),
]  # fmt: skip


@pytest.mark.parametrize("key", KEYS, ids=repr)
@pytest.mark.parametrize("kind", [np.float64, np.float32, np.bool_])
def test_eager_and_traced_indexing_agree_with_numpy(key, kind):
    a = (np.arange(6 * 4 * 5).reshape(6, 4, 5) % 7).astype(kind)
    x = qb.array(a)
    want = a[key]
    for got in (x[key], qb.jit(lambda x: x[key])(x)):
        assert got.shape == list(want.shape)
        np.testing.assert_array_equal(got.numpy(), want)


def test_figures_of_the_manual():
    x = qb.array([[1, 2, 3], [4, 5, 6]])
    assert x[1, -1].item() == 6
    assert x[::-1, 0].tolist() == [4, 1]
    assert x[None].shape == [1, 2, 3]


@pytest.mark.parametrize("key", [2, -3, (0, 3), (0, 0, 0), (Ellipsis, Ellipsis)])
def test_out_of_range_is_an_index_error(key):
    x = qb.ones((2, 3))
    with pytest.raises(IndexError):
        x[key]
    with pytest.raises(IndexError):
        qb.jit(lambda x: x[key])(x)


@pytest.mark.parametrize("key", ["a", 1.0, True, [0, 1], (0, [1])])
def test_other_keys_are_a_type_error(key):
    with pytest.raises(TypeError, match="ints, slices"):
        qb.ones((2, 3))[key]


def test_masks_and_arrays_are_no_index():
    x = qb.ones((2,))
    for key in (x > 0, x, np.array([0])):
        with pytest.raises(TypeError):
            x[key]


def test_an_empty_selection_is_refused():
    with pytest.raises(ValueError, match="selects nothing"):
        qb.ones((3,))[3:]
    with pytest.raises(ValueError):
        qb.ones((3,))[::0]


def test_len_and_iteration():
    x = qb.array([[1.0, 2.0], [3.0, 4.0]])
    assert len(x) == 2
    assert [row.tolist() for row in x] == [[1.0, 2.0], [3.0, 4.0]]
    a, b = x
    assert b.tolist() == [3.0, 4.0]
    with pytest.raises(TypeError):
        len(x[0, 0])
    with pytest.raises(TypeError):
        iter(qb.array(1.0))


def test_tracers_iterate_too():
    f = qb.jit(lambda x: qb.stack([row.sum() for row in x]) * len(x))
    assert f(qb.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [6.0, 14.0]


def test_gradients_go_back_to_their_places():
    g = qb.grad(lambda x: (x[::-2] * qb.array([1.0, 10.0])).sum() + x[1] * 5)(qb.ones((4,)))
    assert g.tolist() == [0.0, 15.0, 0.0, 1.0]


@pytest.mark.parametrize("kind", ["a Tensor", "a TensorView", "a TraceTensor"])
def test_elements_cannot_be_assigned(kind):
    def assign(x):
        x[0] = 1.0

    def delete(x):
        del x[0]

    x = qb.array([1.0, 2.0])
    for change, what in ((assign, "assigned"), (delete, "deleted")):
        with pytest.raises(TypeError, match=f"^{kind} is immutable, so elements cannot be {what}; .*quabla.where"):
            (qb.jit(change) if kind == "a TraceTensor" else change)(x.slice(0, 0, 2) if kind == "a TensorView" else x)
    assert x.tolist() == [1.0, 2.0]
