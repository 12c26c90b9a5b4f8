"""What probes measured, as the result stores it: a cold pass, load by many clients, and several builds of an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Literal

import numpy as np

from harness.data import ranking
from harness.data.filtering import BoolArray
from harness.data.types import Int64Array, Run
from harness.metrics import Scores
from harness.metrics.spread import Spread, pairwise_overlap, spread
from harness.results import schema
from harness.results.scored import Scored
from harness.stats.timing import OpenLoop, latency, open_loop, throughput
from harness.worker.builds import build_cost
from harness.worker.jobs import BuildCost, LoadRecord, TrialRecord

__all__ = ["closed_loops", "cold_stats", "open_loops", "queries_with_terms", "scheduled", "spread_stats"]

_NS_PER_S = 1e9
_NS_PER_MS = 1e6
_COSTS = ("seconds", "ready_seconds", "documents_per_second", "bytes", "log_bytes")
"""Costs that have a spread. Peaks of memory are not among them: the first build's worker searches more than others'."""


def queries_with_terms(record: TrialRecord, terms: BoolArray) -> TrialRecord:
    """Return ``record`` with the times and the load of those queries alone at which ``terms``, bool (Q,), is True.

    A query without a term costs nothing, and many clients never send one: its samples would be times of nothing.
    """
    return replace(
        record,
        search_ns=record.search_ns[:, terms],
        transfer_ns=record.transfer_ns[:, terms],
        loads=tuple(_with_terms(load, terms) for load in record.loads) if terms.any() else (),
    )


def _with_terms(load: LoadRecord, terms: BoolArray) -> LoadRecord:
    samples = load.samples.where(terms[load.samples.query])
    due = terms[np.arange(len(load.due_ns)) % len(terms)]  # an open loop goes round through the queries in their order
    return replace(load, samples=samples, due_ns=load.due_ns[due])


def cold_stats(records: Sequence[LoadRecord]) -> schema.ColdStats | None:
    """Return the cold pass, None when there was none."""
    record = next((record for record in records if record.kind == "cold"), None)
    if record is None:
        return None
    answered = record.samples.answered()
    return schema.ColdStats(
        open_seconds=record.open_ns / _NS_PER_S if record.open_ns is not None else None,
        first_query_ms=float(answered.search_ns[0]) / _NS_PER_MS if len(answered) else None,
        milliseconds=_latency(answered.search_ns),
        transfer_ms=_latency(answered.transfer_ns),
        resident_share=record.resident_share,
        errors=len(record.samples) - len(answered),
        error=_error(record),
    )


def closed_loops(records: Sequence[LoadRecord]) -> list[schema.ClosedLoopStats]:
    """Return one for each number of clients, in the order of the plan."""
    return [_closed_loop(record) for record in records if record.kind == "closed"]


def _closed_loop(record: LoadRecord) -> schema.ClosedLoopStats:
    answered, rate = record.samples.answered(), throughput(record.samples)
    return schema.ClosedLoopStats(
        clients=record.clients,
        kind=_kind(record),
        seconds=rate.window_s if rate is not None else None,
        qps=rate.per_second if rate is not None else None,
        milliseconds=_latency(answered.search_ns),
        transfer_ms=_latency(answered.transfer_ns),
        busy_share=rate.busy if rate is not None else None,
        errors=len(record.samples) - len(answered),
        clients_failed=len(record.failures),
        error=_error(record),
        different_queries=record.different_queries,
        peak_rss_bytes=record.peak_rss_bytes,
        peak_anonymous_bytes=record.peak_anonymous_bytes,
        index_copies=record.index_copies,
    )


def open_loops(records: Sequence[LoadRecord]) -> list[schema.OpenLoopStats]:
    """Return one for each rate, in the order of the plan."""
    return [
        _open_loop(record, record.rate, record.arrivals)
        for record in records
        if record.rate is not None and record.arrivals is not None
    ]


def _open_loop(record: LoadRecord, rate: float, arrivals: Literal["constant", "poisson"]) -> schema.OpenLoopStats:
    alive = len(record.failures) < (1 if record.threads else record.clients)
    loop = scheduled(record)
    return schema.OpenLoopStats(
        rate=rate,
        arrivals=arrivals,
        queries=len(record.due_ns),
        due_qps=loop.due_per_second,
        clients=record.clients,
        kind=_kind(record),
        qps=loop.answered_per_second if alive else None,
        milliseconds=_latency(loop.latency_ns) if alive else None,
        service_ms=_latency(loop.service_ns),
        backlog=loop.backlog,
        unserved=loop.unserved,
        overloaded=loop.overloaded,
        errors=loop.failed,
        clients_failed=len(record.failures),
        error=_error(record),
        different_queries=record.different_queries,
        peak_rss_bytes=record.peak_rss_bytes,
        peak_anonymous_bytes=record.peak_anonymous_bytes,
    )


def scheduled(record: LoadRecord) -> OpenLoop:
    """Return what the queries of an open loop came to, against the times at which they were due."""
    return open_loop(
        record.due_ns,
        record.samples,
        end_ns=record.end_ns,
        gave_up_ns=record.gave_up_ns,
        clients=record.clients,
    )


def _kind(record: LoadRecord) -> Literal["processes", "threads"]:
    return "threads" if record.threads else "processes"


def _latency(samples_ns: Int64Array) -> schema.LatencyStats | None:
    return schema.LatencyStats(**asdict(latency(samples_ns))) if len(samples_ns) else None


def _error(record: LoadRecord) -> str | None:
    return record.failures[0] if record.failures else record.first_error


def spread_stats(scored: Scored, *, timed: bool) -> schema.SpreadStats | None:
    """Return the spread over all builds of one backend, the first among them; None where there is one build or none.

    Without times of the builds unless the plan took them (``timed``).
    """
    outcome, rebuilds = scored.outcome, scored.rebuilds
    if outcome.run is None or outcome.record is None or not rebuilds:
        return None
    runs = [outcome.run, *(build.run for build in rebuilds)]
    depths, queries = _depths(scored, outcome.record.k), len(outcome.run.query_ids)
    each = _each(scored, outcome.record, timed=timed)
    same = {str(depth): _identical(runs, depth) for depth in depths}
    return schema.SpreadStats(
        builds=len(runs),
        queries=queries,
        identical=same,
        identical_share={depth: count / queries for depth, count in same.items()},
        pairwise_overlap={str(depth): pairwise_overlap(runs, depth) for depth in depths},
        reference_overlap=_reference_overlap(scored),
        metrics=_metrics(scored),
        costs=_costs(each),
        each=each,
    )


def _each(scored: Scored, record: TrialRecord, *, timed: bool) -> list[schema.BuildStats]:
    costs = [build_cost(record, scored.outcome.memory), *(hits.cost for hits in record.rebuilds)]
    overlaps = [
        scored.parity.overlap if scored.parity is not None else {},
        *(build.overlap for build in scored.rebuilds),
    ]
    scores = [scored.scores, *(build.scores for build in scored.rebuilds)]
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
    spreads = {}
    for name in _COSTS:
        values = [getattr(build, name) for build in each]
        if None not in values:
            spreads[name] = _value(spread(values))
    return spreads


def _identical(runs: Sequence[Run], depth: int) -> int:
    return int(np.count_nonzero(ranking.same_rankings([ranking.cut(run, depth) for run in runs])))


def _depths(scored: Scored, k: int) -> list[int]:
    """Return the depths of parity, so that the two can stand side by side."""
    return sorted(scored.parity.overlap if scored.parity is not None else {min(10, k), k})


def _reference_overlap(scored: Scored) -> dict[str, schema.SpreadValue]:
    if scored.parity is None:
        return {}
    return {
        str(depth): _value(spread([first, *(build.overlap[depth] for build in scored.rebuilds)]))
        for depth, first in scored.parity.overlap.items()
    }


def _metrics(scored: Scored) -> dict[str, schema.SpreadValue]:
    scores = [scored.scores, *(build.scores for build in scored.rebuilds)]
    means = [build.means() for build in scores if build is not None and len(build.query_ids)]
    if len(means) < len(scores):  # no judgments, or a build without a query that could be evaluated
        return {}
    return {
        str(summaries[0].measure): _value(spread([summary.value for summary in summaries]))
        for summaries in zip(*means, strict=True)
    }


def _value(figure: Spread) -> schema.SpreadValue:
    return schema.SpreadValue(mean=figure.mean, sd=figure.sd, min=figure.low, max=figure.high)
