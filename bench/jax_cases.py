"""The cases in JAX with optax, whole steps jitted."""

import time

START = time.perf_counter()
import jax

jax.config.update("jax_enable_x64", True)
import jax.numpy as jnp
import numpy as np
from common import ORDERS, RESULTS, done, grid_cases, growth_cases, laplace_cases, lotka_volterra, micro, once, wanted

RESULTS["import"] = (time.perf_counter() - START) * 1e6
import math

GROUPS = wanted()
DTYPES = {"f64": jnp.float64, "f32": jnp.float32}


def on(group):
    return GROUPS is None or group in GROUPS


def ready(x):
    return jax.block_until_ready(x)


def mlp_init(sizes, dtype, seed=0):
    r = np.random.RandomState(seed)
    return [
        (jnp.asarray(r.randn(m, n) * math.sqrt(2 / (m + n)), dtype), jnp.zeros((n,), dtype))
        for m, n in zip(sizes[:-1], sizes[1:])
    ]


def mlp(p, h, act=jnp.tanh):
    for w, b in p[:-1]:
        h = act(h @ w + b)
    w, b = p[-1]
    return h @ w + b


def adam_step(loss, p):
    import optax

    opt = optax.adam(1e-3)
    state = opt.init(p)

    @jax.jit
    def step(p, state):
        value, grads = jax.value_and_grad(loss)(p)
        update, state = opt.update(grads, state, p)
        return optax.apply_updates(p, update), state, value

    return step, p, state


def poisson_step(sizes, n, dtype):
    def u(x, p):
        return mlp(p, x.reshape(1, 1))[0, 0]

    u_xx = jax.vmap(jax.grad(jax.grad(u)), in_axes=(0, None))
    u_at = jax.vmap(u, in_axes=(0, None))
    x, ends = jnp.linspace(0.02, 0.98, n).astype(dtype), jnp.asarray([0.0, 1.0], dtype)

    def loss(p):
        return jnp.mean((u_xx(x, p) + math.pi**2 * jnp.sin(math.pi * x)) ** 2) + 10 * jnp.mean(u_at(ends, p) ** 2)

    return adam_step(loss, mlp_init(sizes, dtype))


def burgers(sizes, n, dtype):
    def u(x, t, p):
        return mlp(p, jnp.stack([x, t]).reshape(1, 2))[0, 0]

    u_t, u_x = jax.grad(u, 1), jax.grad(u, 0)
    u_xx = jax.grad(u_x, 0)

    def residual(x, t, p):
        return u_t(x, t, p) + u(x, t, p) * u_x(x, t, p) - 0.01 / math.pi * u_xx(x, t, p)

    residuals, u_at = jax.vmap(residual, in_axes=(0, 0, None)), jax.vmap(u, in_axes=(0, 0, None))
    r = np.random.RandomState(1)
    x, t = jnp.asarray(r.uniform(-1, 1, n), dtype), jnp.asarray(r.uniform(0, 1, n), dtype)
    x0, zero = jnp.linspace(-1, 1, 100).astype(dtype), jnp.zeros(100, dtype)

    def loss(p):
        return jnp.mean(residuals(x, t, p) ** 2) + jnp.mean((u_at(x0, zero, p) + jnp.sin(math.pi * x0)) ** 2)

    return loss, mlp_init(sizes, dtype)


def burgers_step(sizes, n, dtype):
    return adam_step(*burgers(sizes, n, dtype))


def run_step(name, made, seconds=1.5):
    step, p, state = made
    once(name + ".first", lambda: ready(step(p, state)))
    now = [p, state]

    def again():
        now[0], now[1], value = step(now[0], now[1])
        ready(value)

    micro(name, again, seconds, 5)


def dispatch():
    x, y, s = jnp.ones(1000), jnp.ones(1000), jnp.asarray(1.0)
    micro("eager.add1000", lambda: ready(x + y))
    micro("eager.sin1000", lambda: ready(jnp.sin(x)))
    micro("eager.add_scalar", lambda: ready(s + s))
    f = jax.jit(lambda a: a + 1.0)
    micro("jit.trivial", lambda: ready(f(s)))
    many = {f"k{i}": s for i in range(50)}
    g = jax.jit(lambda d: {k: v + 1.0 for k, v in d.items()})
    micro("jit.tree50", lambda: ready(g(many)))


def pinn():
    for name, dtype in DTYPES.items():
        run_step(f"pinn16x2.n32.{name}", poisson_step([1, 16, 16, 1], 32, dtype))
    run_step("burgers20x3.n2540.f64", burgers_step([2, 20, 20, 20, 1], 2540, jnp.float64))
    for name, dtype in DTYPES.items():
        run_step(f"burgers64x4.n1000.{name}", burgers_step([2, 64, 64, 64, 64, 1], 1000, dtype))


def big():
    for name, dtype in DTYPES.items():
        run_step(f"burgers128x6.n10000.{name}", burgers_step([2] + [128] * 6 + [1], 10000, dtype), 8)


