"""How a Trainer advances: compiled steps of a first-order optimizer, or iterations of L-BFGS.

A run starts from a state {"params", "best", "best_loss", "finite"}, makes steps, and writes each to the history's log as (first step,
steps, (loss, terms, rate)). Its own state is a tree that a run of the same optimizer takes up to go on bit for bit. An interrupt may
come between any two lines: after settle(), state and log agree on the steps that were made.
"""

import copy
import math
import time

from .. import _core as qb
from .._core import tree
from .base import Optimizer
from .descent import params_of, programs, reason_of
from .lbfgs import LBFGS

__all__ = ["LOG_ROWS", "Problem", "first_state", "start"]

_KEPT = ("best", "best_loss", "finite")
ROWS = 128  # iterations of L-BFGS in one plan, at most
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
            whole, terms, dtypes = None, {}, {}
            for name, term in value.items():
                if not isinstance(name, str) or name in ("loss", "learning_rate", "step"):
                    raise ValueError(f"Trainer: {name!r} cannot name a term of the loss")
                if not hasattr(term, "__float__") or list(getattr(term, "shape", [])):
                    kind = f"has shape {list(term.shape)}" if hasattr(term, "shape") else f"is a {type(term).__name__}"
                    raise ValueError(f"Trainer: the term '{name}' of the loss {kind}; terms are scalars")
                if isinstance(term, (qb.Tensor, qb.TraceTensor)):
                    dtypes[name] = str(term.dtype)
                else:
                    term = float(term)
                terms[name] = term
                if len(set(dtypes.values())) > 1:
                    raise ValueError(f"Trainer: the terms of the loss differ in dtype, {dtypes}; convert with astype")
                whole = term if whole is None else qb.add(whole, term)
            return whole, terms

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


