"""The cases in Quabla alone: NumPy is not loaded, since a program of Quabla needs none."""

import time

START = time.perf_counter()
import quabla as qb

IMPORT = (time.perf_counter() - START) * 1e6
import math

from common import (
    ORDERS,
    RESULTS,
    done,
    grid_cases,
    growth_cases,
    laplace_cases,
    left_out,
    lotka_volterra,
    micro,
    once,
    wanted,
)

RESULTS["import"] = IMPORT
GROUPS = wanted()
DTYPES = {"f64": qb.float64, "f32": qb.float32}
# float32 as it is by default (float64 results rounded), and native; compare.py puts both beside the peer's float32.
FORMS = [("f64", qb.float64, None), ("f32", qb.float32, None), ("f32.native", qb.float32, "float32")]


def on(group):
    return GROUPS is None or group in GROUPS


def has(case, *names):
    """Are all these functions there ("ode.odeint")? If not, says so."""
    for name in names:
        at = qb
        for part in name.split("."):
            at = getattr(at, part, None)
        if at is None:
            left_out(case, f"no qb.{name}")
            return False
    return True


def normal(*shape, dtype=qb.float64):
    return qb.random.normal(qb.random.key(0), shape, dtype=dtype)


def mlp_init(sizes, dtype, seed=0):
    keys, shapes = qb.random.split(qb.random.key(seed), len(sizes) - 1), list(zip(sizes[:-1], sizes[1:]))
    return [(qb.random.glorot_normal(k, s, dtype=dtype), qb.zeros(s[1:], dtype=dtype)) for k, s in zip(keys, shapes)]


def mlp(p, h, act=qb.tanh):
    for w, b in p[:-1]:
        h = act(h @ w + b)
    w, b = p[-1]
    return h @ w + b


def poisson(sizes, n, dtype):
    def u(x, p):
        return qb.sum(mlp(p, x.reshape([1, 1])))

    u_xx = qb.vmap(qb.grad(qb.grad(u)), in_axes=(0, None))
    u_at = qb.vmap(u, in_axes=(0, None))
    x, ends = qb.linspace(0.02, 0.98, n).astype(dtype), qb.array([0.0, 1.0], dtype=dtype)

    def loss(p):
        return qb.mean((u_xx(x, p) + math.pi**2 * qb.sin(math.pi * x)) ** 2) + 10 * qb.mean(u_at(ends, p) ** 2)

    return loss, mlp_init(sizes, dtype)


def burgers(sizes, n, dtype):
    def u(x, t, p):
        return qb.sum(mlp(p, qb.stack([x, t]).reshape([1, 2])))

    u_t, u_x = qb.grad(u, 1), qb.grad(u, 0)
    u_xx = qb.grad(u_x, 0)

    def residual(x, t, p):
        return u_t(x, t, p) + u(x, t, p) * u_x(x, t, p) - 0.01 / math.pi * u_xx(x, t, p)

    residuals, u_at = qb.vmap(residual, in_axes=(0, 0, None)), qb.vmap(u, in_axes=(0, 0, None))
    keys = qb.random.split(qb.random.key(1))
    x, t = (qb.random.uniform(k, (n,), dtype=dtype, minval=low) for k, low in zip(keys, (-1.0, 0.0)))
    x0, zero = qb.linspace(-1, 1, 100).astype(dtype), qb.zeros((100,), dtype=dtype)

    def loss(p):
        return qb.mean(residuals(x, t, p) ** 2) + qb.mean((u_at(x0, zero, p) + qb.sin(math.pi * x0)) ** 2)

    return loss, mlp_init(sizes, dtype)


def run_step(name, made, seconds=1.5, precision=None):
    loss, p = made
    trainer = qb.optim.Trainer(loss, p, qb.optim.Adam(learning_rate=1e-3), precision=precision)
    once(name + ".first", trainer.step)
    micro(name, trainer.step, seconds, 5)


