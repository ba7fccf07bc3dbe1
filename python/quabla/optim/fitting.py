"""One call of Trainer.fit: the rules that end it, and how far it goes before one of them is looked at."""

import math
import os
import time

from .._arguments import integer, number

__all__ = ["Fit", "check_steps", "writable"]


def check_steps(value, who):
    value = integer(who, "the number of steps", value)
    if value < 1:
        raise ValueError(f"{who}: the number of steps must be at least 1, not {value}")
    return value


def _limit(value, name, least=-math.inf):
    """A number from `least` on."""
    value = number("Trainer.fit", name, value)
    if not value >= least:
        raise ValueError(f"Trainer.fit: {name} is {value}" + ("" if math.isnan(value) else f"; it is at least {least}"))
    return value


def writable(path):
    """path, or the error of writing there, now rather than after an hour of training."""
    if os.path.isdir(path):
        raise IsADirectoryError(f"Trainer.fit: checkpoint {path!r} is a folder")
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"Trainer.fit: there is no folder {folder!r} for the checkpoint")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"Trainer.fit: the folder {folder!r} of the checkpoint cannot be written to")
    return path


class Fit:
    """One call of fit: how far the next stretch may go, and whether it was the last."""

    def __init__(self, trainer, sample, sample_every, callback, every, target, patience, seconds):
        self._trainer, self.bar = trainer, None
        self._sample, self._sample_every = sample, check_steps(sample_every, "Trainer.fit: sample_every")
        self._callback, self._every = callback, check_steps(every, "Trainer.fit: every")
        self._target = -math.inf if target is None else _limit(target, "target")
        self._patience = math.inf if patience is None else check_steps(patience, "Trainer.fit: patience")
        self._limit = math.inf if seconds is None else _limit(seconds, "seconds", 0)
        self.first, self._start, self._pace = trainer.steps, time.perf_counter(), 1
        self.reason, self.stopped = "finished", False
        trainer._history.bad_step = None
        if trainer._resumed is None:  # losses of earlier fits, perhaps on other data, do not count
            trainer._history.forget_best()

    def keep(self, path, seconds):
        """Write checkpoints to path, one after so many seconds."""
        self._path, self._gap, self._written = path, _limit(seconds, "checkpoint_seconds", 0), time.perf_counter()

    def seconds(self):
        return time.perf_counter() - self._start

    def phase(self, optimizer, end):
        """Steps with one optimizer until step `end`, or until a rule ends it."""
        trainer, self.reason, self._pace = self._trainer, "finished", 1
        while trainer.steps < end and self.reason == "finished":
            run, at = trainer._use(optimizer), trainer.steps
            if self._sample is not None and at % self._sample_every == 0:
                batch = self._sample(at // self._sample_every, run.params)
                trainer._set_batch(batch if isinstance(batch, tuple) else (batch,), "Trainer.fit: sample")
            ended = self._stretch(run, self._most(at, end))
            self.bar.update(trainer.steps - at, *trainer._shown())
            self.reason = self._why() or ended or "finished"
            if self._path is not None and time.perf_counter() - self._written > self._gap:
                trainer.checkpoint(self._path)
                self._written = time.perf_counter()

    def _most(self, at, end):
        """Steps until something is due. The pace keeps the clock, the bar and the rules of stopping in touch."""
        most = min(end - at, self._pace)
        if self._sample is not None:
            most = min(most, self._sample_every - at % self._sample_every)
        if self._callback is not None:
            most = min(most, self._every - at % self._every)
        return most

    def _stretch(self, run, steps):
        begin = time.perf_counter()
        try:
            return run.run(steps)
        finally:
            self._trainer._history.take()
            took = time.perf_counter() - begin
            if took < 0.05 and steps == self._pace:
                self._pace *= 2
            elif took > 0.2:
                self._pace = max(1, self._pace // 2)

    def _why(self):
        """The rule that ends the training here, or None."""
        trainer, history = self._trainer, self._trainer._history
        reason = None
        if history.bad_step is not None:
            trainer._state = {**trainer._release(), "params": trainer._state["finite"]}
            reason = "not_finite"
        elif history.best_loss <= self._target:
            reason = "target"
        elif trainer.steps - (self.first if history.best_step < 0 else history.best_step) >= self._patience:
            reason = "patience"
        elif self.seconds() > self._limit:
            reason = "seconds"
        due = self._callback is not None and (trainer.steps % self._every == 0 or reason is not None)
        if due and self._callback(trainer) and reason is None:
            reason = "callback"
        self.stopped = reason is not None
        return reason
