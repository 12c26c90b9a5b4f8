from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.statistics import bootstrap_interval, compare_pairs, holm


def test_randomisation_test_is_exact_for_few_queries() -> None:
    a, b = np.array([0.1, 0.4, 0.3, 0.2, 0.9]), np.array([0.3, 0.5, 0.35, 0.6, 0.8])
    delta = b - a
    sums = [abs(np.dot(signs, delta)) for signs in itertools.product((1, -1), repeat=len(delta))]
    expected = np.mean(np.array(sums) >= abs(delta.sum()) - 1e-12)
    test = compare_pairs(a, b, seed=1)
    assert test.p == pytest.approx(expected)
    assert (test.wins, test.ties, test.losses) == (4, 0, 1)
    assert test.difference == pytest.approx(delta.mean())
    assert test.effect == pytest.approx(delta.mean() / delta.std(ddof=1))


def test_equal_systems_do_not_differ() -> None:
    values = np.linspace(0, 1, 20)
    test = compare_pairs(values, values.copy(), seed=1)
    assert (test.difference, test.p, test.effect) == (0.0, 1.0, None)
    assert test.interval == (0.0, 0.0)
    assert (test.wins, test.ties, test.losses) == (0, 20, 0)


def test_one_query_alone_proves_nothing() -> None:
    test = compare_pairs(np.array([0.5, 0.5, 0.5]), np.array([0.5, 0.9, 0.5]), seed=1)
    assert test.p == 1.0
    assert (test.wins, test.ties, test.losses) == (1, 2, 0)


def test_clear_difference_is_found_and_seeded() -> None:
    rng = np.random.default_rng(5)
    a = rng.random(200)
    b = a + rng.normal(0.1, 0.05, 200)
    first, second = compare_pairs(a, b, seed=3), compare_pairs(a, b, seed=3)
    assert first == second
    assert first.p is not None
    assert first.p < 0.001
    assert first.interval is not None
    assert first.interval.low < first.difference < first.interval.high


@pytest.mark.parametrize("values", [[], [0.3]])
def test_too_few_queries_have_no_interval_and_no_test(values: list[float]) -> None:
    assert bootstrap_interval(np.array(values), seed=1) is None
    assert compare_pairs(np.array(values), np.array(values), seed=1).p is None


def test_interval_of_a_constant_is_the_constant() -> None:
    assert bootstrap_interval(np.full(10, 0.25), seed=1) == (0.25, 0.25)


def test_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    covered = 0
    for trial in range(100):
        interval = bootstrap_interval(rng.beta(2, 5, size=60), seed=trial)
        assert interval is not None
        covered += interval.low <= 2 / 7 <= interval.high
    assert 88 <= covered <= 100


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
