"""Our arrays among NumPy's: operators, ufuncs, functions, buffers, pickles, Python's own protocols."""

import copy
import gc
import io
import pickle

import numpy as np
import pytest
import quabla as qb

DATA = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
X = qb.array(DATA)
DTYPES = [np.float64, np.float32, np.bool_]


def bits(x):
    return x.dtype, x.shape, bytes(memoryview(x).cast("B"))


# ---- operators and ufuncs ----

OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "<", "<=", ">", ">="]


@pytest.mark.parametrize("op", OPERATORS)
def test_an_operator_with_a_numpy_array_on_either_side_is_ours(op):
    other = np.array([0.5, 2.0, 3.0])
    for left, right in [(X, other), (other, X), (X, np.arange(1, 4)), (np.arange(1, 4), X), (X, np.float64(2)), (np.float64(2), X)]:  # fmt: skip
        got = eval(f"left {op} right", {"left": left, "right": right})
        assert isinstance(got, qb.Tensor)
        want = eval(f"left {op} right", {"left": np.asarray(left), "right": np.asarray(right)})
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-15)


@pytest.mark.parametrize("op", ["&", "|"])
def test_masks_meet_numpys_masks_on_either_side(op):
    m, n = X > 2, DATA < 5
    for left, right in [(m, n), (n, m), (m, True), (False, m), (m, [True, False, True])]:
        got = eval(f"left {op} right", {"left": left, "right": right})
        assert isinstance(got, qb.Tensor)
        assert got.tolist() == eval(f"a {op} b", {"a": np.asarray(left), "b": np.asarray(right)}).tolist()


def test_scalars_of_numpy_are_numbers_unless_their_dtype_is_float32():
    single = X.astype(qb.float32)
    for number in (np.float64(2), np.int64(2), np.int8(2), np.uint16(2)):
        assert (single * number).dtype is (number * single).dtype is qb.float32
        assert (X * number).dtype is (number * X).dtype is qb.float64
    assert (single * np.float32(2)).dtype is (np.float32(2) * single).dtype is qb.float32
    for wrong in (lambda: X * np.float32(2), lambda: np.float32(2) * X):
        with pytest.raises(ValueError, match="f32 and f64|f64 and f32"):
            wrong()


@pytest.mark.parametrize("op", OPERATORS)
def test_scalars_of_numpy_are_numbers_beside_traced_arrays_too(op):
    x = X.astype(qb.float32)
    for number in (np.float64(2), np.int64(2), np.uint8(2), np.float32(2), np.True_):
        for expression in (f"a {op} n", f"n {op} a"):
            want = eval(expression, {"a": x, "n": number})
            got = qb.jit(lambda a, e=expression, n=number: eval(e, {"a": a, "n": n}))(x)
            assert got.dtype is want.dtype
            np.testing.assert_array_equal(got, want)


def test_an_int_power_of_numpy_is_exact_products():
    x = qb.array([0.1, -3.3, 7.7])
    for n in (np.int64(3), np.array(3)):
        assert (x**n).tolist() == qb.power(x, n).tolist() == x.powi(3).tolist()
    assert (x ** np.array([1, 2, 3])).tolist() == pytest.approx([0.1, 3.3**2, 7.7**3])
    assert (x ** np.int64(-1)).tolist() == (x**-1).tolist()
    assert "powi(%0, 3)" in qb.jit(lambda a: a ** np.int64(3)).lower(x).as_text()


def test_a_numpy_array_beside_a_traced_one():
    other = np.ones(3)
    for op in OPERATORS:
        with pytest.raises(qb.TracerError, match="asarray"):
            qb.jit(lambda x, op=op: eval(f"a {op} x", {"a": other, "x": x}))(X)
        with pytest.raises(TypeError, match="asarray") as e:
            qb.jit(lambda x, op=op: eval(f"x {op} a", {"a": other, "x": x}))(X)
        assert isinstance(e.value, qb.TracerError) is (op[0] in "<>")  # Python turns `a < x` into `x > a`


