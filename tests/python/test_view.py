"""TensorView: some elements of a Tensor, not copied."""

import copy
import hashlib
import pickle

import numpy as np
import pytest
import quabla as qb

DATA = np.arange(12.0).reshape(3, 4)


def views():
    x = qb.array(DATA)
    return [
        (x.slice(1, 1, 2), DATA[:, 1:3]),
        (x.slice(0, 2, 2, -1), DATA[2:0:-1]),
        (x.slice(1, 0, 2, step=3), DATA[:, ::3]),
        (x.slice(0, 0, 2).slice(1, 3, 3, -1), DATA[:2, :0:-1]),
        (qb.array(DATA > 5, dtype=qb.bool_).slice(0, 1, 1), DATA[1:2] > 5),
        (qb.array(DATA, dtype=qb.float32).slice(-1, 3, 1), DATA[:, 3:].astype(np.float32)),
    ]


def test_a_view_says_where_its_elements_are():
    v = qb.array([[1, 2, 3], [4, 5, 6]]).slice(1, 1, 2)
    assert (v.shape, v.strides, v.offset, v.ndim, v.size, v.dtype) == ([2, 2], [3, 1], 1, 2, 4, qb.float64)
    assert repr(v) == "TensorView(shape=[2, 2], strides=[3, 1])"
    assert isinstance(v, qb.TensorView) and isinstance(v, qb.Array)
    assert v.to_flat_list() == [2.0, 3.0, 5.0, 6.0]
    assert v.to_tensor().tolist() == v.tolist() == [[2.0, 3.0], [5.0, 6.0]]


@pytest.mark.parametrize("v, want", views())
def test_elements_are_those_of_the_slice(v, want):
    np.testing.assert_array_equal(v.to_tensor().numpy(), want)
    np.testing.assert_array_equal(np.asarray(v), want)
    assert v.to_flat_list() == want.ravel().tolist()
    assert [list(map(float, row.to_flat_list())) for row in v] == want.astype(float).tolist()
    assert (len(v), v[0].shape) == (len(want), list(want[0].shape))


def test_the_buffer_is_the_tensors_own_and_read_only():
    x = qb.array(DATA)
    m = memoryview(x.slice(0, 2, 2, -2))
    assert (m.format, m.shape, m.strides, m.readonly) == ("d", (2, 4), (-64, 8), True)
    a = np.asarray(x.slice(1, 1, 2))
    assert np.shares_memory(a, x.numpy()) and not a.flags.writeable
    with pytest.raises(BufferError, match="strides"):
        hashlib.sha256(x.slice(1, 0, 2))


@pytest.mark.parametrize("v, want", views()[:4])
def test_functions_and_operators_take_views(v, want):
    assert qb.sum(v).tolist() == want.sum()
    assert qb.concat([v, v], 0).tolist() == np.concatenate([want, want]).tolist()
    assert qb.reshape(v, -1).tolist() == want.ravel().tolist()
    for got, expected in [(v + 1, want + 1), (2 - v, 2 - want), (-v, -want), (v / (v + 1), want / (want + 1)), (abs(v), want), (v < 5, want < 5),
                          (v**2, want**2), (v % 3, want % 3), (+v, want)]:  # fmt: skip
        np.testing.assert_array_equal(np.asarray(got), expected)
    assert isinstance(v * v, qb.Tensor)
    assert qb.jit(lambda a: a * 2)(v).tolist() == (want * 2).tolist()
    assert qb.jit(lambda a: a * v)(want).tolist() == (want * want).tolist()
    assert qb.grad(lambda a: qb.sum(a * v))(qb.array(want)).tolist() == want.tolist()


def test_a_view_of_one_element_is_a_number():
    v = qb.array([1.0, 2.0]).slice(0, 1, 1)
    assert (float(v), bool(v), bool(qb.array([0.0]).slice(0, 0, 1))) == (2.0, True, False)
    assert copy.deepcopy(v) is v
    assert (int(v), f"{v:.2f}", round(qb.array([2.5]).slice(0, 0, 1)).item(), v.item()) == (2, "2.00", 2.0, 2.0)
    for array in (v, v.to_tensor()):
        with pytest.raises(TypeError):
            array.__format__(None)
    with pytest.raises(ValueError, match="one element"):
        int(qb.array([49.0, 50.0]).slice(0, 0, 2))


