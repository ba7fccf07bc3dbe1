"""Builds driver.c as a shared library and calls its array functions. Needs only a C compiler."""

import array
import ctypes
import itertools
import os
import shutil
import subprocess
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = [
    "-std=gnu17",
    "-O3",
    "-fPIC",
    "-shared",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-I" + os.path.join(HERE, "..", "..", "src"),
]
LEVELS = {  # compiler flags, CPU features
    "baseline": ([], set()),
    "v3": (["-march=x86-64-v3"], {"avx2", "fma", "bmi2"}),
    "v4": (
        ["-march=x86-64-v4", "-mprefer-vector-width=512"],
        {"avx2", "fma", "bmi2", "avx512f", "avx512dq", "avx512vl", "avx512bw", "avx512cd"},
    ),
}


def cpu_flags():
    """The feature flags of this CPU as the kernel lists them; empty where it does not."""
    try:
        with open("/proc/cpuinfo") as f:
            return next((set(line.split()) for line in f if line.startswith("flags")), set())
    except OSError:
        return set()


def levels():
    """The instruction set levels of driver.c that this machine runs."""
    have = cpu_flags()
    return [name for name, (_, need) in LEVELS.items() if need <= have]


def compiler():
    return os.environ.get("CC") or next(c for c in ("cc", "gcc", "clang") if shutil.which(c))


class Library:
    """One build of driver.c. Functions take and return array.array('d'), or 'f' for float32."""

    def __init__(self, level=None, cc=None):
        flags = FLAGS + LEVELS[level or levels()[-1]][0]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "math.so")
            flags += [os.path.join(HERE, "driver.c"), "-o", path, "-lm"]
            subprocess.run([*(cc or compiler()).split(), *flags], check=True)
            self.lib = ctypes.CDLL(path)

    def rows(self, table="math_rows"):
        """[(name, operands, bound in ulps)] of ops.h, or of the float32 table."""

        class Row(ctypes.Structure):
            _fields_ = [("name", ctypes.c_char_p), ("n", ctypes.c_int), ("ulp", ctypes.c_double)]

        rows = itertools.takewhile(
            lambda row: row.name, (Row * 1000).in_dll(self.lib, table)
        )  # a row without a name ends it
        return [(row.name.decode(), row.n, row.ulp) for row in rows]

    def call(self, name, *operands):
        out = array.array(operands[0].typecode, bytes(operands[0].itemsize * len(operands[0])))
        pointers = [ctypes.c_void_p(a.buffer_info()[0]) for a in (*operands, out)]
        getattr(self.lib, name)(*pointers, ctypes.c_long(len(out)))
        return out
