"""The elementary functions: error against MPFR, special points, and the same bits from every compiler and ISA level.

tests/math holds the programs; each prints a table and fails where a bound of src/ops.h is exceeded.
"""

import pathlib
import subprocess
import sys

import pytest

MATH = pathlib.Path(__file__).parents[1] / "math"


@pytest.mark.parametrize("program", ["ulp.py", "bits.py"])
def test_math_program_finds_no_fault(program):
    run = subprocess.run([sys.executable, MATH / program], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
