"""Checkpoints of a Trainer: training goes on bit for bit, and a file that does not fit is named."""

from typing import NamedTuple

import pytest
import quabla as qb
from test_trainer import fit_data, fit_loss, line, values

o = qb.optim


class Net(NamedTuple):
    w: object
    b: object


def net_trainer():
    def loss(p, x):
        return {
            "fit": qb.mean((qb.tanh(x @ p["net"].w + p["net"].b) - qb.sin(x)) ** 2),
            "w": 1e-4 * qb.sum(p["net"].w ** 2),
        }

    params = {"net": Net(qb.random.normal(qb.random.key(0), (1, 1)), qb.zeros((1,), dtype=qb.float64))}
    return o.Trainer(loss, params, o.AdamW(o.cosine_decay(0.05, 400), clip_norm=1.0), qb.zeros((8, 1)), batch_argnums=0)


def net_fit(trainer, **options):
    key = qb.random.key(5)

    def sample(draw, params):  # depends on the parameters too, as points chosen by their residual do
        return (qb.random.normal(qb.random.fold_in(key, draw), (8, 1)) + params["net"].b,)

    return trainer.fit(150, (o.RMSprop(0.01), 60), (o.LBFGS(), 40), sample=sample, sample_every=13, **options)


def everything(trainer):
    columns = {k: v.numpy().tobytes() for k, v in trainer.history.items()}
    return [v.tolist() for v in qb.tree.leaves(trainer.params)], trainer.best_loss, trainer.steps, columns


class Stop(Exception):
    pass


@pytest.mark.parametrize("at", [1, 77, 149, 150, 151, 155, 210, 211, 223, 240])
def test_resume_goes_on_bit_for_bit(at, tmp_path):
    whole = net_trainer()
    net_fit(whole)
    assert whole.steps > 215

    first = net_trainer()
    if at <= whole.steps:

        def leave(trainer):
            if trainer.steps == at:
                trainer.checkpoint(tmp_path / "run.qb")
                raise Stop

        with pytest.raises(Stop):
            net_fit(first, callback=leave, every=1)
    else:
        net_fit(first, checkpoint=tmp_path / "run.qb")
    second = net_trainer()
    second.resume(tmp_path / "run.qb")
    assert second.steps == min(at, whole.steps)
    if at <= whole.steps:
        net_fit(second)
    assert everything(second) == everything(whole)


def test_resume_outside_fit_goes_on_bit_for_bit(tmp_path):
    whole, part, again = (
        line(o.Adam(0.1, clip_norm=0.5)),
        line(o.Adam(0.1, clip_norm=0.5)),
        line(o.Adam(0.1, clip_norm=0.5)),
    )
    whole.run(70)
    part.run(30)
    part.checkpoint(tmp_path / "a.qb")
    again.run(3)
    again.resume(tmp_path / "a.qb")
    again.checkpoint(tmp_path / "b.qb")  # before any step: nothing is lost
    again.resume(tmp_path / "b.qb")
    again.run(40)
    assert values(again) == values(whole)
    assert again.history["loss"].tolist() == whole.history["loss"].tolist()


@pytest.mark.parametrize("at", [1, 12, 13, 40])
def test_minibatches_go_on_bit_for_bit(at, tmp_path):
    x, y = fit_data(50)

    def training():
        params = {"w": qb.array(0.0), "b": qb.array(0.0)}
        trainer = o.Trainer(fit_loss, params, o.Lion(o.cosine_decay(0.05, 60)), x, y, batch_argnums=(0, 1))
        return trainer, dict(sample=o.minibatches(qb.random.key(3), 8, x, y))

    def leave(trainer):
        if trainer.steps == at:
            trainer.checkpoint(tmp_path / "a.qb")
            raise Stop

    whole, options = training()
    whole.fit(60, **options)
    first, options = training()
    with pytest.raises(Stop):
        first.fit(60, callback=leave, every=1, **options)
    second, options = training()
    second.resume(tmp_path / "a.qb")
    second.fit(60, **options)
    assert everything(second) == everything(whole)


def test_leaves_whose_names_agree_keep_their_places(tmp_path):
    def training():
        params = {"a": {"b": qb.array(1.0)}, "a/b": qb.array(2.0)}
        return o.Trainer(lambda p: p["a"]["b"] ** 2 + 3.0 * p["a/b"] ** 2, params, o.Adam(0.1))

    one, two = training(), training()
    one.run(3)
    one.checkpoint(tmp_path / "a.qb")
    two.resume(tmp_path / "a.qb")
    assert qb.tree.map(lambda p: p.item(), two.params) == qb.tree.map(lambda p: p.item(), one.params)
    one.run(4)
    two.run(4)
    assert qb.tree.map(lambda p: p.item(), two.params) == qb.tree.map(lambda p: p.item(), one.params)


