"""The same bits for any number of threads, any ISA level, block by block or not, eager or compiled, looped or batched."""

import itertools
import math

import numpy as np
import pytest
import quabla as qb
from quabla import _core


def has_level(name):
    try:
        _core._set_isa(name)
    except ValueError:
        return False
    _core._set_isa(None)
    return True


LEVELS = [name for name in ("v4", "v3", "neon") if has_level(name)]


@pytest.fixture(autouse=True)
def restore():
    threads = qb.get_num_threads()
    yield
    _core._set_isa(None)
    _core._set_tiling("auto")
    qb.set_num_threads(threads)


def data(shape, seed, dtype=np.float64, scale=2.0):
    return qb.array((np.random.default_rng(seed).normal(size=shape) * scale).astype(dtype))


def mlp(p, h):
    for w, b in p[:-1]:
        h = qb.tanh(h @ w + b)
    w, b = p[-1]
    return qb.sum(h @ w + b)


def layers(sizes, dtype):
    return [
        (data((m, n), 10 * i, dtype, 0.5), data((n,), i, dtype, 0.1)) for i, (m, n) in enumerate(zip(sizes, sizes[1:]))
    ]


def u(x, t, p):
    return mlp(p, qb.stack([x, t]).reshape([1, 2]))


def residual(x, t, p):
    u_x = qb.grad(u, 0)
    u_xx = qb.grad(u_x, 0)
    return qb.grad(u, 1)(x, t, p) + u(x, t, p) * u_x(x, t, p) - 0.01 / math.pi * u_xx(x, t, p)


def burgers_loss(p, x, t):
    return qb.mean(qb.vmap(residual, in_axes=(0, 0, None))(x, t, p) ** 2)


def burgers_args(dtype):
    return layers((2, 20, 20, 1), dtype), data((700,), 1, dtype), data((700,), 2, dtype)


def chain(x, y):
    a = qb.tanh(x * 1.3 + 0.2)
    b = a * a - 1.0
    c = qb.exp(-b * b) + qb.sin(y)
    return c * a + b / (1.0 + c * c)


CASES = {
    "chain": (chain, lambda dt: (data((301, 77), 0, dt), data((301, 77), 1, dt))),
    "rows and columns": (
        lambda x, r, c: qb.exp(x * r) - c,
        lambda dt: (data((60, 40), 0, dt, 0.3), data((40,), 1, dt), data((60, 1), 2, dt)),
    ),
    "sum": (lambda x: qb.sum(qb.exp(-x * x)), lambda dt: (data((100_003,), 0, dt),)),
    "sum axis 0": (lambda x: qb.sum(x * x, axis=0), lambda dt: (data((1003, 37), 0, dt),)),
    "sum axis 1": (lambda x: qb.mean(qb.sin(x), axis=1), lambda dt: (data((37, 1003), 0, dt),)),
    "max": (lambda x: qb.max(qb.abs(x), axis=1), lambda dt: (data((50, 333), 0, dt),)),
    "matmul": (lambda a, b: a @ b, lambda dt: (data((130, 300), 0, dt), data((300, 70), 1, dt))),
    "matmul transposed": (lambda a, b: a.T @ b, lambda dt: (data((1000, 33), 0, dt), data((1000, 9), 1, dt))),
    "sums of products": (
        lambda x, y, s: (qb.sum(x * y), qb.mean(x * x), qb.sum((y - s * x) * x), qb.sum((s * y + x) ** 2)),
        lambda dt: (data((481,), 0, dt), data((481,), 1, dt), data((), 2, dt)),
    ),
    "gradient of a network": (qb.value_and_grad(burgers_loss), burgers_args),
}


def as_bytes(tree):
    return [leaf.numpy().tobytes() for leaf in qb.tree.leaves(tree)]


