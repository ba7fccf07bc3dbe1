"""Control flow: cond, switch, fori_loop, scan, while_loop, eager and traced.

test_control_transforms.py takes them through chains of transforms, test_control_nan.py past what is not finite.
"""

import math
import os
import signal

import numpy as np
import pytest
import quabla as qb


def close(a, b, tolerance=1e-12):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def same_bits(a, b):
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    assert a.tobytes() == b.tobytes()


def decay(x, a):
    return qb.fori_loop(0, 100, lambda i, x, a: x - 0.01 * a * x, x, operands=(a,))


def safe_log(x):
    return qb.cond(x > 0, qb.log, lambda x: 0.0, x)


def recurrence(c, w, unroll=False):
    def step(c, i, w):
        c = qb.tanh(c * w + 0.1)
        return c, 2 * c

    return qb.scan(step, c, length=4, operands=(w,), unroll=unroll)


def newton(a):
    return qb.while_loop(lambda x: qb.abs(x * x - a) > 1e-12 * a, lambda x: 0.5 * (x + a / x), a)


X = qb.array([1.0, 2.0])
A = qb.array(0.5)

# ---- the figures of the specification


def bounded_newton(a):
    return qb.fori_loop(0, 20, lambda i, x: 0.5 * (x + a / x), a)


C, P = qb.array([0.5, 1.0]), qb.array([2.0, -1.0])
FIGURES = {
    "decay": (decay, (X, A), [0.60577044, 1.21154087]),
    "its slope in the rate": (qb.grad(lambda x, a: qb.sum(decay(x, a)), argnums=1), (X, A), -1.82644353),
    "the same, forward": (lambda x, a: qb.jvp(lambda a: qb.sum(decay(x, a)), (a,), (1.0,))[1], (X, A), -1.82644353),
    "its hessian": (qb.hessian(lambda x, a: qb.sum(decay(x, a) ** 2)), (X, A), np.diag([0.73391564] * 2)),
    "safe_log'": (qb.grad(safe_log), (qb.array(2.0),), 0.5),
    "safe_log of a batch": (qb.vmap(safe_log), (P,), [0.69314718, 0]),
    "safe_log' of a batch": (qb.vmap(qb.grad(safe_log)), (P,), [0.5, 0]),
    "safe_log of a batch, its gradient": (qb.grad(lambda x: qb.sum(qb.vmap(safe_log)(x))), (P,), [0.5, 0]),
    "scan": (lambda c, w: recurrence(c, w)[0], (C, qb.array(0.8)), [0.41178338, 0.47153359]),
    "scan, its last y": (lambda c, w: recurrence(c, w)[1][3] / 2, (C, qb.array(0.8)), [0.41178338, 0.47153359]),
    "newton": (newton, (qb.array(2.0),), 1.41421356),
    "newton of a batch": (qb.vmap(newton), (qb.array([2.0, 9.0, 1e6]),), [1.41421356, 3, 1000]),
    "newton, bounded": (bounded_newton, (qb.array(2.0),), 1.41421356),
    "newton, bounded, its slope": (qb.grad(bounded_newton), (qb.array(2.0),), 0.35355339),
}


@pytest.mark.parametrize("name", FIGURES)
def test_figures_of_the_specification(name):
    f, args, want = FIGURES[name]
    close(f(*args), want, 1e-8)
    same_bits(f(*args), qb.jit(f)(*args))


def test_stacked_results_are_on_axis_0():
    assert recurrence(C, A)[1].shape == [4, 2] == qb.jit(recurrence)(C, A)[1].shape


# ---- eager and traced


def test_eager_index_is_an_int_and_a_traced_one_an_array_of_the_carrys_dtype():
    seen = []

    def body(i, c):
        seen.append(i)
        return c + i

    x = qb.array([1.0], dtype=qb.float32)
    eager = qb.fori_loop(2, 5, body, x)
    assert seen == [2, 3, 4]
    seen.clear()
    traced = qb.jit(lambda x: qb.fori_loop(2, 5, body, x))(x)
    assert isinstance(seen[0], qb.TraceTensor) and seen[0].dtype is qb.float32 and seen[0].shape == []
    same_bits(eager, traced)
    seen.clear()
    same_bits(qb.jit(lambda x: qb.fori_loop(2, 5, body, x, unroll=True))(x), eager)
    assert seen == [2, 3, 4]


