"""u'' = -pi^2 sin(pi x) on [0, 1], u(0) = u(1) = 0, by a tanh network with 16 units. Prints the error, draws the solution."""

import argparse
import math

import quabla as qb


def init(key, width=16):
    first, last = qb.random.split(key)
    return {
        "w1": qb.random.glorot_normal(first, (1, width)),
        "b1": qb.zeros((width,)),
        "w2": qb.random.glorot_normal(last, (width, 1)),
        "b2": qb.zeros((1,)),
    }


def u(x, p):  # the network at one point
    h = qb.tanh(x.reshape([1, 1]) @ p["w1"] + p["b1"])
    return qb.sum(h @ p["w2"] + p["b2"])


u_xx = qb.vmap(qb.grad(qb.grad(u)), in_axes=(0, None))
u_at = qb.vmap(u, in_axes=(0, None))


def loss(p, x, ends):
    residual = u_xx(x, p) + math.pi**2 * qb.sin(math.pi * x)
    return qb.mean(residual**2) + 10.0 * qb.mean(u_at(ends, p) ** 2)


def train(steps=3000, progress=False):
    """The trained parameters."""
    x, ends = qb.linspace(0.0, 1.0, 32), qb.array([0.0, 1.0])
    trainer = qb.optim.Trainer(loss, init(qb.random.key(0)), qb.optim.Adam(0.01), x, ends)
    trainer.run(steps, progress=progress)
    return trainer.params


def max_error(p, n=201):
    """Largest |u - sin(pi x)| at n points of [0, 1]."""
    x = qb.linspace(0.0, 1.0, n)
    return qb.max(qb.abs(u_at(x, p) - qb.sin(math.pi * x))).item()


def plot(p, path):
    """Solution and prediction above, error below, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    x = qb.linspace(0.0, 1.0, 201)
    exact, found = qb.sin(math.pi * x), u_at(x, p)
    fig, (top, low) = plt.subplots(2, 1, sharex=True, figsize=(6, 5), height_ratios=(2, 1))
    top.plot(x.tolist(), exact.tolist(), color="0.6", linewidth=4, label="sin(pi x)")
    top.plot(x.tolist(), found.tolist(), "--", color="C3", label="network")
    top.set_ylabel("u(x)")
    top.legend()
    low.semilogy(x.tolist(), [max(e, 1e-9) for e in qb.abs(found - exact).tolist()], color="C0")
    low.set_xlabel("x")
    low.set_ylabel("|error|")
    fig.suptitle("u'' = -pi^2 sin(pi x)")
    fig.tight_layout()
    fig.savefig(path, dpi=120)
    plt.close(fig)


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--steps", type=int, default=3000)
    args.add_argument("--plot", default="poisson.png", help="where the picture goes")
    args = args.parse_args()
    p = train(args.steps, progress=True)
    print(f"max abs error against sin(pi x): {max_error(p):.1e}")
    plot(p, args.plot)
    print(f"wrote {args.plot}")


if __name__ == "__main__":
    main()
