"""jit: signatures, caches, static arguments, keywords, outputs, StepLoop."""

import gc
import math
import sys
import threading
import warnings
import weakref
from typing import NamedTuple

import pytest
import quabla as qb
from threads import together

np = pytest.importorskip("numpy")


class Counted:
    """A function that counts its traces."""

    def __init__(self, f):
        self.n = 0
        self.f = f

    def make(self):
        def fun(*args, **kwargs):
            self.n += 1
            return self.f(*args, **kwargs)

        return fun


def counted(f=lambda x: x * 2.0):
    c = Counted(f)
    return c, c.make()


def test_one_trace_per_signature():
    c, f = counted()
    g = qb.jit(f)
    for x in (qb.ones((2,)), qb.zeros((2,)), qb.full((2,), 3.0)):
        assert g(x).tolist() == (x * 2).tolist()
    assert c.n == 1
    g(qb.ones((3,)))
    g(qb.ones((2,), dtype=qb.float32))
    g(qb.ones((2, 1)))
    assert c.n == 4
    g(qb.ones((2,)))
    assert c.n == 4


def test_structure_is_part_of_the_signature():
    c, f = counted(lambda t: 1.0)
    g = qb.jit(f)
    x = qb.array(1.0)
    for t in ([x], (x,), {"a": x}, {"b": x}, [[x]], [x, None]):
        g(t)
        g(t)
    assert c.n == 6


def test_wrapping_again_shares_traces():
    c, f = counted()
    x = qb.array(1.0)
    qb.jit(f)(x)
    qb.jit(f, device="cpu")(x)
    qb.jit(f)(x)
    assert c.n == 1
    qb.jit(qb.grad(f))(x)
    qb.jit(qb.grad(f))(x)
    assert c.n == 2
    qb.grad(f)(x)
    qb.grad(f)(x)
    assert c.n == 3


def test_traces_die_with_their_function():
    def make():
        return lambda x: x + 1.0

    gc.collect()
    qb.jit(make())(qb.array(1.0))
    gc.collect()
    before = qb._core._live_bytes()
    for _ in range(50):
        f = make()
        qb.jit(qb.grad(f))(qb.array(1.0))
        r = weakref.ref(f)
    del f
    gc.collect()
    assert r() is None
    assert qb._core._live_bytes() <= before


def test_python_scalars_are_static_weak_constants():
    c, f = counted(lambda x, a: x * a)
    g = qb.jit(f)
    x = qb.ones((2,), dtype=qb.float32)
    assert g(x, 2.0).dtype is qb.float32
    g(x, 2.0)
    assert c.n == 1
    for a in (2, True, -0.0, 0.0, math.nan, math.nan, float("nan")):
        g(x.astype(qb.float64) if a is True else x, a)
    assert c.n == 6


def test_numpy_values_are_arrays():
    c, f = counted()
    g = qb.jit(f)
    for x in (np.ones(2), np.zeros(2), qb.ones((2,))):
        g(x)
    assert c.n == 1
    g(np.float64(1.0))
    g(np.float64(2.0))
    g(qb.array(3.0))
    assert c.n == 2


def test_an_eviction_warns_with_both_signatures():
    f = qb.jit(lambda x, o: x * 1.0, max_traces=2)
    f(qb.ones((1,)), {"a": 2.0})
    f(qb.ones((2,)), {"a": 2.0})
    with pytest.warns(qb.RetraceWarning) as caught:
        f(qb.ones((3,), dtype=qb.float32), {"a": 2.0})
    text = str(caught[0].message)
    assert (
        "max_traces=2 and evicted its least recently used trace:\n  (float64[1], {'a': 2.0})\nnew signature:\n  (float32[3], {'a': 2.0})"
        in text
    )
    assert "<lambda>) exceeded" in text
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(qb.ones((2,)), {"a": 2.0})


