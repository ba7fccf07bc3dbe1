"""The elementary functions: error against MPFR, special points, and the same bits from every compiler and ISA level.

tests/math holds the programs; each prints a table and fails where a bound of src/ops.h is exceeded.
"""

import os
import pathlib
import subprocess
import sys

import pytest

MATH = pathlib.Path(__file__).parents[1] / "math"


@pytest.mark.parametrize("program", ["ulp.py", "bits.py"])
def test_math_program_finds_no_fault(program):
    run = subprocess.run([sys.executable, MATH / program], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_float32_results_are_correctly_rounded_or_one_ulp_off():
    step = "1" if os.environ.get("QUABLA_EXHAUSTIVE") else "65537"
    run = subprocess.run([sys.executable, MATH / "exhaustive.py", "--step", step], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_page_of_measured_errors_lists_every_function_with_a_bound():
    import quabla as qb

    page = (MATH.parents[1] / "docs/accuracy.md").read_text()
    for row in qb._core._ops():
        if row["ulp"]:
            assert f"| `{row['name']}` | {row['ulp']:g} | " in page
