"""Optimizers and schedules."""

import copy
import doctest
import importlib
import math
import pickle

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


# Six steps from OPTAX_START along optax_grads, by optax 0.2.6 in float64: the two parameters afterwards.
OPTAX_START = {"a": [1.0, -2.0, 0.5], "b": 3.0}
OPTAX = {
    "adam": (
        lambda o: o.Adam(0.1),
        [0.4172736862944355, -1.7646640360302581, 0.08379426860622187, 2.8617686366055923],
    ),
    "adam betas": (
        lambda o: o.Adam(0.05, b1=0.8, b2=0.95, eps=1e-3),
        [0.7013619253587849, -1.9079480999456118, 0.31175785319423827, 2.938570342359772],
    ),
    "adam schedule": (
        lambda o: o.Adam(o.exponential_decay(0.1, 3, 0.5)),
        [0.6458821170681207, -1.7856914247754285, 0.20851999919688555, 2.8792008694561133],
    ),
    "adam clip": (
        lambda o: o.Adam(0.1, clip_norm=0.5),
        [0.42184731849813367, -1.7554575967506683, 0.0577995227589797, 2.877214213093416],
    ),
    "adamw": (
        lambda o: o.AdamW(0.1, weight_decay=0.01),
        [0.412748984182312, -1.7538266434399368, 0.08214812118315898, 2.8444021143215683],
    ),
    "sgd": (lambda o: o.SGD(0.1), [0.36999999999999994, -2.03, 0.35, 3.0]),
    "sgd momentum": (
        lambda o: o.SGD(0.1, momentum=0.9),
        [-0.4859836999999999, -1.9604371999999999, -0.5892985000000002, 2.8446357000000004],
    ),
    "sgd nesterov": (
        lambda o: o.SGD(0.1, momentum=0.9, nesterov=True),
        [-0.9673853299999999, -1.99439348, -0.6303686500000003, 2.8601721299999996],
    ),
    "sgd schedule": (
        lambda o: o.SGD(o.warmup_cosine_decay(0.0, 0.1, 2, 6), momentum=0.5),
        [0.513150779195712, -2.0015586895984594, 0.23991947465401608, 2.985007852138369],
    ),
    "rmsprop": (
        lambda o: o.RMSprop(0.1),
        [-0.5332926538360614, -2.1360015627517237, 0.17893490130906103, 2.881438621086552],
    ),
    "rmsprop decay": (
        lambda o: o.RMSprop(0.01, decay=0.99, eps=1e-4),
        [0.5325310992095804, -2.0362056601823233, 0.39058810523444826, 2.9601415940071716],
    ),
    "lion": (lambda o: o.Lion(0.1), [0.40000000000000013, -2.0, 0.30000000000000004, 3.0]),
    "lion decay": (
        lambda o: o.Lion(0.1, b1=0.8, b2=0.95, weight_decay=0.01),
        [0.395512981514394, -1.988928161529388, 0.09850549150689707, 2.982344340744582],
    ),
}


def optax_grads(i):
    return {"a": qb.array([0.3 * (i + 1), -0.2 + 0.1 * i, 1.5 - 0.5 * i]), "b": qb.array(0.7 * (-1.0) ** i)}


def six_steps(opt, way):
    params = {k: qb.array(v) for k, v in OPTAX_START.items()}
    if way == "trainer":  # in one plan with a loss that has these gradients
        trainer = qb.optim.Trainer(
            lambda p, g: qb.sum(p["a"] * g["a"]) + p["b"] * g["b"], params, opt, optax_grads(0), batch_argnums=0
        )
        for i in range(6):
            trainer.step(optax_grads(i))
        return trainer.params
    state, update = opt.init(params), opt.update if way == "eager" else qb.jit(lambda *a: opt.update(*a))
    for i in range(6):
        params, state = update(params, optax_grads(i), state)
    return params


@pytest.mark.parametrize("name", OPTAX)
@pytest.mark.parametrize("way", ["eager", "jit", "trainer"])
def test_optimizers_have_the_values_of_optax(name, way):
    make, want = OPTAX[name]
    params = six_steps(make(qb.optim), way)
    assert qb.tree.map(lambda p: p.tolist(), params) == qb.tree.map(
        lambda p: p.tolist(), six_steps(make(qb.optim), "eager")
    )
    tolerance = 1e-7 if "schedule" in name else 1e-12  # optax takes the rate of a counted step in float32
    np.testing.assert_allclose([*params["a"].tolist(), params["b"].item()], want, rtol=tolerance)


