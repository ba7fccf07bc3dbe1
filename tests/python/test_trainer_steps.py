"""Steps of a Trainer: what one and many of them do, on what data, and what cannot be trained."""

import pytest
import quabla as qb
from test_trainer import fit_data


def fit_loss(p, x, y):
    return qb.mean((p["w"] * x + p["b"] - y) ** 2)


def test_trainer_fits_a_line_with_the_known_loss():
    x, y = fit_data()
    trainer = qb.optim.Trainer(fit_loss, {"w": qb.array(0.0), "b": qb.array(0.0)}, qb.optim.Adam(0.1), x, y)
    trainer.run(300)
    assert trainer.loss().item() == pytest.approx(6.49e-14, rel=0.05)
    assert trainer.params["w"].item() == pytest.approx(3.0, abs=1e-5)


def test_trainer_equals_value_and_grad_and_update_bit_for_bit():
    x, y = fit_data()
    params = {"w": qb.array(0.0), "b": qb.array(0.0)}
    trainer = qb.optim.Trainer(fit_loss, params, qb.optim.Adam(0.1), x, y)
    adam, step = qb.optim.Adam(0.1), qb.jit(qb.value_and_grad(fit_loss))
    state = adam.init(params)
    for _ in range(10):
        value, grads = step(params, x, y)
        params, state = adam.update(params, grads, state)
        assert trainer.step().item() == value.item()
    assert {k: v.item() for k, v in trainer.params.items()} == {k: v.item() for k, v in params.items()}


def test_trainer_run_is_as_many_steps():
    x, y = fit_data()
    params = {"w": qb.array(0.0), "b": qb.array(0.0)}
    one = qb.optim.Trainer(fit_loss, params, qb.optim.Adam(0.1), x, y)
    many = qb.optim.Trainer(fit_loss, params, qb.optim.Adam(0.1), x, y)
    for _ in range(7):
        last = one.step()
    assert many.run(7).item() == last.item()
    assert many.params["w"].item() == one.params["w"].item()


def test_trainer_does_not_touch_the_arrays_it_was_given():
    w = qb.array([1.0, 2.0])
    trainer = qb.optim.Trainer(lambda p: qb.sum(p**2), w, qb.optim.SGD(0.1))
    kept = trainer.params
    trainer.run(5)
    assert w.tolist() == [1.0, 2.0]
    assert kept.tolist() == [1.0, 2.0]
    held = trainer.params
    before = held.tolist()
    trainer.run(5)
    assert held.tolist() == before


def test_trainer_takes_batches():
    trainer = qb.optim.Trainer(
        lambda p, x, k: qb.mean((p - x) ** 2) * k,
        qb.array(0.0),
        qb.optim.SGD(0.5),
        qb.zeros((2,)),
        1.0,
        batch_argnums=0,
    )
    trainer.step(qb.array([4.0, 6.0]))
    assert trainer.params.item() == 5.0
    with pytest.raises(ValueError, match="batch"):
        trainer.step()
    trainer.step(qb.array([1.0, 2.0, 3.0]))  # a batch of another size is traced anew
    assert trainer.params.item() == 2.0


def test_a_parameter_that_the_loss_ignores_stays():
    trainer = qb.optim.Trainer(lambda p: p["a"] ** 2, {"a": qb.array(1.0), "b": qb.array(7.0)}, qb.optim.Adam(0.1))
    trainer.run(3)
    assert trainer.params["b"].item() == 7.0


def test_trainer_progress_prints_plain_lines_without_a_terminal(capsys):
    x, y = fit_data()
    trainer = qb.optim.Trainer(fit_loss, {"w": qb.array(0.0), "b": qb.array(0.0)}, qb.optim.Adam(0.1), x, y)
    trainer.run(50, progress=True)
    text = capsys.readouterr().err
    assert "step 50/50" in text
    assert "steps/s" in text
    assert "\r" not in text


def test_trainer_names_what_it_cannot_train():
    adam = qb.optim.Adam()
    with pytest.raises(TypeError, match="'w'.*float"):
        qb.optim.Trainer(lambda p: p["w"], {"w": 1.0}, adam)
    with pytest.raises(TypeError, match="bool"):
        qb.optim.Trainer(lambda p: p, qb.array(True), adam)
    with pytest.raises(ValueError, match="batch_argnums 3"):
        qb.optim.Trainer(lambda p, x: p * x, qb.array(1.0), adam, qb.array(1.0), batch_argnums=3)
    trainer = qb.optim.Trainer(lambda p: p * qb.ones((2,)), qb.array(1.0), adam)
    with pytest.raises(ValueError, match="scalar"):
        trainer.step()
    with pytest.raises(ValueError, match="at least 1"):
        trainer.run(0)
