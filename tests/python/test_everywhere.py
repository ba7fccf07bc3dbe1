"""Every array function, in every way to call it: on all kinds of arrays, eager, traced, batched, differentiated in both modes and twice.

The calls are the good ones of calls.py; what is an array in them is replaced, mapped or differentiated.
"""

import numpy as np
import pytest
import quabla as qb
from calls import GOOD, find
from numpy_oracle import bits

NO_ARRAYS = {"zeros", "ones", "full", "eye", "arange", "linspace"}
WITH = [name for name in GOOD if name not in NO_ARRAYS]
EAGER = {"array", "from_dlpack"}  # these read values
TRACED = [name for name in WITH if name not in EAGER]


def taken_apart(name):
    """(f, arrays): the good call as a function of its arrays."""
    leaves, tree = qb.tree.flatten(GOOD[name])
    where = [i for i, x in enumerate(leaves) if isinstance(x, qb.Tensor)]

    def f(*arrays):
        filled = list(leaves)
        for i, x in zip(where, arrays):
            filled[i] = x
        args, kwargs = qb.tree.unflatten(tree, filled)
        return find(name)(*args, **kwargs)

    return f, [leaves[i] for i in where]


def listed(out):
    return list(out) if isinstance(out, (list, tuple)) else [out]


def a_view(x):
    """x as a TensorView of a larger array."""
    if not x.ndim:
        return x
    return qb.concat([x, x]).slice(0, x.shape[0], x.shape[0])


def test_the_table_is_the_whole_library():
    assert len(TRACED) > 100
    assert all(taken_apart(name)[1] for name in WITH)


@pytest.mark.parametrize("name", WITH)
def test_lists_numpy_arrays_and_views_are_arrays(name):
    f, arrays = taken_apart(name)
    want = [bits(x) for x in listed(f(*arrays))]
    for kind in (np.asarray, a_view) if name == "from_dlpack" else (np.asarray, a_view, qb.Tensor.tolist):
        if name == "from_dlpack" and kind is a_view:
            continue
        assert [bits(x) for x in listed(f(*map(kind, arrays)))] == want, kind


@pytest.mark.parametrize("name", TRACED)
def test_a_function_is_a_method_of_the_same_bits(name):
    if name in (
        "einsum",
        "meshgrid",
        "concat",
        "stack",
        "where",
        "polyval",
        "asarray",
        "zeros_like",
        "ones_like",
        "full_like",
    ):
        assert not hasattr(qb.Tensor, name)
        return
    args, kwargs = GOOD[name]
    want = [bits(x) for x in listed(find(name)(*args, **kwargs))]
    assert [bits(x) for x in listed(getattr(args[0], name)(*args[1:], **kwargs))] == want
    assert [bits(x) for x in listed(qb.jit(lambda x: getattr(x, name)(*args[1:], **kwargs))(args[0]))] == want


@pytest.mark.parametrize("name", TRACED)
def test_a_compiled_call_has_the_bits_of_the_eager_one(name):
    f, arrays = taken_apart(name)
    assert [bits(x) for x in listed(qb.jit(f)(*arrays))] == [bits(x) for x in listed(f(*arrays))]
    single = [x.astype(qb.float32) if x.dtype is qb.float64 else x for x in arrays]
    if name not in ("full_like", "scatter_add"):  # a list of numbers in the call is float64
        got = listed(qb.jit(f)(*single))
        assert [bits(x) for x in got] == [bits(x) for x in listed(f(*single))]
        assert all(x.dtype in (qb.float32, qb.bool_) for x in got) or name == "astype"