@pytest.mark.parametrize(("v", "want"), views())
def test_methods_are_those_of_the_tensor(v, want):
    assert v.astype(qb.float64).sum(axis=0).tolist() == want.sum(0, dtype=float).tolist()
    assert v.T.tolist() == want.T.tolist() and v.reshape(-1).tolist() == want.ravel().tolist()
    assert np.from_dlpack(v).tolist() == qb.from_dlpack(v).tolist() == want.tolist()
    assert np.sum(v) == want.sum() and np.stack([v, v]).shape == (2, *want.shape)
    back = pickle.loads(pickle.dumps(v))
    assert type(back) is qb.Tensor and back.dtype is v.dtype and back.tolist() == want.tolist()
    with pytest.raises(AttributeError, match="'quabla.TensorView' object has no attribute 'foo'"):
        v.foo  # noqa: B018


def test_equality_is_identity():
    v = qb.array([1.0, 2.0]).slice(0, 0, 1)
    assert v == v and v != qb.array([1.0, 2.0]).slice(0, 0, 1) and len({v, v}) == 1


@pytest.mark.parametrize(
    "args, error",
    [((2, 0, 1), ValueError), ((0, 0, 0), ValueError), ((0, 0, 1, 0), ValueError), ((0, 3, 1), IndexError), ((0, 0, 4), IndexError),
     ((0, 2, 2, 1), IndexError), ((0, -1, 1), IndexError), ((0, 0, 2**62, 4), IndexError), ((0.0, 0, 1), TypeError), ((0, 0), TypeError)],
)  # fmt: skip
def test_slices_outside_the_array_are_refused(args, error):
    x = qb.array(DATA)
    for target in (x, x.slice(0, 0, 3)):
        with pytest.raises(error):
            target.slice(*args)


def test_a_traced_slice_is_a_node():
    text = qb.jit(lambda x: x.slice(0, 0, 1)).lower(qb.ones((3,))).as_text()
    assert "slice(%0, axis=0, start=0, length=1)" in text


# ---- DLPack ----


def test_the_step_of_one_element_may_be_beyond_any_memory():
    x = qb.array(DATA)
    for step in (2**62, -(2**62), 2**63 - 1):
        v = x.slice(0, 1, 1, step)
        assert v.strides == [4, 1] and v.tolist() == [DATA[1].tolist()]
        assert x[1::step].tolist() == DATA[1 :: np.sign(step) * 100].tolist()
    assert x.slice(1, 0, 1, 10).strides == [4, 10]


def test_dlpack_goes_to_numpy_and_back():
    for x in (qb.array(DATA), qb.array([1.5], dtype=qb.float32), qb.array([[True, False]]), qb.array(2.0)):
        a = np.from_dlpack(x)
        assert np.array_equal(a, x.numpy()) and a.dtype == x.numpy().dtype
        y = qb.from_dlpack(a)
        assert (y.dtype, y.shape, y.tolist()) == (x.dtype, x.shape, x.tolist())
    assert x.__dlpack_device__() == (1, 0)
    assert np.shares_memory(np.from_dlpack(x), x.numpy())


def test_dlpack_imports_strides_and_copies():
    a = DATA.copy()
    x = qb.from_dlpack(a[::-1, ::2])
    a[...] = 0
    assert x.tolist() == DATA[::-1, ::2].tolist()


def test_dlpack_gives_older_consumers_a_copy():
    x = qb.array(DATA)
    y = qb.from_dlpack(Wrapper(x.__dlpack__()))
    assert y.tolist() == x.tolist()
    with pytest.raises(BufferError, match="without a copy"):
        x.__dlpack__(copy=False)
    assert qb.from_dlpack(Wrapper(x.__dlpack__(max_version=(1, 0), copy=True))).tolist() == x.tolist()


class Wrapper:
    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self):
        return self.capsule


def test_dlpack_refuses_what_it_cannot_hold():
    with pytest.raises(TypeError, match="no __dlpack__"):
        qb.from_dlpack([1.0])
    with pytest.raises(TypeError, match="32 bits"):
        qb.from_dlpack(np.zeros(3, np.int32))
    with pytest.raises(ValueError, match="length 0"):
        qb.from_dlpack(np.zeros((2, 0)))
    with pytest.raises(TypeError, match="fresh DLPack capsule"):
        qb.from_dlpack(Wrapper(3))
    used = qb.array([1.0]).__dlpack__()
    qb.from_dlpack(Wrapper(used))
    with pytest.raises(TypeError, match="fresh DLPack capsule"):
        qb.from_dlpack(Wrapper(used))
    with pytest.raises(BufferError, match="on the CPU"):
        qb.array([1.0]).__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError, match="streams"):
        qb.array([1.0]).__dlpack__(stream=1)


def test_dlpack_leaks_nothing():
    x = qb.ones((1000,))
    before = qb._core._live_bytes()
    for _ in range(20):
        np.from_dlpack(x)
        x.__dlpack__()
        qb.from_dlpack(x)
    assert qb._core._live_bytes() == before


def test_the_array_namespace_is_the_package():
    assert qb.ones((1,)).__array_namespace__() is qb
