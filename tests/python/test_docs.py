"""Pages that are made from the code are up to date."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def test_function_table_is_that_of_the_op_table():
    run = subprocess.run([sys.executable, ROOT / "tools/docs.py", "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
