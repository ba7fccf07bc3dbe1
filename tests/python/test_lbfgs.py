"""LBFGS: what it finds, why it stops, and what it survives."""

import math
import os
import signal
import threading

import numpy as np
import pytest
import quabla as qb
from quabla.optim.descent import advance, begin, reason_of

LBFGS = qb.optim.LBFGS
REASONS = {"gradient_tolerance", "change_tolerance", "max_iterations", "max_evaluations", "line_search_failed"}


def rosenbrock(x):
    return qb.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def test_rosenbrock_takes_the_known_number_of_steps():
    x, info = LBFGS().minimize(rosenbrock, qb.array([-1.2, 1.0]))
    assert info.reason == "gradient_tolerance"
    assert info.converged
    assert 33 <= info.iterations <= 41
    assert 42 <= info.evaluations <= 52
    np.testing.assert_allclose(x.numpy(), 1.0, atol=1e-8)
    assert info["loss"] == rosenbrock(x).item()


def test_rosenbrock_in_100_dimensions_converges():
    solver = LBFGS(max_iterations=1000, tolerance_grad=1e-8, tolerance_change=0.0)
    x, info = solver.minimize(rosenbrock, qb.full((100,), -1.0))
    assert info.reason == "gradient_tolerance"
    assert info.grad_norm <= 1e-8
    np.testing.assert_allclose(x.numpy(), 1.0, atol=1e-6)


def test_parameters_are_a_tree_and_arguments_reach_the_function():
    def fun(p, x, y):
        return qb.mean((p["line"][0] * x + p["line"][1] - y) ** 2)

    x = qb.linspace(-1.0, 1.0, 32)
    p, info = LBFGS().minimize(fun, {"line": (qb.array(0.0), qb.array([0.0]))}, x, 3.0 * x - 0.5)
    assert p["line"][0].item() == pytest.approx(3.0, abs=1e-6)
    assert p["line"][1].tolist() == pytest.approx([-0.5], abs=1e-6)
    assert info.loss < 1e-12


def test_a_quadratic_with_a_bad_condition_is_solved():
    scale = qb.array(10.0 ** np.linspace(0, 5, 20))
    x, info = LBFGS(max_iterations=2000, tolerance_change=0.0).minimize(lambda x: qb.sum(scale * x**2), qb.ones((20,)))
    assert info.converged
    assert abs(x.numpy()).max() < 1e-6


# ---- its parts: the programs are ordinary functions, which run eagerly on values that a test makes


def drive(fun, x, **options):
    """The points that are asked for and accepted: (kind, x, value, gradient), kind "asked" or "taken"."""
    step, limits, seen = qb.jit(qb.value_and_grad(fun)), LBFGS(**options), []

    def evaluate(x):
        value, grad = step(x)
        seen.append(("asked", x.numpy(), value.item(), grad.numpy()))
        return (value, {}), grad

    like = qb.array(x)
    state, more = begin(evaluate, limits, like), True
    while more:
        seen.append(("taken", state["now"]["x"].numpy(), state["now"]["f"].item(), state["g"].numpy()))
        more = reason_of(state) == "running"
        state = advance(evaluate, limits, like, state) if more else state
    return seen


def two_loops(grad, pairs):
    """The direction of Nocedal and Wright, algorithm 7.4, in NumPy."""
    q, alphas = grad.copy(), []
    for s, y in reversed(pairs):
        alphas.append(s @ q / (s @ y))
        q -= alphas[-1] * y
    s, y = pairs[-1]
    q *= (s @ y) / (y @ y)
    for (s, y), alpha in zip(pairs, reversed(alphas)):
        q += (alpha - y @ q / (s @ y)) * s
    return -q


@pytest.mark.parametrize("n", [2, 7, 8, 33])
@pytest.mark.parametrize("history", [1, 4])
def test_the_first_trial_of_a_search_is_the_step_of_the_two_loops(n, history):
    taken, pairs, checked = None, [], 0
    for kind, x, _, grad in drive(rosenbrock, -1.2 + 0.1 * np.arange(n) % 1, history=history, max_iterations=40):
        if kind == "asked" and pairs and pairs is not checked:
            want = two_loops(taken[1], pairs[-history:])
            np.testing.assert_allclose(x - taken[0], want, rtol=1e-6, atol=1e-9 * abs(want).max())
            checked = pairs
        if kind == "taken":
            if taken is not None and (x != taken[0]).any():
                s, y = x - taken[0], grad - taken[1]
                assert s @ y > 1e-10 * np.linalg.norm(s) * np.linalg.norm(y)
                pairs = [*pairs, (s, y)]
            taken = x, grad
    assert len(pairs) >= 10


