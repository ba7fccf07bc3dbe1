"""explain: traces, calls, costs, and the argument that changed."""

import warnings

import pytest
import quabla as qb


def entries(f):
    return qb.explain(f).caches[0]["entries"]


def reasons(f):
    return [e["reason"] for e in reversed(entries(f))]


def test_the_argument_that_changed_is_named_by_its_path():
    f = qb.jit(lambda p, x, k: p["w"] * x * k)
    w = {"w": qb.ones((2,)), "b": [qb.array(1.0)]}
    f(w, qb.ones((2,)), 1.0)
    f(w, qb.ones((1,)), 1.0)
    f(w, qb.ones((1,)), 2)
    f({**w, "b": [qb.array(1.0, dtype=qb.float32)]}, qb.array(1.0), 2)
    assert reasons(f) == [
        None,
        "x was float64[2] and is float64[1]",
        "k was 1.0 and is 2",
        "p/b/0 was float64[] and is float32[], x was float64[1] and is float64[]",
    ]


def test_another_structure_shows_both_signatures():
    f = qb.jit(lambda d: 1.0)
    f({"a": qb.ones((2,))})
    f({"b": qb.ones((2,))})
    f([qb.ones((2,))])
    assert reasons(f)[1:] == [
        "the arguments were ({'a': float64[2]},) and are ({'b': float64[2]},)",
        "the arguments were ({'b': float64[2]},) and are ([float64[2]],)",
    ]


def test_static_values_and_keywords():
    f = qb.jit(lambda x, n, *, mode="a": x * n, static_argnums=1, static_argnames="mode")
    x = qb.ones((2,))
    f(x, 2, mode="a")
    f(x, 3, mode="b")
    f(x, 3)
    assert reasons(f)[1] == "n was static 2 and is static 3, mode was static 'a' and is static 'b'"
    assert "with mode=static 'b'" in reasons(f)[2]


def test_many_changes_are_counted():
    f = qb.jit(lambda d: d["a"])
    f({k: qb.ones((2,)) for k in "abcdef"})
    f({k: qb.ones((3,)) for k in "abcdef"})
    assert reasons(f)[1].endswith("d/c was float64[2] and is float64[3] and 3 more")


def test_traces_calls_and_evictions_are_counted():
    f = qb.jit(lambda x: x * 2, max_traces=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", qb.RetraceWarning)
        for n in (1, 2, 3, 3, 3):
            f(qb.ones((n,)))
    (cache,) = qb.explain(f).caches
    assert (cache["traces"], cache["evicted"], cache["max_traces"]) == (3, 1, 2)
    assert [e["calls"] for e in cache["entries"]] == [3, 1]
    assert all(e["nodes"] == 3 and e["compile_seconds"] > 0 and e["trace_seconds"] > 0 for e in cache["entries"])


def test_it_prints():
    def f(x):
        return qb.sum(x * x)

    g = qb.jit(qb.grad(f))
    assert repr(qb.explain(g)).endswith(": 0 traces, none evicted (max_traces=8)")
    g(qb.ones((2,)))
    g(qb.ones((3,)))
    lines = repr(qb.explain(g)).splitlines()
    assert lines[0].startswith("jit(grad(test_it_prints")
    assert lines[0].endswith("): 2 traces, none evicted (max_traces=8)")
    assert lines[1] == "  (float64[3],)"
    assert lines[2].startswith("    1 call; traced in ")
    assert lines[3] == "    traced because x was float64[2] and is float64[3]"
    assert lines[6] == "    traced because it was the first call"


def test_a_plain_function_shows_every_chain_around_it():
    def f(x):
        return qb.sum(x * x)

    assert repr(qb.explain(f)).endswith("never called outside a trace")
    qb.grad(f)(qb.ones((2,)))
    qb.jit(f)(qb.ones((2,)))
    names = [c["name"].split("(")[0] for c in qb.explain(f).caches]
    assert sorted(names) == ["grad", "jit"]
    with pytest.raises(TypeError, match="takes a function"):
        qb.explain(3)
