"""Tensor: an immutable array with NumPy's manners. Operators, properties, conversion to Python values."""

import copy
import gc
import math
import pickle
import weakref

import pytest
import quabla as qb

np = pytest.importorskip("numpy")


def bits(x):
    return x.dtype, x.shape, bytes(memoryview(x).cast("B"))


def test_shape_is_a_list_and_dtype_is_an_object():
    x = qb.array([[1, 2, 3], [4, 5, 6]])
    assert x.shape == [2, 3]
    assert (x.ndim, x.size, len(x)) == (2, 6, 2)
    assert x.dtype is qb.float64
    assert (str(x.dtype), repr(x.dtype), x.dtype.name) == ("f64", "float64", "float64")


@pytest.mark.parametrize(
    "given, dtype",
    [
        (qb.float32, qb.float32),
        ("float32", qb.float32),
        ("f64", qb.float64),
        ("bool", qb.bool_),
        (np.float32, qb.float32),
        (np.dtype("float64"), qb.float64),
        (np.dtype(bool), qb.bool_),
        (np.bool_, qb.bool_),
    ],
)
def test_dtypes_are_accepted_by_object_name_and_numpy_dtype(given, dtype):
    assert qb.zeros((1,), dtype=given).dtype is dtype
    assert qb.dtype(given) is dtype


@pytest.mark.parametrize("given", [int, float, "int32", np.int64, np.dtype("float16"), 3, "float", object()])
def test_anything_else_is_no_dtype(given):
    with pytest.raises(TypeError, match="is not a dtype"):
        qb.zeros((1,), dtype=given)


def test_dtypes_survive_pickle_and_copy():
    for d in (qb.float32, qb.float64, qb.bool_):
        assert pickle.loads(pickle.dumps(d)) is d
        assert copy.deepcopy(d) is d


def test_operators_follow_numpy():
    a, b = np.array([[1.0, -2.0], [3.5, 4.0]]), np.array([2.0, 0.5])
    x, y = qb.array(a), qb.array(b)
    pairs = [
        (x + y, a + b),
        (x - y, a - b),
        (x * y, a * b),
        (x / y, a / b),
        (-x, -a),
        (+x, +a),
        (abs(x), abs(a)),
        (round(x), np.round(a)),
        (x**2, a**2),
        (x < y, a < b),
        (x <= y, a <= b),
        (x > y, a > b),
        (x >= y, a >= b),
        (x @ x, a @ a),
        (1.5 - x, 1.5 - a),
        (2 / x, 2 / a),
        ((x > 0) & (y > 1), (a > 0) & (b > 1)),
        ((x > 0) | (y > 1), (a > 0) | (b > 1)),
        (~(x > 0), ~(a > 0)),
    ]
    for got, want in pairs:
        np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_allclose((x * x).__pow__(y).numpy(), (a * a) ** b, rtol=1e-15)
    np.testing.assert_allclose((2.0**x).numpy(), 2.0**a, rtol=1e-15)


def test_lists_and_numpy_arrays_stand_on_either_side():
    x = qb.array([1.0, 2.0])
    for other in ([3.0, 4.0], (3.0, 4.0), np.array([3.0, 4.0]), np.array([3, 4])):
        assert (x + other).tolist() == [4.0, 6.0]
        assert (other - x).tolist() == [2.0, 2.0]
        assert isinstance(other * x, qb.Tensor)


def test_other_operands_are_a_type_error():
    x = qb.array([1.0])
    for other in ("a", None, {}, b"1", object()):
        with pytest.raises(TypeError):
            x + other
        with pytest.raises(TypeError):
            other * x


def test_python_numbers_take_the_dtype_they_meet():
    x = qb.array([1.0, 2.0], dtype=qb.float32)
    assert (0.5 * x).dtype is qb.float32
    assert (x + 1).dtype is qb.float32
    assert (x * np.float64(2)).dtype is qb.float32
    mask = x > 1.5
    assert (mask * 2.0).dtype is qb.float64
    assert (mask * 2.0 + x).dtype is qb.float32


