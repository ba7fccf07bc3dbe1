"""Random numbers, files, optimizers and the Trainer with wrong arguments of every kind.

The calls are generated: a good call of each function, with one argument replaced. It gives a result, or an exception whose message
begins with or holds the name of what was called.
"""

import io
import math

import numpy as np
import pytest
import quabla as qb

o, r = qb.optim, qb.random
KEY = r.key(0)
PARAMS = {"w": qb.array([1.0, 2.0])}
X = qb.linspace(-1.0, 1.0, 8)


def trainer(**options):
    return o.Trainer(lambda p, x: qb.mean((p["w"][0] * x - p["w"][1]) ** 2), PARAMS, o.Adam(0.1), X, **options)


def sampled(draw, params):
    return (X,)


def fit(phase, **options):
    return trainer(batch_argnums=0).fit(phase, **options)


def minimize(fun, params, callback):
    return o.LBFGS(max_iterations=2).minimize(fun, params, callback=callback)


def drawn(path):
    t = trainer()
    t.run(2)
    t.plot_history(path)


def loaded(file):
    return qb.load(file)


RATE = dict(learning_rate=0.1, clip_norm=1.0)
SHAPE = dict(key=KEY, shape=(2, 3), dtype=qb.float64)
# name that messages hold: (function, a good call of it)
GOOD = {
    "Key": (r.Key, dict(value=3)),
    "key": (r.key, dict(seed=3)),
    "split": (r.split, dict(key=KEY, num=2)),
    "fold_in": (r.fold_in, dict(key=KEY, data=1)),
    "uniform": (r.uniform, dict(SHAPE, minval=0.0, maxval=1.0)),
    "normal": (r.normal, SHAPE),
    "truncated_normal": (r.truncated_normal, dict(SHAPE, lower=-1.0, upper=1.0)),
    "permutation": (r.permutation, dict(key=KEY, x=4)),
    "choice": (r.choice, dict(key=KEY, a=4, shape=(2,), replace=True, p=[0.25] * 4)),
    "bernoulli": (r.bernoulli, dict(key=KEY, p=0.5, shape=(2,))),
    "glorot_normal": (r.glorot_normal, SHAPE),
    "glorot_uniform": (r.glorot_uniform, SHAPE),
    "he_normal": (r.he_normal, SHAPE),
    "Adam": (o.Adam, dict(RATE, b1=0.9, b2=0.99, eps=1e-8, beta1=None, beta2=None, epsilon=None)),
    "AdamW": (o.AdamW, dict(RATE, b1=0.9, b2=0.99, eps=1e-8, weight_decay=0.1)),
    "SGD": (o.SGD, dict(RATE, momentum=0.9, nesterov=True)),
    "RMSprop": (o.RMSprop, dict(RATE, decay=0.9, eps=1e-8)),
    "Lion": (o.Lion, dict(RATE, b1=0.9, b2=0.99, weight_decay=0.1)),
    "Adam init": (o.Adam().init, dict(params=PARAMS)),
    "Adam step": (o.Adam().step, dict(parameters=PARAMS, gradients=PARAMS)),
    "Adam update": (o.Adam().update, dict(params=PARAMS, grads=PARAMS, state=o.Adam().init(PARAMS))),
    "SGD update": (o.SGD(momentum=0.5).update, dict(params=PARAMS, grads=PARAMS, state={"trace": PARAMS})),
    "LBFGS": (
        o.LBFGS,
        dict(
            history=5,
            max_iterations=5,
            max_evaluations=9,
            tolerance_grad=0.1,
            tolerance_change=0.1,
            line_search="strong_wolfe",
        ),
    ),
    "LBFGS.minimize": (minimize, dict(fun=lambda p: qb.sum(qb.tree.leaves(p)[0] ** 2), params=PARAMS, callback=None)),
    "Trainer": (
        o.Trainer,
        dict(
            loss=lambda p: qb.sum(p["w"]),
            params=PARAMS,
            optimizer=o.Adam(),
            batch_argnums=(),
            device="cpu",
            precision=None,
        ),
    ),
    "Trainer.run": (trainer().run, dict(steps=2, progress=False)),
    "Trainer.fit": (
        fit,
        dict(
            phase=(o.Adam(0.1), 3),
            sample=sampled,
            sample_every=2,
            callback=lambda trainer: None,
            every=2,
            target=0.0,
            patience=5,
            seconds=60.0,
            checkpoint=None,
            checkpoint_seconds=60.0,
            progress=False,
        ),
    ),
    "Trainer.checkpoint": (trainer().checkpoint, dict(path=io.BytesIO())),
    "Trainer.resume": (trainer().resume, dict(path="made by the test")),
    "Trainer.plot_history": (drawn, dict(path=io.BytesIO())),
    "save": (qb.save, dict(file=io.BytesIO(), tree={"a": 1})),
    "load": (loaded, dict(file="made by the test")),
    "clip_by_global_norm": (o.clip_by_global_norm, dict(grads=PARAMS, max_norm=1.0)),
    "constant": (o.constant, dict(value=0.1)),
    "cosine_decay": (o.cosine_decay, dict(init_value=0.1, decay_steps=10, alpha=0.0)),
    "exponential_decay": (
        o.exponential_decay,
        dict(init_value=0.1, transition_steps=10, decay_rate=0.5, transition_begin=0, staircase=False, end_value=None),
    ),
    "piecewise_constant": (o.piecewise_constant, dict(boundaries=[1, 2], values=[1.0, 2.0, 3.0])),
    "warmup_cosine_decay": (
        o.warmup_cosine_decay,
        dict(init_value=0.0, peak_value=0.1, warmup_steps=2, decay_steps=10, end_value=0.0),
    ),
    "minibatches": (lambda key, size, a: o.minibatches(key, size, a), dict(key=KEY, size=2, a=X)),
}
NUMBERS = [0, -1, 2, 3.5, math.nan, math.inf, -math.inf, -0.5, 1e300, 10**400, True, 1j, np.float32(0.5), np.int64(3)]
TREES = [
    [1.0, 2.0],
    {"w": 1.0},
    {"w": None},
    {"w": qb.array([True])},
    {"w": qb.ones((1,))},
    {"w": qb.ones((2,), dtype=qb.float32)},
]
ARRAYS = [qb.array(1.0), qb.ones((2,)), qb.array(True), np.ones(2), np.ones((1, 1))]
OTHERS = [
    None,
    "x",
    b"\xff",
    [],
    (),
    {},
    (0,),
    (-1,),
    (2, "a"),
    object(),
    len,
    KEY,
    set(),
    range(3),
    qb.float32,
    "float99",
    np.float32,
]
# Steps without an end are what was asked for.
ENDLESS = {("Trainer.run", "steps"), ("Trainer.fit", "phase")}


