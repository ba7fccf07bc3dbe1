"""What does not run leaks no NaN: the branch not taken, the iteration not run, the example already finished.

The bodies are not finite, or have derivatives that are not, where they do not run. Every region is taken through first and second
derivatives of one example, in a batch, and of a batch; a batch must agree with a loop over its examples.
"""

import math

import numpy as np
import pytest
import quabla as qb

# ---- bodies of (c, w) for c > 0


@qb.custom_jvp
def forward_ruled(x):
    return qb.log(x)


@forward_ruled.defjvp
def _(primals, tangents):
    return forward_ruled(primals[0]), tangents[0] / primals[0]


reverse_ruled = qb.custom_vjp(lambda x: qb.log(x) * x)
reverse_ruled.defvjp(lambda x: (qb.log(x) * x, x), lambda x, ct: (ct * (qb.log(x) + 1.0),))

BODIES = {
    "log": lambda c, w: qb.log(c) * w[0],
    "quotient": lambda c, w: w[0] / c + qb.sqrt(c),
    "power": lambda c, w: c**1.5 * w[0],
    "product": lambda c, w: qb.matmul(w, qb.log(c)) + qb.sqrt(qb.matmul(w, c)),
    "reductions": lambda c, w: qb.matmul(w, c) / qb.sqrt(qb.sum(c * c)) + qb.max(qb.log(c)) * w[1],
    "cumsum": lambda c, w: qb.cumsum(qb.log(c))[::-1] * w[1],
    "scan": lambda c, w: qb.scan(lambda d, i: (qb.matmul(w, qb.log(d)) + 2.0, d), c, length=3)[1][2],
    "while": lambda c, w: qb.while_loop(
        lambda d: qb.sum(d * d) < 9.0, lambda d: d + qb.sqrt(d) * w[0] + 0.5, c, max_steps=5
    ),
    "custom_jvp": lambda c, w: forward_ruled(c) * w[0],
    "custom_vjp": lambda c, w: reverse_ruled(c) * w[0],
    "checkpoint": lambda c, w: qb.checkpoint(lambda c: qb.matmul(w, qb.sqrt(c)))(c),
}

# ---- regions that run them only where c > 0


def positive(c):
    return qb.min(c) > 0


def cond(body, x, w):
    return qb.cond(positive(x), lambda: body(x, w), lambda: x * w[0])


def cond_in_cond(body, x, w):
    inner = lambda: qb.cond(x[0] > 1.0, lambda: body(x, w), lambda: body(x, w) * x)
    return qb.cond(positive(x), inner, lambda: x * w[0])


def switch(body, x, w):
    return qb.switch(qb.where(positive(x), 0.0, 1.0), [lambda: body(x, w), lambda: x * w[0], lambda: x])


def fori_of_cond(body, x, w):
    return qb.fori_loop(0, 2, lambda i, c: cond(body, c, w), x)


def bounded_while(body, x, w):
    return qb.while_loop(lambda c: positive(c) & (qb.sum(c) < 30.0), lambda c: body(c, w) + c + 1.0, x, max_steps=3)


def scan_of_while(body, x, w):
    return qb.scan(lambda c, i: (bounded_while(body, c, w), qb.sum(c)), x, length=2)[0]


REGIONS = {f.__name__: f for f in (cond, cond_in_cond, switch, fori_of_cond, bounded_while, scan_of_while)}
POINTS = qb.array([[1.3, 2.0], [0.0, 0.0], [-1.0, 0.5], [0.7, 0.9], [0.0, 3.0], [40.0, 1.0]])
W = qb.array([[1.0, 0.5], [0.25, 1.5]])


def orders(f, forward):
    """The value of f(x, w) and its derivatives, as one function."""

    def slope(x, w):
        gx, gw = qb.grad(f, argnums=(0, 1))(x, w)
        return qb.sum(gx * x) + qb.sum(gw * w)

    def all_of_them(x, w):
        out = [f(x, w), qb.grad(f, argnums=(0, 1))(x, w), qb.grad(slope, argnums=(0, 1))(x, w)]
        if forward:
            rate = lambda x, w: qb.jvp(f, (x, w), (x + 1.0, w))[1]
            out += [rate(x, w), qb.grad(rate, argnums=(0, 1))(x, w), qb.jvp(slope, (x, w), (x + 1.0, w))[1]]
        return out

    return all_of_them


