"""The heat equation u_t = k u_xx on [0, 1] x [0, 1], k = 0.1, u = 0 at both ends, u(x, 0) = sin(pi x) + sin(3 pi x) / 2.

A 2-20-20-1 tanh network: Adam on points that are drawn anew every 100 steps, then L-BFGS. Exact solution by separation of variables.
"""

import argparse
import math

import quabla as qb
from network import init, value

K = 0.1


def u(x, t, p):
    return value(p, x, t)


u_t, u_xx = qb.grad(u, 1), qb.grad(qb.grad(u, 0), 0)
residuals = qb.vmap(lambda x, t, p: u_t(x, t, p) - K * u_xx(x, t, p), in_axes=(0, 0, None))
u_at = qb.vmap(u, in_axes=(0, 0, None))


def first(x):
    return qb.sin(math.pi * x) + 0.5 * qb.sin(3 * math.pi * x)


def exact(x, t):
    wave = qb.exp(-K * math.pi**2 * t) * qb.sin(math.pi * x)
    return wave + 0.5 * qb.exp(-9 * K * math.pi**2 * t) * qb.sin(3 * math.pi * x)


def loss(p, inside, side, start):
    return {
        "equation": qb.mean(residuals(*inside, p) ** 2),
        "ends": 10.0 * qb.mean(u_at(*side, p) ** 2),
        "start": 10.0 * qb.mean((u_at(*start, p) - first(start[0])) ** 2),
    }


def points(key, n=800):
    """Random points inside the domain: x and t."""
    a, b = qb.random.split(key)
    return qb.random.uniform(a, (n,)), qb.random.uniform(b, (n,))


def train(adam=1500, lbfgs=1000, progress=False):
    """The trainer after its two phases."""
    first_key, key = qb.random.split(qb.random.key(0))
    t, x = qb.linspace(0.0, 1.0, 40), qb.linspace(0.0, 1.0, 80)
    side = (qb.concat([qb.zeros((40,)), qb.ones((40,))]), qb.concat([t, t]))
    trainer = qb.optim.Trainer(
        loss,
        init(first_key, (2, 20, 20, 1)),
        qb.optim.Adam(qb.optim.exponential_decay(5e-3, 500, 0.5)),
        points(key),
        side,
        (x, qb.zeros((80,))),
        batch_argnums=0,
    )
    trainer.fit(
        adam,
        sample=lambda draw, params: (points(qb.random.fold_in(key, draw)),),
        sample_every=100,
        progress=progress,
    )
    trainer.fit((qb.optim.LBFGS(history=20, tolerance_change=0.0), lbfgs), progress=progress)
    return trainer


def relative_error(p, n=51):
    """Relative L2 error on an n by n grid."""
    grid = qb.linspace(0.0, 1.0, n)
    x, t = (
        qb.broadcast_to(grid, (n, n)).reshape([n * n]),
        qb.broadcast_to(grid.reshape([n, 1]), (n, n)).reshape([n * n]),
    )
    truth = exact(x, t)
    return qb.sqrt(qb.sum((u_at(x, t, p) - truth) ** 2) / qb.sum(truth**2)).item()


def main():
    args = argparse.ArgumentParser(description="The heat equation by a physics-informed network")
    args.add_argument("--plot", default="heat.png", help="where the picture of the loss goes")
    args = args.parse_args()
    trainer = train(progress=True)
    print(f"relative L2 error: {relative_error(trainer.params):.1e}")
    trainer.plot_history(args.plot)
    print(f"wrote {args.plot}")


if __name__ == "__main__":
    main()
