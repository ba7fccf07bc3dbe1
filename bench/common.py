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


# Dormand and Prince 1980: stage coefficients, then those of the error of a step.
DOPRI5 = [
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
    [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84],
]
DOPRI5_ERROR = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40]


def lotka_volterra(xp, loop, theta, t1=5.0, rtol=1e-6, atol=1e-9):
    """Solution at t1 by an adaptive dopri5 loop, written by hand. xp: the array functions, loop: its while loop."""

    def f(y):
        return xp.stack([theta[0] * y[0] - theta[1] * y[0] * y[1], theta[3] * y[0] * y[1] - theta[2] * y[1]])

    def combine(k, row):
        terms = [k[j] * c for j, c in enumerate(row) if c]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    def step(state):
        t, y, h, k1 = state
        h = xp.where(t + h > t1, t1 - t, h)
        k = [k1]
        for row in DOPRI5:
            new = y + h * combine(k, row)
            k.append(f(new))
        scale = atol + rtol * xp.where(xp.abs(y) > xp.abs(new), xp.abs(y), xp.abs(new))
        size = xp.sqrt(xp.mean((h * combine(k, DOPRI5_ERROR) / scale) ** 2))
        factor = 0.9 * (size + 1e-10) ** -0.2
        factor = xp.where(factor < 0.2, 0.2, xp.where(factor > 5.0, 5.0, factor))
        good = size <= 1.0
        return xp.where(good, t + h, t), xp.where(good, new, y), h * factor, xp.where(good, k[-1], k1)

    y0 = xp.ones((2,)) * 1.0
    return loop(lambda state: state[0] < t1, step, (xp.zeros(()), y0, xp.full((), 0.05), f(y0)))[1]


def growth_cases():
    """(name, layer sizes, points) of Burgers steps that grow in points, width and depth."""
    for n in (100, 1_000, 10_000, 100_000, 1_000_000):
        yield f"growth.points.{n}", [2, 32, 32, 32, 1], n
    for width in (16, 32, 64, 128, 256, 512):
        yield f"growth.width.{width}", [2] + [width] * 3 + [1], 2_000
    for depth in (1, 2, 4, 8, 16):
        yield f"growth.depth.{depth}", [2] + [64] * depth + [1], 2_000


def laplace_cases():
    """(name, activation, layer sizes, points) of Poisson losses whose Laplacian is the trace of a Hessian."""
    yield "laplace2d.tanh32x3.n1000", "tanh", [2, 32, 32, 32, 1], 1000
    yield "laplace2d.sigmoid20x5.n5000", "sigmoid", [2, 20, 20, 20, 20, 20, 1], 5000
    yield "laplace3d.silu50x4.n2000", "silu", [3, 50, 50, 50, 50, 1], 2000


def grid_cases(np, scan, uniform):
    """(name, function, argument) of work on grids. np: the peer's functions; scan(step, carry, n): the last carry; uniform: of a shape."""
    u = uniform((100, 100))

    def heat(k):
        def step(u):
            around = np.roll(u, 1, axis=0) + np.roll(u, -1, axis=0) + np.roll(u, 1, axis=1) + np.roll(u, -1, axis=1)
            return u + k * (around - 4 * u)

        return np.sum(scan(step, u, 200) ** 2)

    def residual(x):
        return np.sum((x[2:, 1:-1] + x[:-2, 1:-1] + x[1:-1, 2:] + x[1:-1, :-2] - 4 * x[1:-1, 1:-1]) ** 2)

    x, points = uniform((1000, 1000)), uniform((1000, 3))
    yield "heat2d.100x100", heat, 0.1
    yield "stencil1000", residual, x
    yield "sum1000.axis0", lambda x: np.sum(x, axis=0), x
    yield "sum1000.axis1", lambda x: np.sum(x, axis=1), x
    yield "distances1000", lambda p: np.sum((p[:, None, :] - p[None, :, :]) ** 2, axis=-1), points


ORDERS = (1, 2, 3, 4, 5, 6)  # of the derivatives in growth


def left_out(case, why):
    """A case that cannot run here: compare.py passes the line on."""
    print(f"# {case} left out: {why}", file=sys.stderr)


def done():
    """Prints the results, with the peak memory of the process where it ran a case at all."""
    if RESULTS.keys() - {"import"}:
        RESULTS["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(RESULTS))


def wanted():
    """The groups named on the command line; None means all."""
    return set(sys.argv[1].split(",")) if len(sys.argv) > 1 and sys.argv[1] != "all" else None