def test_a_loop_without_iterations_gives_its_first_carry():
    for f in (
        lambda x: qb.fori_loop(3, 3, lambda i, c: c * 0, x),
        lambda x: qb.fori_loop(3, 2, lambda i, c: c * 0, x, unroll=True),
        lambda x: qb.while_loop(lambda c: qb.sum(c) < 0, lambda c: c * 0, x),
        lambda x: qb.while_loop(lambda c: qb.sum(c) < 0, lambda c: c * 0, x, max_steps=4),
    ):
        same_bits(f(X), X)
        same_bits(qb.jit(f)(X), X)
        same_bits(qb.jvp(f, (X,), (X,))[1], X)
        same_bits(qb.vmap(f)(qb.stack([X, X + 1])), qb.stack([X, X + 1]))
    same_bits(qb.grad(lambda x: qb.sum(qb.fori_loop(3, 3, lambda i, c: c * 0, x)))(X), qb.ones((2,)))
    x = qb.array([1.0], dtype=qb.float32)
    number = lambda x: qb.fori_loop(0, 0, lambda i, c: c + qb.sum(x), 0.5)
    assert number(x) == 0.5
    assert qb.jit(number)(x).dtype is qb.float32 and qb.jit(number)(x).item() == 0.5


def test_scan_over_arrays():
    xs = {"u": qb.arange(6.0).reshape([3, 2]), "b": qb.array([True, False, True])}

    def step(c, x):
        c = c + qb.where(x["b"], x["u"], -x["u"])
        return c, (qb.sum(c), x["b"])

    eager = qb.scan(step, qb.zeros((2,)), xs)
    traced = qb.jit(lambda xs: qb.scan(step, qb.zeros((2,)), xs))(xs)
    unrolled = qb.jit(lambda xs: qb.scan(step, qb.zeros((2,)), xs, unroll=True))(xs)
    for other in (traced, unrolled):
        for a, b in zip(qb.tree.leaves(eager), qb.tree.leaves(other), strict=True):
            same_bits(a, b)
    close(eager[0], [0 - 2 + 4, 1 - 3 + 5])


def test_carries_are_any_pytree():
    def body(i, c):
        return {"x": (c["x"][0] * 0.5, ~c["x"][1]), "n": [c["n"][0] + 1.0, None]}

    init = {"x": (X, qb.array([True, False])), "n": [qb.array(0.0), None]}
    out = qb.jit(lambda c: qb.fori_loop(0, 3, body, c))(init)
    close(out["x"][0], [0.125, 0.25])
    assert out["x"][1].tolist() == [False, True]
    assert out["n"][0].item() == 3.0 and out["n"][1] is None
    eager = qb.fori_loop(0, 3, body, init)
    for a, b in zip(qb.tree.leaves(eager), qb.tree.leaves(out), strict=True):
        same_bits(a, b)


def test_operands_are_any_pytree():
    o = {"w": (X, None), "on": qb.array([True, False]), "k": 2.0}
    scaled = lambda c, o: qb.where(o["on"], c * o["w"][0], c + o["k"])
    for f in (
        lambda x, o: qb.fori_loop(0, 2, lambda i, c, o, k: scaled(c, o) * k, x, operands=(o, 0.5)),
        lambda x, o: qb.scan(lambda c, i, o: (scaled(c, o), {"y": o["on"]}), x, length=2, operands=(o,)),
        lambda x, o: qb.while_loop(
            lambda c, o: qb.sum(c) < 9.0 * o["k"], lambda c, o: scaled(c, o), x, operands=[o], max_steps=3
        ),
        lambda x, o: qb.cond(x[0] > o["k"], scaled, lambda c, o: c - o["w"][0], x, o),
    ):
        for x in (X, X + 4.0):
            for a, b in zip(qb.tree.leaves(f(x, o)), qb.tree.leaves(qb.jit(f)(x, o)), strict=True):
                same_bits(a, b)


def test_bodies_close_over_traced_values_of_every_level():
    def f(a, b):
        def outer(i, c):
            return qb.fori_loop(0, 3, lambda j, d: d * b + a * c, c)

        return qb.fori_loop(0, 2, outer, a)

    def plain(a, b):
        c = a
        for _ in range(2):
            d = c
            for _ in range(3):
                d = d * b + a * c
            c = d
        return c

    a, b = qb.array(0.7), qb.array(-0.4)
    same_bits(qb.jit(f)(a, b), qb.jit(plain)(a, b))
    close(qb.grad(f, argnums=(0, 1))(a, b), qb.grad(plain, argnums=(0, 1))(a, b))
    third = lambda f: qb.grad(qb.grad(qb.grad(f)))
    close(third(f)(a, b), third(plain)(a, b))


