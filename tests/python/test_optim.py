"""Optimizers, schedules and the Trainer."""

import math

import numpy as np
import pytest
import quabla as qb


def reference_adam(p, grads, lr, b1=0.9, b2=0.999, eps=1e-8):
    """Adam as the paper's algorithm 1 has it, in NumPy."""
    m, v = np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
        p = p - lr(t - 1) * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    return p


@pytest.mark.parametrize("rate", [0.1, qb.optim.exponential_decay(0.1, 3, 0.5)], ids=["number", "schedule"])
def test_adam_equals_the_papers_algorithm(rate):
    rng = np.random.default_rng(0)
    p, grads = rng.normal(size=(3, 2)), rng.normal(size=(20, 3, 2))
    adam = qb.optim.Adam(rate)
    params, state = {"w": qb.array(p)}, adam.init({"w": qb.array(p)})
    for g in grads:
        params, state = adam.update(params, {"w": qb.array(g)}, state)
    want = reference_adam(p, grads, (lambda t: 0.1 * 0.5 ** (t / 3)) if callable(rate) else (lambda t: 0.1))
    np.testing.assert_allclose(params["w"].numpy(), want, rtol=1e-12)
    assert state["step"].item() == 20.0


def test_adam_keeps_float64_moments_for_float32_parameters():
    adam = qb.optim.Adam(0.1)
    params = [qb.array([1.0, 2.0], dtype=qb.float32)]
    params, state = adam.update(params, [qb.array([0.5, -0.5], dtype=qb.float32)], adam.init(params))
    assert params[0].dtype is qb.float32
    assert state["m"][0].dtype is qb.float64


def test_adam_sets_subnormal_moments_to_zero():
    adam = qb.optim.Adam(0.1)
    params = [qb.array([1.0])]
    _, state = adam.update(params, [qb.array([1e-310])], adam.init(params))
    assert state["m"][0].tolist() == [0.0]
    assert state["v"][0].tolist() == [0.0]


def test_adam_step_is_stateful_and_equals_update():
    params = {"a": qb.array([1.0, -1.0])}
    grads = {"a": qb.array([0.3, 0.2])}
    stateful, pure = qb.optim.Adam(0.05), qb.optim.Adam(0.05)
    state, p, q = pure.init(params), params, params
    for _ in range(5):
        p = stateful.step(p, grads)
        q, state = pure.update(q, grads, state)
    assert p["a"].tolist() == q["a"].tolist()


def test_update_is_the_same_inside_jit():
    adam = qb.optim.Adam(0.1, clip_norm=0.5)
    params, grads = [qb.array([1.0, 2.0])], [qb.array([3.0, -4.0])]
    eager = adam.update(params, grads, adam.init(params))
    traced = qb.jit(lambda p, g, s: adam.update(p, g, s))(params, grads, adam.init(params))
    assert qb.tree.map(lambda t: t.tolist(), eager) == qb.tree.map(lambda t: t.tolist(), traced)


def test_adamw_decays_the_old_parameter():
    opt = qb.optim.AdamW(0.1, weight_decay=0.5)
    p, _ = opt.update([qb.array([2.0])], [qb.array([0.0])], opt.init([qb.array([2.0])]))
    assert p[0].tolist() == [pytest.approx(2.0 - 0.1 * 0.5 * 2.0)]


def test_sgd_has_no_state_but_a_step_with_a_schedule():
    assert qb.optim.SGD(0.1).init([]) is None
    opt = qb.optim.SGD(qb.optim.piecewise_constant([1], [1.0, 0.5]))
    p, state = [qb.array([1.0])], opt.init([qb.array([1.0])])
    for want in (0.0, -0.5):
        p, state = opt.update(p, [qb.array([1.0])], state)
        assert p[0].tolist() == [want]
    assert state["step"].item() == 2.0


def test_clip_scales_the_joint_norm():
    grads, norm = qb.optim.clip_by_global_norm([qb.array([3.0]), qb.array([4.0])], 1.0)
    assert norm.item() == 5.0
    np.testing.assert_allclose([g.tolist()[0] for g in grads], [0.6, 0.8], rtol=1e-15)


