"""A Trainer's state as a tree that qb.save takes, and back, with the names of what does not fit."""

from .. import _core as qb
from .._core import tree

__all__ = ["check_packed", "pack", "unpack"]


def _names(x):
    return [("/".join(str(p) for p in path) or "the array", leaf) for path, leaf in tree.flatten_with_path(x)[0]]


def pack(x):
    """The leaves of any tree, with the names of their places: [[name, array], ...]."""
    return [[name, leaf] for name, leaf in _names(x)]


def check_packed(packed, what):
    """ValueError unless this is what pack gives."""
    if not isinstance(packed, list) or any(
        not isinstance(e, list) or len(e) != 2 or not isinstance(e[0], str) or not isinstance(e[1], qb.Tensor)
        for e in packed
    ):
        raise ValueError(f"resume: {what} of the checkpoint is malformed")


def unpack(packed, like, what, shapes=True):
    """The tree of the structure of `like` with the packed leaves. ValueError names the first leaf that does not fit.

    shapes: whether shapes must agree, beside dtypes.
    """
    check_packed(packed, what)
    names, saved = [name for name, _ in _names(like)], [name for name, _ in packed]
    if saved != names:
        missing = next((name for name in names if name not in saved), None)
        if missing is not None:
            raise ValueError(
                f"resume: {what} '{missing}' is not in the checkpoint; it is of another model or optimizer"
            )
        extra = next((name for name in saved if name not in names), saved[0])
        raise ValueError(f"resume: the checkpoint has {what} '{extra}', which is not here")
    for (name, found), (_, leaf) in zip(packed, _names(like)):
        if (shapes and found.shape != leaf.shape) or found.dtype is not leaf.dtype:
            raise ValueError(
                f"resume: {what} '{name}' is {leaf.dtype}{leaf.shape} here and {found.dtype}{found.shape} in the checkpoint"
            )
    return tree.unflatten(tree.structure(like), [leaf for _, leaf in packed])
