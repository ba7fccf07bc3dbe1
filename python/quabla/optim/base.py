"""What the first-order optimizers share: settings, clipping, and the one compiled update.

An optimizer is a pure function of (params, grads, state), written once in graph ops, so the same code runs eager, inside jit and as
part of a Trainer's plan.
"""

import math

from .. import _core as qb
from .._arguments import number
from .._core import tree

__all__ = [
    "Optimizer",
    "Settings",
    "check_floating",
    "check_fraction",
    "check_not_negative",
    "check_positive",
    "clip_by_global_norm",
    "flush",
    "moments",
]

_TINY = 2.2250738585072014e-308  # smallest normal float64


def flush(x):
    """Zero for subnormal moments: they change no parameter, and arithmetic on them is 60 times slower."""
    return qb.where(qb.less(qb.abs(x), _TINY), 0.0, x)


def moments(params):
    """A float64 zero array for every parameter."""
    return tree.map(lambda p: qb.zeros(p.shape, dtype=qb.float64), params)


def _where(x, i):
    """The path of leaf i."""
    return "/".join(str(p) for p in tree.flatten_with_path(x)[0][i][0]) or "the tree"


def check_floating(x, what, who):
    """TypeError that names the leaf unless every leaf of x, whose leaves are called `what`, is a floating array or tracer."""
    for i, leaf in enumerate(tree.leaves(x)):
        if not isinstance(leaf, (qb.Tensor, qb.TraceTensor)):
            raise TypeError(f"{who}: {_where(x, i)} is a {type(leaf).__name__}; {what} are floating arrays")
        if leaf.dtype is qb.bool_:
            raise TypeError(f"{who}: {_where(x, i)} is a bool array; {what} are floating arrays")


def check_positive(value, name, who):
    """value as a float; ValueError unless it is finite and above 0."""
    value = number(who, name, value)
    if not value > 0 or not math.isfinite(value):
        raise ValueError(f"{who}: {name} must be positive and finite, not {value!r}")
    return value


def check_not_negative(value, name, who):
    """value as a float; ValueError unless it is finite and at least 0."""
    value = number(who, name, value)
    if not value >= 0 or not math.isfinite(value):
        raise ValueError(f"{who}: {name} must be >= 0 and finite, not {value!r}")
    return value


def check_fraction(value, name, who):
    """value as a float; ValueError unless it is in [0, 1)."""
    value = number(who, name, value)
    if not 0 <= value < 1:
        raise ValueError(f"{who}: {name} must be in [0, 1), not {value!r}")
    return value


def _check_rate(rate, name, who):
    """A function of the step, or a positive number."""
    return rate if callable(rate) else check_positive(rate, name, who)


def _check_clip(norm, name, who):
    """None, or a positive number."""
    return None if norm is None else check_positive(norm, name, who)


def _check_trees(params, grads, who):
    a, b = tree.structure(params), tree.structure(grads)
    if a != b:
        raise ValueError(f"{who}: params and grads differ in structure: {a} and {b}")
    check_floating(params, "parameters", who)
    check_floating(grads, "gradients", who)
    for i, (p, g) in enumerate(zip(tree.leaves(params), tree.leaves(grads))):
        if p.shape != g.shape:
            raise ValueError(f"{who}: {_where(params, i)} has shape {p.shape}, its gradient {g.shape}")


def _check_state(state, fresh, who):
    """ValueError that names what the state of an optimizer lacks, beside one that init just gave."""
    a, b = tree.structure(state), tree.structure(fresh)
    if a != b:
        raise ValueError(
            f"{who}: the state has the structure {a}, that of these parameters is {b}; start with init(params)"
        )
    check_floating(state, "the arrays of a state", who)
    for i, (x, y) in enumerate(zip(tree.leaves(state), tree.leaves(fresh))):
        if x.shape != y.shape:
            raise ValueError(f"{who}: the state's {_where(state, i)} has shape {x.shape}, its parameter {y.shape}")


def clip_by_global_norm(grads, max_norm):
    """Gradients scaled so that their joint Euclidean norm is at most max_norm (Pascanu and others 2013), and the norm before.

    grads: tree of floating arrays.    Returns (grads, norm); the norm is float64. Scaled by the largest |g|, so it neither
    overflows nor underflows. A norm that is not finite makes every gradient NaN.
    Raises ValueError when max_norm is not positive and finite.

    >>> grads, norm = qb.optim.clip_by_global_norm([qb.array([3.0]), qb.array([4.0])], 1.0)
    >>> norm.item()
    5.0
    """
    max_norm = check_positive(max_norm, "max_norm", "clip_by_global_norm")
    check_floating(grads, "gradients", "clip_by_global_norm")
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


