"""The extension under ASan and UBSan: what reads files and moves memory by hand runs its own tests there, with a longer fuzz run."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from test_c import SANITIZER_OPTIONS, has_sanitizers

ROOT = pathlib.Path(__file__).parents[2]
FILES = [
    "test_io.py",
    "test_random.py",
    "test_lbfgs.py",
    "test_trainer.py",
    "test_trainer_steps.py",
    "test_checkpoints.py",
    "test_interrupts.py",
    "test_machine_code.py",
    "test_convert.py",
    "test_interop.py",
    "test_view.py",
    "test_index.py",
    "test_shape.py",
    "test_numpy_manners.py",
]


@pytest.mark.skipif("QUABLA_EXHAUSTIVE" not in os.environ, reason="make exhaustive: builds the extension once more")
@pytest.mark.skipif(not has_sanitizers(), reason="the compiler has no ASan and UBSan here")
def test_files_random_numbers_trainings_and_arrays_are_clean_under_sanitizers(tmp_path):
    def run(*command, **env):
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-8000:]
        return done.stdout

    options = ["-Dbuildtype=debugoptimized", "-Db_sanitize=address,undefined", "-Db_lundef=false"]
    run("meson", "setup", str(tmp_path / "build"), *options)
    run("ninja", "-C", str(tmp_path / "build"), "-j2")
    package = shutil.copytree(ROOT / "python/quabla", tmp_path / "quabla")
    (extension,) = (tmp_path / "build").glob("_core.*.so")
    shutil.copy(extension, package)
    libraries = [
        run(os.environ.get("CC", "cc"), f"-print-file-name=lib{name}.so").strip() for name in ("asan", "ubsan")
    ]
    env = {
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",  # CPython keeps memory until the end
        "UBSAN_OPTIONS": SANITIZER_OPTIONS["UBSAN_OPTIONS"],
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(tmp_path),
        "QUABLA_FUZZ": "40000",
    }
    assert str(tmp_path) in run(sys.executable, "-c", "import quabla; print(quabla.__file__)", **env)
    tests = [f"tests/python/{name}" for name in FILES]
    assert " passed" in run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, **env)
