"""What limits each case: the counts of its plan beside its time and the machine's peak. Ours alone; run it with Quabla's Python.

    python limits.py [CASE ...] [--into PAGE.md]

Prints a Markdown table. steps: of the plan, each one dispatch. FLOP, functions (exp, tanh, ...), bytes: qb.profile's counts; work: working
memory of a run. The three bounds are what the machine could do at best with these counts: FLOPs at its FMA rate, bytes at its
bandwidth (each array once, from memory), and each step at the time of one that adds two numbers. time: least of the runs; then which part of it goes to matmul
steps, to regions with functions, and to other regions. bench/peak.c measures the rates.
"""

import argparse
import contextlib
import io
import json
import pathlib
import subprocess
import time

import quabla_cases as cases
from compare import conditions, machine, markdown, put

qb = cases.qb


def training(made):
    """A whole step: loss, gradient and Adam, as a function; what it takes in a Trainer."""
    (loss, params), adam = made, qb.optim.Adam(1e-3)

    def step(params, state):
        value, grads = qb.value_and_grad(loss)(params)
        return adam.update(params, grads, state), value

    return step, (params, adam.init(params)), qb.optim.Trainer(loss, params, adam).step


def burgers(sizes, points):
    return lambda: training(cases.burgers(sizes, points, qb.float64))


def chain(x):
    a = qb.tanh(x * 1.3 + 0.2)
    b = a * a - 1.0
    c = qb.exp(-b * b) + qb.sin(x)
    return c * a + b / (1.0 + c * c)


def line():
    return (qb.linspace(-3, 3, 1_000_000),)


CASES = {  # name -> function that returns the arguments of profile()
    "pinn16x2.n32": lambda: training(cases.poisson([1, 16, 16, 1], 32, qb.float64)),
    "burgers20x3.n2540": burgers([2, 20, 20, 20, 1], 2540),
    "burgers64x4.n1000": burgers([2, 64, 64, 64, 64, 1], 1000),
    "burgers128x6.n10000": burgers([2] + [128] * 6 + [1], 10000),
    "deriv2": lambda: cases.derivative(2),
    "deriv4": lambda: cases.derivative(4),
    "deriv6": lambda: cases.derivative(6),
    "chain1e6": lambda: (chain, line()),
    "sumexp1e6": lambda: (lambda x: qb.sum(qb.exp(-x * x)), line()),
    "matmul1024": lambda: (lambda a: a @ a, (qb.ones((1024, 1024)),)),
    "matmul1000x64x64": lambda: (lambda a, b: a @ b, (qb.ones((1000, 64)), qb.ones((64, 64)))),
}


def profile(fun, args, call=None):
    """What qb.profile finds, and the microseconds of a call without its clock."""
    report, f = qb.profile(fun), qb.jit(fun)
    with contextlib.redirect_stdout(io.StringIO()):  # the table of every step
        report(*args)
    return report, least(call or (lambda: f(*args)))


def least(call, seconds=1.0):
    """Microseconds of the fastest of single calls: what other programs take from the core falls into few of them."""
    best, end = float("inf"), time.perf_counter() + seconds
    while (start := time.perf_counter()) < end or best == float("inf"):
        call()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def dispatch():
    """Seconds of a step that has nothing to do."""
    one = qb.array(1.0)
    return profile(lambda x, y: x + y, (one, one))[0].steps[0]["seconds"]


def amount(x):
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if x >= scale:
            return f"{x / scale:.3g} {prefix}"
    return f"{x:.3g}"


def row(name, report, call, peak, least):
    steps = report.steps
    flops, functions, size, inside = (sum(s[key] for s in steps) for key in ("flops", "functions", "bytes", "seconds"))
    kinds = ["matmul" if s["what"].startswith("matmul") else "functions" if s["functions"] else "other" for s in steps]
    parts = [sum(s["seconds"] for s, k in zip(steps, kinds) if k == kind) for kind in ("matmul", "functions", "other")]
    bounds = [flops / peak["f64"][-1], size / peak["bytes"][-1], len(steps) * least]
    sweeps = sum(s["sweep"] > 0 for s in steps)
    cells = [name, f"{len(steps)} ({sweeps})", *map(amount, (flops, functions, size, report.workspace))]
    cells += [f"{b * 1e6:,.3g}" for b in bounds] + [f"{call:,.4g}"]
    return cells + [" / ".join(f"{100 * p / inside:.0f}" for p in parts)]


def main():
    root = pathlib.Path(__file__).parents[1]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--peak", type=pathlib.Path, default=root / "build/bench/peak")
    parser.add_argument("--into", type=pathlib.Path)
    options = parser.parse_args()
    here, peak, least = machine(), json.loads(subprocess.check_output([options.peak])), dispatch()
    rows = [["case", "steps (in sweeps)", "FLOP", "functions", "bytes", "work", "us, FMA peak", "us, bandwidth", "us, dispatch", "us",
             "% matmul / functions / other"]]  # fmt: skip
    rows += [row(name, *profile(*CASES[name]()), peak, least) for name in options.cases or CASES]
    rates = f"peak {peak['f64'][-1] / 1e9:.0f} GFLOP/s (float64), {peak['bytes'][-1] / 1e9:.1f} GB/s"
    lines = [
        *markdown(rows),
        "",
        f"{conditions(here)}; {qb.get_num_threads()} threads, {rates}, {least * 1e9:.0f} ns a step",
    ]
    print(*lines, sep="\n")
    if options.into:
        put(options.into, "limits", lines)


if __name__ == "__main__":
    main()
