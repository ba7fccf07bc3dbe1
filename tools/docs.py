"""Write docs/functions.md: every array function, from the op table, the composites, the extension and the package's Python files.

python tools/docs.py            write the file
python tools/docs.py --check    exit 1 when the file is not what would be written
"""

import ast
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs/functions.md"
ROW = re.compile(r"^(UNARY|BINARY|STRUCT|COMPOSITE)\(\s*(.*?)\s*\)\s*$", re.MULTILINE)
C_DOC = re.compile(r'"(\w+)(\([^"]*?\))\\n--\\n\\n((?:[^"\\]|\\[^n])*)')
OPERANDS = {"F": "float64, float32", "B": "bool", "A": "any"}
HIDDEN = {"input", "constant"}  # nodes of a program, called by nobody
TRANSFORMS = {"grad", "jit", "jvp", "value_and_grad", "vjp", "vmap"}  # functions of functions
HEAD = """# Functions

Written by `make docs` from the sources. All functions take arrays, numbers, nested lists and NumPy arrays; those whose first
argument is an array are methods as well. All are differentiable to any order, and run eagerly, compiled and batched with the same
bits. `help(quabla.NAME)` says more.

## Elementwise

"ulp" is the bound of the error in float64, in units in the last place, which the tests measure against MPFR; 0 says exact or
correctly rounded. A float32 result is the float64 result, rounded. A function without a bound is a composition of others.
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


def sentence(doc):
    """The first sentence of a docstring, without its full stop."""
    text = " ".join(doc.split("\n\n")[0].split())
    return re.split(r"(?<!\.)\. ", text)[0].rstrip(".").replace("|", "\\|")


def public():
    """Public names of the package that are functions, and for the composed ones their module."""
    tree = ast.parse((ROOT / "python/quabla/__init__.py").read_text())
    names, modules = [], {}
    for node in tree.body:
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        if node.targets[0].id in ("_FUNCTIONS", "_BUILTIN_NAMES"):
            names += ast.literal_eval(node.value)
        if node.targets[0].id == "_COMPOSED":
            for module, listed in zip(node.value.keys, node.value.values):
                modules.update(dict.fromkeys(ast.literal_eval(listed).split(), module.id))
    return names, modules


def from_c():
    """{name: (signature, sentence)} of the functions whose docs stand in the extension."""
    out = {}
    for path in sorted((ROOT / "python/ext").glob("*.c")):
        text = re.sub(r'"\s*(?:FLOATS|SHAPE)\s*(?:OVER\s*)?"', r"\\n", path.read_text())  # shared sentences of ext.h
        text = re.sub(r'"\s*"', "", text)
        for name, signature, doc in C_DOC.findall(text):
            out.setdefault(name, (signature, sentence(doc.replace('\\"', '"').split("\\n")[0])))
    return out


def from_python(modules):
    """The same for the composed functions."""
    out = {}
    for module in sorted(set(modules.values())):
        for node in ast.parse((ROOT / f"python/quabla/{module}.py").read_text()).body:
            if isinstance(node, ast.FunctionDef) and modules.get(node.name) == module:
                out[node.name] = (f"({ast.unparse(node.args)})", sentence(ast.get_docstring(node)))
    return out


def page():
    """The page's text."""
    rows = [(kind, fields(row)) for kind, row in ROW.findall((ROOT / "src/ops.h").read_text())]
    composites = [fields(row) for _, row in ROW.findall((ROOT / "src/composites.h").read_text())]
    names, modules = public()
    written = {**from_c(), **from_python(modules)}
    elementwise = [
        f"| `{f[0]}` | {1 if kind == 'UNARY' else 2} | {OPERANDS[f[1]]} | {'bool' if f[2] == 'bool' else 'the same'} | {f[-2]} | {f[-1]} |"
        for kind, f in rows
        if kind != "STRUCT"
    ]
    elementwise += [
        f"| `{f[0]}` | {f[2]} | float64, float32 | {'bool' if f[1] == 'TEST' else 'the same'} | | {f[3]} |"
        for f in composites
        if f[1] in ("ELEMENT", "TEST")
    ]
    shown = {f[0] for kind, f in rows if kind != "STRUCT"} | {f[0] for f in composites if f[1] in ("ELEMENT", "TEST")}
    more = [
        n
        for n in [*names, *modules]
        if n in written and n not in TRANSFORMS and (n not in shown or n in ("clip", "gelu", "nan_to_num"))
    ]
    others = [f"| `{n}{written[n][0]}` | {written[n][1]} |" for n in sorted(more)]
    structural = [
        f"| `{f[0]}` | {'any' if f[1] == '-1' else f[1]} | {f[-1]} |"
        for kind, f in rows
        if kind == "STRUCT" and f[0] not in HIDDEN
    ]
    return "\n".join(
        [
            HEAD,
            "| function | operands | dtype | result | ulp | what it is |",
            "| --- | --- | --- | --- | --- | --- |",
            *elementwise,
            "| `power` | 2 | float64, float32 | the same | 2.5 | the same as `pow`; a non-negative int exponent is `powi` |",
            "",
            "## Others",
            "",
            "| function | what it is |",
            "| --- | --- |",
            *others,
            "",
            "## Ops of a program",
            "",
            "What `jit(f).lower(...).as_text()` shows besides the elementwise functions with a bound.",
            "",
            "| op | operands | what it is |",
            "| --- | --- | --- |",
            *structural,
            "",
        ]
    )


def main():
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.is_file() or PAGE.read_text() != text:
            sys.exit("docs/functions.md is older than the sources: run make docs")
        return
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