def test_least_recently_used_goes_first():
    c, f = counted()
    g = qb.jit(f, max_traces=2)
    a, b, d = qb.ones((1,)), qb.ones((2,)), qb.ones((3,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x in (a, b, a, d):
            g(x)
    assert c.n == 3
    g(a)
    assert c.n == 3


def test_static_arguments():
    c, f = counted(lambda x, n, mode="a": x * n if mode == "a" else x + n)

    def fun(x, n, mode="a"):
        return f(x, n, mode)

    g = qb.jit(fun, static_argnums=1, static_argnames=("mode",))
    x = qb.array(3.0)
    assert g(x, 2).item() == 6.0
    assert g(x, n=2).item() == 6.0
    assert g(x, 2, "a").item() == 6.0
    assert g(x, 2, mode="b").item() == 5.0
    assert g(x, mode="b", n=2).item() == 5.0
    assert g(x, 2.0).item() == 6.0
    assert c.n == 4  # n=2 by position and keyword is one signature, with mode given another, and so on
    with pytest.raises(TypeError, match="not hashable"):
        g(x, [1])
    with pytest.raises(TypeError, match="is an array"):
        g(x, x)


def test_static_arguments_may_be_any_hashable():
    f = qb.jit(lambda fn, x: fn(x), static_argnums=0)
    assert f(qb.sin, qb.array(0.0)).item() == 0.0
    assert f(qb.cos, qb.array(0.0)).item() == 1.0
    assert qb.jit(lambda x, s: x * len(s), static_argnums=-1)(qb.array(2.0), "abc").item() == 6.0


def test_wrong_static_names_are_reported_at_the_call():
    with pytest.raises(ValueError, match="out of range"):
        qb.jit(lambda x: x, static_argnums=3)(qb.array(1.0))
    with pytest.raises(ValueError, match="no parameter"):
        qb.jit(lambda x: x, static_argnames="y")(qb.array(1.0))


def test_keywords():
    def f(x, y=1.0, *, k=2.0):
        return x * y + k

    x = qb.array(3.0)
    assert qb.jit(f)(x, y=qb.array(2.0)).item() == 8.0
    assert qb.jit(f)(y=qb.array(2.0), x=x).item() == 8.0
    assert qb.jit(f, static_argnames="k")(x, k=5.0).item() == 8.0
    with pytest.raises(TypeError, match="static_argnames"):
        qb.jit(f)(x, k=5.0)
    with pytest.raises(TypeError, match="positional"):
        qb.grad(f)(x, y=2.0)
    with pytest.raises(TypeError):
        qb.jit(f)(x, z=1.0)


def test_static_signature_text():
    def f(x, n, m=0):
        return x * n

    g = qb.jit(f, static_argnums=1, static_argnames="m", max_traces=1)
    g(qb.ones((2,)), 2)
    with pytest.warns(qb.RetraceWarning, match=r"(?s)\(float64\[2\], static 2\)\n.*\(float64\[2\], static 3\)"):
        g(qb.ones((2,)), 3)


def test_outputs_keep_their_structure_and_constants():
    class Out(NamedTuple):
        a: object
        b: object

    x = qb.array(1.0)
    text = "s"
    out = qb.jit(lambda x: {"z": Out(x, None), "c": [1, 2.5, True, text, x * 2, x]})(x)
    assert out["c"][:4] == [1, 2.5, True, "s"]
    assert out["c"][0].__class__ is int
    assert isinstance(out["z"], Out)
    assert out["z"].b is None
    assert (out["z"].a.item(), out["c"][4].item(), out["c"][5].item()) == (1.0, 2.0, 1.0)


def test_bad_arguments_name_their_place():
    with pytest.raises(TypeError, match=r"argument 1 'p/0' is a str"):
        qb.jit(lambda x, d: x)(qb.array(1.0), {"p": ["a"]})
    with pytest.raises(TypeError, match="argument 0 is an object"):
        qb.jit(lambda x: x)(object())
    with pytest.raises(TypeError, match="takes a function"):
        qb.jit(3)


def test_messages_say_what_to_do():
    x, kept = qb.ones((2,)), []
    qb.jit(lambda y: kept.append(y) or y)(x)
    for use, kind, match in [
        (
            lambda: qb.jit(lambda d: d)({"a": [kept[0]]}),
            qb.TracerError,
            r"argument 0 'a/0' is a TraceTensor whose trace has ended; return it",
        ),
        (lambda: qb.grad(lambda y: qb.sum(y * kept[0]))(x), qb.TracerError, "after its trace has ended; return it"),
        (
            lambda: qb.grad(lambda y: y)(x),
            ValueError,
            r"not float64\[2\]; take its quabla.sum or mean, or its jacobian",
        ),
        (lambda: qb.jit(lambda y, n: y, static_argnums=1)(x, [1]), TypeError, "not hashable; use a tuple"),
        (lambda: qb.jit(lambda y, n: y, static_argnums=1)(x, x), TypeError, "leave it out of static_argnums"),
        (
            lambda: qb.vjp(lambda y: {"r": y}, x)[1]({"r": qb.ones((3,))}),
            TypeError,
            r"output 'r' is float64\[2\], its cotangent float64\[3\]",
        ),
    ]:
        with pytest.raises(kind, match=match):
            use()


def test_jit_equals_eager_bit_for_bit():
    x = qb.array(np.random.RandomState(0).randn(50, 7))

    def f(x):
        y = qb.tanh(x @ x.T) * 0.1
        return qb.exp(-y * y).mean(axis=0), qb.where(x > 0, x, x * x).sum(), x[::-2].T

    for a, b in zip(f(x), qb.jit(f)(x)):
        assert a.shape == b.shape
        assert a.numpy().tobytes() == b.numpy().tobytes()


def test_jit_inside_jit_is_inlined():
    inner = qb.jit(lambda x, n: x * n, static_argnums=1)
    f = qb.jit(lambda x: inner(x, 3) + inner(x, n=4))
    assert f(qb.array(2.0)).item() == 14.0
    assert "call" not in f.lower(qb.array(2.0)).as_text()


def test_decorators_with_keywords_only():
    @qb.jit(static_argnames="n")
    def f(x, n):
        """Doc of f."""
        return x * n

    @qb.grad(argnums=1)
    def g(x, y):
        return x * y * y

    assert f(qb.array(2.0), n=3).item() == 6.0
    assert g(2.0, 3.0).item() == 12.0
    assert (f.__name__, f.__doc__, f.__wrapped__.__name__) == ("f", "Doc of f.", "f")


def test_reprs_come_from_the_qualified_name():
    assert repr(qb.jit(qb.grad(counted))) == "jit(grad(counted))"
    assert repr(qb.vmap(qb.value_and_grad(counted))) == "vmap(value_and_grad(counted))"


def test_transforms_work_as_methods():
    class Model:
        @qb.jit(static_argnums=0)
        def double(self, x):
            return x * 2.0

    assert Model().double(qb.array(2.0)).item() == 4.0


@pytest.mark.parametrize("device", ["cuda:x", "cpu:0", "CPU", 0, "gpu", "cuda:", "tpu"])
def test_device_spelling_is_checked_when_called(device):
    c, f = counted()
    g = qb.jit(f, device=device)
    with pytest.raises(ValueError, match="device"):
        g(qb.array(1.0))
    assert c.n == 0


@pytest.mark.parametrize("device", ["cuda", "cuda:1", "mlx"])
def test_a_device_that_is_not_built_is_unsupported(device):
    if qb._core.targets()[device.split(":")[0]]:
        pytest.skip("built here")
    c, f = counted()
    with pytest.raises(qb.UnsupportedOperationError) as e:
        qb.jit(f, device=device)(qb.array(1.0))
    assert e.value.device == device
    assert c.n == 0


def test_precision_and_max_traces_are_checked():
    with pytest.raises(ValueError, match="precision"):
        qb.jit(lambda x: x, precision="float16")(qb.array(1.0))
    with pytest.raises(ValueError, match="max_traces"):
        qb.jit(lambda x: x, max_traces=0)
    assert qb.jit(lambda x: x + 1, precision="float64")(qb.array(1.0)).item() == 2.0


def test_lowered_text_names_inputs_by_path():
    def f(params, x):
        return qb.mean(qb.tanh(x @ params["w"] + params["b"]) ** 2)

    spec = {"w": qb.ShapeDtype([2, 1], qb.float32), "b": qb.ShapeDtype((1,), qb.float32)}
    lowered = qb.jit(f).lower(spec, qb.ones((2, 2), dtype=qb.float32))
    assert lowered.as_text() == (
        "%0 = input[name=params/b] : tensor<1xf32>\n"
        "%1 = input[name=params/w] : tensor<2x1xf32>\n"
        "%2 = input[name=x] : tensor<2x2xf32>\n"
        "%3 = matmul(%2, %1) : tensor<2x1xf32>\n"
        "%4 = add(%3, %0) : tensor<2x1xf32>\n"
        "%5 = tanh(%4) : tensor<2x1xf32>\n"
        "%6 = powi(%5, 2) : tensor<2x1xf32>\n"
        "%7 = mean(%6) : tensor<f32>\n"
        "outputs: [[]]\n"
    )
    compiled = lowered.compile()
    params = {"w": qb.array([[0.5], [0.25]], dtype=qb.float32), "b": qb.zeros((1,), dtype=qb.float32)}
    x = qb.ones((2, 2), dtype=qb.float32)
    assert compiled(params, x).item() == qb.jit(f)(params, x).item()
    with pytest.raises(ValueError, match="signature"):
        compiled(params, qb.ones((3, 2), dtype=qb.float32))


def test_lower_traces_at_every_call():
    c, f = counted()
    g = qb.jit(f)
    g.lower(qb.array(1.0))
    g.lower(qb.array(1.0))
    assert c.n == 2


def test_shape_dtype():
    s = qb.ShapeDtype((2, 3))
    assert (s.shape, s.dtype) == ([2, 3], qb.float64)
    assert repr(s) == "ShapeDtype(shape=[2, 3], dtype=float64)"
    with pytest.raises(TypeError):
        qb.jit(lambda x: x)(s)


def test_calls_from_many_threads():
    f = qb.jit(lambda x: qb.sin(x).sum())
    want = f(qb.linspace(0, 1, 5000)).item()

    def work(i):
        for _ in range(200):
            assert f(qb.linspace(0, 1, 5000)).item() == want

    together(4, work)


def test_calls_leak_nothing():
    f = qb.jit(lambda d, a: {"o": d["x"] * a, "n": None, "c": 1.5})
    d = {"x": qb.ones((100,)), "y": qb.array(1.0)}

    def work():
        for _ in range(300):
            f(d, 2.0)
            with pytest.raises(TypeError):
                f(d, "a")
            with pytest.raises(TypeError):
                f({"x": object(), "y": 1}, 2.0)

    work()
    gc.collect()
    before, refs = qb._core._live_bytes(), sys.getrefcount(d["x"])
    blocks = sys.getallocatedblocks()
    work()
    gc.collect()
    after = sys.getrefcount(d["x"])
    assert qb._core._live_bytes() <= before
    assert after == refs
    assert sys.getallocatedblocks() - blocks < 100


def test_tracing_leaks_nothing():
    def work():
        for _ in range(30):
            k = qb.array([1.0, 2.0])
            qb.value_and_grad(lambda w, k=k: (w * k).sum() + qb.vmap(qb.grad(lambda t: t**3))(k).sum())(k)
            with pytest.raises(ValueError):
                qb.grad(lambda w, k=k: w * k)(k)
            with pytest.raises(TypeError):
                qb.jit(lambda w: w + "a")(k)
            _, pull = qb.vjp(lambda w: w * 2.0, k)
            pull(k)
        del pull
        gc.collect()

    work()
    work()
    before, blocks = qb._core._live_bytes(), sys.getallocatedblocks()
    work()
    assert qb._core._live_bytes() <= before
    assert sys.getallocatedblocks() - blocks < 200


def test_step_loop_keeps_the_state_inside():
    loop = qb._core.StepLoop(
        lambda s, x: ({"w": s["w"] + x, "n": s["n"] + 1.0}, s["w"].sum()),
        {"w": qb.zeros((2,)), "n": 0.0},
        (qb.ones((2,)),),
    )
    first = loop.state
    assert loop.step().item() == 0.0
    assert loop.step().item() == 2.0
    assert loop.state["w"].tolist() == [2.0, 2.0]
    kept = loop.state
    assert loop.run(5).item() == 12.0
    assert loop.state["n"].item() == 7.0
    assert kept["w"].tolist() == [2.0, 2.0]  # what was handed out is never written again
    assert first["w"].tolist() == [0.0, 0.0]
    loop.set_data((qb.full((2,), 10.0),))
    loop.step()
    assert loop.state["w"].tolist() == [17.0, 17.0]
    for data in (qb.array(1.0), qb.ones((2,)), qb.array(1.0), qb.ones((1,))):
        loop.set_data((data,))
        loop.step()
    assert loop.state["w"].tolist() == [21.0, 21.0]


@pytest.mark.parametrize(
    "step",
    [
        lambda s: s,
        lambda s: (s, s, s),
        lambda s: ({"v": s["w"]}, 0.0),
        lambda s: ({"w": s["w"].sum()}, 0.0),
        lambda s: ({"w": 1.0}, 0.0),
    ],
)
def test_a_step_that_changes_its_state_is_refused(step):
    loop = qb._core.StepLoop(step, {"w": qb.zeros((2,))})
    with pytest.raises(TypeError, match="StepLoop"):
        loop.step()


def test_a_long_run_stops_at_a_signal():
    import os
    import signal

    loop = qb._core.StepLoop(lambda s: (s + 1.0, s), qb.array(0.0))
    loop.step()
    threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        loop.run(10**12)
    n = loop.state.item()
    assert n > 1
    loop.step()
    assert loop.state.item() == n + 1
