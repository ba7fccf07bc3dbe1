"""Poisson's equation in two dimensions: u_xx + u_yy = -2 pi^2 sin(pi x) sin(pi y) on the unit square, u = 0 on its boundary.

A 2-20-20-1 tanh network, trained by L-BFGS alone. Exact: u = sin(pi x) sin(pi y).
"""

import argparse
import math

import quabla as qb
from network import init, value


def u(x, y, p):
    return value(p, x, y)


u_xx, u_yy = qb.grad(qb.grad(u, 0), 0), qb.grad(qb.grad(u, 1), 1)
laplacian = qb.vmap(lambda x, y, p: u_xx(x, y, p) + u_yy(x, y, p), in_axes=(0, 0, None))
u_at = qb.vmap(u, in_axes=(0, 0, None))


def exact(x, y):
    return qb.sin(math.pi * x) * qb.sin(math.pi * y)


def loss(p, inside, boundary):
    return {
        "equation": qb.mean((laplacian(*inside, p) + 2 * math.pi**2 * exact(*inside)) ** 2),
        "boundary": 100.0 * qb.mean(u_at(*boundary, p) ** 2),
    }


def grid(n):
    """The coordinates of n by n points of the square."""
    side = qb.linspace(0.0, 1.0, n)
    x = qb.broadcast_to(side.reshape([n, 1]), (n, n)).reshape([n * n])
    return x, qb.broadcast_to(side, (n, n)).reshape([n * n])


def edge(n):
    """The coordinates of n points on each of the four sides."""
    side, zero, one = qb.linspace(0.0, 1.0, n), qb.zeros((n,)), qb.ones((n,))
    return qb.concat([side, side, zero, one]), qb.concat([zero, one, side, side])


def train(steps=1500, progress=False):
    """The trainer after at most so many iterations."""
    optimizer = qb.optim.LBFGS(history=20, tolerance_grad=1e-6, tolerance_change=0.0)
    trainer = qb.optim.Trainer(loss, init(qb.random.key(1), (2, 20, 20, 1)), optimizer, grid(25), edge(25))
    trainer.fit(steps, progress=progress)
    return trainer


def max_error(p, n=101):
    """Largest |u - exact| on an n by n grid."""
    x, y = grid(n)
    return qb.max(qb.abs(u_at(x, y, p) - exact(x, y))).item()


def main():
    args = argparse.ArgumentParser(description="Poisson's equation in two dimensions by a physics-informed network")
    args.add_argument("--plot", default="poisson2d.png", help="where the picture of the loss goes")
    args = args.parse_args()
    trainer = train(progress=True)
    print(f"max abs error: {max_error(trainer.params):.1e}")
    trainer.plot_history(args.plot)
    print(f"wrote {args.plot}")


if __name__ == "__main__":
    main()
