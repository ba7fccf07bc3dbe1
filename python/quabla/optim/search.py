"""The line search of L-BFGS as one loop of a program, whose body takes the value and the gradient.

It looks for the strong Wolfe conditions by bracketing and a safeguarded cubic (Nocedal and Wright, Numerical Optimization, 2nd ed.,
algorithms 3.5 and 3.6): `lo` is the best step so far that decreases f enough, `hi` the other end. Where f changes by less than its own
rounding, the slopes alone decide (approximate Wolfe conditions: Hager and Zhang 2005). A step is {"t", "f", "slope"}; step 0 is where
the search began, so whatever happens lo is no worse than that.
"""

import math

from .. import _core as qb
from .._control import cond, while_loop
from .._core import tree

__all__ = ["FAILED", "STUCK", "finite", "line_search", "select", "where"]

C1, C2, MOST = 1e-4, 0.9, 25
# OUT: of evaluations. STUCK: the first step is none at all.
SEARCHING, FOUND, OUT, FAILED, STUCK = map(float, range(5))

where = qb.where


def select(condition, new, old):
    """The one tree or the other."""
    return tree.map(lambda a, b: where(condition, a, b), new, old)


def finite(x):
    return qb.less(qb.abs(x), math.inf)


def _both(a, b):
    return qb.logical_and(a, b)


def _either(a, b):
    return qb.logical_or(a, b)


def _cubic(a, b):
    """The minimizer of the cubic with the values and slopes of two steps; NaN when it has none."""
    gap = b["t"] - a["t"]
    p = a["slope"] + b["slope"] - 3.0 * (b["f"] - a["f"]) / gap
    root = qb.sqrt(p * p - a["slope"] * b["slope"])
    root = where(gap > 0.0, root, -root)
    return b["t"] - gap * ((b["slope"] + root - p) / (b["slope"] - a["slope"] + 2.0 * root))


def _inside(t, a, b):
    """t in [a, b], in whichever order; the middle for NaN."""
    low, high = where(a < b, a, b), where(a < b, b, a)
    return where(qb.not_equal(t, t), 0.5 * (a + b), where(t < low, low, where(t > high, high, t)))


def _next_step(before, lo, hi, width):
    """The next step and width, after lo and hi took in the last one; `before` is lo as it was. Step 0: the interval is used up."""
    gap, past = hi["t"] - lo["t"], lo["t"] - before["t"]
    size = qb.abs(gap)
    open_end = qb.equal(width, math.inf)
    outside = _inside(_cubic(before, lo), lo["t"] + 1.1 * past, lo["t"] + 4.0 * past)
    used_up = _either(size <= 1e-15 * qb.abs(lo["t"]), size < 1e-300)
    known = _both(finite(hi["f"]), finite(hi["slope"]))
    slow = size > 0.66 * width  # two thirds left: halve it
    cubic = _inside(_cubic(lo, hi), lo["t"] + 0.1 * gap, hi["t"] - 0.1 * gap)
    t = where(known, where(slow, lo["t"] + 0.5 * gap, cubic), lo["t"] + 0.2 * gap)
    t = where(open_end, outside, where(used_up, 0.0, t))
    return t, where(_either(open_end, qb.logical_not(known)), width, size)


def _bracket(now, usable, bound, lo, hi, width):
    """(t, lo, hi, width, whether lo is now): the next step, after one that is not the end of the search."""
    high = _either(qb.logical_not(usable), _either(now["f"] > bound, now["f"] >= lo["f"]))
    unbounded = qb.equal(width, math.inf)
    passed = now["slope"] * where(unbounded, 1.0, hi["t"] - lo["t"]) >= 0.0
    hi = select(high, now, select(passed, lo, hi))
    low = select(high, lo, now)
    closes = _both(unbounded, _either(high, passed))
    width = where(closes, 4.0 * qb.abs(hi["t"] - low["t"]), width)
    t, width = _next_step(lo, low, hi, width)
    return t, low, hi, width, qb.logical_not(high)


def line_search(evaluate, rounded, x, d, start, slope, evaluations, most, noise):
    """Search from x along d, where f has this slope.

    evaluate(x) -> (f, g, terms).    rounded: of a point, as the parameters' dtypes hold it.    start: (f, g, terms) at x.
    evaluations: made before, of at most `most`.    noise: changes of f below this part of it tell nothing.
    Returns (the step lo, x, g, terms there, evaluations, status).
    """
    f, g, terms = start

    def moves(t):
        return qb.any(qb.not_equal(rounded(x + t * d), x))

    def body(s):
        value, grads, words = evaluate(rounded(x + s["t"] * d))
        now = {"t": s["t"], "f": value, "slope": qb.sum(grads * d)}
        lo, hi, width = s["lo"], s["hi"], s["width"]
        bound, usable = f + C1 * now["t"] * slope, _both(finite(value), finite(now["slope"]))
        wolfe = _both(value <= bound, qb.abs(now["slope"]) <= -C2 * slope)
        same = qb.abs(value - f) <= noise * qb.abs(f)  # f can tell nothing
        close = _both(same, _both(now["slope"] >= C2 * slope, now["slope"] <= (2 * C1 - 1) * slope))
        found = _both(usable, _either(wolfe, close))
        tries, made = s["tries"] + 1.0, s["evaluations"] + 1.0

        def next_trial():
            t, low, high, size, better = _bracket(now, usable, bound, lo, hi, width)
            on = _both(tries < MOST, _both(t > 0.0, moves(t)))
            status = where(made >= most, OUT, where(on, SEARCHING, FAILED))
            return t, low, high, size, better, status

        yes = qb.array(True)
        t, lo, hi, width, better, status = cond(
            found, lambda: (now["t"], now, hi, width, yes, qb.array(FOUND)), next_trial
        )
        return {
            "t": t,
            "lo": lo,
            "hi": hi,
            "width": width,
            "g": where(better, grads, s["g"]),
            "terms": select(better, words, s["terms"]),
            "tries": tries,
            "evaluations": made,
            "status": status,
        }

    zero, one, searching = qb.array(0.0), qb.array(1.0), qb.array(SEARCHING)
    lo = {"t": zero, "f": f, "slope": slope}
    first = {
        "t": one,
        "lo": lo,
        "hi": lo,
        "width": qb.array(math.inf),
        "g": g,
        "terms": terms,
        "tries": zero,
        "evaluations": evaluations,
        "status": where(moves(one), searching, STUCK),
    }
    s = while_loop(lambda s: qb.equal(s["status"], SEARCHING), body, first)
    return s["lo"], rounded(x + s["lo"]["t"] * d), s["g"], s["terms"], s["evaluations"], s["status"]
