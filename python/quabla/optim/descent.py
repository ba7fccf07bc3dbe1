"""L-BFGS as graph programs: `begin` takes the first value, `advance` makes a search, `run` many; each is one plan when compiled.

The state is a tree of arrays. "now" is the point that the last step reached, "best" the best one so far: below it only after a step
within the rounding of f. S and Y hold the last steps s and changes y of the gradient, the newest in row 0, both divided by sqrt(s'y),
so that no other weights are needed. A row of zeros changes no direction: it stands for a pair without curvature, or a forgotten one.
Parameters may be float32; the algebra is float64.

Every search writes a new row 0 and loses the last row, whatever it came to. So a plan that makes many searches moves no row: where the
history begins is what moves (src/cpu/control.c). The rows of the two loops are known when the plan is made: 2 * history regions,
each an update and the product that the next one needs. To forget pairs in the middle of a run is rare, and is done outside its loop.
"""

import copy
import math

from .. import _core as qb
from .._control import cond, while_loop
from .._core import tree
from .search import FAILED, STUCK, finite, line_search, select, where

__all__ = ["REASONS", "advance", "begin", "params_of", "programs", "reason_of"]

REASONS = (
    "running",
    "gradient_tolerance",
    "change_tolerance",
    "max_iterations",
    "max_evaluations",
    "line_search_failed",
)
_RUNNING, _GRADIENT, _CHANGE, _ITERATIONS, _EVALUATIONS, _LOST = map(float, range(len(REASONS)))
_TINY = 2.2250738585072014e-308  # smallest normal float64


def reason_of(state):
    """Why the run ended, or "running"."""
    return REASONS[int(state["reason"].item())]


def programs(total, limits, **options):
    """(begin(params, *data), advance(like, state, *data), run(like, state, log, goal, *data)), each compiled when it is first called.

    total(params, *data) -> (f, named terms).    limits: an LBFGS.    like: a tree with the shapes and dtypes of params.
    log: None, or an array of rows (iterations, f, the terms by name).    goal: a number of iterations.
    run -> (state, log) after the searches to the goal or to the end of the run, at most one a row; their rows come first, the last one on top.
    """
    value, limits = qb.value_and_grad(total, has_aux=True), copy.copy(limits)

    def start(params, *data):
        return begin(lambda p: value(p, *data), limits, params)

    def step(like, state, *data):
        return advance(lambda p: value(p, *data), limits, like, state)

    def run(like, state, log, goal, *data):
        return _run(lambda p: value(p, *data), limits, like, state, log, goal)

    for f in (start, step, run):
        f.__name__ = f.__qualname__ = total.__name__  # what messages call it
    return tuple(qb.jit(f, **options) for f in (start, step, run))


def _flat(params):
    return qb.concat([qb.astype(p, qb.float64).reshape([-1]) for p in tree.leaves(params)])


def params_of(like, x):
    """The tree that the vector x holds, with the shapes and dtypes of the tree `like`."""
    leaves, structure = tree.flatten(like)
    out, at = [], 0
    for p in leaves:
        size = math.prod(p.shape)
        out.append(qb.astype(x[at : at + size].reshape(list(p.shape)), p.dtype))
        at += size
    return tree.unflatten(structure, out)


def _evaluated(evaluate, params):
    (f, terms), grads = evaluate(params)
    terms = tree.map(lambda t: qb.astype(qb.asarray(t), qb.float64), terms)
    return qb.astype(f, qb.float64), _flat(grads), terms


def begin(evaluate, limits, params):
    """The state at params, after one value. evaluate(params) -> ((f, named terms), gradients)."""
    f, g, terms = _evaluated(evaluate, params)
    now = {"x": _flat(params), "f": f, "grad_norm": qb.max(qb.abs(g)), "terms": terms}
    usable = qb.logical_and(finite(f), finite(now["grad_norm"]))
    small = now["grad_norm"] <= limits.tolerance_grad
    rows, zero = qb.zeros((limits.history, *g.shape)), qb.array(0.0)
    return {
        "now": now,
        "best": now,
        "g": g,
        "S": rows,
        "Y": rows,
        "scale": zero,  # s'y / y'y of the newest pair; 0: there is none
        "forget": zero,  # all rows but the newest, before the next search
        "iterations": zero,
        "evaluations": qb.array(1.0),
        "failed": zero,  # the last search did
        "reason": where(
            usable, where(small, _GRADIENT, _EVALUATIONS if limits.max_evaluations == 1 else _RUNNING), _LOST
        ),
    }


def _steepest(g, top):
    """(d, its slope): downhill, of length 1 at most."""
    unit = where(qb.logical_and(top > _TINY, finite(top)), 1.0 / top, 1.0)  # so that |g| does not overflow
    norm = qb.sqrt(qb.sum(qb.powi(g * unit, 2))) / unit
    long = norm > 1.0
    return -g * where(long, 1.0 / norm, 1.0), -norm * where(long, 1.0, norm)


def _direction(S, Y, scale, g, top):
    """(d, its slope, whether it is a new beginning): -H g by the two loops; steepest descent where there is no history or no descent.
    top: the largest |g|."""
    d, alpha = -g, []
    for i in range(S.shape[0]):
        alpha.append(qb.sum(S[i] * d))
        d = d - alpha[i] * Y[i]
    d = d * scale
    for i in reversed(range(S.shape[0])):
        d = d + (alpha[i] - qb.sum(Y[i] * d)) * S[i]
    slope = qb.sum(d * g)
    usable = qb.logical_and(scale > 0.0, qb.logical_and(slope < 0.0, finite(slope)))
    d, slope = cond(usable, lambda: (d, slope), lambda: _steepest(g, top))
    return d, slope, qb.logical_not(usable)


