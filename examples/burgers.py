"""Burgers' equation u_t + u u_x = (0.01 / pi) u_xx on [-1, 1] x [0, 0.99], u(x, 0) = -sin(pi x), u(-1, t) = u(1, t) = 0.

u is odd in x, so it is sought on [0, 1], with u(0, t) = 0. A 2-20-20-20-1 tanh network, Adam with a decaying rate, then L-BFGS. The
values at t = 0 and at x = 1 hold by construction (Lagaris and others 1998). At x = 0 a shock forms, too steep for a factor x, so there
they are a second term of the loss. The points are drawn anew every while, more of them where the residual is large.
The exact solution is the Cole-Hopf integral (Cole 1951, Hopf 1950):
    u(x, t) = -N / D,  N = int sin(pi (x - y)) f(x - y) exp(-y^2 / (4 nu t)) dy,  D the same without the sine,
    f(z) = exp(-cos(pi z) / (2 pi nu)),
taken by Gauss-Hermite quadrature in y / sqrt(4 nu t).
"""

import argparse
import math

import numpy as np
import quabla as qb
from network import init, value

NU = 0.01 / math.pi
SIZES = (2, 20, 20, 20, 1)
SHOCK = qb.zeros((100,)), qb.linspace(0.0, 0.99, 100)  # points at x = 0


def u(x, t, p):  # -sin(pi x) at t = 0, and 0 at x = 1, whatever the network is
    return -qb.sin(math.pi * x) + t * (1.0 - x) * value(p, x, t)


u_x, u_t = qb.grad(u, 0), qb.grad(u, 1)
u_xx = qb.grad(u_x, 0)


def residual(x, t, p):
    return u_t(x, t, p) + u(x, t, p) * u_x(x, t, p) - NU * u_xx(x, t, p)


residuals = qb.vmap(residual, in_axes=(0, 0, None))
u_at = qb.vmap(u, in_axes=(0, 0, None))


def loss(p, inside):
    return {"equation": qb.mean(residuals(*inside, p) ** 2), "shock": qb.mean(u_at(*SHOCK, p) ** 2)}


def points(key, n):
    """Random points inside: x and t."""
    a, b = qb.random.split(key)
    return qb.random.uniform(a, (n,)), qb.random.uniform(b, (n,), maxval=0.99)


sizes_of = qb.jit(lambda x, t, p: qb.abs(residuals(x, t, p)))


def chosen(key, p, n):
    """n points out of 5 n / 2 random ones, the likelier the larger the residual of p (Wu and others 2023)."""
    a, b = qb.random.split(key)
    x, t = points(a, 5 * n // 2)
    size = sizes_of(x, t, p)
    rows = qb.random.choice(b, qb.stack([x, t], axis=1), (n,), replace=False, p=size / qb.mean(size) + 1.0)
    return rows[:, 0], rows[:, 1]


def exact(x, t):
    """The Cole-Hopf solution at points x (array) and one time t."""
    if t == 0:
        return -np.sin(np.pi * x)
    node, weight = np.polynomial.hermite.hermgauss(200)
    z = x[:, None] - math.sqrt(4 * NU * t) * node
    power = -np.cos(np.pi * z) / (2 * np.pi * NU)
    f = weight * np.exp(power - power.max(axis=1, keepdims=True))
    return -(np.sin(np.pi * z) * f).sum(1) / f.sum(1)


def train(adam=1000, moving=3000, last=3000, n=1000, seed=0, progress=False):
    """The trainer after Adam and L-BFGS on points that are new every 500 steps, and L-BFGS on points that stay."""
    a, b, key = qb.random.split(qb.random.key(seed), 3)
    rate = qb.optim.exponential_decay(5e-3, max(1, adam // 2), 0.3)
    lbfgs = qb.optim.LBFGS(history=50, tolerance_grad=1e-9, tolerance_change=0.0)
    trainer = qb.optim.Trainer(loss, init(a, SIZES), qb.optim.Adam(rate), points(b, n), batch_argnums=0)

    def sample(draw, p):
        return (chosen(qb.random.fold_in(key, draw), p, n),)

    trainer.fit(adam, (lbfgs, moving), sample=sample, sample_every=500, progress=progress)
    trainer.fit((lbfgs, last), sample=sample, sample_every=adam + moving, progress=progress)
    return trainer


def fields(p, nx=201, nt=100):
    """Grid x, t, the network and the exact solution on it."""
    x, t = np.linspace(-1, 1, nx), np.linspace(0, 0.99, nt)
    truth = np.stack([exact(x, s) for s in t])
    grid_t, grid_x = np.meshgrid(t, x, indexing="ij")
    half = u_at(qb.asarray(abs(grid_x).ravel()), qb.asarray(grid_t.ravel()), p).numpy().reshape(nt, nx)
    return x, t, np.where(grid_x < 0, -half, half), truth


def plot(x, t, found, truth, path):
    """u(x, t) of the network and exact, and their difference, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(13, 3.8), sharey=True)
    shows = ((found, "network", -1, 1, "RdBu_r"), (truth, "exact (Cole-Hopf)", -1, 1, "RdBu_r"))
    shows += ((np.abs(found - truth), "|difference|", 0, None, "magma_r"),)
    for ax, (field, title, lo, hi, colours) in zip(axes, shows):
        mesh = ax.pcolormesh(t, x, field.T, vmin=lo, vmax=hi, cmap=colours, shading="auto")
        fig.colorbar(mesh, ax=ax)
        ax.set_title(title)
        ax.set_xlabel("t")
    axes[0].set_ylabel("x")
    fig.suptitle("Burgers' equation, u(x, t)")
    fig.tight_layout()
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main():
    args = argparse.ArgumentParser(description="Burgers' equation by a physics-informed network")
    args.add_argument("--seed", type=int, default=0)
    args.add_argument("--plot", default="burgers.png", help="where the picture goes")
    args = args.parse_args()
    p = train(seed=args.seed, progress=True).params
    x, t, found, truth = fields(p)
    print(f"relative L2 error: {np.linalg.norm(found - truth) / np.linalg.norm(truth):.4f}")
    plot(x, t, found, truth, args.plot)
    print(f"wrote {args.plot}")


if __name__ == "__main__":
    main()
