"""Random chains of transforms over random small programs, each link against finite differences or a loop of the one before.

Every program and every link takes an array of three elements to one of three, so links may follow in any order. By induction over the
links a chain is right when each of them is. Programs hold branches and loops whose bodies are drawn too, and links wrap a function in
one. Set QUABLA_EXHAUSTIVE for a long run, QUABLA_SEED for another one (its first seed).
"""

import os
import random

import pytest
import quabla as qb

np = pytest.importorskip("numpy")

N = 3
CHAINS = 3000 if os.environ.get("QUABLA_EXHAUSTIVE") else 150
FIRST = int(os.environ.get("QUABLA_SEED", "0"))


def arr(x):
    return qb.asarray(np.asarray(x, dtype=float))


# ---- programs ----


@qb.custom_jvp
def ruled(x):
    return qb.sin(x) * x


@ruled.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return ruled(x), t * (qb.cos(x) * x + qb.sin(x))


@qb.custom_vjp
def reversed_rule(x):
    return qb.tanh(x) * x


reversed_rule.defvjp(lambda x: (qb.tanh(x) * x, x), lambda x, ct: (ct * (qb.tanh(x) + x * (1.0 - qb.tanh(x) ** 2)),))


def plain(r, reverse_rules):
    """One smooth function of an array of three and the values before it; its constants are drawn here, once."""
    a, m = r.uniform(0.4, 0.9), arr(np.array([[r.uniform(-0.6, 0.6) for _ in range(N)] for _ in range(N)]))
    w = arr([r.uniform(-1, 1) for _ in range(N)])
    kinds = [
        lambda x, y: qb.sin(x * a) + y * 0.5,
        lambda x, y: qb.tanh(x * y),
        lambda x, y: qb.matmul(m, x) * a + qb.cos(y),
        lambda x, y: x * qb.mean(y) + w,
        lambda x, y: qb.exp(-x * x) * y,
        lambda x, y: qb.concat([x[1:], y[:1]], 0) * w,
        lambda x, y: qb.where(x > 0.1, qb.sin(x), x * y),
        lambda x, y: ruled(x) * 0.5 + y * 0.3,
        lambda x, y: qb.checkpoint(lambda x: qb.sin(x * w) * y)(x),
        lambda x, y: qb.stack([qb.sum(x * y), qb.max(x) * 0.5, x[0] * y[2]]),
        lambda x, y: qb.vmap(lambda s, t: qb.sin(s) * t)(x, y),
        lambda x, y: qb.vmap(qb.grad(lambda s: qb.sin(s * a) * s))(x) + y * 0.1,
        lambda x, y: qb.jit(lambda x: x * y + 0.1)(x),
        lambda x, y: x / (2.0 + y * y) + qb.sqrt(1.0 + x * x) * 0.3,
    ]
    if reverse_rules:
        kinds.append(lambda x, y: reversed_rule(x) * 0.5 + y * 0.2)
    return r.choice(kinds)


def region(r, reverse_rules, depth):
    """A branch or a loop. Its bodies are drawn; what they do not take as an operand or carry they close over."""
    f, g, h = (step(r, reverse_rules, depth - 1) for _ in range(3))
    a, level, n = r.uniform(0.3, 0.7), r.uniform(-0.5, 0.5), r.choice([1, 2, 3, 8])
    unroll = r.random() < 0.2
    once = lambda c, y: qb.tanh(f(c, y)) * a + c * 0.2  # noqa: E731

    def scan_over(x, y):
        c, ys = qb.scan(lambda c, s: (once(c, s[0]), (g(c, y) * s[1], c[0])), x, (qb.stack([x, y]), arr([a, level])))
        return c + qb.mean(ys[0], axis=0) + ys[1][1] * y

    def two_carries(x, y):
        c = qb.scan(lambda c, i: ({"p": once(c["q"], y), "q": c["p"] * a}, qb.sum(c["p"])), {"p": x, "q": y}, length=n)
        return c[0]["p"] + c[0]["q"] * qb.mean(c[1])

    kinds = [
        lambda x, y: qb.cond(qb.sum(y) > level, lambda x: f(x, y), lambda x: g(x, y) * a, x),
        lambda x, y: qb.switch(qb.sum(x) * 2.0 + 1.0, [f, g, h], x, y),
        lambda x, y: qb.fori_loop(0, n, lambda i, c: once(c, y) * (1.0 + 0.1 * i), x, unroll=unroll),
        lambda x, y: qb.scan(lambda c, i: (once(c, y), None), x, length=n, unroll=unroll)[0],
        lambda x, y: qb.while_loop(
            lambda c: c["n"] < n, lambda c: {"x": once(c["x"], y), "n": c["n"] + 1.0}, {"x": x, "n": 0.0}, max_steps=9
        )["x"],
        lambda x, y: qb.while_loop(lambda c: qb.sum(c * c) > 0.3, lambda c: once(c, y) * 0.5, x, max_steps=n),
        lambda x, y: qb.vmap(lambda s, t: qb.cond(s > level, lambda s: qb.sin(s) * t, lambda s: s - t * a, s))(x, y),
        lambda x, y: qb.checkpoint(lambda x: qb.fori_loop(0, n, lambda i, c: once(c, y), x))(x),
        scan_over,
        two_carries,
    ]
    return r.choice(kinds)


