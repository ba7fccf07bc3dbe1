"""The C tests, the C examples and the IR programs, once per build: as released, under ASan and UBSan, and for aarch64.

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
IR_FILES = sorted(path.relative_to(ROOT) for path in ROOT.glob("tests/ir/*.ir"))
# Not run under the emulator, which gives up when a process with threads forks.
FORKS = {pathlib.Path("tests/c/test_pool")}


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


def run(build, program, *args):
    """Runs one program of a build; its output is the report when it fails."""
    path = ROOT / build / program
    assert path.is_file(), f"{build}/{program} was not built: run make test"
    wrapper = QEMU if build == "build-neon" else []
    env = dict(os.environ, **SANITIZER_OPTIONS)
    done = subprocess.run([*wrapper, path, *args], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}"


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_c_program_exits_with_zero(program, build):
    if build == "build-neon" and program in FORKS:
        pytest.skip("qemu-user cannot fork a process with threads")
    run(build, program)


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("file", IR_FILES, ids=str)
def test_ir_programs_give_what_they_expect(file, build):
    run(build, "tests/c/run_ir", file)


def test_there_are_c_tests_examples_and_ir_programs():
    assert {path.parts[0] for path in PROGRAMS} == {"tests", "examples"}
    assert IR_FILES
