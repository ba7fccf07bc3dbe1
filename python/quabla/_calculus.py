"""Differences, integrals, polynomials and interpolation of samples."""

from . import _core
from ._arguments import axis_of, integer

_operands, _slice = _core._operands, _core.slice
_AT_ONCE = 1 << 16  # pairs of a point and a knot that are looked at together: eager arrays of them stay in the cache


def diff(a, n=1, axis=-1, prepend=None, append=None):
    """The n-th difference along an axis: a[1:] - a[:-1], n times.

    a: floating array.    n: an int >= 0.    prepend, append: values put before and after along the axis first; a scalar stands for
    one element.    Returns an array with n elements fewer along the axis.
    Raises ValueError for a negative n, an axis out of range, and when nothing would be left.

    >>> qb.diff([1, 4, 9, 16])
    Tensor([3., 5., 7.], dtype=float64)
    """
    given = [end for end in (prepend, append) if end is not None]
    a, *ends = _operands("diff", True, a, *given)
    axis, n = axis_of("diff", axis, a.ndim), integer("diff", "n", n)
    if n < 0:
        raise ValueError(f"diff: n is {n}; it is not negative")
    if ends:
        ends = [_end(end, a.shape, axis) for end in ends]
        a = _core.concat([a, *ends] if prepend is None else [ends[0], a, *ends[1:]], axis)
    length = a.shape[axis]
    if n >= length:
        raise ValueError(
            f"diff: {length} elements along axis {axis} have no difference {n}; arrays without elements are not supported"
        )
    for _ in range(n):
        length -= 1
        a = _slice(a, axis, 1, length) - _slice(a, axis, 0, length)
    return a


def _end(end, shape, axis):
    """What is put before or after an array of this shape: a scalar is one element everywhere."""
    one = [1 if i == axis else n for i, n in enumerate(shape)]
    if end.ndim and [1 if i == axis else n for i, n in enumerate(end.shape)] != one:
        raise ValueError(f"diff: {end.shape} elements do not continue shape {shape} along axis {axis}")
    return end if end.ndim else _core.broadcast_to(end, one)


def trapezoid(y, x=None, dx=1.0, axis=-1):
    """Integral of samples along an axis by the trapezoidal rule.

    y: floating array of samples.    x: sample points, as many as y has along the axis, or of y's shape; None for equal steps of dx.
    Returns y's dtype with the axis removed. Exact for piecewise linear functions, the error is O(h^2) otherwise.
    Raises ValueError when x and y do not fit and for fewer than two samples. Differentiable in y, x and dx.

    >>> qb.trapezoid([1.0, 2.0, 3.0])
    Tensor(4., dtype=float64)
    """
    y, d = _operands("trapezoid", True, y, dx if x is None else x)
    axis = axis_of("trapezoid", axis, y.ndim)
    length = y.shape[axis] - 1
    if length < 1:
        raise ValueError("trapezoid: one sample has no integral; at least two are needed")
    if x is not None:
        x = d
        if x.ndim == 1:
            if x.shape[0] != length + 1:
                raise ValueError(f"trapezoid: {x.shape[0]} points for {length + 1} samples")
            d = _core.reshape(diff(x), [length if i == axis else 1 for i in range(y.ndim)])
        elif x.ndim < y.ndim - axis or x.shape[axis - y.ndim] != length + 1:
            raise ValueError(f"trapezoid: points of shape {x.shape} for samples of shape {y.shape} along axis {axis}")
        else:
            d = diff(x, 1, axis - y.ndim)
    return _core.sum(d * (_slice(y, axis, 1, length) + _slice(y, axis, 0, length)) * 0.5, axis)


def polyval(p, x):
    """The polynomial with coefficients p, the highest power first, at x: Horner's rule from p[0].

    p: floating array of one axis.    x: floating array of any shape.    Differentiable in both.
    Raises ValueError when p has not one axis.

    >>> qb.polyval([1, 0, -1], [2, 3])
    Tensor([3., 8.], dtype=float64)
    """
    p, x = _operands("polyval", True, p, x)
    if p.ndim != 1:
        raise ValueError(f"polyval: coefficients have one axis, not shape {p.shape}")
    coefficients = [p[i] for i in range(p.shape[0])]
    y = _core.broadcast_to(coefficients[0], x.shape)
    for c in coefficients[1:]:
        y = y * x + c
    return y


def interp(x, xp, fp, left=None, right=None):
    """Piecewise linear interpolation between knots.

    x: floating array of any shape.    xp, fp: coordinates and values of the knots, of one axis; xp strictly increases.
    left, right: values before the first and after the last knot; None for those of these knots.
    Exact at knots, also beside infinite and NaN values. Differentiable in x, xp and fp; at a knot the slope in x is that on its right. One knot gives a constant.
    The work is proportional to the number of points times the number of knots.
    Raises ValueError when xp and fp do not fit or xp does not increase (where its values are known).

    >>> qb.interp([0.5, 1.5, 9.0], [0, 1, 2], [0, 10, 40])
    Tensor([ 5., 25., 40.], dtype=float64)
    """
    x, xp, fp = _operands("interp", True, x, xp, fp)
    if xp.ndim != 1 or fp.ndim != 1 or xp.shape != fp.shape:
        raise ValueError(f"interp: xp and fp have one axis and equal lengths, not shapes {xp.shape} and {fp.shape}")
    n = xp.shape[0]
    if isinstance(xp, _core.Tensor) and n > 1 and not (diff(xp) > 0).all():
        raise ValueError("interp: xp must increase strictly")
    first, last, low, high = xp[0], xp[n - 1], fp[0], fp[n - 1]
    low = low if left is None else left
    y = _core.broadcast_to(high, x.shape)
    if n > 1:
        x0, x1, f0, f1 = _around(x, xp, fp)
        inside = (x >= first) & (x < last)
        slope = (f1 - f0) / _core.where(inside, x1 - x0, 1.0)
        # An infinite or NaN value beyond the next knot leaves this one exact; between knots one infinite value prevails.
        slope = _core.where(_core.equal(x, x0) & ~_core.isfinite(slope), 0.0, slope)
        infinite = _core.isinf(f0) & (_core.isfinite(f1) | _core.equal(f0, f1))
        y = _core.where(inside, _core.where(infinite, f0, slope * (x - x0) + f0), y)
    y = _core.where(x < first, low, y)
    if right is not None:
        y = _core.where(x > last, right, y)
    return _core.where(_core.isnan(x), x, y)


def _around(x, xp, fp):
    """xp and fp at the knots before and after each x, zeros where there are none."""
    few = max(_AT_ONCE // xp.shape[0], 1)
    if x.size > few and all(isinstance(v, _core.Tensor) for v in (x, xp, fp)):
        flat = _core.reshape(x, -1)
        parts = [_around(flat[i : i + few], xp, fp) for i in range(0, x.size, few)]
        return [_core.reshape(_core.concat(part, 0), x.shape) for part in zip(*parts)]
    # Element [..., i] says whether x lies between knots i and i + 1; a sum over i picks the values there, for one of it is true.
    at = _core.reshape(x, [*x.shape, 1])
    here = (at >= xp[:-1]) & (at < xp[1:])
    return [_core.sum(_core.where(here, v, 0.0), -1) for v in (xp[:-1], xp[1:], fp[:-1], fp[1:])]
