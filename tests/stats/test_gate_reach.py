"""Gates that cannot fail: what so few queries could show, by brute force over every loss there can be."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from harness.data.types import Float64Array
from harness.errors import UnknownNameError
from harness.stats import Change, NoiseFloor, equivalence, gate, judge, judge_family
from harness.stats.judging import GateRule
from harness.stats.mean_error import balance_of, mean_error
from harness.stats.paired import adjust_family

ALPHA = 0.05


def lose(queries: int, lost: int) -> Float64Array:
    """Values after so many of the queries, all of which were 1, lost everything."""
    return np.concatenate([np.zeros(lost), np.ones(queries - lost)])


@pytest.mark.parametrize("comparisons", [1, 2, 4, 8])
@pytest.mark.parametrize("queries", range(1, 11))
@pytest.mark.parametrize("drop", [0.0, 0.3])
def test_after_a_total_loss_a_gate_fails_or_was_not_judged(comparisons: int, queries: int, drop: float) -> None:
    """Metrics that differ, each of which lost everything: p is 2 to the minus n, times their number."""
    before = [np.ones(queries) - 0.0001 * place for place in range(comparisons)]
    changes = [Change(values, np.zeros(queries), 0.01, drop, backend="csr") for values in before]
    for found in judge_family(changes, seed=1):
        enough = queries > 1 and comparisons * 0.5**queries < ALPHA
        assert (found.gate.failed, found.gate.judged, found.verdict == "worse") == (enough, enough, enough)
        assert found.gate.state == ("failed" if enough else "not judged")
        assert found.gate.total_loss is not None
        assert found.gate.total_loss.comparisons == (comparisons if queries > 1 else 0)


@pytest.mark.parametrize("queries", range(2, 9))
def test_whether_a_gate_is_judged_is_known_before_the_later_result(queries: int) -> None:
    enough = 0.5**queries < ALPHA
    for lost in range(queries + 1):
        assert gate(np.ones(queries), lose(queries, lost), 0.0).judged == enough


@pytest.mark.parametrize("drop", [0.0, 0.05, 0.3])
@pytest.mark.parametrize("alpha", [ALPHA, ALPHA / 4])
def test_who_loses_more_never_passes_where_less_fails(drop: float, alpha: float) -> None:
    """Six of seven questions lost their document, and their skewness excused it, where four of seven failed."""
    for queries in (*range(2, 21), 50):
        failed = [gate(np.ones(queries), lose(queries, lost), drop, alpha=alpha).failed for lost in range(queries + 1)]
        assert failed == sorted(failed), queries
        assert failed[-1] == (0.5**queries < alpha)


def test_every_small_set_fails_after_a_total_loss_or_was_not_judged() -> None:
    for queries in range(1, 7):
        for values in itertools.combinations_with_replacement([0.0, 0.2, 0.5, 1.0], queries):
            before = np.array(values)
            for drop in (0.0, 0.15):
                lost = gate(before, np.zeros(queries), drop)
                assert lost.judged == lost.failed
                assert gate(before, before, drop).judged == lost.failed
                assert lost.p is None or lost.p >= 0.5**queries


@pytest.mark.parametrize(
    ("before", "drop", "noise"),
    [
        (np.zeros(100), 0.0, None),  # nothing to lose
        (np.repeat([1.0, 0.0], [2, 18]), 0.0, None),  # two of twenty questions found their document
        (np.full(100, 0.3), 0.3, None),  # all of it is allowed
        (np.full(100, 0.3), 0.0, NoiseFloor(0.5, 4.0)),  # builds move as much
    ],
    ids=["zero", "few hits", "allowed", "noise"],
)
def test_many_queries_are_not_judged_either_where_a_total_loss_would_pass(
    before: Float64Array, drop: float, noise: NoiseFloor | None
) -> None:
    for after in (before, np.zeros(len(before)), before + 0.1):
        found = gate(before, after, drop, noise=noise)
        assert (found.failed, found.judged, found.state) == (False, False, "not judged")


def test_a_gate_that_failed_was_judged() -> None:
    """One query carries nearly all: its loss is no evidence, and an even loss of a little is."""
    before = np.array([1.0, 0.1, 0.1, 0.1, 0.1, 0.1])
    even = before - np.array([0.101, 0.1, 0.1, 0.1, 0.1, 0.1])
    assert not gate(before, np.zeros(6), 0.0).judged
    assert gate(before, even, 0.0).state == "failed"


@pytest.mark.parametrize("queries", range(1, 8))
def test_tolerance_decides_by_the_mean_alone(queries: int) -> None:
    rule: GateRule = "tolerance"
    for lost in range(queries + 1):
        for drop in (0.0, 0.2, 0.5):
            change = Change(np.ones(queries), lose(queries, lost), 0.01, drop, rule=rule)
            (found,) = judge_family([change], seed=1)
            assert found.gate.failed == (lost / queries > drop + 1e-9)
            assert found.gate.judged
            (tested,) = judge_family([Change(np.ones(queries), change.after, 0.01, drop)], seed=1)
            assert (found.verdict, found.gate.p) == (tested.verdict, tested.gate.p)
    (idle,) = judge_family([Change(np.full(queries, 0.1), np.zeros(queries), 0.0, 0.1, rule=rule)], seed=1)
    assert idle.gate.state == "not judged"
    (empty,) = judge_family([Change([], [], 0.0, 0.1, rule=rule)], seed=1)
    assert empty.gate.state == "not judged"


def test_a_tolerance_counts_the_order_of_ties_too_and_no_rounding() -> None:
    before, after = np.array([0.3, 0.7, 0.9]), np.array([0.2, 0.7, 0.9])
    (found,) = judge_family([Change(before, after, 0.0, 0.0, within_ties=True, rule="tolerance")], seed=1)
    assert (found.verdict, found.gate.state) == ("same", "failed")
    (exact,) = judge_family([Change(before, before - 0.1, 0.0, 0.3 - 0.2, rule="tolerance")], seed=1)
    assert exact.gate.state == "passed"
    with pytest.raises(UnknownNameError, match="unknown rule of a gate 'mean'"):
        judge_family([Change(before, after, 0.0, 0.0, rule="mean")], seed=1)  # type: ignore[arg-type]


def test_metrics_with_the_same_values_count_once() -> None:
    """Hit, Recall and MRR@1 of questions that expect one document are one number: five queries are enough."""
    hit, after = np.ones(5), np.zeros(5)
    equal = [Change(hit, after, 0.01, 0.0, backend="csr") for _ in range(3)]
    for found in judge_family(equal, seed=1):
        assert (found.gate.state, found.comparisons, found.gate.comparisons) == ("failed", 1, 1)
        assert found.gate.p_adjusted == 0.5**5
    ranks = Change(hit, np.array([0.0, 0.0, 0.0, 0.0, 1e-3]), 0.01, 0.0, backend="csr")
    alone, *_ = judge_family([*equal, ranks], seed=1)
    assert (alone.gate.state, alone.comparisons, alone.gate.comparisons) == ("passed", 2, 2)
    apart = judge_family([Change(hit, after, 0.01, 0.0, backend=label) for label in ("csr", "flat")], seed=1)
    assert [one.gate.comparisons for one in apart] == [2, 2]
    drops = judge_family([Change(hit, after, 0.01, drop, backend="csr") for drop in (0.0, 0.1)], seed=1)
    assert [(one.comparisons, one.gate.comparisons) for one in drops] == [(1, 2), (1, 2)]


def test_values_of_one_key_are_one_test() -> None:
    assert adjust_family([0.02, 0.01, 0.02, None], ["a", "b", "a", "c"]) == [0.02, 0.02, 0.02, None]
    assert adjust_family([0.02, 0.01]) == [0.02, 0.02]
    assert adjust_family([]) == []


def test_nothing_is_proven_the_same_with_fewer_than_five_queries() -> None:
    before = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
    after = before - np.array([0.001, 0.002, 0.001, 0.002, 0.001])
    assert judge(before, after, margin=0.1, allowed_drop=None, seed=1).verdict == "same"
    few = judge(before[:4], after[:4], margin=0.1, allowed_drop=None, seed=1)
    assert (few.verdict, equivalence(before[:4], after[:4], 0.1).p) == ("undecided", 0.5**4)


def test_the_third_moment_vanishes_around_the_balance() -> None:
    rng = np.random.default_rng(5)
    for values in ([-1.0] * 6 + [0.0], rng.normal(size=9), rng.exponential(size=20), [0.0, 1.0]):
        sample = np.array(values)
        assert math.fsum((sample - balance_of(sample)) ** 3) == pytest.approx(0.0, abs=1e-9)
    lost = mean_error(lose(7, 6) - 1.0)
    assert lost is not None
    assert lost.balance == pytest.approx(-math.cbrt(6) / (1 + math.cbrt(6)))
    assert lost.highest(0.15) == pytest.approx(lost.balance)  # beyond it skewness excuses nothing
    assert lost.p_above(lost.balance + 1e-9) < lost.p_above(lost.balance - 1e-9)
