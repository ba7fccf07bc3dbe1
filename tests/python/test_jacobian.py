"""jacobian and hessian: figures, structures, both directions, and the derivatives of a network in closed form."""

import math

import pytest
import quabla as qb

np = pytest.importorskip("numpy")

MODES = [lambda f: f, qb.jit]


def close(got, want, rtol=1e-12, atol=1e-13):
    np.testing.assert_allclose(np.asarray(got), want, rtol=rtol, atol=atol)


@pytest.mark.parametrize("wrap", MODES, ids=["eager", "jit"])
def test_figures_of_the_manual(wrap):
    x = qb.array([1.0, 2.0])
    jac = wrap(qb.jacobian(lambda x: qb.stack([x[0] * x[1], qb.sin(x[0])])))(x)
    np.testing.assert_allclose(jac.numpy(), [[2, 1], [0.54030231, 0]], atol=5e-9)
    assert wrap(qb.hessian(lambda x: qb.sum(x**3)))(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]


@pytest.mark.parametrize("m, n", [(1, 5), (5, 1), (3, 3), (2, 7), (7, 2)])
def test_wide_and_tall_jacobians_agree_with_numpy(m, n):
    a = np.random.RandomState(m * 10 + n).randn(m, n)
    x = np.random.RandomState(0).randn(n)
    jac = qb.jacobian(lambda x: qb.tanh(qb.matmul(qb.asarray(a), x)))(qb.asarray(x))
    close(jac, (1 - np.tanh(a @ x) ** 2)[:, None] * a)


def test_the_cheaper_direction_is_taken():
    f = qb.jit(qb.jacobian(lambda x, w: qb.tanh(qb.matmul(w, x))))
    for shape in ((9, 40), (40, 9)):
        text = f.lower(qb.ones(shape[1:]), qb.ones(shape)).as_text()
        assert "constant[dense] : tensor<9x9xf64>" in text  # nine unit vectors
        assert "40x40" not in text


@pytest.mark.parametrize("n", [2, 3, 8, 9, 12])
def test_few_and_many_unit_vectors_give_the_bits_of_one_derivative_each(n):
    """The Hessian of a network at many points, and its columns as directional derivatives of the gradient."""
    w, v = (qb.random.normal(k, s) for k, s in zip(qb.random.split(qb.random.key(1)), ((n, 24), (24, 1))))

    def u(x):
        return qb.sum(qb.sigmoid(qb.reshape(x, (1, n)) @ w) @ v)

    x, units = qb.random.normal(qb.random.key(2), (70, n)), qb.eye(n)
    whole = qb.jit(qb.vmap(qb.hessian(u)))(x).numpy()
    for i in range(n):
        column = qb.jit(qb.vmap(lambda x, e=units[i]: qb.jvp(qb.grad(u), (x,), (e,))[1]))(x)
        assert whole[:, :, i].tobytes() == column.numpy().tobytes()


def test_blocks_mirror_both_trees():
    p = {"a": qb.array([1.0, 2.0]), "b": 3.0, "m": qb.array([True, False])}

    def f(p):
        return p["a"] * p["b"], {"s": qb.sum(p["a"] ** 2), "t": p["a"] > 1, "c": 2.5}

    rows, rest = qb.jacobian(f)(p)
    assert rows["a"].tolist() == [[3.0, 0.0], [0.0, 3.0]]
    assert rows["b"].tolist() == [1.0, 2.0]
    assert rows["m"] is None
    assert rest["s"]["a"].tolist() == [2.0, 4.0]
    assert rest["s"]["b"].item() == 0.0
    assert rest["t"]["a"].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert rest["c"]["a"].tolist() == [0.0, 0.0]
    h = qb.hessian(lambda p: qb.sum(p["a"] ** 2 * p["b"]))(p)
    assert h["a"]["a"].tolist() == [[6.0, 0.0], [0.0, 6.0]]
    assert h["a"]["b"].tolist() == [2.0, 4.0]
    assert h["b"]["a"].tolist() == [2.0, 4.0]
    assert h["b"]["b"].item() == 0.0


def test_argnums_as_in_grad():
    def f(x, y):
        return x * y

    x, y = qb.array([1.0, 2.0]), qb.array([3.0, 4.0])
    assert qb.jacobian(f, argnums=1)(x, y).tolist() == [[1.0, 0.0], [0.0, 2.0]]
    jx, jy = qb.jacobian(f, argnums=(0, -1))(x, y)
    assert (jx.tolist(), jy.tolist()) == ([[3.0, 0.0], [0.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]])
    assert qb.jacobian(f, argnums=())(x, y) == ()
    (xx, xy), (yx, yy) = qb.hessian(lambda x, y: qb.sum(x * x * y), argnums=[0, 1])(x, y)
    assert xx.tolist() == [[6.0, 0.0], [0.0, 8.0]]
    assert xy.tolist() == yx.tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert yy.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with pytest.raises(ValueError, match="out of range; it was called with 2 arguments"):
        qb.jacobian(f, argnums=2)(x, y)
    with pytest.raises(ValueError, match="twice"):
        qb.hessian(f, argnums=(0, -2))(x, y)
    with pytest.raises(TypeError, match="argnums is an int"):
        qb.jacobian(f, argnums=1.0)


