"""Graphs are the same by any compiler: no call of the core builds two of its operands.

C leaves the order of arguments and of initialisers open, and the order of builder calls is the order of nodes.
"""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = ("src/ir", "src/transform", "src/ops", "src/plan")
HIDDEN = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'", re.DOTALL)
CALL = re.compile(r"\b(\w+)\s*\(")
READERS = {"graph_val", "const_node", "operand"}  # they return a value that is there already
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof"}
TABLES = {"UNARY", "BINARY", "STRUCT", "COMPOSITE"}


def plain(text):
    """The text without comments and strings, line by line as it was."""
    return HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), text)


def sources():
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.[ch]"))]
    return {path.relative_to(ROOT): plain(path.read_text()) for path in [*paths, ROOT / "src/ops.h"]}


def builders(texts):
    """Functions that return a value, those of the rows of ops.h, and K of its derivative columns."""
    rows = re.findall(r"^(?:UNARY|BINARY)\(\s*(\w+)", texts[pathlib.Path("src/ops.h")], re.MULTILINE)
    own = {name for text in texts.values() for name in re.findall(r"\bVal\s+\*?(\w+)\s*\(", text)}
    return (own | {"g" + row for row in rows} | {"K", "inline_run"}) - READERS


def groups(text):
    """(where it opens, its parts) of every pair of parentheses or braces."""
    open_ = []
    for i, c in enumerate(text):
        if c in "([{":
            open_.append((i, [i + 1]))
        elif c == "," and open_:
            open_[-1][1].extend((i, i + 1))
        elif c in ")]}" and open_:
            start, cuts = open_.pop()
            cuts.append(i)
            yield start, [text[a:b] for a, b in zip(cuts[::2], cuts[1::2], strict=True)]


def together(text, start, parts):
    """Are the parts evaluated in no given order: arguments, or a list of values?"""
    before = text[:start].rstrip()
    if text[start] == "{":
        return before.endswith((")", "=", "]")) and not any(";" in part for part in parts)
    name = re.search(r"(\w+)$", before[-80:])
    return text[start] == "(" and name and name[1] not in KEYWORDS | TABLES


def faults(text, names):
    for start, parts in groups(text):
        built = sum(any(call in names for call in CALL.findall(part)) for part in parts)
        if built > 1 and together(text, start, parts):
            yield text[:start].count("\n") + 1, " ".join(text[start - 12 : start + 80].split())


def test_no_call_builds_two_of_its_operands():
    texts = sources()
    names = builders(texts)
    assert {"gadd", "gwhere", "vmap_lift", "d_sqrt"} <= names
    found = [f"{path}:{line}: {what}" for path, text in texts.items() for line, what in faults(text, names)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text, count",
    [
        ("z = gadd(gsin(x), gcos(y));", 1),
        ("UNARY( tan, F, gadd(K(1), gmul(z, z)), tan )", 1),
        ("Val v[] = {gsin(x), f(gcos(x))};", 1),
        ("h((Val[]){gsin(x), gcos(x)}, 2);", 1),
        ("z = gadd(gsin(x), y); w = gcos(gsin(x));", 0),
        ("if (gsin(x)) { gcos(x); gsin(y); }", 0),
        ('/* gadd(gsin(x), gcos(y)) */ z = g("gsin(x), gcos(y)");', 0),
    ],
)
def test_the_search_finds_them(text, count):
    assert len(list(faults(plain(text), {"gadd", "gmul", "gsin", "gcos", "K"}))) == count