def test_clip_survives_huge_gradients_and_gives_nan_for_infinite_ones():
    grads, norm = qb.optim.clip_by_global_norm([qb.array([3e200, 4e200])], 1.0)
    assert norm.item() == pytest.approx(5e200)
    np.testing.assert_allclose(grads[0].tolist(), [0.6, 0.8])
    grads, _ = qb.optim.clip_by_global_norm([qb.array([math.inf]), qb.array([1.0])], 1.0)
    assert all(math.isnan(g.tolist()[0]) for g in grads)


def test_schedules_have_the_figures_of_their_formulas():
    warm = qb.optim.warmup_cosine_decay(0.0, 0.1, 10, 100)
    np.testing.assert_allclose([warm(s).item() for s in (0, 5, 10, 55, 100)], [0, 0.05, 0.1, 0.05, 0], atol=1e-17)
    stairs = qb.optim.exponential_decay(1.0, 10, 0.5, transition_begin=5, staircase=True, end_value=0.25)
    assert [stairs(s).item() for s in (0, 14, 15, 25, 90)] == [1.0, 1.0, 0.5, 0.25, 0.25]
    steps = qb.optim.piecewise_constant([2, 5], [1.0, 0.5, 0.1])
    assert [steps(s).item() for s in (0, 1, 2, 4, 5)] == [1.0, 1.0, 0.5, 0.5, 0.1]
    assert qb.optim.cosine_decay(1.0, 10, alpha=0.1)(100).item() == pytest.approx(0.1)
    assert qb.optim.constant(0.3)(12).item() == 0.3


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: qb.optim.Adam(0.0), "learning_rate"),
        (lambda: qb.optim.Adam(math.nan), "learning_rate"),
        (lambda: qb.optim.Adam(b1=1.0), "b1"),
        (lambda: qb.optim.Adam(eps=0.0), "eps"),
        (lambda: qb.optim.Adam(clip_norm=-1.0), "clip_norm"),
        (lambda: qb.optim.AdamW(weight_decay=-1.0), "weight_decay"),
        (lambda: qb.optim.exponential_decay(1.0, 0, 0.5), "transition_steps"),
        (lambda: qb.optim.cosine_decay(1.0, -1), "decay_steps"),
        (lambda: qb.optim.warmup_cosine_decay(0, 1, 10, 5), "warmup_steps"),
        (lambda: qb.optim.piecewise_constant([1, 1], [1, 2, 3]), "ascend"),
        (lambda: qb.optim.piecewise_constant([1], [1]), "values"),
        (lambda: qb.optim.clip_by_global_norm([qb.array([1.0])], 0.0), "max_norm"),
    ],
)
def test_bad_settings_are_value_errors_that_name_them(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_schedule_that_turns_negative_raises_when_it_is_used():
    opt = qb.optim.SGD(lambda step: qb.sub(0.5, step))
    p, state = [qb.array([1.0])], opt.init([qb.array([1.0])])
    p, state = opt.update(p, [qb.array([1.0])], state)
    with pytest.raises(ValueError, match="schedule gives -0.5 at step 1"):
        opt.update(p, [qb.array([1.0])], state)


def test_update_names_the_leaf_that_does_not_fit():
    adam = qb.optim.Adam()
    params = {"layer": {"w": qb.array([1.0, 2.0])}}
    with pytest.raises(ValueError, match="layer/w"):
        adam.update(params, {"layer": {"w": qb.array([1.0])}}, adam.init(params))
    with pytest.raises(ValueError, match="structure"):
        adam.update(params, {"other": qb.array([1.0])}, adam.init(params))


def fit_loss(p, x, y):
    return qb.mean((p["w"] * x + p["b"] - y) ** 2)


def fit_data():
    x = qb.linspace(-1, 1, 32)
    return x, 3.0 * x - 0.5


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