def dispatch():
    x, y, s = qb.ones((1000,)), qb.ones((1000,)), qb.array(1.0)
    micro("eager.add1000", lambda: x + y)
    micro("eager.sin1000", lambda: qb.sin(x))
    micro("eager.add_scalar", lambda: s + s)
    f = qb.jit(lambda a: a + 1.0)
    micro("jit.trivial", lambda: f(s))
    many = {f"k{i}": s for i in range(50)}
    g = qb.jit(lambda d: {k: v + 1.0 for k, v in d.items()})
    micro("jit.tree50", lambda: g(many))


def pinn():
    for name, dtype in DTYPES.items():
        run_step(f"pinn16x2.n32.{name}", poisson([1, 16, 16, 1], 32, dtype))
    run_step("burgers20x3.n2540.f64", burgers([2, 20, 20, 20, 1], 2540, qb.float64))
    for name, dtype, precision in FORMS:
        run_step(f"burgers64x4.n1000.{name}", burgers([2, 64, 64, 64, 64, 1], 1000, dtype), 1.5, precision)


def big():
    for name, dtype, precision in FORMS:
        run_step(f"burgers128x6.n10000.{name}", burgers([2] + [128] * 6 + [1], 10000, dtype), 8, precision)


def growth():
    for name, sizes, n in growth_cases():
        run_step(name, burgers(sizes, n, qb.float64), 0.6)
    for k in ORDERS:
        f, args = derivative(k)
        micro(f"growth.order.{k}", lambda f=f, args=args: f(*args), 0.6)


def kernels():
    def chain(x):
        a = qb.tanh(x * 1.3 + 0.2)
        b = a * a - 1.0
        c = qb.exp(-b * b) + qb.sin(x)
        return c * a + b / (1.0 + c * c)

    for name, dtype, precision in FORMS:
        x = qb.linspace(-3, 3, 1_000_000).astype(dtype)
        f, g, h = (
            qb.jit(k, precision=precision) for k in (chain, lambda x: qb.sum(qb.exp(-x * x)), lambda a, b: a @ b)
        )
        micro("chain1e6." + name, lambda f=f, x=x: f(x))
        micro("sumexp1e6." + name, lambda g=g, x=x: g(x))
        a = normal(1024, 1024, dtype=dtype)
        micro("matmul1024." + name, lambda h=h, a=a: h(a, a), 1.0)
        b = normal(1000, 64, dtype=dtype)
        micro("matmul1000x64x64." + name, lambda h=h, b=b, w=b[:64]: h(b, w))


def derivative(k):
    """Loss and gradient for the k-th derivative of a network at 256 points: a function and its arguments."""

    def u(x, p):
        return qb.sum(mlp(p, x.reshape([1, 1])))

    p, x = mlp_init([1, 32, 32, 32, 1], qb.float64), qb.linspace(0, 1, 256)
    for _ in range(k):
        u = qb.grad(u)
    return qb.jit(qb.value_and_grad(lambda p: qb.mean(qb.vmap(u, (0, None))(x, p) ** 2))), (p,)


def derivs():
    for k in (2, 4, 6):
        f, args = derivative(k)
        once(f"deriv{k}.first", lambda f=f, args=args: f(*args))
        micro(f"deriv{k}", lambda f=f, args=args: f(*args), 1.0)

    def rosenbrock(x):
        return qb.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    z, h = qb.linspace(-1, 1, 100), qb.jit(qb.hessian(rosenbrock))
    once("hessian100.first", lambda: h(z))
    micro("hessian100", lambda: h(z))


def laplace():
    for name, activation, sizes, n in laplace_cases():
        act, x = getattr(qb, activation), qb.random.uniform(qb.random.key(1), (n, sizes[0]))

        def u(x, p, act=act):
            return qb.sum(mlp(p, x.reshape([1, x.shape[0]]), act))

        def trace(x, p, u=u):
            return qb.trace(qb.hessian(u)(x, p))

        def loss(p, x=x, trace=trace):
            return qb.mean((qb.vmap(trace, (0, None))(x, p) + 1.0) ** 2)

        f, p = qb.jit(qb.value_and_grad(loss)), mlp_init(sizes, qb.float64)
        once(name + ".first", lambda f=f, p=p: f(p))
        micro(name, lambda f=f, p=p: f(p), 1.0, 5)


