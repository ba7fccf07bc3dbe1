"""The examples, in their real or a short form, with their error bounds."""

import functools
import importlib
import os
import pathlib
import re
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


def test_poisson_reaches_its_error():
    import poisson

    assert poisson.max_error(poisson.train(3000)) <= 2.4e-4


@pytest.mark.skipif("QUABLA_EXHAUSTIVE" not in os.environ, reason="make exhaustive: trains for half a minute")
def test_burgers_reaches_its_error():
    import burgers

    _, _, found, truth = burgers.fields(burgers.train().params)
    assert np.linalg.norm(found - truth) / np.linalg.norm(truth) <= 5e-3


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


# Each program with a shorter training: arguments of its train, the line that it prints (its number is read), and the largest number.
PROGRAMS = {
    "poisson": (dict(steps=500), r"max abs error against sin\(pi x\): (\S+)", 2e-2),
    "burgers": (dict(adam=400, moving=500, last=300), r"relative L2 error: (\S+)", 2e-2),  # the whole run: 5e-3
    "heat": (dict(adam=300, lbfgs=200), r"relative L2 error: (\S+)", 0.2),
    "poisson2d": (dict(steps=200), r"max abs error: (\S+)", 0.1),
    "inverse": (dict(adam=500, lbfgs=200), r"k = 0\.\d+, the truth is 0\.1 \((\S+) % off\)", 10.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_prints_its_error_and_draws(name, tmp_path, monkeypatch, capsys):
    short, line, most = PROGRAMS[name]
    module, picture = importlib.import_module(name), tmp_path / f"{name}.png"
    train = module.train
    monkeypatch.setattr(module, "train", lambda *_, progress, seed=0: train(**short, progress=progress))
    draws = name != "inverse"
    monkeypatch.setattr(sys, "argv", [name, "--plot", str(picture)] if draws else [name])
    module.main()
    out = capsys.readouterr()
    assert float(re.search(line, out.out)[1]) <= most
    assert re.search(r"step \d+/\d+  loss .* steps/s", out.err)
    assert not draws or (f"wrote {picture}" in out.out and picture.read_bytes().startswith(b"\x89PNG"))


def test_the_demo_shows_its_three_parts(tmp_path, monkeypatch, capsys):
    burgers, demo = importlib.import_module("burgers"), importlib.import_module("demo")

    monkeypatch.setattr(burgers, "train", functools.partial(burgers.train, adam=100, moving=50, last=50))
    monkeypatch.chdir(tmp_path)
    assert demo.main() == 0
    out = capsys.readouterr().out
    assert "w = 3.141593, loss = 1.5e-13\n" in out
    assert float(re.search(r"max abs error against sin\(pi x\): (\S+) ", out)[1]) <= 5e-4
    assert float(re.search(r"Cole-Hopf solution: (\S+) ", out)[1]) < 0.5
    assert sorted(p.name for p in (tmp_path / "demo").iterdir()) == ["burgers.png", "poisson.png"]


def test_the_exact_burgers_solution_satisfies_its_equation():
    import burgers

    x, t, h = np.linspace(-0.6, 0.6, 7) + 0.05, 0.3, 1e-4
    u = burgers.exact(x, t)
    u_t = (burgers.exact(x, t + h) - burgers.exact(x, t - h)) / (2 * h)
    right, left = burgers.exact(x + h, t), burgers.exact(x - h, t)
    residual = u_t + u * (right - left) / (2 * h) - burgers.NU * (right - 2 * u + left) / h**2
    assert np.abs(residual).max() < 1e-4
