"""The vector kernels compile for aarch64 from the same text: clang checks it with no library of that machine.

Where Debian's cross compiler and qemu-user are installed, test_c.py also runs the C tests built for aarch64.
"""

import json
import pathlib
import platform
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CLANG = shutil.which("clang")

pytestmark = [
    pytest.mark.skipif(CLANG is None, reason="no clang here"),
    pytest.mark.skipif(platform.machine() == "aarch64", reason="here the build itself is the check"),
]


def isa_sources():
    """The files that the normal build compiles once per ISA level, from its record of commands."""
    commands = json.loads((ROOT / "build/compile_commands.json").read_text())
    files = {(ROOT / "build" / c["file"]).resolve() for c in commands if "-DISA=v3" in c["command"]}
    return sorted(files)


@pytest.fixture
def aarch64_includes(tmp_path):
    """This machine's C headers, with the two that depend on the CPU replaced: LP64 is all that the others ask about."""
    for name, text in {"bits/wordsize.h": "#define __WORDSIZE 64\n", "gnu/stubs.h": ""}.items():
        path = tmp_path / name
        path.parent.mkdir()
        path.write_text(text)
    here = subprocess.run([CLANG, "-print-multiarch"], capture_output=True, text=True).stdout.strip()
    return ["-isystem", tmp_path, "-idirafter", f"/usr/include/{here or 'x86_64-linux-gnu'}"]


def compile_for_aarch64(path, includes):
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-Wno-unknown-pragmas"]
    target = ["--target=aarch64-linux-gnu", "-std=gnu17", "-DISA=neon"]
    folders = [*includes, f"-I{ROOT}/src", f"-I{ROOT}/include"]
    command = [CLANG, "-fsyntax-only", *target, *warnings, *folders, path]
    return subprocess.run(command, capture_output=True, text=True)


def test_isa_sources_compile_for_aarch64(aarch64_includes):
    sources = isa_sources()
    assert sources, "no file was compiled per ISA level"
    for path in sources:
        run = compile_for_aarch64(path, aarch64_includes)
        assert run.returncode == 0, run.stderr[-4000:]


def test_the_check_knows_aarch64_from_x86(tmp_path, aarch64_includes):
    good, bad = tmp_path / "good.c", tmp_path / "bad.c"
    good.write_text("#include <arm_neon.h>\nfloat64x2_t f(float64x2_t x) { return vfmaq_f64(x, x, x); }\n")
    bad.write_text("#include <immintrin.h>\n__m256d f(__m256d x) { return _mm256_add_pd(x, x); }\n")
    assert compile_for_aarch64(good, aarch64_includes).returncode == 0
    assert compile_for_aarch64(bad, aarch64_includes).returncode != 0
