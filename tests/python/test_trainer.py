"""Trainer: fit, batches, history, what it keeps, and why it stops. test_checkpoints.py: how it goes on."""

import collections
import gc
import math
import os
import sys
import time
import weakref

import numpy as np
import pytest
import quabla as qb

o = qb.optim


def fit_loss(p, x, y):
    return {"data": qb.mean((p["w"] * x + p["b"] - y) ** 2), "size": 1e-6 * p["w"] ** 2}


def fit_data(n=32):
    x = qb.linspace(-1, 1, n)
    return x, 3.0 * x - 0.5


def line(optimizer=None, **options):
    params = {"w": qb.array(0.0), "b": qb.array(0.0)}
    return o.Trainer(fit_loss, params, optimizer or o.Adam(0.1), *fit_data(), **options)


def values(trainer):
    return {k: v.item() for k, v in trainer.params.items()}


# ---- history ----


def test_history_has_a_row_per_step_and_a_column_per_term():
    trainer = line(o.Adam(o.exponential_decay(0.1, 10, 0.5)))
    assert trainer.history == {}
    losses = [trainer.step().item() for _ in range(3)]
    trainer.run(5)
    trainer.fit(4)
    history = trainer.history
    assert list(history) == ["step", "loss", "data", "size", "learning_rate"]
    assert history["step"].tolist() == list(map(float, range(12)))
    assert history["loss"].tolist()[:3] == losses
    np.testing.assert_array_equal(history["loss"].numpy(), history["data"].numpy() + history["size"].numpy())
    np.testing.assert_allclose(history["learning_rate"].numpy(), 0.1 * 0.5 ** (np.arange(12) / 10), rtol=1e-14)
    assert trainer.steps == 12
    assert sum(t.item() for t in trainer.terms().values()) == trainer.loss().item()


def test_history_is_the_same_however_the_steps_are_made():
    by_step, by_run, by_fit = line(), line(), line()
    for _ in range(2500):
        by_step.step()
    by_run.run(2500)
    by_fit.fit(2500, callback=lambda t: None, every=7)
    for other in (by_run, by_fit):
        assert values(other) == values(by_step)
        for name, column in by_step.history.items():
            assert other.history[name].tolist() == column.tolist()


def test_history_is_drawn(tmp_path):
    trainer = line()
    with pytest.raises(ValueError, match="no steps"):
        trainer.plot_history()
    trainer.run(20)
    trainer.plot_history(tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("loss", "words"),
    [
        (lambda p: {"a": p * qb.ones((2,))}, r"'a'.*\[2\]"),
        (lambda p: {"a": p, "b": None}, "'b'.*NoneType"),
        (lambda p: {"a": {"b": p}}, "'a'.*dict"),
        (lambda p: {}, "no terms"),
        (lambda p: {"loss": p}, "cannot name"),
        (lambda p: {1: p}, "cannot name"),
    ],
)
def test_bad_terms_are_named(loss, words):
    with pytest.raises(ValueError, match=words):
        o.Trainer(loss, qb.array(1.0), o.Adam()).step()


# ---- phases ----


def test_fit_trains_in_phases():
    trainer = line()
    info = trainer.fit((o.Adam(0.1), 20), (o.LBFGS(tolerance_grad=1e-9), 50))
    assert info.reason in ("gradient_tolerance", "change_tolerance")
    assert info.steps == trainer.steps < 70
    assert values(trainer)["w"] == pytest.approx(3.0, abs=1e-4)
    rates = trainer.history["learning_rate"].tolist()
    assert rates[:20] == [0.1] * 20
    assert all(map(math.isnan, rates[20:]))
    assert info.loss == trainer.loss().item() == trainer.best_loss == info["best_loss"]