def step(r, reverse_rules, depth):
    return region(r, reverse_rules, depth) if depth > 0 and r.random() < 0.4 else plain(r, reverse_rules)


def program(r, reverse_rules):
    steps = [step(r, reverse_rules, 2) for _ in range(r.randint(2, 4))]

    def f(x):
        y = x * 0.7 + 0.1
        for s in steps:
            x, y = s(x, y), x
        return x

    return f


# ---- links: what is done to f, and what numbers say it should be ----


def slope(f, x, v, h=1e-5):
    return (f(arr(x + h * v)).numpy() - f(arr(x - h * v)).numpy()) / (2 * h)


def total(f):
    return lambda x: qb.sum(f(x))


def gradient_of(f, x):
    return np.array([slope(total(f), x, e) for e in np.eye(N)])


def link_grad(f, v):
    return qb.grad(total(f)), lambda x: gradient_of(f, x)


def link_value_and_grad(f, v):
    return lambda x: qb.value_and_grad(total(f))(x)[1], lambda x: gradient_of(f, x)


def link_jvp(f, v):
    return lambda x: qb.jvp(f, (x,), (arr(v),))[1], lambda x: slope(f, x, v)


def link_vjp(f, v):
    def pull(x):
        out, vjp = qb.vjp(f, x)
        return vjp(arr(v) * out)[0]

    return pull, lambda x: np.array([slope(f, x, e) @ (v * f(arr(x)).numpy()) for e in np.eye(N)])


def link_jacobian(f, v):
    return lambda x: qb.matmul(qb.jacobian(f)(x), arr(v)), lambda x: slope(f, x, v)


def link_hessian(f, v):
    return lambda x: qb.matmul(qb.hessian(total(f))(x), arr(v)), lambda x: slope(qb.grad(total(f)), x, v)


def link_vmap(f, v):
    def batched(x):
        rows = qb.stack([x, x * 0.5, x + arr(v)])
        return qb.mean(qb.vmap(f)(rows), axis=0)

    return batched, lambda x: np.mean([f(arr(r)).numpy() for r in (x, x * 0.5, x + v)], axis=0)


def link_vmap_axis(f, v):
    def batched(x):
        columns = qb.stack([x, x * 0.5], axis=1)
        return qb.vmap(lambda a, b: f(a) * b, in_axes=(1, None), out_axes=1)(columns, x)[:, 1]

    return batched, lambda x: f(arr(x * 0.5)).numpy() * x


def link_closure(f, v):
    """The gradient in w at w = v of sum(f(w x)): x is a value of the trace around it."""

    def outer(x):
        return qb.grad(lambda w: qb.sum(f(w * x)))(arr(v))

    return outer, lambda x: np.array([slope(lambda w: qb.sum(f(w * arr(x))), v, e) for e in np.eye(N)])


def same(f):
    return lambda x: f(arr(x)).numpy()


def link_jit(f, v):
    return qb.jit(f), same(f)


def link_checkpoint(f, v):
    return qb.checkpoint(f), same(f)