STEPS = (0, 1, 4, 7, 15, 25, 40)
OPTAX_SCHEDULES = [
    (
        lambda o: o.exponential_decay(0.1, 10, 0.5),
        [
            0.1,
            0.09330329915368074,
            0.0757858283255199,
            0.06155722066724582,
            0.03535533905932738,
            0.01767766952966369,
            0.00625,
        ],
    ),
    (
        lambda o: o.exponential_decay(0.1, 10, 0.5, transition_begin=5, staircase=True, end_value=0.02),
        [0.1, 0.1, 0.1, 0.1, 0.05, 0.025, 0.02],
    ),
    (
        lambda o: o.exponential_decay(0.1, 10, 1.5, end_value=0.3),
        [
            0.1,
            0.10413797439924107,
            0.11760790225246737,
            0.1328201239943334,
            0.18371173070873836,
            0.27556759606310754,
            0.3,
        ],
    ),
    (
        lambda o: o.exponential_decay(0.1, 10, 0.5, transition_begin=3),
        [
            0.1,
            0.1,
            0.09330329915368074,
            0.0757858283255199,
            0.043527528164806206,
            0.021763764082403103,
            0.007694652583405726,
        ],
    ),
    (
        lambda o: o.cosine_decay(0.1, 20),
        [0.1, 0.0993844170297569, 0.09045084971874738, 0.07269952498697733, 0.014644660940672627, 0.0, 0.0],
    ),
    (
        lambda o: o.cosine_decay(0.1, 20, alpha=0.1),
        [0.1, 0.0994459753267812, 0.09140576474687263, 0.07542957248827961, 0.023180194846605367, 0.01, 0.01],
    ),
    (
        lambda o: o.warmup_cosine_decay(0.01, 0.1, 5, 20, end_value=0.001),
        [0.01, 0.028, 0.082, 0.09572050015330874, 0.02575, 0.001, 0.001],
    ),
]


@pytest.mark.parametrize(("make", "want"), OPTAX_SCHEDULES)
def test_schedules_have_the_values_of_optax(make, want):
    rate = make(qb.optim)
    np.testing.assert_allclose([rate(s).item() for s in STEPS], want, rtol=1e-12, atol=1e-18)
    np.testing.assert_allclose(
        qb.vmap(rate)(qb.array([float(s) for s in STEPS])).tolist(), want, rtol=1e-12, atol=1e-18
    )


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


@pytest.mark.parametrize(
    ("make", "changes"),
    [
        (lambda **k: qb.optim.SGD(**k), {"learning_rate": 0.5}),
        (lambda **k: qb.optim.SGD(**k), {"momentum": 0.5}),
        (lambda **k: qb.optim.Adam(**k), {"learning_rate": qb.optim.exponential_decay(0.1, 2, 0.5)}),
        (lambda **k: qb.optim.Adam(**k), {"b1": 0.5, "eps": 0.1}),
        (lambda **k: qb.optim.AdamW(**k), {"weight_decay": 0.5}),
        (lambda **k: qb.optim.Lion(**k), {"clip_norm": 0.1, "b2": 0.5}),
        (lambda **k: qb.optim.RMSprop(**k), {"decay": 0.5, "eps": 0.0}),
    ],
)
def test_a_setting_may_change_between_updates(make, changes):
    """From the change on, updates are those of an optimizer that was made with the new setting, from the same state."""
    changed, wanted = make(learning_rate=0.1), make(**{"learning_rate": 0.1, **changes})
    trainer = qb.optim.Trainer(lambda p: p**2, qb.array(1.0), make(learning_rate=0.1))
    p, state = qb.array(1.0), changed.init(qb.array(1.0))
    for _ in range(3):
        p, state = changed.update(p, 2.0 * p, state)
        trainer.step()
    for name, value in changes.items():
        setattr(changed, name, value)
        setattr(trainer._optimizer, name, value)
    if qb.tree.structure(state) != qb.tree.structure(wanted.init(p)):
        state = wanted.init(p)
    q, other = p, state
    for _ in range(3):
        p, state = changed.update(p, 2.0 * p, state)
        q, other = wanted.update(q, 2.0 * q, other)
        trainer.step()
    assert p.item() == q.item() == trainer.params.item()
    assert len(trainer.history["loss"].tolist()) == trainer.steps == 6


def test_a_setting_of_lbfgs_may_change_between_runs():
    lbfgs = qb.optim.LBFGS(tolerance_grad=10.0)
    trainer = qb.optim.Trainer(lambda p: (p - 2.0) ** 4, qb.array(0.0), lbfgs)
    trainer.run(50)
    assert trainer.params.item() < 1.5
    lbfgs.tolerance_grad = 1e-8
    trainer.run(50)
    assert abs(trainer.params.item() - 2.0) < 1e-2


