"""Functions that move elements: reshapes, slices and copies of the array they are given, of any dtype.

All are compositions of a few ops (reshape, transpose, slice, concat, gather), so they are differentiable to any order, and in a
compiled program most of them cost nothing.
"""

from . import _core
from ._arguments import axes_of, axis_of, integer, integers, plain, product

_asarray, _concat, _full, _gather, _reshape, _slice, _transpose = (
    _core.asarray,
    _core.concat,
    _core.full,
    _core.gather,
    _core.reshape,
    _core.slice,
    _core.transpose,
)


def _cut(x, axis, start, stop):
    """Elements start..stop-1 along an axis."""
    return x if stop - start == x.shape[axis] else _slice(x, axis, start, stop - start)


# ---- axes ----


def moveaxis(a, source, destination):
    """Axes of a moved to other places, the others in their order.

    a: array of any dtype.    source, destination: an int or as many ints, negative ones from the end.
    Raises ValueError for axes out of range, named twice, or lists of unequal length.

    >>> qb.moveaxis(qb.zeros((2, 3, 4)), 0, -1).shape
    [3, 4, 2]
    """
    a = _asarray(a)
    from_, to = axes_of("moveaxis", source, a.ndim), axes_of("moveaxis", destination, a.ndim)
    if len(from_) != len(to):
        raise ValueError(f"moveaxis: {len(from_)} axes move to {len(to)} places")
    order = [i for i in range(a.ndim) if i not in from_]
    for place, axis in sorted(zip(to, from_)):
        order.insert(place, axis)
    return _transpose(a, order)


def swapaxes(a, axis1, axis2):
    """Two axes of a exchanged.

    a: array of any dtype.    Raises ValueError for an axis out of range.

    >>> qb.swapaxes(qb.zeros((2, 3, 4)), 0, 2).shape
    [4, 3, 2]
    """
    a = _asarray(a)
    i, j = axis_of("swapaxes", axis1, a.ndim), axis_of("swapaxes", axis2, a.ndim)
    order = list(range(a.ndim))
    order[i], order[j] = j, i
    return _transpose(a, order)


def ravel(a):
    """All elements in row-major order, as an array of one axis.

    a: array of any dtype and shape; TypeError for what is no array.

    >>> qb.ravel([[1, 2], [3, 4]])
    Tensor([1., 2., 3., 4.], dtype=float64)
    """
    return _reshape(a, -1)


def expand_dims(x, axis):
    """x with new axes of length 1 at the given places of the result.

    x: array of any dtype.    axis: an int or ints, negative ones from the end of the result's axes.
    Raises ValueError for places out of range or named twice.

    >>> qb.expand_dims([1, 2, 3], 0).shape
    [1, 3]
    """
    x = _asarray(x)
    axes = integers("expand_dims", "axis", axis)
    new = axes_of("expand_dims", axes, x.ndim + len(axes))
    rest = iter(x.shape)
    return _reshape(x, [1 if i in new else next(rest) for i in range(x.ndim + len(new))])


def squeeze(x, axis=None):
    """x without axes of length 1: all of them, or those named.

    x: array of any dtype.    axis: None, an int or ints.    Raises ValueError for an axis that is longer.

    >>> qb.squeeze(qb.zeros((1, 3, 1))).shape
    [3]
    """
    x = _asarray(x)
    shape = x.shape
    if axis is None:
        axes = [i for i in range(x.ndim) if shape[i] == 1]
    else:
        axes = axes_of("squeeze", axis, x.ndim or 1)  # a scalar counts as one element here, as in NumPy
    if not x.ndim:
        return x
    for i in axes:
        if shape[i] != 1:
            raise ValueError(f"squeeze: axis {i} of shape {shape} has length {shape[i]}, not 1")
    return _reshape(x, [n for i, n in enumerate(shape) if i not in axes])


# ---- parts ----