def growth():
    for name, sizes, n in growth_cases():
        run_step(name, burgers_step(sizes, n, jnp.float64), 0.6)
    for k in ORDERS:
        f, args = derivative(k)
        micro(f"growth.order.{k}", lambda f=f, args=args: ready(f(*args)), 0.6)


def kernels():
    def chain(x):
        a = jnp.tanh(x * 1.3 + 0.2)
        b = a * a - 1.0
        c = jnp.exp(-b * b) + jnp.sin(x)
        return c * a + b / (1.0 + c * c)

    for name, dtype in DTYPES.items():
        x = jnp.linspace(-3, 3, 1_000_000).astype(dtype)
        f, g, h = jax.jit(chain), jax.jit(lambda x: jnp.sum(jnp.exp(-x * x))), jax.jit(lambda a, b: a @ b)
        micro("chain1e6." + name, lambda f=f, x=x: ready(f(x)))
        micro("sumexp1e6." + name, lambda g=g, x=x: ready(g(x)))
        a = jnp.asarray(np.random.RandomState(0).randn(1024, 1024), dtype)
        micro("matmul1024." + name, lambda h=h, a=a: ready(h(a, a)), 1.0)
        b = jnp.asarray(np.random.RandomState(0).randn(1000, 64), dtype)
        micro("matmul1000x64x64." + name, lambda h=h, b=b, w=b[:64]: ready(h(b, w)))


def derivative(k):
    """Loss and gradient for the k-th derivative of a network at 256 points: a function and its arguments."""

    def u(x, p):
        return mlp(p, x.reshape(1, 1))[0, 0]

    p, x = mlp_init([1, 32, 32, 32, 1], jnp.float64), jnp.linspace(0, 1, 256)
    for _ in range(k):
        u = jax.grad(u)
    return jax.jit(jax.value_and_grad(lambda p: jnp.mean(jax.vmap(u, (0, None))(x, p) ** 2))), (p,)


