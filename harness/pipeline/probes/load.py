"""The probe of load: a cold pass, clients in closed loops, queries at fixed rates, and rates up to the knee."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from harness.data.dataset import Dataset
from harness.data.progress import Progress
from harness.document.busy import busy_mark
from harness.document.cells import (
    BACKEND,
    FAILED,
    latencies,
    latency_columns,
    milliseconds,
    number,
    seconds,
    size,
    text,
    values_of,
)
from harness.document.figures import Saturation, Throughput
from harness.document.model import Cell, Column, Figure, Table, Value, Verdict
from harness.pipeline.probes.load_runs import (
    LoadRecord,
    LoadRecords,
    LoadRuns,
    loads_with_terms,
    rate_level,
    scheduled,
)
from harness.pipeline.probes.probe import Probe, ProbedTrial, label_cell, latency_stats
from harness.plan.config import CompareRequest
from harness.plan.plan import Plan, Trial
from harness.results.schema import TrialResult
from harness.results.schema_costs import (
    ClosedLoopStats,
    ColdStats,
    KneeStats,
    OpenLoopStats,
    SearchStats,
)
from harness.results.scored import ScoredTrial, has_terms
from harness.stats.saturation import ENOUGH, P99_FACTOR, knee
from harness.stats.timing import throughput
from harness.store.cpu_use import OtherProcesses
from harness.store.environment import machine
from harness.wording import counted
from harness.worker.outcome import Measurements

_NS_PER_S = 1e9
_NS_PER_MS = 1e6
_OPEN_LOOP_CLIENTS = 8
_KNEE, _BEYOND = "◆", "»"
_LIMITS = {"overload": "overload", "errors": "queries failed", "p99": f"p99 above {P99_FACTOR:g} times at rest"}


class LoadProbe(Probe[LoadRecords]):
    """Load the finished index, and sum up its cold pass, closed loops and open loops."""

    name = "load"
    options = ("cold", "concurrency", "rate")
    record = LoadRecords

    def applies_to(self, trial: Trial, plan: Plan) -> bool:
        """Return whether the plan requests a cold pass, several clients or a rate."""
        return plan.request.measures_load

    def run(self, probed: ProbedTrial, progress: Progress) -> LoadRecords:
        """Measure: a server without a cold pass, whose memory is not ours to empty.

        Queries at fixed rates wait for a server, or for the first of the processes that each hold an embedded engine.
        """
        request = replace(probed.plan.request, cold=False) if probed.open_in_worker else probed.plan.request
        shared, most = probed.shared or probed.open_in_worker, None if probed.open_in_worker else machine().cores
        clients = open_loop_clients(request, most)
        runs = LoadRuns(
            request, probed.job, probed.folder, probed.clients, shared, probed.terms, clients, probed.open_in_worker
        )
        return LoadRecords(runs.run(progress))

    def planned(self, plan: Plan) -> str:
        """Say which loads, and for how long each."""
        request = plan.request
        words = ["a cold pass"] if request.cold else []
        duration = f"{request.load_seconds:g} s each"
        if request.concurrency:
            words.append(f"{', '.join(map(str, request.concurrency))} clients ({request.clients.value}), {duration}")
        if request.open_loop:
            rates = ", ".join(f"{rate:.10g}" for rate in request.rates)
            rates_text = "rates up to saturation" if request.sweeps_rates else f"{rates} queries/s"
            most, cores = open_loop_clients(request), open_loop_clients(request, machine().cores)
            clients = f"{most} clients" if most == cores else f"{most} clients of a server, {cores} of an engine here"
            words.append(f"{rates_text} ({request.arrivals}, {clients}), {duration}")
        return "; ".join(words)

    def levels(self, plan: Plan) -> list[str]:
        """Name the cold pass, each number of clients and each rate."""
        request = plan.request
        clients = request.clients.value
        return [
            *(["a cold pass"] if request.cold else []),
            *(f"{count} clients ({clients})" for count in request.concurrency),
            *(f"{rate:.10g} queries/s ({clients}, {request.arrivals})" for rate in request.rates),
            *([f"rates up to saturation ({clients}, {request.arrivals})"] if request.sweeps_rates else []),
        ]

    def conditions(self, plan: Plan) -> Mapping[str, object]:
        """Return all options of load, if any is measured."""
        request = plan.request
        if not request.measures_load:
            return {}
        options = {
            "cold": request.cold,
            "concurrency": request.concurrency,
            "clients": request.clients,
            "rates": request.rates,
            "sweep": request.sweeps_rates,
            "arrivals": request.arrivals,
            "seconds": request.load_seconds,
            "seed": request.seed,
        }
        return {f"load {name}": value for name, value in options.items()}

    def failure(self, measurements: Measurements) -> str | None:
        """Return the message of the first failed client or call."""
        record = self.measured(measurements)
        failures = (
            sentence
            for level in (record.levels if record is not None else ())
            for sentence in (*level.failures, level.first_error)
            if sentence is not None
        )
        return next(failures, None)

    def summarise(self, scored: ScoredTrial, dataset: Dataset, plan: Plan) -> Mapping[str, object]:
        """Return the fields ``cold``, ``closed_loop``, ``open_loop`` and ``knee``."""
        loads = self._loads(scored)
        return {
            "cold": cold_stats(loads),
            "closed_loop": closed_loops(loads),
            "open_loop": open_loops(loads),
            "knee": knee_stats(loads) if plan.request.sweeps_rates else None,
        }

    def notes(self, scored: ScoredTrial, plan: Plan) -> list[str]:
        """Return notes on missing and failed measurements."""
        if scored.outcome.combined is not None and plan.request.measures_load:
            return ["not measured cold or under load: its components were"]
        if scored.outcome.answers is not None and plan.request.measures_load:
            return ["not measured cold or under load: its own code answers, one query after another"]
        return _notes(self._loads(scored), plan.request) if scored.outcome.record is not None else []

    def other_processes(self, measurements: Measurements) -> Sequence[OtherProcesses]:
        """Return the other processes' use of the cores during each level."""
        measured = self.measured(measurements)
        levels = measured.levels if measured is not None else ()
        return [level.other_processes for level in levels if level.other_processes is not None]

    def _loads(self, scored: ScoredTrial) -> tuple[LoadRecord, ...]:
        measured = self.measured(scored.outcome.measurements)
        if measured is None or scored.outcome.record is None:
            return ()
        queries = len(scored.outcome.record.hits.indptr) - 1
        return loads_with_terms(measured.levels, has_terms(scored.outcome.vectors, queries))

    def tables(self, trials: Sequence[TrialResult], cores: int) -> list[Table]:
        """Tabulate the cold pass, the closed loops and the open loops."""
        on = "1 core" if cores == 1 else f"{cores} cores"
        return [_cold_table(trials), _closed_table(trials, on), _knee_table(trials, on), _open_table(trials, on)]

    def verdicts(self, trials: Sequence[TrialResult]) -> list[Verdict]:
        """Say which backend answered most queries a second before its latency rose."""
        knees = [(trial.label, trial.knee) for trial in trials if trial.knee is not None]
        sustained = [(knee.qps, label, knee) for label, knee in knees if knee.qps is not None]
        sustained.sort(key=lambda row: -row[0])
        if not sustained or busy_mark(trials):
            return []
        sentences = [
            f"{label}: {qps:,.0f} queries/s"
            + (f", p99 {knee.p99_ms:.3f} ms" if knee.p99_ms is not None else "")
            + (" (its rates ended before saturation)" if knee.unsustained_rate is None else "")
            for qps, label, knee in sustained
        ]
        most = f"{sustained[0][1]} answers most queries a second before its latency rises"
        return [Verdict("plain", f"{most}, {sustained[0][0]:,.0f}", "; ".join(sentences))]

    def figures(self, trials: Sequence[TrialResult], series: Mapping[str, int]) -> list[Figure]:
        """Draw throughput against p99, of backends whose rates rose to saturation."""
        rows = []
        for trial in trials:
            knee = trial.knee
            levels = [
                (loop.rate, loop.qps, loop.milliseconds.p99)
                for loop in trial.open_loop
                if loop.qps and loop.milliseconds
            ]
            if knee is not None and levels:
                knee_position = next(
                    (knee_position for knee_position, (rate, *_) in enumerate(levels) if rate == knee.rate), None
                )
                rows.append(
                    Throughput(trial.label, [(qps, p99) for _, qps, p99 in levels], knee_position, series[trial.label])
                )
        note = (
            "Queries at fixed rates, joined from the lowest to the highest; p99 counts from when a query was due. "
            "A ring marks the knee; beyond it, dashed and pale, the backend does not sustain the rate."
        )
        return [Figure("Throughput against p99", Saturation(rows), note)] if rows else []

    def values(self, trial: TrialResult) -> Iterator[Value]:
        """Yield each number of each level."""
        yield from values_of(trial.dataset, trial.label, "", trial.model_dump(include={"cold"}))
        for closed in trial.closed_loop:
            yield from values_of(trial.dataset, trial.label, f"closed_loop.{closed.clients}.", closed.model_dump())
        for level in trial.open_loop:
            yield from values_of(trial.dataset, trial.label, f"open_loop.{level.rate:.10g}.", level.model_dump())
        yield from values_of(trial.dataset, trial.label, "", trial.model_dump(include={"knee"}))


