"""Instructions of a training step, counted by valgrind: they repeat exactly, on a busy machine too."""

import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
RUNNER = ROOT / "build/tests/c/count_run"
pytestmark = pytest.mark.skipif(
    not shutil.which("valgrind") or platform.machine() != "x86_64", reason="counts are of x86-64 under valgrind"
)

# The step of a 1-16-16-1 network on 32 points for u'' = f, Adam included: the last program that is compiled.
STEP = """
import math
import quabla as qb

def mlp(p, h):
    for w, b in p[:-1]:
        h = qb.tanh(h @ w + b)
    return qb.sum(h @ p[-1][0] + p[-1][1])

def u(x, p):
    return mlp(p, x.reshape([1, 1]))

u_xx = qb.vmap(qb.grad(qb.grad(u)), in_axes=(0, None))
u_at = qb.vmap(u, in_axes=(0, None))

def loss(p, x, ends):
    return qb.mean((u_xx(x, p) + math.pi**2 * qb.sin(math.pi * x)) ** 2) + 10 * qb.mean(u_at(ends, p) ** 2)

sizes = (1, 16), (16, 16), (16, 1)
p = [(qb.ones(s), qb.zeros((s[1],))) for s in sizes]
x, ends = qb.linspace(0.02, 0.98, 32), qb.array([0.0, 1.0])
qb.optim.Trainer(loss, p, qb.optim.Adam(1e-3), x, ends).step()
"""


def instructions(program, runs, folder):
    """Instructions of count_run with so many runs."""
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/counts", RUNNER, program, str(runs)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return int(re.search(r"refs:\s+([\d,]+)", done.stderr)[1].replace(",", ""))


@pytest.fixture(scope="module")
def step(tmp_path_factory):
    done = subprocess.run(
        [sys.executable, "-c", STEP], capture_output=True, text=True, env=dict(os.environ, QUABLA_DUMP="dce")
    )
    assert done.returncode == 0, done.stderr
    path = tmp_path_factory.mktemp("counts") / "step.ir"
    path.write_text(done.stderr.rpartition("---- after dce\n")[2])
    return path


def test_a_step_of_32_points_takes_a_known_number_of_instructions(step, tmp_path):
    assert RUNNER.is_file(), "count_run was not built: run make test"
    once, often = (instructions(step, runs, tmp_path) for runs in (1, 21))
    # 131,400 with gcc 12 on AVX2, which valgrind has; more than half of it in products.
    assert (often - once) / 20 < 135_000


def test_compiling_a_step_takes_a_known_number_of_instructions(step, tmp_path):
    # 3.6 million, reading the text of the program included.
    assert instructions(step, 0, tmp_path) < 4_500_000