class Settings:
    """Attributes that are checked whenever they are set: _checks has a function (value, name, who) -> value for each."""

    _checks = {}

    def __setattr__(self, name, value):
        if name in self._checks:
            value = self._checks[name](value, name, type(self).__name__)
        object.__setattr__(self, name, value)


class Optimizer(Settings):
    """Learning rate, clipping, decay and the jitted update that every optimizer here shares.

    A class gives _start(params) -> state and _change(grads, state, rate) -> (what to take off the parameters, state), on float64 trees.
    Its settings are attributes, which may be set at any time.
    """

    weight_decay = 0.0  # decoupled: rate * weight_decay * p is taken off as well
    _checks = {
        "learning_rate": _check_rate,
        "clip_norm": _check_clip,
        "eps": check_positive,
        "weight_decay": check_not_negative,
        **dict.fromkeys(("b1", "b2", "decay", "momentum"), check_fraction),
    }

    def __init__(self, learning_rate, clip_norm):
        self.learning_rate, self.clip_norm = learning_rate, clip_norm

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if not name.startswith("_"):
            self.__dict__.pop("_plan", None)  # compiled with the settings before

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k != "_plan"}

    @property
    def plan(self):
        """The compiled update, another one after a setting has changed."""
        if "_plan" not in vars(self):
            self._plan = qb.jit(self.traced_update)
        return self._plan

    def init(self, params):
        """The state before the first update of these parameters. Raises TypeError, with the path, where one is no floating array."""
        check_floating(params, "parameters", type(self).__name__)
        return self._start(params)

    def rate(self, state):
        """The learning rate of the next update, a number or a scalar array."""
        if not callable(self.learning_rate):
            return self.learning_rate
        rate = self.learning_rate(state["step"])
        if hasattr(rate, "__float__") and not list(getattr(rate, "shape", ())):
            return rate if isinstance(rate, qb.TraceTensor) else float(rate)
        kind = f"has shape {list(rate.shape)}" if hasattr(rate, "shape") else f"is a {type(rate).__name__}"
        raise TypeError(f"{type(self).__name__}: what the schedule returns {kind}; a learning rate is one number")

    def looks_at_step(self):
        """Whether the schedule needs the step itself, as one with an `if` on it does, and cannot be traced."""
        if not callable(self.learning_rate):
            return False
        try:
            qb.jit(lambda step: self.rate({"step": step}))(qb.array(0.0))
        except qb.TracerError:
            return True
        return False

    def rate_now(self, state):
        """What a schedule gives for the step of an eager state, which it may look at; None: nothing to ask yet."""
        step = state.get("step") if callable(self.learning_rate) and isinstance(state, dict) else None
        if not isinstance(step, (int, float, qb.Tensor)) or list(getattr(step, "shape", ())):
            return None
        rate = self.rate({"step": qb.asarray(step)})
        if isinstance(rate, qb.TraceTensor):
            return rate
        self.check_rate(rate, int(float(step)))
        return qb.array(rate)

    def traced_update(self, params, grads, state, rate=None):
        """update as graph ops, with the rate that it used as third result: (params, state, rate). None: the rate of the step."""
        if self.clip_norm is not None:
            grads = clip_by_global_norm(grads, self.clip_norm)[0]
        grads = tree.map(lambda g: qb.astype(g, qb.float64), grads)
        if rate is None:
            rate = self.rate(state)
        change, new = self._change(grads, state, rate)
        decay = self.weight_decay

        def move(p, d):
            wide = qb.astype(p, qb.float64)
            if decay:
                wide = qb.sub(wide, qb.mul(wide, qb.mul(decay, rate)))
            return qb.astype(qb.sub(wide, d), p.dtype)

        return tree.map(move, params, change), new, rate

    def check_rate(self, rate, step):
        """ValueError when a schedule gave a rate that is negative or not finite."""
        if rate < 0 or not math.isfinite(rate):
            raise ValueError(f"{type(self).__name__}: the schedule gives {rate} at step {step}")

    def update(self, params, grads, state):
        """One step: (params, state) after the gradients `grads` at `params`.

        params, grads: trees of the same structure and shapes.    state: from init or the last update.
        Nothing is changed in place. Raises ValueError where structures or shapes differ, naming the path, and when a schedule gives
        a negative or non-finite rate.
        """
        _check_trees(params, grads, type(self).__name__)
        rate = self.rate_now(state)
        try:
            return self.plan(params, grads, state, rate)[:2]
        except (KeyError, TypeError, ValueError):
            _check_state(state, self.init(params), type(self).__name__)
            raise
