"""Write docs/functions.md: every op of the table src/ops.h with its class, its error bound and what it does.

python tools/docs.py            write the file
python tools/docs.py --check    exit 1 when the file is not what would be written
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs/functions.md"
ROW = re.compile(r"^(UNARY|BINARY|STRUCT)\(\s*(.*?)\s*\)\s*$", re.MULTILINE)
OPERANDS = {"F": "float64, float32", "B": "bool", "A": "any"}
HIDDEN = {"input", "constant"}  # nodes of a program, called by nobody
HEAD = """# Functions

Written by `make docs` from the op table `src/ops.h`. "ulp" is the bound of the error in float64, in units in the last
place, which the tests measure against MPFR; 0 says exact or correctly rounded. A float32 result is the float64 result,
rounded.
"""


def fields(row):
    """The columns of a row: split at the commas outside brackets and strings."""
    out, depth, quoted = [""], 0, False
    for c in row:
        quoted ^= c == '"'
        depth += 0 if quoted else (c in "([") - (c in ")]")
        if c == "," and not depth and not quoted:
            out.append("")
        else:
            out[-1] += c
    return [field.strip().strip('"') for field in out]


def page(text):
    """The page for the text of ops.h."""
    rows = [(kind, fields(row)) for kind, row in ROW.findall(text)]
    elementwise = [
        f"| `{f[0]}` | {1 if kind == 'UNARY' else 2} | {OPERANDS[f[1]]} | {'bool' if f[2] == 'bool' else 'the same'} "
        f"| {f[-2]} | {f[-1]} |"
        for kind, f in rows
        if kind != "STRUCT"
    ]
    others = [
        f"| `{f[0]}` | {'any' if f[1] == '-1' else f[1]} | {f[-1]} |"
        for kind, f in rows
        if kind == "STRUCT" and f[0] not in HIDDEN
    ]
    return "\n".join(
        [
            HEAD,
            "## Elementwise",
            "",
            "| op | operands | dtype | result | ulp | what it is |",
            "| --- | --- | --- | --- | --- | --- |",
            *elementwise,
            "",
            "## Others",
            "",
            "| op | operands | what it is |",
            "| --- | --- | --- |",
            *others,
            "",
        ]
    )


def main():
    text = page((ROOT / "src/ops.h").read_text())
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text() != text:
            sys.exit("docs/functions.md is older than src/ops.h: run make docs")
        return
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
