"""Burgers' equation u_t + u u_x = (0.01 / pi) u_xx on [-1, 1] x [0, 0.99], u(x, 0) = -sin(pi x), u(-1, t) = u(1, t) = 0.

A 2-20-20-20-1 tanh network, Adam with a decaying rate. The exact solution is the Cole-Hopf integral (Cole 1951, Hopf 1950):
    u(x, t) = -N / D,  N = int sin(pi (x - y)) f(x - y) exp(-y^2 / (4 nu t)) dy,  D the same without the sine,
    f(z) = exp(-cos(pi z) / (2 pi nu)),
taken by Gauss-Hermite quadrature in y / sqrt(4 nu t).
"""

import argparse
import math

import numpy as np
import quabla as qb

NU = 0.01 / math.pi
SIZES = (2, 20, 20, 20, 1)


def init(key, sizes=SIZES):
    keys = qb.random.split(key, len(sizes) - 1)
    return [(qb.random.glorot_normal(k, (m, n)), qb.zeros((n,))) for k, m, n in zip(keys, sizes, sizes[1:])]


def u(x, t, p):  # the network at one point
    h = qb.stack([x, t]).reshape([1, 2])
    for w, b in p[:-1]:
        h = qb.tanh(h @ w + b)
    w, b = p[-1]
    return qb.sum(h @ w + b)


u_x, u_t = qb.grad(u, 0), qb.grad(u, 1)
u_xx = qb.grad(u_x, 0)


def residual(x, t, p):
    return u_t(x, t, p) + u(x, t, p) * u_x(x, t, p) - NU * u_xx(x, t, p)


residuals = qb.vmap(residual, in_axes=(0, 0, None))
u_at = qb.vmap(u, in_axes=(0, 0, None))


def loss(p, inside, boundary, start):
    return (
        qb.mean(residuals(*inside, p) ** 2)
        + qb.mean(u_at(*boundary, p) ** 2)
        + qb.mean((u_at(*start, p) + qb.sin(math.pi * start[0])) ** 2)
    )


def points(key, inside=2540, boundary=80, start=160):
    """Random interior and boundary points, equally spaced initial ones: three pairs (x, t)."""
    a, b, c, d = qb.random.split(key, 4)
    side = qb.where(qb.random.bernoulli(c, 0.5, (boundary,)), 1.0, -1.0)
    return (
        (qb.random.uniform(a, (inside,), minval=-1.0), qb.random.uniform(b, (inside,), maxval=0.99)),
        (side, qb.random.uniform(d, (boundary,), maxval=0.99)),
        (qb.linspace(-1.0, 1.0, start), qb.zeros((start,))),
    )


def exact(x, t):
    """The Cole-Hopf solution at points x (array) and one time t."""
    if t == 0:
        return -np.sin(np.pi * x)
    node, weight = np.polynomial.hermite.hermgauss(200)
    z = x[:, None] - math.sqrt(4 * NU * t) * node
    power = -np.cos(np.pi * z) / (2 * np.pi * NU)
    f = weight * np.exp(power - power.max(axis=1, keepdims=True))
    return -(np.sin(np.pi * z) * f).sum(1) / f.sum(1)


def train(steps=8000, seed=0, progress=False):
    """The trained parameters."""
    rate = qb.optim.exponential_decay(5e-3, 2000, 0.5)
    keys = qb.random.split(qb.random.key(seed))
    trainer = qb.optim.Trainer(loss, init(keys[0]), qb.optim.Adam(rate), *points(keys[1]))
    trainer.run(steps, progress=progress)
    return trainer.params


def fields(p, nx=201, nt=100):
    """Grid x, t, the network and the exact solution on it."""
    x, t = np.linspace(-1, 1, nx), np.linspace(0, 0.99, nt)
    truth = np.stack([exact(x, s) for s in t])
    grid_t, grid_x = np.meshgrid(t, x, indexing="ij")
    found = u_at(qb.asarray(grid_x.ravel()), qb.asarray(grid_t.ravel()), p).numpy().reshape(nt, nx)
    return x, t, found, truth


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
    args.add_argument("--steps", type=int, default=8000)
    args.add_argument("--seed", type=int, default=0)
    args.add_argument("--plot", default="burgers.png", help="where the picture goes")
    args = args.parse_args()
    p = train(args.steps, args.seed, progress=True)
    x, t, found, truth = fields(p)
    print(f"relative L2 error: {np.linalg.norm(found - truth) / np.linalg.norm(truth):.3f}")
    plot(x, t, found, truth, args.plot)
    print(f"wrote {args.plot}")


if __name__ == "__main__":
    main()
