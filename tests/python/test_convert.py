"""What becomes an array, and what is refused."""

import array
import ctypes
import math
import subprocess
import sys

import pytest
import quabla as qb

np = pytest.importorskip("numpy")


def test_numbers_and_lists_are_float64_and_all_bool_lists_bool():
    assert qb.array(1).dtype is qb.float64
    assert qb.array([1, 2.5]).dtype is qb.float64
    assert qb.array([True, False]).dtype is qb.bool_
    assert qb.array([True, 2]).tolist() == [1.0, 2.0]
    assert qb.array(range(3)).tolist() == [0.0, 1.0, 2.0]
    assert qb.array(((1, 2), [3, 4])).shape == [2, 2]


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_numpy_integers_become_float64(kind):
    x = qb.array(np.array([1, 2, 100], dtype=kind))
    assert x.dtype is qb.float64
    assert x.tolist() == [1.0, 2.0, 100.0]


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.bool_])
def test_numpy_arrays_keep_their_dtype_in_any_layout(kind):
    a = np.array(
        np.random.RandomState(0).randn(4, 5, 6) > 0.3 if kind is np.bool_ else np.random.RandomState(0).randn(4, 5, 6),
        kind,
    )
    for view in (
        a,
        a.T,
        a[::2, ::-1],
        a[:, 1],
        a[..., 2:3],
        np.asfortranarray(a),
        np.broadcast_to(a[0, 0, 0], (3, 2)),
        a[1, 2, 3],
    ):
        x = qb.array(view)
        assert x.shape == list(view.shape)
        assert x.dtype.name == np.dtype(kind).name
        np.testing.assert_array_equal(x.numpy(), view)


@pytest.mark.parametrize("kind", ["float16", "complex128", "longdouble", ">f8", "datetime64[s]", "U3", object])
def test_other_element_types_are_refused(kind):
    with pytest.raises((TypeError, ValueError)):
        qb.array(np.zeros(2, dtype=kind))


def test_float16_is_a_type_error_that_says_what_to_do():
    with pytest.raises(TypeError, match="convert to float64, float32"):
        qb.array(np.zeros(2, dtype=np.float16))


def test_import_copies():
    a = np.ones(3)
    x = qb.array(a)
    a[0] = 7
    assert x.tolist() == [1.0, 1.0, 1.0]


def test_asarray_returns_the_same_object_when_nothing_changes():
    x = qb.ones((2,))
    assert qb.asarray(x) is x
    assert qb.asarray(x, dtype=qb.float64) is x
    assert qb.asarray(x, dtype=qb.float32).dtype is qb.float32
    assert qb.array(x) is not x


def test_dtype_argument_converts():
    assert qb.array([0.0, 2.0, math.nan], dtype=qb.bool_).tolist() == [False, True, True]
    assert qb.array([0.1], dtype=qb.float32).item() == float(np.float32(0.1))
    assert qb.array(np.arange(3), dtype="float32").dtype is qb.float32
    assert qb.array(True, dtype=qb.float64).item() == 1.0


def test_other_buffers():
    assert qb.array(array.array("d", [1.0, 2.0])).tolist() == [1.0, 2.0]
    assert qb.array(array.array("i", [1, 2])).tolist() == [1.0, 2.0]
    assert qb.array(memoryview(qb.ones((2, 2)))).shape == [2, 2]


@pytest.mark.parametrize("dtype", [None, qb.float32, qb.bool_])
def test_buffers_without_strides_are_row_major(dtype):
    rows = ((ctypes.c_double * 2) * 3)((1.0, 2.0), (3.0, 4.0), (0.0, 6.0))
    want = np.array(rows) if dtype is None else np.array(rows).astype({"f32": "f4", "bool": "?"}[str(dtype)])
    assert qb.array(rows, dtype=dtype).tolist() == want.tolist()
    assert qb.array((ctypes.c_int * 3)(1, 0, 2), dtype=dtype).tolist() == [1, 0, 2 if dtype is not qb.bool_ else 1]
    assert (qb.array([1.0, 2.0]) + (ctypes.c_double * 2)(1, 2)).tolist() == [2.0, 4.0]
    assert qb.array(ctypes.c_double(2.5)).shape == []


def test_dates_are_a_type_error():
    for kind in ("M8[D]", "m8[s]"):
        with pytest.raises(TypeError, match="array: elements of (datetime|timedelta)64.* are not supported"):
            qb.array(np.zeros(2, dtype=kind))


def test_nested_lists_of_arrays():
    x32 = qb.ones((2,), dtype=qb.float32)
    assert qb.array([x32, x32]).dtype is qb.float32
    assert qb.array([x32, [1.0, 2.0]]).dtype is qb.float32
    assert qb.array([np.ones(2), [3, 4]]).tolist() == [[1.0, 1.0], [3.0, 4.0]]
    assert qb.array([qb.array(1.0), 2.0]).tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="f32 and f64"):
        qb.array([x32, qb.ones((2,))])