def grids():
    def scan(step, u, n):
        return qb.scan(lambda u, _: (step(u), None), u, length=n)[0]

    for name, f, x in grid_cases(qb, scan, lambda shape: qb.random.uniform(qb.random.key(1), shape)):
        x, run = qb.asarray(x), qb.jit(f)
        once(name + ".first", lambda run=run, x=x: run(x))
        micro(name, lambda run=run, x=x: run(x))
        if name.startswith(("heat", "stencil")):
            grad = qb.jit(qb.value_and_grad(f))
            once(name + ".grad.first", lambda grad=grad, x=x: grad(x))
            micro(name + ".grad", lambda grad=grad, x=x: grad(x))


def compiling():
    """First calls: trace, transform, compile, run."""
    u_xx = qb.vmap(qb.grad(qb.grad(lambda x, w: qb.sin(w * x))), in_axes=(0, None))

    def readme(params, x):
        return qb.mean((u_xx(x, params["w"]) + math.pi**2 * qb.sin(math.pi * x)) ** 2)

    step, x, p = qb.jit(qb.value_and_grad(readme)), qb.linspace(0.05, 0.95, 8), {"w": qb.array(2.5)}
    once("readme.first", lambda: step(p, x))
    loss, p = burgers([2, 20, 20, 20, 20, 1], 100, qb.float64)
    grad = qb.jit(qb.value_and_grad(loss))
    once("burgers20x4.grad.first", lambda: grad(p))

    def chain(n):
        def f(x):
            for _ in range(n // 3):
                x = qb.sin(x * 0.9) + 0.1
            return qb.sum(x)

        return f

    x = qb.ones((4,))
    for n in (1000, 3000, 10_000, 30_000, 100_000):
        f, g = qb.jit(chain(n)), qb.jit(qb.grad(chain(n)))
        once(f"chain{n}.first", lambda f=f: f(x))
        once(f"chain{n}.grad.first", lambda g=g: g(x))


def loops():
    w, h = 0.2 * normal(16, 16), qb.ones((16,))

    def rnn(w):
        def body(c, i):
            c = qb.tanh(qb.matmul(w, c) + 0.1)
            return c, c

        return qb.sum(qb.scan(body, h, length=1000)[0])

    def grow(x):
        return qb.while_loop(lambda c: qb.sum(c) < 1e4, lambda c: c * 1.001 + 0.01, x)

    f, g, s = qb.jit(qb.value_and_grad(rnn)), qb.jit(grow), qb.jit(lambda p: lotka_volterra(qb, qb.while_loop, p))
    once("scan1000.grad.first", lambda: f(w))
    micro("scan1000.grad", lambda: f(w))
    micro("while", lambda: g(h))
    p = qb.array([1.5, 1.0, 3.0, 1.0])
    once("dopri5.first", lambda: s(p))
    micro("dopri5", lambda: s(p))


def ode():
    if not has("ode", "ode.odeint"):
        return

    def field(y, t, th):
        return qb.stack([th[0] * y[0] - th[1] * y[0] * y[1], th[3] * y[0] * y[1] - th[2] * y[1]])

    options = dict(method="dopri5", rtol=1e-6, atol=1e-9, max_steps=512)

    def end(th):
        return qb.ode.odeint(field, qb.array([1.0, 1.0]), (0.0, 5.0), args=(th,), **options)

    th = qb.array([1.5, 1.0, 3.0, 1.0])
    for name, fn in (("ode.lv", end), ("ode.lv.grad", qb.value_and_grad(lambda th: qb.sum(end(th))))):
        f = qb.jit(fn)
        once(name + ".first", lambda f=f: f(th))
        micro(name, lambda f=f: f(th))


def linalg():
    if not has("linalg", "linalg.solve", "linalg.eigh", "linalg.svd", "linalg.cholesky", "linalg.qr"):
        return
    la = qb.linalg
    a, b = normal(256, 256) + 16 * qb.eye(256), normal(256)
    s = (a + a.T) / 2
    spd = s @ s.T
    micro("solve256", lambda: la.solve(a, b), 0.6)
    micro("eigh256", lambda: la.eigh(s)[0], 0.6)
    micro("svd256", lambda: la.svd(a)[1], 0.6)
    micro("cholesky256", lambda: la.cholesky(spd), 0.6)
    micro("qr256", lambda: la.qr(a)[0], 0.6)
    many, right = normal(1000, 8, 8) + 4 * qb.eye(8), normal(1000, 8, 1)
    f = qb.jit(la.solve)
    micro("solve.batch1000x8", lambda: f(many, right))


def lbfgs():
    def rosen(x):
        return qb.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    z, solver = qb.full((100,), -1.0), qb.optim.LBFGS(max_iterations=500, tolerance_grad=1e-8, tolerance_change=0.0)
    once("lbfgs.rosen100.first", lambda: solver.minimize(rosen, z))
    micro("lbfgs.rosen100", lambda: solver.minimize(rosen, z), 1.0, 3)


def lbfgs_share():
    """Without a peer: what L-BFGS adds to its loss."""
    share("lbfgs.pinn20x2", *small_pinn(), 1000)
    share("lbfgs.burgers20x3.n2540", *burgers([2, 20, 20, 20, 1], 2540, qb.float64), 200)


def small_pinn():
    def u(x, p):
        return qb.sum(mlp(p, x.reshape([1, 1])))

    u_xx, u_at = qb.vmap(qb.grad(qb.grad(u)), in_axes=(0, None)), qb.vmap(u, in_axes=(0, None))
    x, ends = qb.linspace(0.0, 1.0, 500), qb.array([0.0, 1.0])

    def loss(p):
        return qb.mean((u_xx(x, p) + math.pi**2 * qb.sin(math.pi * x)) ** 2) + 10.0 * qb.mean(u_at(ends, p) ** 2)

    return loss, mlp_init([1, 20, 20, 1], qb.float64)


def share(name, loss, p, evaluations):
    """An evaluation of a PINN loss in runs of LBFGS and of a Trainer, and the part of it that is the compiled loss, called alone."""
    limits = dict(max_iterations=10_000, tolerance_grad=0.0, tolerance_change=0.0)
    solver = qb.optim.LBFGS(max_evaluations=evaluations, **limits)
    step, first = qb.jit(qb.value_and_grad(loss)), qb.optim.LBFGS(max_iterations=1).minimize(loss, p)[1].evaluations
    runs = {
        "evaluation": lambda trainer: solver.minimize(loss, p)[1].evaluations,
        "trainer": lambda trainer: evaluations - first if trainer.run(10_000) is not None else 0,
        "loss": lambda trainer: sum(1 for _ in range(evaluations) if step(p)),
    }
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(10):  # in turn, so that all see the same machine
        trainer = qb.optim.Trainer(loss, p, solver)
        trainer.run(1)  # compiles
        for kind, run in runs.items():
            start = time.perf_counter()
            count = run(trainer)
            best[kind] = min(best[kind], (time.perf_counter() - start) / count * 1e6)
    for kind, us in best.items():
        RESULTS[f"{name}.{kind}"] = us


def draws():
    key = qb.random.key(0)
    micro("random.normal1e6", lambda: qb.random.normal(key, (1_000_000,)))
    micro("random.uniform1e6", lambda: qb.random.uniform(key, (1_000_000,)))


CASES = {
    "dispatch": dispatch,
    "pinn": pinn,
    "big": big,
    "kernels": kernels,
    "derivs": derivs,
    "laplace": laplace,
    "grids": grids,
    "loops": loops,
    "ode": ode,
    "linalg": linalg,
    "lbfgs": lbfgs,
    "lbfgs_share": lbfgs_share,
    "random": draws,
    "growth": growth,
    "compile": compiling,
}
if __name__ == "__main__":
    for group, cases in CASES.items():
        if on(group):
            cases()
    done()
