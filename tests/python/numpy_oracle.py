"""NumPy as the oracle: a function of quabla and one of NumPy get the same arrays; eager, compiled and traced results must agree."""

import numpy as np
import pytest
import quabla as qb
from hypothesis import strategies as st

ERRORS = (ValueError, TypeError, IndexError)


def data(shape, seed=0, dtype=np.float64):
    """Numbers between -3 and 3 with a few ties and zeros."""
    r = np.random.default_rng(seed)
    x = np.round(r.normal(size=shape) * 4) / 4
    return np.asarray(x > 0 if dtype is bool else x, dtype)


def bits(x):
    """What decides whether two results are the same."""
    if isinstance(x, (tuple, list)):
        return [bits(v) for v in x]
    return x.dtype, x.shape, bytes(memoryview(x).cast("B"))


def compare(ours, numpys, *arrays, rtol=1e-14, atol=1e-14):
    """ours(*arrays) against numpys(*arrays), eager and under jit. Where NumPy refuses or has no elements, ours refuses too."""
    tensors = [qb.array(a) for a in arrays]
    try:
        want = numpys(*arrays)
        want = list(want) if isinstance(want, (tuple, list)) else [want]
        refused = any(np.size(w) == 0 for w in want)
    except ERRORS:
        refused = True
    if refused:
        with pytest.raises(ERRORS):
            ours(*tensors)
        with pytest.raises(ERRORS):
            qb.jit(lambda *a: ours(*a))(*tensors)
        return
    got = ours(*tensors)
    assert bits(qb.jit(lambda *a: ours(*a))(*tensors)) == bits(got)
    got = list(got) if isinstance(got, (tuple, list)) else [got]
    assert len(got) == len(want)
    for g, w in zip(got, want):
        w = np.asarray(w)
        assert g.shape == list(w.shape)
        assert g.dtype.name == w.dtype.name or w.dtype.kind in "iu"
        np.testing.assert_allclose(np.asarray(g), w, rtol=rtol, atol=atol)


def shapes(least=0, most=4, length=4):
    return st.lists(st.integers(1, length), min_size=least, max_size=most).map(tuple)


def axis(ndim):
    """An axis of an array, sometimes none."""
    return st.integers(-ndim - 1, ndim) if ndim == 0 else st.integers(-ndim, ndim - 1) | st.integers(-ndim - 1, ndim)


def axes(ndim):
    if ndim == 0:  # NumPy lets some functions, not all, count a scalar as one element
        return st.none() | st.just(())
    return st.none() | axis(ndim) | st.lists(axis(ndim), max_size=max(ndim, 1)).map(tuple)
