"""profile: time, flops and bytes of each step, beside the user's line."""

import numpy as np
import pytest
import quabla as qb


def net(p, x):
    (w, b), v = p
    h = qb.tanh(x @ w + b)
    return qb.mean((h @ v) ** 2)


def params(wide):
    r = np.random.default_rng(0)
    return (qb.array(r.normal(size=(2, wide))), qb.array(r.normal(size=wide))), qb.array(r.normal(size=(wide, wide)))


def test_a_profiled_function_gives_its_result_and_prints_a_table(capsys):
    p, x = params(16), qb.array(np.random.default_rng(1).normal(size=(50, 2)))
    f = qb.profile(net)
    assert f(p, x).item() == qb.jit(net)(p, x).item()
    printed = capsys.readouterr().out
    assert printed.startswith("   time us     %")
    assert "test_profile.py:" in printed
    assert f"{len(f.steps)} steps in" in printed
    assert str(f) == printed.rstrip("\n")


def test_keywords_are_those_of_jit():
    def power(x, y, n=2):
        return qb.sum((x - y) ** n)

    x, y = qb.ones((4,)), qb.full((4,), 3.0)
    f = qb.profile(qb.jit(power, static_argnames="n"))
    assert f(y=y, x=x, n=3).item() == f(x, y=y, n=3).item() == -32.0
    assert f(x, y).item() == 16.0
    for g, kwargs, message in [
        (power, {"z": y}, "keyword 'z' must be static"),
        (qb.grad(power), {"y": y}, "keywords are for jit"),
    ]:
        with pytest.raises(TypeError, match=message):
            qb.profile(g)(x, **kwargs)


def test_steps_have_times_flops_and_bytes():
    p, x = params(16), qb.array(np.random.default_rng(1).normal(size=(50, 2)))
    f = qb.profile(qb.jit(net))
    f(p, x)
    products = [s for s in f.steps if s["what"].startswith("matmul")]
    assert [s["flops"] for s in products] == [2 * 50 * 2 * 16, 2 * 50 * 16 * 16]
    assert products[1]["bytes"] == 8 * (50 * 16 + 16 * 16 + 50 * 16)
    assert all(s["seconds"] >= 0 for s in f.steps)
    assert f.workspace > 0
    assert 0 < sum(s["seconds"] for s in f.steps) <= f.seconds
    assert all(s["file"].endswith("test_profile.py") and s["line"] > 0 for s in f.steps)


def test_steps_that_run_block_by_block_count_for_all_points():
    p, x = params(64), qb.array(np.random.default_rng(1).normal(size=(2000, 2)))
    f = qb.profile(qb.value_and_grad(net))
    f(p, x)
    sweep = [s for s in f.steps if s["sweep"] == 1]
    assert len(sweep) >= 4
    assert sum(s["flops"] for s in sweep if "matmul" in s["what"]) == pytest.approx(2 * 2000 * 64 * (2 * 2 + 3 * 64))
    assert "[1]" in str(f)
    assert str(f).endswith("of all threads together")


def test_other_steps_bear_the_name_of_their_op():
    p = qb.profile(lambda x: qb.cumsum(qb.fori_loop(0, 3, lambda i, c: qb.sin(c), x)))
    p(qb.ones((5,)))
    assert [s["what"] for s in p.steps] == ["scan 3 times", "cumsum"]


def steps_of(fun, *args):
    f = qb.profile(fun)
    f(*args)
    return f.steps


def test_steps_name_their_operations_and_count_functions():
    (step,) = steps_of(lambda x: qb.sum(qb.exp(x) * x * x), qb.ones((10, 6)))
    assert (step["what"], step["flops"], step["functions"]) == ("elementwise 60: exp, 2 mul; sum", 240, 60)
    (step,) = steps_of(lambda x, b: x + b, qb.ones((10, 6)), qb.ones((6,)))
    assert (step["functions"], step["bytes"]) == (0, 8 * (60 + 6 + 60))


def test_a_name_that_is_too_long_ends_in_dots():
    def many(x):
        for f in (qb.sin, qb.cos, qb.tan, qb.sinh, qb.cosh, qb.tanh, qb.arcsin, qb.arccos, qb.arctan, qb.arcsinh):
            x = f(x)
        for f in (qb.arctanh, qb.exp, qb.exp2, qb.expm1, qb.log, qb.log1p, qb.log2, qb.log10, qb.cbrt, qb.erf):
            x = f(x)
        return x

    (step,) = steps_of(many, qb.ones((50,)))
    assert step["what"].endswith("...") and len(step["what"]) == 119
    assert step["functions"] == 20 * 50


def test_a_scan_counts_all_its_iterations_and_a_while_one():
    w = qb.full((4, 4), 0.1)
    steps = steps_of(lambda x: qb.scan(lambda c, i: (qb.tanh(qb.matmul(w, c)), None), x, length=50)[0], qb.ones((4,)))
    (loop,) = [s for s in steps if s["what"] == "scan 50 times"]
    assert (loop["flops"], loop["functions"]) == (50 * (2 * 4 * 4 + 4), 50 * 4)
    steps = steps_of(lambda x: qb.while_loop(lambda c: c < 100.0, lambda c: c * 2.0, x), qb.array(1.0))
    assert [s["flops"] for s in steps if s["what"] == "while"] == [2]  # the product and the test


def test_a_cond_counts_its_larger_branch():
    steps = steps_of(lambda p, x: qb.cond(p, lambda: x, lambda: qb.exp(x) * 2.0), qb.array(True), qb.ones((8,)))
    assert [(s["flops"], s["functions"]) for s in steps if s["what"] == "cond"] == [(16, 8)]


def test_what_is_not_a_function_is_a_type_error():
    with pytest.raises(TypeError, match="profile takes a function, not 3"):
        qb.profile(3)
    assert "not called yet" in repr(qb.profile(net))
