"""Products do what NumPy's do, einsum for every equation that NumPy takes, eager and compiled, with derivatives."""

import numpy as np
import pytest
import quabla as qb
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy_oracle import axis, bits, compare, data, shapes

few = settings(max_examples=80, deadline=None)
close = {"rtol": 1e-12, "atol": 1e-12}


@few
@given(st.data())
def test_dot_and_outer_are_numpys(d):
    k = d.draw(st.integers(1, 4))
    left, right = d.draw(shapes(0, 2)), d.draw(shapes(0, 2))
    x = data((*left, k), 1)
    y = data((*right, k, d.draw(st.integers(1, 3))) if d.draw(st.booleans()) else (k,), 2)
    compare(qb.dot, np.dot, x, y, **close)
    compare(qb.dot, np.dot, x, data(d.draw(shapes(0, 3)), 3), **close)
    compare(qb.dot, np.dot, data(()), y, **close)
    compare(qb.outer, np.outer, x, y, **close)
    compare(qb.matmul, np.matmul, x, y, **close)


@few
@given(st.data())
def test_tensordot_is_numpys(d):
    shared = d.draw(shapes(0, 2))
    x = data((*d.draw(shapes(0, 2)), *shared), 1)
    y = data((*shared, *d.draw(shapes(0, 2))), 2)
    n = d.draw(st.integers(0, 3))
    compare(lambda a, b: qb.tensordot(a, b, n), lambda a, b: np.tensordot(a, b, n), x, y, **close)
    order = d.draw(st.permutations(range(len(shared))))
    pair = ([x.ndim - len(shared) + i for i in order], [i - y.ndim for i in order])
    compare(lambda a, b: qb.tensordot(a, b, pair), lambda a, b: np.tensordot(a, b, pair), x, y, **close)


@few
@given(shapes(0, 3, 3), shapes(0, 3, 3))
def test_kron_is_numpys(p, q):
    compare(qb.kron, np.kron, data(p, 1), data(q, 2))


@pytest.mark.parametrize("shape, other", [((3,), (3,)), ((4, 3), (3,)), ((2, 4, 3), (4, 3)), ((2, 1, 3), (5, 3))])
def test_cross_is_numpys(shape, other):
    x, y = data(shape, 1), data(other, 2)
    compare(qb.cross, np.cross, x, y)
    for where in range(-len(shape), len(shape)):
        moved = np.moveaxis(x, -1, where)
        compare(lambda a, b, w=where: qb.cross(a, b, axisa=w), lambda a, b, w=where: np.cross(a, b, axisa=w), moved, y)
        compare(lambda a, b, w=where: qb.cross(a, b, axisc=w), lambda a, b, w=where: np.cross(a, b, axisc=w), x, y)
    if shape == other:
        compare(lambda a, b: qb.cross(a, b, axis=0), lambda a, b: np.cross(a, b, axis=0), x.T, y.T)


def test_cross_of_plane_vectors_is_the_third_component():
    assert qb.cross([1.0, 2.0], [3.0, 5.0]).tolist() == -1.0
    assert qb.cross([1.0, 2.0], [3.0, 5.0, 7.0]).tolist() == [14.0, -7.0, -1.0]
    with pytest.raises(ValueError, match="4 and 3 components"):
        qb.cross([1.0] * 4, [1.0] * 3)


# ---- einsum ----


@st.composite
def equations(draw):
    """An equation over a few letters with their lengths, repeated letters and "..." included, and operands for it."""
    lengths = {c: draw(st.sampled_from([1, 2, 3])) for c in "ijkl"}
    dots = draw(shapes(0, 2, 3))
    terms, arrays = [], []
    for k in range(draw(st.integers(1, 3))):
        letters = draw(st.lists(st.sampled_from("ijkl"), max_size=3))
        shape = [lengths[c] for c in letters]
        term = "".join(letters)
        if draw(st.integers(0, 3)) == 0:
            at = draw(st.integers(0, len(letters)))
            term = term[:at] + "..." + term[at:]
            shape[at:at] = dots[draw(st.integers(0, len(dots))) :]
        shape = [1 if n != 1 and draw(st.integers(0, 9)) == 0 else n for n in shape]
        terms.append(term)
        arrays.append(data(tuple(shape), k))
    text = ",".join(terms)
    used = sorted(set(text) - set(",."))
    if draw(st.booleans()):
        right = draw(st.permutations(used)) if used else []
        right = "".join(right[: draw(st.integers(0, len(right)))])
        if "..." in text:
            at = draw(st.integers(0, len(right)))
            right = right[:at] + "..." + right[at:]
        text += "->" + right
    return text, arrays


@settings(max_examples=400, deadline=None)
@given(equations())
def test_einsum_is_numpys(case):
    equation, arrays = case
    compare(lambda *a: qb.einsum(equation, *a), lambda *a: np.einsum(equation, *a), *arrays, **close)


