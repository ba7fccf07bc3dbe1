"""Every float32 through every one-argument function: is each result correctly rounded, and if not, within one ulp?

python tests/math/exhaustive.py              all 2^32 inputs; about 40 minutes on two cores
python tests/math/exhaustive.py --step 4099  every 4099th
python tests/math/exhaustive.py --page       all, and write the numbers into docs/accuracy.md
"""

import argparse
import os
import struct
import subprocess
import sys
import tempfile

import gmpy2
import library
import page
from ulp import REFERENCE, Error

FLAGS = ["-Wno-unused-function", "-lm"]


def program(folder):
    """exhaustive.c, compiled for this machine's best level."""
    path = os.path.join(folder, "exhaustive")
    flags = [f for f in library.FLAGS if f not in ("-fPIC", "-shared")] + library.LEVELS[library.levels()[-1]][0]
    source = os.path.join(library.HERE, "exhaustive.c")
    subprocess.run([*library.compiler().split(), *flags, source, "-o", path, *FLAGS], check=True)
    return path


def of_bits(u):
    return struct.unpack("<f", struct.pack("<I", u))[0]


def judge(name, pairs):
    """(results that are not correctly rounded, largest error in ulps, its input) among doubtful (input, result) bit patterns."""
    wrong, high, where, error = 0, 0.5, None, Error(24, -125, 128)
    for i, o in pairs:
        exact = REFERENCE[name](gmpy2.mpfr(of_bits(i)))
        e = error.of(of_bits(o), exact)
        wrong += e > 0.5
        if e > high:
            high, where = e, of_bits(i)
    return wrong, high, where


def check(path, name, step, jobs):
    cuts = [2**32 * k // jobs // step * step for k in range(jobs)] + [2**32]
    running = [
        subprocess.Popen([path, name, str(a), str(b), str(step)], stdout=subprocess.PIPE, text=True)
        for a, b in zip(cuts, cuts[1:])
    ]
    pairs, tested = [], 0
    for p in running:
        for line in p.communicate()[0].splitlines():
            first, second = line.split()
            if first == "tested":
                tested += int(second)
            else:
                pairs.append((int(first), int(second)))
        if p.returncode:
            sys.exit(f"exhaustive {name}: exit {p.returncode}")
    return tested, len(pairs), *judge(name, pairs)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--step", type=int, default=1, help="test every step-th bit pattern")
    parser.add_argument("--page", action="store_true", help="write docs/accuracy.md")
    parser.add_argument("only", nargs="*", help="functions to test (all)")
    options = parser.parse_args()
    gmpy2.get_context().precision = 120
    failed, rows = 0, {}
    with tempfile.TemporaryDirectory() as folder:
        path = program(folder)
        print(f"{'function':10} {'inputs':>10} {'doubtful':>9} {'not rounded':>11} {'worst ulp':>10}")
        for name in [
            n for n in REFERENCE if n not in ("pow", "atan2", "hypot") and (not options.only or n in options.only)
        ]:
            tested, doubtful, wrong, high, where = check(path, name, options.step, os.cpu_count() or 1)
            bad = high > 1.0
            failed += bad
            rows[name] = (tested, wrong, high)
            print(
                f"{name:10} {tested:10} {doubtful:9} {wrong:11} {high:10.6f} {where if where is not None else ''}{'   FAILED' if bad else ''}",
                flush=True,
            )
    if options.page:
        page.write32(rows)
    print("all within bounds" if not failed else f"{failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