def test_every_step_has_the_strong_wolfe_conditions():
    f = g = x = None
    steps = 0
    for kind, at, value, grad in drive(rosenbrock, [-1.2, 1.0, -0.5, 2.0], tolerance_grad=1e-3):
        if kind != "taken":
            continue
        if x is not None and (at != x).any():
            step = at - x
            assert value <= f + 1e-4 * (g @ step)
            assert abs(grad @ step) <= 0.9 * abs(g @ step)
            steps += 1
        x, f, g = at, value, grad
    assert steps > 20


def test_a_search_takes_at_most_25_values_and_a_failed_one_starts_again_once():
    def wall(x):  # finite at the start alone
        return qb.sum(x) + qb.where(qb.sum(x * x) > 0.0, math.inf, 0.0)

    _, info = LBFGS().minimize(wall, qb.zeros((2,)))
    assert (info.reason, info.evaluations, info.iterations) == ("line_search_failed", 26, 0)

    scale, trials, state = np.array([1.0, 10.0, 100.0]), [], None

    def evaluate(x):  # from the fourth iteration on no step helps
        point, broken = x.numpy(), state is not None and state["iterations"].item() >= 4
        if broken:
            trials.append(point - state["now"]["x"].numpy())
        return (qb.array(math.inf if broken else 0.5 * (scale * point**2).sum()), {}), qb.array(scale * point)

    like = qb.ones((3,))
    state = begin(evaluate, LBFGS(), like)
    while reason_of(state) == "running":
        state = advance(evaluate, LBFGS(), like, state)
    last, tries = state["now"]["x"].numpy(), len(trials)
    assert reason_of(state) == "line_search_failed"
    assert state["iterations"].item() == 4
    assert 10 <= tries <= 50
    trials = [t for t in trials if np.linalg.norm(t) > 1e-6]  # below it rounding turns them
    directions = [t / np.linalg.norm(t) for t in trials]
    downhill = -scale * last / np.linalg.norm(scale * last)
    along = [bool(d @ downhill > 1 - 1e-12) for d in directions]
    assert not along[0]  # a quasi-Newton direction
    assert along == sorted(along)
    assert along[-1]  # steepest descent, to the end


def test_an_iteration_has_the_same_bits_eager_and_compiled():
    def evaluate(x):
        value, grads = qb.value_and_grad(lambda p: rosenbrock(qb.concat([p["a"], p["b"].astype(qb.float64)])))(x)
        return (value, {"half": 0.5 * value}), grads

    limits = LBFGS(history=3)
    like = {"a": qb.full((9,), -1.0), "b": qb.array([0.5, 2.0], dtype=qb.float32)}
    state = begin(evaluate, limits, like)
    compiled = qb.jit(lambda state: advance(evaluate, limits, like, state))
    for _ in range(8):
        eager, state = advance(evaluate, limits, like, state), compiled(state)
        assert [a.numpy().tobytes() for a in qb.tree.leaves(eager)] == [
            b.numpy().tobytes() for b in qb.tree.leaves(state)
        ]
    assert state["iterations"].item() >= 7
    assert state["now"]["terms"]["half"].item() == 0.5 * state["now"]["f"].item()


def test_an_iteration_is_one_plan_that_is_kept_with_the_function():
    traced = []

    def counted(x):
        traced.append(x)
        return rosenbrock(x)

    lbfgs = LBFGS(max_iterations=20)
    infos = [lbfgs.minimize(counted, qb.array([-1.2, 1.0]))[1] for _ in range(3)]
    assert infos[0] == infos[1] == infos[2]
    assert len(traced) == 2  # the first value, and the iteration
    lbfgs.max_iterations = 3
    assert lbfgs.minimize(counted, qb.array([-1.2, 1.0]))[1].iterations == 3