def split(x, indices_or_sections, axis=0):
    """Parts of x along an axis, as a list.

    x: array of any dtype.    indices_or_sections: an int, the number of equal parts, or a list of the positions to cut at, as in
    slices.    Raises ValueError when the parts are not equal, when one would be empty, and for an axis out of range.

    >>> qb.split([1, 2, 3, 4, 5], [2, 3])
    [Tensor([1., 2.], dtype=float64), Tensor([3.], dtype=float64), Tensor([4., 5.], dtype=float64)]
    """
    x = _asarray(x)
    axis = axis_of("split", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(plain(indices_or_sections), (list, tuple, range)):
        cuts = [slice(None, i).indices(n)[1] for i in integers("split", "a position", indices_or_sections)]
        cuts = [0, *cuts, n]
    else:
        parts = integer("split", "the number of parts", indices_or_sections)
        if parts < 1 or n % parts:
            raise ValueError(f"split: axis {axis} of length {n} has no {parts} equal parts")
        cuts = range(0, n + 1, n // parts)
    if any(start >= stop for start, stop in zip(cuts, cuts[1:])):
        raise ValueError(
            f"split: {list(cuts[1:-1])} leaves a part of axis {axis} empty; arrays without elements are not supported"
        )
    return [_cut(x, axis, start, stop) for start, stop in zip(cuts, cuts[1:])]


def flip(m, axis=None):
    """m with the order of elements reversed along axes.

    m: array of any dtype.    axis: None for all axes, an int or ints.    Raises ValueError for an axis out of range.

    >>> qb.flip([[1, 2], [3, 4]], axis=1)
    Tensor([[2., 1.],
            [4., 3.]], dtype=float64)
    """
    m = _asarray(m)
    for i in axes_of("flip", axis, m.ndim):
        n = m.shape[i]
        if n > 1:
            m = _slice(m, i, n - 1, n, -1)
    return m


def roll(a, shift, axis=None):
    """Elements moved on along axes; those that leave at the end come in at the start.

    a: array of any dtype.    shift: an int, or one per axis; negative ones move back.    axis: None for the elements in row-major
    order, an int or ints.    Raises ValueError when shifts and axes do not fit, or an axis is out of range.

    >>> qb.roll([1, 2, 3, 4], 1)
    Tensor([4., 1., 2., 3.], dtype=float64)
    """
    a = _asarray(a)
    if axis is None:
        return _reshape(roll(_reshape(a, -1), sum(integers("roll", "shift", shift)), 0), a.shape)
    shifts, axes = integers("roll", "shift", shift), integers("roll", "axis", axis)
    if len(shifts) != len(axes) and 1 not in (len(shifts), len(axes)):
        raise ValueError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    if not shifts or not axes:
        return a
    count = max(len(shifts), len(axes))
    for s, i in zip(shifts * (count // len(shifts)), axes * (count // len(axes))):
        i = axis_of("roll", i, a.ndim)
        n = a.shape[i]
        s %= n
        if s:
            a = _concat([_slice(a, i, n - s, s), _slice(a, i, 0, n - s)], i)
    return a


def repeat(a, repeats, axis=None):
    """Each element repeated, one after the other.

    a: array of any dtype.    repeats: an int, or a list with one count per element along the axis; 0 leaves an element out.
    axis: an int; None for the elements in row-major order.    Raises ValueError for negative counts, a list of another length, and a
    result without elements.

    >>> qb.repeat([1, 2], 2)
    Tensor([1., 1., 2., 2.], dtype=float64)
    """
    a = _asarray(a)
    if axis is None:
        a, axis = _reshape(a, -1), 0
    if not a.ndim:
        a = _reshape(a, 1)  # a scalar counts as one element, as in NumPy
    axis = axis_of("repeat", axis, a.ndim)
    counts = integers("repeat", "a count", repeats)
    n = a.shape[axis]
    if min(counts, default=-1) < 0 or len(counts) not in (1, n):
        raise ValueError(f"repeat: {repeats} for {n} elements; counts are not negative, one in all or one each")
    if sum(counts) > 1 << 31 and len(counts) > 1:
        raise MemoryError(f"repeat: {sum(counts)} elements along an axis")
    if sum(counts) == 0:
        raise ValueError("repeat: nothing is left; arrays without elements are not supported")
    if len(counts) == 1:
        shape = a.shape
        wide = _core.broadcast_to(
            _reshape(a, [*shape[: axis + 1], 1, *shape[axis + 1 :]]),
            [*shape[: axis + 1], counts[0], *shape[axis + 1 :]],
        )
        return _reshape(wide, [*shape[:axis], n * counts[0], *shape[axis + 1 :]])
    return _gather(a, [i for i, count in enumerate(counts) for _ in range(count)], axis)


def tile(A, reps):
    """A laid side by side.

    A: array of any dtype.    reps: an int or ints, copies along each axis, the last ones first as in broadcasting.
    Raises ValueError for counts below 1.

    >>> qb.tile([1, 2], (2, 2))
    Tensor([[1., 2., 1., 2.],
            [1., 2., 1., 2.]], dtype=float64)
    """
    A = _asarray(A)
    reps = integers("tile", "a count", reps)
    if min(reps, default=1) < 1:
        raise ValueError(f"tile: {reps}; counts are at least 1, arrays without elements are not supported")
    ndim = max(A.ndim, len(reps))
    shape = [1] * (ndim - A.ndim) + A.shape
    reps = [1] * (ndim - len(reps)) + list(reps)
    apart = _reshape(A, [n for length in shape for n in (1, length)])
    wide = _core.broadcast_to(apart, [n for pair in zip(reps, shape) for n in pair])
    return _reshape(wide, [r * n for r, n in zip(reps, shape)])


# ---- pad ----


def _pairs(what, given, ndim, read):
    """One (before, after) per axis from a value, a pair, a list with one pair or with one per axis, or a dict by axis."""
    if isinstance(given, dict):
        pairs = [(0, 0)] * ndim
        for axis, pair in given.items():
            pairs[axis_of("pad", axis, ndim)] = _pairs(what, pair, 1, read)[0]
        return pairs
    given = plain(given)
    if not isinstance(given, (list, tuple)):
        return [(read(given),) * 2] * ndim
    if all(not isinstance(g, (list, tuple)) for g in given):
        if len(given) not in (1, 2):
            raise ValueError(f"pad: {what} {given} is neither a number, a pair, nor one pair per axis")
        return [(read(given[0]), read(given[-1]))] * ndim
    pairs = [tuple(g) if isinstance(g, (list, tuple)) else (g,) for g in given]
    if len(pairs) not in (1, ndim) or any(len(p) not in (1, 2) for p in pairs):
        raise ValueError(f"pad: {what} {given} is not one pair for each of {ndim} axes")
    pairs = [(read(p[0]), read(p[-1])) for p in pairs]
    return pairs * ndim if len(pairs) == 1 else pairs


def _width(value):
    width = integer("pad", "a width", value)
    if width < 0:
        raise ValueError(f"pad: a width is {width}; widths are not negative")
    return width


# One period of the endless repetition that a mode continues x with. The period starts at x's first element.
_PERIODS = {
    "wrap": lambda x, axis, n: x,
    "symmetric": lambda x, axis, n: _concat([x, flip(x, axis)], axis),
    "reflect": lambda x, axis, n: x if n < 3 else _concat([x, _slice(x, axis, n - 2, n - 2, -1)], axis),
}


def _around(x, axis, mode, start, length):
    """`length` elements of the repetition from position `start` on, which may lie outside x."""
    n = x.shape[axis]
    if mode == "edge":
        shape = x.shape
        shape[axis] = length
        return _core.broadcast_to(_slice(x, axis, 0 if start < 0 else n - 1, 1), shape)
    period = _PERIODS[mode](x, axis, n)
    p = period.shape[axis]
    start %= p
    times = -(-(start + length) // p)
    if times > 1:
        period = tile(period, [times if i == axis else 1 for i in range(x.ndim)])
    return _slice(period, axis, start, length)


def _constant(x, value, shape):
    """A part of this shape to be put beside x."""
    if isinstance(value, (_core.Tensor, _core.TensorView, _core.TraceTensor)):
        _, value = _core._operands("pad", False, x, value)
        if value.ndim:
            raise ValueError(f"pad: a constant of shape {value.shape}; constants are scalars")
        return _core.broadcast_to(value, shape)
    if not isinstance(value, (int, float)):
        raise TypeError(f"pad: a constant is a number or a scalar array, not a {type(value).__name__}")
    return _full(shape, value, x.dtype)


def pad(array, pad_width, mode="constant", constant_values=0):
    """array with more elements at the ends of its axes.

    array: array of any dtype.    pad_width: how many: an int, a pair (before, after), or a list of one pair per axis; or a dict from
    axis to pair.    mode: "constant", "edge", "reflect" (about the first and last element), "symmetric" (about the edges), "wrap".
    constant_values: of mode "constant", in the same forms as pad_width.
    Raises ValueError for an unknown mode, negative widths, and forms that do not fit.

    >>> qb.pad([1, 2, 3], 2, mode="reflect")
    Tensor([3., 2., 1., 2., 3., 2., 1.], dtype=float64)
    """
    x = _asarray(array)
    widths = _pairs("pad_width", pad_width, x.ndim, _width)
    if mode not in ("constant", "edge", *_PERIODS):
        raise ValueError(f"pad: no mode {mode!r}; modes are 'constant', 'edge', 'reflect', 'symmetric' and 'wrap'")
    values = _pairs("constant_values", constant_values, x.ndim, lambda v: v)
    for axis, (before, after) in enumerate(widths):
        n = x.shape[axis]
        ends = []
        for start, width, value in zip((-before, n), (before, after), values[axis]):
            if not width:
                continue
            if mode == "constant":
                shape = x.shape
                shape[axis] = width
                ends.append((start, _constant(x, value, shape)))
            else:
                ends.append((start, _around(x, axis, mode, start, width)))
        x = _concat([part for _, part in sorted([*ends, (0, x)], key=lambda end: end[0])], axis)
    return x


# ---- diagonals ----


def _band(who, rows, columns, offset):
    """Row and column where a diagonal starts, and its length."""
    row, column = max(-offset, 0), max(offset, 0)
    length = min(rows - row, columns - column)
    if length < 1:
        raise ValueError(
            f"{who}: a {rows} by {columns} matrix has no diagonal {offset}; arrays without elements are not supported"
        )
    return row, column, length


def diagonal(a, offset=0, axis1=0, axis2=1):
    """Diagonal elements of the matrices along two axes; they become the last axis.

    a: array of any dtype with two axes or more.    offset: above (positive) or below the main diagonal.
    Raises ValueError for axes out of range or equal, and for a diagonal outside the matrix.

    >>> qb.diagonal([[1, 2], [3, 4]])
    Tensor([1., 4.], dtype=float64)
    """
    return _diagonal("diagonal", _asarray(a), offset, axis1, axis2)


def _diagonal(who, a, offset, axis1, axis2):
    i, j = axis_of(who, axis1, a.ndim), axis_of(who, axis2, a.ndim)
    if i == j:
        raise ValueError(f"{who}: axis1 and axis2 are both {i}")
    a = _transpose(a, [k for k in range(a.ndim) if k not in (i, j)] + [i, j])
    *batch, rows, columns = a.shape
    row, column, length = _band(who, rows, columns, integer(who, "offset", offset))
    flat = _reshape(a, [*batch, rows * columns])
    return _slice(flat, len(batch), row * columns + column, length, columns + 1 if length > 1 else 1)


def diag(v, k=0):
    """The square matrix with v on its k-th diagonal; of a matrix, its k-th diagonal.

    v: array of any dtype with one or two axes; else ValueError.

    >>> qb.diag([1, 2])
    Tensor([[1., 0.],
            [0., 2.]], dtype=float64)
    """
    v = _asarray(v)
    k = integer("diag", "k", k)
    if v.ndim == 2:
        return _diagonal("diag", v, k, 0, 1)
    if v.ndim != 1:
        raise ValueError(f"diag: an array of one or two axes is needed, not of shape {v.shape}")
    n = v.shape[0] + abs(k)
    if n >= 1 << 31:
        raise MemoryError(f"diag: an array of shape [{n}, {n}] is larger than any memory")
    row, column, _ = _band("diag", n, n, k)
    return _reshape(_core._pad_slice(v, 0, row * n + column, n * n, n + 1), [n, n])


def trace(a, offset=0, axis1=0, axis2=1):
    """Sum of the diagonal elements of the matrices along two axes.

    a: floating array with two axes or more.    Raises as diagonal does.

    >>> qb.trace([[1, 2], [3, 4]])
    Tensor(5., dtype=float64)
    """
    (a,) = _core._operands("trace", True, a)
    return _core.sum(_diagonal("trace", a, offset, axis1, axis2), -1)


def _triangle(who, x, k, compare):
    x = _asarray(x)
    if x.ndim < 2:
        raise ValueError(f"{who}: an array of two axes or more is needed, not of shape {x.shape}")
    rows, columns = x.shape[-2:]
    row = _core.reshape(_core.arange(rows), [rows, 1]) + float(min(max(integer(who, "k", k), -rows), columns))
    keep = _core.broadcast_to(compare(_core.arange(columns), row), x.shape)
    return _core.where(keep, x, _core.zeros_like(x) if x.dtype is _core.bool_ else 0.0)


def tril(x, k=0):
    """x with zeros above its k-th diagonal; of more axes, in the last two.

    x: array of any dtype with two axes or more; else ValueError.    k: 0 keeps the main diagonal, positive ones more.

    >>> qb.tril([[1, 2], [3, 4]])
    Tensor([[1., 0.],
            [3., 4.]], dtype=float64)
    """
    return _triangle("tril", x, k, _core.less_equal)


def triu(x, k=0):
    """x with zeros below its k-th diagonal; of more axes, in the last two.

    x: array of any dtype with two axes or more; else ValueError.    k: 0 keeps the main diagonal, negative ones more.

    >>> qb.triu([[1, 2], [3, 4]])
    Tensor([[1., 2.],
            [0., 4.]], dtype=float64)
    """
    return _triangle("triu", x, k, _core.greater_equal)


def meshgrid(*xs, indexing="xy"):
    """Coordinate arrays of a grid from the coordinates along its axes, as a list.

    xs: arrays of one axis, or scalars, of any dtype.    indexing: "xy", the second coordinate counts along the first axis; "ij", in order.
    Raises ValueError for more axes and another indexing.

    >>> X, Y = qb.meshgrid([1, 2, 3], [4, 5])
    >>> X
    Tensor([[1., 2., 3.],
            [1., 2., 3.]], dtype=float64)
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    xs = [_asarray(x) for x in xs]
    if any(x.ndim > 1 for x in xs):
        raise ValueError(f"meshgrid: arrays of one axis are needed, not of shapes {[x.shape for x in xs]}")
    place = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        place[:2] = 1, 0
    shape = [1] * len(xs)
    for x, axis in zip(xs, place):
        shape[axis] = product(x.shape)
    return [
        _core.broadcast_to(_reshape(x, [shape[i] if i == axis else 1 for i in range(len(xs))]), shape)
        for x, axis in zip(xs, place)
    ]
