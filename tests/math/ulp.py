"""Accuracy of the elementwise functions against MPFR. Needs gmpy2 and a C compiler; `--dense N`
takes N times the points.

Every floating row of ops.h with a bound is sampled (whole range, critical intervals, hard cases)
and its largest error must not exceed the bound; then tables of special points and exact results are
compared bit by bit.
"""

import argparse
import array
import math
import random
import struct
import sys
from fractions import Fraction

import gmpy2
import library
import page

INF, NAN = math.inf, math.nan
TINY, MAX, MIN_NORMAL = 5e-324, sys.float_info.max, sys.float_info.min
PI_2 = math.pi / 2
EDGES = (TINY * 9, MIN_NORMAL, 2.0**-54, 2.0**-28, 0.25, 0.5, 0.75, 1.0, 2.0, 22.0, 2.0**30, 2.0**53, 2.0**60)

REFERENCE = {
    "exp": gmpy2.exp,
    "exp2": gmpy2.exp2,
    "expm1": gmpy2.expm1,
    "log": gmpy2.log,
    "log1p": gmpy2.log1p,
    "log2": gmpy2.log2,
    "log10": gmpy2.log10,
    "sin": gmpy2.sin,
    "cos": gmpy2.cos,
    "tan": gmpy2.tan,
    "arcsin": gmpy2.asin,
    "arccos": gmpy2.acos,
    "arctan": gmpy2.atan,
    "sinh": gmpy2.sinh,
    "cosh": gmpy2.cosh,
    "tanh": gmpy2.tanh,
    "sigmoid": lambda x: 1 / (1 + gmpy2.exp(-x)),
    "softplus": lambda x: gmpy2.log1p(gmpy2.exp(-abs(x))) + max(x, 0),
    "arcsinh": gmpy2.asinh,
    "arccosh": gmpy2.acosh,
    "arctanh": gmpy2.atanh,
    "erf": gmpy2.erf,
    "erfc": gmpy2.erfc,
    "cbrt": gmpy2.cbrt,
    "sqrt": gmpy2.sqrt,
    "pow": lambda x, y: x**y,
    "atan2": gmpy2.atan2,
    "hypot": gmpy2.hypot,
}

# Intervals to sample beside the whole range, uniformly: pieces meet and results saturate there.
# (low, high) of x, then of y.
INTERVALS = {
    "exp": [(-1, 1), (-745.2, -708), (708, 709.79), (-750, 750), (0.34, 0.35)],
    "exp2": [(-1, 1), (-1075.1, -1020), (1020, 1024), (-1100, 1100)],
    "expm1": [(-1, 1), (-0.36, -0.33), (0.33, 0.4), (-40, 40), (708, 709.79)],
    "log": [(0.5, 2), (0.99, 1.01), (0.7, 0.71), (1.41, 1.42), (0, 100)],
    "log1p": [(-1, 1), (-0.01, 0.01), (-0.3, -0.29), (0.41, 0.42), (1, 100)],
    "log2": [(0.5, 2), (0.99, 1.01), (0, 100)],
    "log10": [(0.5, 2), (0.99, 1.01), (0, 100)],
    "sin": [(-4, 4), (-0.6, 0.6), (1.5, 1.64), (3.1, 3.2), (-1e3, 1e3), (-1e9, 1e9), (2**29, 2**31), (-1e18, 1e18)],
    "cos": [(-4, 4), (-0.6, 0.6), (1.5, 1.64), (3.1, 3.2), (-1e3, 1e3), (-1e9, 1e9), (2**29, 2**31), (-1e18, 1e18)],
    "tan": [(-4, 4), (0.7, 0.86), (-1e3, 1e3), (-1e9, 1e9), (2**29, 2**31), (-1e18, 1e18)],
    "arcsin": [(-1, 1), (0.45, 0.55), (0.99, 1)],
    "arccos": [(-1, 1), (0.45, 0.55), (-0.55, -0.45), (0.99, 1), (-1, -0.99)],
    "arctan": [(-1, 1), (0.41, 0.42), (2.4, 2.42), (-10, 10)],
    "sinh": [(-1, 1), (0.3, 0.4), (-40, 40), (709, 710.48)],
    "cosh": [(-1, 1), (0.3, 0.4), (-40, 40), (709, 710.48)],
    "tanh": [(-1, 1), (0.17, 0.25), (0.5, 0.54), (1, 22.5), (-0.01, 0.01)],
    "sigmoid": [(-1, 1), (-40, 40), (-745.2, -700), (-0.01, 0.01)],
    "softplus": [(-1, 1), (-40, 40), (-745.2, -700), (-2, -0.5)],
    "arcsinh": [(-1, 1), (-10, 10), (1e15, 1e17)],
    "arccosh": [(1, 1.1), (1, 10), (1e15, 1e17)],
    "arctanh": [(-1, 1), (0.1, 0.4)],
    "erf": [(-1, 1), (0.7, 0.8), (-6, 6)],
    "erfc": [(-1, 1), (0.7, 0.8), (-6, 6), (6, 26.6), (26, 27.3)],
    "cbrt": [(-10, 10), (0.7, 2.9)],
    "sqrt": [(0, 10)],
    "pow": [(0, 3, -1000, 1000), (0.9, 1.1, -7000, 7000), (0, 100, -3, 3), (-9, 0, -40, 40), (0.999, 1.001, -7e5, 7e5)],
    "atan2": [(-3, 3, -3, 3), (0.4, 0.5, 1, 1), (2, 3, 1, 1), (2, 3, -1, -1)],
    "hypot": [(-3, 3, -3, 3), (0.9, 1, 0, 1)],
}


