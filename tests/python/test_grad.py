"""grad, value_and_grad, jvp, vjp: figures, structures, errors."""

import math

import pytest
import quabla as qb

np = pytest.importorskip("numpy")


def close(got, want, rtol=1e-12):
    np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=1e-14)


WRAPS = pytest.mark.parametrize("wrap", [lambda f: f, qb.jit], ids=["eager", "jit"])


@WRAPS
def test_figures_of_the_manual(wrap):
    w, b = qb.array([[0.5], [-0.25]]), qb.array([0.1])
    x, y = qb.array([[1, 2], [3, 4], [5, 6]]), qb.array([[1], [2], [3]])
    assert wrap(lambda w, b: qb.mean((x @ w + b - y) ** 2))(w, b).item() == pytest.approx(2.12666667, rel=1e-8)
    f, x = lambda x: qb.sin(x) * x, qb.array([0.0, 1.0])
    out, tangent = wrap(lambda x: qb.jvp(f, (x,), (qb.ones((2,)),)))(x)
    np.testing.assert_allclose(out.numpy(), [0, 0.84147098], atol=5e-9)
    np.testing.assert_allclose(tangent.numpy(), [0, 1.38177329], atol=5e-9)
    pulled = wrap(lambda x: qb.vjp(f, x)[1](qb.ones((2,)))[0])(x)
    np.testing.assert_allclose(pulled.numpy(), [0, 1.38177329], atol=5e-9)


@WRAPS
def test_the_readmes_training_ends_where_it_says(wrap):
    u_xx = qb.vmap(qb.grad(qb.grad(lambda x, w: qb.sin(w * x))), in_axes=(0, None))

    def loss(params, x):
        return qb.mean((u_xx(x, params["w"]) + math.pi**2 * qb.sin(math.pi * x)) ** 2)

    x, params, adam = qb.linspace(0.05, 0.95, 8), {"w": qb.array(2.5)}, qb.optim.Adam(learning_rate=0.05)
    step = wrap(qb.value_and_grad(loss))
    for _ in range(300):
        value, grads = step(params, x)
        params = adam.step(params, grads)
    assert f"w = {params['w'].item():.6f}, loss = {value.item():.1e}" == "w = 3.141593, loss = 1.5e-13"


def test_gradients_mirror_the_argument():
    def f(p):
        return (p["w"] * p["w"]).sum() + p["b"][0] * 3.0 + p["s"] * 2.0

    p = {"w": qb.array([1.0, 2.0], dtype=qb.float64), "b": [qb.array(1.0)], "s": 5.0, "m": qb.array([True]), "n": None}
    g = qb.grad(f)(p)
    assert g["w"].tolist() == [2.0, 4.0]
    assert g["b"][0].item() == 3.0
    assert g["s"].item() == 2.0
    assert g["s"].dtype is qb.float64
    assert g["m"] is None
    assert g["n"] is None


def test_gradients_keep_dtypes():
    x = qb.array([1.0, 2.0], dtype=qb.float32)
    assert qb.grad(lambda x: (x * x).sum())(x).dtype is qb.float32
    assert qb.grad(lambda x: (x.astype(qb.float64) ** 2).sum())(x).dtype is qb.float32


def test_numbers_in_a_differentiated_position_share_one_trace():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return x * x

    assert [qb.grad(f)(v).item() for v in (1.0, 2.0, 3, np.float64(4))] == [2.0, 4.0, 6.0, 8.0]
    assert n == 1


def test_every_order():
    f = qb.sin
    for k in range(8):
        want = [math.sin, math.cos, lambda x: -math.sin(x), lambda x: -math.cos(x)][k % 4](0.7)
        g = f
        assert float(g(0.7)) == pytest.approx(want, rel=1e-14)
        f = qb.grad(f)


