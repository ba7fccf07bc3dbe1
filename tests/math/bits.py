"""One text, one result: driver.c built for every instruction set level of this machine by every
compiler found gives the same bytes, those of NaN included. Needs only C compilers.

The baseline build, which has no fma instruction and calls the C library's, is compared apart from
the signs and payloads of NaN: it is not a level that is shipped.
"""

import array
import itertools
import random
import shutil
import struct
import sys

import library

COUNT = 60000


def operand(rng, code):
    """Any bit pattern (NaN and infinities too), values around 1, small integers, signed zeros."""
    size, fmt = (64, "<Q") if code == "d" else (32, "<I")
    values = array.array(code)
    for _ in range(COUNT // 4):
        values.frombytes(struct.pack(fmt, rng.getrandbits(size)))
    values.extend(rng.choice((-1, 1)) * 2 ** rng.uniform(-20, 20) for _ in range(COUNT // 4))
    values.extend(rng.uniform(-2, 2) for _ in range(COUNT // 2))
    values.extend(float(rng.randrange(-8, 9)) for _ in range(COUNT // 8))
    values.extend((0.0, -0.0, float("inf"), -float("inf")))
    return values


def results(lib, operands):
    for table, code in (("math_rows", "d"), ("math_rows32", "f")):
        for name, arity, _ in lib.rows(table):
            yield name, lib.call("math_" + name, *operands[code][:arity])


def plain(a):
    """Bytes of an array with every NaN replaced by one."""
    return array.array(a.typecode, (v if v == v else float("nan") for v in a)).tobytes()


def differ(level, got, first):
    """Names of the functions whose results are not those of the first build."""
    read = plain if level == "baseline" else array.array.tobytes
    return [name for name in got if read(got[name]) != read(first[name])]


def main():
    rng = random.Random(3)
    operands = {code: [operand(rng, code) for _ in range(2)] for code in "df"}
    for code, (a, b) in operands.items():
        pairs = list(zip(a, b))
        rng.shuffle(pairs)
        operands[code] = [array.array(code, column) for column in zip(*pairs)]
    compilers = [c for c in ("gcc", "clang") if shutil.which(c)] or [library.compiler()]
    failed, first = 0, None
    for cc, level in itertools.product(compilers, reversed(library.levels())):
        got = dict(results(library.Library(level, cc), operands))
        first = first or got
        wrong = differ(level, got, first)
        failed += len(wrong)
        verdict = f"{' '.join(wrong)} differ   FAILED" if wrong else "same bits"
        print(f"{cc:6} {level:9} {len(got)} functions: {verdict}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
