"""Times side by side: each group of cases in a process of its own, the peers in turn, the best of ROUNDS (default 2) runs.

    python compare.py dispatch,pinn jax=PYTHON:jax_cases.py quabla=PYTHON:quabla_cases.py [--out FOLDER] [--into PAGE.md]

The last column is the last peer over the first. PYTHON is an interpreter that has jax, optax and diffrax, or quabla. A case that ends
in .native stands beside the other peer's case without it. --out writes results.json there, after each group, and at the end
results.png where matplotlib is installed. --into puts the table into a page, see put(). The load of the machine is in all of
them: times of a busy machine mean little, ratios of one run somewhat more.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
DROPPED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")  # settings that would cripple a peer


def run(python, script, args, quiet=False):
    """The last line that a script prints, as JSON, or {} with a word on what went wrong. Lines with # on stderr are passed on."""
    env = {k: v for k, v in os.environ.items() if k not in DROPPED}
    done = subprocess.run([python, HERE / script, *args], capture_output=True, text=True, env=env, cwd=HERE)
    lines = done.stderr.strip().splitlines()
    for line in lines:
        if line.startswith("# ") and not quiet:
            print(line, file=sys.stderr)
    if done.returncode:
        print(f"# {script} {' '.join(args)}: exit {done.returncode}: {''.join(lines[-1:])}", file=sys.stderr)
        return {}
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(group, peers, rounds, cases):
    """Adds the group to cases, {case: {peer: best value}}; memory and import time are kept apart by group."""
    for round_ in range(rounds):
        for name, python, script in peers:
            for case, value in run(python, script, [group], quiet=round_ > 0).items():
                row = cases.setdefault(f"{case}.{group}" if case in ("peak_mib", "import") else case, {})
                if value is not None:
                    row[name] = min(value, row.get(name, value))
    for case, row in cases.items():
        for name, value in cases.get(case.removesuffix(".native"), {}).items():
            row.setdefault(name, value)


def ratio(row, names):
    """Last peer over first; None where one has no number."""
    first, last = row.get(names[0]), row.get(names[-1])
    return last / first if first and last and len(names) > 1 else None


def show(cases, names):
    """The table as lines of Markdown, in columns."""
    rows = [["case (us)", *names, f"{names[-1]} / {names[0]}"]]
    for case, row in cases.items():
        part = ratio(row, names)
        values = [f"{row[n]:,.2f}" if n in row else "-" for n in names]
        rows.append([case, *values, "-" if part is None else f"{part:.3f}"])
    return markdown(rows)


def markdown(rows):
    widths = [max(len(str(row[i])) for row in rows) for i in range(len(rows[0]))]
    lines = ["| " + " | ".join(f"{x!s:{'<' if i == 0 else '>'}{w}}" for i, (x, w) in enumerate(zip(row, widths))) + " |"
             for row in rows]  # fmt: skip
    return [
        lines[0],
        "| " + " | ".join("-" * (w - (i > 0)) + ":" * (i > 0) for i, w in enumerate(widths)) + " |",
        *lines[1:],
    ]


def put(page, name, lines):
    """Replaces what stands between `<!-- name -->` and the next `<!-- end -->` of a page."""
    text = page.read_text()
    head, found, rest = text.partition(f"<!-- {name} -->\n")
    old, end, tail = rest.partition("<!-- end -->")
    if not found or not end:
        raise SystemExit(f"{page} has no place for {name}")
    page.write_text("".join([head, found, *(line + "\n" for line in lines), end, tail]))


def machine():
    """What the numbers were measured on. The load average counts what else ran in the last minute."""
    info = pathlib.Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor()
    return {"cpu": cpu, "cores": len(os.sched_getaffinity(0)), "load": round(os.getloadavg()[0], 1)}


def draw(cases, names, here, path):
    """Bars of the ratio last peer / first, longest first. Needs matplotlib; without it there is no picture."""
    try:
        import matplotlib
    except ImportError:
        print("# no matplotlib here: no picture", file=sys.stderr)
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [(case, row[names[0]] / row[names[-1]]) for case, row in cases.items() if ratio(row, names)]
    rows.sort(key=lambda r: r[1])
    figure, axes = plt.subplots(figsize=(8, 0.6 + 0.19 * len(rows)), layout="constrained")
    axes.barh([r[0] for r in rows], [r[1] for r in rows], color=["#2a7" if r[1] >= 1 else "#c54" for r in rows])
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set(xscale="log", xlabel=f"{names[0]} / {names[-1]}: to the right of 1, {names[-1]} needs less")
    axes.set_title(f"{here['cpu']}, {here['cores']} cores, load {here['load']}", fontsize=9)
    axes.tick_params(axis="y", labelsize=7)
    axes.margins(y=0.01)
    figure.savefig(path, dpi=100)


def conditions(before):
    """One line below a table: the machine, and what else ran."""
    return (
        f"{before['cpu']}, {before['cores']} cores, load {before['load']} at the start, {machine()['load']} at the end"
    )


def peers_of(arguments):
    """[(name, python, script)] of NAME=PYTHON:SCRIPT."""
    return [(name, *spec.rsplit(":", 1)) for name, spec in (a.split("=", 1) for a in arguments)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("groups")
    parser.add_argument("peers", nargs="+", metavar="NAME=PYTHON:SCRIPT")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--into", type=pathlib.Path)
    options = parser.parse_args()
    peers, here, cases = peers_of(options.peers), machine(), {}
    names = [p[0] for p in peers]
    for group in options.groups.split(","):
        measure(group, peers, int(os.environ.get("ROUNDS", "2")), cases)
        if options.out:  # a run that is stopped leaves what it has
            options.out.mkdir(parents=True, exist_ok=True)
            result = {"machine": here, "peers": names, "cases": cases}
            (options.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    lines = [*show(cases, names), "", conditions(here)]
    print(*lines, sep="\n")
    if options.out:
        draw(cases, names, here, options.out / "results.png")
    if options.into:
        put(options.into, "compare", lines)


if __name__ == "__main__":
    main()