def replaced(tree, path, value):
    """tree with another value at a path of keys; without one the key is left out."""
    if not path:
        return value
    copy = dict(tree)
    if len(path) == 1 and value is None:
        del copy[path[0]]
    else:
        copy[path[0]] = replaced(tree[path[0]], path[1:], value)
    return copy


@pytest.mark.parametrize("value", [None, 4, "x", [], {"a": 1}, [["b", 1]], [["b", None]], [[]], [3, 4]])
def test_a_malformed_checkpoint_is_a_value_error_and_changes_nothing(tmp_path, value):
    path, trainer = tmp_path / "a.qb", line()
    trainer.run(3)
    trainer.checkpoint(path)
    whole, before = qb.load(path), everything(trainer)
    places = [[k] for k in whole if k != "kind" and (value is not None or k not in ("place", "running"))]
    places += [["state", k] for k in whole["state"]] + [["history", k] for k in whole["history"]]
    for place in places:
        if value == [] and place == ["data"] or value == [3, 4] and place == ["place"]:
            continue  # sound
        qb.save(path, replaced(whole, place, value))
        with pytest.raises(ValueError, match="resume"):
            trainer.resume(path)
        assert everything(trainer) == before, place
    trainer.run(1)
    assert trainer.steps == 4


def test_checkpoints_are_written_by_the_clock(tmp_path):
    path = tmp_path / "a.qb"
    seen = []
    line().fit(200, checkpoint=path, checkpoint_seconds=0.0, every=50, callback=lambda t: seen.append(path.exists()))
    assert seen[-1]
    other = line()
    other.resume(path)
    assert other.steps == 200


def test_a_training_that_is_over_is_resumed_for_more(tmp_path):
    path, phases = tmp_path / "a.qb", ((o.RMSprop(0.1), 20), (o.LBFGS(), 3))
    one, more, fresh = line(), line(), line()
    one.fit(*phases, checkpoint=path)
    steps = one.steps
    for other in (more, fresh):
        other.resume(path)
        assert everything(other) == everything(one)
    one.run(5)  # its own Adam, from the beginning, as it was not in use
    more.run(5)
    assert everything(more) == everything(one)
    assert more.steps == steps + 5
    fresh.fit(*phases)  # all phases once more
    assert fresh.steps > steps + 20


def test_a_checkpoint_of_another_model_names_the_place(tmp_path):
    path = tmp_path / "a.qb"
    trainer = line()
    trainer.run(3)
    trainer.checkpoint(path)
    adam = o.Adam(0.1)

    def other(params, optimizer=adam):
        return o.Trainer(lambda p: qb.sum(qb.tree.leaves(p)[0]), params, optimizer)

    with pytest.raises(ValueError, match=r"'b'.*f64\[2\].*f64\[\]"):
        other({"w": qb.array(0.0), "b": qb.zeros((2,))}).resume(path)
    with pytest.raises(ValueError, match="'c' is not in the checkpoint"):
        other({"w": qb.array(0.0), "b": qb.array(0.0), "c": qb.array(0.0)}).resume(path)
    with pytest.raises(ValueError, match="'w', which is not here"):
        other({"b": qb.array(0.0)}).resume(path)
    with pytest.raises(ValueError, match="f32"):
        other({"w": qb.array(0.0), "b": qb.array(0.0, dtype=qb.float32)}).resume(path)
    kept = line(o.SGD(0.1))
    kept.resume(path)
    with pytest.raises(ValueError, match="Adam.*SGD"):
        kept.step()
    qb.save(path, {"w": 1})
    with pytest.raises(ValueError, match="not written by"):
        trainer.resume(path)
    path.write_bytes(b"junk")
    with pytest.raises(ValueError):
        trainer.resume(path)
    assert trainer.steps == 3
    trainer.run(1)


def test_a_fit_with_fewer_phases_than_the_checkpoint_says_so(tmp_path):
    def leave(trainer):
        trainer.checkpoint(tmp_path / "a.qb")
        return True

    trainer = line()
    trainer.fit(10, (o.SGD(0.1), 10), every=15, callback=leave)
    trainer = line()
    trainer.resume(tmp_path / "a.qb")
    with pytest.raises(ValueError, match="phase 2"):
        trainer.fit(30)
    with pytest.raises(ValueError, match="every"):
        trainer.fit(10, (o.SGD(0.1), 10), every=0)
    assert trainer.fit(10, (o.SGD(0.1), 10)).steps == 5  # the place was not lost


def test_a_checkpoint_may_have_any_name(tmp_path):
    for name in ("a.npz", "a.safetensors", "a"):
        trainer, other = line(), line()
        trainer.fit(20, checkpoint=tmp_path / name)
        other.resume(tmp_path / name)
        assert other.steps == 20 and other.params["w"].item() == trainer.params["w"].item()