def of_bits(u):
    return struct.unpack("<d", struct.pack("<Q", u))[0]


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def any_double(rng):
    """A finite double with every exponent equally likely."""
    while True:
        x = of_bits(rng.getrandbits(64))
        if math.isfinite(x):
            return x


def near_multiples_of_half_pi():
    """The doubles closest to multiples of pi/2, in every third binade: convergents of pi/2 / 2^e."""
    with gmpy2.context(gmpy2.get_context(), precision=2600):
        half_pi = Fraction(*map(int, (gmpy2.const_pi() / 2).as_integer_ratio()))
    points = []
    for e in range(-52, 971, 3):
        m0, m1, n0, n1, rest = 1, 0, 0, 1, half_pi / 2**e if e >= 0 else half_pi * 2**-e
        for _ in range(200):
            whole = math.floor(rest)
            m0, m1, n0, n1, rest = whole * m0 + m1, m0, whole * n0 + n1, n0, rest - whole
            if m0 >= 2**53 or rest == 0:
                break
            points.append(math.ldexp(m0, e))
            rest = 1 / rest
    return points


def points(name, arity, count, rng):
    """Operand arrays for a row: more than `count` points at large, and `count` in its intervals."""
    xs = [[any_double(rng) for _ in range(count // 4)] for _ in range(arity)]
    for x in xs:
        x += [rng.choice((-1, 1)) * 2 ** rng.uniform(-30, 30) for _ in range(count)]
    if arity == 1:
        xs[0] += [s * of_bits(bits(b) + d) for s in (1, -1) for d in range(-3, 4) for b in EDGES]
        xs[0] += [rng.choice((-1, 1)) * rng.randrange(2**52) * TINY for _ in range(count // 20)]
    else:  # pairs of the edges, and of subnormal numbers of few bits
        pairs = [(s * x, t * y) for x in EDGES for y in EDGES for s in (1, -1) for t in (1, -1)]
        pairs += [
            [rng.choice((-1, 1)) * rng.getrandbits(rng.randrange(1, 53)) * TINY for _ in xs] for _ in range(count // 20)
        ]
        for x, more in zip(xs, zip(*pairs)):
            x += more
    if name in ("sin", "cos", "tan"):
        xs[0] += near_multiples_of_half_pi() + [n * PI_2 for n in range(2000)] + [1e22, -1e22]
    for interval in INTERVALS.get(name, ()):
        for i in range(arity):
            lo, hi = interval[2 * i : 2 * i + 2]
            xs[i] += [rng.uniform(lo, hi) for _ in range(count // len(INTERVALS[name]))]
    if name == "pow":
        xs[0] += [rng.uniform(-20, 20) for _ in range(count // 4)]
        xs[1] += [float(rng.randrange(-40, 40)) for _ in range(count // 4)]
    return [array.array("d", a) for a in xs]


class Error:
    """Errors in ulps of the exact result, for one format: p bits, exponents as frexp counts them."""

    def __init__(self, p=53, least=-1021, top=1024):
        self.p, self.least, self.top = p, least, top

    def of(self, got, exact):
        """|got - exact| in ulps. Infinity counts as 2^top: rounding past the largest number is no crime."""
        if gmpy2.is_nan(exact) or math.isnan(got):
            return 0.0 if gmpy2.is_nan(exact) and math.isnan(got) else INF
        limit = gmpy2.mpfr(2) ** self.top
        if abs(exact) >= limit:
            exact = limit if exact > 0 else -limit
        if math.isinf(got):
            got = limit if got > 0 else -limit
        e = self.least if exact == 0 else max(gmpy2.get_exp(exact), self.least)
        return float(abs(gmpy2.mpfr(got) - exact) * gmpy2.mpfr(2) ** (self.p - min(e, self.top)))


def worst(reference, got, operands, error):
    """(largest error, its operands). Correctly rounded results count as 0.5, with less work."""
    high, where = 0.0, ()
    for i, x in enumerate(zip(*operands)):
        exact = reference(*map(gmpy2.mpfr, x))
        if high >= 0.5 and float(exact) == got[i]:
            continue
        e = error.of(got[i], exact)
        if e > high or e != e:
            high, where = e, x
    return high, where


def report(name, bound, high, where):
    """Prints a line of the table; true when the error is over the bound."""
    verdict = "" if high <= bound else "   FAILED"
    print(f"{name:10} {bound:6.2f} {high:7.3f}  {', '.join(map(float.hex, where))}{verdict}")
    return verdict != ""


def check_accuracy(lib, count, seed, only, table):
    """Writes (bound, largest error) of each row to table."""
    failed, error = 0, Error()
    print(f"{'function':10} {'bound':>6} {'worst':>7}  at")
    for name, arity, bound in lib.rows():
        if name not in REFERENCE or (only and name not in only):
            continue
        operands = points(name, arity, count, random.Random(seed))
        high, where = worst(REFERENCE[name], lib.call("math_" + name, *operands), operands, error)
        table[name] = bound or 0.5, high
        failed += report(name, bound or 0.5, high, where)
    return failed


def check_page(table):
    """docs/accuracy.md shows what was measured."""
    shown = page.read()[0]
    missing = [name for name, cells in page.cells64(table).items() if shown.get(name) != cells]
    if missing:
        print(f"docs/accuracy.md is older than {', '.join(missing)}: python tests/math/ulp.py --page   FAILED")
    return len(missing)


def check_float32(lib, count, seed, only):
    """The native float32 functions: every 2^k-th float, so that the whole range is seen."""
    failed, error = 0, Error(24, -125, 128)
    for name, _, bound in lib.rows("math_rows32"):
        if only and name not in only:
            continue
        step = max(1, 2**32 // (2 * count) | 1)
        x = array.array("I", range(random.Random(seed).randrange(step), 2**32, step))
        x = array.array("f", x.tobytes())
        near = array.array("f", (random.Random(seed).uniform(-20, 20) for _ in range(count)))
        x = array.array("f", [v for v in x + near if math.isfinite(v)])
        high, where = worst(REFERENCE[name[:-1]], lib.call("math_" + name, x), [x], error)
        failed += report(name, bound, high, where)
    return failed


SPECIAL = {  # results that must agree exactly, the sign of zero included
    "exp": [
        (0.0, 1.0),
        (-0.0, 1.0),
        (INF, INF),
        (-INF, 0.0),
        (NAN, NAN),
        (1000.0, INF),
        (-1000.0, 0.0),
        (-745.2, 0.0),
        (709.79, INF),
        (-MAX, 0.0),
        (MAX, INF),
        (TINY, 1.0),
    ],
    "exp2": [
        (INF, INF),
        (-INF, 0.0),
        (NAN, NAN),
        (1024.0, INF),
        (-1076.0, 0.0),
        (-1075.0, 0.0),
        (MAX, INF),
        (-MAX, 0.0),
    ],
    "expm1": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (INF, INF),
        (-INF, -1.0),
        (NAN, NAN),
        (TINY, TINY),
        (-TINY, -TINY),
        (-50.0, -1.0),
        (-709.9, -1.0),
        (-800.0, -1.0),
        (-MAX, -1.0),
        (709.79, INF),
        (MAX, INF),
        (MIN_NORMAL, MIN_NORMAL),
    ],
    "log": [
        (0.0, -INF),
        (-0.0, -INF),
        (1.0, 0.0),
        (INF, INF),
        (-INF, NAN),
        (-1.0, NAN),
        (NAN, NAN),
        (-TINY, NAN),
        (-MAX, NAN),
    ],
    "log2": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (NAN, NAN)],
    "log10": [(0.0, -INF), (-0.0, -INF), (1.0, 0.0), (INF, INF), (-1.0, NAN), (NAN, NAN)],
    "log1p": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (-1.0, -INF),
        (-2.0, NAN),
        (INF, INF),
        (-INF, NAN),
        (NAN, NAN),
        (TINY, TINY),
        (-TINY, -TINY),
    ],
    "sin": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (TINY, TINY), (-TINY, -TINY)],
    "cos": [(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (TINY, 1.0)],
    "tan": [(0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN), (TINY, TINY), (1e-10, 1e-10)],
    "arcsin": [(0.0, 0.0), (-0.0, -0.0), (1.0, PI_2), (-1.0, -PI_2), (1.5, NAN), (-INF, NAN), (NAN, NAN), (TINY, TINY)],
    "arccos": [
        (1.0, 0.0),
        (-1.0, math.pi),
        (0.0, PI_2),
        (-0.0, PI_2),
        (1.5, NAN),
        (INF, NAN),
        (NAN, NAN),
        (TINY, PI_2),
    ],
    "arctan": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (INF, PI_2),
        (-INF, -PI_2),
        (NAN, NAN),
        (TINY, TINY),
        (MAX, PI_2),
        (1.0, math.pi / 4),
    ],
    "sinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (TINY, TINY), (711.0, INF), (-MAX, -INF)],
    "cosh": [(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, INF), (NAN, NAN), (711.0, INF), (-MAX, INF), (TINY, 1.0)],
    "tanh": [
        (0.0, 0.0),
        (-0.0, -0.0),
        (INF, 1.0),
        (-INF, -1.0),
        (NAN, NAN),
        (TINY, TINY),
        (-TINY, -TINY),
        (20.0, 1.0),
        (-MAX, -1.0),
    ],
    "sigmoid": [(0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (NAN, NAN), (MAX, 1.0), (-MAX, 0.0), (TINY, 0.5)],
    "softplus": [(INF, INF), (-INF, 0.0), (NAN, NAN), (MAX, MAX), (-MAX, 0.0), (1000.0, 1000.0)],
    "arcsinh": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (TINY, TINY), (-TINY, -TINY)],
    "arccosh": [(1.0, 0.0), (0.5, NAN), (-1.0, NAN), (-3.0, NAN), (INF, INF), (-INF, NAN), (NAN, NAN)],
    "arctanh": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (2.0, NAN), (-INF, NAN), (NAN, NAN), (TINY, TINY)],
    "erf": [(0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN), (7.0, 1.0), (-7.0, -1.0), (MAX, 1.0)],
    "erfc": [
        (0.0, 1.0),
        (-0.0, 1.0),
        (INF, 0.0),
        (-INF, 2.0),
        (NAN, NAN),
        (28.0, 0.0),
        (-7.0, 2.0),
        (MAX, 0.0),
        (-MAX, 2.0),
    ],
    "cbrt": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-27.0, -3.0), (1e-324 * 8, 0.0)],
    "sign": [(0.0, 0.0), (-0.0, 0.0), (NAN, NAN), (INF, 1.0), (-TINY, -1.0), (3.0, 1.0)],
    "abs": [(-0.0, 0.0), (-INF, INF), (NAN, NAN), (-2.5, 2.5)],
    "sqrt": [(-0.0, -0.0), (4.0, 2.0), (-1.0, NAN), (INF, INF), (NAN, NAN)],
    "round": [
        (0.5, 0.0),
        (-0.5, -0.0),
        (1.5, 2.0),
        (2.5, 2.0),
        (-2.5, -2.0),
        (INF, INF),
        (-INF, -INF),
        (NAN, NAN),
        (-0.0, -0.0),
        (0.49999999999999994, 0.0),
        (4503599627370495.5, 4503599627370496.0),
        (1e300, 1e300),
    ],
    "floor": [(-0.5, -1.0), (0.5, 0.0), (-0.0, -0.0), (INF, INF), (NAN, NAN), (-1e300, -1e300)],
    "ceil": [(-0.5, -0.0), (0.5, 1.0), (-0.0, -0.0), (-INF, -INF), (NAN, NAN), (1e300, 1e300)],
    "pow": [(x, 0.0, 1.0) for x in (0.0, -0.0, INF, -INF, NAN, 2.0)]
    + [(1.0, y, 1.0) for y in (INF, -INF, NAN, 0.5, MAX)]
    + [
        (0.0, 2.0, 0.0),
        (-0.0, 2.0, 0.0),
        (-0.0, 3.0, -0.0),
        (0.0, -1.0, INF),
        (-0.0, -1.0, -INF),
        (-0.0, -2.0, INF),
        (0.0, 0.5, 0.0),
        (-0.0, 0.5, 0.0),
        (0.0, INF, 0.0),
        (0.0, -INF, INF),
        (-1.0, INF, 1.0),
        (-1.0, -INF, 1.0),
        (2.0, INF, INF),
        (2.0, -INF, 0.0),
        (0.5, INF, 0.0),
        (-0.5, -INF, INF),
        (-2.0, INF, INF),
        (-INF, 3.0, -INF),
        (-INF, 2.0, INF),
        (-INF, -3.0, -0.0),
        (-INF, 0.5, INF),
        (-INF, -2.0, 0.0),
        (INF, 0.5, INF),
        (INF, -1.0, 0.0),
        (-2.0, 0.5, NAN),
        (-2.0, 3.0, -8.0),
        (-2.0, 2.0, 4.0),
        (NAN, 1.0, NAN),
        (2.0, NAN, NAN),
        (-2.0, NAN, NAN),
        (2.0, 1024.0, INF),
        (2.0, -1074.0, TINY),
        (2.0, -1075.0, 0.0),
        (-2.0, -1075.0, -0.0),
        (-2.0, 1025.0, -INF),
        (TINY, 0.5, 2.0**-537),
        (TINY, -1.0, INF),
        (-TINY, 1.0, -TINY),
        (MAX, 1.0, MAX),
        (1.0 + 2**-52, MAX, INF),
        (1.0 - 2**-53, MAX, 0.0),
        (-1.0, MAX, 1.0),
        (-1.0, 2.0**53 - 1, -1.0),
        (-1.0, 2.0**53, 1.0),
        (-1.0, 0.5, NAN),
        (10.0, 15.0, 1e15),
    ],
    "atan2": [
        (0.0, 0.0, 0.0),
        (-0.0, 0.0, -0.0),
        (0.0, -0.0, math.pi),
        (-0.0, -0.0, -math.pi),
        (0.0, 1.0, 0.0),
        (-0.0, 1.0, -0.0),
        (0.0, -1.0, math.pi),
        (-0.0, -1.0, -math.pi),
        (1.0, 0.0, PI_2),
        (-1.0, 0.0, -PI_2),
        (1.0, -0.0, PI_2),
        (INF, 1.0, PI_2),
        (-INF, -1.0, -PI_2),
        (1.0, INF, 0.0),
        (-1.0, INF, -0.0),
        (1.0, -INF, math.pi),
        (-1.0, -INF, -math.pi),
        (INF, INF, math.pi / 4),
        (-INF, INF, -math.pi / 4),
        (INF, -INF, 3 * PI_2 / 2),
        (-INF, -INF, -3 * PI_2 / 2),
        (NAN, 1.0, NAN),
        (1.0, NAN, NAN),
        (NAN, 0.0, NAN),
        (0.0, NAN, NAN),
        (INF, NAN, NAN),
        (NAN, INF, NAN),
        (NAN, -INF, NAN),
        (TINY, MAX, 0.0),
        (MAX, TINY, PI_2),
        (TINY, TINY, math.pi / 4),
        (MAX, MAX, math.pi / 4),
        (TINY, -MAX, math.pi),
        (TINY, 1.0, TINY),
    ],
    "hypot": [
        (0.0, 0.0, 0.0),
        (-0.0, -0.0, 0.0),
        (INF, NAN, INF),
        (NAN, -INF, INF),
        (INF, 1.0, INF),
        (NAN, 1.0, NAN),
        (1.0, NAN, NAN),
        (3.0, 4.0, 5.0),
        (-3.0, 4.0, 5.0),
        (TINY, 0.0, TINY),
        (MAX, MAX, INF),
        (MAX, 0.0, MAX),
        (3e-310, 4e-310, 5e-310),
        (3e300, 4e300, 5e300),
    ],
    "fmod": [
        (5.0, 3.0, 2.0),
        (-5.0, 3.0, -2.0),
        (5.0, -3.0, 2.0),
        (-0.0, 3.0, -0.0),
        (0.0, -3.0, 0.0),
        (6.0, 3.0, 0.0),
        (-6.0, 3.0, -0.0),
        (1.0, 0.0, NAN),
        (INF, 1.0, NAN),
        (1.0, INF, 1.0),
        (-1.0, -INF, -1.0),
        (NAN, 1.0, NAN),
        (1.0, NAN, NAN),
        (0.0, 0.0, NAN),
        (INF, INF, NAN),
        (MAX, TINY, 0.0),
        (MAX, 3.0, math.fmod(MAX, 3.0)),
        (1.0, MAX, 1.0),
        (0.0, INF, 0.0),
        (TINY, MAX, TINY),
    ],
}


def same(a, b):
    return bits(a) == bits(b) or (math.isnan(a) and math.isnan(b))


def compare(lib, name, cases):
    """Number of cases (operands ..., result) whose result is not exactly the one given."""
    operands = [array.array("d", column) for column in list(zip(*cases))[:-1]]
    failed = 0
    for case, got in zip(cases, lib.call("math_" + name, *operands)):
        if not same(got, case[-1]):
            failed += 1
            if failed < 5:
                print(f"{name}{case[:-1]} is {got!r}, not {case[-1]!r}   FAILED")
    return failed


def check_exact(lib, count, seed):
    """Special points and results that are exact by nature."""
    rng, failed = random.Random(seed), 0
    for name, cases in SPECIAL.items():
        failed += compare(lib, name, cases)
    failed += compare(lib, "exp2", [(float(k), math.ldexp(1.0, k)) for k in range(-1074, 1024)])
    failed += compare(lib, "log2", [(math.ldexp(1.0, k), float(k)) for k in range(-1074, 1024)])
    failed += compare(lib, "log10", [(10.0**k, float(k)) for k in range(23)])
    failed += compare(lib, "cbrt", [(float(k**3), float(k)) for k in range(-1000, 1001) if k])
    failed += compare(
        lib, "pow", [(float(b), float(n), float(b**n)) for b in range(2, 13) for n in range(15) if b**n < 2**53]
    )
    whole = [any_double(rng) for _ in range(count // 8)] + [rng.uniform(-1e3, 1e3) for _ in range(count // 8)]
    whole += [k / 4 for k in range(-40, 40) if k]
    failed += compare(lib, "floor", [(x, float(math.floor(x))) for x in whole])
    failed += compare(lib, "ceil", [(x, math.copysign(math.ceil(x), x)) for x in whole])
    failed += compare(lib, "round", [(x, math.copysign(round(x), x)) for x in whole])
    pairs = [(any_double(rng), any_double(rng)) for _ in range(count // 4)]
    pairs += [(rng.uniform(-1e3, 1e3), rng.uniform(-9, 9)) for _ in range(count // 4)]
    pairs += [(float(rng.randrange(-99, 99)), float(rng.randrange(1, 9))) for _ in range(count // 4)]
    pairs += [(rng.randrange(2**53) * TINY, rng.randrange(1, 2**30) * TINY) for _ in range(count // 8)]
    pairs += [(rng.uniform(1, 2) * 2.0**k, rng.uniform(1, 2)) for k in range(40, 70) for _ in range(50)]
    failed += compare(lib, "fmod", [(x, y, math.fmod(x, y)) for x, y in pairs])
    near = array.array("d", (of_bits(bits(PI_2) + rng.randrange(-(2**27), 2**27)) for _ in range(25 * count)))
    near32 = array.array("f", (PI_2 + d * 2.0**-23 for d in range(-4000, 4000)))
    for name, x in (("math_sin", near), ("math_sinf", near32)):
        high = max(lib.call(name, x))
        failed += high > 1
        print(f"{name[5:]}: largest value {high!r}{'   FAILED' if high > 1 else ''}")
    print(f"special points, exact results: {failed} failed")
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dense", type=int, default=1, help="multiplies the number of points")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="write docs/accuracy.md")
    parser.add_argument("only", nargs="*", help="functions to test (all)")
    options = parser.parse_args()
    gmpy2.get_context().precision = 120
    lib, count = library.Library(), 25000 * options.dense
    table = {}
    failed = check_accuracy(lib, count, options.seed, options.only, table)
    failed += check_float32(lib, count, options.seed, options.only)
    failed += 0 if options.only else check_exact(lib, count, options.seed)
    if options.page:
        page.write64(table)
    elif not options.only and (options.dense, options.seed) == (1, 1):
        failed += check_page(table)
    print("all within bounds" if not failed else f"{failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
