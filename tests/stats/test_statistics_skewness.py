"""Skewness: Hall's transformation against a plain copy of its formula, and what it is there for, by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from installed import Deferred

from harness.data.types import Float64Array
from harness.stats import NoiseFloor, equivalence, gate
from harness.stats.mean_error import hall, hall_inverse, skewness_of_mean

stats = Deferred("scipy.stats")
GOLDEN_SET = np.repeat([-1.0, 0.0], [8, 42])  # eight documents of fifty are lost


def test_the_skewness_of_a_mean_by_hand() -> None:
    """Eight of fifty: variance 0.16·0.84, third moment -0.16·0.84·0.68, so -1.8549, squared 3.4405."""
    skewness = -0.68 / math.sqrt(0.16 * 0.84)
    assert skewness_of_mean(GOLDEN_SET) == pytest.approx(skewness * (1.0 - 0.12 / skewness**2) / math.sqrt(50))
    assert skewness_of_mean(-GOLDEN_SET) == -skewness_of_mean(GOLDEN_SET)
    assert skewness_of_mean(1e6 * GOLDEN_SET) == pytest.approx(skewness_of_mean(GOLDEN_SET))


@pytest.mark.parametrize("values", [[0.0, 0.0, 0.0, 1.0], [-1.0, 0.0, 1.0], np.linspace(0, 1, 100)])
def test_skewness_that_chance_explains_is_none(values: list[float]) -> None:
    assert skewness_of_mean(np.array(values)) == 0.0


@pytest.mark.parametrize("n", [5, 50, 1000])
@pytest.mark.parametrize("t", [-4.0, -1.7, 0.0, 2.5])
@pytest.mark.parametrize("gamma", [-2.0, 1e-9, 0.7])
def test_the_transformation_is_the_published_one(n: int, t: float, gamma: float) -> None:
    """With S = t/√n and a = 1/3: √n·(S + agS² + a²g²S³/3 + g/(6n)), g the skewness."""
    s, a = t / math.sqrt(n), 1.0 / 3.0
    expected = math.sqrt(n) * (s + a * gamma * s**2 + a**2 * gamma**2 * s**3 / 3.0 + gamma / (6.0 * n))
    skewness = gamma / math.sqrt(n)
    assert hall(t, skewness) == pytest.approx(expected)
    assert hall_inverse(expected, skewness) == pytest.approx(t)


def test_a_gate_takes_the_more_doubtful_answer() -> None:
    """Against a loss of 0.05 t is sure, and Hall's transformation surer still; the other way round it doubts."""
    plain = stats.ttest_1samp(GOLDEN_SET, -0.05, alternative="less")
    zeros = np.zeros(50)
    found = gate(zeros, GOLDEN_SET, 0.05)
    assert found.p == pytest.approx(plain.pvalue)
    assert found.bound == pytest.approx(stats.ttest_1samp(GOLDEN_SET, 0.0).confidence_interval(0.9).high)

    mirrored = stats.ttest_1samp(-GOLDEN_SET, 0.3, alternative="less")
    corrected = hall(float(mirrored.statistic), skewness_of_mean(-GOLDEN_SET))
    same = equivalence(zeros, -GOLDEN_SET, 0.3)
    assert same.p == pytest.approx(stats.t.cdf(corrected, 49))
    assert same.p > 3.0 * mirrored.pvalue
    assert same.interval is not None
    again = stats.ttest_1samp(-GOLDEN_SET, same.interval.high).statistic
    assert hall(float(again), skewness_of_mean(-GOLDEN_SET)) == pytest.approx(stats.t.ppf(0.05, 49))


def test_noise_makes_a_mean_less_skewed() -> None:
    """A floor as wide as the error of the queries: the mean's skewness falls to its share of the error, cubed."""
    own = float(np.std(GOLDEN_SET, ddof=1)) / math.sqrt(50)
    noise = NoiseFloor(own, 1e9)
    found = equivalence(np.zeros(50), -GOLDEN_SET, 0.3, noise=noise)
    t = (0.16 - 0.3) / (own * math.sqrt(2.0))
    corrected = hall(t, skewness_of_mean(-GOLDEN_SET) / math.sqrt(2.0) ** 3)
    assert found.p == pytest.approx(stats.t.cdf(max(t, corrected), 4 * 49), rel=1e-6)


def drawn(rng: np.random.Generator, name: str, queries: int) -> Float64Array:
    """Differences with a mean of 0: a few queries win much, a few lose much, or few change at all, either way."""
    if name == "wins":
        return rng.exponential(1.0, queries) - 1.0
    if name == "losses":
        return np.where(rng.random(queries) < 0.05, -1.0, 0.0) + 0.05
    ranks = rng.integers(1, 6, (2, queries))
    return np.where(rng.random(queries) < 0.2, 1.0 / ranks[0] - 1.0 / ranks[1], 0.0)


@pytest.mark.parametrize(
    ("name", "queries", "most"),
    [
        ("wins", 50, 0.07),  # t alone: 8.6 %
        ("losses", 200, 0.04),  # t alone takes 12.4 % for the same
        ("few change", 50, 0.062),  # the whole of Hall's transformation, in place of t: 10 %
    ],
)
@pytest.mark.slow
def test_skewed_changes_raise_few_false_alarms(name: str, queries: int, most: float) -> None:
    rng, trials, shift = np.random.default_rng(21), 3000, np.full(queries, 10.0)
    alarms = np.zeros(2)
    for _ in range(trials):
        change = drawn(rng, name, queries)
        # a loss of exactly the allowed drop; a difference of exactly the margin, in the other direction
        alarms += gate(shift, shift + change - 3.0, 3.0).failed, equivalence(shift, shift + change - 3.0, 3.0).holds
    assert (alarms / trials < most).all(), alarms / trials
