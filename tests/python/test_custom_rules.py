"""custom_vjp, custom_jvp and checkpoint: rules and calls that are refused, and those that only look as if they should be."""

import pytest
import quabla as qb
from test_custom import X, log1pexp, scaled, wraps
from threads import together

np = pytest.importorskip("numpy")


def test_a_call_before_the_rule_is_set():
    f, g = qb.custom_vjp(lambda x: x), qb.custom_jvp(lambda x: x)
    assert f(qb.array(1.0)).item() == 1.0
    with pytest.raises(AttributeError, match=r"call defvjp\(fwd, bwd\) first"):
        qb.grad(f)(1.0)
    with pytest.raises(AttributeError, match=r"call defjvp\(rule\) first"):
        qb.jit(g)(1.0)


def test_what_defvjp_and_defjvp_return():
    f, g = qb.custom_vjp(lambda x: x), qb.custom_jvp(lambda x: x)
    rule = lambda p, t: (p[0], t[0])  # noqa: E731
    assert f.defvjp(lambda x: (x, None), lambda r, ct: (ct,)) is None
    assert g.defjvp(rule) is rule
    for bad in (
        lambda: f.defvjp(1, 2),
        lambda: g.defjvp(1),
        lambda: qb.custom_vjp(3),
        lambda: qb.custom_jvp(rule, "0"),
    ):
        with pytest.raises(TypeError):
            bad()


def vjp_with(bwd, fwd=None, fun=None):
    f = qb.custom_vjp(fun or (lambda x: x * 2.0))
    f.defvjp(fwd or (lambda x: (x * 2.0, x)), bwd)
    return lambda: qb.grad(lambda x: qb.sum(f(x)))(qb.ones((2,)))


def jvp_with(rule, fun=None):
    f = qb.custom_jvp(fun or (lambda x: x * 2.0))
    f.defjvp(rule)
    return lambda: qb.grad(lambda x: qb.sum(f(x)))(qb.ones((2,)))


@pytest.mark.parametrize(
    "use, kind, match",
    [
        (vjp_with(lambda r, ct: ct), TypeError, "one cotangent for each differentiable argument, not a TraceTensor"),
        (vjp_with(lambda r, ct: (ct, ct)), TypeError, "2 cotangents for 1 differentiable argument"),
        (vjp_with(lambda r, ct: (1.0,)), TypeError, "is a float; it is an array, or None"),
        (vjp_with(lambda r, ct: (qb.sum(ct),)), TypeError, r"is float64\[\]; it should be float64\[2\]"),
        (vjp_with(lambda r, ct: (ct.astype(qb.float32),)), TypeError, r"is float32\[2\]; it should be float64\[2\]"),
        (vjp_with(lambda r, ct: ({"a": ct},)), TypeError, "is a dict; it is an array"),
        (
            vjp_with(lambda r, ct: (ct,), fwd=lambda x: x),
            TypeError,
            r"fwd returns \(out, residuals\), not a TraceTensor",
        ),
        (vjp_with(lambda r, ct: (ct,), fwd=lambda x: ((x, x), x)), ValueError, "fwd's out has the structure"),
        (
            vjp_with(lambda r, ct: (ct,), fwd=lambda x: (qb.sum(x), x)),
            TypeError,
            r"fwd's out is float64\[\]; it should be",
        ),
        (
            vjp_with(lambda r, ct: (ct,), fun=lambda x: (x, x > 0)),
            TypeError,
            r"result '1' is bool\[2\]; results are floating",
        ),
        (jvp_with(lambda p, t: p[0]), TypeError, r"the rule returns \(primal_out, tangent_out\)"),
        (jvp_with(lambda p, t: (p[0], qb.sum(t[0]))), TypeError, "tangent_out is float64"),
        (jvp_with(lambda p, t: (p[0], t[0] * t[0])), ValueError, "are not linear"),
        (jvp_with(lambda p, t: (p[0], qb.where(t[0] > 0, t[0], 0.0))), ValueError, "are not linear"),
        (jvp_with(lambda p, t: (p[0], t[0] + 1.0)), ValueError, "are not linear"),
        (jvp_with(lambda p, t: (p[0], (t[0] - p[0]) * 2.0)), ValueError, "are not linear"),
        (jvp_with(lambda p, t: (p[0], p[0])), ValueError, "are not linear"),
        (jvp_with(lambda p, t: (p[0], qb.exp(t[0] * 0.0))), ValueError, "are not linear"),
        (jvp_with(lambda p, t: (p[0], qb.concat([t[0][:1], p[0][1:]], 0))), ValueError, "are not linear"),
        (jvp_with(lambda p, t: (p[0], qb.where(p[0] > 2.0, t[0], p[0]))), ValueError, "are not linear"),
    ],
)
def test_rules_that_do_not_fit(use, kind, match):
    with pytest.raises(kind, match=match):
        use()


