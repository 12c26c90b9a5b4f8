"""Backends against each other, query by query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Literal

import numpy as np

from harness.data.types import Int32Array
from harness.metrics import Scores, is_mean, undecided_by_ties
from harness.plan.plan import Plan
from harness.results import schema
from harness.results.assess import Assessed
from harness.results.checks import PairedValues
from harness.stats import PairedTest, bootstrap_interval, compare_pairs
from harness.stats.paired import adjust_family

__all__ = [
    "SIGNIFICANT",
    "metric_losses",
    "notable_differences",
    "paired_differences",
    "reference_label",
    "reference_notes",
    "verdict_of",
]

SIGNIFICANT = 0.05
"""The level below which an adjusted p-value is significant."""


def paired_differences(
    assessed: Sequence[Assessed], results: Sequence[schema.TrialResult], reference: str | None, seed: int
) -> list[schema.PairedDifference]:
    """Every scored backend against ``reference``, a label, on every metric; every pair of them where that is None.

    p-values are adjusted by Holm over those of these in which any query differs, and nothing else.
    """
    made = []
    scored = [(one.scores, result) for one, result in zip(assessed, results, strict=True) if one.scores is not None]
    for (scores_a, result_a), (scores_b, result_b) in _pairs(scored, reference):
        common_a, common_b = _common_queries(scores_a, scores_b)
        for column, (one, other) in enumerate(zip(scores_a.means(), scores_b.means(), strict=True)):
            if is_mean(one.measure):
                test = compare_pairs(scores_a.values[common_a, column], scores_b.values[common_b, column], seed)
                tied = undecided_by_ties(one, other)
                made.append((result_a.dataset, result_a.label, result_b.label, str(one.measure), test, tied))
    adjusted = adjust_family([test.p if test.changed else None for *_, test, _ in made])
    return [_difference(*row, p) for row, p in zip(made, adjusted, strict=True)]


def notable_differences(
    assessed: Sequence[Assessed], rows: Sequence[schema.PairedDifference], metric: str
) -> list[PairedValues]:
    """Return the values behind each undecided difference in ``metric`` that ties do not account for."""
    scores = {one.outcome.trial.label: one.scores for one in assessed if one.scores is not None}
    found = []
    for row in rows:
        if row.metric != metric or row.verdict != "undecided" or row.within_ties:
            continue
        a, b = scores[row.a], scores[row.b]
        column = [str(measure) for measure in a.measures].index(metric)
        common_a, common_b = _common_queries(a, b)
        found.append(PairedValues(row.a, row.b, metric, a.values[common_a, column], b.values[common_b, column]))
    return found


def reference_label(plan: Plan, assessed: Sequence[Assessed]) -> str | None:
    """The backend that others are compared with: the one that was asked for, else the first that has scores.

    None where every pair is compared, and where nothing has scores.
    """
    if plan.request.all_pairs:
        return None
    if plan.reference is not None:
        return plan.reference
    return next((one.outcome.trial.label for one in assessed if one.scores is not None), None)


def reference_notes(plan: Plan, assessed: Sequence[Assessed]) -> list[str]:
    """Why nothing is compared with the reference that was asked for."""
    scored = {one.outcome.trial.label for one in assessed if one.scores is not None}
    if plan.reference is None or plan.reference in scored or not scored:
        return []
    return [f"no differences: the reference {plan.reference} has no scores"]


def metric_losses(one: Assessed, seed: int) -> dict[str, schema.LossStats]:
    """What a backend's means lose against those of its reference's own run; empty where there is none."""
    if one.scores is None or one.exact is None or len(one.scores.query_ids) == 0:
        return {}
    common, exactly = _common_queries(one.scores, one.exact)
    losses = {}
    for column, summary in enumerate(one.exact.means()):
        if not is_mean(summary.measure):
            continue
        lost = one.scores.values[common, column] - one.exact.values[exactly, column]
        interval = bootstrap_interval(lost, seed)
        losses[str(summary.measure)] = schema.LossStats(
            exact=summary.value,
            difference=float(lost.mean()) if len(lost) else 0.0,
            ci_low=interval.low if interval is not None else None,
            ci_high=interval.high if interval is not None else None,
        )
    return losses


_Scored = tuple[Scores, schema.TrialResult]


def _pairs(scored: Sequence[_Scored], reference: str | None) -> Iterable[tuple[_Scored, _Scored]]:
    if reference is None:
        return combinations(scored, 2)
    held = [one for one in scored if one[1].label == reference]
    return product(held, [one for one in scored if one[1].label != reference])


def _difference(
    dataset: str, a: str, b: str, metric: str, test: PairedTest, within_ties: bool, p_adjusted: float | None
) -> schema.PairedDifference:
    return schema.PairedDifference(
        dataset=dataset,
        a=a,
        b=b,
        metric=metric,
        difference=test.difference,
        ci_low=test.interval.low if test.interval is not None else None,
        ci_high=test.interval.high if test.interval is not None else None,
        p=test.p,
        p_adjusted=p_adjusted if test.changed else test.p,
        effect=test.effect,
        wins=test.wins,
        ties=test.ties,
        losses=test.losses,
        within_ties=within_ties,
        verdict=verdict_of(test, p_adjusted),
    )


def verdict_of(test: PairedTest, p_adjusted: float | None) -> Literal["same", "better", "worse", "undecided"]:
    """Return what a paired test of b against a came to, at the 5 % level."""
    if not test.changed:
        return "same"
    if p_adjusted is None or p_adjusted >= SIGNIFICANT:
        return "undecided"
    return "better" if test.difference > 0 else "worse"


def _common_queries(a: Scores, b: Scores) -> tuple[Int32Array, Int32Array]:
    """Rows of the queries that both have: under ``queries=answered`` the sets may differ."""
    places = b.query_ids.rows_of(a.query_ids)
    return np.flatnonzero(places >= 0).astype(np.int32), places[places >= 0]
