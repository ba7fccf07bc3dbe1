"""Who may include whom: the layer rule of ARCHITECTURE.md, read off the #include lines.

tables <- base <- ir <- transform <- ops <- plan <- cpu, cuda <- api.c <- (quabla.h) <- python/ext
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
TABLES = {"ops.h", "composites.h", "dtypes.h", "errors.h", "targets.h"}  # src/: rows only, they include nothing
ORDER = ["table", "math", "public", "base", "ir", "transform", "ops", "plan", "backend", "api"]
BACKENDS = {"cpu", "cuda"}


def layer(path):
    """The layer of a file, its path relative to the repository. None: a file of no layer."""
    parts = path.parts
    if parts[0] == "include":
        return "public"
    if parts[:2] == ("python", "ext"):
        return "ext"
    if parts[0] != "src":
        return None
    if len(parts) > 2:
        return "backend" if parts[1] in BACKENDS else parts[1]
    if path.name in TABLES:
        return "table"
    if path.name == "scalar.h" or path.name.startswith("vmath"):
        return "math"
    return "api" if path.name == "api.c" else None


def resolve(name, path):
    """The project file that an include names: beside the file, or under src or include. None: not ours."""
    places = (ROOT / path.parent / name, ROOT / "src" / name, ROOT / "include" / name)
    found = next((place for place in places if place.is_file()), None)
    return found.resolve().relative_to(ROOT) if found else None


def fault(path, target):
    """What is wrong with `path` including `target`, or None."""
    mine, other = layer(path), layer(target)
    if mine is None or other is None:
        return "a file of no layer"
    if mine == "table":
        return "a table includes nothing"
    if mine == "ext":
        return None if other in ("ext", "public") else "the extension includes quabla.h alone"
    if other == "ext":
        return "the core does not know Python"
    if mine == "backend" and other == "backend":
        return None if path.parts[1] == target.parts[1] else "a backend includes no other backend"
    return None if ORDER.index(other) <= ORDER.index(mine) else f"{mine} is below {other}"


def sources():
    return sorted(
        path.relative_to(ROOT)
        for folder in ("include", "src", "python/ext")
        for path in (ROOT / folder).rglob("*.[ch]")
    )


def faults(path, text):
    out = []
    for quoted, angled in INCLUDE.findall(text):
        target = resolve(quoted or angled, path)
        if target is None and quoted:
            out.append(f'{path}: "{quoted}" is not in the repository')
        elif target is None and layer(path) == "table":
            out.append(f"{path}: <{angled}>: a table includes nothing")
        elif target and (why := fault(path, target)):
            out.append(f"{path}: {target}: {why}")
    return out


def test_every_include_follows_the_layer_rule():
    found = [line for path in sources() for line in faults(path, (ROOT / path).read_text())]
    assert not found, "\n".join(found)


def test_every_source_file_belongs_to_a_layer():
    assert sources()
    layers = {path: layer(path) for path in sources()}
    assert not [str(path) for path, name in layers.items() if name not in (*ORDER, "ext")]


def test_the_public_header_needs_only_the_standard_library():
    assert not re.search(r'#\s*include\s*"', (ROOT / "include/quabla.h").read_text())


def test_no_source_file_is_longer_than_1000_lines():
    long = [path for path in sources() if (ROOT / path).read_text().count("\n") > 1000]
    assert not long


@pytest.mark.parametrize(
    "path, line",
    [
        ("src/ops.h", "#include <math.h>"),
        ("src/ops.h", '#include "errors.h"'),
        ("src/base/arena.c", '#include "ir/ir.h"'),
        ("src/ir/graph.c", ' #  include "cpu/cpu.h"'),
        ("src/plan/plan.c", '#include "cpu/cpu.h"'),
        ("src/cpu/vm.c", '#include "no_such_file.h"'),
        ("python/ext/module.c", '#include "base/base.h"'),
        ("python/ext/module.c", "#include <ops.h>"),
    ],
)
def test_a_forbidden_include_is_found(path, line):
    assert faults(pathlib.Path(path), f"/* text */\n{line}\n")


@pytest.mark.parametrize(
    "path, line",
    [
        ("src/cpu/vm.c", '#include "ir/ir.h"'),
        ("src/base/base.h", "#include <string.h>"),
        ("src/ir/ir.h", '#include "ops.h"'),
        ("python/ext/module.c", "#include <Python.h>"),
        ("python/ext/module.c", '#include "quabla.h"'),
    ],
)
def test_an_allowed_include_is_not_reported(path, line):
    assert not faults(pathlib.Path(path), line)