def test_ufuncs_of_numpy_give_numpys_arrays():
    for got, want in [
        (np.sin(X), np.sin(DATA)), (np.add(X, 1), DATA + 1), (np.add(DATA, X), DATA + DATA), (np.maximum(X, 3), np.maximum(DATA, 3)),
        (np.multiply.outer(X[0], X[1]), np.multiply.outer(DATA[0], DATA[1])), (np.add.reduce(X), np.add.reduce(DATA)),
        (np.matmul(X, X.T), DATA @ DATA.T), (np.isnan(X), np.isnan(DATA)),
    ]:  # fmt: skip
        assert isinstance(got, np.ndarray)
        np.testing.assert_array_equal(got, want)
    out = np.zeros((2, 3))
    assert np.add(X, X, out=out) is out
    assert out.tolist() == (DATA + DATA).tolist()


FUNCTIONS = [
    lambda x: np.sum(x), lambda x: np.sum(x, axis=0, keepdims=True), lambda x: np.mean(x, axis=1), lambda x: np.max(x), lambda x: np.min(x, 0),
    lambda x: np.prod(x), lambda x: np.std(x), lambda x: np.var(x, ddof=1), lambda x: np.any(x > 5), lambda x: np.all(x > 5), lambda x: np.cumsum(x, 1),
    lambda x: np.round(x, 1), lambda x: np.clip(x, 2, 3), lambda x: np.transpose(x), lambda x: np.reshape(x, (3, 2)), lambda x: np.squeeze(x),
    lambda x: np.repeat(x, 2), lambda x: np.ravel(x), lambda x: np.concatenate([x, x]), lambda x: np.stack((x, x)), lambda x: np.vstack([x, [[1, 2, 3]]]),
    lambda x: np.where(x > 2, x, 0), lambda x: np.dot(x, [1, 2, 3]), lambda x: np.linalg.norm(x), lambda x: np.argmax(x), lambda x: np.sort(x, axis=0),
    lambda x: np.allclose(x, x), lambda x: np.array_equal(x, x), lambda x: np.swapaxes(x, 0, 1), lambda x: np.shape(x), lambda x: np.ndim(x),
    lambda x: np.size(x), lambda x: np.einsum("ij->j", x), lambda x: np.interp(x, [0, 10], [0, 1]),
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_functions_of_numpy_take_our_arrays_as_numpys(f):
    got, want = f(X), f(DATA)
    assert type(got) is type(want)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(f(X.slice(0, 0, 2)), want)


def test_functions_of_numpy_on_a_traced_array_are_a_tracer_error():
    for f in (np.sum, np.mean, np.reshape, np.concatenate, np.sort):
        with pytest.raises(qb.TracerError):
            qb.jit(lambda x, f=f: f(x) if f is not np.reshape else f(x, -1))(X)
    assert qb.jit(lambda x: x * len(np.shape(x)) * np.ndim(x) * np.size(x))(qb.array([1.0, 2.0])).tolist() == [2.0, 4.0]


# ---- buffers ----


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 3), (2, 1, 3, 1)])
def test_export_shares_memory_and_is_read_only(kind, shape):
    a = np.asarray(np.arange(np.prod(shape)).reshape(shape) % 2, kind)
    x = qb.array(a)
    views = [
        np.asarray(x),
        x.numpy(),
        np.asarray(memoryview(x)),
        np.from_dlpack(x),
        np.asarray(x, dtype=kind),
        x.__array__(),
    ]
    for v in views:
        assert v.dtype == a.dtype and v.shape == a.shape
        np.testing.assert_array_equal(v, a)
        assert not v.flags.writeable
        assert np.shares_memory(v, views[0])
    assert not np.shares_memory(views[0], a)  # import copies
    other = np.float32 if kind is not np.float32 else np.float64
    for v in (np.asarray(x, dtype=other), np.array(x), np.array(x, copy=True), x.__array__(copy=True)):
        assert v.flags.writeable and not np.shares_memory(v, views[0])
    m = memoryview(x)
    assert (m.readonly, m.shape, m.nbytes, m.c_contiguous) == (True, shape, a.nbytes, True)
    assert m.format == {"float64": "d", "float32": "f", "bool": "?"}[a.dtype.name]
    assert bytes(x) == a.tobytes()
    with pytest.raises(TypeError):
        m.cast("B")[0] = 1


