"""Transforms of control flow, nested to any order, against the same program with its loops written out and its branches selected."""

import numpy as np
import pytest
import quabla as qb


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def compare(chain, f, args, exact):
    """chain of f(*args, False), compiled and eager, against that of f(*args, True), which has no regions."""
    region, plain = chain(lambda *a: f(*a, False)), chain(lambda *a: f(*a, True))
    got, eager, want = (qb.tree.leaves(g(*args)) for g in (qb.jit(region), region, qb.jit(plain)))
    for a, b, c in zip(got, eager, want, strict=True):
        same_bits(a, b)
        (same_bits if exact else close)(a, c)


# ---- regions, each with a body g(c, w); flat: the same without regions


def fori(g, c, w, flat):
    return qb.fori_loop(0, 3, lambda i, c: g(c, w) * (1.0 + 0.1 * i), c, unroll=flat)


def scan(g, c, w, flat):
    c, ys = qb.scan(lambda c, i: (g(c, w), c * c), c, length=3, unroll=flat)
    return c + qb.sum(ys, axis=0)


def scan_over_arrays(g, c, w, flat):
    xs = qb.stack([c, w, c * w, c + w])
    c, ys = qb.scan(lambda c, x: (g(c, x), c * x), w, xs, unroll=flat)
    return c + ys[1] - ys[3]


def cond(g, c, w, flat):
    if flat:
        return qb.where(qb.sum(c) > 0, g(c, w), c * w)
    return qb.cond(qb.sum(c) > 0, lambda: g(c, w), lambda: c * w)


def switch(g, c, w, flat):
    s = qb.sum(c) + 1.0
    if flat:
        return qb.where(s < 1, c * w, qb.where(s < 2, g(c, w), qb.sin(c)))
    return qb.switch(s, [lambda: c * w, lambda: g(c, w), lambda: qb.sin(c)])


def bounded_while(g, c, w, flat):
    go, step = lambda c: qb.sum(c * c) < 2.0, lambda c: g(c, w) + c
    if not flat:
        return qb.while_loop(go, step, c, max_steps=4)
    for _ in range(4):
        c = qb.where(go(c), step(c), c)
    return c


REGIONS = {f.__name__: f for f in (fori, scan, scan_over_arrays, cond, switch, bounded_while)}

# ---- bodies


@qb.custom_jvp
def forward_ruled(x):
    return qb.sin(x) * x


@forward_ruled.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return forward_ruled(x), t * (qb.cos(x) * x + qb.sin(x))


reverse_ruled = qb.custom_vjp(lambda x: qb.tanh(x) * x)
reverse_ruled.defvjp(lambda x: (qb.tanh(x) * x, x), lambda x, ct: (ct * (qb.tanh(x) + x * (1.0 - qb.tanh(x) ** 2)),))

BODIES = {
    "arithmetic": lambda c, w: qb.tanh(c * w) + 0.1,
    "a product": lambda c, w: qb.matmul(qb.reshape(w, (3, 1)) * qb.sin(w), c) + 0.2,
    "custom_jvp": lambda c, w: forward_ruled(c) * w + 0.1,
    "custom_vjp": lambda c, w: reverse_ruled(c) * w + 0.1,
    "checkpoint": lambda c, w: qb.checkpoint(lambda y: qb.sin(y * w) * y)(c) + 0.1,
}

# ---- chains of transforms. ALWAYS: the order of operations is that of the written-out program. OFTEN: it is, where a captured value
# is read by the iterations alone, and they share no work on it that the written-out program does once. NEVER: sums over
# iterations have another order.

NEVER, OFTEN, ALWAYS = range(3)


def total(f):
    return lambda x, w: qb.sum(f(x, w) * w)


CHAINS = {
    "value": (ALWAYS, lambda f: f),
    "grad": (OFTEN, lambda f: qb.grad(f, argnums=(0, 1))),
    "jvp": (ALWAYS, lambda f: lambda x, w: qb.jvp(f, (x, w), (w, x))[1]),
    "jvp of jvp": (ALWAYS, lambda f: lambda x, w: qb.jvp(lambda x, w: qb.jvp(f, (x, w), (w, x))[1], (x, w), (w, x))[1]),
    "jvp of grad": (OFTEN, lambda f: lambda x, w: qb.jvp(qb.grad(f), (x, w), (w, x))[1]),
    "grad of jvp": (OFTEN, lambda f: qb.grad(lambda x, w: qb.jvp(f, (x, w), (w, x))[1])),
    "vmap of jvp": (ALWAYS, lambda f: qb.vmap(lambda x, w: qb.jvp(f, (x, w), (w, x))[1], (0, None))),
    "vmap of grad": (OFTEN, lambda f: qb.vmap(qb.grad(f, argnums=(0, 1)), (0, 0))),
    "vmap of grad, one operand for all": (OFTEN, lambda f: qb.vmap(qb.grad(f), (0, None))),
    "grad of vmap": (NEVER, lambda f: qb.grad(lambda x, w: qb.sum(qb.vmap(f, (0, None))(x, w)), argnums=(0, 1))),
    "grad of grad": (NEVER, lambda f: qb.grad(total(qb.grad(f)), argnums=(0, 1))),
    "third": (NEVER, lambda f: qb.grad(total(qb.grad(total(qb.grad(f)))))),
    "hessian": (NEVER, lambda f: qb.hessian(f)),
    "hessian in vmap": (NEVER, lambda f: qb.vmap(qb.hessian(f), (0, None))),
}
X, W = qb.array([0.3, -0.8, 0.9]), qb.array([1.1, 0.6, -0.7])
XS, WS = qb.stack([X, -X, X * 0.5, X + 1.0]), qb.stack([W, W * W, -W, W - 0.3])


