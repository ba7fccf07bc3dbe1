"""An inverse problem: the diffusivity k of u_t = k u_xx from 200 noisy measurements of u.

The truth is k = 0.1 and u = exp(-k pi^2 t) sin(pi x) on [0, 1] x [0, 1]; the noise has standard deviation 0.01. A 2-16-16-1 network for
u and log k are found together: Adam, then L-BFGS.
"""

import argparse
import math

import quabla as qb
from network import init, value

TRUE_K = 0.1
NOISE = 0.01


def u(x, t, p):
    return value(p["net"], x, t)


u_t, u_xx = qb.grad(u, 1), qb.grad(qb.grad(u, 0), 0)
residuals = qb.vmap(lambda x, t, p: u_t(x, t, p) - qb.exp(p["log_k"]) * u_xx(x, t, p), in_axes=(0, 0, None))
u_at = qb.vmap(u, in_axes=(0, 0, None))


def loss(p, inside, measured, seen):
    return {
        "equation": qb.mean(residuals(*inside, p) ** 2),
        "data": 10.0 * qb.mean((u_at(*measured, p) - seen) ** 2),
    }


def measurements(key, n=200):
    """Random points (x, t) and what was measured there."""
    a, b, c = qb.random.split(key, 3)
    x, t = qb.random.uniform(a, (n,)), qb.random.uniform(b, (n,))
    truth = qb.exp(-TRUE_K * math.pi**2 * t) * qb.sin(math.pi * x)
    return (x, t), truth + NOISE * qb.random.normal(c, (n,))


def train(seed=0, adam=1500, lbfgs=500, progress=False):
    """The trainer after its two phases. It starts from k = 1."""
    a, b, c = qb.random.split(qb.random.key(seed), 3)
    x, t = qb.random.split(a)
    inside = qb.random.uniform(x, (400,)), qb.random.uniform(t, (400,))
    params = {"net": init(b, (2, 16, 16, 1)), "log_k": qb.array(0.0)}
    trainer = qb.optim.Trainer(loss, params, qb.optim.Adam(5e-3), inside, *measurements(c))
    trainer.fit(adam, (qb.optim.LBFGS(history=20), lbfgs), progress=progress)
    return trainer


def main():
    args = argparse.ArgumentParser(description="Finds the diffusivity of a heat equation from noisy data")
    args.add_argument("--seed", type=int, default=0)
    args = args.parse_args()
    trainer = train(args.seed, progress=True)
    k = math.exp(trainer.params["log_k"].item())
    print(f"k = {k:.4f}, the truth is {TRUE_K} ({100 * abs(k / TRUE_K - 1):.1f} % off)")


if __name__ == "__main__":
    main()