def test_numbers_adopt_the_dtype_of_arrays():
    x = qb.array([1.0, 2.0], dtype=qb.float32)
    for f in (
        lambda x: qb.fori_loop(0, 2, lambda i, c: c + qb.sum(x), 0.0),
        lambda x: qb.cond(qb.sum(x) > 0, lambda: qb.sum(x), lambda: 0.0),
    ):
        assert qb.jit(f)(x).dtype is qb.float32
        same_bits(f(x), qb.jit(f)(x))
    assert qb.jit(lambda x: qb.cond(x[0] > 5, lambda: 1.0, lambda: x[0]))(x).dtype is qb.float32
    assert qb.jit(lambda: qb.fori_loop(0, 3, lambda i, c: c * 2.0, 1.0))().item() == 8.0


@pytest.mark.parametrize("unroll", [False, True])
def test_numbers_that_become_arrays_are_arrays_from_the_start(unroll):
    """Here one leaf after the other turns into a float32 array; 0.1 is rounded to float32 before it is multiplied."""
    x = qb.array([1.0, 2.0], dtype=qb.float32)
    for f in (
        lambda x: qb.fori_loop(0, 3, lambda i, c: (c[1] * 3.0, c[2], c[2] + x[0]), (0.1, 0.2, 0.3), unroll=unroll),
        lambda x: qb.scan(lambda c, i: ((c[1] * 3.0, c[0] + x[1]), c[0] * 0.7), (0.1, 0.2), length=3, unroll=unroll),
        lambda x: qb.while_loop(lambda c: c[1] < 10, lambda c: (c[1] * 3.0, c[1] + x[0] * 0.3), (0.1, 0.2)),
    ):
        eager, traced = qb.tree.leaves(f(x)), qb.tree.leaves(qb.jit(f)(x))
        for a, b in zip(eager, traced, strict=True):
            assert b.dtype is qb.float32
            same_bits(a, b)


def test_the_number_of_an_iteration_meets_float32_whatever_the_carry_starts_as():
    x = qb.array([1.0, 2.0], dtype=qb.float32)
    for f in (
        lambda x: qb.scan(lambda c, i: (c * x[0] + i, c * 2.0), 1.0, length=4),
        lambda x: qb.scan(lambda c, i: ((), x * i), (), length=3),
        lambda x: qb.fori_loop(0, 3, lambda i, c: (c[0] + i * x[0], c[1] * i + 1.0), (1.0, x)),
        lambda x: qb.fori_loop(1, 3, lambda i, c: ~c & (x[1] > i), x > 1),
    ):
        for a, b in zip(qb.tree.leaves(f(x)), qb.tree.leaves(qb.jit(f)(x)), strict=True):
            assert b.dtype is not qb.float64
            same_bits(a, b)
    assert qb.jit(lambda x: qb.scan(lambda c, i: (c, i), x > 1, length=3)[1])(x).dtype is qb.float64


def test_numbers_stay_numbers():
    """As what a branch gives: eager they are Python's, traced they take the dtype of what they meet."""
    x = qb.array([1.0, 2.0], dtype=qb.float32)
    for f in (
        lambda: qb.fori_loop(0, 3, lambda i, c: c + 1, 0),
        lambda: qb.while_loop(lambda c: c < 3, lambda c: c + 1, 0),
        lambda: qb.scan(lambda c, i: (c + 1, None), 0, length=3)[0],
        lambda: qb.cond(True, lambda: 3, lambda: 4),
    ):
        assert f() == 3
        same_bits(f() * x, qb.jit(lambda x, f=f: f() * x)(x))


def test_bool_carries():
    """One side of a pair is taken in turn; nothing of a bool is differentiated, and what depends on one is."""

    def f(x, unroll=False):
        def step(c, i):
            return (qb.where(c["turn"], c["v"] * x, c["v"] + x), c["turn"])

        def body(c, i):
            v, turn = step(c, i)
            return {"v": v, "turn": ~turn}, turn

        c, turns = qb.scan(body, {"v": x, "turn": qb.array(True)}, length=5, unroll=unroll)
        return c["v"], turns

    x = qb.array(1.3)
    assert f(x)[1].tolist() == [True, False, True, False, True] == qb.jit(f)(x)[1].tolist()
    value, flat = (lambda x: f(x)[0]), (lambda x: f(x, True)[0])
    same_bits(value(x), qb.jit(flat)(x))
    for order in (qb.grad, lambda f: qb.grad(qb.grad(f))):
        close(order(value)(x), order(flat)(x))
        close(qb.vmap(order(value))(X), qb.vmap(order(flat))(X))
    close(qb.grad(lambda x: qb.sum(qb.vmap(value)(x)))(X), qb.vmap(qb.grad(flat))(X))
    assert qb.fori_loop(0, 3, lambda i, c: qb.logical_not(c), True).item() is False
    mapped = qb.vmap(
        lambda x: qb.fori_loop(0, 4, lambda i, c: (qb.where(c[1], c[0] * 1.5, c[0] - 1), c[0] < 2), (x, True))
    )
    same_bits(mapped(qb.array([1.0, 2.5]))[0], qb.array([2.375, 0.75]))