def test_a_writable_buffer_is_refused():
    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(bytes(48)).readinto(X)
    for a in (X.numpy(), np.frombuffer(X), np.asarray(X.slice(0, 0, 1))):
        with pytest.raises(ValueError, match="read-only"):
            a[0] = 7


def test_the_memory_lives_as_long_as_any_view_of_it():
    x = qb.array(DATA)
    m, a, d = memoryview(x), x.numpy(), np.from_dlpack(x)
    del x
    gc.collect()
    assert m.tolist() == a.tolist() == d.tolist() == DATA.tolist()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", DTYPES)
def test_pickles_of_every_protocol_hold_the_same_bits(protocol, kind):
    a = np.array([[0.0, -0.0, np.nan], [np.inf, -1.5, 5e-324]]).astype(kind)
    for x in (qb.array(a), qb.array(a[0, 0]), qb.array(a[:1, :1])):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert bits(y) == bits(x)
        assert pickle.loads(pickle.dumps({"a": [x, x]}, protocol))["a"][1].shape == x.shape


def test_copies_of_what_never_changes_are_the_thing_itself():
    v = X.slice(0, 0, 1)
    for x in (X, v):
        assert copy.copy(x) is x and copy.deepcopy(x) is x
        assert copy.deepcopy({"a": [x]})["a"][0] is x
    assert bits(pickle.loads(pickle.dumps(v.to_tensor()))) == bits(v.to_tensor())


def test_a_damaged_pickle_is_refused():
    rebuild, (shape, data, dtype) = X.__reduce__()
    for args in [(shape, data[:-1], dtype), ([2, 4], data, dtype), ([-2, -3], data, dtype), (shape, data, "int8"), ([2**40, 2**40], data, dtype)]:  # fmt: skip
        with pytest.raises((ValueError, TypeError, MemoryError)):
            rebuild(*args)


def test_the_array_namespace_has_the_functions_of_our_arrays():
    xp = X.__array_namespace__()
    assert xp is qb
    assert xp.sum(xp.matmul(X, xp.transpose(X))).item() == (DATA @ DATA.T).sum()
    assert X.__array_namespace__(api_version="2023.12") is qb
    assert qb.from_dlpack(X).tolist() == DATA.tolist()


# ---- Python's protocols ----


def test_in_asks_for_an_equal_element():
    assert 2.0 in X and 7 not in X and np.nan not in qb.array([np.nan])
    assert X[0, 1] in X and [1.0, 2.0, 3.0] in X
    assert 2.0 in X.slice(0, 0, 1) and 6.0 not in X.slice(0, 0, 1)
    with pytest.raises(qb.TracerError):
        qb.jit(lambda x: x if 1.0 in x else -x)(X)


def test_divmod_is_the_floored_quotient_and_the_remainder():
    for left, right in [(X, 4), (-7.0, X), (X, X)]:
        got, want = divmod(left, right), divmod(np.asarray(left), np.asarray(right))
        assert [g.tolist() for g in got] == [w.tolist() for w in want]
    with pytest.raises(TypeError):
        divmod(X, "a")


def test_a_numpy_array_is_no_index_and_the_message_says_what_to_use():
    for x in (X, X.slice(0, 0, 2)):
        with pytest.raises(TypeError, match=r"quabla\.gather"):
            x[np.array([0, 1])]
    assert X[np.array(1)].tolist() == [4.0, 5.0, 6.0]
    with pytest.raises(TypeError, match=r"quabla\.where"):
        X[X > 2]