def agree(got, want):
    for a, b in zip(qb.tree.leaves(got), qb.tree.leaves(want), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert np.isfinite(a).all() and np.isfinite(b).all()
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("region", REGIONS)
def test_what_does_not_run_leaks_no_nan(region, body):
    forward = body != "custom_vjp"
    f = lambda x, w: qb.sum(REGIONS[region](BODIES[body], x, w) ** 2)
    each = qb.jit(orders(f, forward))
    singles = [each(x, W) for x in POINTS]
    stacked = qb.tree.map(lambda *leaves: qb.stack(list(leaves)), *singles)
    agree(qb.jit(qb.vmap(orders(f, forward), (0, None)))(POINTS, W), stacked)

    batch = lambda xs, w: qb.sum(qb.vmap(f, (0, None))(xs, w))
    loop = lambda xs, w: sum(f(xs[i], w) for i in range(len(POINTS)))
    agree(qb.jit(orders(batch, forward))(POINTS, W), qb.jit(orders(loop, forward))(POINTS, W))


def test_eager_derivatives_of_a_batch_are_the_compiled_ones():
    for region in (cond, bounded_while):
        batch = lambda xs, w, region=region: qb.sum(qb.vmap(lambda x: qb.sum(region(BODIES["product"], x, w)))(xs))
        for f in (batch, qb.grad(batch), qb.grad(batch, argnums=1)):
            a, b = np.asarray(f(POINTS, W)), np.asarray(qb.jit(f)(POINTS, W))
            assert np.isfinite(a).all() and a.tobytes() == b.tobytes()


def test_an_iteration_that_does_not_run_is_not_computed():
    """No trip: the body would be infinite at once, in value and derivative."""
    bad = lambda c: 1.0 / (c - c)
    for f in (
        lambda x: qb.sum(qb.while_loop(lambda c: qb.sum(c) < 0, bad, x, max_steps=3)),
        lambda x: qb.sum(qb.while_loop(lambda c: qb.sum(c) < 0, lambda c: bad(c) * x, x, max_steps=3)),
        lambda x: qb.sum(qb.fori_loop(2, 2, lambda i, c: bad(c), x)),
        lambda x: qb.sum(qb.cond(qb.sum(x) < 0, lambda: bad(x), lambda: x)),
    ):
        x = qb.array([1.0, 2.0])
        for call in (f, qb.jit(f)):
            assert call(x).item() == 3.0
        for call in (qb.grad(f), qb.jit(qb.grad(f)), qb.grad(lambda x, f=f: qb.sum(qb.grad(f)(x) * x))):
            assert call(x).tolist() == [1.0, 1.0]
        assert qb.hessian(f)(x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert qb.vmap(qb.grad(f))(qb.stack([x, x])).tolist() == [[1.0, 1.0]] * 2


def test_forward_mode_of_a_batch_through_an_unbounded_while():
    """A finished example would be NaN: its value and tangent stay."""
    f = lambda x: qb.while_loop(lambda c: (c > 0) & (c < 10), lambda c: qb.log(c) + c + 1.0, x)
    x = qb.array([0.5, 0.0, -3.0, 20.0])
    value, slope = qb.jvp(qb.vmap(f), (x,), (qb.ones((4,)),))
    assert value.tolist()[1:] == [0.0, -3.0, 20.0] and slope.tolist()[1:] == [1.0, 1.0, 1.0]
    one, rate = qb.jvp(f, (x[0],), (qb.array(1.0),))
    assert value[0].item() == one.item() and slope[0].item() == rate.item()
    curve = qb.jvp(lambda x: qb.jvp(qb.vmap(f), (x,), (qb.ones((4,)),))[1], (x,), (qb.ones((4,)),))[1]
    assert curve.tolist()[1:] == [0.0, 0.0, 0.0] and np.isfinite(curve[0].item())


def test_no_nan_comes_from_what_does_not_run():
    def f(x):
        return qb.sum(qb.vmap(lambda x: qb.cond(x > 0, lambda x: qb.sqrt(x) * qb.log(x), lambda x: x * 0.0, x))(x))

    x = qb.array([4.0, 0.0, -1.0])
    assert np.isfinite(np.asarray(qb.grad(f)(x))).all()
    assert np.isfinite(np.asarray(qb.hessian(f)(x))).all()
    g = lambda x: qb.while_loop(lambda c: c > 0.5, lambda c: c - 1 / (c - 0.25), x, max_steps=3)
    value = qb.vmap(g)(qb.array([0.25, 2.0]))
    assert value[0].item() == 0.25
    slope = qb.grad(lambda x: qb.sum(qb.vmap(g)(x)))(qb.array([0.25, 2.0]))
    assert slope[0].item() == 1.0 and math.isfinite(slope[1].item())


def test_matmul_in_a_branch_that_is_not_taken_gives_no_nan():
    def branch(v):
        return qb.sum(qb.matmul(qb.eye(2), qb.log(v)))

    f = lambda v: qb.sum(qb.vmap(lambda v: qb.cond(v[0] > 0, branch, lambda v: qb.sum(v), v))(v))
    g = qb.grad(f)(qb.array([[1.0, 2.0], [0.0, 3.0]]))
    assert g.tolist() == [[1, 0.5], [1, 1]]