def test_a_bad_setting_is_refused_when_it_is_set():
    adam = qb.optim.Adam(0.1)
    for name, value in (("learning_rate", -1.0), ("b1", 1.0), ("eps", 0.0), ("clip_norm", math.nan)):
        with pytest.raises(ValueError, match=f"Adam: {name}"):
            setattr(adam, name, value)
    assert (adam.learning_rate, adam.b1, adam.clip_norm) == (0.1, 0.9, None)
    lbfgs = qb.optim.LBFGS()
    for name, value in (
        ("history", 0),
        ("max_iterations", 0),
        ("max_evaluations", 0),
        ("tolerance_grad", -1.0),
        ("line_search", "no"),
    ):
        with pytest.raises(ValueError, match=f"LBFGS: {name}"):
            setattr(lbfgs, name, value)
    assert (lbfgs.history, lbfgs.max_iterations, lbfgs.max_evaluations) == (10, 500, None)


def test_optimizers_can_be_copied_and_pickled():
    p, g = {"w": qb.array(1.0)}, {"w": qb.array(2.0)}
    for o in (
        qb.optim.Adam(0.1),
        qb.optim.AdamW(0.1),
        qb.optim.SGD(0.1, momentum=0.5),
        qb.optim.RMSprop(),
        qb.optim.Lion(),
    ):
        want = o.update(p, g, o.init(p))[0]["w"].item()
        for other in (copy.copy(o), copy.deepcopy(o), pickle.loads(pickle.dumps(o))):
            assert other.update(p, g, other.init(p))[0]["w"].item() == want
            other.learning_rate = 0.5
            assert other.update(p, g, other.init(p))[0]["w"].item() != want
        assert o.update(p, g, o.init(p))[0]["w"].item() == want


def test_adam_step_takes_its_parameters_by_name():
    p = qb.optim.Adam(0.1).step(parameters={"w": qb.array(1.0)}, gradients={"w": qb.array(2.0)})
    assert round(p["w"].item(), 6) == 0.9


def test_numbers_may_come_from_numpy():
    o, f = qb.optim, np.float32(0.5)
    assert o.Adam(f, b1=f, eps=np.array(0.25), clip_norm=np.int64(3)).clip_norm == 3.0
    assert o.SGD(qb.array(0.25), momentum=np.float16(0.5), nesterov=np.True_).learning_rate == 0.25
    assert o.LBFGS(history=np.int64(4), max_iterations=np.int32(7), tolerance_grad=f).max_iterations == 7
    for schedule in (
        o.constant(f),
        o.exponential_decay(f, np.int64(10), np.float32(0.5), transition_begin=np.int64(50), staircase=np.False_),
        o.cosine_decay(np.array(0.5), np.int64(1), alpha=np.float32(1.0)),
        o.piecewise_constant(np.array([5, 9]), np.array([0.5, 0.25, 0.125], dtype=np.float32)),
        o.piecewise_constant((5, 9), qb.array([0.5, 0.25, 0.125])),
        o.warmup_cosine_decay(f, f, np.int64(4), np.int64(9)),
    ):
        assert schedule(3).item() == 0.5 and schedule(3).dtype is qb.float64
    trainer = o.Trainer(lambda p: p**2, qb.array(1.0), o.SGD(0.1))
    trainer.run(np.int64(2))
    trainer.fit((o.SGD(0.1), np.int64(3)), target=f * 0, seconds=np.float32(60))
    assert trainer.steps == 5
    for bad in (np.True_, np.complex64(1), qb.array(True), "1", np.float32):
        with pytest.raises(TypeError, match="Adam: b1 is a number"):
            o.Adam(b1=bad)
    with pytest.raises(ValueError, match=r"Adam: learning_rate is one number, not an array of shape \[1\]"):
        o.Adam(np.ones(1))


def test_the_other_names_of_adams_settings_mean_the_same():
    one, two = qb.optim.Adam(0.1, 0.8, 0.95, 1e-6), qb.optim.Adam(0.1, beta1=0.8, beta2=0.95, epsilon=1e-6)
    p, g = qb.array([1.0, -2.0]), qb.array([0.3, 0.1])
    assert one.step(p, g).tolist() == two.step(p, g).tolist()
    assert (two.b1, two.b2, two.eps) == (0.8, 0.95, 1e-6)


