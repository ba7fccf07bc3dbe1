"""First-order optimizers: pure functions of (params, grads, state), written once and used eager, in jit and in a Trainer's plan."""

import math

from .. import _core as qb
from .._core import tree

__all__ = ["Adam", "AdamW", "SGD", "clip_by_global_norm"]

_TINY = 2.2250738585072014e-308  # smallest normal float64


def _flush(x):
    """Zero for subnormal moments: they change no parameter, and arithmetic on them is 60 times slower."""
    return qb.where(qb.less(qb.abs(x), _TINY), 0.0, x)


def _check_rate(rate, who):
    if callable(rate):
        return rate
    if isinstance(rate, bool) or not isinstance(rate, (int, float)):
        raise TypeError(f"{who}: learning_rate is a number or a function of the step, not {type(rate).__name__}")
    if not rate > 0 or not math.isfinite(rate):
        raise ValueError(f"{who}: learning_rate must be positive and finite, not {rate!r}")
    return float(rate)


def _check_beta(value, name, who):
    if not 0 <= value < 1:
        raise ValueError(f"{who}: {name} must be in [0, 1), not {value!r}")
    return float(value)


def _check_clip(value, who):
    if value is not None and not (value > 0 and math.isfinite(value)):
        raise ValueError(f"{who}: clip_norm must be positive and finite, not {value!r}")
    return value


def _path(path):
    return "/".join(str(p) for p in path) or "the parameters"


def _check_trees(params, grads, who):
    a, b = tree.structure(params), tree.structure(grads)
    if a != b:
        raise ValueError(f"{who}: params and grads differ in structure: {a} and {b}")
    for (path, p), g in zip(tree.flatten_with_path(params)[0], tree.leaves(grads)):
        if not hasattr(p, "dtype"):
            raise TypeError(f"{who}: {_path(path)} is a {type(p).__name__}; parameters are floating arrays")
        if list(p.shape) != list(getattr(g, "shape", ())):
            raise ValueError(f"{who}: {_path(path)} has shape {list(p.shape)}, its gradient {list(g.shape)}")


def clip_by_global_norm(grads, max_norm):
    """Gradients scaled so that their joint Euclidean norm is at most max_norm, and the norm before.

    grads: tree of floating arrays.    Returns (grads, norm); the norm is float64. Scaled by the largest |g|, so it neither
    overflows nor underflows. A norm that is not finite makes every gradient NaN.
    Raises ValueError when max_norm is not positive and finite.

    >>> grads, norm = qb.optim.clip_by_global_norm([qb.array([3.0]), qb.array([4.0])], 1.0)
    >>> norm.item()
    5.0
    """
    if not max_norm > 0 or not math.isfinite(max_norm):
        raise ValueError(f"clip_by_global_norm: max_norm must be positive and finite, not {max_norm!r}")
    leaves = [qb.astype(g, qb.float64) for g in tree.leaves(grads)]
    if not leaves:
        return grads, qb.array(0.0)
    top = None
    for g in leaves:
        m = qb.max(qb.abs(g))
        top = m if top is None else qb.where(qb.greater(top, m), top, m)
    usable = qb.logical_and(qb.greater(top, 0.0), qb.less(top, math.inf))
    unit = qb.where(usable, top, 1.0)
    total = None
    for g in leaves:
        s = qb.sum(qb.powi(qb.div(g, unit), 2))
        total = s if total is None else qb.add(total, s)
    norm = qb.mul(unit, qb.sqrt(total))
    scale = qb.where(qb.greater(norm, max_norm), qb.div(max_norm, norm), 1.0)
    scale = qb.where(qb.less(norm, math.inf), scale, math.nan)
    return tree.map(lambda g: qb.astype(qb.mul(qb.astype(g, qb.float64), scale), g.dtype), grads), norm


class _Optimizer:
    """Learning rate, clipping and the jitted update that every optimizer here shares."""

    def __init__(self, learning_rate, clip_norm):
        self.learning_rate = _check_rate(learning_rate, type(self).__name__)
        self.clip_norm = _check_clip(clip_norm, type(self).__name__)
        self._compiled = qb.jit(self._update)

    def _rate(self, step):
        return self.learning_rate(step) if callable(self.learning_rate) else self.learning_rate

    def _clipped(self, grads):
        return grads if self.clip_norm is None else clip_by_global_norm(grads, self.clip_norm)[0]

    def _check_used_rate(self, state):
        """A schedule's value is checked when it is used; only possible outside a trace."""
        if not callable(self.learning_rate) or state is None or isinstance(state["step"], qb.TraceTensor):
            return
        rate = float(self.learning_rate(state["step"]))
        if rate < 0 or not math.isfinite(rate):
            raise ValueError(f"{type(self).__name__}: the schedule gives {rate} at step {int(float(state['step']))}")

    def update(self, params, grads, state):
        """One step: (params, state) after the gradients `grads` at `params`.

        params, grads: trees of the same structure and shapes.    state: from init or the last update.
        Nothing is changed in place. Raises ValueError where structures or shapes differ, naming the path, and when a schedule gives
        a negative or non-finite rate.
        """
        _check_trees(params, grads, type(self).__name__)
        self._check_used_rate(state)
        return self._compiled(params, grads, state)


