"""tests/c/test.h: a failed check of each kind, or none at all, makes a C test program fail."""

import os
import pathlib
import subprocess

import pytest

HERE = pathlib.Path(__file__).parents[1] / "c"
CC = os.environ.get("CC", "cc").split()


def run(folder, body):
    source, program = folder / "t.c", folder / "t"
    source.write_text(
        '#include "test.h"\n'
        f"static void test_it(void) {{ {body} }}\n"
        "int main(void) { RUN(test_it); return test_report(); }\n"
    )
    flags = ["-std=gnu17", "-Wall", "-Wextra", "-Werror", f"-I{HERE}"]
    subprocess.run([*CC, *flags, source, "-o", program], check=True)
    return subprocess.run([program], capture_output=True, text=True)


def test_checks_that_hold_pass(tmp_path):
    body = (
        'CHECK(1 < 2); CHECK_EQ_INT(3, 3L); CHECK_EQ_STR("a", "a"); CHECK_NEAR(1.0, 1.5, 0.5);'
        "double x = -0.0; CHECK_EQ_BITS(&x, &x, sizeof x); REQUIRE(x == 0);"
    )
    done = run(tmp_path, body)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "6 checks, 0 failed\n"


@pytest.mark.parametrize(
    "body, report",
    [
        ("CHECK(1 > 2);", "failed: 1 > 2"),
        ("CHECK_EQ_INT(3, 4);", "left  3"),
        ('CHECK_EQ_STR("a", NULL);', 'right "(null)"'),
        ("double x = 0.0, y = -0.0; CHECK_EQ_BITS(&x, &y, sizeof x);", "byte 7 of 8"),
        ("CHECK_NEAR(1.0, 1.6, 0.5);", "more than 0.5 apart"),
        ('CHECK_NEAR(1.0, __builtin_nan(""), 0.5);', "right nan"),
        ('REQUIRE(0); puts("went on");', "failed: 0"),
        ("", ""),
    ],
)
def test_a_check_that_does_not_hold_fails_and_says_where(tmp_path, body, report):
    done = run(tmp_path, body)
    assert done.returncode == 1
    assert report in done.stderr and "went on" not in done.stdout
    assert not body or "t.c:2: test_it: failed" in done.stderr