def test_a_phase_of_lbfgs_has_the_steps_it_was_given():
    def loss(p):
        return (1.0 - p[0]) ** 2 + 100.0 * (p[1] - p[0] ** 2) ** 2

    start = qb.array([-1.2, 1.0])
    trainer = o.Trainer(loss, start, o.LBFGS(max_iterations=3))
    assert trainer.fit(10).reason == "finished"
    assert trainer.steps == 10
    want, _ = o.LBFGS(max_iterations=10).minimize(loss, start)
    assert trainer.params.tolist() == want.tolist()
    by_step = o.Trainer(loss, start, o.LBFGS())
    for _ in range(10):
        value = by_step.step()
    assert by_step.params.tolist() == want.tolist()
    assert value.item() == loss(want).item()


def test_lbfgs_in_a_trainer_lowers_the_loss_at_every_step():
    trainer = line()
    trainer.fit((o.LBFGS(), 30))
    losses = trainer.history["loss"].tolist()
    assert losses == sorted(losses, reverse=True)


def test_the_optimizers_own_moments_last_as_long_as_it_is_in_use():
    adam = o.Adam(0.1)
    one, two = line(adam), line(adam)
    one.fit(10)
    one.fit(10)
    two.run(20)
    assert values(one) == values(two)


def test_any_optimizer_with_init_and_update_will_do():
    class Sign:
        def init(self, params):
            return None

        def update(self, params, grads, state):
            return qb.tree.map(lambda p, g: p - 0.125 * qb.sign(g), params, grads), state

    trainer = o.Trainer(lambda p: (p - 1.0) ** 2, qb.array(0.0), Sign())
    trainer.run(8)
    assert trainer.params.item() == 1.0


# ---- batches ----


def mean_loss(p, x):
    return qb.mean((p - x) ** 2)


def test_samples_replace_the_batch_arguments():
    seen = []

    def sample(draw, params):
        seen.append((draw, params.item()))
        return (qb.full((3,), float(draw)),)

    trainer = o.Trainer(mean_loss, qb.array(0.0), o.SGD(0.5), qb.zeros((2,)), batch_argnums=0)
    trainer.fit(9, sample=sample, sample_every=3)
    assert [draw for draw, _ in seen] == [0, 1, 2]
    assert seen[1][1] == 0.0
    assert trainer.params.item() == 2.0
    with pytest.raises(ValueError, match="batch_argnums"):
        o.Trainer(mean_loss, qb.array(0.0), o.SGD(0.5), qb.zeros((2,))).fit(1, sample=sample)
    with pytest.raises(ValueError, match="2 batch arguments"):
        trainer.fit(1, sample=lambda draw, params: (1.0, 2.0))


def test_minibatches_use_every_row_once_an_epoch():
    x = qb.arange(10.0)
    draw = o.minibatches(qb.random.key(1), 4, x, 2.0 * x)
    for epoch in range(3):
        parts = [draw(3 * epoch + i, None) for i in range(3)]
        assert [a.shape[0] for a, _ in parts] == [4, 4, 2]
        rows = sum((a.tolist() for a, _ in parts), [])
        assert sorted(rows) == x.tolist()
        assert rows != x.tolist()
        assert all(b.tolist() == [2 * v for v in a.tolist()] for a, b in parts)
    again = o.minibatches(qb.random.key(1), 4, x, 2.0 * x)
    assert again(5, None)[0].tolist() == draw(5, None)[0].tolist()
    for bad in (0, 11, 2.0):
        with pytest.raises(ValueError, match="size"):
            o.minibatches(qb.random.key(1), bad, x)
    with pytest.raises(ValueError, match="one length"):
        o.minibatches(qb.random.key(1), 2, x, qb.ones((3,)))


def test_minibatches_train():
    x, y = fit_data(100)
    trainer = o.Trainer(
        lambda p, x, y: qb.mean((p["w"] * x + p["b"] - y) ** 2),
        {"w": qb.array(0.0), "b": qb.array(0.0)},
        o.Adam(0.05),
        x,
        y,
        batch_argnums=(0, 1),
    )
    trainer.fit(600, sample=o.minibatches(qb.random.key(0), 30, x, y))
    assert values(trainer)["w"] == pytest.approx(3.0, abs=1e-3)