def _step_of(total, optimizer, hosted):
    """The step that is compiled; hosted: the learning rate comes before the data.

    No method: a run that its own plan holds would wait for the garbage collector, and its memory too.
    """

    def step(state, *data):
        params, rate = state["params"], None
        if hosted:
            rate, *data = data
        (loss, terms), grads = qb.value_and_grad(total, has_aux=True)(params, *data)
        if isinstance(optimizer, Optimizer):
            new, moments, rate = optimizer.traced_update(params, grads, state["optimizer"], rate)
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
    """Loss, gradient and update as one plan; the parameters of the best and of the last finite loss are kept in it as well.

    A schedule that cannot be traced is asked before each step, and its rate is data of the plan.
    """

    def __init__(self, problem, history, optimizer, state):
        ours = isinstance(optimizer, Optimizer)
        self._optimizer, self._plan = optimizer, optimizer.plan if ours else None
        fresh = optimizer.init(state["params"])
        if "optimizer" not in state or tree.structure(state["optimizer"]) != tree.structure(fresh):
            state = {**state, "optimizer": fresh}
        self._hosted = ours and optimizer.looks_at_step()
        step, inputs = _step_of(problem.total, optimizer, self._hosted), problem.data
        if self._hosted:
            inputs = (qb.array(0.0), *inputs)
        self._loop = qb.StepLoop(step, state, inputs, **problem.options, made=history.steps)
        self._history, self._data = history, problem.data
        self._scheduled = ours and callable(optimizer.learning_rate) and not self._hosted

    def follows(self, optimizer):
        """Whether this is the optimizer's run, with the settings that it has now."""
        return optimizer is self._optimizer and getattr(optimizer, "_plan", None) is self._plan

    def set_data(self, data):
        self._data = data
        if not self._hosted:
            self._loop.set_data(data)

    def step(self):
        """One step; its loss."""
        if self._hosted:
            self._loop.set_data((self._optimizer.rate_now(self._loop.state["optimizer"]), *self._data))
        log, before = self._history.log, len(self._history.log)
        results = self._loop.step(log)
        if self._scheduled:
            self._check_rates(log[before:])
        return results[0]

    def run(self, steps):
        """That many steps. None: nothing but their number ends them."""
        if self._hosted:
            for _ in range(steps):
                if len(self._history.log) >= LOG_ROWS:
                    self._history.take()
                self.step()
            return
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
    """L-BFGS: an iteration is a step. The loss of a step is the one that it reached. Many steps are one plan, for about 20 ms."""

    def __init__(self, problem, history, optimizer, state):
        self._history, self._like = history, state["params"]
        self._optimizer, self._settings = optimizer, dict(vars(optimizer))
        limits = copy.copy(optimizer)
        vars(limits)["max_iterations"] = math.inf  # the number of steps stands in its place
        self._begin, self._advance, self._run = programs(problem.total, limits, **problem.options)
        self._kept = {k: state[k] for k in _KEPT}
        self._pace = 1  # steps in one plan
        solver = state["solver"] if "solver" in state else self._begin(state["params"], *problem.data)
        self._now = solver, history.steps - _made(solver), problem.data, None
        # The second: the step of its iteration 0. The last: what the log must tell before the next step.

    def follows(self, optimizer):
        """Whether this is the optimizer's run, with the settings that it has now."""
        return optimizer is self._optimizer and vars(optimizer) == self._settings

    def set_data(self, data):
        """Other data is another function: the curvature seen so far is forgotten."""
        self.settle()
        self._kept, self._now = self._best(), (self._begin(self.params, *data), self._history.reached(), data, None)

    def settle(self):
        """Write the rows of the last steps, if they are missing."""
        entry = self._now[3]
        if entry and entry[0] + entry[1] > self._history.reached():
            self._history.log.append(entry)

    def step(self):
        """One iteration; the loss after it."""
        self.settle()
        solver, first, data, entry = self._now
        done = _made(solver)
        while reason_of(solver) == "running" and _made(solver) == done:
            solver = self._advance(self._like, solver, *data)
        if _made(solver) > done:
            numbers = {name: term.item() for name, term in solver["now"]["terms"].items()}
            entry = (first + done, 1, (solver["now"]["f"].item(), numbers, None))
        self._now = solver, first, data, entry
        self.settle()
        return solver["now"]["f"]

    def run(self, steps):
        """That many iterations. The reason of L-BFGS where it ended before."""
        goal = _made(self._now[0]) + steps
        while reason_of(self._now[0]) == "running" and _made(self._now[0]) < goal:
            begin = time.perf_counter()
            self._many(min(self._pace, goal - _made(self._now[0])))
            took = time.perf_counter() - begin
            self._pace = max(1, min(ROWS, 4 * self._pace, int(self._pace * 0.02 / max(took, 1e-6))))
            if len(self._history.log) >= LOG_ROWS:
                self._history.take()
        reason = reason_of(self._now[0])
        return None if reason == "running" else reason

    def _many(self, steps):
        """That many iterations in one plan, fewer at the end of the run or after very many searches."""
        self.settle()
        solver, first, data, entry = self._now
        done, names = _made(solver), sorted(solver["now"]["terms"])
        room = qb.zeros((ROWS, 2 + len(names)))
        solver, log = self._run(self._like, solver, room, qb.array(float(done + steps)), *data)
        made, rows = _made(solver) - done, [row for row in reversed(log.tolist()) if row[0] > done]
        rows = [b for a, b in zip([[done], *rows], rows) if b[0] > a[0]]  # of the searches that gained something
        if made:
            if reason_of(solver) != "running":  # it may have gone back to an earlier point
                now = solver["now"]
                rows[-1] = [now["f"].item(), *(now["terms"][name].item() for name in names)]
                rows[-1].insert(0, float(done + made))
            _, losses, *columns = zip(*rows)
            terms = {name: qb.array(list(c)) for name, c in zip(names, columns)}
            entry = (first + done, made, (qb.array(list(losses)), terms, None))
        self._now = solver, first, data, entry
        self.settle()

    @property
    def params(self):
        return params_of(self._like, self._now[0]["now"]["x"])

    def _best(self):
        solver, kept = self._now[0], self._kept
        if not _made(solver):
            return kept
        if solver["best"]["f"].item() < kept["best_loss"].item():
            kept = {"best": params_of(self._like, solver["best"]["x"]), "best_loss": solver["best"]["f"]}
        return {**self._kept, **kept, "finite": self.params}

    @property
    def state(self):
        return {"params": self.params, "solver": self._now[0], **self._best()}


def _made(solver):
    return int(solver["iterations"].item())
