"""Gradient descent and its relatives: SGD with momentum, RMSprop, Lion."""

from .. import _core as qb
from .._arguments import flag
from .._core import tree
from .base import Optimizer, check_not_negative, flush, moments

__all__ = ["SGD", "Lion", "RMSprop"]


class SGD(Optimizer):
    """Gradient descent: p - rate * g, or with momentum p - rate * t with the running sum t = momentum * t + g.

    learning_rate: a number > 0, or a function of the number of completed updates.    momentum: in [0, 1).
    nesterov: step along g + momentum * t instead (Nesterov 1983; Sutskever and others 2013).    clip_norm: as in Adam.
    The state is None without momentum and schedule; else it holds 'trace' (float64) and 'step', whichever is used.
    Raises ValueError for settings out of range, and for nesterov without momentum.

    >>> params, _ = qb.optim.SGD(0.5).update([qb.array(1.0)], [qb.array(2.0)], None)
    >>> params[0].item()
    0.0
    """

    def __init__(self, learning_rate=1e-2, *, momentum=0.0, nesterov=False, clip_norm=None):
        self.momentum = momentum
        self.nesterov = flag("SGD", "nesterov", nesterov)
        if self.nesterov and not self.momentum:
            raise ValueError("SGD: nesterov needs a momentum")
        super().__init__(learning_rate, clip_norm)

    def _start(self, params):
        state = {"trace": moments(params)} if self.momentum else {}
        if callable(self.learning_rate):
            state["step"] = qb.array(0.0)
        return state or None

    def _change(self, grads, state, rate):
        new = dict(state) if state else None
        if self.momentum:
            new["trace"] = tree.map(lambda t, g: flush(qb.add(qb.mul(t, self.momentum), g)), state["trace"], grads)
            ahead = (lambda t, g: qb.add(g, qb.mul(t, self.momentum))) if self.nesterov else (lambda t, g: t)
            grads = tree.map(ahead, new["trace"], grads)
        if new and "step" in new:
            new["step"] = qb.add(state["step"], 1.0)
        return tree.map(lambda g: qb.mul(g, rate), grads), new


class RMSprop(Optimizer):
    """RMSprop (Tieleman, Hinton 2012): rate * g / sqrt(v + eps), v a running mean of g squared.

    decay: of the mean, in [0, 1).    eps: added under the root.    learning_rate, clip_norm: as in Adam.
    The state is {'v', 'step'}, v in float64. Raises ValueError for settings out of range.

    >>> rms = qb.optim.RMSprop(0.1)
    >>> params, state = rms.update([qb.array(1.0)], [qb.array(2.0)], rms.init([qb.array(1.0)]))
    >>> round(params[0].item(), 4)
    0.6838
    """

    _checks = {**Optimizer._checks, "eps": check_not_negative}

    def __init__(self, learning_rate=1e-3, decay=0.9, eps=1e-8, *, clip_norm=None):
        self.decay, self.eps = decay, eps
        super().__init__(learning_rate, clip_norm)

    def _start(self, params):
        return {"v": moments(params), "step": qb.array(0.0)}

    def _change(self, grads, state, rate):
        def mean(v, g):
            return flush(qb.add(qb.mul(v, self.decay), qb.mul(qb.mul(g, g), 1 - self.decay)))

        v = tree.map(mean, state["v"], grads)
        change = tree.map(lambda g, v: qb.mul(qb.div(g, qb.sqrt(qb.add(v, self.eps))), rate), grads, v)
        return change, {"v": v, "step": qb.add(state["step"], 1.0)}


class Lion(Optimizer):
    """Lion (Chen and others 2023): steps of size rate along the sign of a running mean of the gradient.

    b1: weight of the mean in the sign; b2: decay of the mean.    weight_decay: decoupled, as in AdamW.
    The state is {'m', 'step'}, m in float64. Rates are some ten times smaller than Adam's. Raises ValueError for settings out of range.

    >>> lion = qb.optim.Lion(0.1)
    >>> params, state = lion.update([qb.array(1.0)], [qb.array(2.0)], lion.init([qb.array(1.0)]))
    >>> params[0].item()
    0.9
    """

    def __init__(self, learning_rate=1e-4, b1=0.9, b2=0.99, weight_decay=0.0, *, clip_norm=None):
        self.b1, self.b2, self.weight_decay = b1, b2, weight_decay
        super().__init__(learning_rate, clip_norm)

    def _start(self, params):
        return {"m": moments(params), "step": qb.array(0.0)}

    def _change(self, grads, state, rate):
        def mix(m, g, b):
            return qb.add(qb.mul(m, b), qb.mul(g, 1 - b))

        m = tree.map(lambda m, g: flush(mix(m, g, self.b2)), state["m"], grads)
        change = tree.map(lambda m, g: qb.mul(qb.sign(mix(m, g, self.b1)), rate), state["m"], grads)
        return change, {"m": m, "step": qb.add(state["step"], 1.0)}
