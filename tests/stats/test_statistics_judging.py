"""Verdicts and gates: each rule, the edges, and what they promise, by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from installed import Deferred

from harness.data.types import Float64Array
from harness.errors import DataError, UnknownNameError, UsageError
from harness.stats import Change, NoiseFloor, gate, holm, judge, judge_family, noise_floor

stats = Deferred("scipy.stats")
RULES = {"margin": 0.02, "allowed_drop": 0.02, "seed": 7}


def values(n: int = 200) -> Float64Array:
    return np.random.default_rng(3).random(n)


def changed(mean: float, sd: float = 0.05, n: int = 200) -> Float64Array:
    """Exactly that mean difference and standard deviation from `values()`."""
    drawn = np.random.default_rng(4).normal(size=n)
    drawn = (drawn - drawn.mean()) / drawn.std(ddof=1)
    return values(n) + mean + sd * np.asarray(drawn)


@pytest.mark.parametrize(
    ("after", "verdict", "failed"),
    [
        (values(), "same", False),
        (changed(0.0), "same", False),
        (changed(0.05), "better", False),
        (changed(-0.022), "worse", False),
        (changed(-0.05), "worse", True),
        (changed(-0.012, sd=0.5), "undecided", False),
        (values() - 0.02, "worse", False),
        (values() - 0.021, "worse", True),
        (values() + 0.02, "better", False),
    ],
)
@pytest.mark.parametrize("test", ["randomisation", "t", "wilcoxon"])
def test_verdict_and_gate(after: Float64Array, verdict: str, failed: bool, test: str) -> None:
    found = judge(values(), after, test=test, **RULES)  # type: ignore[arg-type]
    assert (found.verdict, found.gate.failed) == (verdict, failed)
    assert found.paired.test == test
    assert (found.queries_needed is not None) == (verdict == "undecided")


def test_a_small_significant_difference_is_the_same_within_the_margin_alone() -> None:
    before, after = values(), changed(-0.01, sd=0.02)
    assert judge(before, after, margin=0.02, allowed_drop=0.02, seed=1).verdict == "same"
    assert judge(before, after, margin=0.0, allowed_drop=0.02, seed=1).verdict == "worse"
    strict = judge(before, after, margin=0.02, allowed_drop=0.0, seed=1)
    assert (strict.verdict, strict.gate.failed) == ("worse", True)
    ungated = judge(before, after, margin=0.02, allowed_drop=None, seed=1)
    assert (ungated.verdict, ungated.gate.failed, ungated.gate.p) == ("same", False, None)


def test_the_bound_tells_what_the_gate_decides() -> None:
    differences = changed(-0.05) - values()
    bound = gate(values(), changed(-0.05), 0.0).bound
    expected = stats.ttest_1samp(differences, 0.0).confidence_interval(0.90).high
    assert bound == pytest.approx(expected)
    assert gate(values(), changed(-0.05), -bound - 1e-9).failed
    assert not gate(values(), changed(-0.05), -bound + 1e-9).failed
    assert gate(values(), changed(-0.05), 0.03).p == pytest.approx(
        stats.ttest_1samp(differences, -0.03, alternative="less").pvalue
    )


def test_a_drop_of_exactly_the_allowed_one_passes_whatever_the_rounding() -> None:
    before = np.array([0.3, 0.7, 0.9, 0.6, 0.8])
    assert not gate(before, before - 0.2, 0.2).failed
    assert gate(before, before - 0.2, 0.2 - 1e-6).failed
    assert gate(before, before - 0.2, 0.3 - 0.1).p == 1.0


@pytest.mark.parametrize(("queries", "failed"), [(2, False), (4, False), (5, True)])
def test_a_few_queries_that_all_lose_the_same_may_be_chance(queries: int, failed: bool) -> None:
    found = judge(np.ones(queries), np.zeros(queries), margin=0.0, allowed_drop=0.0, seed=1)
    assert (found.gate.p, found.gate.failed) == (0.5**queries, failed)
    assert (found.gate.bound == -1.0) == failed
    assert found.verdict == ("worse" if failed else "undecided")


@pytest.mark.parametrize("queries", [0, 1])
def test_too_few_queries_are_undecided_and_pass(queries: int) -> None:
    found = judge(values(queries), values(queries) - 0.3, **RULES)  # type: ignore[arg-type]
    assert (found.verdict, found.gate.failed, found.gate.p, found.detectable) == ("undecided", False, None, None)
    assert judge(values(1), values(1), **RULES).verdict == "same"  # type: ignore[arg-type]


def test_noise_of_builds_excuses_and_never_accuses() -> None:
    before, after = values(), changed(-0.05)
    quiet = judge(before, after, **RULES)  # type: ignore[arg-type]
    loud = judge(before, after, noise_floor=NoiseFloor(0.05, 4.0), **RULES)  # type: ignore[arg-type]
    assert (quiet.verdict, loud.verdict) == ("worse", "undecided")
    assert quiet.gate.failed
    assert not loud.gate.failed
    assert loud.p > quiet.p  # type: ignore[operator]
    assert loud.detectable > quiet.detectable  # type: ignore[operator]
    assert loud.queries_needed is None  # no number of queries makes builds scatter less
    same = judge(before, before, noise_floor=NoiseFloor(0.05, 4.0), **RULES)  # type: ignore[arg-type]
    assert (same.verdict, same.gate.failed) == ("same", False)


def test_noise_floor_is_welch_on_single_builds() -> None:
    before, after = [0.50, 0.52, 0.51], [0.49, 0.55, 0.53, 0.50]
    floor = noise_floor(before, after)
    assert floor is not None
    assert floor.sd == pytest.approx(math.sqrt(np.var(before, ddof=1) + np.var(after, ddof=1)))
    equal = noise_floor(before, [value + 0.1 for value in before])
    assert equal is not None
    assert equal.df == pytest.approx(stats.ttest_ind(before, before, equal_var=False).df)
    assert equal.size() == pytest.approx(stats.t.isf(0.05, equal.df) * equal.sd)
    one_sided = noise_floor(before, [0.4])
    assert one_sided is not None
    assert (one_sided.df, one_sided.sd) == pytest.approx((2.0, np.std(before, ddof=1)))
    assert noise_floor([0.5, 0.5, 0.5], [0.4]) is None
    with pytest.raises(UsageError, match="noise floor of no builds"):
        noise_floor([], [0.5])


def test_the_family_is_corrected_by_holm_for_each_question() -> None:
    afters = [changed(-0.026), changed(0.003), changed(-0.03), values()]
    found = judge_family([Change(values(), after, 0.02, 0.02) for after in afters], seed=7, test="t")
    moved = found[:3]
    assert [one.p_adjusted for one in moved] == holm([one.p or 0.0 for one in moved])
    assert [one.gate.p_adjusted for one in moved] == holm([one.gate.p or 0.0 for one in moved])
    ps = [one.equivalence.p or 0.0 for one in moved if one.equivalence is not None]
    assert [one.equivalence_p_adjusted for one in moved] == holm(ps)
    alone = [judge(values(), after, test="t", **RULES) for after in afters]  # type: ignore[arg-type]
    assert [one.gate.failed for one in alone] == [True, False, True, False]
    assert [one.gate.failed for one in found] == [False, False, True, False]
    assert (found[3].verdict, found[3].gate.state, found[3].p_adjusted) == ("same", "passed", 1.0)
    assert found[0].detectable > alone[0].detectable  # type: ignore[operator]
    assert judge_family([], seed=1) == []


def test_a_change_without_differences_costs_the_others_nothing() -> None:
    alone = judge(values(), changed(-0.03), **RULES)  # type: ignore[arg-type]
    identical = Change(values(), values(), 0.02, 0.02)
    changes = [identical, Change(values(), changed(-0.03), 0.02, 0.02), identical]
    found = judge_family(changes, seed=7)[1]
    assert (found.p_adjusted, found.gate.p_adjusted) == (alone.p_adjusted, alone.gate.p_adjusted)
    assert (found.comparisons, found.gate.comparisons, found.detectable) == (1, 1, alone.detectable)


def test_a_caller_may_correct_p_itself() -> None:
    found = judge(values(), changed(0.05), p_adjusted=0.2, **RULES)  # type: ignore[arg-type]
    assert (found.verdict, found.p_adjusted) == ("undecided", 0.2)
    assert found.p < 0.05  # type: ignore[operator]


def test_so_many_queries_would_have_decided() -> None:
    rng = np.random.default_rng(5)
    found = judge(values(40), changed(-0.04, 0.2, 40), margin=0.0, allowed_drop=0.0, seed=1, test="t")
    assert found.verdict == "undecided"
    needed = found.queries_needed
    assert needed is not None
    drawn = rng.normal(-0.04, 0.2, (4000, needed))
    share = float(np.mean(stats.ttest_1samp(drawn, 0.0, axis=1).pvalue < 0.05))
    assert share == pytest.approx(0.8, abs=2.5 * math.sqrt(0.8 * 0.2 / 4000))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"margin": -0.1}, UsageError, "the margin is -0.1"),
        ({"allowed_drop": -0.1}, UsageError, "the allowed drop is -0.1"),
        ({"allowed_drop": math.inf}, UsageError, "the allowed drop is inf"),
        ({"allowed_drop": math.nan}, UsageError, "the allowed drop is nan"),
        ({"alpha": 0.5}, UsageError, "alpha is 1"),
        ({"test": "anova"}, UnknownNameError, "unknown test 'anova'"),
        ({"a": [0.1, math.nan]}, DataError, "value 1 is nan"),
        ({"b": [0.1, 0.2, 0.3]}, UsageError, "a has 2 values, b has 3"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, object], error: type[Exception], message: str) -> None:
    arguments = {"a": [0.1, 0.2], "b": [0.2, 0.4], **RULES, **options}
    with pytest.raises(error, match=message):
        judge(**arguments)  # type: ignore[arg-type]


def within(share: float, promised: float, trials: int) -> bool:
    return abs(share - promised) <= 2.0 * math.sqrt(promised * (1.0 - promised) / trials)


@pytest.mark.parametrize("queries", [20, 200])
@pytest.mark.slow
def test_false_alarms_and_power_are_as_promised(queries: int) -> None:
    """A small copy of benchmarks/gate_simulation.py, with the drop at its limit and with none allowed."""
    rng, trials, drop, sd = np.random.default_rng(11), 3000, 0.03, 0.2
    zeros = np.zeros(queries)
    changes = rng.normal(-drop, sd, (trials, queries))
    alarms = sum(gate(zeros, change, drop).failed for change in changes) / trials
    assert within(alarms, 0.05, trials)
    found = sum(gate(zeros, change, 0.0).failed for change in changes) / trials
    shift = -drop / (sd / math.sqrt(queries))
    power = float(stats.nct.cdf(stats.t.ppf(0.05, queries - 1), queries - 1, shift))
    assert within(found, power, trials)


def test_rebuilds_raise_no_false_alarm_with_the_floor_and_many_without() -> None:
    rng, trials, queries = np.random.default_rng(12), 1500, 100
    failed = np.zeros((trials, 2))
    for trial in range(trials):
        moved = rng.normal(0.0, 0.02, (2, 3))  # as large as the error over queries
        change = rng.normal(0.0, 0.2, queries) + moved[1, 0] - moved[0, 0]
        floor = noise_floor(moved[0], moved[1])
        failed[trial] = [gate(np.zeros(queries), change, 0.0, noise=noise).failed for noise in (floor, None)]
    quiet, loud = failed.mean(axis=0)
    assert quiet < 0.05
    assert loud > 0.12