def test_clipping_keeps_dtypes_and_takes_the_norm_in_float64():
    grads = {"a": qb.array([3e30, 4e30], dtype=qb.float32), "b": qb.array(0.0)}
    clipped, norm = qb.optim.clip_by_global_norm(grads, 1.0)
    assert (clipped["a"].dtype, clipped["b"].dtype, norm.dtype) == (qb.float32, qb.float64, qb.float64)
    assert norm.item() == pytest.approx(5e30, rel=1e-7)
    np.testing.assert_allclose(clipped["a"].tolist(), [0.6, 0.8], rtol=1e-7)
    same, norm = qb.optim.clip_by_global_norm([qb.array([0.3, 0.4])], 1.0)
    assert same[0].tolist() == [0.3, 0.4]
    tiny, norm = qb.optim.clip_by_global_norm([qb.array([3e-310, 4e-310])], 1e-310)
    np.testing.assert_allclose(tiny[0].tolist(), [0.6e-310, 0.8e-310], rtol=1e-10)


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
        (lambda: qb.optim.SGD(momentum=1.0), "momentum"),
        (lambda: qb.optim.SGD(nesterov=True), "momentum"),
        (lambda: qb.optim.SGD(math.inf), "learning_rate"),
        (lambda: qb.optim.RMSprop(decay=-0.1), "decay"),
        (lambda: qb.optim.RMSprop(eps=math.nan), "eps"),
        (lambda: qb.optim.Lion(b2=2.0), "b2"),
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


def test_an_eager_update_asks_the_schedule_for_the_step_itself():
    seen = []

    def rate(step):
        seen.append(float(step))
        return np.float64(0.5) if step < 2 else math.exp(-float(step))

    opt = qb.optim.SGD(rate)
    p, state = qb.array(1.0), opt.init(qb.array(1.0))
    for _ in range(4):
        p, state = opt.update(p, qb.array(1.0), state)
    assert seen == [0.0, 1.0, 2.0, 3.0]
    assert p.item() == 1.0 - 0.5 - 0.5 - math.exp(-2.0) - math.exp(-3.0)


def test_update_names_the_leaf_that_does_not_fit():
    adam = qb.optim.Adam()
    params = {"layer": {"w": qb.array([1.0, 2.0])}}
    with pytest.raises(ValueError, match="layer/w"):
        adam.update(params, {"layer": {"w": qb.array([1.0])}}, adam.init(params))
    with pytest.raises(ValueError, match="structure"):
        adam.update(params, {"other": qb.array([1.0])}, adam.init(params))


def test_update_names_what_the_state_lacks():
    adam, params = qb.optim.Adam(), {"a": qb.ones((2,)), "b": qb.array(1.0)}
    with pytest.raises(ValueError, match=r"m/a has shape \[3\]"):
        adam.update(params, params, adam.init({"a": qb.ones((3,)), "b": qb.array(1.0)}))
    for state in (None, {}, adam.init({"a": qb.ones((2,))})):
        with pytest.raises(ValueError, match="init"):
            adam.update(params, params, state)
    with pytest.raises(ValueError, match="init"):
        qb.optim.SGD(momentum=0.9).update(params, params, None)


def test_parameters_and_gradients_are_floating_arrays():
    adam, g = qb.optim.Adam(), {"a": qb.array(1.0)}
    for bad, words in (({"a": 1.0}, "a is a float"), ({"a": qb.array(True)}, "a is a bool array")):
        with pytest.raises(TypeError, match=words):
            adam.update(bad, g, adam.init(g))
    with pytest.raises(TypeError, match="b is a bool array; gradients are floating"):
        qb.optim.clip_by_global_norm({"a": qb.array(1.0), "b": qb.array(True)}, 1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: qb.optim.Adam("fast"),
        lambda: qb.optim.Adam(b1="x"),
        lambda: qb.optim.Adam(eps=[1]),
        lambda: qb.optim.SGD(momentum=None),
        lambda: qb.optim.clip_by_global_norm([qb.array(1.0)], "1"),
        lambda: qb.optim.exponential_decay("a", 1, 0.5),
        lambda: qb.optim.piecewise_constant(["a"], [1.0, 2.0]),
        lambda: qb.optim.warmup_cosine_decay(0.0, None, 1, 2),
    ],
)
def test_settings_of_another_type_are_type_errors(make):
    with pytest.raises(TypeError, match="is a number"):
        make()


MODULES = [
    importlib.import_module(f"quabla.{name}")
    for name in (
        "_io",
        "random",
        *(f"optim.{m}" for m in ("adam", "base", "batches", "lbfgs", "schedules", "sgd", "trainer")),
    )
]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_the_examples_of_the_docstrings_print_what_they_show(module):
    result = doctest.testmod(module, extraglobs={"qb": qb})
    assert result.attempted
    assert not result.failed
