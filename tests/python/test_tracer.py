"""TraceTensor: what traced code may and may not do, and closures over traced values."""

import math

import pytest
import quabla as qb
from threads import together

np = pytest.importorskip("numpy")


def traced(body, x=None):
    return qb.jit(body)(qb.array([1.0, 2.0]) if x is None else x)


def test_shape_and_dtype_are_known_while_tracing():
    seen = {}

    def f(x):
        seen.update(shape=x.shape, ndim=x.ndim, size=x.size, dtype=x.dtype, len=len(x))
        return x

    traced(f)
    assert seen == {"shape": [2], "ndim": 1, "size": 2, "dtype": qb.float64, "len": 2}


@pytest.mark.parametrize(
    "use",
    [
        lambda x: 1 if x.sum() > 0 else 0,
        lambda x: float(x[0]),
        lambda x: int(x[0]),
        lambda x: x[0].item(),
        lambda x: x.tolist(),
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: np.sin(x),
        lambda x: math.sin(x[0]),
        lambda x: qb.array([x[0], x[1]]),
        lambda x: qb.arange(x[0]),
        lambda x: np.ones(2) + x,
    ],
)
def test_asking_for_a_value_is_a_tracer_error(use):
    with pytest.raises(qb.TracerError):
        traced(use)


def test_the_message_says_what_to_use():
    with pytest.raises(qb.TracerError, match=r"quabla\.where"):
        traced(lambda x: x if x[0] > 0 else -x)
    with pytest.raises(TypeError):  # TracerError is one
        traced(lambda x: float(x[0]))


def test_a_numpy_array_on_the_right_is_a_type_error():
    with pytest.raises(TypeError, match="asarray"):
        traced(lambda x: x + np.ones(2))
    assert traced(lambda x: x + [1.0, 1.0]).tolist() == [2.0, 3.0]
    assert traced(lambda x: qb.add(x, np.ones(2))).tolist() == [2.0, 3.0]


def test_a_tracer_is_dead_after_its_trace():
    kept = []
    traced(lambda x: kept.append(x) or x)
    dead = kept[0]
    assert dead.shape == [2]
    for use in (
        lambda: dead + 1,
        lambda: qb.sin(dead),
        lambda: traced(lambda x: x + dead),
        lambda: qb.jit(lambda x: x)(dead),
    ):
        with pytest.raises(qb.TracerError, match="ended"):
            use()
    with pytest.raises(qb.TracerError):
        traced(lambda x: dead)


def test_a_tracer_of_an_inner_trace_does_not_leak_outward():
    def f(x):
        kept = []
        qb.grad(lambda y: kept.append(y * 2) or y.sum())(x)
        return kept[0] + x

    with pytest.raises(qb.TracerError):
        traced(f)


def test_tracers_cannot_be_made_or_pickled():
    import pickle

    with pytest.raises(TypeError):
        qb.TraceTensor()
    with pytest.raises(qb.TracerError):
        traced(lambda x: pickle.dumps(x))


def test_eager_arrays_are_constants_of_the_trace():
    c = qb.array([10.0, 20.0])
    f = qb.jit(lambda x: x * c + c)
    assert f(qb.array([1.0, 2.0])).tolist() == [20.0, 60.0]
    text = f.lower(qb.array([1.0, 2.0])).as_text()
    assert text.count("constant[dense]") == 1


def test_eager_code_inside_a_trace_runs_at_once():
    c = qb.array([1.0, 2.0])
    seen = []

    def f(x):
        seen.append(float((c * 2).sum()))
        return x * seen[0]

    assert traced(f).tolist() == [6.0, 12.0]
    assert seen == [6.0]


def test_graph_errors_name_the_users_file_and_line():
    def f(x):
        return x + qb.ones((3,))  # the line

    line = f.__code__.co_firstlineno + 1
    with pytest.raises(ValueError, match=rf"test_tracer\.py:{line}: add.*\[2\].*\[3\]"):
        traced(f)


def test_closures_over_tracers_at_any_depth():
    def outer(a):
        def middle(b):
            def inner(c):
                return a * b * c + a**2

            return qb.grad(inner)(b) + qb.vmap(lambda t: t * a * b)(qb.array([1.0, 2.0])).sum()

        return middle(a) + qb.grad(middle)(a)

    # middle(b) = ab + 3ab, so outer(a) = 4a^2 + 4a, where the inner derivative is taken at b = a
    assert qb.jit(outer)(qb.array(3.0)).item() == 48.0
    assert qb.grad(outer)(3.0).item() == 28.0
    assert qb.grad(qb.grad(outer))(3.0).item() == 8.0


def test_a_recall_captures_the_tracers_of_this_time():
    box = {}
    inner = qb.grad(lambda y: y * box["v"])

    def f(x):
        box["v"] = x
        a = inner(x)
        box["v"] = x * 10.0
        return a + inner(x)

    assert qb.jit(f)(qb.array(2.0)).item() == 22.0
    assert qb.jit(f)(qb.array(3.0)).item() == 33.0


def test_an_exception_in_traced_code_leaves_no_trace_behind():
    class Boom(Exception):
        pass

    def f(x):
        def g(y):
            raise Boom

        return qb.grad(g)(x)

    for _ in range(3):
        with pytest.raises(Boom):
            traced(f)
    assert (qb.array(1.0) + 1.0).item() == 2.0
    assert traced(lambda x: x + 1).tolist() == [2.0, 3.0]


def test_a_failed_op_leaves_the_trace_usable():
    def f(x):
        try:
            x + qb.ones((3,))
        except ValueError:
            return x * 2.0
        raise AssertionError

    assert traced(f).tolist() == [2.0, 4.0]


def test_threads_trace_apart():
    import threading

    results, barrier = {}, threading.Barrier(4)

    def work(k):
        def f(x):
            barrier.wait(10)
            return x * float(k) + qb.grad(lambda y: y * x * k)(x)

        results[k] = qb.jit(f)(qb.array(1.0)).item()

    together(4, work)
    assert results == {k: 2.0 * k for k in range(4)}