def test_float32_with_float64_is_refused_with_both_names():
    with pytest.raises(ValueError, match=r"(?s)f64 and f32.*astype"):
        qb.ones((2,)) + qb.ones((2,), dtype=qb.float32)


def test_equality_is_identity_so_arrays_are_dict_keys():
    x, y = qb.array([1.0]), qb.array([1.0])
    assert (x == x) is True
    assert (x == y) is False
    assert (x != y) is True
    assert {x: 1, y: 2}[x] == 1
    assert qb.equal(x, y).tolist() == [True]


def test_truth_of_one_element_and_of_many():
    assert qb.array([[True]])
    assert not qb.array(0.0)
    with pytest.raises(ValueError, match="ambiguous"):
        bool(qb.array([True, False]))


def test_conversion_of_one_element():
    x = qb.array([[2.75]])
    assert (float(x), int(x), x.item()) == (2.75, 2, 2.75)
    assert qb.array([True]).item() is True
    with pytest.raises(ValueError, match=r"float64\[2\]"):
        qb.ones((2,)).item()
    with pytest.raises(ValueError):
        int(qb.array(math.nan))
    with pytest.raises(OverflowError):
        int(qb.array(math.inf))


def test_a_format_is_that_of_the_element():
    x = qb.array(2.75)
    assert (f"{x:.1f}", f"{qb.ones((1, 1)):6.2e}", f"{x}") == ("2.8", "1.00e+00", str(x))
    with pytest.raises(ValueError, match=r"needs one element; this is a float64\[2\]"):
        f"{qb.ones((2,)):.3f}"
    with pytest.raises(qb.TracerError, match="needs data"):
        qb.jit(lambda x: f"{x:.3f}")(x)


def test_lists():
    x = qb.array([[1.0, 2.0], [3.0, 4.0]])
    assert x.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert x.to_flat_list() == [1.0, 2.0, 3.0, 4.0]
    assert qb.array(3.0).tolist() == 3.0
    assert (x > 2).tolist() == [[False, False], [True, True]]


def test_integer_powers_multiply():
    x = qb.array([1.1, -3.0])
    assert bits(x**3) == bits(x.powi(3)) == bits(x * x * x)
    assert bits(x**0) == bits(qb.ones((2,)))
    assert (x ** (-1)).tolist() == (x**-1.0).tolist()
    assert math.isnan((x**0.5)[1].item())


def test_matrix_operator_wants_matrices():
    x = qb.ones((2, 3))
    with pytest.raises(ValueError, match=r"float64\[3\].*matmul"):
        x @ qb.ones((3,))
    assert qb.matmul(x, qb.ones((3,))).tolist() == [3.0, 3.0]


def test_shape_errors_name_op_and_shapes():
    with pytest.raises(ValueError, match=r"add.*\[3\].*\[4\]"):
        qb.ones((3,)) + qb.ones((4,))
    with pytest.raises(ValueError, match="sum"):
        qb.ones((3,)).sum(axis=2)
    with pytest.raises(ValueError, match="reshape"):
        qb.ones((3,)).reshape(2, 2)


def test_reductions_take_axes_and_keepdims():
    a = np.arange(24.0).reshape(2, 3, 4)
    x = qb.array(a)
    for axis in (None, 0, -1, (0, 2), [1]):
        axes = tuple(axis) if isinstance(axis, list) else axis
        np.testing.assert_array_equal(x.sum(axis).numpy(), a.sum(axes))
        np.testing.assert_array_equal(qb.max(x, axis=axis, keepdims=True).numpy(), a.max(axes, keepdims=True))
        np.testing.assert_allclose(x.mean(axis=axis).numpy(), a.mean(axes), rtol=1e-15)
        np.testing.assert_array_equal(x.min(axis=axis).numpy(), a.min(axes))


