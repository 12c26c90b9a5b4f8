"""How far the builds of one backend lie apart, as the report tells it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness import ranking
from harness.execution.rebuilds import builds_of
from harness.metrics.spread import Spread, pairwise_overlap, spread
from harness.planning.plan import Plan
from harness.results import schema
from harness.results.assess import Assessed
from harness.runner import Outcome
from harness.types import Run

__all__ = ["rebuild_notes", "spread_stats"]


def spread_stats(one: Assessed) -> schema.SpreadStats | None:
    """The spread over all builds of one backend, the first among them; None where there is one build or none."""
    outcome, rebuilds = one.outcome, one.rebuilds
    if outcome.run is None or outcome.record is None or not rebuilds:
        return None
    runs = [outcome.run, *(again.run for again in rebuilds)]
    depths, queries = _depths(one, outcome.record.k), len(outcome.run.query_ids)
    same = {str(depth): _identical(runs, depth) for depth in depths}
    return schema.SpreadStats(
        builds=len(runs),
        queries=queries,
        identical=same,
        identical_share={depth: count / queries for depth, count in same.items()},
        pairwise_overlap={str(depth): pairwise_overlap(runs, depth) for depth in depths},
        oracle_overlap=_oracle_overlap(one),
        metrics=_metrics(one),
    )


def _identical(runs: Sequence[Run], depth: int) -> int:
    return int(np.count_nonzero(ranking.same_rankings([ranking.cut(run, depth) for run in runs])))


def _depths(one: Assessed, k: int) -> list[int]:
    """Those at which parity is told, so that the two can stand side by side."""
    return sorted(one.parity.overlap if one.parity is not None else {min(10, k), k})


def _oracle_overlap(one: Assessed) -> dict[str, schema.SpreadValue]:
    if one.parity is None:
        return {}
    return {
        str(depth): _value(spread([first, *(again.overlap[depth] for again in one.rebuilds)]))
        for depth, first in one.parity.overlap.items()
    }


def _metrics(one: Assessed) -> dict[str, schema.SpreadValue]:
    scores = [one.scores, *(again.scores for again in one.rebuilds)]
    given = [found.means() for found in scores if found is not None and len(found.query_ids)]
    if len(given) < len(scores):  # no judgments, or a build without a query that could be evaluated
        return {}
    return {
        str(summaries[0].measure): _value(spread([summary.value for summary in summaries]))
        for summaries in zip(*given, strict=True)
    }


def _value(found: Spread) -> schema.SpreadValue:
    return schema.SpreadValue(mean=found.mean, sd=found.sd, min=found.low, max=found.high)


def rebuild_notes(outcome: Outcome, plan: Plan) -> list[str]:
    """Why a backend has no spread where the plan asks for several builds."""
    asked = plan.request.rebuilds
    if asked == 1 or outcome.run is None or outcome.rebuilds:
        return []
    if outcome.combined is not None:
        return [f"no spread over {asked} builds: it is made of the first build of each backend that it names"]
    if outcome.record is None:
        return [f"no spread over {asked} builds: its run was read from a file"]
    if builds_of(outcome.trial, plan) == 0:
        return [f"no spread over {asked} builds: its index was there before, and is not built again"]
    return [f"built once, not {asked} times: its engine declares that every build gives the same rankings"]
