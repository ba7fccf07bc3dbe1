"""Random numbers from explicit keys: the same key gives the same numbers on every platform.

A key is the state of a SplitMix64 stream (Steele, Lea, Flood 2014). Sampling is eager: a sample inside a traced function is a
constant of the trace.
"""

import bisect
import itertools
import math

from . import _core
from ._arguments import array_of, flag, integer, integers, number, product

__all__ = [
    "Key",
    "bernoulli",
    "choice",
    "fold_in",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "key",
    "normal",
    "permutation",
    "split",
    "truncated_normal",
    "uniform",
]

_MASK = 2**64 - 1
_FLOAT32_MAX = 2.0**128 - 2.0**104


class Key:
    """The state of a stream: an immutable, hashable 64-bit value. Made by qb.random.key, split and fold_in.

    value: an int, taken modulo 2**64. Raises TypeError for anything else.

    >>> qb.random.Key(255)
    Key(0x00000000000000ff)
    """

    __slots__ = ("_value",)

    def __init__(self, value):
        object.__setattr__(self, "_value", integer("Key", "value", value) & _MASK)

    @property
    def value(self):
        """The 64 bits as an int."""
        return self._value

    def __setattr__(self, name, *value):
        raise AttributeError("a Key is immutable; make another with qb.random.split or fold_in")

    __delattr__ = __setattr__

    def __eq__(self, other):
        return type(other) is Key and self._value == other._value

    def __hash__(self):
        return hash(("quabla.random.Key", self._value))

    def __repr__(self):
        return f"Key(0x{self._value:016x})"

    def __reduce__(self):
        return Key, (self._value,)


def _state(key, who):
    if type(key) is not Key:
        raise TypeError(f"{who}: key is a qb.random.Key, not {type(key).__name__}; make one with qb.random.key(seed)")
    return key.value


def _floating(dtype, who):
    try:
        dtype = _core.dtype(dtype)
    except TypeError as error:
        raise TypeError(f"{who}: {error}") from None
    if dtype is _core.bool_:
        raise TypeError(f"{who}: samples are float32 or float64, not bool")
    return dtype


def _shape(shape, who):
    """shape as a tuple of ints."""
    dims = integers(who, "shape", shape)
    if any(d < 1 for d in dims):
        raise ValueError(f"{who}: shape {shape}: lengths are at least 1; arrays without elements are not supported")
    if product(dims) > 2**53:
        raise MemoryError(f"{who}: {product(dims)} samples do not fit in memory")
    return dims


def key(seed):
    """The key of an integer seed, taken modulo 2**64. Raises TypeError for anything but an int.

    >>> qb.random.key(1)
    Key(0x0000000000000001)
    """
    return Key(integer("key", "seed", seed))


def split(key, num=2):
    """A tuple of `num` new keys, the first outputs of the key's stream. Use each key once.

    Raises TypeError unless num is an int, ValueError for num below 1.

    >>> a, b = qb.random.split(qb.random.key(0))
    >>> a == b
    False
    """
    state = _state(key, "split")
    num = integer("split", "num", num)
    if num < 1:
        raise ValueError(f"split: num must be at least 1, not {num}")
    if num > 1 << 32:
        raise MemoryError(f"split: {num} keys are more than any memory holds")
    return tuple(Key(_core.random_bits(state, i)) for i in range(num))


def fold_in(key, data):
    """A new key from a key and an int, such as a step number, taken modulo 2**64.

    It is the first output of the state key ^ (first output of the state data). Raises TypeError unless data is an int.

    >>> qb.random.fold_in(qb.random.key(0), 1) == qb.random.fold_in(qb.random.key(0), 2)
    False
    """
    state = _state(key, "fold_in")
    return Key(_core.random_bits(state ^ _core.random_bits(integer("fold_in", "data", data) & _MASK, 0), 0))


def uniform(key, shape=(), dtype=_core.float64, minval=0.0, maxval=1.0):
    """Samples of the uniform distribution on [minval, maxval), from the top 53 bits of each output.

    shape: ints; an int is a vector's length.    dtype: float64 or float32; float32 samples are rounded, and stay below maxval.
    Raises ValueError when minval is not below maxval, TypeError for another dtype or a key that is none.

    >>> qb.random.uniform(qb.random.key(0), (2,)).shape
    [2]
    """
    state = _state(key, "uniform")
    lo, hi = number("uniform", "minval", minval), number("uniform", "maxval", maxval)
    if not lo < hi or not math.isfinite(hi - lo):
        raise ValueError(f"uniform: minval {lo} must be below maxval {hi}, both finite")
    dtype = _floating(dtype, "uniform")
    if dtype is _core.float32 and max(-lo, hi) > _FLOAT32_MAX:
        raise ValueError(f"uniform: minval {lo} and maxval {hi} must be within float32, +-3.4e38")
    return _core.random_uniform(state, _shape(shape, "uniform"), dtype, lo, hi)


