"""vmap: axes, sizes, results, and equality with the loop bit for bit."""

import pytest
import quabla as qb

np = pytest.importorskip("numpy")


@pytest.mark.parametrize("wrap", [lambda f: f, qb.jit], ids=["eager", "jit"])
def test_figures_of_the_manual(wrap):
    w, rows = qb.array([0.5, 1.0]), qb.array([[1, 2], [3, 4], [5, 6]])
    out = wrap(qb.vmap(lambda x: qb.sum(qb.tanh(x * w))))(rows)
    np.testing.assert_allclose(out.numpy(), [1.42614474, 1.90447755, 1.98660201], rtol=1e-8)


def test_vmap_equals_the_loop_bit_for_bit():
    r = np.random.RandomState(0)
    x, w = qb.array(r.randn(6, 4)), qb.array(r.randn(4, 4))

    def f(x):
        h = qb.tanh(qb.matmul(x, w))
        return h.mean(), qb.where(h > 0, h, x)[::-1], h.reshape(2, 2).T @ h.reshape(2, 2), qb.max(h, axis=0)

    batched = qb.vmap(f)(x)
    for i in range(6):
        for b, s in zip(batched, f(x[i])):
            assert b[i].numpy().tobytes() == s.numpy().tobytes()


@pytest.mark.parametrize("axis", [0, 1, -1, 2, -3])
def test_in_axes_may_be_any_axis(axis):
    a = np.random.RandomState(0).randn(3, 4, 5)
    got = qb.vmap(lambda x: x * 2 + x.sum(), in_axes=axis, out_axes=axis)(qb.array(a))
    want = np.stack([s * 2 + s.sum() for s in np.moveaxis(a, axis, 0)], axis)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-14)


def test_in_axes_per_argument_and_as_prefix():
    x, y = qb.array([[1.0, 2.0], [3.0, 4.0]]), qb.array([10.0, 20.0])
    f = lambda x, y: x.sum() * y  # noqa: E731
    assert qb.vmap(f)(x, y).tolist() == [30.0, 140.0]
    assert qb.vmap(f, in_axes=(1, None))(x, y).tolist() == [[40.0, 80.0], [60.0, 120.0]]
    assert qb.vmap(f, in_axes=[0, 0])(x, y).tolist() == [30.0, 140.0]
    g = lambda p: p["a"] * p["b"][0] + p["b"][1]  # noqa: E731
    p = {"a": y, "b": (qb.array(2.0), qb.array(1.0))}
    assert qb.vmap(g, in_axes=({"a": 0, "b": None},))(p).tolist() == [21.0, 41.0]


def test_out_axes():
    x = qb.array([1.0, 2.0])
    out = qb.vmap(lambda t: (qb.stack([t, t, t]), qb.array(5.0), 7.0), out_axes=(1, None, 0))(x)
    assert out[0].tolist() == [[1.0, 2.0]] * 3
    assert out[1].item() == 5.0
    assert out[2].tolist() == [7.0, 7.0]
    assert qb.vmap(lambda t: qb.array([5.0, 6.0]))(x).tolist() == [[5.0, 6.0], [5.0, 6.0]]
    assert qb.vmap(lambda t: {"a": t, "b": None})(x)["b"] is None
    with pytest.raises(ValueError, match="out_axes cannot be None"):
        qb.vmap(lambda t: t, out_axes=None)(x)
    with pytest.raises(ValueError, match="out_axes cannot be 1"):
        qb.vmap(lambda t: t, out_axes=1)(x)


def test_sizes_must_agree_and_are_named_by_path():
    p = {"p": {"a": qb.ones((3,)), "b": qb.ones((2,))}}
    with pytest.raises(ValueError, match=r"'p/b' has 2 along axis 0, but argument 0 'p/a' has 3"):
        qb.vmap(lambda p: p["p"]["a"])(p)


def test_bad_axes():
    x = qb.ones((2, 3))
    for bad in (2, -3):
        with pytest.raises(ValueError, match="in_axes cannot be"):
            qb.vmap(lambda x: x, in_axes=bad)(x)
    with pytest.raises(ValueError, match="nothing is mapped"):
        qb.vmap(lambda x: x, in_axes=None)(x)
    with pytest.raises(ValueError, match="None in in_axes"):
        qb.vmap(lambda x, y: x)(x, 2.0)
    with pytest.raises(ValueError, match="does not fit"):
        qb.vmap(lambda x: x, in_axes=(0, 0))(x)
    with pytest.raises(ValueError, match="does not fit"):
        qb.vmap(lambda x: x[0], in_axes=((0, 0),))([x, x])
    with pytest.raises(TypeError, match="in_axes holds"):
        qb.vmap(lambda x: x, in_axes="a")(x)
    with pytest.raises(TypeError, match="not an array"):
        qb.jit(lambda x: qb.vmap(lambda x, y: x)(x, "a"))(x)
    assert qb.vmap(lambda x, y: x * y, in_axes=(0, None))(x, 2.0).tolist() == [[2.0] * 3] * 2


def test_axes_that_do_not_fit_are_shown_beside_the_structure():
    x = qb.ones((2, 3))
    with pytest.raises(
        ValueError, match=r"in_axes \(0,\) does not fit the arguments, which have the structure TreeDef\(\(\*, \*\)\)"
    ):
        qb.vmap(lambda a, b: a, in_axes=(0,))(x, x)
    with pytest.raises(
        ValueError, match=r"in_axes {'w': 0} does not fit argument 0/p, which has the structure TreeDef\({'b': \*}\)"
    ):
        qb.vmap(lambda a: a, in_axes=({"p": {"w": 0}},))({"p": {"b": x}})
    with pytest.raises(ValueError, match=r"out_axes \(0, 0\) does not fit the result"):
        qb.vmap(lambda a: {"r": a}, out_axes=(0, 0))(x)


def test_vmap_of_grad_and_grad_of_vmap():
    w, x = qb.array([1.0, 2.0]), qb.array([[1.0, 0.0], [0.0, 1.0], [2.0, 3.0]])
    f = lambda x, w: (x * w * w).sum()  # noqa: E731
    g = qb.vmap(qb.grad(f, argnums=1), in_axes=(0, None))(x, w)
    assert g.shape == [3, 2]
    assert g.tolist() == (2 * x * w).tolist()
    total = qb.grad(lambda w: qb.vmap(f, (0, None))(x, w).sum())(w)
    assert total.tolist() == g.sum(axis=0).tolist()
    _, pull = qb.vjp(qb.vmap(f, (0, None)), x, w)
    assert pull(qb.ones((3,)))[1].tolist() == total.tolist()


def test_nested_vmap_is_an_outer_product():
    x, y = qb.array([1.0, 2.0]), qb.array([1.0, 10.0, 100.0])
    f = qb.vmap(qb.vmap(lambda a, b: a * b, in_axes=(None, 0)), in_axes=(0, None))
    assert f(x, y).tolist() == [[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]]


def test_unmapped_work_is_done_once():
    w = qb.ones((8, 8))
    text = qb.jit(qb.vmap(lambda x, w: x * qb.matmul(w, w).sum(), in_axes=(0, None))).lower(qb.ones((5,)), w).as_text()
    assert "tensor<5x8x8xf64>" not in text
