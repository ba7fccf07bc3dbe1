"""LBFGS: limited-memory BFGS with a strong Wolfe line search, for losses that give the same value every time."""

import math
import weakref

from .. import _core as qb
from .._arguments import function, integer
from .._core import tree
from .base import Settings, check_not_negative
from .descent import params_of, programs, reason_of

__all__ = ["LBFGS"]

_NO_GOAL = qb.array(math.inf)
_PROGRAMS = weakref.WeakKeyDictionary()  # function -> {settings: its programs}


class Info(dict):
    """What a run came to, by key or by attribute: iterations, evaluations, loss, grad_norm, converged, reason."""

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(f"info has no '{name}'; it has {', '.join(self)}")


def _info(state, reason=None):
    reason = reason or reason_of(state)
    return Info(
        iterations=int(state["iterations"].item()),
        evaluations=int(state["evaluations"].item()),
        loss=state["now"]["f"].item(),
        grad_norm=state["now"]["grad_norm"].item(),
        converged=reason in ("gradient_tolerance", "change_tolerance"),
        reason=reason,
    )


def _positive_int(value, name, who):
    value = integer(who, name, value)
    if value < 1:
        raise ValueError(f"{who}: {name} must be at least 1, not {value}")
    return value


def check_params(params, who):
    """TypeError, with the path of the leaf, unless every leaf is a float32 or float64 Tensor; ValueError without leaves."""
    if not tree.leaves(params):
        raise ValueError(f"{who}: there are no parameters")
    for path, leaf in tree.flatten_with_path(params)[0]:
        where = "params" + "".join(f"[{p!r}]" for p in path)
        if isinstance(leaf, qb.TraceTensor):
            raise TypeError(f"{who}: {where} is a tracer; {who} runs outside traced functions")
        if not isinstance(leaf, qb.Tensor) or leaf.dtype is qb.bool_:
            kind = f"a {leaf.dtype} array" if isinstance(leaf, qb.Tensor) else f"a {type(leaf).__name__}"
            raise TypeError(f"{who}: {where} is {kind}; parameters are float32 or float64 Tensors")


def _limit(value, name, who):
    return None if value is None else _positive_int(value, name, who)


def _strong_wolfe(value, name, who):
    if not isinstance(value, str) or value != "strong_wolfe":
        raise ValueError(f"{who}: {name} {value!r}; there is 'strong_wolfe'")
    return value


class LBFGS(Settings):
    """L-BFGS (Nocedal 1980; Liu, Nocedal 1989): curvature from the last `history` steps, steps by a strong Wolfe line search.

    history: pairs kept.    max_iterations, max_evaluations: limits; None is no limit on evaluations.
    tolerance_grad: ends the run when the largest |gradient| is at most this.
    tolerance_change: ends the run when a step changes the loss by at most this times its size.
    line_search: "strong_wolfe", the only one.
    A search (c1 = 1e-4, c2 = 0.9, at most 25 values) that fails goes on once from steepest descent.
    Raises ValueError for values out of range.

    >>> params, info = qb.optim.LBFGS(max_iterations=50).minimize(lambda x: qb.sum((x - 2.0) ** 4), qb.zeros((3,)))
    >>> info.converged, info.grad_norm <= 1e-7
    (True, True)
    """

    _checks = {
        "history": _positive_int,
        "max_iterations": _positive_int,
        "max_evaluations": _limit,
        "tolerance_grad": check_not_negative,
        "tolerance_change": check_not_negative,
        "line_search": _strong_wolfe,
    }

    def __init__(
        self,
        history=10,
        max_iterations=500,
        max_evaluations=None,
        tolerance_grad=1e-7,
        tolerance_change=1e-9,
        line_search="strong_wolfe",
    ):
        self.history, self.max_iterations, self.max_evaluations = history, max_iterations, max_evaluations
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.line_search = line_search

    def minimize(self, fun, params, *args, callback=None):
        """(params, info) of a local minimum of fun(params, *args) near params.

        fun: returns a floating scalar; it is compiled with its gradient, once.    params: tree of floating Tensors.
        callback: called after each iteration with (params, info); a true result ends the run with reason "callback".
        info: iterations, evaluations, loss, grad_norm (largest |gradient|), converged, and reason, one of gradient_tolerance,
        change_tolerance, max_iterations, max_evaluations, line_search_failed. The loss is never above that at params; where it is
        not finite there, params come back with line_search_failed.
        Raises TypeError for params that are not floating Tensors, ValueError for a fun that gives no scalar.

        >>> fun = lambda p: (p["x"] - 1.0) ** 2 + 10.0 * (p["y"] - p["x"] ** 2) ** 2
        >>> params, info = qb.optim.LBFGS().minimize(fun, {"x": qb.array(-1.0), "y": qb.array(0.0)})
        >>> round(params["x"].item(), 6), info.reason
        (1.0, 'gradient_tolerance')
        """
        check_params(params, "LBFGS.minimize")
        function("LBFGS.minimize", "callback", callback)
        if not callable(fun):
            raise TypeError(f"LBFGS.minimize: fun is a function, not a {type(fun).__name__}")
        begin, advance, run = self._programs(fun)
        state, done = begin(params, *args), 0
        if callback is None:
            state, _ = run(params, state, None, _NO_GOAL, *args)
        while reason_of(state) == "running":
            state = advance(params, state, *args)
            info = _info(state)
            if info.iterations == done:
                continue
            done, stop = info.iterations, callback(params_of(params, state["now"]["x"]), info)
            if stop and info.reason == "running":
                return params_of(params, state["now"]["x"]), _info(state, "callback")
        return params_of(params, state["now"]["x"]), _info(state)

    def _programs(self, fun):
        """The programs for fun, kept as long as it lives: they hold it weakly."""
        settings = tuple(vars(self).values())
        try:
            kept, ref = _PROGRAMS.setdefault(fun, {}), weakref.ref(fun)
        except TypeError:  # no weak reference to it, or no hash
            kept, ref = {}, lambda: fun
        if settings not in kept:

            def total(params, *args):
                return ref()(params, *args), {}

            total.__name__ = total.__qualname__ = getattr(fun, "__name__", "fun")  # what messages call it
            kept[settings] = programs(total, self)
        return kept[settings]