@pytest.mark.parametrize(
    "ragged, message",
    [
        ([[1, 2], [3]], r"\[1\] has length 1 where others have 2"),
        ([[[1], [2]], [[3], [4, 5]]], r"\[1, 1\] has length 2 where others have 1"),
        ([[1, 2], 3], r"\[1\] is an int"),
        ([1, [2]], r"\[1\] is a list"),
    ],
)
def test_ragged_lists_name_the_position(ragged, message):
    with pytest.raises(ValueError, match=message):
        qb.array(ragged)


def test_deep_and_self_containing_lists():
    deep = 1.0
    for _ in range(100000):
        deep = [deep]
    loop = []
    loop.append(loop)
    for bad in (deep, loop):
        with pytest.raises(ValueError, match="deeper"):
            qb.array(bad)


@pytest.mark.parametrize("empty", [[], [[]], (), np.zeros((0, 3)), np.zeros(0)])
def test_no_array_is_empty(empty):
    with pytest.raises(ValueError, match="without elements"):
        qb.array(empty)


@pytest.mark.parametrize("bad", ["1", None, {}, b"12", object(), [None], ["a"], 1j, [1j], {1, 2}])
def test_non_arrays_are_a_type_error(bad):
    with pytest.raises(TypeError):
        qb.array(bad)


def test_a_list_that_changes_while_it_is_read_is_refused():
    class Clears:
        def __array__(self, dtype=None, copy=None):
            items.clear()
            return np.array(1.0)

    items = [1.0, Clears(), 2.0]
    with pytest.raises(ValueError, match="array: a list changed while it was read"):
        qb.array(items)


def test_zeros_ones_full_eye():
    assert qb.zeros(3).tolist() == [0.0] * 3
    assert qb.ones((), dtype=qb.bool_).item() is True
    assert qb.full((2,), True).dtype is qb.bool_
    assert qb.full((2, 2), [1.0, 2.0]).tolist() == [[1.0, 2.0], [1.0, 2.0]]
    assert qb.full(2, 3, dtype=qb.float32).dtype is qb.float32
    assert qb.eye(2, 3).tolist() == [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    x = qb.ones((2, 3), dtype=qb.float32)
    for like in (qb.zeros_like(x), qb.ones_like(x), qb.full_like(x, 2.5)):
        assert (like.shape, like.dtype) == ([2, 3], qb.float32)


@pytest.mark.parametrize("args", [(5,), (1, 2, 0.1), (0, -3, -0.5), (2.5,), (1, 7, 2), (0.0, 1.0, 1 / 3)])
def test_arange_counts_as_numpy(args):
    want = np.arange(*args, dtype=float)
    np.testing.assert_allclose(qb.arange(*args).numpy(), want, rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("args", [(0, 1, 5), (-3.3, 7.1, 100), (1, 1, 3), (2, -2, 7), (0, 1, 1), (0.1, 0.7, 33)])
def test_linspace_is_numpys_and_ends_at_stop(args):
    got = qb.linspace(*args).numpy()
    np.testing.assert_array_equal(got, np.linspace(*args))
    assert got[-1] == (args[1] if args[2] > 1 else args[0])


def test_bad_shapes_and_counts():
    for bad in (-1, (2, -3), 0, (3, 0)):
        with pytest.raises(ValueError):
            qb.zeros(bad)
    for bad in (2.5, "ab", (1.0,), None, True):
        with pytest.raises(TypeError):
            qb.zeros(bad)
    for bad in (
        lambda: qb.linspace(0, 1, 0),
        lambda: qb.arange(0),
        lambda: qb.arange(0, 1, 0),
        lambda: qb.zeros((1,) * 17),
    ):
        with pytest.raises(ValueError):
            bad()


def test_huge_requests_fail_before_any_allocation():
    for huge in (
        lambda: qb.zeros((2**40, 2**40)),
        lambda: qb.arange(0, 1e15),
        lambda: qb.ones((10**18,)),
        lambda: qb.eye(2**31),
        lambda: qb.diag([1.0], 2**62),
    ):
        with pytest.raises(MemoryError):
            huge()
    with pytest.raises(MemoryError):
        qb.array(1.0).broadcast_to((2**40, 2**40))


def test_importing_quabla_imports_no_numpy():
    code = "import sys, quabla as qb; qb.sin(qb.array([1.0])) * 2; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("module", ["re", "inspect", "dataclasses", "pathlib", "typing"])
def test_importing_quabla_takes_no_large_module_of_the_library(module):
    """Each would take as long as all of quabla, whose import takes some 11 ms."""
    code = f"import sys; sys.path[:] = {sys.path!r}; import quabla; assert {module!r} not in sys.modules"
    subprocess.run([sys.executable, "-S", "-c", code], check=True)