def arguments(name):
    return (XS, WS if name == "vmap of grad" else W) if "vmap" in name else (X, W)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("region", REGIONS)
def test_every_chain_through_every_region_is_that_of_the_unrolled_program(region, body):
    def f(x, w, flat):
        return qb.sum(REGIONS[region](BODIES[body], x * w, w, flat) ** 2)

    for name, (exact, chain) in CHAINS.items():
        if body == "custom_vjp" and "jvp" in name:
            continue  # it has no forward mode
        often = region != "scan_over_arrays" and body != "a product"
        compare(chain, f, arguments(name), exact == ALWAYS or (exact == OFTEN and often))


def test_a_rule_for_reverse_mode_alone_says_so_inside_a_loop():
    f = lambda x: qb.fori_loop(0, 3, lambda i, c: reverse_ruled(c), x)
    with pytest.raises(ValueError, match="forward mode through the custom_vjp function"):
        qb.jvp(f, (X,), (W,))


# ---- regions in regions


@pytest.mark.parametrize("inner", REGIONS)
@pytest.mark.parametrize("outer", REGIONS)
def test_regions_nest(outer, inner):
    def f(x, w, flat):
        body = lambda c, w: REGIONS[inner](BODIES["arithmetic"], c, w, flat) * 0.3
        return qb.sum(REGIONS[outer](body, x * w, w, flat) ** 2)

    for name in ("value", "jvp", "grad", "jvp of grad", "vmap of grad", "grad of vmap", "third", "hessian in vmap"):
        compare(CHAINS[name][1], f, arguments(name), CHAINS[name][0] == ALWAYS)


def test_loops_inside_derivatives_of_loops():
    """Gradient descent on a loss that is a scan: a loop whose body holds the gradient of a loop, and derivatives of that."""

    def loss(c, w, flat):
        _, ys = qb.scan(lambda c, i: (qb.tanh(c * w) + c * 0.1, qb.sin(c)), c, length=3, unroll=flat)
        return qb.sum(ys)

    def f(x, w, flat):
        step = lambda i, c: c - 0.3 * qb.grad(lambda c: loss(c, w, flat))(c)
        return qb.sum(qb.fori_loop(0, 3, step, x, unroll=flat) ** 2)

    for name, (_, chain) in CHAINS.items():
        compare(
            chain, f, arguments(name), name == "value"
        )  # the inner gradient adds in another order than its derivatives


def test_newton_steps_with_a_hessian_in_a_while():
    """The body holds first and second derivatives of a loop, sum(c^4): each of at most 4 steps takes c to 2 c / 3."""

    def quartic(c, flat):
        return qb.sum(qb.fori_loop(0, 3, lambda i, d: d * c, c, unroll=flat))

    def f(x, w, flat):
        def step(c):
            g = qb.grad(lambda c: quartic(c, flat))(c)
            return c - g / qb.diagonal(qb.hessian(lambda c: quartic(c, flat))(c))

        return qb.sum(bounded_while(lambda c, w: step(c) - c, x * w, w, flat))

    close(f(qb.ones((3,)) * 0.5, qb.ones((3,)), False), 3 * 0.5 * (2 / 3) ** 4)
    for name in ("value", "grad", "hessian", "vmap of grad"):
        compare(CHAINS[name][1], f, arguments(name), False)


def test_third_derivatives_through_a_scan_of_a_scan():
    def f(x, flat):
        inner = lambda d, i: (qb.sin(d) * x, d * d)

        def outer(c, i):
            d, ys = qb.scan(inner, c, length=3, unroll=flat)
            return d + qb.sum(ys), d

        c, ys = qb.scan(outer, x, length=2, unroll=flat)
        return qb.sum(c) + qb.sum(ys)

    forward = lambda f: qb.grad(qb.grad(qb.grad(f)))
    grad = lambda f: qb.grad(lambda x: qb.sum(f(x)))
    reverse = lambda f: grad(grad(grad(f)))  # of an array, so no forward mode takes its place
    compare(forward, f, (qb.array(0.4),), False)
    compare(reverse, f, (qb.array([0.4]),), False)
    close(forward(lambda x: f(x, False))(qb.array(0.4)), reverse(lambda x: f(x, False))(qb.array([0.4]))[0])


