"""Runs of elementwise instructions as machine code (emit_tile.c) have the bits of the kernels, whatever they hold and need."""

import numpy as np
import pytest
import quabla as qb

BINARY = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b]
UNARY = [lambda a: -a, qb.abs, qb.sqrt, lambda a: a * a, lambda a: a**3]
SPECIAL = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 5e-324, -1e-310, 1e308, -1e-30]


def draw(seed, inputs, steps, mixed):
    """A function of arrays that keeps all its values alive until the end: more of them than there are registers."""

    def f(*arrays):
        r = np.random.RandomState(seed)
        values = list(arrays)
        for _ in range(steps):
            a, b = (values[r.randint(len(values))] for _ in range(2))
            if r.rand() < 0.25:
                z = UNARY[r.randint(len(UNARY))](a)
            else:
                z = BINARY[r.randint(len(BINARY))](a, 0.75 if r.rand() < 0.1 else b.astype(a.dtype))
            if mixed and r.rand() < 0.15:
                z = z.astype(qb.float64 if z.dtype == qb.float32 else qb.float32)
            values.append(z)
        total = values[-1]
        for v in values[len(arrays) :: 3]:
            total = total + v.astype(total.dtype) * 0.5
        return total, values[-2], qb.sum(values[-3])

    return f


def arrays(seed, count, shape, dtype):
    r = np.random.RandomState(seed)
    out = []
    for i in range(count):
        x = r.randn(*shape)
        x.flat[:: 7 + i] = r.choice(SPECIAL, x.flat[:: 7 + i].shape)
        out.append(qb.asarray(x).astype(dtype))
    return out


def bits(results):
    """Any NaN is the same: which of two NaNs a sum keeps is nobody's promise."""
    arrays = [np.array(r) for r in results]
    for a in arrays:
        a[np.isnan(a)] = np.nan
    return [a.tobytes() for a in arrays]


def both(monkeypatch, f, args):
    """The bits of f without machine code, and with it wherever it is possible."""
    out = []
    for emit in ("0", "all"):
        monkeypatch.setenv("QUABLA_EMIT", emit)
        out.append(bits(qb.jit(lambda *a: f(*a))(*args)))
    return out


@pytest.mark.parametrize("dtype", [qb.float64, qb.float32])
@pytest.mark.parametrize("shape", [(1,), (7,), (64,), (300,), (128, 20), (33, 5)])
@pytest.mark.parametrize("steps", [3, 20, 80])
def test_drawn_functions_have_the_bits_of_the_kernels(monkeypatch, dtype, shape, steps):
    for seed in range(3):
        args = arrays(seed, 3, shape, dtype)
        old, new = both(monkeypatch, draw(seed, 3, steps, mixed=seed == 2), args)
        assert old == new


def test_more_arrays_than_general_registers_fit(monkeypatch):
    args = arrays(1, 40, (256,), qb.float64)
    old, new = both(monkeypatch, draw(5, 40, 120, mixed=False), args)
    assert old == new


def test_rows_and_columns_are_read_again_and_again(monkeypatch):
    x, row, column, one = (arrays(i, 1, s, qb.float64)[0] for i, s in enumerate([(128, 20), (20,), (128, 1), (1,)]))

    def f(x, row, column, one):
        y = (x * row + column) * one - row / column
        return y, qb.sum(y * row, axis=0), qb.sum(-y + one, axis=1)

    old, new = both(monkeypatch, f, (x, row, column, one))
    assert old == new


@pytest.mark.parametrize("dtype", [qb.float64, qb.float32])
def test_a_training_step_is_the_same_with_and_without(monkeypatch, dtype):
    def loss(p):
        u = lambda x: qb.sum(qb.tanh(qb.tanh(x.reshape([1, 1]) @ p[0]) @ p[1]))  # noqa: E731
        u_xx = qb.vmap(qb.grad(qb.grad(u)))(qb.linspace(0.0, 1.0, 200).astype(dtype))
        return qb.mean((u_xx + 1.0) ** 2)

    p = arrays(3, 1, (1, 20), dtype) + arrays(4, 1, (20, 20), dtype)
    p = [qb.where(qb.isfinite(v), v, 0.5) for v in p]
    old, new = both(monkeypatch, lambda *p: (lambda v: (v[0], *v[1]))(qb.value_and_grad(loss)(list(p))), p)
    assert old == new


@pytest.mark.parametrize("dtype", [qb.float64, qb.float32])
@pytest.mark.parametrize("n", [16, 31, 40, 49, 64])
def test_an_operand_that_overlaps_another_one_keeps_its_register(monkeypatch, dtype, n):
    """Neighbours are put together from registers, more of them than there are."""

    def f(x):
        step = lambda c: (c[0] + 1.0, c[1] + qb.pad(c[1][1:-1] * c[1][2:], 1))
        return [qb.while_loop(lambda c, k=k: c[0] < k, step, (qb.asarray(0.0), x))[1] for k in (1.0, 2.0, 5.0)]

    old, new = both(monkeypatch, f, arrays(n, 1, (n,), dtype))
    assert old == new
