"""Score one outcome and keep it beside its parity: what the report is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from harness.data.arrow import numbers, numbers_or_null, strings
from harness.data.types import Qrels, Run
from harness.metrics import Scores, score
from harness.parity import Level, Parity
from harness.parity.outcome_parity import OutcomeParity
from harness.plan.plan import Plan
from harness.worker.outcome import Outcome

__all__ = ["Assessed", "Judge", "Rebuilt", "assess", "parity_table", "per_query_table"]

Judge = Callable[[Run], Qrels | None]
"""The judgments by which a run is scored: those of the dataset, or of what a golden set expects; None for none."""


@dataclass(frozen=True, eq=False, slots=True)
class Assessed:
    """One outcome with its scores (None without judgments or run) and its parity (None without a reference).

    ``exact`` are the scores of the reference's own run, for backends of dense vectors and hybrids: what approximation
    loses. ``rebuilds`` are the builds after the first, in their order. ``reference`` is the reference's run to a depth
    beyond k, where that was asked for.
    """

    outcome: Outcome
    scores: Scores | None
    parity: Parity | None
    exact: Scores | None = None
    rebuilds: tuple[Rebuilt, ...] = ()
    reference: Run | None = None


class Rebuilt(NamedTuple):
    """One build after the first: its run, its scores (None without judgments), overlaps with the reference if any."""

    run: Run
    scores: Scores | None
    overlap: Mapping[int, float]


def assess(outcome: Outcome, held: OutcomeParity | None, plan: Plan, judge: Judge) -> Assessed:
    """Score a run; raises DataError when it shares no query or document with the judgments."""
    parity = held.parity if held is not None else None
    rebuilds = _rebuilds(outcome, held, plan, judge)
    if outcome.run is None:
        return Assessed(outcome, None, parity, rebuilds=rebuilds)
    scores = _score(outcome.run, judge, plan)
    exact = _score(held.exact, judge, plan) if held is not None and held.exact is not None else None
    return Assessed(outcome, scores, parity, exact, rebuilds, held.deeper if held is not None else None)


def _rebuilds(outcome: Outcome, held: OutcomeParity | None, plan: Plan, judge: Judge) -> tuple[Rebuilt, ...]:
    runs = outcome.rebuilds
    scores = [_score(run, judge, plan) for run in runs]
    overlaps: Sequence[Mapping[int, float]] = held.rebuilds if held is not None else [{}] * len(runs)
    return tuple(map(Rebuilt, runs, scores, overlaps))


def _score(run: Run, judge: Judge, plan: Plan) -> Scores | None:
    qrels = judge(run)
    if qrels is None:
        return None
    return score(run, qrels, plan.measures, ties=plan.ties, queries=plan.queries, relevance=plan.request.relevance)


def per_query_table(assessed: Sequence[Assessed], dataset: str) -> pa.Table:
    """Return the values of a dataset's queries in long form, each with its range over ties (null: not defined)."""
    parts = []
    for one in assessed:
        if one.scores is None:
            continue
        for column, measure in enumerate(one.scores.measures):
            queries = len(one.scores.query_ids)
            columns = {
                "dataset": strings([dataset] * queries),
                "backend": strings([one.outcome.trial.label] * queries),
                "query_id": one.scores.query_ids.values,
                "metric": strings([str(measure)] * queries),
                "value": numbers(one.scores.values[:, column]),
                "min": numbers_or_null(one.scores.low[:, column]),
                "max": numbers_or_null(one.scores.high[:, column]),
            }
            parts.append(pa.table(columns, schema=_SCHEMA))
    return pa.concat_tables(parts) if parts else _SCHEMA.empty_table()


_SCHEMA = pa.schema(
    [
        ("dataset", pa.string()),
        ("backend", pa.string()),
        ("query_id", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("min", pa.float64()),
        ("max", pa.float64()),
    ]
)


def parity_table(assessed: Sequence[Assessed], dataset: str) -> pa.Table:
    """Return a row a backend and query: level of agreement with the reference, overlaps, differences, proven cause."""
    parts = []
    for one in assessed:
        if one.parity is None or one.outcome.run is None:
            continue
        queries, detail = one.outcome.run.query_ids, one.parity.per_query
        shallow, full = min(detail.overlap), max(detail.overlap)
        columns = {
            "dataset": strings([dataset] * len(queries)),
            "backend": strings([one.outcome.trial.label] * len(queries)),
            "query_id": queries.values,
            "level": strings(Level(level).name.lower() for level in detail.level.tolist()),
            "cause": strings(detail.cause),
            "overlap_10": numbers(detail.overlap[shallow]),
            "overlap_k": numbers(detail.overlap[full]),
            "rbo": numbers(detail.rbo),
            "max_abs_score_diff": numbers(detail.max_abs_score_diff),
            "max_rel_score_diff": numbers(detail.max_rel_score_diff),
        }
        parts.append(pa.table(columns, schema=_PARITY_SCHEMA))
    return pa.concat_tables(parts) if parts else _PARITY_SCHEMA.empty_table()


_PARITY_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("dataset", "backend", "query_id", "level", "cause")),
        *(
            (name, pa.float64())
            for name in ("overlap_10", "overlap_k", "rbo", "max_abs_score_diff", "max_rel_score_diff")
        ),
    ]
)
