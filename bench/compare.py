"""Times side by side: each group of cases in a process of its own, the peers in turn, the best of ROUNDS (default 2) runs.

    python compare.py dispatch,pinn jax=PYTHON:jax_cases.py quabla=PYTHON:quabla_cases.py

The last column is the last peer over the first. PYTHON is an interpreter that has jax and optax, or quabla. A case that ends in
.native stands beside the other peer's case without it. With OUT=folder the values are written there as results.json, and drawn as
results.png where matplotlib is installed.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
DROPPED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # settings that would cripple a peer


def run(python, script, group):
    env = {k: v for k, v in os.environ.items() if k not in DROPPED}
    done = subprocess.run([python, HERE / script, group], capture_output=True, text=True, env=env, cwd=HERE)
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:]
        print(f"# {script} {group}: exit {done.returncode}: {''.join(last)}", file=sys.stderr)
        return {}
    return json.loads(done.stdout.strip().splitlines()[-1])


def table(groups, peers, rounds):
    """{case: {peer: best value}}; memory and import time are kept apart by group."""
    cases = {}
    for group in groups:
        for _ in range(rounds):
            for name, python, script in peers:
                for case, value in run(python, script, group).items():
                    key = f"{case}.{group}" if case in ("peak_mib", "import") else case
                    row = cases.setdefault(key, {})
                    if value is not None:
                        row[name] = min(value, row.get(name, value))
    for case, row in cases.items():
        for name, value in cases.get(case.removesuffix(".native"), {}).items():
            row.setdefault(name, value)
    return cases


def draw(cases, names, path):
    """Ratios of the last peer to the first, one bar a case."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    first, last = names[0], names[-1]
    rows = [(c, r[last] / r[first]) for c, r in cases.items() if r.get(first) and r.get(last)]
    fig, ax = plt.subplots(figsize=(8, 0.25 * len(rows) + 1))
    ax.barh([c for c, _ in rows], [v for _, v in rows], color=["#4477aa" if v <= 1 else "#cc6677" for _, v in rows])
    ax.axvline(1, color="black", linewidth=0.8)
    ax.set_xscale("log")
    ax.invert_yaxis()
    ax.set_xlabel(f"{last} / {first}: time, or MiB at the peak")
    fig.tight_layout()
    fig.savefig(path, dpi=120)


def write(cases, names, folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.json").write_text(json.dumps(cases, indent=1))
    try:
        draw(cases, names, folder / "results.png")
    except ImportError:
        print("# no picture: matplotlib is not installed", file=sys.stderr)


def show(cases, names):
    print(f"{'case (us, best of rounds)':34s}" + "".join(f"{n:>14s}" for n in names) + f"   {names[-1]} / {names[0]}")
    for case, row in cases.items():
        values = [row.get(n) for n in names]
        cells = "".join(f"{v:14.2f}" if v is not None else f"{'-':>14s}" for v in values)
        ratio = f"{values[-1] / values[0]:8.3f}" if values[0] and values[-1] else f"{'-':>8s}"
        print(f"{case:34s}{cells}   {ratio}")


def main():
    groups = sys.argv[1].split(",")
    peers = [(name, *spec.rsplit(":", 1)) for name, spec in (a.split("=", 1) for a in sys.argv[2:])]
    cases, names = table(groups, peers, int(os.environ.get("ROUNDS", "2"))), [p[0] for p in peers]
    show(cases, names)
    if os.environ.get("OUT"):
        write(cases, names, pathlib.Path(os.environ["OUT"]))


if __name__ == "__main__":
    main()
