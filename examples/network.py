"""The network of the examples: tanh layers from a point to one number."""

import quabla as qb


def init(key, sizes):
    """Weights and biases for layers of these sizes: [(w, b), ...]."""
    keys = qb.random.split(key, len(sizes) - 1)
    return [(qb.random.glorot_normal(k, (m, n)), qb.zeros((n,))) for k, m, n in zip(keys, sizes, sizes[1:])]


def value(p, *point):
    """The network at one point, given by its coordinates."""
    h = qb.stack(list(point)).reshape([1, len(point)])
    for w, b in p[:-1]:
        h = qb.tanh(h @ w + b)
    w, b = p[-1]
    return qb.sum(h @ w + b)