def runs(program):
    """How often a compiled function has run its plan."""
    return sum(entry["calls"] for cache in qb.explain(program).caches for entry in cache["entries"])


def test_a_run_is_two_plans_and_with_a_callback_an_iteration_is_one():
    def fun(x):
        return rosenbrock(x)

    lbfgs, x = LBFGS(), qb.array([-1.2, 1.0])
    begin, advance, run = lbfgs._programs(fun)
    info = lbfgs.minimize(fun, x)[1]
    assert (runs(begin), runs(advance), runs(run)) == (1, 0, 1)
    assert info.evaluations > info.iterations > 30
    lbfgs.minimize(fun, x, callback=lambda p, i: False)
    assert (runs(begin), runs(advance), runs(run)) == (2, info.iterations, 1)

    trainer = qb.optim.Trainer(fun, x, lbfgs)
    for _ in range(5):
        trainer.step()
    steps = trainer._run
    assert (runs(steps._begin), runs(steps._advance), runs(steps._run)) == (1, 5, 0)
    steps._pace = 20  # what a few milliseconds came to
    trainer.run(20)
    assert (runs(steps._begin), runs(steps._advance), runs(steps._run)) == (1, 5, 1)
    assert trainer.steps == 25


def test_no_iteration_copies_the_history(monkeypatch, capfd):
    monkeypatch.setenv("QUABLA_DUMP", "steps")
    LBFGS(history=8).minimize(lambda x: rosenbrock(x), qb.full((50,), -1.0))
    assert capfd.readouterr().err.count("slides by -400 bytes") >= 2


def test_a_trainer_makes_the_steps_of_minimize_in_any_portions():
    x, seen = qb.full((20,), -1.0), []
    LBFGS(history=3, max_iterations=60).minimize(rosenbrock, x, callback=lambda p, i: seen.append((i.loss, p.tolist())))
    for portions in ([60], [1] * 60, [7, 20, 33], [2, 58]):
        trainer = qb.optim.Trainer(rosenbrock, x, LBFGS(history=3))
        for n in portions:
            trainer.run(n)
        assert trainer.history["loss"].tolist() == [loss for loss, _ in seen]
        assert trainer.params.tolist() == seen[-1][1]


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_max_iterations_is_honoured(limit):
    _, info = LBFGS(max_iterations=limit).minimize(rosenbrock, qb.array([-1.2, 1.0]))
    assert (info.iterations, info.reason, info.converged) == (limit, "max_iterations", False)


@pytest.mark.parametrize("limit", [1, 2, 3, 10])
def test_max_evaluations_is_honoured(limit):
    calls = []

    def counted(x):
        return rosenbrock(x)

    x, info = LBFGS(max_evaluations=limit).minimize(
        counted, qb.array([-1.2, 1.0]), callback=lambda p, i: calls.append(i)
    )
    assert (info.evaluations, info.reason) == (limit, "max_evaluations")
    assert info.loss == rosenbrock(x).item() <= rosenbrock(qb.array([-1.2, 1.0])).item()


def test_change_tolerance_stops_a_run_that_gains_too_little():
    start = qb.array([-1.2, 1.0])
    losses = [rosenbrock(start).item()]
    _, info = LBFGS(tolerance_change=0.5).minimize(rosenbrock, start, callback=lambda p, i: losses.append(i.loss))
    assert info.reason == "change_tolerance"
    assert abs(losses[-1] - losses[-2]) <= 0.5 * max(abs(losses[-1]), abs(losses[-2]))
    assert all(abs(b - a) > 0.5 * max(abs(a), abs(b)) for a, b in zip(losses[:-2], losses[1:-1]))


def test_a_start_at_the_minimum_ends_at_once():
    x, info = LBFGS().minimize(rosenbrock, qb.ones((4,)))
    assert (info.iterations, info.evaluations, info.reason) == (0, 1, "gradient_tolerance")
    assert x.tolist() == [1.0] * 4


