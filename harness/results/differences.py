"""Backends against each other, query by query."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Literal

import numpy as np

from harness.metrics import Scores, is_mean, undecided_by_ties
from harness.results import schema
from harness.results.assess import Assessed
from harness.statistics import PairedTest, bootstrap_interval, compare_pairs, holm
from harness.types import Int32Array

__all__ = ["metric_losses", "paired_differences"]

_SIGNIFICANT = 0.05


def paired_differences(
    assessed: Sequence[Assessed], results: Sequence[schema.BackendResult], seed: int
) -> list[schema.PairedDifference]:
    """Every pair of scored backends on every metric, Holm-adjusted over all of them."""
    made = []
    scored = [(one.scores, result) for one, result in zip(assessed, results, strict=True) if one.scores is not None]
    for (scores_a, result_a), (scores_b, result_b) in combinations(scored, 2):
        common_a, common_b = _common_queries(scores_a, scores_b)
        for column, (one, other) in enumerate(zip(scores_a.means(), scores_b.means(), strict=True)):
            if is_mean(one.measure):
                test = compare_pairs(scores_a.values[common_a, column], scores_b.values[common_b, column], seed)
                made.append((result_a.label, result_b.label, str(one.measure), test, undecided_by_ties(one, other)))
    adjusted = holm([test.p if test.p is not None else 1.0 for *_, test, _ in made])
    return [_difference(*row, p) for row, p in zip(made, adjusted, strict=True)]


def metric_losses(one: Assessed, seed: int) -> dict[str, schema.LossStats]:
    """What a backend's means lose against those of its oracle's own run; empty where there is none."""
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


def _difference(
    a: str, b: str, metric: str, test: PairedTest, within_ties: bool, p_adjusted: float
) -> schema.PairedDifference:
    return schema.PairedDifference(
        a=a,
        b=b,
        metric=metric,
        difference=test.difference,
        ci_low=test.interval.low if test.interval is not None else None,
        ci_high=test.interval.high if test.interval is not None else None,
        p=test.p,
        p_adjusted=p_adjusted if test.p is not None else None,
        effect=test.effect,
        wins=test.wins,
        ties=test.ties,
        losses=test.losses,
        within_ties=within_ties,
        verdict=_verdict(test, p_adjusted),
    )


def _verdict(test: PairedTest, p_adjusted: float) -> Literal["same", "better", "worse", "undecided"]:
    if test.wins == test.losses == 0:
        return "same"
    if test.p is None or p_adjusted >= _SIGNIFICANT:
        return "undecided"
    return "better" if test.difference > 0 else "worse"


def _common_queries(a: Scores, b: Scores) -> tuple[Int32Array, Int32Array]:
    """Rows of the queries that both have: under ``queries=answered`` the sets may differ."""
    places = b.query_ids.rows_of(a.query_ids)
    return np.flatnonzero(places >= 0).astype(np.int32), places[places >= 0]
