"""Arguments of array functions, read once for all: ints, axes, shapes."""

import operator
import os

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
    return value.tolist() if hasattr(value, "tolist") and not isinstance(value, (*ours, type)) else value


def integers(who, what, value):
    """value, an int or a sequence of ints, as a tuple of ints."""
    value = plain(value)
    if isinstance(value, (list, tuple, range)):
        return tuple(integer(who, what, v) for v in value)
    return (integer(who, what, value),)


def flag(who, what, value):
    """value as a bool; TypeError for an array, which is many."""
    if isinstance(value, int) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"{who}: {what} is True or False, not a {type(value).__name__}")


def function(who, what, value):
    """TypeError unless value can be called or is None."""
    if value is not None and not callable(value):
        raise TypeError(f"{who}: {what} is a function, not a {type(value).__name__}")
    return value


def array_of(what, value):
    """value as an array; the message of an error begins with `what`."""
    try:
        return _core.asarray(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}: {error}") from None
    except OverflowError as error:
        raise ValueError(f"{what}: {error}") from None


def path_of(who, value):
    """A path as a str; TypeError for anything that is none."""
    try:
        return os.fsdecode(value)
    except TypeError:
        raise TypeError(f"{who}: a file is named by a path, not a {type(value).__name__}") from None


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
