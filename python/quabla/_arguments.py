"""Arguments of array functions, read once for all: ints, axes, shapes."""

import os

from . import _core

# f(who, what, value): value as an int or a bool; TypeError for anything that is none, arrays included. A bool is no int.
integer, flag = _core._integer, _core._flag


def number(who, what, value):
    """value as a float: a number of Python or NumPy, or an array without axes; TypeError for bools and for what is no number."""
    kind, other = str(getattr(value, "dtype", "")), isinstance(value, (bool, type, _core.TraceTensor))
    if other or "bool" in kind or "complex" in kind or not hasattr(value, "__float__"):
        raise TypeError(f"{who}: {what} is a number, not {type(value).__name__}")
    shape = list(getattr(value, "shape", ()))
    if shape:
        raise ValueError(f"{who}: {what} is one number, not an array of shape {shape}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"{who}: {what} {value} is larger than any float64") from None


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