@pytest.mark.parametrize(
    "rule, want",
    [
        (lambda x, t: t * qb.exp(x - 1.0) + 0.0, [1.0, 1.0]),
        (lambda x, t: qb.where(x > 0, t, 0.0) - x * 0.0, [1.0, 1.0]),
        (lambda x, t: qb.concat([t[:1] / x[:1], qb.zeros((1,))], 0), [1.0, 0.0]),
        (lambda x, t: qb.fori_loop(0, 3, lambda i, c: c * x + t, qb.zeros((2,))), [3.0, 3.0]),
        (lambda x, t: qb.cond(x[0] > 0, lambda: t * 2.0, lambda: t), [2.0, 2.0]),
        (lambda x, t: qb.zeros_like(x), [0.0, 0.0]),
        (lambda x, t: 0.0 * x, [0.0, 0.0]),
        (lambda x, t: qb.pad(t[:1] * x[:1], (0, 1)) + qb.flip(t) - qb.mean(t), [1.0, 0.0]),
    ],
)
def test_rules_that_are_linear_whatever_they_look_like(rule, want):
    assert jvp_with(lambda p, t: (p[0] * 2.0, rule(p[0], t[0])))().tolist() == pytest.approx(want)


@wraps
def test_a_rule_with_a_loop_without_a_bound_serves_forward_mode(wrap):
    def loop(x):
        return qb.while_loop(lambda c: qb.sum(c) < 50.0, lambda c: c * 2.0 + qb.sin(c), x)

    f = qb.custom_jvp(loop)
    f.defjvp(lambda p, t: qb.jvp(loop, p, t))
    x = qb.array([1.0, 2.0])
    value, tangent = wrap(lambda x: qb.jvp(f, (x,), (x,)))(x)
    want = qb.jvp(loop, (x,), (x,))
    assert (value.tolist(), tangent.tolist()) == (want[0].tolist(), want[1].tolist())
    assert wrap(lambda x: f(x))(x).tolist() == value.tolist()
    assert wrap(qb.jacobian(f))(x).tolist() == qb.jacobian(loop)(x).tolist()
    with pytest.raises(ValueError, match="no reverse mode without a bound: pass max_steps=n"):
        wrap(qb.grad(lambda x: qb.sum(f(x))))(x)


def test_results_without_an_array():
    """They are what the function returned, where there is nothing to differentiate."""
    for f in (lambda x: (3.0, None, "text", True), lambda x: 2, lambda x: None):
        g = qb.custom_jvp(f)
        g.defjvp(lambda p, t, f=f: (f(p[0]), f(p[0])))
        h = qb.custom_vjp(f)
        h.defvjp(lambda x, f=f: (f(x), x), lambda r, ct: (None,))
        for call in (qb.checkpoint(f), g, h):
            assert qb.jit(call)(1.0) == f(1.0) == qb.jit(call)(qb.array(1.0))
            assert qb.grad(lambda x, call=call: x * x if call(x) else x * x)(3.0).item() == 6.0


