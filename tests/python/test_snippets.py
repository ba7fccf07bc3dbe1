"""Every Python block of the README and the docs runs, in one session a page, and prints the block that follows it."""

import contextlib
import io
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
PAGES = [p for p in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))) if "```python" in p.read_text()]


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_snippets_of_a_page_print_what_it_shows(page):
    blocks, session = BLOCK.findall(page.read_text()), {}
    for i, (language, code) in enumerate(blocks):
        if language != "python":
            continue
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(code, f"{page.name}:{i}", "exec"), session)
        shown = blocks[i + 1][1] if i + 1 < len(blocks) and blocks[i + 1][0] == "" else None
        if out.getvalue():
            assert out.getvalue() == shown


def test_the_readme_has_snippets():
    assert ROOT / "README.md" in PAGES
