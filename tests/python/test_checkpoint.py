"""checkpoint: the same values and derivatives, less memory, recomputed and never merged back."""

import pytest
import quabla as qb

np = pytest.importorskip("numpy")

wraps = pytest.mark.parametrize("wrap", [lambda f: f, qb.jit], ids=["eager", "jit"])


def layers(x, w, n=4):
    for _ in range(n):
        x = qb.tanh(x @ w)
    return x


def network(block, segments):
    def loss(w, x):
        for _ in range(segments):
            x = block(x, w)
        return qb.sum(x * x)

    return loss


W = qb.asarray(np.random.RandomState(0).randn(16, 16) * 0.3)
X = qb.asarray(np.random.RandomState(1).randn(200, 16))


@wraps
def test_values_and_gradients_are_those_of_the_function(wrap):
    plain, again = network(layers, 5), network(qb.checkpoint(layers), 5)
    assert wrap(again)(W, X).item() == wrap(plain)(W, X).item()
    for argnums in (0, 1):
        a, b = wrap(qb.grad(again, argnums))(W, X), wrap(qb.grad(plain, argnums))(W, X)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-13)


def test_the_gradient_of_one_checkpoint_has_the_same_bits():
    a = qb.grad(lambda x: qb.sum(layers(x, W)))(X)
    b = qb.grad(lambda x: qb.sum(qb.checkpoint(layers)(x, W)))(X)
    assert a.numpy().tobytes() == b.numpy().tobytes()


def test_it_lowers_the_peak_of_memory():
    """64 layers of 25,600 bytes: the tape of the plain gradient holds them all, that of 8 checkpoints of 8 layers about 8 + 8."""

    def workspace(block):
        return qb.jit(qb.grad(network(block, 8))).lower(W, X).workspace

    plain, again = workspace(lambda x, w: layers(x, w, 8)), workspace(qb.checkpoint(lambda x, w: layers(x, w, 8)))
    size = 200 * 16 * 8
    assert plain >= 64 * size
    assert again <= 22 * size


def test_what_is_computed_again_is_not_merged_back():
    def count(f):
        return qb.jit(qb.value_and_grad(lambda x: qb.sum(f(f(x))))).lower(qb.ones((3,))).as_text().count("tanh(")

    f = lambda x: qb.exp(qb.tanh(x))  # noqa: E731
    assert count(f) == 2
    assert count(qb.checkpoint(f)) == 4
    inner = qb.checkpoint(lambda x: qb.tanh(x) * 2.0)
    assert count(qb.checkpoint(lambda x: qb.exp(inner(x)))) == 6


@wraps
def test_every_order_and_direction(wrap):
    f = qb.checkpoint(lambda x: qb.exp(qb.sin(x)))
    g = lambda x: qb.exp(qb.sin(x))  # noqa: E731
    x = qb.array([0.3, -1.0])
    for transform in (
        lambda h: qb.grad(lambda x: qb.sum(h(x))),
        lambda h: lambda x: qb.jvp(h, (x,), (qb.ones((2,)),)),
        lambda h: qb.hessian(lambda x: qb.sum(h(x))),
        lambda h: qb.jacobian(qb.jacobian(lambda x: h(h(x)))),
        lambda h: qb.vmap(qb.grad(qb.grad(qb.grad(h)))),
        lambda h: qb.grad(lambda x: qb.sum(qb.jvp(h, (x,), (x,))[1])),
        lambda h: qb.grad(lambda x: qb.sum(qb.vmap(h)(x))),
    ):
        for a, b in zip(qb.tree.leaves(wrap(transform(f))(x)), qb.tree.leaves(wrap(transform(g))(x))):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-13)


@wraps
def test_it_may_close_over_traced_values(wrap):
    def loss(w, x):
        return qb.sum(qb.checkpoint(lambda x: qb.tanh(x @ w) * qb.sum(w))(x))

    def plain(w, x):
        return qb.sum(qb.tanh(x @ w) * qb.sum(w))

    for a, b in zip(wrap(qb.grad(loss, (0, 1)))(W, X), wrap(qb.grad(plain, (0, 1)))(W, X)):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-13)


def test_arguments_and_results():
    @qb.checkpoint(static_argnums=1)
    def power(p, n, *, k=None):
        return {"y": p["x"] ** n, "n": n}

    assert qb.remat is qb.checkpoint
    out = qb.jit(lambda x: power({"x": x}, 3))(qb.array(2.0))
    assert (out["y"].item(), out["n"]) == (8.0, 3)
    assert qb.grad(lambda x: power({"x": x}, 3)["y"])(2.0).item() == 12.0
    assert power({"x": 2.0}, 2)["y"] == 4.0
    with pytest.raises(TypeError, match="positional"):
        power({"x": 2.0}, 2, k=1)
    with pytest.raises(TypeError, match="results are floating"):
        qb.jit(qb.checkpoint(lambda x: x > 0))(qb.array(1.0))
    with pytest.raises(TypeError, match="plain Python value"):
        qb.jit(lambda x: power({"x": x}, x))(qb.array(1.0))


def test_the_batch_stays_folded_into_rows():
    """vmap of a gradient through a checkpoint shares the weights: they get no batch axis."""
    f = qb.checkpoint(lambda x, w: qb.sum(qb.tanh(x.reshape(1, 16) @ w)))
    text = qb.jit(qb.vmap(qb.grad(f), in_axes=(0, None))).lower(X, W).as_text()
    assert "tensor<200x16x16xf64>" not in text
