"""The C tests and the C examples, each program once per build: as released, under ASan and UBSan, and for aarch64.

`make test` builds them before this file runs. A program that was not built is a failure.
"""

import os
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1",  # a huge size is an error of ours, not theirs
    "UBSAN_OPTIONS": "print_stacktrace=1",
}
QEMU = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
PROGRAMS = sorted(
    path.relative_to(ROOT).with_suffix("")
    for pattern in ("tests/c/test_*.c", "examples/c/*.c")
    for path in ROOT.glob(pattern)
)


def has_sanitizers():
    return subprocess.run(["sh", ROOT / "tools/check_toolchain.sh", "--sanitizers"]).returncode == 0


def has_neon():
    return all(shutil.which(tool) for tool in ("aarch64-linux-gnu-gcc", QEMU[0]))


BUILDS = [
    "build",
    pytest.param(
        "build-san",
        marks=pytest.mark.skipif(not has_sanitizers(), reason="the compiler has no ASan and UBSan here"),
    ),
    pytest.param(
        "build-neon",
        marks=pytest.mark.skipif(not has_neon(), reason="no aarch64-linux-gnu-gcc and qemu-aarch64 here"),
    ),
]


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_c_program_exits_with_zero(program, build):
    path = ROOT / build / program
    assert path.is_file(), f"{build}/{program} was not built: run make test"
    env = dict(os.environ, **SANITIZER_OPTIONS)
    wrapper = QEMU if build == "build-neon" else []
    run = subprocess.run([*wrapper, path], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, f"exit status {run.returncode}\n{run.stdout[-4000:]}\n{run.stderr[-8000:]}"


def test_there_are_c_tests_and_examples():
    folders = {path.parts[0] for path in PROGRAMS}
    assert folders == {"tests", "examples"}
