"""Learning rates as functions of the number of completed updates.

A schedule is any function of one scalar, the step; these build the usual ones. They run on numbers and inside a trace alike.
"""

import math

from .. import _core as qb
from .._arguments import flag, number, plain
from .base import check_positive

__all__ = [
    "constant",
    "cosine_decay",
    "exponential_decay",
    "piecewise_constant",
    "warmup_cosine_decay",
]


def _finite(value, name, schedule):
    """value as a float; ValueError unless it is finite."""
    value = number(schedule, name, value)
    if not math.isfinite(value):
        raise ValueError(f"{schedule}: {name} must be finite, not {value!r}")
    return value


def _smaller(a, b):
    return qb.where(qb.less(a, b), a, b)


def _larger(a, b):
    return qb.where(qb.greater(a, b), a, b)


def constant(value):
    """The same rate at every step. Raises ValueError for a value that is not finite.

    >>> qb.optim.constant(0.1)(7).item()
    0.1
    """
    value = _finite(value, "value", "constant")
    return lambda step: qb.add(qb.mul(step, 0.0), value)


def exponential_decay(init_value, transition_steps, decay_rate, transition_begin=0, staircase=False, end_value=None):
    """init_value * decay_rate ** ((step - transition_begin) / transition_steps) after transition_begin.

    staircase: the exponent is rounded down.    end_value: the rate goes no further than this.
    Raises ValueError when transition_steps or decay_rate is not positive.

    >>> round(qb.optim.exponential_decay(0.1, 10, 0.5)(20).item(), 6)
    0.025
    """
    init_value = _finite(init_value, "init_value", "exponential_decay")
    transition_steps = check_positive(transition_steps, "transition_steps", "exponential_decay")
    decay_rate = check_positive(decay_rate, "decay_rate", "exponential_decay")
    transition_begin = _finite(transition_begin, "transition_begin", "exponential_decay")
    if end_value is not None:
        end_value = _finite(end_value, "end_value", "exponential_decay")
    staircase = flag("exponential_decay", "staircase", staircase)
    if transition_begin < 0:
        raise ValueError(f"exponential_decay: transition_begin {transition_begin} is negative")

    def rate(step):
        late = _larger(qb.sub(step, transition_begin), 0.0)
        exponent = qb.div(late, transition_steps)
        if staircase:
            exponent = qb.floor(exponent)
        value = qb.mul(qb.pow(decay_rate, exponent), init_value)
        if end_value is None:
            return value
        return (_larger if decay_rate < 1 else _smaller)(value, end_value)

    return rate


def cosine_decay(init_value, decay_steps, alpha=0.0):
    """From init_value to alpha * init_value along half a cosine in decay_steps steps, then constant (Loshchilov, Hutter 2017).

    Raises ValueError when decay_steps is not positive.

    >>> round(qb.optim.cosine_decay(0.1, 10)(5).item(), 6)
    0.05
    """
    init_value = _finite(init_value, "init_value", "cosine_decay")
    decay_steps = check_positive(decay_steps, "decay_steps", "cosine_decay")
    alpha = _finite(alpha, "alpha", "cosine_decay")

    def rate(step):
        part = qb.div(_smaller(step, decay_steps), decay_steps)
        wave = qb.mul(qb.add(qb.cos(qb.mul(part, math.pi)), 1.0), 0.5)
        return qb.mul(qb.add(qb.mul(wave, 1.0 - alpha), alpha), init_value)

    return rate


def warmup_cosine_decay(init_value, peak_value, warmup_steps, decay_steps, end_value=0.0):
    """Linear from init_value to peak_value in warmup_steps, then half a cosine to end_value at decay_steps (counted from 0).

    Raises ValueError when decay_steps is not larger than warmup_steps, or warmup_steps is negative.

    >>> [round(qb.optim.warmup_cosine_decay(0.0, 0.1, 10, 100)(s).item(), 6) for s in (0, 5, 10, 55, 100)]
    [0.0, 0.05, 0.1, 0.05, 0.0]
    """
    init_value = _finite(init_value, "init_value", "warmup_cosine_decay")
    peak_value = _finite(peak_value, "peak_value", "warmup_cosine_decay")
    warmup_steps = _finite(warmup_steps, "warmup_steps", "warmup_cosine_decay")
    decay_steps = _finite(decay_steps, "decay_steps", "warmup_cosine_decay")
    end_value = _finite(end_value, "end_value", "warmup_cosine_decay")
    if warmup_steps < 0 or not decay_steps > warmup_steps:
        raise ValueError(
            f"warmup_cosine_decay: decay_steps {decay_steps} must be larger than warmup_steps {warmup_steps} >= 0"
        )
    alpha = end_value / peak_value if peak_value else 0.0
    tail = cosine_decay(peak_value, decay_steps - warmup_steps, alpha)

    def rate(step):
        if not warmup_steps:
            return tail(step)
        rise = qb.add(qb.mul(qb.div(step, warmup_steps), peak_value - init_value), init_value)
        return qb.where(qb.less(step, warmup_steps), rise, tail(qb.sub(step, warmup_steps)))

    return rate


def piecewise_constant(boundaries, values):
    """values[i] from boundaries[i - 1] on; one more value than boundaries, which ascend.

    Raises ValueError when the counts do not fit or the boundaries are not in order.

    >>> [qb.optim.piecewise_constant([2, 5], [1.0, 0.5, 0.1])(s).item() for s in (1, 2, 6)]
    [1.0, 0.5, 0.1]
    """
    boundaries, values = (v.tolist() if isinstance(v, qb.Tensor) else plain(v) for v in (boundaries, values))
    for name, numbers in (("boundaries", boundaries), ("values", values)):
        if not isinstance(numbers, (list, tuple, range)):
            raise TypeError(f"piecewise_constant: {name} is a list of numbers, not a {type(numbers).__name__}")
    boundaries = [_finite(edge, "a boundary", "piecewise_constant") for edge in boundaries]
    values = [_finite(value, "a value", "piecewise_constant") for value in values]
    if len(values) != len(boundaries) + 1:
        raise ValueError(
            f"piecewise_constant: {len(boundaries)} boundaries need {len(boundaries) + 1} values, not {len(values)}"
        )
    if any(b <= a for a, b in zip(boundaries, boundaries[1:])) or (boundaries and boundaries[0] < 0):
        raise ValueError(f"piecewise_constant: boundaries {boundaries} must ascend from 0 on")

    def rate(step):
        out = qb.add(qb.mul(step, 0.0), values[0])
        for edge, value in zip(boundaries, values[1:]):
            out = qb.where(qb.greater_equal(step, edge), value, out)
        return out

    return rate
