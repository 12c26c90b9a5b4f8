"""Backends against each other, query by query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from harness.data.types import Float64Array, Int32Array
from harness.metrics import Scores, improvement, is_mean, lower_is_better, undecided_by_ties
from harness.plan.plan import Plan
from harness.results.schema import PairedDifference
from harness.results.schema_base import LossStats
from harness.results.scored import ScoredTrial
from harness.stats import PairedTest, bootstrap_interval, compare_pairs, detectable_difference
from harness.stats.paired import adjust_family, family_size, values_key

SIGNIFICANT = 0.05
"""The level below which an adjusted p-value is significant."""


class PairedValues(NamedTuple):
    """One metric of two backends on the same queries, in the same order: float64 (Q,) each.

    Across datasets the values are means, one for each dataset. ``within_ties`` is true if ties leave both means the
    same.
    """

    a: str
    b: str
    metric: str
    values_a: Float64Array
    values_b: Float64Array
    within_ties: bool = False


def paired_differences(
    scored: Sequence[ScoredTrial], dataset: str, reference: str | None, seed: int
) -> list[PairedDifference]:
    """Compare every scored backend with ``reference``, a label, on every metric; as :func:`score_differences`."""
    scores = {backend.outcome.trial.label: backend.scores for backend in scored if backend.scores is not None}
    return score_differences(scores, dataset, reference, seed)


def score_differences(
    scores: Mapping[str, Scores], dataset: str, reference: str | None, seed: int
) -> list[PairedDifference]:
    """Compare the scores of every run with those of ``reference``, on every metric; every pair if it is None.

    The names of ``scores`` are those of the results; all have the same metrics. p-values are adjusted by Holm over all
    of these in which any query differs.
    """
    if len(scores) < 2:
        return []
    pairs = []
    for a, b in pairs_to_compare(list(scores), reference):
        common_a, common_b = common_queries(scores[a], scores[b])
        for column, (mean_a, mean_b) in enumerate(zip(scores[a].means(), scores[b].means(), strict=True)):
            if is_mean(mean_a.measure):
                values = scores[a].values[common_a, column], scores[b].values[common_b, column]
                pairs.append(PairedValues(a, b, str(mean_a.measure), *values, undecided_by_ties(mean_a, mean_b)))
    return family_differences(dataset, pairs, seed)


def family_differences(
    dataset: str | None, pairs: Sequence[PairedValues], seed: int, tests: Sequence[PairedTest] | None = None
) -> list[PairedDifference]:
    """Test pairs together: p-values are adjusted by Holm over all of them in which anything differs.

    Metrics of two backends that are equal on every query count once. ``tests`` are those of the pairs, if they are more
    than paired tests of the values.
    """
    if tests is None:
        tests = [compare_pairs(pair.values_a, pair.values_b, seed) for pair in pairs]
    ps = [test.p if test.changed else None for test in tests]
    keys = [(pair.a, pair.b, values_key(pair.values_a, pair.values_b)) for pair in pairs]
    adjusted, size = adjust_family(ps, keys), family_size(ps, keys)
    return [
        _difference(dataset, pair, test, p if test.changed else test.p, size)
        for pair, test, p in zip(pairs, tests, adjusted, strict=True)
    ]


def lone_difference(dataset: str | None, pair: PairedValues, seed: int) -> PairedDifference:
    """Test a pair that is not part of a family: it has p but no adjusted p, so no verdict rests on it."""
    return _difference(dataset, pair, compare_pairs(pair.values_a, pair.values_b, seed), None, 0)


def pairs_to_compare(labels: Sequence[str], reference: str | None) -> Iterable[tuple[str, str]]:
    """Return each other label with ``reference``, nothing if it is not among them; every pair if it is None."""
    if reference is None:
        return combinations(labels, 2)
    return ((reference, label) for label in labels if label != reference and reference in labels)


def _difference(
    dataset: str | None, pair: PairedValues, test: PairedTest, p_adjusted: float | None, family: int
) -> PairedDifference:
    """Return the result of a paired test of b against a, as it is stored.

    ``family`` counts the tests that p is adjusted for, 0 if it is not adjusted.
    """
    detectable = None
    if test.changed and family:
        detectable = detectable_difference(pair.values_b - pair.values_a, alpha=SIGNIFICANT / family)
    return PairedDifference(
        dataset=dataset,
        a=pair.a,
        b=pair.b,
        metric=pair.metric,
        difference=test.difference,
        ci_low=test.interval.low if test.interval is not None else None,
        ci_high=test.interval.high if test.interval is not None else None,
        p=test.p,
        p_adjusted=p_adjusted,
        comparisons=family or None,
        detectable=detectable,
        effect=test.effect,
        wins=test.losses if lower_is_better(pair.metric) else test.wins,
        ties=test.ties,
        losses=test.wins if lower_is_better(pair.metric) else test.losses,
        within_ties=pair.within_ties,
        verdict=_verdict(test, pair.metric, p_adjusted),
    )


def _verdict(
    test: PairedTest, metric: str, p_adjusted: float | None
) -> Literal["same", "better", "worse", "undecided"]:
    if not test.changed:
        return "same"
    if p_adjusted is None or p_adjusted >= SIGNIFICANT:
        return "undecided"
    return "better" if improvement(metric, test.difference) > 0 else "worse"


def reference_notes(plan: Plan, scored: Sequence[ScoredTrial]) -> list[str]:
    """Say why nothing is compared with the backend that the plan names."""
    labels = {backend.outcome.trial.label for backend in scored if backend.scores is not None}
    if plan.reference is None or plan.reference in labels or not labels:
        return []
    return [f"no differences: the reference {plan.reference} has no scores"]


def metric_losses(scored: ScoredTrial, seed: int) -> dict[str, LossStats]:
    """Return the losses of a backend's means against its reference's own run; empty if there are none."""
    if scored.scores is None or scored.exact is None or len(scored.scores.query_ids) == 0:
        return {}
    common, exactly = common_queries(scored.scores, scored.exact)
    losses = {}
    for column, summary in enumerate(scored.exact.means()):
        if not is_mean(summary.measure):
            continue
        lost = scored.scores.values[common, column] - scored.exact.values[exactly, column]
        interval = bootstrap_interval(lost, seed)
        losses[str(summary.measure)] = LossStats(
            exact=summary.value,
            difference=float(lost.mean()) if len(lost) else 0.0,
            ci_low=interval.low if interval is not None else None,
            ci_high=interval.high if interval is not None else None,
        )
    return losses


def common_queries(a: Scores, b: Scores) -> tuple[Int32Array, Int32Array]:
    """Return the rows of the queries that both have: under ``queries=answered`` the sets may differ."""
    positions = b.query_ids.rows_of(a.query_ids)
    return np.flatnonzero(positions >= 0).astype(np.int32), positions[positions >= 0]