def test_a_flat_function_ends_at_once():
    _, info = LBFGS().minimize(lambda x: qb.sum(x * 0.0) + 3.0, qb.ones((3,)))
    assert (info.reason, info.loss) == ("gradient_tolerance", 3.0)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_start_without_a_finite_value_comes_back_as_it_was(bad):
    x, info = LBFGS().minimize(lambda x: qb.sum(x**2) + bad, qb.array([1.0, 2.0]))
    assert x.tolist() == [1.0, 2.0]
    assert (info.reason, info.converged, info.iterations) == ("line_search_failed", False, 0)


def test_searches_back_off_from_nan_and_infinity():
    def walled(x):  # log makes NaN below 0; the minimum is at 1e-3, close to the wall
        return qb.sum(x - 1e-3 * qb.log(x))

    x, info = LBFGS(tolerance_grad=1e-10, tolerance_change=0.0).minimize(walled, qb.array([1.0, 5.0]))
    assert info.converged
    np.testing.assert_allclose(x.numpy(), 1e-3, rtol=1e-6)
    x, info = LBFGS().minimize(lambda x: qb.exp(x) + qb.exp(-x * 30.0), qb.array(-3.0))
    assert info.converged
    assert x.item() == pytest.approx(math.log(30.0) / 31.0, abs=1e-6)


def test_an_unbounded_function_ends_with_an_honest_reason():
    _, info = LBFGS(max_iterations=50).minimize(lambda x: qb.sum(x), qb.zeros((3,)))
    assert info.reason in ("max_iterations", "line_search_failed")
    assert not info.converged
    assert info.loss < -1e3


def test_wrong_gradients_fail_the_search_and_keep_the_start():
    def uphill(x):  # the gradient that is seen is minus the true one
        return 2.0 * qb.sum(qb.stop_gradient(x) ** 2) - qb.sum(x**2)

    x, info = LBFGS().minimize(uphill, qb.array([1.0, 2.0]))
    assert info.reason == "line_search_failed"
    assert not info.converged
    assert info.loss <= 5.0
    assert info.loss == uphill(x).item()


def test_noisy_functions_never_end_at_a_worse_point():
    for seed in range(20):
        shift = 1e6 * (1 + seed)

        def noisy(x, shift=shift):  # sin of a huge argument: noise of size 1e-3 that the gradient does not show
            return qb.sum(x**2) + 1e-3 * qb.sin(qb.stop_gradient(qb.sum(x)) * shift)

        start = qb.array([3.0, -2.0])
        x, info = LBFGS(max_iterations=60).minimize(noisy, start)
        assert info.reason in REASONS
        assert info.loss <= noisy(start).item()
        assert info.loss == noisy(x).item()
        assert info.loss < 0.1


def test_float32_parameters_converge_as_far_as_float32_goes():
    x, info = LBFGS(tolerance_grad=1e-12).minimize(rosenbrock, qb.array([-1.2, 1.0], dtype=qb.float32))
    assert x.dtype is qb.float32
    assert info.loss == rosenbrock(x).item()
    np.testing.assert_allclose(x.numpy(), 1.0, atol=1e-2)
    assert info.evaluations < 500


def test_mixed_dtypes_keep_their_dtypes():
    p = {"a": qb.array([2.0, 1.0], dtype=qb.float32), "b": qb.array(5.0)}
    p, info = LBFGS().minimize(lambda p: qb.sum((p["a"].astype(qb.float64) - 0.5) ** 2) + (p["b"] - 2.0) ** 2, p)
    assert (p["a"].dtype, p["b"].dtype) == (qb.float32, qb.float64)
    assert p["b"].item() == pytest.approx(2.0, abs=1e-6)


def test_the_callback_sees_every_iteration_and_can_stop():
    seen = []

    def watch(params, info):
        assert info.loss == rosenbrock(params).item()
        seen.append(info)
        return info.iterations == 5

    x, info = LBFGS().minimize(rosenbrock, qb.array([-1.2, 1.0]), callback=watch)
    assert [i.iterations for i in seen] == [1, 2, 3, 4, 5]
    assert (info.reason, info.converged) == ("callback", False)
    assert info.loss == rosenbrock(x).item()
    losses = [i.loss for i in seen]
    assert losses == sorted(losses, reverse=True)


def test_an_exception_in_the_function_comes_out():
    def fail(params, info):
        raise KeyError("stop")

    with pytest.raises(KeyError):
        LBFGS().minimize(rosenbrock, qb.array([-1.2, 1.0]), callback=fail)


