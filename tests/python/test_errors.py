"""What bad input gets: the right exception, with the op, the shapes and dtypes, the user's line, and nothing lost or leaked."""

import gc
import pathlib
import re

import numpy as np
import pytest
import quabla as qb
from quabla import _core

THIS = pathlib.Path(__file__).name
A23, A4 = qb.zeros((2, 3)), qb.zeros((4,))
X32 = qb.zeros((3,), dtype=qb.float32)
MASK = qb.array([True, False, True])

CASES = [
    (lambda: A23 + A4, ValueError, ("add", "[2,3]", "[4]", "broadcast")),
    (lambda: X32 + qb.zeros((3,)), ValueError, ("f32", "f64", "astype")),
    (lambda: MASK + MASK, ValueError, ("bool", "astype")),
    (lambda: qb.sin(MASK), ValueError, ("sin", "bool", "astype")),
    (lambda: qb.sum(MASK), ValueError, ("sum", "astype")),
    (lambda: A23 @ A23, ValueError, ("matmul", "[2,3]")),
    (lambda: qb.sum(A23, axis=2), ValueError, ("sum", "axis", "2")),
    (lambda: qb.sum(A23, axis=[0, 0]), ValueError, ("sum", "axis")),
    (lambda: qb.mean(A23, axis="x"), TypeError, ("axis",)),
    (lambda: A23.reshape([4, 2]), ValueError, ("reshape", "[2,3]")),
    (lambda: qb.reshape(A23, (-1, -1)), ValueError, ("reshape", "-1")),
    (lambda: qb.transpose(A23, (0, 0)), ValueError, ("transpose",)),
    (lambda: qb.concat([A23, A4], 0), ValueError, ("concat",)),
    (lambda: qb.stack([A23, A4]), ValueError, ("stack",)),
    (lambda: qb.broadcast_to(A23, (2, 4)), ValueError, ("broadcast", "[2,3]")),
    (lambda: A23[2], IndexError, ("2",)),
    (lambda: A23[0, 0, 0], IndexError, ()),
    (lambda: qb.sin("text"), TypeError, ("sin", "str")),
    (lambda: qb.sin(object()), TypeError, ("object",)),
    (lambda: qb.array([[1.0, 2.0], [3.0]]), ValueError, ()),
    (lambda: qb.array("abc"), TypeError, ("str",)),
    (lambda: qb.array(np.zeros(2, np.float16)), TypeError, ("float16",)),
    (lambda: qb.zeros((2, -1)), ValueError, ("-1",)),
    (lambda: qb.zeros((2.5,)), TypeError, ("float",)),
    (lambda: qb.zeros((2,), dtype="int7"), TypeError, ("int7",)),
    (lambda: bool(A4), ValueError, ()),
    (lambda: A4.item(), ValueError, ("[4]",)),
    (lambda: qb.grad(lambda x: x)(A4), ValueError, ("scalar", "[4]")),
    (lambda: qb.grad(lambda x: x > 0)(qb.array(1.0)), ValueError, ("bool",)),
    (lambda: qb.grad(lambda x: None)(qb.array(1.0)), TypeError, ()),
    (lambda: qb.grad(lambda x: qb.sum(x))(MASK), (TypeError, ValueError), ("bool",)),
    (lambda: qb.jit(lambda x: 1 if x > 0 else 2)(qb.array(1.0)), _core.TracerError, ("where",)),
    (lambda: qb.jit(lambda x: float(x))(qb.array(1.0)), _core.TracerError, ()),
    (lambda: qb.jit(lambda x: np.asarray(x))(qb.array(1.0)), _core.TracerError, ()),
    (lambda: qb.vmap(lambda x, y: x + y)(A4, qb.zeros((5,))), ValueError, ("4", "5")),
    (lambda: qb.vmap(lambda x: x, in_axes=1)(A4), ValueError, ("1",)),
    (lambda: qb.jit(lambda x: x, device="gpu")(A4), ValueError, ("gpu",)),
    (lambda: qb.jit(lambda x: x, device="cuda")(A4), qb.UnsupportedOperationError, ("cuda",)),
    (lambda: qb.jvp(qb.sin, (A4,), (A23,)), TypeError, ("[4]", "[2,3]")),
]


@pytest.mark.parametrize(("call", "error", "words"), CASES, ids=range(len(CASES)))
def test_bad_input_raises_and_names_what_is_wrong(call, error, words):
    with pytest.raises(error) as info:
        call()
    text = str(info.value).replace(", ", ",")
    assert text
    for word in words:
        assert word in text


def test_an_error_in_a_trace_names_the_users_line():
    def model(x):
        return x + qb.zeros((7,))  # this line

    line = model.__code__.co_firstlineno + 1
    with pytest.raises(ValueError, match=re.escape(f"{THIS}:{line}")):
        qb.jit(model)(A4)


def test_a_trace_survives_an_exception_that_the_function_catches():
    def model(x):
        try:
            return x + qb.zeros((7,))
        except ValueError:
            return x * 2.0

    assert qb.jit(model)(qb.ones((4,))).tolist() == [2.0] * 4


def test_a_tracer_of_a_finished_trace_is_named_as_leaked():
    kept = []
    qb.jit(lambda x: kept.append(x) or x)(A4)
    with pytest.raises(_core.TracerError):
        kept[0] + 1.0
    with pytest.raises(_core.TracerError):
        qb.jit(lambda x: x + kept[0])(A4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: qb.zeros((10**9, 10**9)),
        lambda: qb.zeros((2**40,)),
        lambda: qb.arange(0, 1e15),
        lambda: qb.linspace(0, 1, 10**14),
        lambda: qb.broadcast_to(A4, (10**12, 4)),
        lambda: qb.jit(lambda x: qb.broadcast_to(x, (2**62, 4)))(A4),
        lambda: qb.full((2**62, 2**62), 1.0),
        lambda: qb.random.normal(qb.random.key(0), (2**45,)),
    ],
)
def test_a_size_that_no_memory_holds_is_an_error_at_once(call):
    with pytest.raises((MemoryError, ValueError)):
        call()


def train_a_little():
    def u(x, w):
        return qb.sum(qb.tanh(x * w["a"]) * w["b"])

    u_xx = qb.vmap(qb.grad(qb.grad(u)), in_axes=(0, None))
    w = {"a": qb.array([0.5, -0.3]), "b": qb.array([1.0, 2.0])}
    loss = lambda w, x: qb.mean((u_xx(x, w) + 1.0) ** 2)
    return qb.jit(qb.value_and_grad(loss))(w, qb.linspace(0, 1, 5))


def test_out_of_memory_anywhere_is_a_memory_error_and_leaks_nothing():
    train_a_little()
    gc.collect()
    base = _core._live_bytes()
    failures, n = 0, 1
    while True:
        _core._fail_alloc(n)
        try:
            result = train_a_little()
        except MemoryError:
            result = None
            failures += 1
        finally:
            _core._fail_alloc(-1)
        gc.collect()
        if result is not None:
            break
        assert _core._live_bytes() <= base + 4096, f"allocation {n} failed and left memory behind"
        n += 1 if n < 60 else n // 12
    assert failures > 50
    value, _ = train_a_little()
    assert value.item() == result[0].item()


def test_a_loop_over_fresh_functions_stays_flat_in_memory():
    def once():
        k = qb.array(2.0)
        qb.jit(lambda x: qb.sin(x) * k)(A4)

    for _ in range(50):
        once()
    gc.collect()
    base = _core._live_bytes()
    for _ in range(300):
        once()
    gc.collect()
    assert _core._live_bytes() <= base + 65536