def test_structural_methods():
    a = np.arange(6.0).reshape(2, 3)
    x = qb.array(a)
    assert (
        x.reshape(3, 2).tolist() == x.reshape([3, 2]).tolist() == x.reshape(-1, 2).tolist() == a.reshape(3, 2).tolist()
    )
    assert x.T.tolist() == x.transpose().tolist() == x.transpose([1, 0]).tolist() == a.T.tolist()
    assert qb.array(1.0).broadcast_to((2, 2)).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert x.slice(1, 0, 2).tolist() == a[:, 0:2].tolist()
    assert x.slice(axis=1, start=2, length=2, step=-2).tolist() == a[:, ::-2].tolist()
    assert qb.stack([x, x], axis=-1).shape == [2, 3, 2]
    assert qb.concat([x, x], axis=1).tolist() == np.concatenate([a, a], 1).tolist()
    assert qb.stack([x[0, 0], 2.0, 3]).tolist() == [0.0, 2.0, 3.0]
    assert x.gt(2.5).tolist() == [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    assert qb.where(x > 2.5, x, -1).tolist() == np.where(a > 2.5, a, -1).tolist()


def test_stack_keeps_the_dtype_of_the_arrays_beside_numbers():
    x = qb.array(1.0, dtype=qb.float32)
    assert qb.stack([x, 2.0]).dtype is qb.float32
    with pytest.raises(ValueError, match="stack"):
        qb.stack([qb.ones((2,)), qb.ones((3,))])
    with pytest.raises(ValueError, match="at least one"):
        qb.stack([])


def test_methods_and_functions_are_the_same_ops():
    x = qb.array([0.25, 0.5])
    for row in qb._core._ops():
        if (
            row["arity"] != 1
            or not row["elementwise"]
            or row["name"] in ("powi", "cast", "stop_gradient", "logical_not")
        ):
            continue
        assert bits(getattr(qb, row["name"])(x)) == bits(getattr(x, row["name"])()), row["name"]
        assert getattr(qb, row["name"]).__doc__.strip()


def test_functions_take_keywords_and_report_wrong_ones():
    assert qb.sin(x=0.0).item() == 0.0
    assert qb.add(x1=1.0, x2=2.0).item() == 3.0
    assert qb.less(lhs=1.0, rhs=2.0).item() is True
    with pytest.raises(TypeError, match="no parameter 'y'"):
        qb.sin(y=1.0)
    with pytest.raises(TypeError, match="lacks argument"):
        qb.add(1.0)
    with pytest.raises(TypeError, match="at most"):
        qb.sin(1.0, 2.0)


def test_functions_are_built_in_functions_to_python():
    import inspect

    assert pickle.loads(pickle.dumps(qb.sin)) is qb.sin
    assert repr(qb.sin) == "<built-in function sin>"
    assert qb.sin.__module__ == "quabla"
    assert str(inspect.signature(qb.sum)) == "(x, axis=None, keepdims=False)"
    assert str(inspect.signature(qb.Tensor.sum)) == "(self, /, axis=None, keepdims=False)"

    class Net:
        act = qb.tanh

    assert Net().act(0.0).item() == 0.0  # it does not bind


def test_bool_arithmetic_is_refused_with_the_way_out():
    m = qb.array([True, False])
    for f in (lambda: m + m, lambda: qb.sin(m), lambda: m.sum()):
        with pytest.raises(ValueError, match="astype"):
            f()
    with pytest.raises(ValueError):
        qb.ones((2,)) & m


def test_buffer_is_read_only_and_not_copied():
    x = qb.array([[1, 2, 3], [4, 5, 6]], dtype=qb.float32)
    view = memoryview(x)
    assert (view.format, view.shape, view.strides, view.readonly) == ("f", (2, 3), (12, 4), True)
    a = x.numpy()
    assert a.dtype == np.float32
    assert not a.flags.writeable
    assert np.shares_memory(a, np.asarray(x))
    assert memoryview(qb.array(True)).format == "?"
    assert memoryview(qb.array(1.0)).shape == ()


def test_numpy_protocol():
    x = qb.array([1.5, 2.5])
    assert np.asarray(x, dtype=np.float32).dtype == np.float32
    assert np.array(x, copy=True).flags.writeable
    assert x.__array__(np.float32).tolist() == [1.5, 2.5]
    with pytest.raises(ValueError):
        x.__array__(np.float32, copy=False)
    assert np.sin(x).tolist() == np.sin([1.5, 2.5]).tolist()


def test_exported_memory_outlives_the_tensor():
    a = qb.array([1.0, 2.0]).numpy()
    gc.collect()
    assert a.tolist() == [1.0, 2.0]


def test_copy_and_pickle():
    x = qb.array([[1.0, -0.0], [math.nan, math.inf]], dtype=qb.float32)
    assert copy.copy(x) is x
    assert copy.deepcopy(x) is x
    for y in (x, qb.array(2.0), x > 0):
        assert bits(pickle.loads(pickle.dumps(y))) == bits(y)


def test_weak_references():
    x = qb.array(1.0)
    r = weakref.ref(x)
    assert r() is x
    del x
    assert r() is None


def test_constructor_takes_shape_and_flat_data():
    assert qb.Tensor([2, 2], [1, 2, 3, 4]).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert qb.Tensor((2,), [1, 0], dtype=qb.bool_).tolist() == [True, False]
    with pytest.raises(ValueError, match="3 elements"):
        qb.Tensor([2, 2], [1, 2, 3])


def test_tensors_have_no_new_attributes():
    with pytest.raises(AttributeError):
        qb.array(1.0).color = 1
    with pytest.raises(TypeError):
        qb.Tensor.color = 1


def test_out_of_memory_in_the_core_is_a_memory_error_everywhere():
    x = qb.linspace(0.0, 1.0, 300).reshape(30, 10)

    def work():
        f = lambda x, w: qb.mean(qb.tanh(x @ w) ** 2) + qb.vmap(qb.grad(lambda t: t**3))(w[0]).sum()  # noqa: E731
        w = qb.ones((10, 4)) * 0.5
        value, g = qb.value_and_grad(f, 1)(x, w)
        repr(qb.stack([g, g])[::-1].T)
        return value.item()

    def swept(limit):
        failures = 0
        for n in range(limit):
            qb._core._fail_alloc(n)
            try:
                work()
            except MemoryError:
                failures += 1
            finally:
                qb._core._fail_alloc(-1)
        return failures

    want = work()
    assert swept(40) > 10
    gc.collect()
    before = qb._core._live_bytes()
    swept(300)
    gc.collect()
    assert qb._core._live_bytes() <= before + 4096  # caches of eager plans may have grown
    assert work() == want


def test_eager_ops_leak_nothing():
    x = qb.ones((1000,))

    def work():
        for _ in range(200):
            y = (x + 1.0) * x
            y.sum()
            y[::2].reshape(50, 10).T.tolist()
            qb.stack([x, y])
            with pytest.raises(ValueError):
                x + qb.ones((3,))

    work()
    gc.collect()
    before = qb._core._live_bytes()
    work()
    gc.collect()
    assert qb._core._live_bytes() <= before


def test_tensor_has_static_constructors():
    assert qb.Tensor.zeros((2,)).tolist() == [0.0, 0.0]
    assert qb.Tensor.ones((1, 2)).shape == [1, 2]
    assert qb.Tensor.full((2,), 3.0).tolist() == [3.0, 3.0]
    assert qb.Tensor.arange(0, 3).tolist() == [0.0, 1.0, 2.0]
    assert qb.Tensor.linspace(0, 1, 3).tolist() == [0.0, 0.5, 1.0]
    assert qb.Tensor.eye(1, 2).tolist() == [[1.0, 0.0]]
    key = qb.random.key(3)
    assert bits(qb.Tensor.random_normal((4,), key)) == bits(qb.random.normal(key, (4,)))
    assert bits(qb.Tensor.random_uniform((4,), key.value, -1.0, 1.0)) == bits(
        qb.random.uniform(key, (4,), minval=-1.0, maxval=1.0)
    )
    assert bits(qb.Tensor.glorot_normal((4, 2), key)) == bits(qb.random.glorot_normal(key, (4, 2)))
    assert qb.Tensor.split_key(key, 2) == list(qb.random.split(key))
    assert qb.Tensor.split_key(key.value, 2) == [k.value for k in qb.random.split(key)]
    assert qb.Tensor.fold_in_key(key, 7) == qb.random.fold_in(key, 7)