@pytest.mark.parametrize("dtype, precision", [(np.float64, None), (np.float32, None), (np.float32, "float32")])
@pytest.mark.parametrize("name", CASES)
def test_threads_isa_levels_and_tiling_give_the_same_bits(name, dtype, precision):
    fun, make = CASES[name]
    args, results = make(dtype), []
    for level, tiling in itertools.product(LEVELS, ("always", "never")):
        _core._set_isa(level)
        _core._set_tiling(tiling)
        compiled = qb.jit(lambda *a: fun(*a), precision=precision)
        for threads in (1, 2, 3):
            qb.set_num_threads(threads)
            results.append(as_bytes(compiled(*args)))
    assert len(LEVELS) >= 1
    assert all(r == results[0] for r in results)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", [n for n in CASES if n != "gradient of a network"])
def test_eager_and_jit_give_the_same_bits(name, dtype):
    fun, make = CASES[name]
    args = make(dtype)
    assert as_bytes(fun(*args)) == as_bytes(qb.jit(fun)(*args))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "shape", [(n,) for n in (1, 7, 128, 129, 200, 255, 256, 257, 300, 385, 513, 1000)] + [(3, 481)]
)
def test_sums_of_products_have_the_bits_of_their_parts(shape, level):
    """Compiled they are one pass over the operands: the last step, the products and the sum."""
    _core._set_isa(level)
    x, y, z, s = *(data(shape, i) for i in range(3)), data((), 3)

    def parts(x, y, z, s):
        add, sub, other = x + s * y, x - s * y, s * y - x
        sums = [qb.sum(v, axis=-1) for v in (x * y, x * x, add * z, z * sub, other * z, add * add)]
        return sums, [qb.sum(sub * z, axis=-1), sub], qb.mean(x * y * z, axis=-1)

    for i in range(6):  # alone in its region, too
        assert as_bytes(qb.jit(lambda *a, i=i: parts(*a)[0][i])(x, y, z, s)) == as_bytes(parts(x, y, z, s)[0][i])
    assert as_bytes(qb.jit(parts)(x, y, z, s)) == as_bytes(parts(x, y, z, s))
    stored = qb.jit(lambda *a: parts(*a)[1])(x, y, z, s)
    assert as_bytes(stored) == as_bytes(parts(x, y, z, s)[1])


@pytest.mark.parametrize("pred", [True, False])
@pytest.mark.parametrize("n", [1, 300, 1000])
def test_a_choice_for_all_elements_has_the_bits_of_what_was_chosen(n, pred):
    x, y, pred = data((n,), 0), data((n,), 1), qb.array(pred)
    for f in (
        lambda p, x, y: qb.where(p, x, y),
        lambda p, x, y: qb.where(p, x * 2.0, y) - qb.where(p, 0.5, x + y),
        lambda p, x, y: (qb.where(p, x + y, x), qb.sum(qb.where(p, x, 0.0) * y)),
    ):
        assert as_bytes(qb.jit(f)(pred, x, y)) == as_bytes(f(pred, x, y))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_vmap_gives_the_bits_of_the_loop(dtype):
    p, x, t = burgers_args(dtype)
    batched = qb.vmap(residual, in_axes=(0, 0, None))(x[:9], t[:9], p).tolist()
    single = qb.jit(residual)
    assert batched == [single(x[i], t[i], p).item() for i in range(9)]


def test_a_transposed_operand_gives_the_bits_of_its_copy():
    a, b = data((200, 30), 0), data((200, 5), 1)
    copy = qb.array(a.numpy().T.copy())
    assert as_bytes(qb.jit(lambda a, b: a.T @ b)(a, b)) == as_bytes(qb.matmul(copy, b))


def training(optimizer, tiling, threads):
    """Parameters and loss after a few steps; 1,000 points inside and 100 at the start, as PINNs have them."""
    _core._set_tiling(tiling)
    qb.set_num_threads(threads)
    (p, x, t), x0 = (layers((2, 32, 32, 1), np.float64), data((1000,), 1), data((1000,), 2)), data((100,), 3)

    def loss(p, x, t, x0):
        start = qb.vmap(u, in_axes=(0, None, None))(x0, qb.array(0.0), p)
        return burgers_loss(p, x, t) + qb.mean((start + qb.sin(math.pi * x0)) ** 2)

    trainer = qb.optim.Trainer(loss, p, optimizer, x, t, x0)
    for _ in range(3):
        trainer.step()
    return as_bytes(trainer.params) + as_bytes(trainer.loss())


