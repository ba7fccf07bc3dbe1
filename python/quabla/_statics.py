"""Constructors that are static methods of Tensor, beside the functions of the package and of quabla.random.

Their keys are quabla.random Keys, or ints that are the state of one.
"""

from . import _core, random

__all__ = [
    "arange",
    "eye",
    "fold_in_key",
    "full",
    "glorot_normal",
    "linspace",
    "ones",
    "random_normal",
    "random_uniform",
    "split_key",
    "zeros",
]


def _key(key):
    return key if isinstance(key, random.Key) else random.Key(key)


def _as_given(key, like):
    return key if isinstance(like, random.Key) else key.value


def arange(start, stop, step=1.0):
    """start, start + step, ... below stop, as float64: quabla.arange."""
    return _core.arange(start, stop, step)


def eye(rows, cols=None):
    """Ones on the diagonal of a rows by cols float64 matrix: quabla.eye."""
    return _core.eye(rows, cols)


def full(shape, value):
    """A float64 array with one value: quabla.full."""
    return _core.full(shape, value)


def linspace(start, stop, num):
    """num equally spaced float64 values from start to stop: quabla.linspace."""
    return _core.linspace(start, stop, num)


def ones(shape):
    """A float64 array of ones: quabla.ones."""
    return _core.ones(shape)


def zeros(shape):
    """A float64 array of zeros: quabla.zeros."""
    return _core.zeros(shape)


def split_key(key, count):
    """`count` keys from one, of the kind given: quabla.random.split."""
    return [_as_given(k, key) for k in random.split(_key(key), count)]


def fold_in_key(key, data):
    """A key from a key and an int, of the kind given: quabla.random.fold_in."""
    return _as_given(random.fold_in(_key(key), data), key)


def glorot_normal(shape, key):
    """Normal float64 samples with variance 2 / (fan_in + fan_out): quabla.random.glorot_normal."""
    return random.glorot_normal(_key(key), shape)


def random_normal(shape, key, mean=0.0, stddev=1.0):
    """Normal float64 samples: quabla.random.normal, scaled and moved."""
    return random.normal(_key(key), shape) * stddev + mean


def random_uniform(shape, key, minval=0.0, maxval=1.0, dtype=None):
    """Uniform samples in [minval, maxval): quabla.random.uniform."""
    return random.uniform(_key(key), shape, _core.float64 if dtype is None else dtype, minval, maxval)
