"""Keyed random numbers: the streams, their distributions, their errors."""

import copy
import math
import pickle
import zlib

import mpmath
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


def test_uniform_float64_stays_below_maxval():
    x = qb.random.uniform(qb.random.key(0), (10_000,), minval=1.0, maxval=1.0 + 2.0**-51).numpy()
    assert set(x) == {1.0, 1.0 + 2.0**-52}


def test_bernoulli_is_a_uniform_sample_below_p():
    key = qb.random.key(31)
    u = qb.random.uniform(key, (500,)).tolist()
    assert qb.random.bernoulli(key, 0.3, (500,)).tolist() == [v < 0.3 for v in u]


def test_a_sample_inside_a_traced_function_is_a_constant():
    f = qb.jit(lambda x: x + qb.random.normal(qb.random.key(1), (3,)))
    want = (qb.ones((3,)) + qb.random.normal(qb.random.key(1), (3,))).tolist()
    assert f(qb.ones((3,))).tolist() == f(qb.ones((3,))).tolist() == want
    assert "constant[dense]" in f.lower(qb.ones((3,))).as_text()


def test_moments_of_normal_and_uniform():
    x = qb.random.normal(qb.random.key(11), (100_000,)).numpy()
    assert abs(x.mean()) < 0.015
    assert abs(x.std() - 1) < 0.01
    assert abs((x**3).mean()) < 0.05
    u = qb.random.uniform(qb.random.key(12), (100_000,), minval=-2.0, maxval=4.0).numpy()
    assert abs(u.mean() - 1) < 0.03
    counts, _ = np.histogram(u, 50, (-2, 4))
    assert ((counts - 2000) ** 2 / 2000).sum() < 94  # chi-square, 49 degrees of freedom, p = 1e-4


def kolmogorov_smirnov(x, cdf):
    """The largest distance of the empirical distribution of x from cdf, times the root of their number: 2.2 has p = 1e-4."""
    x = np.sort(x)
    f, n = cdf(x), len(x)
    return math.sqrt(n) * max(np.max(np.arange(1, n + 1) / n - f), np.max(f - np.arange(n) / n))


def chi_square(counts, expected):
    return float(((np.asarray(counts) - expected) ** 2 / expected).sum())


phi = np.vectorize(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)))


def test_normal_and_uniform_pass_kolmogorov_smirnov():
    for seed in range(3):
        assert kolmogorov_smirnov(qb.random.normal(qb.random.key(seed), (50_000,)).numpy(), phi) < 2.2
        assert kolmogorov_smirnov(qb.random.uniform(qb.random.key(seed), (50_000,)).numpy(), lambda x: x) < 2.2
    assert kolmogorov_smirnov(qb.random.normal(qb.random.key(0), (50_000,)).numpy() + 0.02, phi) > 2.2


def test_split_and_folded_keys_give_independent_streams():
    keys = [*qb.random.split(qb.random.key(4), 8), *(qb.random.fold_in(qb.random.key(4), i) for i in range(8))]
    x = np.stack([qb.random.normal(k, (20_000,)).numpy() for k in keys])
    correlation = np.corrcoef(x) - np.eye(len(keys))
    assert abs(correlation).max() < 5 / math.sqrt(20_000)


def test_pairs_of_uniforms_fill_the_square():
    u = qb.random.uniform(qb.random.key(21), (100_000,)).numpy()
    counts, _, _ = np.histogram2d(u[::2], u[1::2], 10, [[0, 1], [0, 1]])
    assert chi_square(counts, 500) < 161  # 99 degrees of freedom, p = 1e-4


@pytest.mark.parametrize(
    "bounds", [(-1.0, 2.0), (0.5, 0.6), (-math.inf, -1.0), (6.0, math.inf), (-9.0, -8.0), (-math.inf, math.inf)]
)
def test_truncated_normal_has_its_distribution(bounds):
    lo, hi = bounds
    x = qb.random.truncated_normal(qb.random.key(3), lo, hi, (20_000,)).numpy()
    assert lo <= x.min() <= x.max() <= hi
    if lo > 0:
        x, lo, hi = -x, -hi, -lo  # the lower tail has no cancellation
    below = phi(lo) if math.isfinite(lo) else 0.0
    whole = (phi(hi) if math.isfinite(hi) else 1.0) - below
    assert kolmogorov_smirnov(x, lambda v: (phi(v) - below) / whole) < 2.2