def test_higher_derivatives_share_their_work():
    def u(x):
        return qb.tanh(x * 2.0)

    f = qb.jit(lambda x: (u(x), qb.grad(u)(x), qb.grad(qb.grad(u))(x)))
    assert f.lower(qb.array(1.0)).as_text().count("tanh") == 1


def test_argnums():
    def f(x, y, z):
        return x * y * y + z * 5.0

    assert qb.grad(f, 1)(2.0, 3.0, 1.0).item() == 12.0
    assert qb.grad(f, argnums=-1)(2.0, 3.0, 1.0).item() == 5.0
    gx, gz = qb.grad(f, (0, 2))(2.0, 3.0, 1.0)
    assert (gx.item(), gz.item()) == (9.0, 5.0)
    assert [g.item() for g in qb.grad(f, [2, 0])(2.0, 3.0, 1.0)] == [5.0, 9.0]
    assert qb.grad(f, ())(2.0, 3.0, qb.array(1.0)) == ()
    assert qb.value_and_grad(f, ())(2.0, 3.0, 1.0) == (23.0, ())  # a number, of numbers alone
    for bad in (3, -4, (0, 0), (0, -3)):
        with pytest.raises(ValueError, match="argnums"):
            qb.grad(f, bad)(1.0, 1.0, 1.0)
    for bad in ("x", 1.0, True, (0.5,)):
        with pytest.raises(TypeError, match="argnums"):
            qb.grad(f, bad)


def test_value_and_grad_and_has_aux():
    def f(x):
        return (x * x).sum(), {"twice": x * 2, "n": 7, "s": "text"}

    x = qb.array([1.0, 2.0])
    (value, aux), g = qb.value_and_grad(f, has_aux=True)(x)
    assert (value.item(), g.tolist(), aux["twice"].tolist(), aux["n"], aux["s"]) == (
        5.0,
        [2.0, 4.0],
        [2.0, 4.0],
        7,
        "text",
    )
    g, aux = qb.grad(f, has_aux=True)(x)
    assert (g.tolist(), aux["twice"].tolist()) == ([2.0, 4.0], [2.0, 4.0])
    assert qb.value_and_grad(lambda x: x * 3)(2.0)[0].item() == 6.0


@pytest.mark.parametrize(
    "f, kind, match",
    [
        (lambda x: x, ValueError, r"shape \[\]\), not float64\[2\]"),
        (lambda x: x[:1], ValueError, r"float64\[1\]"),
        (lambda x: x.sum() > 0, ValueError, r"bool\[\]"),
        (lambda x: 3.0, ValueError, "Python number 3.0"),
        (lambda x: None, TypeError, "None"),
        (lambda x: (x.sum(), x), TypeError, "has_aux"),
        (lambda x: {"a": x.sum()}, TypeError, "dict"),
    ],
)
def test_the_function_must_return_a_floating_scalar(f, kind, match):
    for transform in (qb.grad, qb.value_and_grad):
        with pytest.raises(kind, match=match):
            transform(f)(qb.ones((2,)))


def test_has_aux_wants_a_pair():
    with pytest.raises(TypeError, match="value, aux"):
        qb.grad(lambda x: x.sum(), has_aux=True)(qb.ones((2,)))


def test_non_arrays_in_a_differentiated_argument():
    with pytest.raises(TypeError, match="'a' is a str"):
        qb.jit(lambda x: qb.grad(lambda p: p["b"])({"a": "text", "b": x}))(qb.array(1.0))
    with pytest.raises(TypeError, match="argument 0 'a' is a str"):
        qb.grad(lambda p: p["b"])({"a": "text", "b": qb.array(1.0)})


def test_constants_have_zero_gradient():
    c = qb.array(3.0)
    assert qb.grad(lambda x: c)(qb.ones((2,))).tolist() == [0.0, 0.0]
    assert qb.grad(lambda x, y: y.sum())(qb.ones((2,)), qb.ones((3,))).tolist() == [0.0, 0.0]
    assert qb.grad(lambda x: qb.stop_gradient(x) * x)(3.0).item() == 3.0