# ---- what is kept, and why it stops ----


@pytest.mark.parametrize("optimizer", [o.Adam(0.1), o.LBFGS()])
def test_a_trainer_that_is_dropped_frees_its_plans_at_once(optimizer):
    def loss(p, x, y):
        return fit_loss(p, x, y)

    alive, enabled = weakref.ref(loss), gc.isenabled()
    gc.disable()
    try:
        trainer = o.Trainer(loss, {"w": qb.array(0.0), "b": qb.array(0.0)}, optimizer, *fit_data())
        trainer.run(3)
        del loss, trainer
        assert alive() is None
    finally:
        if enabled:
            gc.enable()


def test_best_and_finite_parameters_are_kept():
    trainer = o.Trainer(lambda p: (p - 1.0) ** 2, qb.array(0.0), o.SGD(1.5))  # diverges
    assert (trainer.best_loss, trainer.best_params.item()) == (math.inf, 0.0)
    trainer.run(2000)
    assert not math.isfinite(trainer.params.item())
    assert (trainer.best_loss, trainer.best_params.item()) == (1.0, 0.0)
    last = trainer.finite_params.item()
    assert math.isfinite((last - 1.0) ** 2)
    assert abs(last) > 1e100


def test_fit_stops_at_the_first_loss_that_is_not_finite():
    trainer = o.Trainer(lambda p: qb.log(p), qb.array(0.35), o.SGD(0.1))
    info = trainer.fit(100)
    assert info.reason == "not_finite"
    assert math.isfinite(trainer.loss().item())
    assert trainer.params.item() == trainer.finite_params.item()
    assert info.steps <= 100
    assert trainer.fit(1).steps == 1  # it can go on


def test_fit_stops_by_its_rules():
    assert line().fit(5000, target=1e-2).reason == "target"
    assert line().fit(100_000, patience=50).reason == "patience"
    start = time.perf_counter()
    info = line().fit(10**9, seconds=0.3)
    assert info.reason == "seconds"
    assert 0.3 <= info.seconds <= time.perf_counter() - start
    assert line().fit(10).reason == "finished"


def test_callbacks_come_every_so_many_steps_and_can_stop():
    seen = []
    trainer = line()
    info = trainer.fit(100, every=25, callback=lambda t: seen.append((t.steps, t.loss().item())) or t.steps == 75)
    assert [s for s, _ in seen] == [25, 50, 75]
    assert (info.reason, info.steps) == ("callback", 75)
    assert seen[-1][1] == trainer.loss().item()


def test_progress_shows_terms(capsys):
    line().fit(200, progress=True)
    text = capsys.readouterr().err
    assert "step 200/200" in text
    for word in ("loss", "data", "size", "steps/s"):
        assert word in text


def on_a_terminal(work):
    """What work(stream) writes to a stream that is a terminal."""
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as stream:
        work(stream)
    text = b""
    try:
        while part := os.read(master, 100_000):  # what is written arrives in pieces
            text += part
    except OSError:  # all was read, and the other end is closed
        pass
    os.close(master)
    return text.decode()


