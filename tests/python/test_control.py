"""Control flow: cond, switch, fori_loop, scan, while_loop, eager and traced, through every transform."""

import gc
import math
import os
import signal
import subprocess
import sys
import textwrap
import threading

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


def test_decay_eager_and_traced():
    close(decay(X, A), [0.60577044, 1.21154087], 1e-8)
    same_bits(decay(X, A), qb.jit(decay)(X, A))


def test_derivative_of_decay_in_its_rate():
    close(qb.grad(lambda a: qb.sum(decay(X, a)))(A), -1.82644353, 1e-8)
    close(qb.jvp(lambda a: qb.sum(decay(X, a)), (A,), (qb.array(1.0),))[1], -1.82644353, 1e-8)


def hessian(f):
    """Columns by forward over reverse mode."""

    def columns(x):
        rows = qb.eye(x.shape[0])
        return qb.vmap(lambda v: qb.jvp(qb.grad(f), (x,), (v,))[1])(rows)

    return columns


def test_hessian_of_decay():
    close(hessian(lambda x: qb.sum(decay(x, A) ** 2))(X), np.diag([0.73391564] * 2), 1e-8)


def test_safe_log_takes_nothing_from_the_other_branch():
    close(qb.grad(safe_log)(qb.array(2.0)), 0.5)
    close(qb.vmap(safe_log)(qb.array([2.0, -1.0])), [0.69314718, 0], 1e-8)
    close(qb.vmap(qb.grad(safe_log))(qb.array([2.0, -1.0])), [0.5, 0])
    close(qb.grad(lambda x: qb.sum(qb.vmap(safe_log)(x)))(qb.array([2.0, 0.0])), [0.5, 0])


def test_scan_of_a_recurrence():
    for f in (recurrence, qb.jit(recurrence)):
        carry, ys = f(qb.array([0.5, 1.0]), qb.array(0.8))
        close(carry, [0.41178338, 0.47153359], 1e-8)
        assert ys.shape == [4, 2]
        same_bits(ys[3], 2 * carry)


def test_newton_by_while():
    close(qb.vmap(newton)(qb.array([2.0, 9.0, 1e6])), [1.41421356, 3, 1000], 1e-8)


def test_newton_by_a_bounded_loop_has_reverse_mode():
    f = lambda a: qb.fori_loop(0, 20, lambda i, x: 0.5 * (x + a / x), a)
    close(qb.grad(f)(qb.array(2.0)), 0.35355339, 1e-8)


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
    same_bits(qb.fori_loop(3, 3, lambda i, c: c * 0, X), X)
    same_bits(qb.jit(lambda x: qb.fori_loop(3, 2, lambda i, c: c * 0, x))(X), X)
    same_bits(qb.jit(lambda x: qb.while_loop(lambda c: qb.sum(c) < 0, lambda c: c + 1, x))(X), X)


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
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


# ---- transforms, against the unrolled program


def unrolled(f):
    """f with its loops written out."""
    return lambda *args: f(*args, unroll=True)


def loops(x, w, unroll=False):
    """A fori_loop, a scan and a cond, nested and with captures."""

    def inner(c, i):
        c = qb.cond(qb.sum(c) > 0, lambda: qb.tanh(c * w), lambda: qb.sin(c) + w)
        return c, qb.sum(c * c)

    def outer(i, c):
        d, ys = qb.scan(inner, c, length=3, unroll=unroll)
        return d * 0.5 + qb.sum(ys) * x

    return qb.sum(qb.fori_loop(0, 4, outer, x * w, unroll=unroll) ** 2)


CHAINS = {
    "value": lambda f: f,
    "grad": lambda f: qb.grad(f, argnums=(0, 1)),
    "jvp": lambda f: lambda x, w: qb.jvp(f, (x, w), (w, x))[1],
    "jvp of grad": lambda f: lambda x, w: qb.jvp(qb.grad(f), (x, w), (w, x))[1],
    "grad of jvp": lambda f: qb.grad(lambda x, w: qb.jvp(f, (x, w), (w, x))[1]),
    "grad of grad": lambda f: qb.grad(lambda x, w: qb.sum(qb.grad(f)(x, w) * w)),
    "vmap of grad": lambda f: qb.vmap(qb.grad(f), (None, 0)),
    "grad of vmap": lambda f: qb.grad(lambda x, w: qb.sum(qb.vmap(f, (0, None))(x, w))),
    "hessian in vmap": lambda f: qb.vmap(lambda w: hessian(lambda x: f(x, w))(qb.array([0.3, -0.8]))),
    "third": lambda f: qb.grad(lambda x, w: qb.sum(qb.grad(lambda x, w: qb.sum(qb.grad(f)(x, w) * w))(x, w) * w)),
}