def test_where_does_not_leak():
    f = qb.grad(lambda x: qb.where(x < 1, x, qb.sqrt(x)))
    assert f(0.0).item() == 1.0
    g = qb.grad(lambda x: qb.where(x < 1, x, qb.sqrt(x)).sum())
    assert g(qb.array([0.0, 4.0])).tolist() == [1.0, 0.25]


def test_gradient_against_finite_differences():
    r = np.random.RandomState(0)
    w, x = r.randn(3, 4), r.randn(5, 3)

    def f(w, x):
        h = qb.tanh(qb.asarray(x) @ w)
        return qb.mean(qb.exp(-h * h) + h[::2].sum(axis=0, keepdims=True).max())

    g = qb.grad(f)(qb.array(w), qb.array(x)).numpy()
    for i in range(3):
        for j in range(4):
            d = np.zeros_like(w)
            d[i, j] = 1e-6
            slope = (float(f(qb.array(w + d), qb.array(x))) - float(f(qb.array(w - d), qb.array(x)))) / 2e-6
            assert g[i, j] == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_jvp_and_vjp_agree():
    r = np.random.RandomState(0)
    x, t, c = (qb.array(r.randn(4)) for _ in range(3))

    def f(x):
        return {"a": qb.sin(x) * x[::-1], "b": (x * x).sum()}

    out, tangent = qb.jvp(f, (x,), (t,))
    out2, pull = qb.vjp(f, x)
    ct = {"a": c, "b": qb.array(0.5)}
    left = (tangent["a"] * c).sum() + tangent["b"] * 0.5
    right = (pull(ct)[0] * t).sum()
    assert left.item() == pytest.approx(right.item(), rel=1e-13)
    assert out["a"].numpy().tobytes() == out2["a"].numpy().tobytes()


def test_jvp_arguments():
    f = lambda x, y: x * y  # noqa: E731
    out, t = qb.jvp(f, [2.0, 3.0], [1.0, 0.0])
    assert (out.item(), t.item()) == (6.0, 3.0)
    x32 = qb.array(2.0, dtype=qb.float32)
    assert qb.jvp(lambda x: x * x, (x32,), (1.0,))[1].dtype is qb.float32
    one = qb.ones((2,))
    with pytest.raises(TypeError, match="tuple or list"):
        qb.jvp(f, one, one)
    with pytest.raises(ValueError, match="1 primals and 2 tangents"):
        qb.jvp(f, (one,), (one, one))
    with pytest.raises(ValueError, match="structure"):
        qb.jvp(lambda x: x[0], ([one],), (one,))
    for bad in (qb.ones((3,)), qb.ones((2,), dtype=qb.float32)):
        with pytest.raises(TypeError, match="must agree"):
            qb.jvp(lambda x: x, (one,), (bad,))


def test_jvp_of_bools():
    m = qb.array([True, False])
    out, t = qb.jvp(lambda x, m: (qb.where(m, x, 0.0), x > 0), (qb.ones((2,)), m), (qb.ones((2,)), m))
    assert t[0].tolist() == [1.0, 0.0]
    assert t[1].tolist() == [0.0, 0.0]


def test_vjp_function():
    out, pull = qb.vjp(lambda x, y: x * y, 2.0, qb.array(3.0))
    assert repr(pull) == "VjpFunction(primals=2)"
    assert [g.item() for g in pull(1.0)] == [3.0, 2.0]
    assert [g.item() for g in qb.jit(pull)(qb.array(2.0))] == [6.0, 4.0]
    assert qb.vmap(pull)(qb.array([1.0, 2.0]))[0].tolist() == [3.0, 6.0]
    out, pull, aux = qb.vjp(lambda x: (x * x, {"k": x + 1}), 3.0, has_aux=True)
    assert (out.item(), pull(1.0)[0].item(), aux["k"].item()) == (9.0, 6.0, 4.0)
    with pytest.raises(ValueError, match="structure"):
        pull((1.0,))
    with pytest.raises(TypeError, match="must agree"):
        pull(qb.ones((2,)))


