"""Messages of control flow: the leaf, both sides, and the way out. Eager and traced code fail alike."""

import pytest
import quabla as qb

X = qb.array([1.0, 2.0])
A = qb.array(0.5)


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
        r"structure .*'u': \(\*, \*\).*, but .*'u': \(\*,\).*; 'u/1' is only in the carry",
        lambda x: qb.fori_loop(0, 2, lambda i, c: {"u": (c["u"][0],)}, {"u": (x, x)}),
        X,
    )
    check(
        TypeError,
        r"; 'v' is only in the one that the body returns",
        lambda x: qb.scan(lambda c, i: ({"u": c["u"], "v": c["u"]}, i), {"u": x}, length=2),
        X,
    )
    check(
        TypeError,
        r"scan: the carry: 'a/0' is float64\[2\], but the body returns float32\[2\]",
        lambda x: qb.scan(lambda c, i: ({"a": [qb.astype(c["a"][0], qb.float32)]}, i), {"a": [x]}, length=2),
        X,
    )
    check(
        TypeError,
        r"fori_loop: the carry that the body returns: 'a' is a str, not an array",
        lambda x: qb.fori_loop(0, 2, lambda i, c: {"a": "s"}, {"a": x}),
        X,
    )


def test_a_y_that_changes_is_named():
    written_out = lambda y: lambda x: qb.scan(lambda c, i: (c, {"y": y(c, i)}), x, length=2, unroll=True)
    check(
        TypeError,
        r"scan: y: 'y' is float64\[2\] in the first iteration, but float64\[\] in a later one",
        written_out(lambda c, i: c if i == 0 else c[0]),
        X,
    )
    check(
        TypeError,
        r"the first y has the structure .*; 'y/1' is only in a later one",
        written_out(lambda c, i: (c,) if i == 0 else (c, c)),
        X,
    )
    check(
        TypeError,
        r"scan: the body returns a (Trace)?Tensor, not a pair \(carry, y\)",
        lambda x: qb.scan(lambda c, i: c, x, length=2),
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
    with pytest.raises(TypeError, match="cond: the result of true_fun has .*; 'k' is only in the result of true_fun"):
        qb.jit(lambda x: qb.cond(x[0] > 0, lambda: {"k": x}, lambda: {"m": x}))(X)
    with pytest.raises(TypeError, match=r"true_fun returns: 'u' float64\[2\], but false_fun float32\[2\]"):
        qb.jit(lambda x: qb.cond(x[0] > 0, lambda: {"u": x}, lambda: {"u": qb.astype(x, qb.float32)}))(X)
    with pytest.raises(TypeError, match=r"switch: branch 1 returns float64\[\], but branch 2 float64\[2\]"):
        qb.jit(lambda x: qb.switch(x[0], [lambda: x, lambda: x[0], lambda: x]))(X)
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
    check(ValueError, "length is 3, but xs has 2", lambda x: qb.scan(lambda c, v: (c, c), x, x, length=3), X)
    check(TypeError, "operands is a .*Tensor; a tuple", lambda x: qb.fori_loop(0, 2, body, x, operands=x), X)
    check(ValueError, "upper is 1000.*at most", lambda x: qb.fori_loop(0, 10**30, body, x), X)
    check(
        ValueError, "max_steps is 1000.*at most", lambda x: qb.while_loop(lambda c: True, body, x, max_steps=10**30), X
    )
    with pytest.raises(TypeError, match=r"upper is a Tensor; an int is needed, such as int\(upper\)"):
        qb.fori_loop(0, A, body, X)


def test_a_bound_that_depends_on_data_says_what_to_use():
    body = lambda i, c: c
    for f in (
        lambda n, x: qb.fori_loop(0, n, body, x),
        lambda n, x: qb.fori_loop(n, 3, body, x),
        lambda n, x: qb.scan(lambda c, i: (c, c), x, length=n),
    ):
        with pytest.raises(qb.TracerError, match="while_loop, with max_steps"):
            qb.jit(f)(A, X)
    with pytest.raises(qb.TracerError, match="max_steps is a traced value.*the most steps that may ever be needed"):
        qb.jit(lambda n, x: qb.while_loop(lambda c: qb.sum(c) < 5, lambda c: c + 1, x, max_steps=n))(A, X)


def test_reverse_mode_without_a_bound_says_what_to_use():
    f = lambda x: qb.while_loop(lambda c: qb.sum(c) < 5, lambda c: c + x, x)
    in_scan = lambda x: qb.scan(lambda c, i: (f(c), i), x, length=2)[0]
    in_cond = lambda x: qb.cond(x[0] > 0, f, lambda x: x, x)
    for loop in (f, in_scan, in_cond, lambda x: qb.vmap(f)(qb.stack([x, x]))):
        for call in (lambda f: f, qb.jit):
            with pytest.raises(ValueError, match="max_steps=n.*fori_loop"):
                call(qb.grad(lambda x, loop=loop: qb.sum(loop(x))))(X)


def test_an_error_in_a_body_leaves_the_trace_usable():
    def f(x):
        with pytest.raises(ZeroDivisionError):
            qb.fori_loop(0, 3, lambda i, c: 1 / 0, x)
        with pytest.raises(ValueError):
            qb.fori_loop(0, 3, lambda i, c: qb.matmul(qb.ones((3, 3)), c), x)
        return qb.fori_loop(0, 3, lambda i, c: c + 1, x)

    assert qb.jit(f)(X).tolist() == [4, 5]
