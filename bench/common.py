"""Timing shared by the case files: each prints one JSON line {case: microseconds}."""

import json
import resource
import sys
import time

RESULTS = {}


def micro(name, fn, seconds=0.4, rounds=7):
    """Microseconds a call, the best of `rounds` rounds that take about `seconds` together."""
    fn()
    fn()
    n = 1
    while True:
        start = time.perf_counter()
        for _ in range(n):
            fn()
        took = time.perf_counter() - start
        if took > seconds / rounds:
            break
        n = min(max(n + 1, int(n * (seconds / rounds) / max(took, 1e-9) * 1.2)), 10_000_000)
    best = took / n
    for _ in range(rounds - 1):
        start = time.perf_counter()
        for _ in range(n):
            fn()
        best = min(best, (time.perf_counter() - start) / n)
    RESULTS[name] = best * 1e6


def once(name, fn):
    """Microseconds of one call: tracing and compiling included."""
    start = time.perf_counter()
    result = fn()
    RESULTS[name] = (time.perf_counter() - start) * 1e6
    return result


def done():
    RESULTS["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(RESULTS))


def wanted():
    """The groups named on the command line; None means all."""
    return set(sys.argv[1].split(",")) if len(sys.argv) > 1 and sys.argv[1] != "all" else None