def link_custom_jvp(f, v):
    g = qb.custom_jvp(f)
    g.defjvp(lambda primals, tangents: qb.jvp(f, primals, tangents))
    return g, same(f)


def link_custom_vjp(f, v):
    g = qb.custom_vjp(f)
    g.defvjp(lambda x: (f(x), x), lambda x, ct: qb.vjp(f, x)[1](ct))
    return g, same(f)


def link_scan(f, v):
    return (
        lambda x: qb.scan(lambda c, i: (f(c) * 0.4, c), x, length=2)[0],
        lambda x: f(f(arr(x)) * 0.4).numpy() * 0.4,
    )


def link_scan_over(f, v):
    """The function of each row, one after the other: vmap by a loop."""
    rows = lambda x: qb.stack([x, x * 0.5, x * arr(v)])  # noqa: E731
    return (
        lambda x: qb.sum(qb.scan(lambda c, s: (c, f(s)), 0.0, rows(x))[1], axis=0),
        lambda x: sum(f(arr(r)).numpy() for r in (x, x * 0.5, x * v)),
    )


def link_while(f, v):
    def loop(x):
        return qb.while_loop(lambda c: c[1] < 2, lambda c: (f(c[0]) * 0.4, c[1] + 1), (x, 0.0), max_steps=3)[0]

    return loop, lambda x: f(f(arr(x)) * 0.4).numpy() * 0.4


def link_cond(f, v):
    def either(x):
        return qb.cond(x[0] > v[0], f, lambda x: f(x) * x, x)

    return either, lambda x: f(arr(x)).numpy() * (1.0 if x[0] > v[0] else x)


def link_switch(f, v):
    which = arr(abs(v[0]) * 3)
    return (
        lambda x: qb.switch(which + x[0] * 0.0, [qb.sin, f, lambda x: x * f(x)], x),
        lambda x: [np.sin(x), f(arr(x)).numpy(), x * f(arr(x)).numpy()][int(which.item())],
    )


# How often each is drawn.
LINKS = {
    link_grad: 2,
    link_value_and_grad: 1,
    link_jvp: 2,
    link_vjp: 2,
    link_jacobian: 2,
    link_hessian: 2,
    link_vmap: 2,
    link_vmap_axis: 2,
    link_closure: 2,
    link_jit: 1,
    link_checkpoint: 1,
    link_custom_jvp: 1,
    link_custom_vjp: 1,
    link_scan: 1,
    link_scan_over: 1,
    link_while: 1,
    link_cond: 1,
    link_switch: 1,
}
FORWARD = {link_jvp, link_custom_jvp}  # not over a function that has a reverse rule alone
REVERSE = {link_grad, link_value_and_grad, link_vjp, link_jacobian, link_hessian, link_closure}  # splice that rule
HIGHER = REVERSE | {link_jvp}


def links(r, reverse_rules):
    """Up to four, of at most three orders."""
    orders, out = 0, []
    for _ in range(r.randint(1, 4)):
        fit = [k for k in LINKS if not (reverse_rules and k in FORWARD) and not (orders >= 3 and k in HIGHER)]
        link = r.choices(fit, [LINKS[k] for k in fit])[0]
        orders += 2 if link is link_hessian else link in HIGHER
        reverse_rules = link is link_custom_vjp or (reverse_rules and link not in REVERSE)
        out.append((link, orders))
    return out


@pytest.mark.parametrize("seed", range(FIRST, FIRST + CHAINS))
def test_a_chain_agrees_with_finite_differences_link_by_link(seed):
    r = random.Random(seed)
    reverse_rules = seed % 3 == 0
    f, names = program(r, reverse_rules), []
    x = np.array([r.uniform(-1, 1) for _ in range(N)])
    for link, orders in links(r, reverse_rules):
        names.append(link.__name__)
        g, numbers = link(f, np.array([r.uniform(-1, 1) for _ in range(N)]))
        got, want = g(arr(x)).numpy(), numbers(x)
        scale = 1.0 + np.abs(want).max() + np.abs(f(arr(x)).numpy()).max()
        tolerance = 0 if link is link_jit else 2e-6 * scale * 4**orders
        assert np.abs(got - want).max() <= tolerance, (seed, names, got, want)
        compiled = qb.jit(g)(arr(x)).numpy()
        assert compiled.tobytes() == got.tobytes(), (seed, names, "jit")
        f = g


