"""Intervals, paired tests, Holm, equivalence and power, held against SciPy and statsmodels."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from installed import Deferred
from sample_report import sample_report

import harness.stats
from harness.data.types import Float64Array
from harness.errors import DataError, UnknownNameError, UsageError
from harness.report.documents.compare import comparison_notes as notes
from harness.stats import (
    NoiseFloor,
    bootstrap_interval,
    compare_pairs,
    detectable_difference,
    equivalence,
    holm,
    mean_interval,
    queries_needed,
)
from harness.stats.paired import adjust_family
from harness.stats.power import queries_for_equivalence
from harness.wording import few_for_interval

stats = Deferred("scipy.stats")
multipletests = Deferred("statsmodels.stats.multitest", "multipletests")
TTestPower = Deferred("statsmodels.stats.power", "TTestPower")
ttost_paired = Deferred("statsmodels.stats.weightstats", "ttost_paired")


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


@pytest.mark.parametrize(("hits", "n"), [(0, 3), (20, 20), (19, 20), (700, 1000)])
def test_the_interval_of_hits_is_exact(hits: int, n: int) -> None:
    values = np.arange(n) < hits
    expected = stats.binomtest(hits, n).proportion_ci(0.9, "exact")
    assert mean_interval(values.astype(float), 1, 0.9) == pytest.approx((expected.low, expected.high))


def test_the_interval_of_a_metric_is_never_a_point() -> None:
    """0.29 is the share of hits with which three of three are seen in one case of forty."""
    least = 0.025 ** (1 / 3)
    assert mean_interval([0.5, 0.5, 0.5], 1) == pytest.approx((0.5 * least, 1.0 - 0.5 * least))
    mixed = np.random.default_rng(2).random(30)
    assert mean_interval(mixed, 3) == bootstrap_interval(mixed, 3)
    assert mean_interval([1.0], 1) is None
    with pytest.raises(DataError, match="value 0 is nan"):
        mean_interval([math.nan, 1.0], 1)


def test_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    covered = 0
    for trial in range(100):
        interval = bootstrap_interval(rng.beta(2, 5, size=60), seed=trial)
        assert interval is not None
        covered += interval.low <= 2 / 7 <= interval.high
    assert 88 <= covered <= 100


def test_a_question_without_an_answer_is_no_part_of_the_family() -> None:
    assert adjust_family([0.02, None, 0.04, None]) == [0.04, None, 0.04, None]
    assert adjust_family([None]) == [None]


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@pytest.mark.parametrize("p_values", [[0.2, 0.01, 0.01, 0.5, 0.04], [1.0, 1.0], [0.0, 0.3]])
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    assert holm(p_values) == multipletests(p_values, method="holm")[1].tolist()


@pytest.mark.parametrize("p_values", [[0.1, math.nan], [1.2], [-0.1, 0.5]])
def test_holm_refuses_what_is_no_probability(p_values: list[float]) -> None:
    with pytest.raises(DataError, match="p-values: 1 problem"):
        holm(p_values)


def systems(n: int, ties: float = 0.4) -> tuple[Float64Array, Float64Array]:
    """Two systems that agree on a share of the queries."""
    rng = np.random.default_rng(n)
    a = rng.random(n)
    return a, a + np.where(rng.random(n) < ties, 0.0, rng.normal(0.05, 0.2, n))


@pytest.mark.parametrize("n", [8, 30, 300])
def test_t_and_wilcoxon_are_those_of_scipy(n: int) -> None:
    a, b = systems(n)
    assert compare_pairs(a, b, 1, test="t").p == pytest.approx(stats.ttest_rel(b, a).pvalue, rel=1e-9)
    moved = (b - a)[np.abs(b - a) > 1e-12]
    assert compare_pairs(a, b, 1, test="wilcoxon").p == pytest.approx(stats.wilcoxon(moved).pvalue, rel=1e-9)


@pytest.mark.parametrize("n", [40, 400])
def test_random_sign_flips_are_those_of_scipy(n: int) -> None:
    a, b = systems(n)
    a = a + (np.mean(b - a) - 0.01)  # a p that is neither 0 nor 1
    mine = compare_pairs(a, b, 1).p
    tested = stats.permutation_test((b - a,), np.mean, permutation_type="samples", n_resamples=20_000, rng=2)
    assert 0.02 < tested.pvalue < 0.98
    assert mine == pytest.approx(tested.pvalue, abs=3 * math.sqrt(0.25 / 10_000 + 0.25 / 20_000))


def test_equal_differences_flip_as_often_as_the_binomial_says() -> None:
    delta = np.where(np.arange(30) < 20, 0.1, -0.1)
    exact = stats.binomtest(20, 30).pvalue
    assert compare_pairs(np.zeros(30), delta, 1).p == pytest.approx(exact, abs=3 * math.sqrt(exact / 10_000))


def test_what_is_only_rounding_is_a_tie() -> None:
    a = np.array([0.1 + 0.2, 0.7, 0.5])
    test = compare_pairs(a, np.array([0.3, 0.7, 0.5 + 1e-16]), seed=1)
    assert (test.difference, test.p, test.wins, test.ties, test.losses) == (0.0, 1.0, 0, 3, 0)
    constant = compare_pairs(a, a - 0.1, seed=1, test="t")
    assert (constant.p, constant.effect) == (0.25, None)
    assert constant.p == compare_pairs(a, a - 0.1, seed=1).p
    assert constant.interval == (constant.difference, constant.difference)


@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.99])
def test_intervals_are_those_of_scipy(confidence: float) -> None:
    sample = np.random.default_rng(3).beta(1, 4, 50)
    expected = stats.bootstrap(
        (sample,), np.mean, confidence_level=confidence, n_resamples=2000, rng=np.random.default_rng(9)
    ).confidence_interval
    assert bootstrap_interval(sample, 9, confidence) == pytest.approx((expected.low, expected.high))
    assert compare_pairs(np.zeros(50), sample, 9, confidence=confidence).interval == bootstrap_interval(
        sample, 9, confidence
    )


@pytest.mark.parametrize("n", [4, 10, 500])
@pytest.mark.parametrize("delta", [0.01, 0.1, 1.0])
def test_equivalence_is_that_of_statsmodels(n: int, delta: float) -> None:
    a, b = systems(n // 2, ties=0.0)
    a, b = np.concatenate([a, a]), np.concatenate([b, a + 2.0 * np.mean(b - a) - (b - a)])  # mirrored: no skewness
    found = equivalence(a, b, delta)
    expected, _, _ = ttost_paired(b, a, -delta, delta)
    assert found.p == pytest.approx(max(expected, 0.5**n), rel=1e-9)
    assert found.holds == (max(expected, 0.5**n) < 0.05)
    if n < 5:
        assert found.interval is None
        return
    assert found.interval is not None
    assert found.holds == (-delta < found.interval.low and found.interval.high < delta)
    assert found.interval == pytest.approx(stats.ttest_1samp(b - a, 0.0).confidence_interval(0.9))


def test_equivalence_of_differences_that_do_not_vary() -> None:
    a = np.array([0.2, 0.4, 0.9, 0.1, 0.3])
    assert equivalence(a, a - 0.1, 0.11).holds
    assert not equivalence(a, a - 0.1, 0.1).holds
    assert equivalence(a, a, 1e-6).p == 0.5**5
    few = equivalence(a[:4], a[:4], 0.1)
    assert (few.p, few.interval, few.holds) == (0.5**4, None, False)
    assert equivalence(a[:1], a[:1], 0.1).p is None
    assert not equivalence([], [], 0.1).holds


@pytest.mark.parametrize("n", [3, 10, 52, 1000])
@pytest.mark.parametrize(("power", "alpha"), [(0.8, 0.05), (0.95, 0.01)])
def test_power_is_that_of_statsmodels(n: int, power: float, alpha: float) -> None:
    differences = np.random.default_rng(n).normal(0.0, 0.3, n)
    sd = float(np.std(differences, ddof=1))
    smallest = detectable_difference(differences, power=power, alpha=alpha)
    assert smallest is not None
    assert TTestPower().power(smallest / sd, n, alpha) == pytest.approx(power, abs=1e-6)
    assert queries_needed(differences, smallest, power=power, alpha=alpha) in (n, n + 1)
    for effect in (0.2, -0.5):
        needed = queries_needed(differences, effect * sd, power=power, alpha=alpha)
        assert needed == math.ceil(TTestPower().solve_power(effect_size=abs(effect), alpha=alpha, power=power))


def test_power_needs_something_to_go_by() -> None:
    for few in ([], [0.1], [0.1, 0.1, 0.1]):
        assert detectable_difference(few) is None
        assert queries_needed(few, 0.1) is None
    assert queries_needed([0.1, -0.1], 0.0) is None
    assert queries_needed([0.1, -0.1], 1e-9) is None  # more than ten million
    assert detectable_difference([0.0, 1.0]) == pytest.approx(8.167, abs=1e-3)


def test_builds_that_scatter_set_a_limit_to_queries() -> None:
    differences = np.random.default_rng(1).normal(0.0, 0.3, 100)
    quiet, loud = (detectable_difference(differences, noise=noise) for noise in (None, NoiseFloor(0.02, 4.0)))
    assert loud > quiet  # type: ignore[operator]
    more = queries_needed(differences, 0.2, noise=NoiseFloor(0.02, 4.0))
    assert more > queries_needed(differences, 0.2)  # type: ignore[operator]
    assert queries_needed(differences, 0.05, noise=NoiseFloor(0.02, 4.0)) is None


def test_queries_for_equivalence_give_the_power_that_they_promise() -> None:
    rng = np.random.default_rng(2)
    differences = stats.zscore(rng.normal(size=50), ddof=1) * 0.2 + 0.01
    needed = queries_for_equivalence(differences, 0.05)
    assert needed is not None
    drawn = rng.normal(0.01, 0.2, (4000, needed))
    low, high = stats.ttest_1samp(drawn, 0.0, axis=1).confidence_interval(0.9)
    assert np.mean((low > -0.05) & (high < 0.05)) == pytest.approx(0.8, abs=0.02)
    assert queries_for_equivalence(differences, 0.01) is None
    assert queries_for_equivalence([0.0, 0.0], 0.01) is None


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (lambda: compare_pairs([0.1, math.nan], [0.1, 0.2], 1), DataError, "a: 1 problem\n  value 1 is nan"),
        (lambda: compare_pairs([0.1], [math.inf], 1), DataError, "b: 1 problem\n  value 0 is inf"),
        (lambda: compare_pairs([0.1], [0.1, 0.2], 1), UsageError, "a has 1 values, b has 2"),
        (lambda: compare_pairs([[0.1]], [[0.1]], 1), UsageError, "a has 2 dimensions"),
        (lambda: compare_pairs({"q": 0.1}, {"q": 0.2}, 1), UsageError, r"a are not numbers \(but dict\)"),
        (lambda: mean_interval(["high"], 1), UsageError, r"values are not numbers \(but list\)"),
        (lambda: compare_pairs([], [], 1, test="sign"), UnknownNameError, "unknown test 'sign'"),  # type: ignore[arg-type]
        (lambda: compare_pairs([], [], 1, confidence=1.0), UsageError, "confidence is 1"),
        (lambda: bootstrap_interval([0.1, math.nan], 1), DataError, "value 1 is nan"),
        (lambda: bootstrap_interval([0.1], 1, 95), UsageError, "confidence is 95"),
        (lambda: equivalence([0.1], [0.1], 0.0), UsageError, "delta is 0"),
        (lambda: equivalence([0.1], [0.1], math.nan), UsageError, "delta is nan"),
        (lambda: equivalence([0.1], [0.1], 0.1, alpha=0.5), UsageError, "alpha is 1"),
        (lambda: detectable_difference([math.nan]), DataError, "value 0 is nan"),
        (lambda: detectable_difference([0.1], power=1.0), UsageError, "power is 1"),
        (lambda: queries_needed([0.1], 0.1, power=0.05), UsageError, "power 0.05 at alpha 0.05"),
    ],
)
def test_wrong_input_is_refused(ask: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask()


def test_the_reference_page_has_every_public_name(repository: Path) -> None:
    page = (repository / "docs/reference/python-reference.md").read_text(encoding="utf-8")
    told = set(re.findall(r"\w+", page))
    assert set(harness.stats.__all__) - told == {"GateRule", "TestName", "Verdict"}  # names for annotations


@pytest.mark.parametrize(("n", "low", "high"), [(2, 0.45, 0.65), (3, 0.65, 0.82), (5, 0.8, 0.9), (10, 0.89, 0.97)])
def test_intervals_over_few_queries_hold_the_mean_too_rarely_and_a_note_cautions(
    n: int, low: float, high: float
) -> None:
    rng = np.random.default_rng(0)
    found = [bootstrap_interval(rng.random(n), seed) for seed in range(400)]
    held = np.mean([one.low <= 0.5 <= one.high for one in found if one is not None])
    assert low < held < high
    assert bool(few_for_interval([n, 50])) is (n < 10)


def test_one_caution_names_the_smallest_number_of_queries() -> None:
    (said,) = few_for_interval([40, 7, 2, 1])
    assert said.startswith("caution: bootstrap intervals over 2 queries are too narrow")
    assert few_for_interval([1, 40]) == []


def test_tables_and_pages_caution_once_where_a_mean_is_over_few_queries() -> None:
    report = sample_report()
    assert not any("caution" in note for note in notes(report))
    backends = [
        one.model_copy(update={"queries": one.queries.model_copy(update={"evaluated": 3})}) if one.queries else one
        for one in report.trials
    ]
    assert (
        sum("over 3 queries are too narrow" in note for note in notes(report.model_copy(update={"trials": backends})))
        == 1
    )