def test_a_training_step_gives_the_same_bits_block_by_block():
    adam = qb.optim.Adam(0.01, clip_norm=0.5)
    plain = training(adam, "never", 1)
    assert all(training(adam, tiling, threads) == plain for tiling in ("auto", "always") for threads in (1, 2, 3))


@pytest.mark.parametrize("name", CASES)
def test_native_float32_is_near_the_rounded_result(name):
    fun, make = CASES[name]
    args = make(np.float32)
    rounded, native = qb.jit(fun)(*args), qb.jit(fun, precision="float32")(*args)
    for a, b in zip(qb.tree.leaves(rounded), qb.tree.leaves(native)):
        assert b.dtype == qb.float32
        scale = np.abs(a.numpy()).max()
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=3e-6, atol=3e-6 * scale)


def test_native_float32_leaves_float64_as_it_is():
    fun, make = CASES["gradient of a network"]
    args = make(np.float64)
    assert as_bytes(qb.jit(fun)(*args)) == as_bytes(qb.jit(fun, precision="float32")(*args))


def test_tiling_has_three_policies():
    with pytest.raises(ValueError, match="'auto', 'never' or 'always', not 'often'"):
        _core._set_tiling("often")


LARGE = {
    "plain": (lambda a, b: a @ b, (530, 300), (300, 520)),
    "left transposed": (lambda a, b: a.T @ b, (300, 530), (300, 520)),
    "right transposed": (lambda a, b: a @ b.T, (530, 300), (520, 300)),
    "long": (lambda a, b: a @ b, (257, 1100), (1100, 129)),
    "batched": (lambda a, b: qb.vmap(lambda x, y: x @ y)(a, b), (2, 260, 300), (2, 300, 520)),
    "one right operand": (lambda a, b: qb.vmap(lambda x: x @ b)(a), (2, 260, 300), (300, 520)),
    "gradient": (lambda a, b: qb.grad(lambda x: qb.sum((x @ b) ** 2))(a), (400, 300), (300, 520)),
}


def large_data(kind, shape, seed):
    x = np.random.default_rng(seed).normal(size=shape)
    if kind == "integers":
        x = np.round(x * 50)
    elif kind == "graded":
        x = x * 2.0 ** np.random.default_rng(seed + 1).integers(-30, 30, shape[:-1] + (1,))
    elif kind == "cancelling":
        x[..., 1::2] = -x[..., : shape[-1] // 2 * 2 : 2]
        if seed % 2:
            x = np.ones(shape)
    elif kind == "special":
        x[..., 77, 5], x[..., 100, 6], x[..., 101, :] = np.inf, np.nan, 1e-44
    return qb.array(x.astype(np.float32))


@pytest.mark.parametrize("case", LARGE)
@pytest.mark.parametrize("kind", ["normal", "integers", "graded", "cancelling", "special"])
def test_large_products_are_the_same_with_and_without_byte_multipliers(case, kind, monkeypatch):
    f, left, right = LARGE[case]
    a, b = large_data(kind, left, 2), large_data(kind, right, 3)

    def bits(sliced, threads):
        monkeypatch.setenv("QUABLA_AMX", "1" if sliced else "0")
        qb.set_num_threads(threads)
        return np.asarray(qb.jit(lambda a, b: f(a, b))(a, b)).tobytes()

    expected = bits(False, 1)
    for threads in (1, 2, 3, 4):
        assert bits(True, threads) == expected, threads


def test_a_plan_serves_data_that_slices_refuse_and_data_that_they_prove():
    f = qb.jit(lambda a, b: a @ b)
    for kind in ("normal", "cancelling", "normal", "special", "normal") * 3:
        a, b = large_data(kind, (530, 300), 2), large_data(kind, (300, 520), 3)
        with np.errstate(invalid="ignore"):
            sums = np.asarray(a).astype(np.float64) @ np.asarray(b).astype(np.float64)
        got, exact = np.asarray(f(a, b)), np.isfinite(sums)
        assert np.array_equal(np.isfinite(got), exact)
        tolerance = 1e-7 * np.abs(sums[exact]) + 1e-10  # half an ulp of float32, and other orders of a float64 sum
        assert np.all(np.abs(got[exact] - sums[exact]) <= tolerance)