@pytest.mark.parametrize("name", GOOD)
def test_every_wrong_argument_is_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (f, good), who = GOOD[name], name.split()[0]
    if name in ("Trainer.resume", "load"):
        trainer().checkpoint("made by the test")
    f(**good)
    for argument in good:
        for bad in [*NUMBERS, *TREES, *ARRAYS, *OTHERS]:
            if (name, argument) in ENDLESS and type(bad) is int and bad > 1000:
                continue
            if argument in ("fun", "loss", "callback", "sample") and callable(bad):
                continue  # what a function of the user's does is its own affair
            try:
                f(**{**good, argument: bad})
            except (TypeError, ValueError, MemoryError) as error:
                assert who in str(error), f"{argument}={bad!r}: {error!r}"
            except OSError:
                assert isinstance(bad, (str, bytes)), f"{argument}={bad!r}"  # no such file


def test_a_trainer_names_data_that_is_none():
    with pytest.raises(TypeError, match="data argument 1: .*str"):
        o.Trainer(lambda p, x, y: p, qb.array(1.0), o.Adam(), X, "y")
    t = trainer(batch_argnums=0)
    with pytest.raises(TypeError, match="Trainer.step: the new data argument 0: .*str"):
        t.step("x")
    with pytest.raises(TypeError, match="tracer"):
        qb.jit(lambda x: t.step(x))(X)
    assert t.steps == 0
    with pytest.raises(ValueError, match="twice"):
        o.Trainer(lambda p, x: p, qb.array(1.0), o.Adam(), X, batch_argnums=(0, 0))


def test_a_device_that_is_not_built_is_known_before_the_first_step():
    for device in ("cuda", "cuda:0", "mlx"):
        with pytest.raises(qb.UnsupportedOperationError, match=device):
            trainer(device=device)


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (lambda step: "fast", "is a str"),
        (lambda step: None, "is a NoneType"),
        (lambda step: qb.stack([step, step]), r"has shape \[2\]"),
    ],
)
def test_a_schedule_returns_one_number(rate, words):
    for optimizer in (o.Adam(rate), o.SGD(rate, momentum=0.5)):
        with pytest.raises(TypeError, match=words):
            optimizer.update(PARAMS, PARAMS, optimizer.init(PARAMS))
        with pytest.raises(TypeError, match=words):
            o.Trainer(lambda p: qb.sum(p["w"]), PARAMS, optimizer).step()


def test_a_checkpoint_that_cannot_be_written_is_known_before_the_training(tmp_path):
    t = trainer()
    for path, error in ((tmp_path, IsADirectoryError), (tmp_path / "none" / "a.qb", FileNotFoundError)):
        with pytest.raises(error, match="Trainer.fit"):
            t.fit(10, checkpoint=path)
    assert t.steps == 0


def test_requests_beyond_any_memory_end_at_once():
    for call in (
        lambda: r.split(KEY, 2**70),
        lambda: r.permutation(KEY, 2**60),
        lambda: r.choice(KEY, 2**60, (2,)),
        lambda: r.normal(KEY, 2**60),
    ):
        with pytest.raises(MemoryError):
            call()