def _normal(who, key, shape, dtype, stddev):
    return _core.random_normal(_state(key, who), _shape(shape, who), _floating(dtype, who), 0.0, stddev)


def normal(key, shape=(), dtype=_core.float64):
    """Samples of the standard normal distribution: sqrt(-2 ln u) cos(2 pi v) of two uniform ones (Box, Muller 1958).

    shape: ints; an int is a vector's length.    dtype: float64 or float32; float32 samples are the rounded float64 ones.
    Raises TypeError for another dtype or a key that is none, ValueError for a length below 1.

    >>> qb.random.normal(qb.random.key(0), (2, 3)).shape
    [2, 3]
    """
    return _normal("normal", key, shape, dtype, 1.0)


def truncated_normal(key, lower, upper, shape=(), dtype=_core.float64):
    """Standard normal samples that lie in [lower, upper], by the inverse distribution function (Wichura 1988).

    lower, upper: numbers, also infinite ones; far tails keep their precision.    shape, dtype: as in normal.
    Raises ValueError when lower is not below upper.

    >>> x = qb.random.truncated_normal(qb.random.key(0), -2.0, 2.0, (1000,))
    >>> qb.max(qb.abs(x)).item() <= 2.0
    True
    """
    state = _state(key, "truncated_normal")
    lo, hi = number("truncated_normal", "lower", lower), number("truncated_normal", "upper", upper)
    if not lo < hi:
        raise ValueError(f"truncated_normal: lower {lo} must be below upper {hi}")
    shape, dtype = _shape(shape, "truncated_normal"), _floating(dtype, "truncated_normal")
    return _core.random_truncated(state, shape, dtype, lo, hi)


def _items(x, who):
    """x as an array of rows, or the count of items that an int names."""
    if hasattr(x, "__index__") and not isinstance(x, (bool, type)) and not list(getattr(x, "shape", ())):
        x = integer(who, "the number of items", x)
        if x < 1:
            raise ValueError(f"{who}: {x} items; there must be at least one")
        if x > 2**53:
            raise MemoryError(f"{who}: {x} items do not fit in memory")
        return None, x
    if isinstance(x, _core.TraceTensor):
        raise TypeError(f"{who}: sampling is eager; {who} cannot take a tracer")
    x = array_of(f"{who}: items are an int or an array", x)
    if not x.shape:
        raise ValueError(f"{who}: a scalar array has no items; give an array with an axis, or an int")
    return x, x.shape[0]


def permutation(key, x):
    """The items of x along its first axis in random order; for an int n the numbers 0 to n - 1 as float64.

    The same key orders all arrays of the same length alike. Raises ValueError for a scalar array and for an int below 1.

    >>> sorted(qb.random.permutation(qb.random.key(0), 4).tolist())
    [0.0, 1.0, 2.0, 3.0]
    """
    state = _state(key, "permutation")
    rows, n = _items(x, "permutation")
    index = _core.random_indices(state, n, n, False)
    return index if rows is None else _core.random_rows(rows, index)


def _weighted(key, p, n, count, replace):
    """Indices by their probabilities: a place in the running sum, or the first of exponential clocks (Efraimidis, Spirakis 2006)."""
    p = array_of(f"choice: p is an array of {n} probabilities", p)
    if isinstance(p, _core.TraceTensor) or p.dtype is _core.bool_:
        raise TypeError("choice: p holds numbers; sampling is eager and takes no tracer")
    p = _core.astype(p, _core.float64)
    sound = p.shape == [n] and _core.all(_core.logical_and(_core.isfinite(p), _core.greater_equal(p, 0.0))).item()
    if not sound or not _core.max(p).item() > 0:
        raise ValueError(f"choice: p holds {n} probabilities >= 0, one for each item, not all of them 0")
    if not math.isfinite(_core.sum(p).item()):
        p = _core.div(p, _core.max(p))
    if replace:
        edges = list(itertools.accumulate(p.tolist()))
        last = bisect.bisect_left(edges, edges[-1])  # the last item with p > 0
        draws = uniform(key, (count,)).tolist()
        return [min(bisect.bisect_right(edges, u * edges[-1]), last) for u in draws]
    likely = _core.greater(p, 0.0)
    if _core.sum(_core.astype(likely, _core.float64)).item() < count:
        raise ValueError(f"choice: {count} items without replacement, but fewer have p > 0")
    # In our own operations, which round alike on every platform; of equal clocks the first item comes first.
    clocks = _core.div(_core.neg(_core.log1p(_core.neg(uniform(key, (n,))))), p)
    clocks = _core.where(likely, clocks, math.inf).tolist()
    return sorted(range(n), key=clocks.__getitem__)[:count]


