"""custom_vjp, custom_jvp, stop_gradient: figures and every nesting. test_custom_rules.py: what is refused."""

import functools

import pytest
import quabla as qb

np = pytest.importorskip("numpy")

MODES = [lambda f: f, qb.jit]
wraps = pytest.mark.parametrize("wrap", MODES, ids=["eager", "jit"])


def sigmoid(x):
    return 1.0 / (1.0 + qb.exp(-x))


def close(got, want, rtol=1e-12, atol=1e-14):
    np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=atol)


@qb.custom_vjp
def log1pexp(x):
    return qb.log(1.0 + qb.exp(x))


log1pexp.defvjp(lambda x: (log1pexp(x), x), lambda x, ct: (ct * sigmoid(x),))


@qb.custom_jvp
def log1pexp2(x):
    return qb.log(1.0 + qb.exp(x))


@log1pexp2.defjvp
def log1pexp2_rule(primals, tangents):
    (x,), (t,) = primals, tangents
    return log1pexp2(x), t * sigmoid(x)


@qb.custom_vjp
def safe_norm(x):
    return qb.sqrt(qb.sum(x * x))


def safe_norm_fwd(x):
    n = safe_norm(x)
    return n, (x, n)


safe_norm.defvjp(safe_norm_fwd, lambda r, ct: (ct * r[0] / qb.where(r[1] > 0, r[1], 1.0),))


@functools.partial(qb.custom_vjp, nondiff_argnums=(0,))
def scaled(k, x):
    return k * x


scaled.defvjp(lambda k, x: (k * x, None), lambda k, _, ct: (k * ct,))


@qb.custom_vjp
def straight_through(x):
    return qb.round(x)


straight_through.defvjp(lambda x: (qb.round(x), None), lambda _, ct: (ct,))

X = qb.array([0.0, 100.0, 1000.0])


# ---- figures ----


@wraps
@pytest.mark.parametrize("f", [log1pexp, log1pexp2])
def test_log1pexp(wrap, f):
    assert wrap(qb.vmap(qb.grad(f)))(X).tolist() == [0.5, 1.0, 1.0]
    assert wrap(qb.grad(lambda x: qb.sum(f(x))))(X).tolist() == [0.5, 1.0, 1.0]
    plain = wrap(qb.vmap(qb.grad(lambda x: qb.log(1.0 + qb.exp(x)))))(X)
    assert np.isnan(plain.tolist()[2])


@wraps
def test_safe_norm(wrap):
    assert wrap(qb.grad(safe_norm))(qb.zeros((3,))).tolist() == [0.0, 0.0, 0.0]
    close(wrap(qb.grad(safe_norm))(qb.array([3.0, 4.0])), [0.6, 0.8])


@wraps
def test_scaled(wrap):
    assert wrap(qb.grad(lambda x: qb.sum(scaled(3, x))))(qb.ones((2,))).tolist() == [3.0, 3.0]


@wraps
def test_straight_through(wrap):
    value, grad = wrap(qb.value_and_grad(straight_through))(1.3)
    assert (value.item(), grad.item()) == (1.0, 1.0)
    assert wrap(qb.grad(qb.grad(lambda x: x * straight_through(x))))(1.3).item() == 1.0


@wraps
def test_stop_gradient(wrap):
    f = lambda x: qb.sum(qb.stop_gradient(x) * x)  # noqa: E731
    x = qb.array([2.0, 3.0])
    assert wrap(qb.grad(f))(x).tolist() == [2.0, 3.0]
    assert wrap(lambda x: qb.jvp(f, (x,), (qb.ones((2,)),))[1])(x).item() == 5.0
    assert wrap(qb.hessian(f))(x).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert wrap(qb.vmap(qb.grad(lambda x: qb.stop_gradient(x) * x)))(x).tolist() == [2.0, 3.0]
    assert x.stop_gradient().tolist() == [2.0, 3.0]


# ---- nesting ----


def test_outside_a_transform_the_function_is_called():
    calls = []

    @qb.custom_vjp
    def f(x):
        calls.append(type(x))
        return x * 2

    assert f(qb.array(2.0)).item() == 4.0
    assert calls == [qb.Tensor]


@wraps
def test_higher_orders_differentiate_the_rule(wrap):
    s = 1 / (1 + np.exp(-0.3))
    want = [s, s * (1 - s), s * (1 - s) * (1 - 2 * s)]
    for f in (log1pexp, log1pexp2):
        g = f
        for w in want:
            g = qb.grad(g)
            close(wrap(g)(0.3), w)
    for f in (log1pexp, log1pexp2):
        close(wrap(qb.hessian(lambda x, f=f: qb.sum(f(x) * x)))(qb.array([0.3])), [[2 * s + 0.3 * s * (1 - s)]])
        assert wrap(qb.grad(qb.grad(f)))(1000.0).item() == 0.0


