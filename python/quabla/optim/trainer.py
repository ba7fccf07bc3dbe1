"""Trainer: loss, gradient and optimizer update as one compiled plan whose state stays inside, and what long trainings need."""

import time

from .. import _core as qb
from .. import _io
from .._arguments import array_of, flag, function, integers, path_of
from .._core import tree
from .._progress import Progress
from .checkpoint import check_packed, pack, unpack
from .fitting import Fit, check_steps, writable
from .history import History, plot
from .lbfgs import LBFGS, Info, check_params
from .runs import LOG_ROWS, Problem, first_state, start

__all__ = ["Trainer"]

_KIND = "quabla trainer"


def _check_optimizer(optimizer, who):
    if isinstance(optimizer, type):
        raise TypeError(
            f"{who}: the optimizer is the class {optimizer.__name__}; make one, such as {optimizer.__name__}()"
        )
    if not isinstance(optimizer, LBFGS) and not all(callable(getattr(optimizer, f, None)) for f in ("init", "update")):
        raise TypeError(f"{who}: the optimizer is {optimizer!r}; it has init(params) and update(params, grads, state)")


def _probe(x):
    return x


_probe.__qualname__ = "Trainer"  # what messages call it


def _arrays(x, what):
    """x with arrays as leaves; the message of an error begins with `what`."""
    x = tree.map(lambda leaf: array_of(what, leaf), x)
    if any(isinstance(leaf, qb.TraceTensor) for leaf in tree.leaves(x)):
        raise TypeError(f"{what} holds a tracer; a Trainer runs outside traced functions")
    return x


def _last(results):
    """The loss of the last step of a log entry."""
    loss = results[0]
    return loss[-1] if isinstance(loss, qb.Tensor) and loss.shape else qb.asarray(loss)


