"""Products of arrays: all are the matrix product (or an elementwise one) of views, so each element is one sum in the fixed order."""

from . import _core
from ._arguments import axes_of, axis_of, integer, plain, product
from ._shape import diagonal

_matmul, _operands, _reshape, _transpose = _core.matmul, _core._operands, _core.reshape, _core.transpose


def dot(a, b):
    """Product of vectors, matrices or scalars, as NumPy's dot.

    a, b: floating arrays. Two vectors: the inner product. Otherwise the sum over the last axis of a and the last but one of b (the
    only one of a vector); the axes of a come before those of b. A scalar multiplies. float32 is float64 inside, rounded once.
    Raises ValueError when the lengths differ.

    >>> qb.dot([1, 2, 3], [4, 5, 6])
    Tensor(32., dtype=float64)
    """
    a, b = _operands("dot", True, a, b)
    if a.ndim == 0 or b.ndim == 0:
        return a * b
    if a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise ValueError(f"dot: shapes {a.shape} and {b.shape}: the last axis of a and the last but one of b differ")
    if b.ndim <= 2:
        return _matmul(a, b)
    return tensordot(a, b, ([a.ndim - 1], [b.ndim - 2]))


def outer(a, b):
    """Products of every element of a with every element of b.

    a, b: floating arrays of any shape, read in row-major order. Returns shape [a.size, b.size].
    Raises ValueError for bool and for float32 with float64.

    >>> qb.outer([1, 2], [3, 4])
    Tensor([[3., 4.],
            [6., 8.]], dtype=float64)
    """
    a, b = _operands("outer", True, a, b)
    return _reshape(a, [-1, 1]) * _reshape(b, [1, -1])


def tensordot(a, b, axes=2):
    """Sum of products over several axes of a and b.

    a, b: floating arrays.    axes: an int, the number of last axes of a and first axes of b; or a pair (axes of a, axes of b), each
    an int or ints. The other axes of a, then those of b, remain.
    Raises ValueError when the axes are out of range or their lengths differ.

    >>> qb.tensordot([[1, 2], [3, 4]], [[1, 0], [0, 1]])
    Tensor(5., dtype=float64)
    """
    a, b = _operands("tensordot", True, a, b)
    axes = plain(axes)
    if isinstance(axes, (list, tuple)):
        if len(axes) != 2:
            raise ValueError(f"tensordot: axes {axes} is neither an int nor a pair")
        left, right = axes_of("tensordot", axes[0], a.ndim), axes_of("tensordot", axes[1], b.ndim)
    else:
        n = integer("tensordot", "axes", axes)
        if not 0 <= n <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: {n} axes of shapes {a.shape} and {b.shape}")
        left, right = tuple(range(a.ndim - n, a.ndim)), tuple(range(n))
    if [a.shape[i] for i in left] != [b.shape[i] for i in right]:
        raise ValueError(f"tensordot: axes {left} of shape {a.shape} and {right} of shape {b.shape} differ in length")
    rows = [i for i in range(a.ndim) if i not in left]
    columns = [i for i in range(b.ndim) if i not in right]
    shape = [a.shape[i] for i in rows] + [b.shape[i] for i in columns]
    inner = product(a.shape[i] for i in left)
    x = _reshape(_transpose(a, [*rows, *left]), [-1, inner])
    y = _reshape(_transpose(b, [*right, *columns]), [inner, -1])
    return _reshape(_matmul(x, y) if left else x * y, shape)


def kron(a, b):
    """Kronecker product: b scaled by each element of a, in blocks.

    a, b: floating arrays; the one with fewer axes gets leading ones.
    Raises ValueError for bool and for float32 with float64.

    >>> qb.kron([1, 2], [1, 10])
    Tensor([ 1., 10.,  2., 20.], dtype=float64)
    """
    a, b = _operands("kron", True, a, b)
    ndim = max(a.ndim, b.ndim)
    p, q = [1] * (ndim - a.ndim) + a.shape, [1] * (ndim - b.ndim) + b.shape
    left = _reshape(a, [n for length in p for n in (length, 1)])
    right = _reshape(b, [n for length in q for n in (1, length)])
    return _reshape(left * right, [m * n for m, n in zip(p, q)])


def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """Cross product of vectors of 3 (or 2) components along an axis.

    a, b: floating arrays whose other axes broadcast.    axisa, axisb: axes of the components; axisc: where the components of the
    result go; axis: all three. With two components each the result has the third component only, and no such axis.
    Raises ValueError for other lengths.

    >>> qb.cross([1, 0, 0], [0, 1, 0])
    Tensor([0., 0., 1.], dtype=float64)
    """
    a, b = _operands("cross", True, a, b)
    if axis is not None:
        axisa = axisb = axisc = axis
    i, j = axis_of("cross", axisa, a.ndim), axis_of("cross", axisb, b.ndim)
    if a.shape[i] not in (2, 3) or b.shape[j] not in (2, 3):
        raise ValueError(f"cross: {a.shape[i]} and {b.shape[j]} components; vectors have 2 or 3")
    x, y = _components(a, i), _components(b, j)
    last = _difference(_times(x[0], y[1]), _times(x[1], y[0]))
    if len(x) == len(y) == 2:
        return last
    x, y = x + [None] * (3 - len(x)), y + [None] * (3 - len(y))
    parts = [
        _difference(_times(x[1], y[2]), _times(x[2], y[1])),
        _difference(_times(x[2], y[0]), _times(x[0], y[2])),
        last,
    ]
    return _core.stack(parts, axis_of("cross", axisc, last.ndim + 1))