def test_truncated_normal_inverts_the_distribution_function():
    u = qb.random.uniform(qb.random.key(5), (300,)).tolist()
    for lo, hi in ((-5.0, 5.0), (7.0, 12.0)):
        x = qb.random.truncated_normal(qb.random.key(5), lo, hi, (300,)).tolist()
        with mpmath.workdps(30):
            # Of x = 12 an error of one ulp changes the probability by 144 of them.
            low = mpmath.ncdf(-hi if lo > 0 else lo)
            width = mpmath.ncdf(-lo if lo > 0 else hi) - low
            got = [mpmath.ncdf(-v if lo > 0 else v) for v in x]
            assert max(abs(float(p / (low + width * w)) - 1) for p, w in zip(got, u)) < 3e-13


def test_permutations_are_equally_likely():
    keys = qb.random.split(qb.random.key(8), 24_000)
    seen = {}
    for k in keys:
        order = tuple(qb.random.permutation(k, 4).tolist())
        seen[order] = seen.get(order, 0) + 1
    assert len(seen) == 24
    assert chi_square(list(seen.values()), 1000) < 59  # 23 degrees of freedom, p = 5e-5


def test_permutation_moves_whole_rows_and_all_arrays_alike():
    key, x = qb.random.key(6), qb.arange(30.0).reshape([10, 3])
    order = [int(i) for i in qb.random.permutation(key, 10).tolist()]
    assert sorted(order) == list(range(10))
    assert qb.random.permutation(key, x).tolist() == [x.tolist()[i] for i in order]
    flags = qb.array([i % 2 == 0 for i in range(10)])
    assert qb.random.permutation(key, flags).tolist() == [i % 2 == 0 for i in order]
    assert qb.random.permutation(key, 1).tolist() == [0.0]


def test_choice_draws_with_and_without_replacement():
    key = qb.random.key(7)
    x = qb.random.choice(key, 10, (50_000,)).numpy()
    assert chi_square(np.bincount(x.astype(int), minlength=10), 5000) < 34  # 9 degrees of freedom, p = 1e-4
    some = qb.random.choice(key, 10, (2, 3), replace=False)
    assert some.shape == [2, 3]
    assert len(set(some.numpy().ravel())) == 6
    rows = qb.array([[1.0, 2.0], [3.0, 4.0]])
    assert qb.random.choice(key, rows, 5).shape == [5, 2]
    assert qb.random.choice(key, rows).tolist() in rows.tolist()


def test_choice_follows_its_probabilities():
    p = np.array([0.1, 0.0, 0.2, 0.7])
    x = qb.random.choice(qb.random.key(9), 4, (20_000,), p=p).numpy().astype(int)
    counts = np.bincount(x, minlength=4)
    assert counts[1] == 0
    assert chi_square(counts[p > 0], 20_000 * p[p > 0]) < 19  # 2 degrees of freedom, p = 1e-4
    firsts = [
        qb.random.choice(k, 4, (2,), replace=False, p=p).tolist() for k in qb.random.split(qb.random.key(10), 4000)
    ]
    assert all(a != b for a, b in firsts)
    counts = np.bincount([int(a) for a, _ in firsts], minlength=4)
    assert chi_square(counts[p > 0], 4000 * p[p > 0]) < 19


def test_samples_do_not_depend_on_threads_isa_or_on_how_many_are_drawn():
    def drawn(n):
        key = qb.random.key(13)
        return [
            f(n).numpy().tobytes()
            for f in (
                lambda n: qb.random.normal(key, (n,)),
                lambda n: qb.random.uniform(key, (n,), dtype=qb.float32),
                lambda n: qb.random.truncated_normal(key, -1.0, 1.0, (n,)),
            )
        ]

    whole = drawn(100_003)
    for threads in (1, 2):
        qb.set_num_threads(threads)
        assert drawn(100_003) == whole
    qb.set_num_threads(0)
    best = qb._core.isa()
    for level in {"v3", best}:
        qb._core._set_isa(level)
        assert drawn(100_003) == whole
    qb._core._set_isa(None)
    for n in (1, 255, 257, 16_385):
        assert all(a.startswith(b) for a, b in zip(whole, drawn(n)))


def test_samples_are_these_on_every_platform():
    key = qb.random.key(2024)
    crc = [
        zlib.crc32(x.numpy().tobytes())
        for x in (
            qb.random.uniform(key, (10_000,), minval=-1.0),
            qb.random.permutation(key, 10_000),
            qb.random.choice(key, 10_000, (10_000,)),
            qb.random.glorot_uniform(key, (100, 100)),
        )
    ]
    assert crc == [248504198, 1866085093, 1248636287, 1766545206]
    key, p = qb.random.key(5), range(12)
    assert qb.random.choice(key, 12, 6, p=p).tolist() == [7.0, 10.0, 6.0, 4.0, 5.0, 7.0]
    assert qb.random.choice(key, 12, 6, replace=False, p=p).tolist() == [11.0, 3.0, 4.0, 10.0, 8.0, 5.0]


