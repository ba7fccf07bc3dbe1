"""Ctrl-C and kill: what a training that was cut off at any point still holds, and that it goes on bit for bit."""

import math
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import types

import pytest
import quabla as qb
from quabla.optim import runs

o = qb.optim
SOURCES = {
    str(pathlib.Path(o.__file__).parent / name) for name in ("trainer.py", "fitting.py", "runs.py", "history.py")
}
STRIDE = 1 if "QUABLA_EXHAUSTIVE" in os.environ else 7


def line():
    x = qb.linspace(-1, 1, 32)
    params = {"w": qb.array(0.0), "b": qb.array(0.0)}
    return o.Trainer(lambda p, x, y: qb.mean((p["w"] * x + p["b"] - y) ** 2), params, o.Adam(0.1), x, 3.0 * x - 0.5)


def values(trainer):
    return {k: v.item() for k, v in trainer.params.items()}


class Interrupt:
    """A trace function that raises KeyboardInterrupt before the `at`-th line that runs in the Trainer's own code."""

    def __init__(self, at):
        self.lines, self.at, self.place = 0, at, None

    def __call__(self, frame, event, arg):
        if frame.f_code.co_filename not in SOURCES:
            return None
        self.lines += event == "line"
        if event == "line" and self.lines == self.at:
            self.place = f"{pathlib.Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
            sys.settrace(None)
            raise KeyboardInterrupt
        return self


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch):
    """How many iterations of L-BFGS are one plan depends on their time; without time every run goes through the same lines."""
    monkeypatch.setattr(runs, "time", types.SimpleNamespace(perf_counter=lambda: 0.0))


class Training:
    """ADAM steps, then NEWTON iterations of L-BFGS, on data that change every 4 steps; go() makes those that are still to be made."""

    ADAM, NEWTON = 7, 9

    def __init__(self, way):
        def loss(p, x):
            return {"a": 10.0 * qb.sum((p[1:] - p[:-1] ** 2) ** 2 * x), "b": qb.sum((1.0 - p[:-1]) ** 2)}

        self.adam = o.Adam(o.exponential_decay(0.05, 5, 0.5))
        self.newton = o.LBFGS(tolerance_grad=0.0, tolerance_change=0.0, history=3)
        first = self.newton if way == "run lbfgs" else self.adam
        batch = 0 if way == "fit" else ()
        self.way = way
        self.trainer = o.Trainer(loss, qb.full((5,), -1.0), first, qb.array(1.0), batch_argnums=batch)

    def go(self):
        left = self.ADAM + self.NEWTON - self.trainer.steps
        if self.way == "step":
            for _ in range(left):
                self.trainer.step()
        elif self.way != "fit" and left:
            self.trainer.run(left)
        elif left:
            phases = [(self.newton, min(left, self.NEWTON))]
            if left > self.NEWTON:
                phases.insert(0, (self.adam, left - self.NEWTON))
            self.trainer.fit(*phases, sample=self.sample, sample_every=4, every=3, callback=lambda trainer: None)

    def sample(self, draw, params):
        return (qb.array(1.0 + draw / 8),)

    def everything(self):
        t = self.trainer
        columns = {k: v.numpy().tobytes() for k, v in t.history.items()}
        return t.params.tolist(), t.best_loss, t.best_params.tolist(), t.finite_params.tolist(), t.steps, columns


@pytest.mark.parametrize("way", ["fit", "run", "run lbfgs", "step"])
def test_an_interrupt_before_any_line_loses_no_step(way):
    whole, count = Training(way), Interrupt(-1)
    sys.settrace(count)
    whole.go()
    sys.settrace(None)
    assert whole.trainer.steps == Training.ADAM + Training.NEWTON
    want = whole.everything()
    for at in range(1, count.lines + 1, STRIDE):
        training, interrupt = Training(way), Interrupt(at)
        sys.settrace(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                training.go()
        finally:
            sys.settrace(None)
        trainer = training.trainer
        assert all(column.shape == [trainer.steps] for column in trainer.history.values()), interrupt.place
        assert math.isfinite(trainer.loss().item())
        training.go()
        assert training.everything() == want, interrupt.place


class Phases(Training):
    """Phases of the trainer's own optimizer, twice, of another one, and of L-BFGS."""

    def __init__(self):
        super().__init__("fit")
        self.phases = [4, 3, (o.RMSprop(0.01), 4), (self.newton, 5)]

    def go(self):
        self.trainer.fit(*self.phases, sample=self.sample, sample_every=4, every=3, callback=lambda trainer: None)


def test_a_checkpoint_after_an_interrupt_before_any_line_goes_on_bit_for_bit(tmp_path):
    whole, count = Phases(), Interrupt(-1)
    sys.settrace(count)
    whole.go()
    sys.settrace(None)
    want = whole.everything()
    for at in range(1, count.lines + 1, STRIDE):
        first, second, interrupt = Phases(), Phases(), Interrupt(at)
        sys.settrace(interrupt)
        try:
            with pytest.raises(KeyboardInterrupt):
                first.go()
        finally:
            sys.settrace(None)
        first.trainer.checkpoint(tmp_path / "a.qb")
        second.trainer.resume(tmp_path / "a.qb")
        second.trainer.checkpoint(tmp_path / "b.qb")
        second.trainer.resume(tmp_path / "b.qb")
        if second.trainer.steps < 16:
            second.go()
        assert second.everything() == want, interrupt.place


@pytest.mark.parametrize("way", ["run", "fit", "lbfgs"])
def test_ctrl_c_leaves_a_usable_trainer(way):
    def rosenbrock(p):
        return qb.sum(100.0 * (p[1:] - p[:-1] ** 2) ** 2 + (1.0 - p[:-1]) ** 2)

    optimizer = o.LBFGS(tolerance_grad=0.0, tolerance_change=0.0, history=3) if way == "lbfgs" else o.Adam(1e-4)
    start = qb.full(
        (50_000 if way == "lbfgs" else 2000,), -1.0
    )  # so many that the search is not over before the signal
    trainer = o.Trainer(rosenbrock, start, optimizer)
    trainer.step()
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            trainer.run(10**9) if way == "run" else trainer.fit(10**9)
    finally:
        timer.cancel()
    steps = trainer.steps
    assert steps > 1
    assert len(trainer.history["loss"].tolist()) == steps
    repeat = o.Trainer(rosenbrock, start, optimizer)
    repeat.run(steps)
    assert repeat.params.tolist() == trainer.params.tolist()
    assert repeat.history["loss"].tolist() == trainer.history["loss"].tolist()
    trainer.run(3)
    assert trainer.steps == steps + 3


KILLED = """
import os, sys
sys.path.insert(0, sys.argv[2])
from test_interrupts import line
line().fit(10**9, checkpoint=sys.argv[1], checkpoint_seconds=0.0)
"""


def test_a_training_that_is_killed_can_be_resumed(tmp_path):
    path = tmp_path / "a.qb"
    child = subprocess.Popen([sys.executable, "-c", KILLED, path, os.path.dirname(__file__)])
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2)
    child.kill()
    child.wait()
    trainer, whole = line(), line()
    trainer.resume(path)
    assert trainer.steps > 0
    whole.run(trainer.steps)
    assert values(trainer) == values(whole)
