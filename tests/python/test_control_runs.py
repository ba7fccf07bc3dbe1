"""Loops as they run: what they leave behind, interrupts, threads."""

import gc
import os
import subprocess
import sys
import textwrap
import threading

import pytest
import quabla as qb

# ---- memory


def test_loops_leave_nothing_behind():
    from quabla import _core

    def loss(x):
        c, ys = qb.scan(lambda c, i: (qb.tanh(c * x + i), c), x, length=100)
        d = qb.cond(qb.sum(c) > 0, lambda: c * ys[3], lambda: c)
        return qb.sum(qb.while_loop(lambda d: qb.sum(d) < 5, lambda d: d * 1.5 + 0.1, d, max_steps=9))

    def once():
        qb.jit(qb.grad(loss))(qb.array([1.0, 2.0]))
        with pytest.raises(TypeError):
            qb.jit(lambda x: qb.fori_loop(0, 2, lambda i, c: (c, c), x))(qb.array(1.0))

    once()
    gc.collect()
    before = _core._live_bytes()
    for _ in range(3):
        once()
    gc.collect()
    assert _core._live_bytes() <= before


# ---- interrupts and threads


LONG_LOOPS = {
    "while": "jit(lambda x: qb.while_loop(lambda c: qb.sum(c) < 1e300, lambda c: qb.sin(c), x))",
    "fori": "jit(lambda x: qb.fori_loop(0, 10**11, lambda i, c: qb.sin(c) + x, x))",
    "nested": "jit(lambda x: qb.fori_loop(0, 9, lambda i, c: qb.fori_loop(0, 10**11, lambda j, d: qb.sin(d), c), x))",
    "gradient": "jit(qb.grad(lambda x: qb.sum(qb.fori_loop(0, 10**8, lambda i, c: qb.tanh(c * x), x))))",
    "batch": "jit(qb.vmap(lambda s: qb.while_loop(lambda c: c < 1e300, lambda c: qb.sin(c), s)))",
    "eager": "(lambda x: qb.fori_loop(0, 10**11, lambda i, c: qb.sin(c), x))",
}


@pytest.mark.skipif(os.name != "posix", reason="signals of this kind are POSIX")
@pytest.mark.parametrize("loop", LONG_LOOPS)
def test_ctrl_c_ends_a_long_loop_within_100_ms_and_leaves_the_library_usable(loop):
    program = textwrap.dedent("""
        import signal, time
        import quabla as qb
        from quabla import jit
        f, g, x = LOOP, jit(lambda x: qb.fori_loop(0, 10, lambda i, c: c + 1, x)), qb.ones((8,))
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        late = []
        while len(late) < 20 and min(late, default=1.0) > 0.1:  # others may be busy on this machine
            due = time.perf_counter() + 0.1
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            try:
                f(x)
            except KeyboardInterrupt:
                late.append(time.perf_counter() - due)
        print(min(late) < 0.1, g(x)[0].item())
    """)
    program = program.replace("LOOP", LONG_LOOPS[loop])
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert out.stdout.split() == ["True", "11.0"], out.stderr


@pytest.mark.parametrize(
    "f",
    [
        lambda x: qb.fori_loop(0, 2000, lambda i, c: qb.sin(c) + x, x),
        qb.grad(lambda x: qb.sum(qb.fori_loop(0, 2000, lambda i, c: qb.sin(c) * 0.5 + x, x))),
        qb.vmap(lambda x: qb.while_loop(lambda c: c < 50, lambda c: c * 1.01 + 0.01, x)),
        lambda x: qb.fori_loop(0, 20, lambda i, c: qb.tanh(c + qb.reshape(x, (2, 1))), qb.zeros((2, 30_000))),
    ],
    ids=["loop", "gradient", "batch", "large bodies"],
)
def test_threads_that_run_one_loop_at_once_get_what_each_gets_alone(f):
    f = qb.jit(f)
    xs = [qb.array([0.1 * k, 0.3]) for k in range(6)]
    want = [f(x).tolist() for x in xs]
    got = [None] * 6

    def run(k):
        for _ in range(5):
            got[k] = f(xs[k]).tolist()

    threads = [threading.Thread(target=run, args=(k,)) for k in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == want
