"""Loops as they run: what they leave behind, interrupts, threads."""

import gc
import os
import subprocess
import sys
import textwrap

import pytest
import quabla as qb
from threads import together

# ---- histories


@pytest.fixture
def steps(monkeypatch, capfd):
    """steps(f, *args): the steps of jit(f), as text."""

    def dump(f, *args):
        monkeypatch.setenv("QUABLA_DUMP", "steps")
        out = qb.jit(f)(*args)
        monkeypatch.delenv("QUABLA_DUMP")
        return out, capfd.readouterr().err

    return dump


def new_row(rows, x):
    return (qb.sum(rows * x, axis=0) / (1.0 + qb.sum(rows * rows, axis=0)) + 0.1 * x).reshape([1, *x.shape])


@pytest.mark.parametrize("loop", ["while", "scan"])
@pytest.mark.parametrize("end", ["first", "last"])
@pytest.mark.parametrize("n", [2, 3, 25, 26, 61])
@pytest.mark.parametrize("shape, new", [((10, 97), 1), ((5, 64), 2), ((3, 481), 1), ((7, 50), 3)])
def test_a_history_slides_and_has_the_bits_of_one_that_is_copied(steps, shape, new, end, n, loop):
    """New rows at one end, the oldest ones lost at the other: only the new ones are written."""

    def push(rows, x):
        row = qb.concat([new_row(rows, x * (k + 1.0)) for k in range(new)])
        return qb.concat([row, rows[:-new]] if end == "first" else [rows[new:], row])

    def run(rows, x):
        if loop == "scan":
            return qb.scan(
                lambda c, k: ((push(c[0], x + k), c[1] + c[0][0]), c[0][-1, 0]), (rows, x), qb.arange(float(n))
            )
        rows, total, _ = qb.while_loop(
            lambda c: c[2] < n, lambda c: (push(c[0], x + c[2]), c[1] + c[0][0], c[2] + 1.0), (rows, x, qb.array(0.0))
        )
        return rows, total

    key = qb.random.split(qb.random.key(0))
    rows, x = qb.random.normal(key[0], shape), qb.random.normal(key[1], shape[1:])
    out, text = steps(run, rows, x)
    assert f"carry 0 slides by {8 * new * shape[1] * (-1 if end == 'first' else 1)} bytes" in text
    for a, b in zip(qb.tree.leaves(out), qb.tree.leaves(run(rows, x))):
        assert a.numpy().tobytes() == b.numpy().tobytes()


@pytest.mark.parametrize(
    "slides, body",
    [
        (True, lambda c: qb.concat([c[5:], c[:5]])),  # round and round
        (False, lambda c: qb.concat([2.0 * c[:1], 1.5 * c[:-1]])),  # no row stays as it is
        (False, lambda c: qb.concat([c[:1], c[:1], c[1:-1]])),  # the first row twice
        (False, lambda c: qb.concat([c[1:3], c[2:]])),
        (False, lambda c: qb.concat([c[:1] + 1.0, c[1:]])),
    ],
)
def test_what_is_no_history_does_not_slide(steps, slides, body):
    def run(x):
        return qb.fori_loop(0, 100, lambda i, c: body(c), x)

    out, text = steps(run, qb.arange(1200.0).reshape([40, 30]))
    assert out.numpy().tobytes() == run(qb.arange(1200.0).reshape([40, 30])).numpy().tobytes()
    assert ("slides by" in text) == slides


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

    together(6, run)
    assert got == want