@pytest.mark.parametrize(
    "equation, shapes_",
    [
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 3, 4), (2, 2, 5, 4)]),
        ("ijj->i", [(2, 3, 3)]),
        ("iii->i", [(3, 3, 3)]),
        ("i,i,i->", [(3,), (3,), (3,)]),
        ("...ij,...jk", [(2, 3, 4), (4, 5)]),
        ("ij,kl", [(2, 3), (4, 2)]),
        (" i j -> j i ", [(2, 3)]),
        ("->", [()]),
    ],
)
def test_einsum_figures(equation, shapes_):
    arrays = [data(s, k) for k, s in enumerate(shapes_)]
    compare(lambda *a: qb.einsum(equation, *a), lambda *a: np.einsum(equation, *a), *arrays, **close)
    assert bits(qb.einsum(equation, arrays)) == bits(qb.einsum(equation, *arrays))


@pytest.mark.parametrize(
    "equation, operands, message",
    [
        ("ij,jk", ([[1.0]],), "2 operands, 1"),
        ("ij->ik", ([[1.0]],), "'k' is on the right alone"),
        ("ij->ii", ([[1.0]],), "twice on the right"),
        ("ij", ([1.0],), "does not fit shape"),
        ("i,i", ([1.0, 2.0], [1.0, 2.0, 3.0]), "length 2 and 3"),
        ("i1", ([[1.0]],), "'1' is no letter"),
        ("i..", ([[1.0]],), "'.' is no letter"),
        ("......", ([1.0],), "twice in one term"),
        ("i->i->i", ([1.0],), "is no letter"),
    ],
)
def test_einsum_says_what_is_wrong(equation, operands, message):
    with pytest.raises(ValueError, match=message):
        qb.einsum(equation, *operands)


def test_einsum_takes_a_str_or_lists_of_axes():
    x = qb.ones((2, 3))
    for bad, message in [
        ((3,), "equation is a str"),
        ((None,), "equation is a str"),
        ((x, [0.5, 1]), "an axis is a Python int"),
        ((x, [True, 1]), "an axis is a Python int"),
        ((x, 3), "a int for such a list"),
        ((x, "ij"), "a str for such a list"),
        ((x, [0, 1], None), "a NoneType for such a list"),
    ]:
        with pytest.raises(TypeError, match=message):
            qb.einsum(*bad)
    for bad, message in [
        ((x, [0, 52]), "axis 52"),
        ((x, [0, -1]), "axis -1"),
        ((x, [0]), "does not fit shape"),
        ((x, [0, 1], [2]), "on the right alone"),
        ((x, [..., ...]), "twice in one term"),
    ]:
        with pytest.raises(ValueError, match=message):
            qb.einsum(*bad)


@settings(max_examples=200, deadline=None)
@given(equations(), st.permutations(range(52)))
def test_einsum_with_lists_of_axes_is_numpys(case, names):
    """The other way to write an equation: arrays and their axes in turns."""
    equation, arrays = case
    left, arrow, right = equation.partition("->")

    def axes(term):
        return [... if c == "#" else names["ijkl".index(c)] for c in term.replace("...", "#")]

    parts = [axes(term) for term in left.split(",")]
    last = [axes(right)] if arrow else []

    def woven(arrays):
        return [p for pair in zip(arrays, parts) for p in pair] + last

    compare(lambda *a: qb.einsum(*woven(a)), lambda *a: np.einsum(*woven(a)), *arrays, **close)


def test_einsum_takes_numpys_optimize_and_a_list_of_operands():
    x, y = data((2, 3), 1), data((3, 4), 2)
    want = bits(qb.einsum("ij,jk", x, y))
    assert bits(qb.einsum("ij,jk", x, y, optimize=False)) == want
    assert bits(qb.einsum("ij,jk", [x, y])) == bits(qb.einsum("ij,jk", operands=(x, y))) == want
    assert bits(qb.einsum(x, [0, 1], y, range(1, 3))) == want


def test_products_are_differentiable_to_second_order():
    x, w = qb.array(data((3, 4), 1)), qb.array(data((4, 2), 2))

    def f(a, b):
        return (
            qb.sum(qb.einsum("ij,jk->ik", a, b) ** 2)
            + qb.sum(qb.kron(a, b))
            + qb.sum(qb.tensordot(a, b, 1) * qb.dot(a, b))
        )

    g = qb.grad(f)(x, w)
    n, h = np.asarray(x), 1e-5
    for i in np.ndindex(n.shape):
        e = np.zeros_like(n)
        e[i] = h
        near = (float(f(qb.array(n + e), w)) - float(f(qb.array(n - e), w))) / (2 * h)
        assert abs(near - np.asarray(g)[i]) < 1e-7 * max(1, abs(near))
    up, down = (np.asarray(qb.grad(f)(qb.array(n + s * h), w)) for s in (1, -1))
    second = qb.jvp(lambda a: qb.grad(f)(a, w), (x,), (qb.ones_like(x),))[1]
    np.testing.assert_allclose(np.asarray(second), (up - down) / (2 * h), rtol=1e-6, atol=1e-6)


def test_products_of_axes_out_of_range_are_value_errors():
    x = qb.ones((2, 3))
    for f in (
        lambda: qb.tensordot(x, x, 3),
        lambda: qb.tensordot(x, x, ([5], [0])),
        lambda: qb.tensordot(x, x, ([0], [1])),
        lambda: qb.tensordot(x, x, (1, 2, 3)),
        lambda: qb.cross(x, x, axisa=4),
        lambda: qb.dot(x, x),
        lambda: qb.matmul(x, x),
    ):
        with pytest.raises(ValueError):
            f()
    assert axis(2) is not None
