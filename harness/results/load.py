"""What was measured on a finished index, cold and under load, as the report tells it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from harness.data.types import Int64Array
from harness.plan.options import LoadOptions
from harness.results import schema
from harness.stats.timing import OpenLoop, latency, open_loop, throughput
from harness.wording import counted
from harness.worker.jobs import LoadRecord, TrialRecord

__all__ = ["closed_loops", "cold_stats", "load_notes", "open_loops", "queries_with_terms"]

_NS_PER_S = 1e9
_NS_PER_MS = 1e6


def queries_with_terms(record: TrialRecord, terms: npt.NDArray[np.bool_]) -> TrialRecord:
    """``record`` with the times and the load of those queries alone at which ``terms``, bool (Q,), is True.

    A query without a term costs nothing, and many clients never send one: its samples would be times of nothing.
    """
    return replace(
        record,
        search_ns=record.search_ns[:, terms],
        transfer_ns=record.transfer_ns[:, terms],
        loads=tuple(_with_terms(load, terms) for load in record.loads) if terms.any() else (),
    )


def _with_terms(load: LoadRecord, terms: npt.NDArray[np.bool_]) -> LoadRecord:
    samples = load.samples.where(terms[load.samples.query])
    due = terms[np.arange(len(load.due_ns)) % len(terms)]  # an open loop goes round through the queries in their order
    return replace(load, samples=samples, due_ns=load.due_ns[due])


def cold_stats(records: Sequence[LoadRecord]) -> schema.ColdStats | None:
    """The cold pass, None when there was none."""
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
    """One for each number of clients, in the order asked for."""
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
    """One for each rate, in the order asked for."""
    return [
        _open_loop(record, record.rate, record.arrivals)
        for record in records
        if record.rate is not None and record.arrivals is not None
    ]


def _open_loop(record: LoadRecord, rate: float, arrivals: Literal["constant", "poisson"]) -> schema.OpenLoopStats:
    alive = len(record.failures) < (1 if record.threads else record.clients)
    found = _scheduled(record)
    return schema.OpenLoopStats(
        rate=rate,
        arrivals=arrivals,
        queries=len(record.due_ns),
        due_qps=found.due_per_second,
        clients=record.clients,
        kind=_kind(record),
        qps=found.answered_per_second if alive else None,
        milliseconds=_latency(found.latency_ns) if alive else None,
        service_ms=_latency(found.service_ns),
        backlog=found.backlog,
        unserved=found.unserved,
        overloaded=found.overloaded,
        errors=found.failed,
        clients_failed=len(record.failures),
        error=_error(record),
        different_queries=record.different_queries,
        peak_rss_bytes=record.peak_rss_bytes,
        peak_anonymous_bytes=record.peak_anonymous_bytes,
    )


def load_notes(trial: TrialRecord, load: LoadOptions) -> list[str]:
    """What was not measured or went wrong, one sentence each."""
    notes = []
    if load.cold and not any(record.kind == "cold" for record in trial.loads):
        notes.append("no cold pass (--cold): the caches are the server's")
    if load.rates and not any(record.rate is not None for record in trial.loads):
        notes.append("no open loop: --rate is for servers")
    for record in trial.loads:
        where = _in_words(record)
        if record.failures:
            some = f"{len(record.failures)} of {1 if record.threads else record.clients} client processes"
            notes.append(f"{where}: {some} failed: {record.failures[0].splitlines()[0]}")
        failed = len(record.samples) - len(record.samples.answered())
        if failed:
            notes.append(f"{where}: {counted(failed, 'query')} failed: {record.first_error}")
        if record.different_queries:
            different = counted(record.different_queries, "query was", "queries were")
            notes.append(f"{where}: {different} answered otherwise than by one client")
        if record.rate is not None and _scheduled(record).overloaded:
            waiting = counted(_scheduled(record).backlog, "query was", "queries were")
            notes.append(f"{where}: overload, {waiting} waiting at the end")
    return notes


def _scheduled(record: LoadRecord) -> OpenLoop:
    return open_loop(
        record.due_ns,
        record.samples,
        end_ns=record.end_ns,
        gave_up_ns=record.gave_up_ns,
        clients=record.clients,
    )


def _in_words(record: LoadRecord) -> str:
    if record.kind == "cold":
        return "cold pass"
    if record.rate is not None:
        return f"{record.rate:g} queries/s"
    return "1 client" if record.clients == 1 else f"{record.clients} clients"


def _kind(record: LoadRecord) -> Literal["processes", "threads"]:
    return "threads" if record.threads else "processes"


def _latency(samples_ns: Int64Array) -> schema.LatencyStats | None:
    return schema.LatencyStats(**asdict(latency(samples_ns))) if len(samples_ns) else None


def _error(record: LoadRecord) -> str | None:
    return record.failures[0] if record.failures else record.first_error