def cold_stats(records: Sequence[LoadRecord]) -> ColdStats | None:
    """Return the cold pass, None when there was none."""
    record = next((record for record in records if record.kind == "cold"), None)
    if record is None:
        return None
    answered = record.samples.answered()
    return ColdStats(
        open_seconds=record.open_ns / _NS_PER_S if record.open_ns is not None else None,
        first_query_ms=float(answered.search_ns[0]) / _NS_PER_MS if len(answered) else None,
        milliseconds=latency_stats(answered.search_ns),
        transfer_ms=latency_stats(answered.transfer_ns),
        resident_share=record.resident_share,
        errors=len(record.samples) - len(answered),
        error=_error(record),
    )


def closed_loops(records: Sequence[LoadRecord]) -> list[ClosedLoopStats]:
    """Return the figures of each number of clients, in the order of the plan."""
    return [_closed_loop(record) for record in records if record.kind == "closed"]


def _closed_loop(record: LoadRecord) -> ClosedLoopStats:
    answered, rate = record.samples.answered(), throughput(record.samples)
    return ClosedLoopStats(
        clients=record.clients,
        kind=_kind(record),
        seconds=rate.window_s if rate is not None else None,
        qps=rate.per_second if rate is not None else None,
        milliseconds=latency_stats(answered.search_ns),
        transfer_ms=latency_stats(answered.transfer_ns),
        busy_share=rate.busy if rate is not None else None,
        errors=len(record.samples) - len(answered),
        clients_failed=len(record.failures),
        error=_error(record),
        different_queries=record.different_queries,
        peak_rss_bytes=record.peak_rss_bytes,
        peak_anonymous_bytes=record.peak_anonymous_bytes,
        index_copies=record.index_copies,
    )