class Trainer:
    """Trains `params` on `loss(params, *data)`.

    loss: function of the parameters and the data that returns a floating scalar, or a dict of named scalars whose sum is the loss.
    params: tree of floating arrays.    optimizer: qb.optim.Adam and its like, qb.optim.LBFGS, or any object with init(params) and
    update(params, grads, state).    data: arrays, or trees of them.
    batch_argnums: positions in `data` (counted from 0) that step(*batch) and the samples of fit replace.
    precision: as for jit; "float32" trains float32 parameters in float32 arithmetic.
    The step is traced and compiled at the first call; values equal those of value_and_grad and optimizer.update, bit for bit.
    With L-BFGS a step is an iteration, and the number of steps stands in place of max_iterations.
    Raises TypeError for parameters that are not floating arrays, UnsupportedOperationError for a device that is not built.

    >>> trainer = qb.optim.Trainer(lambda p: (p["w"] - 3.0) ** 2, {"w": qb.array(0.0)}, qb.optim.Adam(0.1))
    >>> trainer.run(500).item() < 1e-3
    True
    >>> round(trainer.params["w"].item(), 2)
    3.0
    """

    def __init__(self, loss, params, optimizer, *data, device="cpu", batch_argnums=(), precision=None):
        check_params(params, "Trainer")
        _check_optimizer(optimizer, "Trainer")
        if not callable(loss):
            raise TypeError(
                f"Trainer: the loss is a function of the parameters and the data, not {type(loss).__name__}"
            )
        batch_argnums = integers("Trainer", "batch_argnums", batch_argnums)
        for i in batch_argnums:
            if not 0 <= i < len(data):
                counted = (
                    f"the data arguments, without params, are 0 to {len(data) - 1}" if data else "there is no data"
                )
                raise ValueError(f"Trainer: batch_argnums {i} is out of range; {counted}")
        if len(set(batch_argnums)) != len(batch_argnums):
            raise ValueError(f"Trainer: batch_argnums {list(batch_argnums)} names an argument twice")
        data = tuple(_arrays(d, f"Trainer: data argument {i}") for i, d in enumerate(data))
        options = {"device": device, "precision": precision}
        qb.jit(_probe, **options)(qb.array(0.0))  # says what is wrong with them
        self._problem = Problem(loss, data, options)
        self._optimizer, self._batch_argnums = optimizer, batch_argnums
        self._history, self._state = History(), first_state(params)
        self._run, self._running = None, None  # the run that holds the state, and its optimizer
        self._saved = None  # the state of a run that resume has read: [name of the optimizer, packed leaves, owner]
        self._phases = ()  # of the last fit
        self._place = None  # within fit: (number of the phase, step at which it began)
        self._resumed = None  # the place that the next fit goes on from

    # ---- runs ----

    def _use(self, optimizer):
        """The run of this optimizer, from where the last one stands."""
        if self._run is not None and self._run.follows(optimizer):
            return self._run
        whole = self._now() if self._running is optimizer and not isinstance(optimizer, LBFGS) else None
        state = self._release()
        run = start(self._problem, self._history, optimizer, whole or state)
        if self._saved and optimizer is self._owner(self._saved[2]):
            name, packed, _ = self._saved
            if name != type(optimizer).__name__:
                raise ValueError(
                    f"resume: the checkpoint was written while training with {name}, and goes on with {type(optimizer).__name__}"
                )
            state = unpack(packed, run.state, "the optimizer's state")
            run = start(self._problem, self._history, optimizer, state)
        self._run, self._running, self._saved = run, optimizer, None
        return run

    def _owner(self, number):
        """The optimizer that a checkpoint names: -1 is the trainer's own, else that of a phase of the fit which goes on."""
        if number == -1:
            return self._optimizer
        return self._phases[number][0] if self._place and number < len(self._phases) else None

    def _settled(self):
        """The history with all steps that were made."""
        if self._run is not None:
            self._run.settle()
        self._history.take()
        return self._history

    def _release(self):
        """The state without the optimizer's part; the run, if there is one, is given up."""
        self._settled()
        if self._run is not None:
            state = self._run.state
            self._state = {k: state[k] for k in ("params", "best", "best_loss", "finite")}
            self._run = self._running = None
        return self._state

    def _now(self):
        return self._run.state if self._run is not None else self._state

    def _set_batch(self, batch, who):
        if len(batch) != len(self._batch_argnums):
            raise ValueError(
                f"{who}: {len(batch)} batch arguments; batch_argnums={self._batch_argnums} asks for {len(self._batch_argnums)}"
            )
        data = list(self._problem.data)
        for i, b in zip(self._batch_argnums, batch):
            new = _arrays(b, f"{who}: the new data argument {i}")
            was, now = tree.structure(data[i]), tree.structure(new)
            if was != now and was.num_leaves:
                raise ValueError(f"{who}: the new data argument {i} has the structure {now}, the data had {was}")
            data[i] = new
        self._problem.data = tuple(data)
        if self._run is not None:
            self._run.set_data(self._problem.data)

    # ---- what it holds ----

    @property
    def params(self):
        """The parameters now, with the structure that was given."""
        return self._run.params if self._run is not None else self._state["params"]

    @property
    def best_params(self):
        """The parameters with the smallest loss so far; those at the start before the first step.

        Where the data changes from step to step, losses on different data are compared.
        """
        return self._now()["best"]

    @property
    def best_loss(self):
        """The loss at best_params, infinite before the first step."""
        return self._now()["best_loss"].item()

    @property
    def finite_params(self):
        """The last parameters whose loss was finite."""
        return self._now()["finite"]

    @property
    def steps(self):
        """Steps made so far."""
        if self._run is not None:
            self._run.settle()
        return self._history.reached()

    @property
    def history(self):
        """{"step", "loss", each named term, "learning_rate"}: float64 vectors with a number per step, for all steps so far.

        The loss of a step is the one before its update; with L-BFGS the one after it. learning_rate is NaN for L-BFGS.
        Empty before the first step.
        """
        return self._settled().arrays()

    def plot_history(self, path=None):
        """Draw the loss and its terms by step, on a logarithmic axis (needs matplotlib).

        path: where a picture goes; without it matplotlib's axes are returned. Raises ValueError before the first step.
        """
        if path is not None and not hasattr(path, "write"):
            path = path_of("Trainer.plot_history", path)
        if not self.steps:
            raise ValueError("Trainer.plot_history: there are no steps yet")
        return plot(self.history, self._history.names(), path)

    def loss(self):
        """The loss at the parameters now, a scalar Tensor."""
        return self._problem.value(self.params, *self._problem.data)[0]

    def terms(self):
        """The named terms of the loss at the parameters now, {name: scalar Tensor} in order of their names; empty without names."""
        terms = self._problem.value(self.params, *self._problem.data)[1]
        return {name: qb.asarray(terms[name]) for name in sorted(terms)}

    # ---- training ----

    def step(self, *batch):
        """One update. Returns the loss before it, a scalar Tensor; with L-BFGS an iteration, and the loss after it.

        batch: new values for the arguments of batch_argnums, all of them.
        Raises ValueError for another number of them, and where a schedule gives a negative or non-finite rate.

        >>> trainer = qb.optim.Trainer(lambda p, x: (p - x) ** 2, qb.array(0.0), qb.optim.SGD(0.5), 1.0, batch_argnums=0)
        >>> trainer.step(qb.array(4.0)).item(), trainer.params.item()
        (16.0, 4.0)
        """
        if batch or self._batch_argnums:
            self._set_batch(batch, "Trainer.step")
        self._place = self._resumed = None
        run = self._use(self._optimizer)
        value = run.step()
        if len(self._history.log) >= LOG_ROWS:
            self._history.take()
        return value

    def run(self, steps, progress=False):
        """`steps` updates with no Python between them. Returns the loss before the last one.

        With L-BFGS they are iterations, and fewer where it ends; then the loss after the last one is returned.
        progress: show loss, steps per second and time left. Ctrl-C stops between two steps and leaves the trainer usable.
        Raises ValueError for fewer than one step, and where a schedule gives a negative or non-finite rate.
        """
        left, progress = check_steps(steps, "Trainer.run"), flag("Trainer.run", "progress", progress)
        self._place = self._resumed = None
        run, value, pace = self._use(self._optimizer), None, 1 if progress else left
        with Progress(left if progress else None) as bar:
            while left:
                n, begin, before = min(pace, left), time.perf_counter(), self.steps
                ended = run.run(n)
                if self._history.log:
                    value = _last(self._history.log[-1][2])
                self._history.take()
                left -= n
                if progress:
                    bar.update(self.steps - before, *self._shown())
                if ended:
                    break
                if time.perf_counter() - begin < 0.1:
                    pace *= 2
        return self.loss() if value is None else value

    def _shown(self):
        history = self._history
        return history.last("loss"), {name: history.last(name) for name in history.names()}

    def fit(
        self,
        *phases,
        sample=None,
        sample_every=1,
        callback=None,
        every=1000,
        target=None,
        patience=None,
        seconds=None,
        checkpoint=None,
        checkpoint_seconds=60.0,
        progress=False,
    ):
        """Train in phases, such as fit((qb.optim.Adam(1e-3), 5000), (qb.optim.LBFGS(), 2000)).

        phases: (optimizer, steps), or a number of steps with the trainer's own optimizer.
        sample: called as sample(draw, params) before every `sample_every`-th step, counted from the trainer's first, with the number
            of the draw and the parameters; returns a tuple of new values for the arguments of batch_argnums. Resampled points,
            points chosen by their residual, and qb.optim.minibatches are such functions. To be resumed bit for bit it may depend
            on its two arguments alone: take random numbers from qb.random.fold_in(key, draw).
        callback: called as callback(trainer) after every `every` steps; a true result ends the training.
        target: ends the training when a loss is at most this.
        patience: ends it when so many steps brought no smaller loss; losses of earlier calls do not count.    seconds: ends it after this time.
        checkpoint: path that `checkpoint` writes to every `checkpoint_seconds`, and at the end.
        progress: show loss, terms, steps per second and time left.
        Returns info: steps (of this call), loss, best_loss, seconds, and reason: "finished" when all phases had their steps, the reason
        of L-BFGS when it ended the last phase early, else "target", "patience", "seconds", "callback", or "not_finite": then the
        parameters are the last ones whose loss was finite. Ctrl-C raises KeyboardInterrupt between two steps and loses none,
        of L-BFGS those of the last 20 ms.
        After resume, fit with the same phases goes on where the checkpoint was written.
        Raises ValueError for phases and numbers out of range, and where a schedule gives a negative or non-finite rate.

        >>> trainer = qb.optim.Trainer(lambda p: {"fit": (p - 3.0) ** 2, "size": 0.1 * p**2}, qb.array(0.0), qb.optim.Adam(0.1))
        >>> info = trainer.fit(20, (qb.optim.LBFGS(), 50))
        >>> info.reason, round(trainer.params.item(), 6), sorted(trainer.history)
        ('gradient_tolerance', 2.727273, ['fit', 'learning_rate', 'loss', 'size', 'step'])
        """
        phases = [self._phase(p) for p in phases]
        if not phases:
            raise ValueError("Trainer.fit: give at least one phase, (optimizer, steps) or a number of steps")
        function("Trainer.fit", "sample", sample)
        function("Trainer.fit", "callback", callback)
        progress = flag("Trainer.fit", "progress", progress)
        if checkpoint is not None:
            checkpoint = writable(path_of("Trainer.fit", checkpoint))
        if sample is not None and not self._batch_argnums:
            raise ValueError("Trainer.fit: sample replaces the arguments of batch_argnums, and there are none")
        number, begun = self._resumed or (0, self.steps)
        if number >= len(phases):
            raise ValueError(f"resume: the checkpoint was written in phase {number + 1}; this fit has {len(phases)}")
        fit = Fit(self, sample, sample_every, callback, every, target, patience, seconds)
        fit.keep(checkpoint, checkpoint_seconds)
        total = sum(n for _, n in phases[number:]) - (self.steps - begun)
        self._place, self._phases, self._resumed = (number, begun), phases, None
        with Progress(total if progress else None) as fit.bar:
            for at in range(number, len(phases)):
                optimizer, n = phases[at]
                self._place = (at, begun)
                fit.phase(optimizer, begun + n)
                if fit.stopped:
                    break
                begun = self.steps
            else:
                self._place = None
        if checkpoint is not None:
            self.checkpoint(checkpoint)
        return Info(
            steps=self.steps - fit.first,
            loss=self._history.last("loss") if self.steps > fit.first else self.loss().item(),
            best_loss=self.best_loss,
            seconds=fit.seconds(),
            reason=fit.reason,
        )

    def _phase(self, phase):
        if not isinstance(phase, (tuple, list)) and not hasattr(phase, "__index__"):
            raise TypeError(f"Trainer.fit: a phase is (optimizer, steps) or an int, not a {type(phase).__name__}")
        optimizer, steps = phase if isinstance(phase, (tuple, list)) and len(phase) == 2 else (self._optimizer, phase)
        _check_optimizer(optimizer, "Trainer.fit")
        return optimizer, check_steps(steps, "Trainer.fit")

    # ---- checkpoints ----

    def checkpoint(self, path):
        """Write all of the training to a file by qb.save: parameters, optimizer, history, batch data, the place in fit.

        With it resume goes on bit for bit. A path's old content stays until the new one is complete.

        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "training.qb")
        >>> def make():
        ...     return qb.optim.Trainer(lambda p: (p - 3.0) ** 2, qb.array(0.0), qb.optim.Adam(0.1))
        >>> first, second = make(), make()
        >>> _ = first.run(10)
        >>> first.checkpoint(path)
        >>> second.resume(path)
        >>> first.run(5).item() == second.run(5).item(), second.steps
        (True, 15)
        """
        write = _io.save if hasattr(path, "write") else _io.write
        path = path if hasattr(path, "write") else path_of("Trainer.checkpoint", path)
        self._settled()
        state = self._now()
        running, place = self._saved, self._place or self._resumed
        if self._run is not None:
            numbers = [-1, *(range(len(self._phases)) if place else ())]
            owner = next((i for i in numbers if self._owner(i) is self._running), None)
            # An optimizer of a fit that is over starts afresh whenever it comes again.
            running = None if owner is None else [type(self._running).__name__, pack(state), owner]
        write(
            path,
            {
                "kind": _KIND,
                "state": {k: pack(state[k]) for k in ("params", "best", "best_loss", "finite")},
                "running": running,
                "place": list(place) if place else None,
                "data": [pack(self._problem.data[i]) for i in self._batch_argnums],
                "history": self._history.state(),
            },
        )

    def resume(self, path):
        """Take up what checkpoint wrote: the next steps are those that would have followed, bit for bit.

        The trainer must be made as that one was: the same loss, data and optimizer, and parameters of the same structure and shapes.
        When the checkpoint was written within fit, call fit with the same phases; it goes on at that place.
        Raises ValueError for a file of another kind or model, naming the parameter that does not fit. Then the trainer is as before.
        """
        file = _io.load(path) if hasattr(path, "read") else _io.read(path_of("Trainer.resume", path))
        if not isinstance(file, dict) or file.get("kind") != _KIND:
            raise ValueError(f"resume: {path} was not written by Trainer.checkpoint")
        state, data, history, place = self._read(file)
        self._run = self._running = None
        self._problem.data, self._state, self._saved = data, state, file["running"]
        self._history.restore(history)
        self._place, self._resumed = None, place

    def _read(self, file):
        """What a checkpoint holds, as it is kept here: (state, data, history, place). ValueError for what this one cannot take."""
        params = self.params
        likes = {"params": params, "best": params, "best_loss": qb.array(0.0), "finite": params}
        state, packed, running, place = (file.get(k) for k in ("state", "data", "running", "place"))
        if not isinstance(state, dict) or not isinstance(packed, list):
            raise ValueError("resume: the checkpoint is malformed")
        state = {k: unpack(state.get(k), like, f"{k}: the parameter") for k, like in likes.items()}
        if len(packed) != len(self._batch_argnums):
            raise ValueError(
                f"resume: the checkpoint has {len(packed)} batch arguments, this trainer {len(self._batch_argnums)}"
            )
        data = list(self._problem.data)
        for i, arrays in zip(self._batch_argnums, packed):
            data[i] = unpack(arrays, data[i], f"the data argument {i},", shapes=False)
        if running is not None:
            if not isinstance(running, list) or [type(v) for v in running] != [str, list, int] or running[2] < -1:
                raise ValueError("resume: the optimizer of the checkpoint is malformed")
            check_packed(running[1], "the optimizer's state")
        if place is not None and (not isinstance(place, list) or [type(v) for v in place] != [int, int]):
            raise ValueError("resume: the place in fit of the checkpoint is malformed")
        History().restore(file.get("history"))
        return state, tuple(data), file["history"], tuple(place) if place else None