def test_empty_trees_and_none():
    for f in (
        lambda x: (qb.fori_loop(0, 3, lambda i, c: c, ()), x),
        lambda x: (qb.while_loop(lambda c: False, lambda c: c, {}), x),
        lambda x: (qb.cond(x[0] > 0, lambda: None, lambda: None), x),
        lambda x: qb.scan(lambda c, v: (c + v, None), 0.0, x),
        lambda x: qb.scan(lambda c, v: ((), {"a": v * 2.0, "b": None}), (), x),
        lambda x: qb.scan(
            lambda c, v: ({"a": c["a"] + v["x"], "b": None}, ()), {"a": 0.0, "b": None}, {"x": x, "n": None}
        ),
    ):
        eager, traced = f(X), qb.jit(f)(X)
        assert qb.tree.structure(eager) == qb.tree.structure(traced)
        for a, b in zip(qb.tree.leaves(eager), qb.tree.leaves(traced), strict=True):
            same_bits(a, b)
    close(qb.grad(lambda x: qb.sum(qb.scan(lambda c, v: ((), v * v), (), x)[1]))(X), [2, 4])


def test_cond_takes_a_number_as_predicate():
    assert qb.cond(2.5, lambda: 1, lambda: 2) == 1
    assert qb.cond(qb.array(0.0), lambda: 1, lambda: 2) == 2
    f = qb.jit(lambda p, x: qb.cond(p, lambda: x, lambda: -x))
    close(f(qb.array(0.0), X), [-1, -2])
    close(f(qb.array(-3.0), X), [1, 2])


def test_switch_takes_the_nearest_branch():
    branches = [lambda x: x, lambda x: x * x, lambda x: x**3]
    for i, want in [(-5, 0.5), (0, 0.5), (1, 0.25), (2, 0.125), (9, 0.125)]:
        assert qb.switch(i, branches, qb.array(0.5)).item() == want
        assert qb.jit(lambda i, x: qb.switch(i, branches, x))(qb.array(float(i)), qb.array(0.5)).item() == want
    f = qb.vmap(qb.grad(lambda x, i: qb.switch(i, branches, x)), (None, 0))
    close(f(qb.array(0.5), qb.array([0.0, 1.0, 2.0])), [1, 1, 0.75])


@pytest.mark.skipif(os.name != "posix", reason="signals of this kind are POSIX")
def test_only_the_branch_taken_runs():
    endless = lambda x: qb.while_loop(lambda c: qb.sum(c) < math.inf, lambda c: qb.sin(c), x)
    x, old = qb.ones((64,)), signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.alarm(60)
    try:
        assert qb.jit(lambda p, x: qb.cond(p, endless, lambda x: x, x))(qb.array(False), x).tolist() == x.tolist()
        f = qb.vmap(lambda x, p: qb.cond(p, endless, lambda x: x, x), (0, None))  # one predicate for all stays lazy
        assert qb.jit(f)(x, qb.array(False)).tolist() == x.tolist()
        hours = lambda x: qb.fori_loop(0, 10**10, lambda i, c: qb.sin(c), x)
        g = lambda x, p: qb.sum(qb.cond(p, hours, lambda x: x**3, x))  # nor does its derivative
        x, no = qb.array([2.0]), qb.array(False)
        assert qb.jit(qb.grad(g))(x, no).tolist() == [12.0]
        assert qb.jit(qb.hessian(g))(x, no).tolist() == [[12.0]]
        assert qb.vmap(qb.grad(g), (0, None))(qb.stack([x, x]), no).tolist() == [[12.0], [12.0]]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


# ---- transforms