@pytest.mark.parametrize("installed", [True, False])
def test_progress_on_a_terminal_is_a_bar_where_tqdm_is_installed(monkeypatch, installed):
    if not installed:
        monkeypatch.setitem(sys.modules, "tqdm", None)

    def work(stream):
        monkeypatch.setattr(sys, "stderr", stream)
        line().fit(200, progress=True)

    text = on_a_terminal(work)
    monkeypatch.undo()
    assert ("\r" in text.replace("\r\n", "") and "100%" in text) == installed
    assert "200/200" in text
    for word in ("loss", "data", "size"):
        assert word in text
    assert "step/s" in text or "steps/s" in text


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda t: t.fit(), ValueError, "at least one phase"),
        (lambda t: t.fit(0), ValueError, "at least 1"),
        (lambda t: t.fit((o.Adam(), 1.5)), TypeError, "int"),
        (lambda t: t.fit("adam"), TypeError, "int"),
        (lambda t: t.fit(o.Adam(), 5), TypeError, r"a phase is \(optimizer, steps\) or an int, not a Adam"),
        (lambda t: t.fit(1, every=0), ValueError, "every"),
        (lambda t: t.fit(1, patience=0), ValueError, "patience"),
        (lambda t: t.fit(1, target=math.nan), ValueError, "target"),
        (lambda t: t.fit(1, seconds="1"), TypeError, "seconds"),
        (lambda t: t.fit(1, seconds=-1.0), ValueError, "seconds"),
        (lambda t: t.fit(1, checkpoint_seconds=-1.0), ValueError, "checkpoint_seconds"),
        (lambda t: t.run(1.0), TypeError, "int"),
        (lambda t: t.fit((3, 5)), TypeError, "init"),
        (lambda t: line(object()), TypeError, "init"),
        (lambda t: line(o.Adam), TypeError, "the class Adam"),
        (lambda t: t.fit((o.SGD, 3)), TypeError, "the class SGD"),
        (lambda t: o.Trainer(3, qb.array(1.0), o.Adam()), TypeError, "function"),
        (lambda t: o.Trainer(fit_loss, {}, o.Adam()), ValueError, "no parameters"),
        (lambda t: line(batch_argnums=("x",)), TypeError, "batch_argnums"),
        (
            lambda t: o.Trainer(fit_loss, qb.array(1.0), o.Adam(), 1.0, batch_argnums=1),
            ValueError,
            "without params, are 0 to 0",
        ),
    ],
)
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call(line())


def test_a_schedule_that_turns_bad_raises_with_its_step():
    trainer = line(o.SGD(lambda step: 0.5 - 0.1 * step))
    with pytest.raises(ValueError, match="at step 6"):
        trainer.run(20)
    with pytest.raises(ValueError, match="at step 6"):
        line(o.Adam(lambda step: qb.where(step > 5.0, math.nan, 0.1))).fit(20)


def test_new_data_has_the_structure_of_the_old():
    def loss(p, x):
        return qb.mean((p * (x["at"] if isinstance(x, dict) else x) - 1.0) ** 2)

    trainer = o.Trainer(loss, qb.array(0.0), o.SGD(0.1), qb.ones((3,)), batch_argnums=0)
    for bad in ([1.0, 2.0], {"at": qb.ones((3,))}, None):
        with pytest.raises(
            ValueError, match=r"Trainer.step: the new data argument 0 has the structure .*, the data had"
        ):
            trainer.step(bad)
        with pytest.raises(ValueError, match="Trainer.fit: sample: the new data argument 0"):
            trainer.fit(1, sample=lambda draw, params, bad=bad: (bad,))
    trainer.step(qb.ones((5,)))
    later = o.Trainer(loss, qb.array(0.0), o.SGD(0.1), None, batch_argnums=0)  # None stands for data that comes later
    assert later.step({"at": qb.ones((2,))}).item() == 1.0


def test_terms_are_arrays_of_one_dtype():
    trainer = o.Trainer(lambda p: {"size": p**2, "offset": 2}, qb.array(1.0), o.SGD(0.1))
    assert [(k, v.item()) for k, v in trainer.terms().items()] == [("offset", 2.0), ("size", 1.0)]
    for kind in (collections.OrderedDict, lambda **terms: collections.defaultdict(float, terms)):
        for two in (2, np.float32(2), np.float64(2), np.array(2.0), qb.array(2.0)):
            trainer = o.Trainer(lambda p, kind=kind, two=two: kind(size=p**2, offset=two), qb.array(1.0), o.SGD(0.1))
            assert trainer.step().item() == 3.0
            assert [(k, v.item()) for k, v in trainer.terms().items()] == [("offset", 2.0), ("size", 1.0 * 0.8**2)]
            assert trainer.history["offset"].tolist() == [2.0]
    mixed = o.Trainer(lambda p: {"a": p, "b": qb.astype(p, qb.float32)}, qb.array(1.0), o.SGD(0.1))
    with pytest.raises(ValueError, match=r"terms of the loss differ in dtype, .*'b': 'f32'.*astype"):
        mixed.step()


