"""The history of a training: one growing column of numbers per quantity, a row per step."""

import math
from array import array

from .. import _core as qb

__all__ = ["History"]


class History:
    """Rows (step, loss, terms, learning rate), taken from a log of (first step, steps, (loss, terms, rate)).

    Rows are written first and counted last, and a log is forgotten after that, so an interrupt in between does no harm.
    """

    def __init__(self):
        self.columns, self.steps = {}, 0
        self.forget_best()
        self.log = []  # what the compiled steps have written and nobody has taken in yet
        self.bad_step = None  # the first step whose loss is not finite, and its loss

    def forget_best(self):
        """No loss counts as the best so far."""
        self.best_loss, self.best_step = math.inf, -1

    def reached(self):
        """The number of the next step, the log included."""
        return self.log[-1][0] + self.log[-1][1] if self.log else self.steps

    def take(self):
        """Take in the log."""
        entries = list(self.log)
        fresh = [entry for entry in entries if entry[0] >= self.steps]
        if fresh:
            counts, results = [n for _, n, _ in fresh], [r for _, _, r in fresh]
            rows = {"loss": _numbers([loss for loss, _, _ in results], counts)}
            for name in results[0][1]:
                rows[name] = _numbers([terms.get(name) for _, terms, _ in results], counts)
            rows["learning_rate"] = _numbers([rate for _, _, rate in results], counts)
            self._append(fresh[0][0], rows)
        del self.log[: len(entries)]

    def _append(self, first, rows):
        for name, values in rows.items():
            column = self.columns.setdefault(name, array("d"))
            del column[first:]
            column.extend([math.nan] * (first - len(column)))
            column.extend(values)
        self._judge(first, rows["loss"])
        self.steps = first + len(rows["loss"])

    def _judge(self, first, losses):
        low = min(losses)
        if low < self.best_loss:
            self.best_loss, self.best_step = low, first + losses.index(low)
        if self.bad_step is None and not math.isfinite(sum(losses)):
            bad = [i for i, v in enumerate(losses) if not math.isfinite(v)]
            if bad:
                self.bad_step = (first + bad[0], losses[bad[0]])
                good = [v for v in losses if math.isfinite(v)]
                if good and min(good) < self.best_loss:  # NaN hides the rest from min
                    self.best_loss = min(good)
                    self.best_step = first + losses.index(self.best_loss)

    def last(self, name):
        """The newest number of a column, NaN where it has none."""
        column = self.columns.get(name)
        return column[-1] if column and len(column) == self.steps else math.nan

    def names(self):
        """The named terms, in their order."""
        return [name for name in self.columns if name not in ("loss", "learning_rate")]

    def arrays(self):
        """{"step", "loss", each term, "learning_rate"}: float64 vectors of equal length; empty before the first step."""
        if not self.steps:
            return {}
        out = {"step": qb.arange(float(self.steps))}
        for name, column in self.columns.items():
            filled = column[: self.steps]
            filled.extend([math.nan] * (self.steps - len(filled)))
            out[name] = qb.array(filled)
        return out

    def state(self):
        """All of it as a tree that qb.save takes."""
        return {"steps": self.steps, "best": [self.best_loss, self.best_step], "columns": self.arrays()}

    def restore(self, state):
        """Become what state() gave. ValueError for anything else."""
        steps, best, columns = (state.get(k) if isinstance(state, dict) else None for k in ("steps", "best", "columns"))
        sound = type(steps) is int and isinstance(best, list) and [type(v) for v in best] == [float, int]
        sound = sound and isinstance(columns, dict) and (not steps or "loss" in columns)
        if not sound or any(
            not isinstance(name, str) or not isinstance(c, qb.Tensor) or c.shape != [steps]
            for name, c in columns.items()
        ):
            raise ValueError("resume: the history of the checkpoint is malformed")
        self.__init__()
        self.steps = steps
        self.best_loss, self.best_step = best
        self.columns = {name: array("d", c.tolist()) for name, c in columns.items() if name != "step"}


def _numbers(values, counts):
    """The numbers of one column: per entry of the log an array, or one number that stands for all its steps (None: NaN)."""
    out = []
    for value, count in zip(values, counts):
        if isinstance(value, qb.Tensor) and value.ndim:
            out += value.tolist()
        elif count == 1 and value is not None:
            out.append(float(value))
        else:
            out += [math.nan if value is None else float(value)] * count
    return out


def plot(arrays, names, path=None):
    """The loss and its terms on a logarithmic axis. Returns matplotlib's axes, or writes a picture to path."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4))
    for name in ["loss", *names]:
        style = {"color": "black", "linewidth": 1.6} if name == "loss" else {"linewidth": 1.0, "alpha": 0.8}
        axes.semilogy(arrays["step"].tolist(), arrays[name].tolist(), label=name, **style)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    axes.legend()
    figure.tight_layout()
    if path is None:
        return axes
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return None