def test_vjp_inside_a_trace():
    def f(x):
        out, pull = qb.vjp(lambda y: qb.sin(y) * x, x)
        return out, pull(qb.ones((2,)))[0], qb.vmap(lambda c: pull(c)[0])(qb.array([[1.0, 0.0], [0.0, 1.0]]))

    x = qb.array([0.5, 1.0])
    out, g, rows = qb.jit(f)(x)
    close(out, np.sin([0.5, 1.0]) * [0.5, 1.0])
    close(g, np.cos([0.5, 1.0]) * [0.5, 1.0])
    close(rows, np.diag(g.numpy()))
    close(qb.grad(lambda x: f(x)[1].sum())(x), np.cos([0.5, 1.0]) - np.sin([0.5, 1.0]) * [0.5, 1.0])


def test_a_vjp_function_of_a_dead_trace():
    kept = []
    qb.jit(lambda x: kept.append(qb.vjp(qb.sin, x)[1]) or x)(qb.array(1.0))
    with pytest.raises(qb.TracerError):
        kept[0](1.0)


def test_transforms_nest_in_any_order():
    x, w = qb.array([0.1, 0.2, 0.3]), qb.array(0.7)

    def u(x, w):
        return qb.sin(w * x)

    uxx = qb.vmap(qb.grad(qb.grad(u)), in_axes=(0, None))
    loss = lambda w: qb.mean(uxx(x, w) ** 2)  # noqa: E731
    a = x.numpy()
    want = np.mean((0.49 * np.sin(0.7 * a)) ** 2)
    slope = np.mean(2 * 0.49 * np.sin(0.7 * a) * (2 * 0.7 * np.sin(0.7 * a) + 0.49 * a * np.cos(0.7 * a)))
    for step in (qb.value_and_grad(loss), qb.jit(qb.value_and_grad(loss)), qb.jit(qb.value_and_grad(qb.jit(loss)))):
        value, g = step(w)
        assert value.item() == pytest.approx(want, rel=1e-13)
        assert g.item() == pytest.approx(slope, rel=1e-12)
    hess = qb.grad(lambda w: qb.grad(loss)(w))(w).item()
    eps = 1e-5
    assert hess == pytest.approx((qb.grad(loss)(w + eps).item() - qb.grad(loss)(w - eps).item()) / (2 * eps), rel=1e-7)


@WRAPS
def test_readme_quickstart_figures(wrap):
    x = qb.array([-1.0, 0.5, 1.0, 2.0], dtype=qb.float32)
    w = qb.asarray(np.array([0.3, -0.2, 0.1, 0.4], dtype=np.float32))

    def loss(params, x):
        y = qb.tanh(x * params["w"] + params["b"])
        return qb.sum(qb.where(x > 0.0, y, 0.0) ** 2)

    params = {"w": w, "b": qb.array(0.2, dtype=qb.float32)}
    value, grads = wrap(qb.value_and_grad(loss))(params, x)
    assert value.item() == 0.6748224496841431
    assert grads["w"].tolist() == [-0.0, 0.09867792576551437, 0.53318190574646, 1.2793999910354614]
    assert grads["b"].item() == 1.3702377080917358
    assert wrap(qb.grad(loss, argnums=1))(params, x).tolist() == [
        0.0,
        -0.03947117179632187,
        0.053318191319704056,
        0.2558799982070923,
    ]
    xs = qb.array([[0.5, 1.0, 2.0, -1.0], [1.0, 1.0, 1.0, 1.0]], dtype=qb.float32)
    assert wrap(qb.vmap(loss, in_axes=(None, 0)))(params, xs).tolist() == [0.2575097382068634, 0.5868375897407532]