def test_jvp_of_the_vjp_of_a_cond():
    def f(x, w, flat):
        return cond(lambda c, w: qb.exp(c * w) + c, x, w, flat)

    def chain(f):
        def pull(x, w):
            out, back = qb.vjp(f, x, w)
            return back(out * w)

        return lambda x, w: qb.jvp(pull, (x, w), (w, x))

    for x in (X, -X):  # either branch
        compare(chain, f, (x, W), True)


def test_hessian_through_a_fori_loop_inside_vmap():
    def f(x, w, flat):
        return qb.sum(qb.fori_loop(0, 5, lambda i, c: qb.tanh(c * w) + 0.1 * i * x, x, unroll=flat))

    compare(lambda f: qb.vmap(lambda x, w: qb.hessian(f)(x, w), (0, None)), f, (XS, W), False)
    compare(lambda f: qb.vmap(lambda w: qb.hessian(f)(X, w)), f, (WS,), False)


def test_float32_loops_have_the_bits_of_the_unrolled_program():
    x, w = qb.astype(X, qb.float32), qb.astype(W, qb.float32)
    for region in (fori, scan, cond, switch, bounded_while):
        f = lambda x, w, flat, region=region: qb.sum(region(BODIES["arithmetic"], x * w, w, flat) ** 2)
        for name in ("value", "grad", "jvp", "jvp of grad"):
            compare(CHAINS[name][1], f, (x, w), True)


# ---- long loops


@pytest.mark.parametrize("n", [64, 65, 1024, 1025, 1369, 1500])
def test_gradients_of_long_loops_are_bitwise_those_of_the_full_tape(n):
    """The written-out program keeps every value. Blocks, blocks and a rest, and short loops, give its bits."""
    xs = qb.array(np.random.RandomState(1).randn(n, 2))

    def f(x, w, flat):
        def step(c, v):
            a, b = c
            return (qb.tanh(a * w[:2] + v), b * 0.5 + a), a * v

        (a, b), ys = qb.scan(step, (x[:2], x[1:]), xs, unroll=flat)
        return qb.sum(a * b) + qb.sum(ys)

    for name in ("grad", "jvp of grad"):
        compare(CHAINS[name][1], f, (X, W), True)


def test_second_derivatives_of_a_loop_in_blocks():
    f = lambda x, w, flat: qb.sum(qb.fori_loop(0, 1100, lambda i, c: qb.sin(c * w) * 0.5 + x, x, unroll=flat))
    for name in ("grad of grad", "hessian", "vmap of grad, one operand for all"):
        compare(CHAINS[name][1], f, arguments(name), False)


LONG = {
    "fori": lambda n: lambda w: qb.fori_loop(0, n, lambda i, c: qb.tanh(c * w) + 0.1, qb.ones((16,))),
    "bounded while": lambda n: (
        lambda w: qb.while_loop(lambda c: qb.sum(c) < 1e9, lambda c: qb.tanh(c * w) + 0.1, qb.ones((16,)), max_steps=n)
    ),
    "in vmap": lambda n: (
        lambda w: qb.vmap(lambda s: qb.fori_loop(0, n, lambda i, c: qb.tanh(c * w * s) + 0.1, qb.ones((16,))))(
            qb.ones((4,))
        )
    ),
}
ORDERS = {
    "grad": lambda f: qb.grad(lambda w: qb.sum(f(w))),
    "grad of grad": lambda f: qb.grad(lambda w: qb.sum(qb.grad(lambda w: qb.sum(f(w)))(w))),
    "jvp of grad": lambda f: lambda w: qb.jvp(qb.grad(lambda w: qb.sum(f(w))), (w,), (w,))[1],
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("loop", LONG)
def test_memory_of_reverse_mode_grows_with_the_square_root_of_the_steps(loop, order):
    """100 steps keep every carry, 1,000 of it as many as 10,000 do in blocks; from there on 100 times the steps are 10 times the memory."""
    w = qb.full((16,), 0.9)
    small, medium, large = (
        qb.jit(ORDERS[order](LONG[loop](n))).lower(w).compile().workspace for n in (100, 10_000, 1_000_000)
    )
    assert medium < 4 * small
    assert 5 * medium < large < 11 * medium
    assert large < 0.05 * 1_000_000 * 16 * 8  # bytes of all carries


@pytest.mark.parametrize("loop", ["fori", "bounded while"])
def test_the_gradient_of_a_million_steps_runs(loop):
    """Where c is steady, c = tanh(c w) + 0.1, dc/dw = s c / (1 - s w) with s = 1 - tanh(c w)^2."""
    w = qb.full((16,), 0.9)
    got = np.asarray(qb.jit(ORDERS["grad"](LONG[loop](1_000_000)))(w))
    c = float(LONG[loop](2000)(w)[0])
    s = 1 - np.tanh(c * 0.9) ** 2
    np.testing.assert_allclose(got, s * c / (1 - s * 0.9), rtol=1e-9)