def choice(key, a, shape=(), replace=True, p=None):
    """Items drawn from a along its first axis; for an int n from the numbers 0 to n - 1, as float64.

    shape: ints; the result has it in place of the first axis of a.    replace: whether an item can be drawn again.
    p: probabilities of the items, scaled to sum 1; None for equal ones.
    Raises ValueError where there are not enough items to draw without replacement, and for a bad p.

    >>> qb.random.choice(qb.random.key(0), qb.array([5.0, 7.0]), (3,), p=[0.0, 1.0])
    Tensor([7., 7., 7.], dtype=float64)
    """
    state = _state(key, "choice")
    rows, n = _items(a, "choice")
    dims, replace = list(_shape(shape, "choice")), flag("choice", "replace", replace)
    count = product(dims)
    if not replace and count > n:
        raise ValueError(f"choice: {count} items without replacement from {n}")
    if p is None:
        index = _core.random_indices(state, n, count, replace)
    else:
        index = _core.array([float(i) for i in _weighted(key, p, n, count, replace)])
    if rows is None:
        return _core.reshape(index, dims)
    return _core.reshape(_core.random_rows(rows, index), dims + list(rows.shape[1:]))


def bernoulli(key, p=0.5, shape=()):
    """bool samples, True with probability p.

    shape: ints; an int is a vector's length.    Raises ValueError when p is not in [0, 1].

    >>> qb.random.bernoulli(qb.random.key(0), 1.0, (2,))
    Tensor([ True,  True], dtype=bool)
    """
    state, p = _state(key, "bernoulli"), number("bernoulli", "p", p)
    if not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p must be in [0, 1], not {p}")
    return _core.less(_core.random_uniform(state, _shape(shape, "bernoulli"), _core.float64, 0.0, 1.0), p)


def _fans(shape, who):
    """(shape, fan_in, fan_out) of a weight: its last two axes, each times the others."""
    dims = _shape(shape, who)
    if len(dims) < 2:
        raise ValueError(f"{who}: shape {list(dims)} has fewer than two axes; the last two are inputs and outputs")
    field = product(dims[:-2])
    return dims, dims[-2] * field, dims[-1] * field


def glorot_normal(key, shape, dtype=_core.float64):
    """Normal samples of variance 2 / (fan_in + fan_out) (Glorot, Bengio 2010); fans from the last two axes, times the others.

    Raises ValueError for a shape of fewer than two axes.

    >>> qb.random.glorot_normal(qb.random.key(0), (2, 3)).shape
    [2, 3]
    """
    shape, fan_in, fan_out = _fans(shape, "glorot_normal")
    return _normal("glorot_normal", key, shape, dtype, math.sqrt(2.0 / (fan_in + fan_out)))


def glorot_uniform(key, shape, dtype=_core.float64):
    """Uniform samples on +-sqrt(6 / (fan_in + fan_out)) (Glorot, Bengio 2010); fans from the last two axes, times the others.

    Raises ValueError for a shape of fewer than two axes.

    >>> qb.random.glorot_uniform(qb.random.key(0), (2, 3)).shape
    [2, 3]
    """
    shape, fan_in, fan_out = _fans(shape, "glorot_uniform")
    state, limit = _state(key, "glorot_uniform"), math.sqrt(6.0 / (fan_in + fan_out))
    return _core.random_uniform(state, shape, _floating(dtype, "glorot_uniform"), -limit, limit)


def he_normal(key, shape, dtype=_core.float64):
    """Normal samples of variance 2 / fan_in (He and others 2015); fans from the last two axes, times the others.

    Raises ValueError for a shape of fewer than two axes.

    >>> qb.random.he_normal(qb.random.key(0), (2, 3)).shape
    [2, 3]
    """
    shape, fan_in, _ = _fans(shape, "he_normal")
    return _normal("he_normal", key, shape, dtype, math.sqrt(2.0 / fan_in))