@pytest.mark.parametrize("name", CHAINS)
def test_every_chain_agrees_with_the_unrolled_program(name):
    x, w = qb.array([0.3, -0.8]), qb.array([1.1, 0.6])
    args = {
        "vmap of grad": (x, qb.stack([w, -w, w * 0.5])),
        "grad of vmap": (qb.stack([x, -x]), w),
        "hessian in vmap": (qb.stack([w, -w]),),
    }
    a = qb.jit(CHAINS[name](loops))(*args.get(name, (x, w)))
    b = qb.jit(CHAINS[name](unrolled(loops)))(*args.get(name, (x, w)))
    for s, t in zip(qb.tree.leaves(a), qb.tree.leaves(b), strict=True):
        close(s, t)


def test_values_of_loops_have_the_bits_of_the_unrolled_program():
    x, w = qb.array([0.3, -0.8]), qb.array([1.1, 0.6])
    same_bits(qb.jit(loops)(x, w), qb.jit(unrolled(loops))(x, w))
    same_bits(qb.jit(loops)(x, w), loops(x, w))


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
    assert qb.jit(lambda x: qb.while_loop(lambda c: c > 0, lambda c: c + 1, x, max_steps=5))(x).item() == 6.9
    assert qb.while_loop(lambda c: c > 0, lambda c: c + 1, x, max_steps=5).item() == 6.9


def test_forward_mode_runs_through_an_unbounded_while():
    close(qb.jvp(newton, (qb.array(2.0),), (qb.array(1.0),))[1], 0.5 / math.sqrt(2))
    close(qb.grad(newton)(qb.array(2.0)), 0.5 / math.sqrt(2))  # of one scalar, so forward


# ---- NaN


def test_no_nan_comes_from_what_does_not_run():
    def f(x):
        return qb.sum(qb.vmap(lambda x: qb.cond(x > 0, lambda x: qb.sqrt(x) * qb.log(x), lambda x: x * 0.0, x))(x))

    x = qb.array([4.0, 0.0, -1.0])
    assert np.isfinite(np.asarray(qb.grad(f)(x))).all()
    assert np.isfinite(np.asarray(hessian(f)(x))).all()
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
    close(g, [[1, 0.5], [1, 1]])


# ---- memory


def test_memory_of_reverse_mode_grows_with_the_square_root_of_the_steps():
    w = qb.full((16,), 0.9)

    def gradient(n):
        return qb.jit(qb.grad(lambda w: qb.sum(qb.fori_loop(0, n, lambda i, c: qb.tanh(c * w) + 0.1, qb.ones((16,))))))

    bytes_of = {n: gradient(n).lower(w).compile().workspace for n in (100, 10_000, 1_000_000)}
    assert bytes_of[10_000] < 4 * bytes_of[100]
    assert 5 * bytes_of[10_000] < bytes_of[1_000_000] < 11 * bytes_of[10_000]
    assert bytes_of[1_000_000] < 1e6  # all carries are 128 MB
    assert np.isfinite(np.asarray(gradient(1_000_000)(w))).all()


def test_stacked_gradients_of_a_long_scan_do_not_depend_on_blocks():
    """1,500 steps have blocks; the same loop as 3 loops of 500, which keep every carry, adds in the same order."""
    xs = qb.array(np.random.RandomState(1).randn(1500, 3))
    w = qb.array([0.3, -1.2, 0.8])
    step = lambda c, x, w: (qb.tanh(c * w + x), c * x)

    def whole(xs, w):
        c, ys = qb.scan(step, qb.zeros((3,)), xs, operands=(w,))
        return qb.sum(c) + qb.sum(ys[-1])

    def pieces(xs, w):
        c = qb.zeros((3,))
        for k in range(3):
            c, ys = qb.scan(step, c, xs[500 * k : 500 * k + 500], operands=(w,))
        return qb.sum(c) + qb.sum(ys[-1])

    for a, b in zip(qb.grad(whole, argnums=(0, 1))(xs, w), qb.grad(pieces, argnums=(0, 1))(xs, w), strict=True):
        close(a, b)


# ---- errors


def check(error, match, f, *args):
    for call in (f, qb.jit(f)):
        with pytest.raises(error, match=match):
            call(*args)


def test_a_changed_carry_names_the_leaf_and_both_sides():
    check(
        TypeError,
        r"fori_loop: the carry: 'a' is float64\[2\], but the body returns float64\[\]",
        lambda x: qb.fori_loop(0, 2, lambda i, c: {"a": qb.sum(c["a"])}, {"a": x}),
        X,
    )
    check(
        TypeError,
        r"scan: the carry is float64\[2\], but the body returns bool\[2\]",
        lambda x: qb.scan(lambda c, i: (c > 0, c), x, length=2),
        X,
    )
    check(
        TypeError,
        r"while_loop: the carry has the structure .*, but the one that the body returns has",
        lambda x: qb.while_loop(lambda c: qb.sum(c) < 5, lambda c: (c, c), x),
        X,
    )
    check(
        TypeError,
        r"float32\[2\], but the body returns float64\[2\]",
        lambda x: qb.fori_loop(0, 2, lambda i, c: qb.astype(c, qb.float64), qb.astype(x, qb.float32)),
        X,
    )