def _components(v, axis):
    shape = v.shape[:axis] + v.shape[axis + 1 :]
    return [_reshape(_core.slice(v, axis, k, 1), shape) for k in range(v.shape[axis])]


def _times(x, y):
    """x y, where None is a component that is zero."""
    return None if x is None or y is None else x * y


def _difference(x, y):
    return -y if x is None else x if y is None else x - y


# ---- einsum ----


def einsum(equation, *arrays, operands=(), optimize=True):
    """Sums of products of arrays, by an equation in Einstein's notation, as NumPy's einsum.

    equation: a letter per axis of each operand, "ij,jk->ik". A letter missing on the right is summed over; without "->" those that
    occur once remain, in alphabetical order. A letter twice in one operand is its diagonal; "..." stands for further axes, which broadcast.
    arrays, operands: floating arrays, one by one or in one list.    optimize: NumPy's parameter, without effect: more than two
    operands are always contracted pair by pair, the pair with the smallest result first.
    NumPy's other form is einsum(a, [0, 1], b, [1, 2], [0, 2]): every array is followed by the list of its axes, ints from 0 to 51 or
    one `...`, and what remains may stand at the end.
    Raises ValueError for an equation that does not fit the operands.

    >>> qb.einsum("ij,j->i", [[1, 2], [3, 4]], [1, 10])
    Tensor([21., 43.], dtype=float64)
    """
    if arrays and not isinstance(equation, str):
        equation, arrays = _spell(equation, *arrays)
    if not isinstance(equation, str):
        raise TypeError(f"einsum: the equation is a str, not a {type(equation).__name__}")
    terms, output = _read(equation)
    arrays = (*arrays, *operands)
    listed = len(arrays) == 1 and isinstance(arrays[0], (list, tuple)) and len(arrays[0]) == len(terms)
    if listed and (len(terms) > 1 or hasattr(arrays[0][0], "shape")):  # else the list is the one operand itself
        arrays = arrays[0]
    if len(arrays) != len(terms):
        raise ValueError(f"einsum: {equation!r} has {len(terms)} operands, {len(arrays)} are given")
    arrays = _operands("einsum", False, *arrays)
    terms, output = _name_ellipses(equation, terms, output, arrays)
    sizes = _sizes(equation, terms, arrays)
    for letter in output:
        if letter not in sizes:
            raise ValueError(f"einsum: {equation!r}: {letter!r} is on the right alone")
    if len(set(output)) != len(output):
        raise ValueError(f"einsum: {equation!r}: a letter is twice on the right")
    if len(arrays) > 1 or set(sizes) != set(output):
        arrays = _operands("einsum", True, *arrays)  # sums of products are of numbers
    parts = [_take_diagonals(t, x) for t, x in zip(terms, arrays)]
    while True:
        parts = [_drop(parts, i, output) for i in range(len(parts))]
        if len(parts) == 1:
            break
        i, j = _cheapest(parts, output, sizes)
        rest = [p for k, p in enumerate(parts) if k not in (i, j)]
        parts = [*rest, _contract(parts[i], parts[j], set(output).union(*(t for t, _ in rest)))]
    term, x = parts[0]
    return _transpose(x, [term.index(c) for c in output])


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"  # in the order in which what remains is sorted


def _spell(*parts):
    """The equation, as text, and the arrays of the form array, axes, array, axes, ..., and perhaps the axes that remain."""
    terms = ["".join(map(_letter, _axes(axes))) for axes in parts[1::2]]
    equation = ",".join(terms)
    if len(parts) % 2:
        equation += "->" + "".join(map(_letter, _axes(parts[-1])))
    return equation, parts[: 2 * len(terms) : 2]


def _axes(axes):
    axes = plain(axes)
    if isinstance(axes, (list, tuple, range)):
        return axes
    raise TypeError(
        f"einsum: an equation, or arrays each with a list of its axes; here is a {type(axes).__name__} for such a list"
    )


def _letter(axis):
    if axis is Ellipsis:
        return "..."
    n = integer("einsum", "an axis", axis)
    if not 0 <= n < len(_LETTERS):
        raise ValueError(f"einsum: axis {n}; axes are ints from 0 to {len(_LETTERS) - 1}, or `...`")
    return _LETTERS[n]