def test_grad_through_scan_over_arrays():
    def f(c, xs, w):
        c, ys = qb.scan(lambda c, x: (qb.tanh(c * w + x), c * x), c, xs)
        return qb.sum(c) + qb.sum(ys)

    def plain(c, xs, w):
        total = 0.0
        for i in range(5):
            total = total + qb.sum(c * xs[i])
            c = qb.tanh(c * w + xs[i])
        return total + qb.sum(c)

    args = qb.array([0.1, 0.2]), qb.array(np.random.RandomState(0).randn(5, 2)), qb.array([0.5, -1.5])
    for order in (
        lambda f: qb.grad(f, argnums=(0, 1, 2)),
        lambda f: qb.grad(lambda *a: qb.sum(qb.grad(f)(*a) ** 2), argnums=(0, 1, 2)),
    ):
        for s, t in zip(order(f)(*args), order(plain)(*args), strict=True):
            close(s, t)


def test_mapped_scans_have_the_batch_first():
    w = qb.array([0.8, -0.3, 0.1])
    carry, ys = qb.vmap(lambda w: recurrence(qb.array([0.5, 1.0]), w))(w)
    assert carry.shape == [3, 2] and ys.shape == [3, 4, 2]
    for i in range(3):
        one = qb.jit(recurrence)(qb.array([0.5, 1.0]), w[i])
        same_bits(carry[i], one[0])
        same_bits(ys[i], one[1])


def test_a_carry_that_depends_on_a_mapped_value_is_mapped_from_the_start():
    f = qb.vmap(lambda a: qb.fori_loop(0, 3, lambda i, c: (c[0] + c[1], c[1] * a), (qb.array(0.0), qb.array(1.0))))
    total, power = f(qb.array([2.0, 3.0]))
    close(total, [7, 13])
    close(power, [8, 27])


def test_a_finished_example_keeps_its_carry_bit_for_bit():
    x = qb.array([1e-3, 5.0, 0.1 + 0.2, 1e300])
    f = lambda x: qb.while_loop(lambda c: c < 1, lambda c: c * 1.7 + 0.1, x)
    batch = qb.vmap(f)(x)
    same_bits(batch[1], x[1])
    same_bits(batch[3], x[3])
    for i in range(4):
        same_bits(batch[i], qb.jit(f)(x[i]))
    tangent = qb.vmap(lambda x: qb.jvp(f, (x,), (qb.array(1.0),))[1])(x)
    assert tangent[1].item() == 1.0 and tangent[3].item() == 1.0


def test_a_bounded_while_has_every_derivative():
    f = lambda x: qb.while_loop(lambda c: c < 10, lambda c: c * x, x, max_steps=8)

    def plain(x):  # x = 1.9: three steps
        return x**4

    x = qb.array(1.9)
    close(qb.jit(f)(x), plain(x))
    close(qb.grad(f)(x), qb.grad(plain)(x))
    close(qb.grad(lambda x: qb.grad(f)(x) * x)(x), qb.grad(lambda x: qb.grad(plain)(x) * x)(x))
    close(qb.grad(qb.grad(f))(x), qb.grad(qb.grad(plain))(x))


def test_max_steps_end_a_loop_that_would_go_on():
    f = lambda x: qb.while_loop(lambda c: c < 100, lambda c: c * 2.0, x, max_steps=3)
    x = qb.array([1.0, 50.0, 200.0])
    for call in (f, qb.jit(f)):
        assert [call(v).item() for v in x] == [8, 100, 200]
    assert qb.vmap(f)(x).tolist() == [8, 100, 200]
    assert qb.vmap(qb.grad(f))(x).tolist() == [8, 2, 1]
    assert qb.grad(lambda x: qb.sum(qb.vmap(f)(x)))(x).tolist() == [8, 2, 1]
    assert (
        qb.jit(lambda p, x: qb.while_loop(lambda c: p, lambda c: c + 1, x, max_steps=4))(qb.array(True), x[0]).item()
        == 5
    )


def test_forward_mode_runs_through_an_unbounded_while():
    close(qb.jvp(newton, (qb.array(2.0),), (qb.array(1.0),))[1], 0.5 / math.sqrt(2))
    close(qb.grad(newton)(qb.array(2.0)), 0.5 / math.sqrt(2))  # of one scalar, so forward
    a = qb.array([2.0, 9.0])
    close(qb.vmap(qb.grad(qb.grad(newton)))(a), -0.25 * np.asarray(a) ** -1.5, 1e-9)
    close(qb.jvp(qb.vmap(newton), (a,), (qb.ones((2,)),))[1], 0.5 * np.asarray(a) ** -0.5)
