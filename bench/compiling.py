"""How the first call grows with the size of a program: tracing, transforming, compiling and one run, for programs of four shapes.

    python compiling.py [--most NODES] [--rounds N] [--into PAGE.md]

Each program is made afresh in every round; the least CPU time counts (one thread does the work). nodes are those of the traced function; the gradient has three to
four times as many. us per node is the figure that must not grow. --into puts the table into a page.
"""

import argparse
import pathlib
import time

import quabla as qb
from compare import conditions, machine, markdown, put

SIZES = (1000, 3000, 10_000, 30_000, 100_000)


def chain(n):
    """One value after the other, elementwise."""

    def f(x):
        for _ in range(n // 3):
            x = qb.sin(x * 0.9) + 0.1
        return qb.sum(x)

    return f, (qb.ones((4,)),)


def layers(n):
    """Products and tanh, with one matrix."""
    w = qb.full((4, 4), 0.1)

    def f(x):
        for _ in range(n // 2):
            x = qb.tanh(x @ w)
        return qb.sum(x)

    return f, (qb.ones((2, 4)),)


def fan(n):
    """Many short programs of one input, and their sum."""

    def f(x):
        total = x
        for i in range(n // 3):
            total = total + qb.cos(x * (1.0 + i))
        return qb.sum(total)

    return f, (qb.ones((4,)),)


def parameters(n):
    """A pytree with as many leaves as a third of the nodes, each with a gradient of its own."""

    def f(p, x):
        total = x
        for leaf in p:
            total = total + leaf * x
        return qb.sum(total)

    return f, ([qb.ones((4,)) for _ in range(n // 2)], qb.ones((4,)))


SHAPES = {"chain": chain, "layers": layers, "fan": fan, "parameters": parameters}


def first(make, n, transform):
    f, args = make(n)
    start = time.process_time()
    qb.jit(transform(f))(*args)
    return time.process_time() - start


def rows(most, rounds):
    for name, make in SHAPES.items():
        for n in (n for n in SIZES if n <= most):
            value, grad = (min(first(make, n, t) for _ in range(rounds)) for t in (lambda f: f, qb.value_and_grad))
            yield name, n, value, grad


def table(most, rounds):
    lines = [["program", "nodes", "value ms", "us per node", "with gradient ms", "us per node"]]
    for name, n, value, grad in rows(most, rounds):
        numbers = (f"{1e3 * value:.1f}", f"{1e6 * value / n:.2f}", f"{1e3 * grad:.1f}", f"{1e6 * grad / n:.2f}")
        lines.append([name, f"{n:,}", *numbers])
    return markdown(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=SIZES[-1])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--into", type=pathlib.Path)
    options = parser.parse_args()
    here = machine()
    lines = [*table(options.most, options.rounds), "", conditions(here)]
    print(*lines, sep="\n")
    if options.into:
        put(options.into, "compiling", lines)


if __name__ == "__main__":
    main()
