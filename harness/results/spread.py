"""How far the builds of one backend lie apart, as the report tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.data import ranking
from harness.data.types import Run
from harness.metrics import Scores
from harness.metrics.spread import Spread, pairwise_overlap, spread
from harness.plan.plan import Plan
from harness.results import schema
from harness.results.assess import Assessed
from harness.worker.builds import build_cost, builds_of
from harness.worker.jobs import BuildCost, TrialRecord
from harness.worker.outcome import Outcome

__all__ = ["rebuild_notes", "spread_stats"]


_NS_PER_S = 1e9
_COSTS = ("seconds", "ready_seconds", "documents_per_second", "bytes", "log_bytes")
"""What a spread is told of. Peaks of memory are not among them: the first build's worker searches more than others'."""


def spread_stats(one: Assessed, *, timed: bool) -> schema.SpreadStats | None:
    """The spread over all builds of one backend, the first among them; None where there is one build or none.

    Without times of the builds unless the plan took them (``timed``).
    """
    outcome, rebuilds = one.outcome, one.rebuilds
    if outcome.run is None or outcome.record is None or not rebuilds:
        return None
    runs = [outcome.run, *(again.run for again in rebuilds)]
    depths, queries = _depths(one, outcome.record.k), len(outcome.run.query_ids)
    each = _each(one, outcome.record, timed=timed)
    same = {str(depth): _identical(runs, depth) for depth in depths}
    return schema.SpreadStats(
        builds=len(runs),
        queries=queries,
        identical=same,
        identical_share={depth: count / queries for depth, count in same.items()},
        pairwise_overlap={str(depth): pairwise_overlap(runs, depth) for depth in depths},
        reference_overlap=_oracle_overlap(one),
        metrics=_metrics(one),
        costs=_costs(each),
        each=each,
    )


def _each(one: Assessed, record: TrialRecord, *, timed: bool) -> list[schema.BuildStats]:
    costs = [build_cost(record, one.outcome.memory), *(hits.cost for hits in record.rebuilds)]
    overlaps = [one.parity.overlap if one.parity is not None else {}, *(again.overlap for again in one.rebuilds)]
    scores = [one.scores, *(again.scores for again in one.rebuilds)]
    return [
        _build(number, *parts, timed=timed)
        for number, parts in enumerate(zip(costs, scores, overlaps, strict=True), start=1)
    ]


def _build(
    number: int, cost: BuildCost, scores: Scores | None, overlap: Mapping[int, float], *, timed: bool
) -> schema.BuildStats:
    seconds = cost.index_ns / _NS_PER_S
    means = scores.means() if scores is not None and len(scores.query_ids) else []
    return schema.BuildStats(
        build=number,
        seconds=seconds if timed else None,
        ready_seconds=cost.ready_ns / _NS_PER_S if timed else None,
        documents_per_second=cost.indexed / seconds if timed and seconds > 0 else None,
        bytes=cost.index_bytes,
        log_bytes=cost.log_bytes,
        peak_rss_bytes=cost.peak_rss_bytes,
        peak_anonymous_bytes=cost.peak_anonymous_bytes,
        metrics={str(summary.measure): summary.value for summary in means},
        reference_overlap={str(depth): share for depth, share in overlap.items()},
    )


def _costs(each: Sequence[schema.BuildStats]) -> dict[str, schema.SpreadValue]:
    found = {}
    for name in _COSTS:
        values = [getattr(build, name) for build in each]
        if None not in values:
            found[name] = _value(spread(values))
    return found


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