def _read(equation):
    """Terms on the left, and the right side or None."""
    text = equation.replace(" ", "").replace("...", "\0")
    left, arrow, right = text.partition("->")
    for c in left.replace(",", "") + right:
        if not (c == "\0" or (c.isascii() and c.isalpha())):
            raise ValueError(f"einsum: {equation!r}: {'.' if c == chr(0) else c!r} is no letter, comma, '->' or '...'")
    terms = left.split(",")
    if any(t.count("\0") > 1 for t in [*terms, right]):
        raise ValueError(f"einsum: {equation!r}: '...' twice in one term")
    return terms, right if arrow else None


def _name_ellipses(equation, terms, output, arrays):
    """Axes under "..." get names of their own, numbers from the last one on; a term is then a list of names."""
    named, most = [], 0
    for t, x in zip(terms, arrays):
        more = x.ndim - len(t.replace("\0", ""))
        if more < 0 or (more and "\0" not in t):
            raise ValueError(
                f"einsum: {equation!r}: the term {t.replace(chr(0), '...')!r} does not fit shape {x.shape}"
            )
        most = max(most, more)
        named.append(_expand(t, more))
    if output is not None:
        return named, _expand(output, most if "\0" in output else 0)
    once = sorted(c for c in set("".join(terms)) - {"\0"} if sum(t.count(c) for t in terms) == 1)
    return named, [*range(most - 1, -1, -1), *once]


def _expand(term, more):
    names = []
    for c in term:
        names += range(more - 1, -1, -1) if c == "\0" else [c]
    return names


def _sizes(equation, terms, arrays):
    """The length of every name; axes of length 1 broadcast."""
    sizes = {}
    for t, x in zip(terms, arrays):
        for c, n in zip(t, x.shape):
            known = sizes.setdefault(c, n)
            if known == 1:
                sizes[c] = n
            elif n not in (1, known):
                name = "'...'" if isinstance(c, int) else repr(c)
                raise ValueError(f"einsum: {equation!r}: {name} has length {known} and {n}")
    return sizes


def _take_diagonals(term, x):
    """Repeated names become one, by diagonals."""
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            i = term.index(c)
            j = term.index(c, i + 1)
            if x.shape[i] != x.shape[j]:
                raise ValueError(f"einsum: {c!r} has lengths {x.shape[i]} and {x.shape[j]} in one operand")
            x = diagonal(x, 0, i, j)
            term = [d for k, d in enumerate(term) if k not in (i, j)] + [c]
    return term, x


def _drop(parts, i, output):
    """Part i, summed over the names that nobody else has."""
    term, x = parts[i]
    others = set(output).union(*(t for k, (t, _) in enumerate(parts) if k != i))
    gone = [k for k, c in enumerate(term) if c not in others]
    if not gone:
        return term, x
    return [c for c in term if c in others], _core.sum(x, gone)


def _cheapest(parts, output, sizes):
    """The two parts whose product has fewest elements; the first such pair."""
    best = None
    for i in range(len(parts)):
        for j in range(i + 1, len(parts)):
            rest = set(output).union(*(t for k, (t, _) in enumerate(parts) if k not in (i, j)))
            size = product(sizes[c] for c in set(parts[i][0]) | set(parts[j][0]) if c in rest)
            if best is None or size < best[0]:
                best = size, i, j
    return best[1:]


def _contract(left, right, needed):
    """The product of two parts, summed over the names that are not needed."""
    (s, x), (t, y) = left, right
    both = [c for c in s if c in t]
    # A length of 1 that broadcasts is no axis of a matrix product: the sum over it comes from the other side.
    for c in both:
        if x.shape[s.index(c)] != y.shape[t.index(c)]:
            return _multiply(s, x, t, y, needed)
    inner = [c for c in both if c not in needed]
    if not inner:
        return _multiply(s, x, t, y, needed)
    batch = [c for c in both if c in needed]
    rows, columns = [c for c in s if c not in both], [c for c in t if c not in both]
    shape = [_length(x, s, c) for c in batch]
    k = product(_length(x, s, c) for c in inner)
    a = _reshape(_transpose(x, [s.index(c) for c in batch + rows + inner]), [*shape, -1, k])
    b = _reshape(_transpose(y, [t.index(c) for c in batch + inner + columns]), [*shape, k, -1])
    z = _reshape(_matmul(a, b), [*shape, *(_length(x, s, c) for c in rows), *(_length(y, t, c) for c in columns)])
    return batch + rows + columns, z


def _length(x, term, c):
    """The length of the axis of x that is called c."""
    return x.shape[term.index(c)]


def _multiply(s, x, t, y, needed):
    names = s + [c for c in t if c not in s]
    z = _spread(s, x, names) * _spread(t, y, names)
    gone = [k for k, c in enumerate(names) if c not in needed]
    return [c for c in names if c in needed], _core.sum(z, gone) if gone else z


def _spread(term, x, names):
    """x with its axes in the order of names, length 1 where it has none."""
    order = [term.index(c) for c in names if c in term]
    shape = [x.shape[term.index(c)] if c in term else 1 for c in names]
    return _reshape(_transpose(x, order), shape)
