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


def test_steps_have_times_flops_and_bytes():
    p, x = params(16), qb.array(np.random.default_rng(1).normal(size=(50, 2)))
    f = qb.profile(qb.jit(net))
    f(p, x)
    products = [s for s in f.steps if s["what"].startswith("matmul")]
    assert [s["flops"] for s in products] == [2 * 50 * 2 * 16, 2 * 50 * 16 * 16]
    assert products[1]["bytes"] == 8 * (50 * 16 + 16 * 16 + 50 * 16)
    assert all(s["seconds"] >= 0 for s in f.steps)
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
    assert [s["what"] for s in p.steps] == ["scan", "cumsum"]


def test_what_is_not_a_function_is_a_type_error():
    with pytest.raises(TypeError, match="profile takes a function, not 3"):
        qb.profile(3)
    assert "not called yet" in repr(qb.profile(net))
