"""Carries of loops: their leaves, the types of these, and messages about them.

A leaf is an array or a number; its type is (dtype, shape, is it a number).

NUMBERS. A carry that starts as a number may come back as an array; it is then an array of that dtype from the start, so eager and
traced loops round alike. The types of a carry are known only when the body has run: where they turn out to be others than
assumed, the body runs again with these.
"""

from . import _core
from ._core import Tensor, TraceTensor, tree

_ARRAYS = (Tensor, TraceTensor)


def _flat(value, what):
    leaves, structure = tree.flatten(value)
    types = []
    for i, leaf in enumerate(leaves):
        kind = _core._leaf_type(leaf)
        if kind is None:
            raise TypeError(f"{what}{_where(value, i)} is {_a(leaf)}, not an array or a number")
        types.append(kind)
    return leaves, structure, types


def _where(value, i):
    path = tree.flatten_with_path(value)[0][i][0]
    return f": '{'/'.join(map(str, path))}'" if path else ""


def _a(x):
    name = type(x).__name__
    return f"an {name}" if name[0] in "aeiouAEIOU" else f"a {name}"


def _text(kind):
    dtype, shape, _ = kind
    return f"{dtype.name}[{','.join(map(str, shape))}]"


def _alike(a, b):
    """Same shape, and dtypes that a number of either may adopt."""
    return a[1] == b[1] and (a[0] is b[0] or (a[0] is not _core.bool_ and b[0] is not _core.bool_ and (a[2] or b[2])))


def _same_structure(who, first, a, second, b):
    """a and b are values whose trees must be equal; first and second say what they are."""
    (left, s), (right, t) = tree.flatten_with_path(a), tree.flatten_with_path(b)
    if s == t:
        return
    left, right = [path for path, _ in left], [path for path, _ in right]
    only = [(p, first) for p in left if p and p not in right] + [(p, second) for p in right if p and p not in left]
    leaf = f"; '{'/'.join(map(str, only[0][0]))}' is only in {only[0][1]}" if only else ""
    raise TypeError(f"{who}: {first} has the structure {s}, but {second} has {t}{leaf}")


def _as(leaf, kind):
    """A leaf as an array of this dtype, or the number that it is where a number will do."""
    have = _core._leaf_type(leaf)
    if have[0] is kind[0] and (isinstance(leaf, _ARRAYS) or (have[2] and kind[2])):
        return leaf
    return _core.astype(_core.asarray(leaf), kind[0])


def _settled(types, kinds):
    """Types of a carry after its body: where one side is a number and the other an array, the array's."""
    out = []
    for a, b in zip(types, kinds, strict=True):
        dtype = b[0] if a[2] and not b[2] else a[0]
        out.append((dtype, a[1], a[2] and b[2]))
    return out


def _all_as(leaves, types):
    return [_as(x, t) for x, t in zip(leaves, types, strict=True)]


def _next(who, init, types, structure, result):
    """The leaves of a body's new carry, which must be like the old one, and the types of carries as far as known after it."""
    leaves, new, kinds = _flat(result, f"{who}: the carry that the body returns")
    if new != structure:
        _same_structure(who, "the carry", init, "the one that the body returns", result)
    if kinds == types:
        return leaves, types
    for i, (a, b) in enumerate(zip(types, kinds, strict=True)):
        if not _alike(a, b):
            raise TypeError(
                f"{who}: the carry{_where(init, i)} is {_text(a)}, but the body returns {_text(b)}; it keeps its shape and dtype"
            )
    types = _settled(types, kinds)
    return _all_as(leaves, types), types


def _rounds_alike(a, b):
    return a is b or all(s[0] is t[0] for s, t in zip(a, b, strict=True))


def _settle(trace, types):
    """The body traced with the types that it gives back; trace(types) returns the body and those."""
    while True:
        body, after = trace(types)
        if after == types:
            return body, types
        types = after