def open_loops(records: Sequence[LoadRecord]) -> list[OpenLoopStats]:
    """Return the figures of each rate, in the order of the plan."""
    return [
        _open_loop(record, record.rate, record.arrivals)
        for record in records
        if record.rate is not None and record.arrivals is not None
    ]


def _open_loop(record: LoadRecord, rate: float, arrivals: Literal["constant", "poisson"]) -> OpenLoopStats:
    loop = scheduled(record)
    return OpenLoopStats(
        rate=rate,
        arrivals=arrivals,
        queries=len(record.due_ns),
        due_qps=loop.due_per_second,
        clients=record.clients,
        kind=_kind(record),
        qps=loop.answered_per_second if record.alive and len(record.due_ns) else None,
        milliseconds=latency_stats(loop.latency_ns) if record.alive else None,
        service_ms=latency_stats(loop.service_ns),
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


def knee_stats(records: Sequence[LoadRecord]) -> KneeStats | None:
    """Return the knee of the rates that were measured; None if no rate had an answer."""
    loops = {record.rate: record for record in records if record.rate is not None}
    knee_level = knee([rate_level(record) for record in loops.values()])
    if knee_level is None:
        return None
    answered = {rate: scheduled(record).answered_per_second for rate, record in loops.items()}
    return KneeStats(
        rate=knee_level.level.rate if knee_level.level is not None else None,
        qps=answered[knee_level.level.rate] if knee_level.level is not None else None,
        p99_ms=knee_level.level.p99_ms if knee_level.level is not None else None,
        queries=knee_level.level.queries if knee_level.level is not None else None,
        unloaded_p99_ms=knee_level.unloaded_p99_ms,
        unloaded_queries=knee_level.unloaded_queries,
        unsustained_rate=knee_level.beyond.rate if knee_level.beyond is not None else None,
        limit=knee_level.limit,
        highest_qps=max(answered.values()),
    )


def _kind(record: LoadRecord) -> Literal["processes", "threads"]:
    return "threads" if record.threads else "processes"


def _error(record: LoadRecord) -> str | None:
    return record.failures[0] if record.failures else record.first_error


def open_loop_clients(request: CompareRequest, most: int | None = None) -> int:
    """Return the number of clients of the largest level of the closed loop; without a level 8, or ``most`` if less."""
    return max(request.concurrency, default=min(_OPEN_LOOP_CLIENTS, most or _OPEN_LOOP_CLIENTS))


def _notes(loads: Sequence[LoadRecord], request: CompareRequest) -> list[str]:
    notes = []
    if request.cold and not any(record.kind == "cold" for record in loads):
        notes.append("no cold pass (--cold): the caches are the server's")
    for record in loads:
        phase = record.words
        if record.failures:
            some = f"{len(record.failures)} of {record.processes} client processes"
            notes.append(f"{phase}: {some} failed: {record.failures[0].splitlines()[0]}")
        failed = len(record.samples) - len(record.samples.answered())
        if failed:
            notes.append(f"{phase}: {counted(failed, 'query')} failed: {record.first_error}")
        if record.different_queries:
            different = counted(record.different_queries, "query was", "queries were")
            notes.append(f"{phase}: {different} answered differently than for one client")
        if record.rate is not None and not request.sweeps_rates and scheduled(record).overloaded:
            waiting = counted(scheduled(record).backlog, "query was", "queries were")
            notes.append(f"{phase}: overload, {waiting} waiting at the end")
    return notes


def _cold_table(trials: Sequence[TrialResult]) -> Table:
    """Tabulate the first pass on the index opened again, with the warm pass."""
    columns = [
        BACKEND,
        *map(Column, ("open s", "first query ms")),
        *latency_columns(),
        Column("warm p50 ms", priority=1),
        Column("in cache", priority=2),
    ]
    rows = [[label_cell(trial), *_cold_cells(trial.cold, trial.search)] for trial in trials if trial.cold is not None]
    legend = ["cold: one pass in a new process, no warm-up; in cache: the index's pages that stayed in memory"]
    return Table("Search, cold", columns, rows, legend)


def _cold_cells(cold: ColdStats, search: SearchStats | None) -> list[Cell]:
    warm = search.milliseconds if search is not None else None
    return [
        seconds(cold.open_seconds),
        milliseconds(cold.first_query_ms),
        *latencies(cold.milliseconds, FAILED),
        milliseconds(warm.p50 if warm is not None else None),
        number(cold.resident_share, ".0%"),
    ]


def _closed_table(trials: Sequence[TrialResult], cores: str) -> Table:
    """Tabulate each number of clients; ``gain`` is the throughput against the first of them."""
    columns = [
        BACKEND,
        Column("clients"),
        Column("queries/s", best="highest", timed=True),
        Column("gain", timed=True),
        *latency_columns(),
        Column("errors"),
        Column("memory", priority=1),
    ]
    rows = []
    for trial in trials:
        first = next((level.qps for level in trial.closed_loop if level.qps), None)
        rows += [[label_cell(trial), *_closed_cells(level, first)] for level in trial.closed_loop]
    legend = ["gain: against the backend's first row; memory: peak of all clients together, above their start"]
    return Table(f"Search, clients in closed loop, {cores}", columns, rows, legend)


def _closed_cells(level: ClosedLoopStats, first: float | None) -> list[Cell]:
    clients = f"{level.clients} threads" if level.kind == "threads" else str(level.clients)
    return [
        Cell(clients, value=level.clients),
        text(FAILED) if level.qps is None else number(level.qps, ",.0f"),
        number(level.qps / first if level.qps is not None and first else None, ".2f"),
        *latencies(level.milliseconds, FAILED),
        _errors(level),
        size(level.peak_anonymous_bytes),
    ]


def _open_table(trials: Sequence[TrialResult], cores: str) -> Table:
    """Tabulate each rate, with latency from the time at which queries were due, and the service time."""
    columns = [
        BACKEND,
        Column("rate"),
        Column("due/s", priority=4),
        Column("answered/s", timed=True),
        *(Column(f"{name} ms", priority=priority) for name, priority in (("p50", 3), ("p95", 5), ("p99", 0))),
        Column("n", priority=2),
        Column("service ms", priority=2),
        Column("waiting", priority=1),
        Column("errors"),
    ]
    rows = [[label_cell(trial), *_open_cells(level, trial.knee)] for trial in trials for level in trial.open_loop]
    legend = [
        "p50 to p99 count from the time when a query was due, service (p50) from when it was sent",
        "waiting: due and not yet sent at the end, !: overload",
        "errors: failed queries, and clients that died or gave up",
        *([f"{_KNEE}: the knee, {_BEYOND}: beyond it"] if any(trial.knee is not None for trial in trials) else []),
    ]
    return Table(f"Search, queries at a fixed rate, {cores}", columns, rows, legend)


def _open_cells(level: OpenLoopStats, knee: KneeStats | None) -> list[Cell]:
    mark = ""
    if knee is not None:
        mark = _KNEE if level.rate == knee.rate else _BEYOND if level.rate > (knee.rate or 0.0) else ""
    return [
        replace(number(level.rate, ",.10g"), mark=mark),
        number(level.due_qps, ",.1f"),
        text(FAILED) if level.qps is None else number(level.qps, ",.1f"),
        *latencies(level.milliseconds, FAILED),
        milliseconds(level.service_ms.p50 if level.service_ms is not None else None),
        Cell(f"{level.backlog:,}{' !' if level.overloaded else ''}", value=level.backlog),
        _errors(level),
    ]


def _knee_table(trials: Sequence[TrialResult], cores: str) -> Table:
    """Tabulate the knee of each backend's throughput."""
    columns = [
        BACKEND,
        Column("knee rate"),
        Column("answered/s", best="highest", timed=True),
        Column("p99 ms"),
        Column("n", priority=2),
        Column("p99 at rest"),
        Column("n at rest", priority=2),
        Column("most/s", priority=1),
        Column("next rate", numeric=False),
    ]
    rows = [[label_cell(trial), *_knee_cells(trial.knee)] for trial in trials if trial.knee is not None]
    legend = [
        f"knee: highest rate: no overload, at most 1 query in 100 failed, p99 at most {P99_FACTOR:g} times at rest",
        f"at rest: the lowest p99 of rates without overload and with {ENOUGH} queries, or with the most queries",
        "n: queries of that p99; most/s: the most that were answered at any rate",
        "next rate: the lowest measured rate that was not sustained, and why",
    ]
    return Table(f"Search, the knee of rates up to saturation, {cores}", columns, rows, legend)


def _knee_cells(stats: KneeStats) -> list[Cell]:
    beyond = "not saturated"
    if stats.unsustained_rate is not None:
        beyond = f"{stats.unsustained_rate:,.10g}/s: {_LIMITS[str(stats.limit)]}"
    return [
        number(stats.rate, ",.10g"),
        number(stats.qps, ",.1f"),
        milliseconds(stats.p99_ms),
        number(stats.queries, ",d"),
        milliseconds(stats.unloaded_p99_ms),
        number(stats.unloaded_queries, ",d"),
        number(stats.highest_qps, ",.1f"),
        text(beyond),
    ]


def _errors(level: ClosedLoopStats | OpenLoopStats) -> Cell:
    count = f"{level.errors:,}" if not level.clients_failed else f"{level.errors:,} + {level.clients_failed} clients"
    return Cell(count, value=level.errors)
