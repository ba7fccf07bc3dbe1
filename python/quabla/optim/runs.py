"""How a Trainer advances: compiled steps of a first-order optimizer, or iterations of L-BFGS.

A run starts from a state {"params", "best", "best_loss", "finite"}, makes steps, and writes each to the history's log as (first step,
steps, (loss, terms, rate)). Its own state is a tree that a run of the same optimizer takes up to go on bit for bit. An interrupt may
come between any two lines: after settle(), state and log agree on the steps that were made.
"""

import math

from .. import _core as qb
from .._core import tree
from .base import Optimizer
from .lbfgs import LBFGS

__all__ = ["LOG_ROWS", "Problem", "first_state", "start"]

_KEPT = ("best", "best_loss", "finite")
LOG_ROWS = 64  # of single steps; a longer log keeps Python's garbage collector busy


class Problem:
    """The loss as (total, named terms), the data that it is taken on, and where it runs."""

    def __init__(self, loss, data, options):
        def total(params, *data):
            value = loss(params, *data)
            if not isinstance(value, dict):
                return value, {}
            if not value:
                raise ValueError("Trainer: the loss returned no terms")
            whole = None
            for name, term in value.items():
                if not isinstance(name, str) or name in ("loss", "learning_rate", "step"):
                    raise ValueError(f"Trainer: {name!r} cannot name a term of the loss")
                if not isinstance(term, (int, float, qb.Tensor, qb.TraceTensor)) or list(getattr(term, "shape", [])):
                    kind = f"has shape {list(term.shape)}" if hasattr(term, "shape") else f"is a {type(term).__name__}"
                    raise ValueError(f"Trainer: the term '{name}' of the loss {kind}; terms are scalars")
                whole = term if whole is None else qb.add(whole, term)
            return whole, value

        total.__name__ = total.__qualname__ = getattr(loss, "__name__", "loss")  # what messages call it
        self.total, self.data, self.options = total, data, options
        self.value = qb.jit(total, **options)


def first_state(params):
    """What a run starts from when nothing was trained."""
    return {"params": params, "best": params, "best_loss": qb.array(math.inf), "finite": params}


def start(problem, history, optimizer, state):
    """A run of the optimizer; `state` may be a whole state of an earlier run of it."""
    kind = LbfgsRun if isinstance(optimizer, LBFGS) else StepRun
    return kind(problem, history, optimizer, state)


def _select(condition, new, old):
    return tree.map(lambda a, b: qb.where(condition, a, b), new, old)


def _step_of(total, optimizer):
    """The step that is compiled. No method: a run that its own plan holds would wait for the garbage collector, and its memory too."""

    def step(state, *data):
        params = state["params"]
        (loss, terms), grads = qb.value_and_grad(total, has_aux=True)(params, *data)
        if isinstance(optimizer, Optimizer):
            new, moments, rate = optimizer.traced_update(params, grads, state["optimizer"])
        else:
            (new, moments), rate = optimizer.update(params, grads, state["optimizer"]), None
        value = qb.astype(loss, qb.float64)
        better, finite = qb.less(value, state["best_loss"]), qb.less(qb.abs(value), math.inf)
        state = {
            "params": new,
            "optimizer": moments,
            "best": _select(better, params, state["best"]),
            "best_loss": qb.where(better, value, state["best_loss"]),
            "finite": _select(finite, params, state["finite"]),
        }
        return state, (loss, terms, rate)

    return step


class StepRun:
    """Loss, gradient and update as one plan; the parameters of the best and of the last finite loss are kept in it as well."""

    def __init__(self, problem, history, optimizer, state):
        self._optimizer = optimizer
        if "optimizer" not in state:
            state = {**state, "optimizer": optimizer.init(state["params"])}
        step = _step_of(problem.total, optimizer)
        self._loop = qb.StepLoop(step, state, problem.data, **problem.options, made=history.steps)
        self._history = history
        self._scheduled = callable(getattr(optimizer, "learning_rate", None)) and isinstance(optimizer, Optimizer)

    def set_data(self, data):
        self._loop.set_data(data)

    def step(self):
        """One step; its loss."""
        log, before = self._history.log, len(self._history.log)
        results = self._loop.step(log)
        if self._scheduled:
            self._check_rates(log[before:])
        return results[0]

    def run(self, steps):
        """That many steps. None: nothing but their number ends them."""
        log, before = self._history.log, len(self._history.log)
        self._loop.run(steps, log)
        if self._scheduled:
            self._check_rates(log[before:])

    def settle(self):
        """The loop writes its log itself."""

    def _check_rates(self, entries):
        for at, _, (_, _, rates) in entries:
            rates = qb.asarray(rates)
            rates = rates.tolist() if rates.shape else [rates.item()]
            if min(rates) >= 0 and math.isfinite(sum(rates)):
                continue
            for i, rate in enumerate(rates):
                self._optimizer.check_rate(rate, at + i)

    @property
    def params(self):
        return self._loop.state["params"]

    @property
    def state(self):
        return self._loop.state


class LbfgsRun:
    """L-BFGS: an iteration is a step. The loss of a step is the one that it reached."""

    def __init__(self, problem, history, optimizer, state):
        self._history, self._optimizer, self._value = history, optimizer, problem.value
        self._evaluate = qb.jit(qb.value_and_grad(problem.total, has_aux=True), **problem.options)
        self._kept = {k: state[k] for k in _KEPT}
        solver = self._new_solver(state["params"])
        if "solver" in state:
            solver.restore(state["solver"])
        self._now = solver, history.steps - solver.iterations, problem.data  # the second: the step of its iteration 0

    def _new_solver(self, params):
        return self._optimizer.solver(params, max_iterations=2**53)

    def set_data(self, data):
        """Other data is another function: the curvature seen so far is forgotten."""
        self.settle()
        self._kept, self._now = self._best(), (self._new_solver(self.params), self._history.reached(), data)

    def settle(self):
        """Write the row of the last iteration, if that is missing."""
        solver, first, data = self._now
        if first + solver.iterations > self._history.reached():
            self._log(*self._value(solver.params, *data))

    def _log(self, loss, terms):
        at = self._now[1] + self._now[0].iterations - 1
        numbers = {name: float(term) for name, term in terms.items()}
        self._history.log.append((at, 1, (float(loss), numbers, None)))

    def _iterate(self):
        """One iteration. False at the end of the run."""
        solver, _, data = self._now
        self.settle()
        done, more = solver.iterations, solver.reason == "running"
        while more and solver.iterations == done:
            (loss, terms), grads = self._evaluate(solver.point, *data)
            more = solver.tell(loss, grads)
        if solver.iterations == done:
            return False
        if loss.item() == solver.loss:
            self._log(loss, terms)
        else:  # a search that failed went back to an earlier point
            self.settle()
        return more

    def step(self):
        """One iteration; the loss after it."""
        self._iterate()
        return qb.array(self._now[0].loss)

    def run(self, steps):
        """That many iterations. The reason of L-BFGS where it ended before."""
        for _ in range(steps):
            if not self._iterate():
                return self._now[0].reason
            if len(self._history.log) >= LOG_ROWS:
                self._history.take()
        return None

    @property
    def params(self):
        return self._now[0].params

    def _best(self):
        solver, kept = self._now[0], self._kept
        if not solver.iterations:
            return kept
        if solver.best_loss < kept["best_loss"].item():
            kept = {"best": solver.best, "best_loss": qb.array(solver.best_loss)}
        return {**self._kept, **kept, "finite": solver.params}

    @property
    def state(self):
        return {"params": self.params, "solver": self._now[0].dump(), **self._best()}