def _pushed(row, rows):
    """The rows after a new first one, the last one lost."""
    row = row.reshape([1, *row.shape])
    return qb.concat([row, rows[:-1]]) if rows.shape[0] > 1 else row


def _forgotten(state):
    def only_newest():
        return [_kept_rows(state[name], 1) for name in ("S", "Y")]

    S, Y = cond(state["forget"] > 0.0, only_newest, lambda: [state["S"], state["Y"]])
    return {**state, "S": S, "Y": Y, "forget": qb.array(0.0)}


def _kept_rows(rows, n):
    return qb.concat([rows[:n], qb.zeros((rows.shape[0] - n, *rows.shape[1:]))]) if rows.shape[0] > n else rows


def _ended(state):
    """A run that ended goes back to its best point."""
    now, best = state["now"], state["best"]
    back = qb.logical_and(state["reason"] > _RUNNING, best["f"] < now["f"])
    return {**state, "now": select(back, best, now)}


def advance(evaluate, limits, like, state):
    """The state after one search: an iteration, unless it gains nothing; then one from steepest descent follows, or the run ends."""
    return _ended(_forgotten(_search(evaluate, limits, like, state)))


def _run(evaluate, limits, like, state, log, goal):
    """(state, log) after many searches: see programs."""

    def going(s):
        state, log, room = s
        on = qb.logical_and(qb.equal(state["reason"], _RUNNING), state["iterations"] < goal)
        return on if log is None else qb.logical_and(on, room > 0.0)

    def search(s):
        state, log, room = s
        state = _search(evaluate, limits, like, state)
        if log is not None:
            numbers = [
                state["iterations"],
                state["now"]["f"],
                *(state["now"]["terms"][k] for k in sorted(state["now"]["terms"])),
            ]
            log, room = _pushed(qb.stack(numbers), log), room - 1.0
        return state, log, room

    def stretch(s):
        state, log, room = while_loop(lambda s: qb.logical_and(going(s), qb.equal(s[0]["forget"], 0.0)), search, s)
        return _forgotten(state), log, room

    room = qb.array(0.0 if log is None else float(log.shape[0]))
    state, log, _ = while_loop(going, stretch, (state, log, room))
    return _ended(state), log


def _search(evaluate, limits, like, state):
    old, g = state["now"], state["g"]
    x, most = old["x"], limits.max_evaluations or math.inf
    narrow = any(p.dtype is qb.float32 for p in tree.leaves(like))
    d, slope, anew = _direction(state["S"], state["Y"], state["scale"], g, old["grad_norm"])
    lo, point, grads, terms, evaluations, status = line_search(
        lambda x: _evaluated(evaluate, params_of(like, x)),
        lambda x: _flat(params_of(like, x)) if narrow else x,
        x,
        d,
        (old["f"], g, old["terms"]),
        slope,
        state["evaluations"],
        most,
        4 * (2.0**-23 if narrow else 2.0**-52),
    )
    gained, failed = lo["t"] > 0.0, qb.equal(status, FAILED)
    now = {"x": point, "f": lo["f"], "grad_norm": qb.max(qb.abs(grads)), "terms": terms}
    best = select(qb.logical_and(gained, now["f"] <= state["best"]["f"]), now, state["best"])

    s, y = point - x, grads - g
    sy, yy = qb.sum(s * y), qb.sum(y * y)
    curved = qb.logical_and(sy > 1e-10 * qb.sqrt(qb.sum(s * s)) * qb.sqrt(yy), yy > _TINY)
    kept, root = qb.logical_and(curved, qb.logical_not(failed)), 1.0 / qb.sqrt(sy)
    S, Y = (_pushed(where(kept, v * root, 0.0), rows) for v, rows in ((s, state["S"]), (y, state["Y"])))
    scale = where(kept, sy / yy, where(qb.logical_or(anew, failed), 0.0, state["scale"]))
    forget = qb.logical_or(failed, qb.logical_and(anew, state["scale"] > 0.0))
    iterations = state["iterations"] + qb.astype(gained, qb.float64)

    change, size = qb.abs(old["f"] - now["f"]), qb.maximum(qb.abs(old["f"]), qb.abs(now["f"]))
    again = qb.logical_or(state["failed"] > 0.0, anew)
    over = qb.logical_or(qb.equal(status, STUCK), qb.logical_and(failed, again))
    reason = where(over, _LOST, _RUNNING)
    reason = where(evaluations >= most, _EVALUATIONS, reason)
    stop = where(iterations >= limits.max_iterations, _ITERATIONS, reason)
    stop = where(change <= limits.tolerance_change * size, _CHANGE, stop)
    stop = where(now["grad_norm"] <= limits.tolerance_grad, _GRADIENT, stop)
    return {
        "now": now,
        "best": best,
        "g": grads,
        "S": S,
        "Y": Y,
        "scale": scale,
        "forget": qb.astype(forget, qb.float64),
        "iterations": iterations,
        "evaluations": evaluations,
        "failed": qb.astype(failed, qb.float64),
        "reason": where(gained, stop, reason),
    }
