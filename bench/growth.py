"""How a training step grows with points, width, depth and derivative order, from the growth group of compare.py, as a picture.

    python growth.py results.json growth.png [--peak PROGRAM] [--into PAGE.md]

The first three panels are Burgers steps: the flops of the matrix products (value, input gradient and weight gradient of four streams a
layer) over the time of the whole step, for each peer. The upper line is the machine's rate of multiply-adds; the lower one is what its
memory would allow if each value of a layer were written once and read three times there, as a step does that runs layer by layer
(both measured by bench/peak.c). The last panel is the time of loss and gradient of the k-th derivative of a network at 256 points.
--into puts the same as a table into a page.
"""

import argparse
import json
import pathlib
import subprocess

import matplotlib
from common import ORDERS, growth_cases
from compare import conditions, markdown, put, ratio

matplotlib.use("Agg")
import matplotlib.pyplot as plt

STREAMS, PASSES = 4, 4
COLORS = ("#888888", "#1166cc")


def weights(sizes):
    return sum(m * n for m, n in zip(sizes, sizes[1:]))


def flops(case):
    _, sizes, n = case
    return 3 * STREAMS * 2 * weights(sizes) * n


def moved(case):
    """Bytes of a step that runs layer by layer."""
    _, sizes, n = case
    return 8 * STREAMS * PASSES * 2 * sum(sizes[1:-1]) * n


def grow(axes, kind, cases, names, peak):
    chosen = [c for c in growth_cases() if f".{kind}." in c[0]]
    x = [int(name.rpartition(".")[2]) for name, _, _ in chosen]
    for peer, color in zip(names, COLORS):
        times = [cases.get(c[0], {}).get(peer) for c in chosen]
        y = [flops(c) / t * 1e-3 if t else float("nan") for c, t in zip(chosen, times)]
        axes.plot(x, y, "o-", ms=3, color=color, label=peer)
    top, memory = peak["f64"][-1] * 1e-9, peak["bytes"][-1] * 1e-9
    axes.axhline(top, color="black", linestyle="--", linewidth=0.8, label=f"peak {top:.0f} GFLOP/s")
    limit = [flops(c) / moved(c) * memory for c in chosen]
    axes.plot(x, limit, color="black", linestyle=":", linewidth=0.8, label=f"memory at {memory:.0f} GB/s")
    axes.set(xlabel=kind, xscale="log", yscale="log")
    if kind != "points":
        axes.set_xticks(x, x)
        axes.minorticks_off()


def draw(cases, names, peak, here, path):
    figure, panels = plt.subplots(1, 4, figsize=(13, 3.4), layout="constrained")
    for axes, kind in zip(panels, ("points", "width", "depth")):
        grow(axes, kind, cases, names, peak)
    for peer, color in zip(names, COLORS):
        times = [cases.get(f"growth.order.{k}", {}).get(peer, float("nan")) for k in ORDERS]
        panels[3].plot(ORDERS, times, "o-", ms=3, color=color)
    panels[3].set(xlabel="order of the derivative", yscale="log", ylabel="us")
    panels[0].set_ylabel("GFLOP/s of the products")
    panels[0].legend(fontsize=7)
    figure.suptitle(f"{here['cpu']}, {here['cores']} cores, load {here['load']}", fontsize=9)
    figure.savefig(path, dpi=70)


def table(cases, names):
    rows = [["varied", *(f"{n} ms" for n in names), f"{names[-1]} / {names[0]}"]]
    for case, row in cases.items():
        if not case.startswith("growth.") or case.endswith(".first"):
            continue
        _, kind, x = case.split(".")
        part = ratio(row, names)
        values = [f"{row[n] / 1e3:,.3f}" if n in row else "-" for n in names]
        rows.append([f"{kind} {int(x):,}", *values, f"{part:.3f}" if part else "-"])
    return markdown(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=pathlib.Path)
    parser.add_argument("picture", type=pathlib.Path)
    parser.add_argument("--peak", type=pathlib.Path, default=pathlib.Path(__file__).parents[1] / "build/bench/peak")
    parser.add_argument("--into", type=pathlib.Path)
    options = parser.parse_args()
    results, peak = json.loads(options.results.read_text()), json.loads(subprocess.check_output([options.peak]))
    cases, names, here = results["cases"], results["peers"], results["machine"]
    draw(cases, names, peak, here, options.picture)
    lines = [*table(cases, names), "", conditions(here)]
    print(*lines, sep="\n")
    if options.into:
        put(options.into, "growth", lines)


if __name__ == "__main__":
    main()