def test_a_fit_without_a_step_tells_the_loss():
    info = o.Trainer(lambda p: 0.0 * p + 3.0, qb.array(1.0), o.LBFGS()).fit(5)
    assert (info.steps, info.loss, info.reason) == (0, 3.0, "gradient_tolerance")


def rate_with_an_if(step):
    return 0.1 * math.exp(-float(step) / 50) if step >= 3 else [0.3, 0.2, 0.1][int(step)]


@pytest.mark.parametrize("make", [lambda r: o.SGD(r), lambda r: o.Adam(r, clip_norm=0.5)])
def test_a_schedule_may_look_at_the_step(make, tmp_path):
    def trainer():
        return o.Trainer(
            lambda p, x: qb.sum((p - x) ** 2), qb.zeros((3,)), make(rate_with_an_if), qb.arange(3.0), batch_argnums=0
        )

    opt, p = make(rate_with_an_if), qb.zeros((3,))
    state = opt.init(p)
    for _ in range(200):
        p, state = opt.update(p, 2.0 * (p - qb.arange(3.0)), state)
    whole = trainer()
    whole.run(200)
    assert whole.params.tolist() == p.tolist()
    assert whole.history["learning_rate"].tolist() == [rate_with_an_if(s) for s in range(200)]
    part, later = trainer(), trainer()
    part.run(70)
    part.checkpoint(tmp_path / "a")
    later.resume(tmp_path / "a")
    later.step(qb.arange(3.0))
    later.fit(129)
    assert later.params.tolist() == p.tolist()
    assert later.history["loss"].tolist() == whole.history["loss"].tolist()


def test_a_schedule_that_looks_and_turns_bad_raises_before_the_step():
    trainer = o.Trainer(lambda p: p**2, qb.array(1.0), o.SGD(lambda step: 0.1 if step < 2 else -0.1))
    with pytest.raises(ValueError, match="schedule gives -0.1 at step 2"):
        trainer.run(5)
    assert trainer.steps == 2 and trainer.params.item() == pytest.approx(0.64)


def test_rules_of_fit_look_at_its_own_losses(tmp_path):
    trainer = o.Trainer(lambda p, x: (p - x) ** 2, qb.array(0.0), o.Adam(0.05), 1.0, batch_argnums=0)
    assert trainer.fit(1000, target=1e-6).reason == "target"
    trainer.step(9.0)  # other data: the best loss so far is of the past
    info = trainer.fit(1000, target=1e-6)
    assert info.reason == "target" and info.steps > 100 and info.loss < 1e-3
    trainer.step(18.0)
    assert trainer.fit(2000, target=1e-6, patience=50).reason == "target"
    # A fit that is resumed goes on counting.
    trainer = o.Trainer(lambda p: p - p, qb.array(0.0), o.SGD(0.1))
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(1000, patience=300, every=20, callback=interrupt_at(200))
    trainer.checkpoint(tmp_path / "a")
    later = o.Trainer(lambda p: p - p, qb.array(0.0), o.SGD(0.1))
    later.resume(tmp_path / "a")
    info = later.fit(1000, patience=300, every=20, callback=lambda t: False)
    assert info.reason == "patience" and 300 <= later.steps < 500


def interrupt_at(step):
    def callback(trainer):
        if trainer.steps >= step:
            raise KeyboardInterrupt

    return callback
