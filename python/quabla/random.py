"""Random numbers from explicit keys: the same key gives the same numbers on every platform.

A key is the state of a SplitMix64 stream (Steele, Lea, Flood 2014). Sampling is eager: a sample inside a traced function is a
constant of the trace.
"""

import math

from . import _core

__all__ = [
    "Key",
    "bernoulli",
    "fold_in",
    "glorot_normal",
    "glorot_uniform",
    "he_normal",
    "key",
    "normal",
    "split",
    "uniform",
]

_MASK = 2**64 - 1


class Key:
    """The state of a stream: an immutable, hashable 64-bit value. Made by qb.random.key, split and fold_in."""

    __slots__ = ("_value",)

    def __init__(self, value):
        object.__setattr__(self, "_value", _integer(value, "Key") & _MASK)

    @property
    def value(self):
        """The 64 bits as an int."""
        return self._value

    def __setattr__(self, name, value):
        raise AttributeError("a Key is immutable; make another with qb.random.split or fold_in")

    def __eq__(self, other):
        return type(other) is Key and self._value == other._value

    def __hash__(self):
        return hash(("quabla.random.Key", self._value))

    def __repr__(self):
        return f"Key(0x{self._value:016x})"

    def __reduce__(self):
        return Key, (self._value,)


def _integer(value, who):
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{who}: a seed is an int, not {type(value).__name__}")
    return value.__index__()


def _state(key, who):
    if type(key) is not Key:
        raise TypeError(f"{who}: key is a qb.random.Key, not {type(key).__name__}; make one with qb.random.key(seed)")
    return key.value


def _number(value, name, who):
    if isinstance(value, _core.TraceTensor) or not isinstance(value, (int, float, _core.Tensor)):
        raise TypeError(f"{who}: {name} is a number, not {type(value).__name__}")
    return float(value)


def _floating(dtype, who):
    dtype = _core.dtype(dtype)
    if dtype is _core.bool_:
        raise TypeError(f"{who}: samples are float32 or float64, not bool")
    return dtype


def key(seed):
    """The key of an integer seed, taken modulo 2**64. Raises TypeError for anything but an int.

    >>> qb.random.key(1)
    Key(0x0000000000000001)
    """
    return Key(_integer(seed, "key"))


def split(key, num=2):
    """A tuple of `num` new keys, the first outputs of the key's stream. Use each key once.

    >>> a, b = qb.random.split(qb.random.key(0))
    >>> a == b
    False
    """
    state = _state(key, "split")
    if isinstance(num, bool) or not isinstance(num, int):
        raise TypeError(f"split: num is an int, not {type(num).__name__}")
    if num < 1:
        raise ValueError(f"split: num must be at least 1, not {num}")
    return tuple(Key(_core.random_bits(state, i)) for i in range(num))


def fold_in(key, data):
    """A new key from a key and an int, such as a step number.

    >>> qb.random.fold_in(qb.random.key(0), 1) == qb.random.fold_in(qb.random.key(0), 2)
    False
    """
    state = _state(key, "fold_in")
    return Key(_core.random_bits(state ^ _core.random_bits(_integer(data, "fold_in") & _MASK, 0), 0))


def uniform(key, shape=(), dtype=_core.float64, minval=0.0, maxval=1.0):
    """Samples of the uniform distribution on [minval, maxval), from the top 53 bits of each output.

    shape: ints; an int is a vector's length.    float32 samples are rounded, and stay below maxval.
    Raises ValueError when minval is not below maxval.

    >>> qb.random.uniform(qb.random.key(0), (2,)).shape
    [2]
    """
    state = _state(key, "uniform")
    lo, hi = _number(minval, "minval", "uniform"), _number(maxval, "maxval", "uniform")
    if not lo < hi or not math.isfinite(hi - lo):
        raise ValueError(f"uniform: minval {lo} must be below maxval {hi}, both finite")
    return _core.random_uniform(state, shape, _floating(dtype, "uniform"), lo, hi)


def normal(key, shape=(), dtype=_core.float64):
    """Samples of the standard normal distribution (Box, Muller 1958).

    >>> qb.random.normal(qb.random.key(0), (2, 3)).shape
    [2, 3]
    """
    return _core.random_normal(_state(key, "normal"), shape, _floating(dtype, "normal"), 0.0, 1.0)


def bernoulli(key, p=0.5, shape=()):
    """bool samples, True with probability p.

    Raises ValueError when p is not in [0, 1].

    >>> qb.random.bernoulli(qb.random.key(0), 1.0, (2,))
    Tensor([ True,  True], dtype=bool)
    """
    p = _number(p, "p", "bernoulli")
    if not 0 <= p <= 1:
        raise ValueError(f"bernoulli: p must be in [0, 1], not {p}")
    return _core.less(uniform(key, shape), p)


def _fans(shape, who):
    dims = list(shape) if hasattr(shape, "__iter__") else [shape]
    if len(dims) < 2:
        raise ValueError(f"{who}: shape {dims} has fewer than two axes; the last two are inputs and outputs")
    field = math.prod(dims[:-2])
    return dims[-2] * field, dims[-1] * field


def glorot_normal(key, shape, dtype=_core.float64):
    """Normal samples of variance 2 / (fan_in + fan_out) (Glorot, Bengio 2010); fans from the last two axes, times the others.

    >>> qb.random.glorot_normal(qb.random.key(0), (2, 3)).shape
    [2, 3]
    """
    fan_in, fan_out = _fans(shape, "glorot_normal")
    stddev = math.sqrt(2.0 / (fan_in + fan_out))
    return _core.random_normal(_state(key, "glorot_normal"), shape, _floating(dtype, "glorot_normal"), 0.0, stddev)


def glorot_uniform(key, shape, dtype=_core.float64):
    """Uniform samples on +-sqrt(6 / (fan_in + fan_out)) (Glorot, Bengio 2010); fans from the last two axes, times the others.

    >>> qb.random.glorot_uniform(qb.random.key(0), (2, 3)).shape
    [2, 3]
    """
    fan_in, fan_out = _fans(shape, "glorot_uniform")
    return uniform(key, shape, dtype, -math.sqrt(6.0 / (fan_in + fan_out)), math.sqrt(6.0 / (fan_in + fan_out)))


def he_normal(key, shape, dtype=_core.float64):
    """Normal samples of variance 2 / fan_in (He and others 2015).

    >>> qb.random.he_normal(qb.random.key(0), (2, 3)).shape
    [2, 3]
    """
    fan_in, _ = _fans(shape, "he_normal")
    stddev = math.sqrt(2.0 / fan_in)
    return _core.random_normal(_state(key, "he_normal"), shape, _floating(dtype, "he_normal"), 0.0, stddev)
