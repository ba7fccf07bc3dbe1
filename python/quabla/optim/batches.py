"""Batches of rows for Trainer.fit."""

from .. import random
from .._arguments import array_of, integer

__all__ = ["minibatches"]


def minibatches(key, size, *arrays):
    """A `sample` for Trainer.fit: batches of `size` rows, every row once per epoch, each epoch in a new random order.

    arrays: with the same length along their first axis. The last batch of an epoch may be smaller.
    The batch is a function of the key and of the number of the draw alone, so a resumed training gets the same ones.
    Raises ValueError when lengths differ or size is out of range.

    >>> draw = qb.optim.minibatches(qb.random.key(0), 2, qb.arange(4.0))
    >>> sorted(draw(0, None)[0].tolist() + draw(1, None)[0].tolist())
    [0.0, 1.0, 2.0, 3.0]
    """
    if type(key) is not random.Key:
        raise TypeError(f"minibatches: key is a qb.random.Key, not a {type(key).__name__}")
    arrays = [array_of("minibatches", a) for a in arrays]
    lengths = {a.shape[0] if a.shape else 0 for a in arrays}
    if len(lengths) != 1 or 0 in lengths:
        raise ValueError(
            f"minibatches: the arrays have shapes {[a.shape for a in arrays]}; they need one length along axis 0"
        )
    n = lengths.pop()
    try:
        rows = integer("minibatches", "size", size)
    except TypeError:
        rows = 0
    if not 1 <= rows <= n:
        raise ValueError(f"minibatches: size must be an int from 1 to {n}, not {size!r}")
    per_epoch = -(-n // rows)
    epoch, shuffled = None, None

    def sample(draw, params):
        nonlocal epoch, shuffled
        if draw // per_epoch != epoch:
            order = random.fold_in(key, draw // per_epoch)
            shuffled = [random.permutation(order, a) for a in arrays]
            epoch = draw // per_epoch
        at = draw % per_epoch * rows
        return tuple(a[at : at + rows] for a in shuffled)

    return sample
