"""The examples, in their real or a short form, with their error bounds."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def examples_on_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


def test_readme_prints_exactly_its_line():
    run = subprocess.run([sys.executable, EXAMPLES / "readme.py"], capture_output=True, text=True, check=True)
    assert run.stdout == "w = 3.141593, loss = 1.5e-13\n"


def test_poisson_reaches_its_error(tmp_path):
    import poisson

    p = poisson.train(3000)
    assert poisson.max_error(p) <= 5e-4
    poisson.plot(p, tmp_path / "poisson.png")
    assert (tmp_path / "poisson.png").read_bytes().startswith(b"\x89PNG")


def test_burgers_learns_and_draws(tmp_path):
    import burgers

    p = burgers.train(adam=400, moving=500, last=300).params
    x, t, found, truth = burgers.fields(p, 41, 21)
    assert np.linalg.norm(found - truth) / np.linalg.norm(truth) < 0.2  # the whole run: at most 0.02
    burgers.plot(x, t, found, truth, tmp_path / "burgers.png")
    assert (tmp_path / "burgers.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif("QUABLA_EXHAUSTIVE" not in os.environ, reason="make exhaustive: trains for half a minute")
def test_burgers_reaches_its_error():
    import burgers

    _, _, found, truth = burgers.fields(burgers.train().params)
    assert np.linalg.norm(found - truth) / np.linalg.norm(truth) <= 0.02


def test_the_inverse_problem_finds_the_coefficient():
    import inverse

    for seed in range(2):
        k = np.exp(inverse.train(seed).params["log_k"].item())
        assert abs(k / inverse.TRUE_K - 1) < 0.02


def test_the_heat_equation_reaches_its_error(tmp_path):
    import heat

    trainer = heat.train()
    assert heat.relative_error(trainer.params) <= 5e-3
    assert list(trainer.history) == ["step", "loss", "ends", "equation", "start", "learning_rate"]


def test_poisson_in_two_dimensions_reaches_its_error():
    import poisson2d

    trainer = poisson2d.train()
    assert poisson2d.max_error(trainer.params) <= 5e-3


def test_the_exact_burgers_solution_satisfies_its_equation():
    import burgers

    x, t, h = np.linspace(-0.6, 0.6, 7) + 0.05, 0.3, 1e-4
    u = burgers.exact(x, t)
    u_t = (burgers.exact(x, t + h) - burgers.exact(x, t - h)) / (2 * h)
    right, left = burgers.exact(x + h, t), burgers.exact(x - h, t)
    residual = u_t + u * (right - left) / (2 * h) - burgers.NU * (right - 2 * u + left) / h**2
    assert np.abs(residual).max() < 1e-4
