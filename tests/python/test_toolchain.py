"""A missing tool is one line that says what to install."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CHECK = ROOT / "tools/check_toolchain.sh"


def check(python=sys.executable, **env):
    run = subprocess.run(["sh", CHECK, python], env=dict(os.environ, **env), capture_output=True, text=True)
    return run.returncode, run.stderr.splitlines()


@pytest.fixture
def python(tmp_path):
    """An interpreter that answers one of the script's questions its own way."""

    def make(question, answer):
        path = tmp_path / "python3"
        path.write_text(f'#!/bin/sh\ncase "$*" in *{question}*) {answer} ;; esac\nexec {sys.executable} "$@"\n')
        path.chmod(0o755)
        return str(path)

    return make


def test_nothing_is_said_when_all_is_there():
    assert check() == (0, [])


def test_no_compiler():
    status, lines = check(CC="no-such-compiler")
    assert status == 1 and len(lines) == 1
    assert "no-such-compiler" in lines[0] and "install gcc or clang" in lines[0]


def test_a_compiler_that_cannot_compile():
    status, lines = check(CC="false")
    assert status == 1 and len(lines) == 1 and "cannot build a C17 program" in lines[0]


def test_no_python():
    status, lines = check("no-such-python")
    assert status == 1 and len(lines) == 1 and "install Python 3.10" in lines[0]


@pytest.mark.parametrize(
    "question, answer, expected",
    [
        ("'version_info <'", "exit 1", "Python 3.10 or newer is needed"),
        ("get_path", "echo /nowhere; exit", "no Python.h"),
        ("'import venv'", "exit 1", "has no venv module"),
    ],
)
def test_an_interpreter_that_lacks_something(python, question, answer, expected):
    status, lines = check(python(question, answer))
    assert status == 1 and len(lines) == 1 and expected in lines[0]
    assert "install" in lines[0] or "PYTHON=" in lines[0]


def test_make_and_pip_build_with_the_same_versions():
    pins = set((ROOT / "tools/requirements.txt").read_text().splitlines())
    requires = re.search(r"^requires = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]
    assert set(re.findall(r'"([^"]+)"', requires)) <= pins