def test_weighted_choice_computes_with_own_functions(monkeypatch):
    """log1p of the C library rounds in its own way on each platform."""
    key, p = qb.random.key(1), qb.random.uniform(qb.random.key(2), 200)
    u = qb.random.uniform(key, 200)
    clocks = (-qb.log1p(-u) / p).tolist()
    monkeypatch.delattr(math, "log1p")
    assert (
        qb.random.choice(key, 200, 50, replace=False, p=p).tolist() == sorted(range(200), key=clocks.__getitem__)[:50]
    )


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
    assert pickle.loads(pickle.dumps(key)) == copy.deepcopy(key) == key
    assert key != 9


def test_a_key_cannot_lose_its_value():
    key = qb.random.key(3)
    with pytest.raises(AttributeError, match="immutable"):
        del key._value
    assert key.value == 3


def test_numbers_and_counts_may_come_from_numpy():
    key = qb.random.key(1)
    a = qb.random.uniform(key, np.int64(3), minval=np.float32(-2.0), maxval=np.int64(2))
    assert a.tolist() == qb.random.uniform(key, 3, minval=-2.0, maxval=2.0).tolist()
    assert qb.random.bernoulli(key, np.float32(1.0), 2).tolist() == [True, True]
    assert qb.random.permutation(key, np.int64(5)).tolist() == qb.random.permutation(key, 5).tolist()
    assert qb.random.choice(key, np.array(5), 3).tolist() == qb.random.choice(key, 5, 3).tolist()


def test_float32_bounds_are_within_float32():
    key = qb.random.key(0)
    for bounds in ((0.0, 1e39), (-1e39, 0.0), (1e300, 1e301)):
        with pytest.raises(ValueError, match="uniform: .*float32"):
            qb.random.uniform(key, 3, qb.float32, *bounds)
        assert qb.random.uniform(key, 3, qb.float64, *bounds).shape == [3]


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
        (lambda: qb.random.truncated_normal(qb.random.key(0), 1.0, 1.0), ValueError, "below"),
        (lambda: qb.random.truncated_normal(qb.random.key(0), "a", 1.0), TypeError, "lower"),
        (lambda: qb.random.permutation(qb.random.key(0), 0), ValueError, "at least one"),
        (lambda: qb.random.permutation(qb.random.key(0), qb.array(1.0)), ValueError, "scalar"),
        (lambda: qb.random.permutation(3, 3), TypeError, "Key"),
        (lambda: qb.random.choice(qb.random.key(0), 3, (4,), replace=False), ValueError, "without replacement"),
        (lambda: qb.random.choice(qb.random.key(0), 3, (2,), p=[1.0]), ValueError, "3 probabilities"),
        (lambda: qb.random.choice(qb.random.key(0), 2, (2,), p=[-1.0, 2.0]), ValueError, "probabilities"),
        (lambda: qb.random.choice(qb.random.key(0), 2, (2,), False, p=[1.0, 0.0]), ValueError, "p > 0"),
        (lambda: qb.jit(lambda x: qb.random.permutation(qb.random.key(0), x))(qb.ones((3,))), TypeError, "tracer"),
    ],
)
def test_bad_arguments_are_named(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda v: qb.random.key(v),
        lambda v: qb.random.fold_in(qb.random.key(0), v),
        lambda v: qb.random.uniform(qb.random.key(0), (2,), minval=v),
        lambda v: qb.random.uniform(qb.random.key(0), (2,), maxval=v),
        lambda v: qb.random.truncated_normal(qb.random.key(0), v, 3.0),
        lambda v: qb.random.bernoulli(qb.random.key(0), v, (2,)),
        lambda v: qb.random.choice(qb.random.key(0), 2, (2,), p=qb.stack([v, v])),
    ],
)
def test_a_tracer_is_no_seed_no_bound_and_no_probability(call):
    with pytest.raises(TypeError, match="TraceTensor|tracer"):
        qb.jit(call)(qb.array(0.5))


def test_huge_weights_of_choice_keep_their_ratio():
    x = qb.random.choice(qb.random.key(3), 3, (3000,), p=[1e308, 1e308, 1e308]).numpy()
    assert chi_square(np.bincount(x.astype(int), minlength=3), 1000) < 19  # 2 degrees of freedom, p = 1e-4