def test_eager_arrays_are_fine_as_cotangents():
    assert vjp_with(lambda r, ct: (qb.array([5.0, 6.0]),))().tolist() == [5.0, 6.0]
    assert vjp_with(lambda r, ct: (np.array([5.0, 6.0]),))().tolist() == [5.0, 6.0]


def test_rules_may_not_close_over_traced_values():
    def outer(y):
        f = qb.custom_vjp(lambda x: x * y)
        f.defvjp(lambda x: (x, None), lambda r, ct: (ct,))
        return f(y)

    def outer_rule(y):
        f = qb.custom_jvp(lambda x: x)
        f.defjvp(lambda p, t: (p[0], t[0] * y))
        return f(y)

    def outer_bwd(y):
        f = qb.custom_vjp(lambda x: x)
        f.defvjp(lambda x: (x, None), lambda r, ct: (ct * y,))
        return f(y)

    for f, what in ((outer, "the function"), (outer_rule, "the rule"), (outer_bwd, "bwd")):
        with pytest.raises(
            TypeError, match=f"{what} closes over a value of an enclosing trace; pass it as an argument"
        ):
            qb.grad(f)(1.0)


def test_keywords_and_argument_numbers():
    with pytest.raises(TypeError, match="positional arguments only, not 'x'"):
        log1pexp(x=1.0)
    with pytest.raises(ValueError, match="argument number 3 is out of range; it was called with 1"):
        qb.jit(qb.custom_vjp(lambda x: x, nondiff_argnums=3))(1.0)
    with pytest.raises(TypeError, match="argument 0 is set to be a plain Python value, and holds a TraceTensor"):
        qb.jit(scaled)(qb.array(1.0), qb.ones((2,)))
    last = qb.custom_vjp(lambda x, k: k * x, nondiff_argnums=-1)
    last.defvjp(lambda x, k: (k * x, None), lambda k, r, ct: (k * ct,))
    assert qb.grad(lambda x: last(x, 4))(1.0).item() == 4.0


def test_an_argument_number_given_twice_counts_once():
    f = qb.custom_vjp(lambda x, k: x * k, nondiff_argnums=(1, -1))
    f.defvjp(lambda x, k: (x * k, None), lambda k, r, ct: (ct * k * 2.0,))
    assert qb.grad(lambda x: f(x, 3.0))(1.0).item() == 6.0


def test_rules_in_several_threads_do_not_meet():
    def work(i):
        for _ in range(50):
            assert qb.grad(lambda x: qb.sum(log1pexp(x)))(X).tolist() == [0.5, 1.0, 1.0]

    together(4, work)


def test_running_out_of_memory_is_an_error_wherever_it_happens():
    def jobs():
        f = qb.custom_vjp(lambda x: x * 2.0)
        f.defvjp(lambda x: (x * 2.0, {"a": x, "n": 3}), lambda r, ct: (ct * r["a"],))
        g = qb.custom_jvp(lambda x: qb.sin(x))
        g.defjvp(lambda p, t: (p[0] - p[0] ** 3 / 6.0, t[0] * qb.cos(p[0])))
        h = qb.checkpoint(lambda x: qb.tanh(x))
        x = qb.array([1.0, 2.0])
        return [
            lambda: qb.grad(lambda x: qb.sum(f(x) + g(x) + h(x)))(x),
            lambda: qb.vmap(qb.grad(lambda x: f(x) + g(x) * h(x)))(x),
            lambda: qb.hessian(lambda x: qb.sum(g(x) * h(x)))(x),
            lambda: qb.Compiler().trace(lambda a: qb.sum(g(a) * a), [("a", [2])]).vjp("c")["a"].stablehlo_text(),
        ]

    for k in range(4):
        want, failed, n = repr(jobs()[k]()), 0, 0
        while True:
            job, n = jobs()[k], n + 1
            qb._core._fail_alloc(n)
            try:
                got = job()
            except MemoryError:
                failed = n
                continue
            finally:
                qb._core._fail_alloc(-1)
            assert repr(got) == want
            if n > failed + 20:
                break
        assert failed > 30
