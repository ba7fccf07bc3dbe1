"""docs/accuracy.md: the measured errors, one table for float64 (ulp.py) and one for float32 (exhaustive.py)."""

import pathlib
import re

PAGE = pathlib.Path(__file__).parents[2] / "docs/accuracy.md"
HEAD = """# Accuracy

Errors of the elementwise functions against MPFR, in units in the last place of the exact result: 0.5 is correct rounding. The tests
measure them and fail above the bound.

## float64

Largest error over the whole range, the intervals where the methods change, and hard cases (`python tests/math/ulp.py --page` writes
this table). Every CPU, number of threads and instruction set gives the same bits.

"""
MIDDLE = """
## float32

A float32 result is the float64 result, rounded once. How many of the 2^32 inputs were tested for this table, how many results are not
correctly rounded, and the largest error (`python tests/math/exhaustive.py --page` writes it). `make exhaustive` tests every input.

"""
ROW = re.compile(r"^\| `(\w+)` \| (.*) \|$", re.M)


def read():
    """({function: cells of the float64 table}, the same of the float32 table)"""
    text = PAGE.read_text() if PAGE.is_file() else ""
    first, _, second = text.partition("## float32")
    return [{name: cells.split(" | ") for name, cells in ROW.findall(part)} for part in (first, second)]


def write(rows64, rows32):
    lines = ["| function | bound | largest error |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {' | '.join(cells)} |" for name, cells in rows64.items()]
    below = ["| function | inputs | not correctly rounded | largest error |", "| --- | --- | --- | --- |"]
    below += [f"| `{name}` | {' | '.join(cells)} |" for name, cells in rows32.items()]
    PAGE.write_text(HEAD + "\n".join(lines) + "\n" + MIDDLE + "\n".join(below) + "\n")


def cells64(rows):
    return {name: [f"{bound:g}", f"{high:.3f}"] for name, (bound, high) in rows.items()}


def write64(rows):
    """rows: {name: (bound, largest error)}"""
    write({**read()[0], **cells64(rows)}, read()[1])


def write32(rows):
    """rows: {name: (inputs, not correctly rounded, largest error)}"""
    write(
        read()[0],
        {**read()[1], **{name: [str(n), str(wrong), f"{high:.7f}"] for name, (n, wrong, high) in rows.items()}},
    )
