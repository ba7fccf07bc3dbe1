"""Does a busy neighbour core stall a step? Times of Burgers 64x4 steps, quiet and beside a process that never rests.

    python neighbour.py [STEPS]

The 95th percentile should stay within twice the median. A thread of ours that is taken off its core inside a block holds the others up to
a time slice; the pool notices and runs steps on one thread for a while.
"""

import math
import subprocess
import sys
import time

import numpy as np
import quabla as qb


def trainer():
    def u(x, t, p):
        h = qb.stack([x, t]).reshape([1, 2])
        for w, b in p[:-1]:
            h = qb.tanh(h @ w + b)
        return qb.sum(h @ p[-1][0] + p[-1][1])

    u_t, u_x = qb.grad(u, 1), qb.grad(u, 0)
    u_xx = qb.grad(u_x, 0)

    def residual(x, t, p):
        return u_t(x, t, p) + u(x, t, p) * u_x(x, t, p) - 0.01 / math.pi * u_xx(x, t, p)

    r = np.random.default_rng(0)
    sizes = [2, 64, 64, 64, 64, 1]
    p = [(qb.array(r.normal(size=(m, n)) / math.sqrt(m)), qb.zeros((n,))) for m, n in zip(sizes, sizes[1:])]
    x, t = qb.array(r.uniform(-1, 1, 1000)), qb.array(r.uniform(0, 1, 1000))
    residuals = qb.vmap(residual, in_axes=(0, 0, None))
    return qb.optim.Trainer(lambda p: qb.mean(residuals(x, t, p) ** 2), p, qb.optim.Adam(1e-3))


def percentiles(trainer, steps):
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        trainer.step()
        times.append(time.perf_counter() - start)
    times.sort()
    return times[steps // 2] * 1e3, times[steps * 95 // 100] * 1e3


def main():
    steps, made = int(sys.argv[1]) if len(sys.argv) > 1 else 500, trainer()
    for _ in range(20):
        made.step()
    for what in ("quiet", "busy"):
        load = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if what == "busy" else None
        try:
            median, late = percentiles(made, steps)
        finally:
            if load:
                load.kill()
        print(f"{what:6s} median {median:8.3f} ms, 95th percentile {late:8.3f} ms, {late / median:5.2f} times")


if __name__ == "__main__":
    main()
