"""Threads: one compiled function from many, tracing in many at once, and the lock that runs give up."""

import os
import subprocess
import sys
import threading
import time
import warnings

import pytest
import quabla as qb
from threads import together

np = pytest.importorskip("numpy")


def test_one_compiled_function_from_eight_threads():
    f = qb.jit(qb.value_and_grad(lambda w, x: qb.mean(qb.tanh(x @ w) ** 2)))
    r = np.random.RandomState(0)
    w, xs = qb.asarray(r.randn(8, 4)), [qb.asarray(r.randn(40, 8)) for _ in range(8)]
    want = [[t.tolist() for t in f(w, x)] for x in xs]

    def work(i):
        for _ in range(200):
            assert [t.tolist() for t in f(w, xs[i])] == want[i]

    together(8, work)


def test_eight_threads_that_call_first_leave_one_trace():
    f = qb.jit(lambda x: qb.sum(qb.sin(x) * x))
    x = qb.linspace(0.0, 1.0, 1000)
    out = [None] * 8
    with warnings.catch_warnings():
        warnings.simplefilter("error", qb.RetraceWarning)
        together(8, lambda i: out.__setitem__(i, f(x).item()))
    assert len(set(out)) == 1
    (cache,) = qb.explain(f).caches
    assert len(cache["entries"]) == 1
    assert sum(e["calls"] for e in cache["entries"]) == 8


def test_tracing_in_several_threads_at_once():
    def work(i):
        for k in range(20):
            a = float(1 + i + 10 * k)
            inner = qb.vmap(qb.grad(lambda t, a=a: qb.sin(a * t)))
            f = qb.jit(qb.value_and_grad(lambda x, inner=inner: qb.sum(inner(x) * x)))
            x = np.array([0.1, 0.2])
            value, grad = f(qb.asarray(x))
            np.testing.assert_allclose(value.item(), np.sum(a * np.cos(a * x) * x), rtol=1e-10)
            np.testing.assert_allclose(
                grad.numpy(), a * np.cos(a * x) - a * a * np.sin(a * x) * x, rtol=1e-9, atol=1e-9
            )

    together(6, work)


def test_a_trace_that_waits_does_not_hold_up_another_thread():
    inside, go = threading.Event(), threading.Event()
    out = []

    def slow(x):
        inside.set()
        assert go.wait(20)
        return x * 2.0

    t = threading.Thread(target=lambda: out.append(qb.jit(slow)(qb.array(1.0)).item()))
    t.start()
    assert inside.wait(20)
    assert qb.grad(lambda x: x * x)(3.0).item() == 6.0  # eager here, and a trace of its own
    assert (qb.array(1.0) + 1.0).item() == 2.0
    go.set()
    t.join()
    assert out == [2.0]


def test_a_tracer_of_another_thread_is_refused():
    kept, errors = [], []

    def f(x):
        kept.append(x)
        t = threading.Thread(target=other)
        t.start()
        t.join()
        return x

    def other():
        for use in (lambda: kept[0] + 1.0, lambda: qb.jit(lambda y: y + kept[0])(1.0)):
            try:
                use()
            except qb.TracerError as e:
                errors.append(str(e))

    qb.jit(f)(qb.array(1.0))
    assert len(errors) == 2
    assert all("outside the trace" in e for e in errors)


def steps_beside(work):
    """How often Python in this thread gets its turn while work() runs in another one, which nobody asks to hand over the lock."""
    steps, t, old = 0, threading.Thread(target=work), sys.getswitchinterval()
    sys.setswitchinterval(10.0)
    try:
        t.start()
        while t.is_alive():
            steps += 1
            time.sleep(0)
    finally:
        sys.setswitchinterval(old)
    return steps


def test_runs_give_up_the_lock():
    """While one long plan runs, Python in another thread goes on: not a few switches' worth, thousands of steps."""
    f = qb.jit(lambda x: qb.fori_loop(0, 60, lambda i, c: qb.tanh(c @ c) * 0.5, x))
    x = qb.full((256, 256), 0.001)
    f(x)
    assert steps_beside(lambda: f(x)) > 100


def test_compiling_gives_up_the_lock():
    def f(x):
        for i in range(3000):
            x = qb.sin(x) * (1.0 + i)
        return x

    program = qb.jit(f).lower(qb.ones((3,))).program
    assert steps_beside(program.compile) > 10


@pytest.mark.parametrize("asked", ["", "0", "3", "003", "256", "many", "2x", "1.5", "-1", "100000"])
def test_the_number_of_threads_comes_from_the_environment(asked):
    run = subprocess.run(
        [sys.executable, "-c", "import quabla as qb; print(qb.get_num_threads())"],
        env={**os.environ, "QUABLA_NUM_THREADS": asked},
        capture_output=True,
        text=True,
        check=True,
    )
    followed = asked in ("3", "003", "256")
    if followed:
        assert int(run.stdout) == int(asked)
    warning = f"RuntimeWarning: QUABLA_NUM_THREADS={asked!r} is not a number from 1 to 256; plans run on {run.stdout.strip()} threads"
    assert (warning in run.stderr) == (asked not in ("", "0") and not followed)


@pytest.mark.parametrize(
    ("n", "error"),
    [(-1, ValueError), (257, ValueError), (10**30, ValueError), (1.5, TypeError), (True, TypeError), ("2", TypeError)],
)
def test_a_bad_number_of_threads_is_named(n, error):
    before = qb.get_num_threads()
    says = "n is a Python int, not " if error is TypeError else "n must be from 1 to 256, or 0 for the default, not "
    with pytest.raises(error, match=f"set_num_threads: {says}"):
        qb.set_num_threads(n)
    assert qb.get_num_threads() == before