def test_shapes_are_output_then_input():
    x = qb.asarray(np.random.RandomState(0).randn(2, 3))
    jac = qb.jacobian(lambda x: x.T @ x)(x)
    assert jac.shape == [3, 3, 2, 3]
    eye, a = np.eye(3), x.numpy()
    close(jac, np.einsum("aj,ib->abij", eye, a) + np.einsum("bj,ia->abij", eye, a))
    assert qb.jacobian(lambda s: s * 2.0)(3.0).shape == []
    assert qb.jacobian(lambda s: qb.stack([s, s * s]))(3.0).tolist() == [1.0, 6.0]
    assert qb.hessian(lambda s: s**3)(2.0).item() == 12.0
    assert qb.hessian(lambda x: x**3)(qb.array([1.0, 2.0])).tolist()[1] == [[0.0, 0.0], [0.0, 12.0]]


def test_float32_stays_float32():
    x = qb.array([1.0, 2.0], dtype=qb.float32)
    assert qb.jacobian(lambda x: x * x)(x).dtype is qb.float32
    assert qb.hessian(lambda x: qb.sum(x**3))(x).dtype is qb.float32


def test_jacobian_nests_in_every_transform():
    x, w = qb.array([[1.0, 2.0], [3.0, 4.0]]), qb.array([0.5, -1.0])

    def f(x, w):
        return qb.sin(x * w)

    each = qb.vmap(qb.jacobian(f), in_axes=(0, None))
    want = np.stack([np.diag(np.cos(r * w.numpy()) * w.numpy()) for r in x.numpy()])
    close(each(x, w), want)
    trace = qb.grad(lambda w: qb.sum(each(x, w)))(w)
    close(trace, np.sum(np.cos(x.numpy() * w.numpy()) - x.numpy() * w.numpy() * np.sin(x.numpy() * w.numpy()), axis=0))
    close(qb.jacobian(qb.jacobian(qb.jacobian(lambda t: t**4)))(qb.array(2.0)), 48.0)
    close(qb.jacobian(lambda w: qb.hessian(lambda x: qb.sum(f(x, w)))(x[0]))(w).numpy().shape, (2, 2, 2))


def test_the_function_is_traced_once():
    n = 0

    def f(x):
        nonlocal n
        n += 1
        return qb.sin(x)

    for _ in range(3):
        qb.jacobian(f)(qb.ones((4,)))
    assert n == 1
    assert repr(qb.jit(qb.jacobian(f))).startswith("jit(jacobian(")
    assert repr(qb.hessian(f)).endswith("<locals>.f)")


def test_hessian_of_rosenbrock():
    def rosen(x):
        return qb.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    x = np.linspace(-1, 1, 30)
    want = np.diag(-400 * x[:-1], 1) + np.diag(-400 * x[:-1], -1)
    d = np.zeros(30)
    d[0] = 1200 * x[0] ** 2 - 400 * x[1] + 2
    d[1:-1] = 202 + 1200 * x[1:-1] ** 2 - 400 * x[2:]
    d[-1] = 200
    close(qb.hessian(rosen)(qb.asarray(x)), want + np.diag(d), rtol=1e-12, atol=1e-10)


def tanh_derivatives(z):
    """tanh and its first four derivatives."""
    t = np.tanh(z)
    s = 1 - t * t
    return t, s, -2 * t * s, (6 * t * t - 2) * s, (16 * t - 24 * t**3) * s


@pytest.mark.parametrize("wrap", MODES, ids=["eager", "jit"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_derivatives_of_a_network_against_closed_forms(wrap, order):
    """u(x) = sum_j v_j tanh(w_j x + b_j): the k-th derivative is sum_j v_j w_j^k tanh^(k)(w_j x + b_j)."""
    r = np.random.RandomState(order)
    w, b, v = r.randn(16), r.randn(16), r.randn(16)
    x = r.randn(9)
    d = tanh_derivatives(np.outer(x, w) + b)
    want = (v * w**order * d[order]).sum(axis=1)
    want_v = w**order * d[order]

    def u(x, v):
        return qb.sum(qb.tanh(x * qb.asarray(w) + qb.asarray(b)) * v)

    for transform in (qb.grad, qb.jacobian):
        du = u
        for _ in range(order):
            du = transform(du)
        close(wrap(qb.vmap(du, in_axes=(0, None)))(qb.asarray(x), qb.asarray(v)), want, rtol=1e-11, atol=1e-11)
        per_weight = wrap(qb.vmap(qb.grad(du, argnums=1), in_axes=(0, None)))(qb.asarray(x), qb.asarray(v))
        close(per_weight, want_v, rtol=1e-11, atol=1e-11)


def test_third_derivatives_of_several_variables():
    """d^3/dx_i dx_j dx_k of exp(a . x) is a_i a_j a_k exp(a . x)."""
    a, x = np.array([0.3, -0.7, 0.2]), np.array([0.5, 1.0, -2.0])
    f = lambda x: qb.exp(qb.sum(qb.asarray(a) * x))  # noqa: E731
    want = math.exp(a @ x)
    close(qb.jacobian(qb.hessian(f))(qb.asarray(x)), want * np.einsum("i,j,k->ijk", a, a, a))
    close(qb.hessian(qb.hessian(f))(qb.asarray(x)), want * np.einsum("i,j,k,l->ijkl", a, a, a, a))
