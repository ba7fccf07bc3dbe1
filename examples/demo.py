"""make demo: the three examples one after the other; pictures go to the folder `demo`."""

import pathlib
import sys
import time

import burgers
import numpy as np
import poisson
import readme


def main():
    folder = pathlib.Path("demo")
    folder.mkdir(exist_ok=True)
    print("1. One unknown: u(x) = sin(w x) with u'' = -pi^2 sin(pi x)", flush=True)
    readme.main()

    print("\n2. u'' = -pi^2 sin(pi x) by a 16-unit tanh network, 32 points, 3,000 Adam steps", flush=True)
    start = time.perf_counter()
    p = poisson.train(progress=True)
    print(f"max abs error against sin(pi x): {poisson.max_error(p):.1e} ({time.perf_counter() - start:.1f} s)")
    poisson.plot(p, folder / "poisson.png")
    print(f"wrote {folder / 'poisson.png'}")

    print("\n3. Burgers' equation by a 2-20-20-20-1 tanh network, 1,000 points", flush=True)
    start = time.perf_counter()
    p = burgers.train(progress=True).params
    seconds = time.perf_counter() - start
    x, t, found, truth = burgers.fields(p)
    error = np.linalg.norm(found - truth) / np.linalg.norm(truth)
    print(f"relative L2 error against the Cole-Hopf solution: {error:.4f} ({seconds:.1f} s)")
    burgers.plot(x, t, found, truth, folder / "burgers.png")
    print(f"wrote {folder / 'burgers.png'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
