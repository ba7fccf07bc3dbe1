"""profile: what each step of a compiled function takes, beside the line of the user's code."""

import os
import time

from . import _core

__all__ = ["Profile", "profile"]

_NAMES = ("what", "file", "line", "sweep", "seconds", "flops", "functions", "bytes")
_SECONDS, _LEAST, _MOST = 0.2, 5, 200  # about how long to measure, and runs


class Profile:
    """What profile() returns: a function that runs like f and prints what its steps took.

    After a call .steps has a dict for each step in the order of the plan: what, file, line, sweep, seconds, flops, functions, bytes;
    .seconds is the time of the whole run, .workspace the bytes of its working memory.
    """

    def __init__(self, fun):
        self._fun = fun if isinstance(fun, _core.Transform) else _core.jit(fun)
        self.steps, self.seconds, self.workspace = [], None, None

    def __call__(self, *args, **kwargs):
        compiled = self._fun.lower(*args, **kwargs).compile()
        compiled(*args, **kwargs)
        runs, end = [], time.perf_counter() + _SECONDS
        while len(runs) < _LEAST or (len(runs) < _MOST and time.perf_counter() < end):
            start = time.perf_counter()
            result, rows = compiled.profile(*args, **kwargs)
            runs.append((time.perf_counter() - start, rows))
        # What else the machine does only adds, so the least of all runs is the time of a step.
        self.seconds, self.workspace = min(seconds for seconds, _ in runs), compiled.workspace
        self.steps = [dict(zip(_NAMES, row)) for row in runs[0][1]]
        for i, step in enumerate(self.steps):
            step["seconds"] = min(rows[i][_NAMES.index("seconds")] for _, rows in runs)
        print(self)
        return result

    def __str__(self):
        if self.seconds is None:
            return f"profile of {self._fun!r}: not called yet"
        all_of = {key: sum(s[key] for s in self.steps) for key in ("seconds", "flops", "bytes")}
        lines = [f"{'time us':>10s} {'%':>5s} {'Mflop':>9s} {'Gflop/s':>8s} {'MB':>8s} {'GB/s':>7s}  step"]
        for s in self.steps:
            share = 100 * s["seconds"] / max(all_of["seconds"], 1e-12)
            where = f"  {os.path.basename(s['file'])}:{s['line']}" if s["file"] else ""
            sweep = f" [{s['sweep']}]" if s["sweep"] else ""
            lines.append(f"{_numbers(s, share)}  {s['what']}{sweep}{where}")
        lines.append(f"{_numbers(all_of, 100.0)}  {len(self.steps)} steps in {self.seconds * 1e6:.1f} us")
        if any(s["sweep"] for s in self.steps):
            lines.append("[n]: runs block of points by block of points; the time is that of all threads together")
        return "\n".join(lines)

    __repr__ = __str__


def _numbers(s, share):
    seconds = max(s["seconds"], 1e-12)
    flops, size = s["flops"] * 1e-6, s["bytes"] * 1e-6
    return (
        f"{s['seconds'] * 1e6:10.1f} {share:5.1f} {flops:9.3f} {flops * 1e-3 / seconds:8.2f}"
        f" {size:8.3f} {size * 1e-3 / seconds:7.2f}"
    )


def profile(fun):
    """A function that runs like fun, compiled, and prints what each step of its plan took: time, flops, bytes and the line of the code.

    fun: a function of arrays, or what jit or another transform returned. Called with fun's arguments, with the keywords that jit takes,
    it runs 5 to 200 times, prints the least time of each step and returns fun's result. An elementwise operation counts as one flop,
    whatever it is; `functions` are those of them that are exp, tanh and the like; bytes are those of a step's operands and results, each
    once. A loop counts what its body does: all iterations of a scan, one of a while, the larger branch of a cond. .steps has the same as
    data.
    Steps that run block of points by block of points (the forward and the reverse pass of a PINN) bear the number of their sweep; their
    operands stay in cache.
    Raises TypeError when fun is not a function, and whatever fun raises.

    >>> p = qb.profile(lambda x, w: qb.sum(qb.tanh(x @ w)))
    >>> y = p(qb.ones((100, 3)), qb.ones((3, 8)))  # doctest: +ELLIPSIS
       time us     %     Mflop  Gflop/s       MB    GB/s  step
    ...
    >>> [s["what"] for s in p.steps]
    ['matmul 100x3x8', 'elementwise 800: tanh; sum']
    >>> p.steps[0]["flops"]
    4800.0
    """
    if not callable(fun):
        raise TypeError(f"profile takes a function, not {fun!r}")
    return Profile(fun)