@pytest.mark.parametrize("seed", range(FIRST, FIRST + 60))
def test_forward_and_reverse_mode_agree(seed):
    r = random.Random(seed)
    f, x = program(r, False), arr([r.uniform(-1, 1) for _ in range(N)])
    forward = np.stack([qb.jvp(f, (x,), (arr(e),))[1].numpy() for e in np.eye(N)], axis=1)
    _, pull = qb.vjp(f, x)
    reverse = np.stack([pull(arr(e))[0].numpy() for e in np.eye(N)])
    jac = qb.jacobian(f)(x).numpy()
    np.testing.assert_allclose(forward, reverse, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(jac, reverse, rtol=1e-12, atol=1e-13)
    hess = qb.hessian(total(f))(x).numpy()
    over = np.stack([qb.grad(lambda x, e=e: qb.sum(qb.grad(total(f))(x) * arr(e)))(x).numpy() for e in np.eye(N)])
    twice = qb.jacobian(qb.jacobian(total(f)))(x).numpy()
    np.testing.assert_allclose(hess, over, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(hess, twice, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(hess, hess.T, rtol=1e-11, atol=1e-12)


# ---- closures, at depth ----


def test_closures_over_every_enclosing_trace():
    """d/da d/db d/dc of sin(a b c): each inner function closes over the variables of all traces around it."""

    def at(a, b, c):
        return qb.grad(lambda a: qb.grad(lambda b: qb.grad(lambda c: qb.sin(a * b * c))(c))(b))(a)

    a, b, c = 0.3, 0.7, 1.1
    p = a * b * c
    want = np.cos(p) - 3 * p * np.sin(p) - p * p * np.cos(p)
    for f in (
        at,
        qb.jit(at),
        lambda a, b, c: qb.vmap(at)(a[None] if False else qb.stack([a]), qb.stack([b]), qb.stack([c]))[0],
    ):
        got = f(qb.array(a), qb.array(b), qb.array(c)).item()
        assert got == pytest.approx(want, rel=1e-13)


def test_an_inner_transform_sees_a_constant_and_the_outer_one_differentiates_through_it():
    f = qb.grad(lambda x: x * qb.grad(lambda y: x * y * y)(x))  # x * 2 x y at y = x: 2 x^3
    assert f(3.0).item() == 54.0
    g = qb.jit(qb.grad(lambda x: qb.jit(qb.grad(lambda y: x * x * y))(x)))  # x^2
    assert g(3.0).item() == 6.0


def test_a_call_again_finds_the_values_of_this_call():
    def outer(x, k):
        inner = qb.vmap(lambda t: t * x + k)
        return qb.sum(inner(qb.array([1.0, 2.0])))

    step = qb.jit(qb.grad(outer))
    assert step(2.0, qb.array(1.0)).item() == 3.0
    f = qb.jit(outer)
    assert f(qb.array(2.0), qb.array(1.0)).item() == 8.0
    assert f(qb.array(3.0), qb.array(5.0)).item() == 19.0

    def uses_one_function_twice(x):
        g = qb.grad(lambda y: y * x)
        return g(x) + qb.grad(lambda z: g(z) * z)(x * 2.0)

    assert qb.jit(uses_one_function_twice)(qb.array(3.0)).item() == 6.0


def test_a_call_inside_a_trace_takes_what_one_outside_does():
    """NumPy arrays, keywords, static arguments and devices: what is right or wrong outside is so inside."""
    w, x = np.array([3.0, 4.0]), qb.array([1.0, 2.0])

    def f(a, b):
        return qb.sum(a["w"] * b) * a["k"]

    a = {"w": w, "k": 2.0}
    calls = {
        "jit": lambda x: qb.jit(f)(a, x),
        "jit, keyword": lambda x: qb.jit(f)(b=x, a=a),
        "grad": lambda x: qb.grad(f, 1)(a, x),
        "hessian": lambda x: qb.hessian(lambda a, b: f(a, b) ** 2, 1)(a, x),
        "vmap": lambda x: qb.vmap(f, (None, 0))(a, x),
        "vjp": lambda x: qb.vjp(lambda x: qb.grad(f, 1)(a, x), x)[1](w)[0],
        "checkpoint": lambda x: qb.checkpoint(f)(a, x),
        "cond": lambda x: qb.cond(x[0] > 0, f, lambda a, b: a["w"][0] * b[1], a, x),
        "switch": lambda x: qb.switch(x[0], [lambda a, b: 1.0, f], a, x),
        "fori_loop": lambda x: qb.fori_loop(0, 2, lambda i, c, a: a["w"] * c, x, operands=(a,)),
        "scan": lambda x: qb.scan(lambda c, i, a: (a["w"] * c, a["w"]), x, length=2, operands=(a,))[1],
        "while_loop": lambda x: qb.while_loop(lambda c, a: c[0] < a["w"][1], lambda c, a: a["w"] * c, x, operands=(a,)),
    }
    for name, call in calls.items():
        outside, inside = call(x), qb.jit(call)(x)
        assert type(outside) is qb.Tensor, name
        assert outside.numpy().tobytes() == inside.numpy().tobytes(), name
    got = []
    qb.jit(lambda x: qb.jit(lambda a, b: got.append(type(a)) or b, static_argnums=0)("s", x))(x)
    assert got == [str]
    wrong = {
        (TypeError, "not hashable"): lambda x: qb.jit(lambda a, b: b, static_argnums=0)([1], x),
        (TypeError, "is an array"): lambda x: qb.jit(lambda a, b: b, static_argnums=0)(x, x),
        (TypeError, "must be static"): lambda x: qb.jit(lambda a, *, b: a)(x, b=2),
        (ValueError, "device 'gpu'"): lambda x: qb.jit(qb.sin, device="gpu")(x),
        (ValueError, "precision"): lambda x: qb.jit(qb.sin, precision="half")(x),
    }
    for (error, text), call in wrong.items():
        for f in (call, qb.jit(call), qb.grad(lambda x, call=call: qb.sum(call(x)))):
            with pytest.raises(error, match=text):
                f(x)


def test_jit_inside_everything():
    inner = qb.jit(lambda x, n: qb.sin(x) * n, static_argnums=1)
    x = qb.array([0.1, 0.2])
    a = x.numpy()
    np.testing.assert_allclose(qb.grad(lambda x: qb.sum(inner(x, 3)))(x).numpy(), 3 * np.cos(a), rtol=1e-14)
    np.testing.assert_allclose(qb.vmap(lambda t: inner(t, 2))(x).numpy(), 2 * np.sin(a), rtol=1e-14)
    np.testing.assert_allclose(
        qb.hessian(lambda x: qb.sum(inner(x, 2)))(x).numpy(), np.diag(-2 * np.sin(a)), rtol=1e-14
    )
    np.testing.assert_allclose(
        qb.jit(qb.jacobian(qb.jit(lambda x: inner(x, 1))))(x).numpy(), np.diag(np.cos(a)), rtol=1e-14
    )


def test_vmap_of_vmap_of_vmap():
    a, b, c = arr([1, 2]), arr([1, 2, 3]), arr([1, 2, 3, 4])
    f = lambda x, y, z: qb.sin(x * y) + z  # noqa: E731
    g = qb.vmap(qb.vmap(qb.vmap(f, (None, None, 0)), (None, 0, None)), (0, None, None))
    want = np.sin(np.multiply.outer(a.numpy(), b.numpy()))[:, :, None] + c.numpy()
    np.testing.assert_allclose(g(a, b, c).numpy(), want, rtol=1e-14)
    h = qb.vmap(
        qb.grad(lambda x, b, c: qb.sum(qb.vmap(qb.vmap(f, (None, None, 0)), (None, 0, None))(x, b, c))), (0, None, None)
    )
    np.testing.assert_allclose(
        h(a, b, c).numpy(), 4 * (b.numpy() * np.cos(np.multiply.outer(a.numpy(), b.numpy()))).sum(axis=1), rtol=1e-13
    )