@wraps
def test_the_rule_under_vmap_sums_over_what_is_shared(wrap):
    @qb.custom_vjp
    def f(w, x):
        return qb.sum(w * x)

    f.defvjp(lambda w, x: (f(w, x), (w, x)), lambda r, ct: (10.0 * ct * r[1], ct * r[0]))
    w, xs = qb.array([1.0, 2.0]), qb.array([[1.0, 0.0], [3.0, 4.0], [5.0, 6.0]])
    each = wrap(qb.vmap(qb.grad(f), in_axes=(None, 0)))(w, xs)
    assert each.tolist() == (10.0 * xs).tolist()
    total = wrap(qb.grad(lambda w: qb.sum(qb.vmap(f, in_axes=(None, 0))(w, xs))))(w)
    assert total.tolist() == (10.0 * qb.sum(xs, axis=0)).tolist()
    per_x = wrap(qb.grad(lambda xs: qb.sum(qb.vmap(f, in_axes=(None, 0))(w, xs))))(xs)
    assert per_x.tolist() == [[1.0, 2.0]] * 3
    _, pull = qb.vjp(qb.vmap(qb.vmap(f, in_axes=(None, 0)), in_axes=(0, None)), qb.ones((4, 2)), xs)
    assert pull(qb.ones((4, 3)))[0].tolist() == [[90.0, 100.0]] * 4


@wraps
def test_custom_jvp_in_both_directions(wrap):
    @qb.custom_jvp
    def f(x, y):
        return {"a": x * y, "b": [qb.sin(x)]}

    @f.defjvp
    def rule(primals, tangents):
        (x, y), (tx, ty) = primals, tangents
        return f(x, y), {"a": 2 * tx * y + x * ty, "b": [3 * tx]}

    x, y = qb.array([1.0, 2.0]), qb.array([3.0, 4.0])
    out, t = wrap(lambda x, y: qb.jvp(f, (x, y), (qb.ones((2,)), qb.zeros((2,)))))(x, y)
    assert out["a"].tolist() == [3.0, 8.0]
    assert (t["a"].tolist(), t["b"][0].tolist()) == ([6.0, 8.0], [3.0, 3.0])
    gx, gy = wrap(qb.grad(lambda x, y: qb.sum(f(x, y)["a"]) + qb.sum(f(x, y)["b"][0]), (0, 1)))(x, y)
    assert (gx.tolist(), gy.tolist()) == ([9.0, 11.0], [1.0, 2.0])
    jac = wrap(qb.jacobian(lambda x: f(x, y)["a"]))(x)
    assert jac.tolist() == [[6.0, 0.0], [0.0, 8.0]]
    each = wrap(qb.vmap(qb.grad(lambda x, y: f(x, y)["a"]), in_axes=(0, None)))(x, qb.array(3.0))
    assert each.tolist() == [6.0, 6.0]


@wraps
def test_the_value_of_a_custom_jvp_is_the_functions_own(wrap):
    """The rule computes another value, 0.5 x^2: the function's is seen, the rule's is differentiated."""

    @qb.custom_jvp
    def f(x):
        return qb.abs(x)

    f.defjvp(lambda p, t: (0.5 * p[0] * p[0], t[0] * p[0]))
    out, t = wrap(lambda x: qb.jvp(f, (x,), (1.0,)))(3.0)
    assert (out.item(), t.item()) == (3.0, 3.0)
    value, grad = wrap(qb.value_and_grad(lambda x: qb.sum(f(x))))(qb.array([3.0]))
    assert (value.item(), grad.tolist()) == (3.0, [3.0])
    # d/dx (f(x) x) = x^2 + |x|; once more: x + 0.5 x^2 would be wrong; 2 x + (derivative of 0.5 x^2) is right
    assert wrap(qb.grad(qb.grad(lambda x: f(x) * x)))(3.0).item() == 9.0
    assert wrap(qb.grad(lambda x: qb.grad(lambda y: qb.sum(f(y) * y))(x).sum()))(qb.array([3.0])).tolist() == [9.0]