class Adam(_Optimizer):
    """Adam (Kingma, Ba 2015) with bias correction.

    learning_rate: a number > 0, or a function of the number of completed updates.    b1, b2: decay of the moments.
    eps: added to the root of the second moment.    clip_norm: largest joint norm of the gradients, None for no clipping.
    The state is {'m', 'v', 'step'}; moments are float64 for every parameter dtype. beta1, beta2, epsilon are other names of b1, b2, eps.

    >>> adam = qb.optim.Adam(0.1)
    >>> params = {"w": qb.array(1.0)}
    >>> params, state = adam.update(params, {"w": qb.array(2.0)}, adam.init(params))
    >>> round(params["w"].item(), 6)
    0.9
    """

    def __init__(
        self,
        learning_rate=1e-3,
        b1=0.9,
        b2=0.999,
        eps=1e-8,
        *,
        beta1=None,
        beta2=None,
        epsilon=None,
        clip_norm=None,
    ):
        who = type(self).__name__
        self.b1 = _check_beta(b1 if beta1 is None else beta1, "b1", who)
        self.b2 = _check_beta(b2 if beta2 is None else beta2, "b2", who)
        self.eps = eps if epsilon is None else epsilon
        if not self.eps > 0 or not math.isfinite(self.eps):
            raise ValueError(f"{who}: eps must be positive and finite, not {self.eps!r}")
        self._state = None
        super().__init__(learning_rate, clip_norm)

    def init(self, params):
        """Zero moments for params and step 0."""

        def zeros(p):
            return qb.zeros(p.shape, dtype=qb.float64)

        return {"m": tree.map(zeros, params), "v": tree.map(zeros, params), "step": qb.array(0.0)}

    def _decay(self, p, rate):
        return p

    def _update(self, params, grads, state):
        # Kingma and Ba, end of section 2: both bias corrections go into the rate and eps, one division a parameter.
        step = qb.add(state["step"], 1.0)
        fix1 = qb.sub(1.0, qb.pow(self.b1, step))
        fix2 = qb.sqrt(qb.sub(1.0, qb.pow(self.b2, step)))
        rate = self._rate(state["step"])
        size, eps = qb.div(qb.mul(fix2, rate), fix1), qb.mul(fix2, self.eps)
        grads = tree.map(lambda g: qb.astype(g, qb.float64), self._clipped(grads))
        m = tree.map(lambda m, g: _flush(qb.add(qb.mul(m, self.b1), qb.mul(g, 1 - self.b1))), state["m"], grads)
        v = tree.map(
            lambda v, g: _flush(qb.add(qb.mul(v, self.b2), qb.mul(qb.mul(g, g), 1 - self.b2))), state["v"], grads
        )

        def moved(p, m, v):
            wide = qb.astype(p, qb.float64)
            change = qb.div(qb.mul(m, size), qb.add(qb.sqrt(v), eps))
            return qb.astype(qb.sub(self._decay(wide, rate), change), p.dtype)

        return tree.map(moved, params, m, v), {"m": m, "v": v, "step": step}

    def step(self, params, grads):
        """Parameters after one step; the state is kept inside. A changed structure starts afresh."""
        if self._state is None or tree.structure(self._state["m"]) != tree.structure(params):
            self._state = self.init(params)
        params, self._state = self.update(params, grads, self._state)
        return params


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov, Hutter 2019): each step also takes rate * weight_decay * p off p.

    Raises ValueError when weight_decay is negative or not finite.

    >>> qb.optim.AdamW(0.1, weight_decay=0.01).weight_decay
    0.01
    """

    def __init__(self, learning_rate=1e-3, b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-4, *, clip_norm=None):
        if not weight_decay >= 0 or not math.isfinite(weight_decay):
            raise ValueError(f"AdamW: weight_decay must be >= 0 and finite, not {weight_decay!r}")
        self.weight_decay = weight_decay
        super().__init__(learning_rate, b1, b2, eps, clip_norm=clip_norm)

    def _decay(self, p, rate):
        return qb.sub(p, qb.mul(p, qb.mul(self.weight_decay, rate)))


class SGD(_Optimizer):
    """Gradient descent: p - rate * g. The state is None, or {'step': n} when the rate is a function of the step.

    >>> params, _ = qb.optim.SGD(0.5).update([qb.array(1.0)], [qb.array(2.0)], None)
    >>> params[0].item()
    0.0
    """

    def __init__(self, learning_rate=1e-2, *, clip_norm=None):
        super().__init__(learning_rate, clip_norm)

    def init(self, params):
        """None, or step 0 with a schedule."""
        return {"step": qb.array(0.0)} if callable(self.learning_rate) else None

    def _update(self, params, grads, state):
        rate = self._rate(None if state is None else state["step"])

        def moved(p, g):
            wide = qb.sub(qb.astype(p, qb.float64), qb.mul(qb.astype(g, qb.float64), rate))
            return qb.astype(wide, p.dtype)

        params = tree.map(moved, params, self._clipped(grads))
        return params, None if state is None else {"step": qb.add(state["step"], 1.0)}
