"""Does a busy neighbour core stall a step? Percentiles of a training step, quiet and beside a process that never rests.

    python neighbour.py jax=PYTHON:jax_cases.py quabla=PYTHON:quabla_cases.py [--into PAGE.md]

A thread that is taken off its core inside a block holds the others up to a time slice; our pool notices and runs steps on one thread for
a while. For two steps each peer is measured quiet, then beside a loop that is bound to the last core of this process. The 95th
percentile should stay within twice the median.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

from compare import conditions, machine, markdown, peers_of, put, run

CASES = {"burgers20x3.n2540": ([2, 20, 20, 20, 1], 2540), "burgers64x4.n1000": ([2, 64, 64, 64, 64, 1], 1000)}
SPIN = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"


def make_step(cases, sizes, points):
    if hasattr(cases, "qb"):
        return cases.qb.optim.Trainer(*cases.burgers(sizes, points, cases.qb.float64), cases.qb.optim.Adam(1e-3)).step
    step, *now = cases.burgers_step(sizes, points, cases.jnp.float64)

    def again():
        now[0], now[1], value = step(*now)
        cases.ready(value)

    return again


def percentiles(step, seconds):
    times, end = [], time.perf_counter() + seconds
    while len(times) < 40 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    times.sort()
    return [times[int(p * (len(times) - 1))] * 1e3 for p in (0.5, 0.95, 0.99)]


def measure(script, seconds):
    """{case: {"quiet" or "loaded": [p50, p95, p99]}} in milliseconds."""
    cases, out = __import__(script.removesuffix(".py")), {}
    core = max(os.sched_getaffinity(0))
    for name, (sizes, points) in CASES.items():
        step = make_step(cases, sizes, points)
        for _ in range(5):
            step()
        out[name] = {"quiet": percentiles(step, seconds)}
        with subprocess.Popen([sys.executable, "-c", SPIN, str(core)], stdout=subprocess.PIPE) as spinning:
            spinning.stdout.readline()
            try:
                out[name]["loaded"] = percentiles(step, seconds)
            finally:
                spinning.kill()
    print(json.dumps(out))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peers", nargs="+", metavar="NAME=PYTHON:SCRIPT")
    parser.add_argument("--into", type=pathlib.Path)
    options = parser.parse_args()
    here, rows = machine(), [["case", "peer", "last core", "p50 ms", "p95 ms", "p99 ms", "p95 / p50"]]
    for name, python, script in peers_of(options.peers):
        for case, states in run(python, "neighbour.py", ["--measure", script, "5"]).items():
            for state, times in states.items():
                rows.append([case, name, state, *(f"{t:.3f}" for t in times), f"{times[1] / times[0]:.2f}"])
    lines = [*markdown(rows), "", conditions(here)]
    print(*lines, sep="\n")
    if options.into:
        put(options.into, "neighbour", lines)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(sys.argv[2], float(sys.argv[3]))
    else:
        main()
