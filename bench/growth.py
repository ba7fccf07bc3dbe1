"""How a Burgers step grows with points, width and depth, from the growth group of compare.py, as a picture.

    python growth.py results.json growth.png

Drawn are the flops of the matrix products (value, input gradient and weight gradient of four streams a layer) over the time of the whole
step, for each peer. The upper line is what a product of two matrices in cache reaches here; the lower one is what the main memory would
allow if each value of a layer were written once and read three times there, as a step does that runs layer by layer.
"""

import json
import pathlib
import sys

import matplotlib
import numpy as np
import quabla as qb
from common import RESULTS, growth_cases, micro

matplotlib.use("Agg")
import matplotlib.pyplot as plt

STREAMS, PASSES = 4, 4


def weights(sizes):
    return sum(m * n for m, n in zip(sizes, sizes[1:]))


def peak():
    """GFLOP/s of a product that stays in cache, all threads."""
    a = qb.array(np.random.default_rng(0).normal(size=(384, 384)))
    f = qb.jit(lambda a: a @ a)
    micro("peak", lambda: f(a))
    return 2 * 384**3 / RESULTS["peak"] * 1e-3


def bandwidth():
    """GB/s of a sum of two arrays that no cache holds."""
    x = qb.ones((1 << 24,))
    f = qb.jit(lambda x, y: x + y)
    micro("bandwidth", lambda: f(x, x))
    return 2 * 8 * (1 << 24) / RESULTS["bandwidth"] * 1e-3


def main():
    results, to = json.loads(pathlib.Path(sys.argv[1]).read_text()), sys.argv[2]
    top, memory = peak(), bandwidth()
    fig, axes = plt.subplots(1, 3, figsize=(12, 3.6), sharey=True)
    for ax, kind in zip(axes, ("points", "width", "depth")):
        cases = [c for c in growth_cases() if f".{kind}." in c[0]]
        x = [int(name.rpartition(".")[2]) for name, _, _ in cases]
        flops = [3 * STREAMS * 2 * weights(sizes) * n for _, sizes, n in cases]
        moved = [8 * STREAMS * PASSES * 2 * sum(sizes[1:-1]) * n for _, sizes, n in cases]
        for peer in ("jax", "quabla"):
            y = [
                f / results[c[0]][peer] * 1e-3 if results.get(c[0], {}).get(peer) else None
                for f, c in zip(flops, cases)
            ]
            ax.plot(x, [v if v else float("nan") for v in y], "o-", label=peer)
        ax.axhline(top, color="black", linestyle="--", linewidth=0.8, label=f"product in cache: {top:.0f} GFLOP/s")
        ax.plot(
            x,
            [f / m * memory for f, m in zip(flops, moved)],
            color="grey",
            linestyle=":",
            label=f"memory at {memory:.0f} GB/s",
        )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel(kind)
    axes[0].set_ylabel("GFLOP/s of the products")
    axes[0].legend(fontsize=7)
    fig.tight_layout()
    fig.savefig(to, dpi=120)


if __name__ == "__main__":
    main()