@pytest.mark.parametrize("name", TRACED)
def test_a_batch_is_the_calls_one_by_one(name):
    f, arrays = taken_apart(name)
    batch = [qb.stack([x, qb.flip(x), x]) for x in arrays]
    if name == "interp":  # its knots increase
        batch[1:] = [qb.stack([x, x, x]) for x in arrays[1:]]
    got = listed(qb.vmap(f)(*batch))
    for k in range(3):
        assert [bits(x[k]) for x in got] == [bits(x) for x in listed(f(*[b[k] for b in batch]))]
    for i in range(len(arrays)):  # one argument mapped, the others shared
        axes = tuple(0 if i == j else None for j in range(len(arrays)))
        got = listed(qb.vmap(f, in_axes=axes)(*[batch[j] if i == j else arrays[j] for j in range(len(arrays))]))
        assert [bits(x[2]) for x in got] == [bits(x) for x in listed(f(*arrays))]


@pytest.mark.parametrize("name", TRACED)
def test_both_modes_give_one_derivative_of_first_and_second_order(name):
    f, arrays = taken_apart(name)
    floating = [i for i, x in enumerate(arrays) if x.dtype is not qb.bool_]
    out = listed(f(*arrays))
    if out[0].dtype is qb.bool_ or not floating:
        assert name in BOOLEAN
        return
    r = np.random.default_rng(0)

    def weighted(*some):
        filled = list(arrays)
        for i, x in zip(floating, some):
            filled[i] = x
        return sum(qb.sum(y * w) for y, w in zip(listed(f(*filled)), weights))

    # away from the kinks and the ends of domains, inside the domain of arcsin, arctanh, arccosh
    points = [inside(name, arrays[i], 0.003 * (i + 1)) for i in floating]
    weights = [qb.array(r.normal(size=y.shape), dtype=y.dtype) for y in out]
    tangents = [qb.array(r.normal(size=x.shape)) for x in points]
    every = tuple(range(len(points)))

    def along(*some):
        return qb.jvp(weighted, some, tuple(tangents))[1]

    def against(*some):
        return sum(qb.sum(g * t) for g, t in zip(qb.grad(weighted, argnums=every)(*some), tangents))

    np.testing.assert_allclose(
        along(*points).item(), against(*points).item(), rtol=1e-6 if name == "astype" else 1e-11, atol=1e-12
    )
    second = [qb.jvp(g, tuple(points), tuple(tangents))[1].item() for g in (along, against)]
    second += [
        sum(qb.sum(a * t).item() for a, t in zip(qb.grad(g, argnums=every)(*points), tangents))
        for g in (along, against)
    ]
    np.testing.assert_allclose(second, second[0], rtol=1e-9, atol=1e-10)
    h = 1e-6
    up, down = ([p + s * h * t for p, t in zip(points, tangents)] for s in (1, -1))
    if name not in STEPS:
        near = (weighted(*up).item() - weighted(*down).item()) / (2 * h)
        np.testing.assert_allclose(along(*points).item(), near, rtol=1e-6, atol=1e-6)
        near = (along(*up).item() - along(*down).item()) / (2 * h)
        np.testing.assert_allclose(second[0], near, rtol=1e-5, atol=1e-5)
    third = qb.jit(
        qb.grad(lambda s: qb.jvp(along, tuple(p + s * t for p, t in zip(points, tangents)), tuple(tangents))[1])
    )(qb.array(0.0))
    assert np.isfinite(third.item())


BOOLEAN = set(
    [
        "isfinite",
        "isnan",
        "isinf",
        "any",
        "all",
        "greater",
        "greater_equal",
        "less",
        "less_equal",
        "equal",
        "not_equal",
        "logical_and",
        "logical_or",
        "logical_not",
    ]
)
STEPS = {"stop_gradient", "astype"}  # no derivative, and a function of float32


def inside(name, x, offset):
    """Points near x, all different, where the function is smooth."""
    x = np.asarray(x) + 0.01 * np.arange(1, x.size + 1).reshape(x.shape) + offset
    if name in ("arcsin", "arccos", "arctanh"):
        x = x / 10
    if name == "arccosh":
        x = x + 1.5
    if name == "interp":
        x = np.sort(x)
    return qb.array(x)