def derivs():
    for k in (2, 4, 6):
        f, args = derivative(k)
        once(f"deriv{k}.first", lambda f=f, args=args: ready(f(*args)))
        micro(f"deriv{k}", lambda f=f, args=args: ready(f(*args)), 1.0)

    def rosenbrock(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    z, h = jnp.linspace(-1, 1, 100), jax.jit(jax.hessian(rosenbrock))
    once("hessian100.first", lambda: ready(h(z)))
    micro("hessian100", lambda: ready(h(z)))


def laplace():
    for name, activation, sizes, n in laplace_cases():
        act = getattr(jax.nn, activation)
        x = jnp.asarray(np.random.RandomState(1).uniform(0, 1, (n, sizes[0])))

        def u(x, p, act=act):
            return jnp.sum(mlp(p, x.reshape([1, x.shape[0]]), act))

        def trace(x, p, u=u):
            return jnp.trace(jax.hessian(u)(x, p))

        def loss(p, x=x, trace=trace):
            return jnp.mean((jax.vmap(trace, (0, None))(x, p) + 1.0) ** 2)

        f, p = jax.jit(jax.value_and_grad(loss)), mlp_init(sizes, jnp.float64)
        once(name + ".first", lambda f=f, p=p: ready(f(p)))
        micro(name, lambda f=f, p=p: ready(f(p)), 1.0, 5)


def grids():
    def scan(step, u, n):
        return jax.lax.scan(lambda u, _: (step(u), None), u, None, length=n)[0]

    for name, f, x in grid_cases(jnp, scan, lambda shape: jnp.asarray(np.random.RandomState(1).uniform(0, 1, shape))):
        x, run = jnp.asarray(x), jax.jit(f)
        once(name + ".first", lambda run=run, x=x: ready(run(x)))
        micro(name, lambda run=run, x=x: ready(run(x)))
        if name.startswith(("heat", "stencil")):
            grad = jax.jit(jax.value_and_grad(f))
            once(name + ".grad.first", lambda grad=grad, x=x: ready(grad(x)))
            micro(name + ".grad", lambda grad=grad, x=x: ready(grad(x)))


def compiling():
    """First calls: trace, transform, compile, run."""
    u_xx = jax.vmap(jax.grad(jax.grad(lambda x, w: jnp.sin(w * x))), in_axes=(0, None))

    def readme(params, x):
        return jnp.mean((u_xx(x, params["w"]) + math.pi**2 * jnp.sin(math.pi * x)) ** 2)

    step, x, p = jax.jit(jax.value_and_grad(readme)), jnp.linspace(0.05, 0.95, 8), {"w": jnp.array(2.5)}
    once("readme.first", lambda: ready(step(p, x)))
    loss, p = burgers([2, 20, 20, 20, 20, 1], 100, jnp.float64)
    grad = jax.jit(jax.value_and_grad(loss))
    once("burgers20x4.grad.first", lambda: ready(grad(p)))

    def chain(n):
        def f(x):
            for _ in range(n // 3):
                x = jnp.sin(x * 0.9) + 0.1
            return jnp.sum(x)

        return f

    x = jnp.ones((4,))
    for n in (1000, 3000):  # beyond, a first call takes minutes
        f, g = jax.jit(chain(n)), jax.jit(jax.grad(chain(n)))
        once(f"chain{n}.first", lambda f=f: ready(f(x)))
        once(f"chain{n}.grad.first", lambda g=g: ready(g(x)))


def loops():
    w, h = jnp.asarray(np.random.RandomState(0).randn(16, 16) * 0.2), jnp.ones((16,))

    def rnn(w):
        def body(c, _):
            c = jnp.tanh(w @ c + 0.1)
            return c, c

        return jnp.sum(jax.lax.scan(body, h, None, length=1000)[0])

    def grow(x):
        return jax.lax.while_loop(lambda c: jnp.sum(c) < 1e4, lambda c: c * 1.001 + 0.01, x)

    f, g = jax.jit(jax.value_and_grad(rnn)), jax.jit(grow)
    s = jax.jit(lambda p: lotka_volterra(jnp, jax.lax.while_loop, p))
    once("scan1000.grad.first", lambda: ready(f(w)))
    micro("scan1000.grad", lambda: ready(f(w)))
    micro("while", lambda: ready(g(h)))
    p = jnp.array([1.5, 1.0, 3.0, 1.0])
    once("dopri5.first", lambda: ready(s(p)))
    micro("dopri5", lambda: ready(s(p)))


def ode():
    import diffrax

    def field(t, y, th):
        return jnp.stack([th[0] * y[0] - th[1] * y[0] * y[1], th[3] * y[0] * y[1] - th[2] * y[1]])

    control = diffrax.PIDController(rtol=1e-6, atol=1e-9)
    term, solver, y0 = diffrax.ODETerm(field), diffrax.Dopri5(), jnp.asarray([1.0, 1.0])

    def end(th):
        solve = diffrax.diffeqsolve(term, solver, 0.0, 5.0, None, y0, th, stepsize_controller=control, max_steps=512)
        return solve.ys[0]

    th = jnp.asarray([1.5, 1.0, 3.0, 1.0])
    for name, fn in (("ode.lv", end), ("ode.lv.grad", jax.value_and_grad(lambda th: jnp.sum(end(th))))):
        f = jax.jit(fn)
        once(name + ".first", lambda f=f: ready(f(th)))
        micro(name, lambda f=f: ready(f(th)))


def linalg():
    r, la = np.random.RandomState(0), jnp.linalg
    a, b = jnp.asarray(r.randn(256, 256) + 16 * np.eye(256)), jnp.asarray(r.randn(256))
    s = (a + a.T) / 2
    spd = s @ s.T
    micro("solve256", lambda: ready(la.solve(a, b)), 0.6)
    micro("eigh256", lambda: ready(la.eigh(s)[0]), 0.6)
    micro("svd256", lambda: ready(la.svd(a, full_matrices=False)[1]), 0.6)
    micro("cholesky256", lambda: ready(la.cholesky(spd)), 0.6)
    micro("qr256", lambda: ready(la.qr(a)[0]), 0.6)
    many, right = jnp.asarray(r.randn(1000, 8, 8) + 4 * np.eye(8)), jnp.asarray(r.randn(1000, 8, 1))
    f = jax.jit(la.solve)
    micro("solve.batch1000x8", lambda: ready(f(many, right)))


def lbfgs():
    import optax

    def rosen(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    opt, value_and_grad = optax.lbfgs(), optax.value_and_grad_from_state(rosen)

    def step(carry):
        x, state = carry
        value, grad = value_and_grad(x, state=state)
        update, state = opt.update(grad, state, x, value=value, grad=grad, value_fn=rosen)
        return optax.apply_updates(x, update), state

    def more(carry):
        n, size = optax.tree.get(carry[1], "count"), optax.tree.norm(optax.tree.get(carry[1], "grad"))
        return (n == 0) | ((n < 500) & (size >= 1e-8))

    z = jnp.full((100,), -1.0)
    f = jax.jit(lambda z: jax.lax.while_loop(more, step, (z, opt.init(z)))[0])
    once("lbfgs.rosen100.first", lambda: ready(f(z)))
    micro("lbfgs.rosen100", lambda: ready(f(z)), 1.0, 3)


def draws():
    key = jax.random.key(0)
    normal = jax.jit(lambda k: jax.random.normal(k, (1_000_000,)))
    uniform = jax.jit(lambda k: jax.random.uniform(k, (1_000_000,)))
    micro("random.normal1e6", lambda: ready(normal(key)))
    micro("random.uniform1e6", lambda: ready(uniform(key)))


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
    "random": draws,
    "growth": growth,
    "compile": compiling,
}
if __name__ == "__main__":
    for group, cases in CASES.items():
        if on(group):
            cases()
    done()