def test_ctrl_c_ends_a_run_that_is_one_plan():
    lbfgs = LBFGS(tolerance_grad=0.0, tolerance_change=0.0, history=3, max_iterations=10**9)
    lbfgs.minimize(rosenbrock, qb.full((50_000,), -1.0), callback=lambda p, info: True)
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            lbfgs.minimize(rosenbrock, qb.full((50_000,), -1.0))
    finally:
        timer.cancel()


def test_results_do_not_depend_on_threads():
    start, out = qb.full((100,), -1.0), []
    for threads in (1, 2):
        qb.set_num_threads(threads)
        out.append(LBFGS().minimize(rosenbrock, start)[0].tolist())
    qb.set_num_threads(0)
    assert out[0] == out[1]


def test_a_pinn_goes_down_as_it_should():
    """The tutorial problem: 1-16-16-1, 32 points inside and 2 at the ends; Adam, then L-BFGS to about 5e-7."""

    def u(x, p):
        h = x.reshape([1, 1])
        for w, b in p[:-1]:
            h = qb.tanh(h @ w + b)
        return qb.sum(h @ p[-1][0] + p[-1][1])

    u_xx, u_at = qb.vmap(qb.grad(qb.grad(u)), in_axes=(0, None)), qb.vmap(u, in_axes=(0, None))

    def loss(p, x, ends):
        residual = u_xx(x, p) + math.pi**2 * qb.sin(math.pi * x)
        return qb.mean(residual**2) + 10.0 * qb.mean(u_at(ends, p) ** 2)

    keys = qb.random.split(qb.random.key(0), 3)
    params = [(qb.random.glorot_normal(k, (m, n)), qb.zeros((n,))) for k, m, n in zip(keys, (1, 16, 16), (16, 16, 1))]
    x, ends = qb.linspace(0.0, 1.0, 32), qb.array([0.0, 1.0])
    adam = qb.optim.Adam(qb.optim.exponential_decay(1e-2, 1000, 0.5))
    trainer = qb.optim.Trainer(loss, params, adam, x, ends)
    trainer.run(2000)
    losses = trainer.history["loss"].tolist()
    assert 30.0 < losses[0] < 80.0
    assert losses[500] < 3e-3
    assert trainer.best_loss < 3e-4
    p, info = LBFGS().minimize(loss, trainer.params, x, ends)
    assert info.loss < 2e-6
    grid = qb.linspace(0.0, 1.0, 201)
    assert qb.max(qb.abs(u_at(grid, p) - qb.sin(math.pi * grid))).item() < 1e-4


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: LBFGS(history=0), ValueError, "history"),
        (lambda: LBFGS(history=2.0), TypeError, "history"),
        (lambda: LBFGS(max_iterations=0), ValueError, "max_iterations"),
        (lambda: LBFGS(max_evaluations=0), ValueError, "max_evaluations"),
        (lambda: LBFGS(tolerance_grad=-1.0), ValueError, "tolerance_grad"),
        (lambda: LBFGS(tolerance_change=math.nan), ValueError, "tolerance_change"),
        (lambda: LBFGS(line_search="armijo"), ValueError, "strong_wolfe"),
        (lambda: LBFGS().minimize(rosenbrock, {"a": [1.0]}), TypeError, r"params\['a'\]\[0\]"),
        (lambda: LBFGS().minimize(rosenbrock, {"a": qb.array(True)}), TypeError, "bool"),
        (lambda: LBFGS().minimize(lambda x: x, qb.ones((2,))), ValueError, "scalar"),
        (lambda: LBFGS().minimize(lambda p: qb.array(1.0), {}), ValueError, "no parameters"),
    ],
)
def test_bad_input_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_it_cannot_run_inside_a_trace():
    with pytest.raises(TypeError, match="tracer"):
        qb.jit(lambda x: LBFGS().minimize(rosenbrock, x)[0])(qb.ones((2,)))


def test_messages_about_arguments_name_the_function():
    def height(x, unit):
        return qb.sum(x**2)

    with pytest.raises(TypeError, match=r"jit\(.*height\): argument 1 is a str"):
        qb.optim.LBFGS().minimize(height, qb.ones((2,)), "m")