def test_branches_must_agree():
    with pytest.raises(TypeError, match=r"true_fun returns: 'u' float64\[2\], but false_fun float64\[\]"):
        qb.jit(lambda x: qb.cond(x[0] > 0, lambda: {"u": x}, lambda: {"u": x[0]}))(X)
    with pytest.raises(TypeError, match="structure"):
        qb.jit(lambda x: qb.cond(x[0] > 0, lambda: (x,), lambda: x))(X)
    with pytest.raises(TypeError, match="a str, not an array"):
        qb.jit(lambda x: qb.cond(x[0] > 0, lambda: "a", lambda: "a"))(X)


def test_predicates():
    check(ValueError, "NaN", lambda: qb.cond(float("nan"), lambda: 1.0, lambda: 2.0))
    check(ValueError, r"the predicate is bool\[2\]", lambda x: qb.cond(x > 0, lambda: 1.0, lambda: 2.0), X)
    check(
        TypeError,
        r"cond_fun returns float64\[\]; a scalar bool",
        lambda x: qb.while_loop(lambda c: c, lambda c: c, x),
        A,
    )
    check(TypeError, "cond_fun returns a str", lambda x: qb.while_loop(lambda c: "yes", lambda c: c, x), A)
    check(TypeError, "no branches", lambda: qb.switch(0, []))
    check(ValueError, "NaN", lambda: qb.switch(float("nan"), [lambda: 1.0]))


def test_bounds():
    body = lambda i, c: c
    check(TypeError, "upper is a bool", lambda x: qb.fori_loop(0, True, body, x), X)
    check(TypeError, "upper is a float", lambda x: qb.fori_loop(0, 2.0, body, x), X)
    check(ValueError, "lower is -1; it must be at least 0", lambda x: qb.fori_loop(-1, 2, body, x), X)
    check(ValueError, "length is 0", lambda x: qb.scan(lambda c, i: (c, c), x, length=0), X)
    check(TypeError, "xs, or length", lambda x: qb.scan(lambda c, i: (c, c), x), X)
    check(
        ValueError, "'b' has 3 along axis 0", lambda x: qb.scan(lambda c, v: (c, c), x, {"a": x, "b": qb.ones((3,))}), X
    )
    check(ValueError, "max_steps is 0", lambda x: qb.while_loop(lambda c: True, body, x, max_steps=0), X)
    with pytest.raises(qb.TracerError, match="while_loop, with max_steps"):
        qb.jit(lambda n, x: qb.fori_loop(0, n, body, x))(A, X)


def test_reverse_mode_without_a_bound_says_what_to_use():
    f = lambda x: qb.while_loop(lambda c: qb.sum(c) < 5, lambda c: c + x, x)
    with pytest.raises(ValueError, match="max_steps=n.*fori_loop"):
        qb.grad(lambda x: qb.sum(f(x)))(X)


def test_an_error_in_a_body_leaves_the_trace_usable():
    def f(x):
        with pytest.raises(ZeroDivisionError):
            qb.fori_loop(0, 3, lambda i, c: 1 / 0, x)
        with pytest.raises(ValueError):
            qb.fori_loop(0, 3, lambda i, c: qb.matmul(qb.ones((3, 3)), c), x)
        return qb.fori_loop(0, 3, lambda i, c: c + 1, x)

    close(qb.jit(f)(X), [4, 5])


def test_loops_leave_nothing_behind():
    from quabla import _core

    def once():
        f = qb.jit(qb.grad(lambda x: qb.sum(decay(x, A)) + qb.sum(recurrence(x, A)[1]) + safe_log(x[0])))
        f(X)

    once()
    gc.collect()
    before = _core._live_bytes()
    for _ in range(3):
        once()
    gc.collect()
    assert _core._live_bytes() <= before


# ---- interrupts and threads


@pytest.mark.skipif(os.name != "posix", reason="signals of this kind are POSIX")
def test_ctrl_c_ends_a_long_loop_and_leaves_the_library_usable():
    program = textwrap.dedent("""
        import signal, time
        import quabla as qb
        f = qb.jit(lambda x: qb.while_loop(lambda c: qb.sum(c) < 1e300, lambda c: qb.sin(c), x))
        g = qb.jit(lambda x: qb.fori_loop(0, 10, lambda i, c: c + 1, x))
        x = qb.ones((8,))
        def at(*_):
            global fired
            fired = time.perf_counter()
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, at)
        late = []
        while len(late) < 20 and min(late, default=1.0) > 0.1:  # others may be busy on this machine
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            try:
                f(x)
            except KeyboardInterrupt:
                late.append(time.perf_counter() - fired)
        print(min(late) < 0.1, g(x)[0].item())
    """)
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert out.stdout.split() == ["True", "11.0"], out.stderr


def test_threads_run_one_loop_at_a_time_each():
    f = qb.jit(lambda x: qb.fori_loop(0, 2000, lambda i, c: qb.sin(c) + x, x))
    xs = [qb.array([0.1 * k, 0.3]) for k in range(6)]
    want = [f(x).tolist() for x in xs]
    got = [None] * 6

    def run(k):
        got[k] = f(xs[k]).tolist()

    threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == want
