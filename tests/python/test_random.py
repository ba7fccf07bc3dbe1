"""Keyed random numbers: the streams, their distributions, their errors."""

import math

import numpy as np
import pytest
import quabla as qb

MASK = 2**64 - 1


def splitmix(state):
    """The generator of Steele, Lea and Flood (2014), in Python ints."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        yield z ^ (z >> 31)


def first(state, n):
    stream = splitmix(state)
    return [next(stream) for _ in range(n)]


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**63, MASK])
def test_split_gives_the_first_outputs_of_the_stream(seed):
    assert [k.value for k in qb.random.split(qb.random.key(seed), 5)] == first(seed, 5)


def test_seeds_are_taken_modulo_two_to_the_64():
    assert qb.random.key(-1) == qb.random.key(MASK)
    assert qb.random.key(2**64 + 3).value == 3


def test_fold_in_is_the_output_of_the_mixed_state():
    key, data = 17, 4
    assert qb.random.fold_in(qb.random.key(key), data).value == first(key ^ first(data, 1)[0], 1)[0]


def test_uniform_takes_the_top_53_bits():
    want = [(v >> 11) * 2.0**-53 for v in first(7, 1000)]
    assert qb.random.uniform(qb.random.key(7), (1000,)).tolist() == want


def test_normal_is_box_muller():
    u = [(v >> 11) * 2.0**-53 for v in first(3, 200)]
    want = [math.sqrt(-2 * math.log(a)) * math.cos(2 * math.pi * b) for a, b in zip(u[::2], u[1::2])]
    np.testing.assert_allclose(qb.random.normal(qb.random.key(3), (100,)).tolist(), want, rtol=1e-13, atol=1e-15)


def test_float32_samples_are_the_rounded_float64_ones():
    key = qb.random.key(5)
    for sample in (qb.random.normal, qb.random.uniform):
        wide, narrow = sample(key, (500,)).numpy(), sample(key, (500,), dtype=qb.float32).numpy()
        assert narrow.dtype == np.float32
        np.testing.assert_array_equal(narrow, wide.astype(np.float32))


def test_uniform_float32_stays_below_maxval():
    x = qb.random.uniform(qb.random.key(0), (200_000,), dtype=qb.float32, minval=1.0, maxval=1.0 + 2.0**-22).numpy()
    assert x.min() >= 1.0
    assert x.max() < np.float32(1.0 + 2.0**-22)


def test_moments_of_normal_and_uniform():
    x = qb.random.normal(qb.random.key(11), (100_000,)).numpy()
    assert abs(x.mean()) < 0.015
    assert abs(x.std() - 1) < 0.01
    assert abs((x**3).mean()) < 0.05
    u = qb.random.uniform(qb.random.key(12), (100_000,), minval=-2.0, maxval=4.0).numpy()
    assert abs(u.mean() - 1) < 0.03
    counts, _ = np.histogram(u, 50, (-2, 4))
    assert ((counts - 2000) ** 2 / 2000).sum() < 94  # chi-square, 49 degrees of freedom, p = 1e-4


def test_glorot_and_he_have_their_variances():
    key = qb.random.key(1)
    assert qb.random.glorot_normal(key, (300, 100)).numpy().std() == pytest.approx(math.sqrt(2 / 400), rel=0.02)
    assert qb.random.he_normal(key, (300, 100)).numpy().std() == pytest.approx(math.sqrt(2 / 300), rel=0.02)
    limit = math.sqrt(6 / 400)
    x = qb.random.glorot_uniform(key, (300, 100)).numpy()
    assert abs(x).max() <= limit
    assert abs(x).max() > 0.99 * limit
    assert qb.random.glorot_normal(key, (3, 3, 2, 4)).shape == [3, 3, 2, 4]


def test_bernoulli_is_bool_with_the_given_probability():
    x = qb.random.bernoulli(qb.random.key(2), 0.25, (100_000,))
    assert x.dtype is qb.bool_
    assert x.numpy().mean() == pytest.approx(0.25, abs=0.006)


def test_keys_are_immutable_hashable_values():
    key = qb.random.key(9)
    assert repr(key) == "Key(0x0000000000000009)"
    assert {key: 1}[qb.random.Key(9)] == 1
    with pytest.raises(AttributeError):
        key.value = 3


def test_an_int_is_a_shape():
    assert qb.random.normal(qb.random.key(0), 3).shape == [3]
    assert qb.random.normal(qb.random.key(0)).shape == []


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: qb.random.key(1.0), TypeError, "int"),
        (lambda: qb.random.key(True), TypeError, "int"),
        (lambda: qb.random.normal(3, (2,)), TypeError, "Key"),
        (lambda: qb.random.split(qb.random.key(0), 0), ValueError, "at least 1"),
        (lambda: qb.random.uniform(qb.random.key(0), (2,), minval=1.0, maxval=1.0), ValueError, "below"),
        (lambda: qb.random.bernoulli(qb.random.key(0), 1.5), ValueError, "p must be"),
        (lambda: qb.random.glorot_normal(qb.random.key(0), (3,)), ValueError, "two axes"),
        (lambda: qb.random.normal(qb.random.key(0), (2,), dtype=qb.bool_), TypeError, "bool"),
        (lambda: qb.random.normal(qb.random.key(0), (2, -1)), ValueError, "-1"),
    ],
)
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_a_tracer_is_no_seed_and_no_bound():
    with pytest.raises(TypeError):
        qb.jit(lambda p: qb.random.bernoulli(qb.random.key(0), p, (2,)))(qb.array(0.5))
