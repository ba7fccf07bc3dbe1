"""Adam and AdamW."""

from .. import _core as qb
from .._core import tree
from .base import Optimizer, flush, moments

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam (Kingma, Ba 2015) with bias correction.

    learning_rate: a number > 0, or a function of the number of completed updates.    b1, b2: decay of the moments.
    eps: added to the root of the second moment.    clip_norm: largest joint norm of the gradients, None for no clipping.
    The state is {'m', 'v', 'step'}; moments are float64 for every parameter dtype. beta1, beta2, epsilon are other names of b1, b2, eps.
    Raises ValueError for settings out of range: rates, eps and clip_norm are positive and finite, b1 and b2 in [0, 1).

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
        self.b1 = b1 if beta1 is None else beta1
        self.b2 = b2 if beta2 is None else beta2
        self.eps = eps if epsilon is None else epsilon
        self._state = None
        super().__init__(learning_rate, clip_norm)

    def _start(self, params):
        return {"m": moments(params), "v": moments(params), "step": qb.array(0.0)}

    def _change(self, grads, state, rate):
        # Kingma and Ba, end of section 2: both bias corrections go into the rate and eps, one division a parameter.
        step = qb.add(state["step"], 1.0)
        fix1 = qb.sub(1.0, qb.pow(self.b1, step))
        fix2 = qb.sqrt(qb.sub(1.0, qb.pow(self.b2, step)))
        size, eps = qb.div(qb.mul(fix2, rate), fix1), qb.mul(fix2, self.eps)

        def mean(m, g):
            return flush(qb.add(qb.mul(m, self.b1), qb.mul(g, 1 - self.b1)))

        def square(v, g):
            return flush(qb.add(qb.mul(v, self.b2), qb.mul(qb.mul(g, g), 1 - self.b2)))

        m, v = tree.map(mean, state["m"], grads), tree.map(square, state["v"], grads)
        change = tree.map(lambda m, v: qb.div(qb.mul(m, size), qb.add(qb.sqrt(v), eps)), m, v)
        return change, {"m": m, "v": v, "step": step}

    def step(self, parameters, gradients):
        """Parameters after one step; the state is kept inside. A changed structure starts afresh."""
        if self._state is None or tree.structure(self._state["m"]) != tree.structure(parameters):
            self._state = self.init(parameters)
        parameters, self._state = self.update(parameters, gradients, self._state)
        return parameters


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov, Hutter 2019): each step also takes rate * weight_decay * p off p.

    Raises ValueError when weight_decay is negative or not finite.

    >>> qb.optim.AdamW(0.1, weight_decay=0.01).weight_decay
    0.01
    """

    def __init__(self, learning_rate=1e-3, b1=0.9, b2=0.999, eps=1e-8, weight_decay=1e-4, *, clip_norm=None):
        self.weight_decay = weight_decay
        super().__init__(learning_rate, b1, b2, eps, clip_norm=clip_norm)