@wraps
def test_rules_inside_control_flow(wrap):
    def loop(f):
        return lambda x: qb.fori_loop(0, 3, lambda i, c: f(c) * 0.5, x)

    def branch(f):
        return lambda x: qb.cond(x > 0, lambda x: f(x), lambda x: f(-x), x)

    def repeat(f):
        return lambda x: qb.while_loop(lambda c: c < 3.0, lambda c: c + f(c), x, max_steps=5)

    plain = lambda x: qb.log(1.0 + qb.exp(x))  # noqa: E731
    for region in (loop, branch, repeat):
        for f in (log1pexp, log1pexp2, qb.checkpoint(plain)):
            close(wrap(qb.grad(region(f)))(0.7), qb.grad(region(plain))(0.7).item())
        close(wrap(qb.grad(qb.grad(region(log1pexp2))))(0.7), qb.grad(qb.grad(region(plain)))(0.7).item(), rtol=1e-10)
        close(
            wrap(qb.vmap(qb.grad(region(log1pexp))))(qb.array([0.7, 2.0])),
            qb.vmap(qb.grad(region(plain)))(qb.array([0.7, 2.0])),
        )
    big = wrap(qb.grad(lambda x: qb.fori_loop(0, 2, lambda i, c: log1pexp(c), x)))(1000.0)
    assert big.item() == 1.0


def jvp_round():
    f = qb.custom_jvp(lambda x: qb.round(x))
    f.defjvp(lambda p, t: (qb.round(p[0]), t[0]))
    return f


WHERE_A_RULE_STANDS = {
    "alone": lambda f: f,
    "jit": lambda f: qb.jit(f),
    "vmap": lambda f: lambda x: qb.vmap(f)(qb.stack([x]))[0],
    "cond": lambda f: lambda x: qb.cond(x > 0, f, lambda x: -x, x),
    "fori_loop": lambda f: lambda x: qb.fori_loop(0, 3, lambda i, c: f(c), x),
    "scan": lambda f: lambda x: qb.scan(lambda c, _: (c, f(c)), x, length=2)[1][0],
    "long scan": lambda f: lambda x: qb.scan(lambda c, _: (c, f(c)), x, length=1100)[1][0],
    "while_loop": lambda f: (
        lambda x: qb.while_loop(lambda c: c[1] < 2, lambda c: (f(c[0]), c[1] + 1), (x, 0.0), max_steps=3)[0]
    ),
    "checkpoint": lambda f: qb.checkpoint(f),
    "deep": lambda f: qb.checkpoint(
        lambda x: qb.cond(x > 0, lambda x: qb.scan(lambda c, _: (f(c), c), x, length=3)[0], f, x)
    ),
}


@wraps
@pytest.mark.parametrize("where", WHERE_A_RULE_STANDS)
@pytest.mark.parametrize("st", [straight_through, jvp_round()], ids=["custom_vjp", "custom_jvp"])
def test_the_second_derivative_goes_through_the_rule_wherever_it_stands(wrap, where, st):
    """x round(x) has the first derivative round(x) + x by the rule, and the second one 1: round is flat, as its rule computes it."""
    f = WHERE_A_RULE_STANDS[where](st)
    over = {
        "reverse over reverse": lambda g: lambda v: qb.grad(lambda v: qb.sum(qb.grad(g)(v) * qb.array([1.0, 0.0])))(v),
        "forward over reverse": lambda g: lambda v: qb.jvp(qb.grad(g), (v,), (qb.array([1.0, 0.0]),))[1],
        "hessian": lambda g: lambda v: qb.hessian(g)(v)[0],
        "of a scalar": lambda g: lambda v: qb.stack([qb.grad(qb.grad(lambda x: g(qb.stack([x, v[1]]))))(v[0]), v[1]]),
    }
    for name, second in over.items():
        got = wrap(second(lambda v: v[0] * f(v[0]) + v[1]))(qb.array([1.3, 0.0]))
        assert got.tolist() == [1.0, 0.0], name


@wraps
def test_a_rule_of_one_kind_may_use_the_other(wrap):
    """Reverse mode of custom_jvp splices its rule; that the rule calls a custom_vjp asks for no forward mode."""

    @qb.custom_jvp
    def f(x):
        return qb.log(1.0 + qb.exp(x))

    f.defjvp(lambda p, t: (log1pexp(p[0]), t[0] * sigmoid(p[0])))
    s = 1 / (1 + np.exp(-0.3))
    x = qb.array([0.3])
    close(wrap(qb.grad(lambda x: qb.sum(f(x))))(x), [s])
    close(wrap(lambda x: qb.jvp(f, (x,), (qb.ones((1,)),))[1])(x), [s])
    close(wrap(qb.grad(lambda x: qb.sum(qb.grad(lambda x: qb.sum(f(x) * x))(x))))(x), [2 * s + 0.3 * s * (1 - s)])
    close(wrap(qb.hessian(lambda x: qb.sum(f(x) * f(x))))(x), [[2 * s * s + 2 * np.log1p(np.exp(0.3)) * s * (1 - s)]])

    @qb.custom_vjp
    def g(x):
        return log1pexp2(x)

    g.defvjp(lambda x: (log1pexp2(x), x), lambda x, ct: (ct * qb.grad(log1pexp2)(x),))
    for d, w in zip((qb.grad(g), qb.grad(qb.grad(g))), (s, s * (1 - s)), strict=True):
        close(wrap(d)(0.3), w)


