"""A Trainer's state as a tree that qb.save takes, and back, with the names of what does not fit."""

from .._core import tree

__all__ = ["pack", "unpack"]


def _names(x):
    return [("/".join(str(p) for p in path) or "the array", leaf) for path, leaf in tree.flatten_with_path(x)[0]]


def pack(x):
    """The leaves of any tree, with the names of their places: [[name, array], ...]."""
    return [[name, leaf] for name, leaf in _names(x)]


def unpack(packed, like, what, shapes=True):
    """The tree of the structure of `like` with the packed leaves. ValueError names the first leaf that does not fit.

    shapes: whether shapes must agree, beside dtypes.
    """
    names = _names(like)
    saved = dict((name, leaf) for name, leaf in packed)
    for name, leaf in names:
        if name not in saved:
            raise ValueError(f"resume: {what} '{name}' is not in the checkpoint; it is of another model or optimizer")
        found = saved[name]
        if (shapes and found.shape != leaf.shape) or found.dtype is not leaf.dtype:
            raise ValueError(
                f"resume: {what} '{name}' is {leaf.dtype}{leaf.shape} here and {found.dtype}{found.shape} in the checkpoint"
            )
    if len(saved) > len(names):
        extra = next(name for name in saved if name not in dict(names))
        raise ValueError(f"resume: the checkpoint has {what} '{extra}', which is not here")
    return tree.unflatten(tree.structure(like), [saved[name] for name, _ in names])
