"""Arguments of array functions, read once for all: ints, axes, shapes."""

import operator

from . import _core


def integer(who, what, value):
    """value as an int; TypeError for anything that is none, bools included."""
    if isinstance(value, (bool, _core.Tensor, _core.TraceTensor)):
        raise TypeError(f"{who}: {what} is a Python int, not a {type(value).__name__}")
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"{who}: {what} is a Python int, not a {type(value).__name__}") from None


def plain(value):
    """value, with an array of another library as lists."""
    ours = (_core.Tensor, _core.TensorView, _core.TraceTensor)
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, ours) else value


def integers(who, what, value):
    """value, an int or a sequence of ints, as a tuple of ints."""
    value = plain(value)
    if isinstance(value, (list, tuple, range)):
        return tuple(integer(who, what, v) for v in value)
    return (integer(who, what, value),)


def axis_of(who, axis, ndim):
    """axis in 0..ndim-1 from one that may be negative; ValueError when there is none."""
    axis = integer(who, "axis", axis)
    if not -ndim <= axis < ndim:
        has = "the array is a scalar" if ndim == 0 else f"axes go from {-ndim} to {ndim - 1}"
        raise ValueError(f"{who}: axis {axis} is out of range; {has}")
    return axis % ndim


def axes_of(who, axes, ndim):
    """Distinct axes in 0..ndim-1 as a tuple, in the order given; None is all of them."""
    if axes is None:
        return tuple(range(ndim))
    out = tuple(axis_of(who, a, ndim) for a in integers(who, "axis", axes))
    if len(set(out)) != len(out):
        raise ValueError(f"{who}: an axis is named twice in {axes}")
    return out


def product(lengths):
    """Product of ints."""
    size = 1
    for n in lengths:
        size *= n
    return size