@wraps
def test_the_value_that_vjp_returns_went_through_the_rule(wrap):
    """round(x) times its derivative by the rule, 1: once more, the rule computes the value by round, which is flat."""

    def f(x):
        out, pull = qb.vjp(straight_through, x)
        return out * pull(1.0)[0]

    assert wrap(qb.grad(f))(1.3).item() == 0.0
    assert wrap(lambda x: qb.jvp(f, (x,), (1.0,)))(1.3)[1].item() == 0.0
    out, _, aux = qb.vjp(lambda x: (x * 2, straight_through(x)), qb.array(1.3), has_aux=True)
    assert (out.item(), aux.item()) == (2.6, 1.0)
    aux_of = lambda x: qb.vjp(lambda x: (x * 2, straight_through(x)), x, has_aux=True)[2]  # noqa: E731
    assert wrap(qb.grad(aux_of))(1.3).item() == 1.0  # no reverse mode went through that one yet


@wraps
def test_a_reverse_rule_that_decides_a_mask_needs_no_forward_mode(wrap):
    x = qb.array([0.0, 3.0])
    parts = lambda x: (x * x, log1pexp(x))  # noqa: E731
    regions = {
        "alone": parts,
        "cond": lambda x: qb.cond(qb.sum(x) > 0, parts, parts, x),
        "scan": lambda x: (lambda c, ys: (c, ys[1]))(*qb.scan(lambda c, _: (x * x, log1pexp(c * 0 + x)), x, length=2)),
        "while": lambda x: qb.while_loop(
            lambda c: c[2] < 1, lambda c: (c[0] * c[0], log1pexp(c[1]), c[2] + 1), (x, x, 0.0), max_steps=2
        )[:2],
        "checkpoint": lambda x: qb.checkpoint(parts)(x),
    }
    for name, region in regions.items():
        f = lambda x, region=region: (lambda square, mask: qb.where(mask > 1.0, square, x))(*region(x))  # noqa: E731
        assert wrap(lambda x, f=f: qb.jvp(f, (x,), (qb.ones((2,)),))[1])(x).tolist() == [1.0, 6.0], name


def test_jacobian_and_hessian_over_a_reverse_rule_go_backward():
    x = qb.array([0.5, 2.0])
    s = 1 / (1 + np.exp(-x.numpy()))
    close(qb.jacobian(lambda x: log1pexp(x))(x), np.diag(s))
    close(qb.hessian(lambda x: qb.sum(log1pexp(x)))(x), np.diag(s * (1 - s)))
    close(qb.jit(qb.jacobian(lambda x: qb.stack([log1pexp(x)[0]] * 3)))(x), [[s[0], 0]] * 3)


def test_forward_mode_through_a_reverse_rule_is_refused_by_name():
    for use in (
        lambda: qb.jvp(log1pexp, (1.0,), (1.0,)),
        lambda: qb.jit(lambda x: qb.jvp(lambda x: qb.sum(log1pexp(x)), (x,), (x,)))(X),
    ):
        with pytest.raises(ValueError, match="'log1pexp', which has a reverse rule only"):
            use()


def test_inside_its_own_rule_the_function_is_the_plain_one():
    depth = []

    @qb.custom_vjp
    def f(x):
        depth.append(1)
        return x * x

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (ct * f(x),))  # the rule says f(x), not 2 x
    assert qb.grad(f)(3.0).item() == 9.0
    assert qb.grad(qb.grad(f))(3.0).item() == 6.0  # of x * x


def test_residuals_may_hold_anything():
    @qb.custom_vjp
    def f(x, n, name):
        return x**n

    def fwd(x, n, name):
        return x**n, {"x": x, "n": n, "name": name, "c": qb.array(2.0), "none": None}

    f.defvjp(fwd, lambda r, ct: (ct * r["n"] * r["x"] ** (r["n"] - 1) * r["c"] * len(r["name"]), None, None))
    assert qb.grad(lambda x: f(x, 3, "ab"))(2.0).item() == 48.0


def test_cotangents_mirror_the_arguments():
    @qb.custom_vjp
    def f(p, m):
        return p["a"] * p["b"][0] + qb.where(m, 1.0, 0.0)

    def bwd(r, ct):
        p, m = r
        return [{"a": ct * p["b"][0], "b": None}, None]  # a list is as good as a tuple

    f.defvjp(lambda p, m: (f(p, m), (p, m)), bwd)
    p = {"a": qb.array(2.0), "b": [qb.array(3.0)]}
    g = qb.grad(lambda p: f(p, qb.array(True)))(p)
    assert (g["a"].item(), g["b"][0].item()) == (3.0, 0.0)
    h = qb.jit(qb.grad(lambda p: f(p, p["a"] > 0)))(p)
    assert h["a"].item() == 3.0


def several(x):
    return qb.sin(x), x * 2.0, qb.cos(x)


def with_rules():
    f, g = qb.custom_jvp(several), qb.custom_vjp(several)
    f.defjvp(lambda p, t: (several(p[0]), (t[0] * qb.cos(p[0]), t[0] * 2.0, -t[0] * qb.sin(p[0]))))
    g.defvjp(lambda x: (several(x), x), lambda x, ct: (ct[0] * qb.cos(x) + ct[1] * 2.0 - ct[2] * qb.sin(x),))
    return f, g, qb.checkpoint(several)


@pytest.mark.parametrize("f", with_rules())
def test_a_branch_whose_predicate_a_rule_makes_constant(f):
    """The predicate is known once the value of the inner function is written out; what the branch holds comes in after that."""
    one = qb.checkpoint(lambda k: qb.sin(k))
    x = qb.array([0.5, 1.0])
    otherwise = qb.custom_jvp(lambda x: x)  # whose rule computes the value in another way
    otherwise.defjvp(lambda p, t: (qb.log(qb.exp(p[0])), t[0]))

    def chosen(x, depth):
        inner = (lambda x: chosen(x, depth - 1)) if depth else (lambda x: f(otherwise(x))[1] * x[0])
        return qb.cond(one(qb.array(1.0)) > 0, inner, lambda x: x, x)

    for depth in range(3):
        g = lambda x, depth=depth: chosen(x, depth)  # noqa: E731
        assert qb.jit(g)(x).tolist() == [0.5, 1.0]
        assert qb.grad(lambda x, g=g: qb.sum(g(x)))(x).tolist() == [4.0, 1.0]
        assert qb.vmap(g)(qb.stack([x, x])).tolist() == [[0.5, 1.0]] * 2
        assert qb.hessian(lambda x, g=g: qb.sum(g(x)))(x).tolist() == [[4.0, 2.0], [2.0, 0.0]]


@pytest.mark.parametrize("f", with_rules())
def test_the_text_of_a_loop_holds_the_value_of_a_function_with_a_rule(f):
    def text(f):
        def step(i, c):
            a, b, d = f(c)
            return a + b * d

        return qb.jit(lambda x: qb.fori_loop(0, 3, step, x)).lower(qb.ones((2,))).program.stablehlo_text()

    assert text(f) == text(several)


def test_as_methods_and_in_trees():
    class Model:
        def __init__(self, k):
            self.k = k

        @qb.custom_jvp
        def double(self, x):
            return x * self.k

        double.defjvp(lambda p, t: (p[0].double(p[1]), 7.0 * t[1]))

    assert Model(2.0).double(qb.array(3.0)).item() == 6.0
    assert qb.grad(lambda x: Model(2.0).double(x))(3.0).item() == 7.0
    assert repr(log1pexp) == "custom_vjp(log1pexp)"
    assert (scaled.__name__, scaled.__wrapped__.__name__) == ("scaled", "scaled")
    assert repr(qb.jit(log1pexp)) == "jit(log1pexp)"


def test_a_rule_costs_nothing_where_no_derivative_is_taken():
    text = qb.jit(lambda x: log1pexp(log1pexp2(x))).lower(X).as_text()
    assert text == qb.jit(lambda x: qb.log(1.0 + qb.exp(qb.log(1.0 + qb.exp(x))))).lower(X).as_text()
    assert "custom_vjp(%0, body_nodes=7)" in qb.jit(log1pexp).lower(X).program.lower_text()
    assert "stablehlo.log" in qb.jit(log1pexp).lower(X).program.stablehlo_text()
