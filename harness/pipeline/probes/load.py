"""The probe of load: cold, and by several clients, in closed loops and at fixed rates.

:class:`LoadRuns` measures on a finished index; it is the parent's side. Every client is a worker, with a worker's
limits, log and end. Those of one measurement begin together: the parent names the time when each of them is ready, or
gone. :class:`LoadProbe` sums up what they measured.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from harness.data.filtering import BoolArray
from harness.data.progress import Progress
from harness.data.types import Int64Array
from harness.errors import HarnessError
from harness.plan.config import ClientKind
from harness.plan.options import LoadOptions
from harness.plan.plan import Plan
from harness.results import schema
from harness.results.scored import Scored, has_terms
from harness.stats.timing import OpenLoop, Samples, arrivals_ns, latency, open_loop, throughput
from harness.store.disk import copy_folder
from harness.store.record_files import load, save
from harness.wording import counted
from harness.worker.executor import Aside, Executor, side_by_side
from harness.worker.jobs import HELD, ClientJob, ClientRecord, LoadKind, LoadRecord, TrialJob
from harness.worker.load_client import DUE, GO, READY
from harness.worker.process import Finished

__all__ = ["HeldOpen", "LoadProbe", "LoadRuns", "closed_loops", "loads_with_terms", "open_loops"]

_NS_PER_S = 1e9
_NS_PER_MS = 1e6
_LEAD_NS = 100_000_000
"""Between naming the start and the start itself: every client has noticed by then."""


class _Level(NamedTuple):
    """One measurement: so many clients, and for an open loop the rate."""

    kind: LoadKind
    clients: int
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class LoadRuns:
    """Measurements to be made on the index of one trial, whose results lie in ``folder``.

    ``shared``: several processes may have the index open at once. Otherwise all but the first get copies of it.
    """

    options: LoadOptions
    trial: TrialJob
    folder: Path
    executor: Executor
    shared: bool

    def run(self, progress: Progress) -> tuple[LoadRecord, ...]:
        """Measure cold first, then the closed loops, then the open ones.

        What cannot be measured, for want of disk space above all, is a failed measurement and leaves the others alone.
        """
        options = self.options
        levels = [_Level("cold", 1)] if options.cold else []
        levels += [_Level("closed", clients) for clients in options.concurrency]
        levels += [_Level("open", options.open_loop_clients, rate) for rate in options.rates]
        return tuple(self._measure(level, progress) for level in levels)

    def _measure(self, level: _Level, progress: Progress) -> LoadRecord:
        threads = self.options.clients is ClientKind.THREADS and level.kind != "cold"
        processes = 1 if threads else level.clients
        due_ns = np.zeros(0, dtype=np.int64)
        if level.rate is not None:
            due_ns = arrivals_ns(level.rate, self.options.seconds, self.options.arrivals, self.options.seed)
        start_ns = 0
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"{level.kind}-", dir=self.folder))
            np.save(folder / DUE, due_ns, allow_pickle=False)
            jobs = self._jobs(level, folder, processes, progress, threads=threads)
            progress.start(_level_in_words(level), None)
            gate = _Gate(folder / GO, processes)
            ends = side_by_side(lambda job: self._client(job, gate), jobs, jobs=processes)
            start_ns = gate.start_ns
        except (HarnessError, OSError) as error:
            what = error.what if isinstance(error, HarnessError) else f"the clients could not be started: {error}"
            ends = [_End(None, None, what)] * processes
        return self._record(level, ends, start_ns, due_ns, threads=threads)

    def _jobs(
        self, level: _Level, folder: Path, processes: int, progress: Progress, *, threads: bool
    ) -> list[ClientJob]:
        return [
            ClientJob(
                trial=replace(self.trial, index_folder=self._index(number, progress)),
                kind=level.kind,
                folder=folder,
                hits=self.folder,
                client=number,
                clients=level.clients,
                threads=level.clients if threads else 1,
                seconds=self.options.seconds,
                patience_s=self.options.seconds,
            )
            for number in range(processes)
        ]

    def _client(self, job: ClientJob, gate: _Gate) -> _End:
        folder = Path(tempfile.mkdtemp(prefix=f"client-{job.client}-", dir=job.folder))
        save(folder, job)
        try:
            memory = self.executor.run(folder, _Arrival(gate, job.client))
            record = load(folder, ClientRecord)
            return _End(record, memory, record.gave_up)
        except HarnessError as error:
            return _End(None, None, error.what)
        finally:
            gate.pass_by(job.client)

    def _index(self, client: int, progress: Progress) -> Path:
        """Return the index for a client process: the trial's own, or a copy, which later measurements use again."""
        own = self.trial.index_folder
        if self.shared or client == 0:
            return own
        copy = self.folder / f"copy-{client}" / own.name
        if not copy.exists():
            copy.mkdir(parents=True)
            try:
                copy_folder(own, copy, progress)
            except BaseException:  # an interrupted copy, too, would be taken for a whole one
                shutil.rmtree(copy.parent)
                raise
        return copy

    def _record(
        self, level: _Level, ends: Sequence[_End], start_ns: int, due_ns: Int64Array, *, threads: bool
    ) -> LoadRecord:
        records = [end.record for end in ends if end.record is not None]
        memory = [end.memory for end in ends if end.memory is not None]
        end_ns = start_ns + int(self.options.seconds * 1e9)
        return LoadRecord(
            kind=level.kind,
            clients=level.clients,
            threads=threads,
            samples=Samples.joined([record.samples for record in records]),
            due_ns=due_ns + start_ns,
            rate=level.rate,
            arrivals=self.options.arrivals if level.rate is not None else None,
            end_ns=end_ns,
            gave_up_ns=end_ns + int(self.options.seconds * 1e9),
            failures=tuple(end.failure for end in ends if end.failure is not None),
            first_error=next((record.first_error for record in records if record.first_error is not None), None),
            different_queries=len({query for record in records for query in record.different_queries}),
            open_ns=max((record.open_ns for record in records), default=None),
            resident_share=next((record.resident_share for record in records), None),
            peak_rss_bytes=_sum([finished.peak_rss_bytes for finished in memory]),
            peak_anonymous_bytes=_sum([finished.peak_anonymous_bytes for finished in memory]),
            index_copies=0 if self.shared or threads else len(ends) - 1,
        )


class _End(NamedTuple):
    """End of a client: with a record, with the reason why there is none, or with both when it gave up."""

    record: ClientRecord | None
    memory: Finished | None
    failure: str | None


class _Gate:
    """Opens when each of ``clients`` is ready or gone, by writing the time of the start."""

    def __init__(self, go: Path, clients: int) -> None:
        self._go, self._awaited, self._lock = go, set(range(clients)), threading.Lock()
        self.start_ns = 0

    def pass_by(self, client: int) -> None:
        """Note that a client is ready, or has ended; noting it again changes nothing."""
        with self._lock:
            if client not in self._awaited:
                return
            self._awaited.remove(client)
            if not self._awaited:
                self.start_ns = time.perf_counter_ns() + _LEAD_NS
                temporary = self._go.with_suffix(".tmp")
                temporary.write_text(str(self.start_ns), encoding="ascii")
                temporary.replace(self._go)


class _Arrival:
    """A client's progress, of which one thing matters: that it is ready."""

    def __init__(self, gate: _Gate, client: int) -> None:
        self._gate, self._client = gate, client

    def start(self, phase: str, total: int | None) -> None:  # noqa: ARG002 - the signature is Progress's
        """Tell the gate when the phase is the last one."""
        if phase == READY:
            self._gate.pass_by(self._client)

    def advance(self, amount: int) -> None:
        """Show nothing of single clients."""


class HeldOpen:
    """A trial's progress, which measures when the trial says that it holds its index open for that.

    A server drops the index when its engine closes, so clients come before; other engines close first. Measuring goes
    on in a thread: whoever reports the trial's progress goes on watching the trial. Leaving the ``with`` block ends
    measurements that still run: their index is gone.
    """

    def __init__(self, runs: LoadRuns, progress: Progress) -> None:
        self._runs, self._progress = runs, progress
        self._aside: Aside[tuple[LoadRecord, ...]] = Aside()

    def start(self, phase: str, total: int | None) -> None:
        """Pass the phase on, or begin to measure, after which the trial goes on."""
        if phase == HELD:
            self._aside.begin(self._measure)
        else:
            self._progress.start(phase, total)

    def advance(self, amount: int) -> None:
        """Pass it on."""
        self._progress.advance(amount)

    def records(self) -> tuple[LoadRecord, ...] | None:
        """Return what was measured while the trial held its index, None when it did not; raises as measuring did."""
        return self._aside.result()

    def _measure(self) -> tuple[LoadRecord, ...]:
        options = replace(self._runs.options, cold=False)  # a server's memory is not ours to empty
        try:
            return replace(self._runs, options=options, shared=True).run(self._progress)
        finally:
            if self._runs.trial.release is not None:
                self._runs.trial.release.touch()

    def __enter__(self) -> HeldOpen:
        return self

    def __exit__(self, *_: object) -> None:
        self._aside.__exit__()


def _level_in_words(level: _Level) -> str:
    if level.kind == "cold":
        return "cold pass"
    if level.rate is not None:
        return f"{level.rate:g} queries/s, {level.clients} clients"
    return "1 client" if level.clients == 1 else f"{level.clients} clients"


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


class LoadProbe:
    """Sum up the cold pass, the closed loops and the open loops of a trial."""

    def summarise(self, scored: Scored, plan: Plan) -> Mapping[str, object]:  # noqa: ARG002 - the signature is Probe's
        """Return the fields ``cold``, ``closed_loop`` and ``open_loop``."""
        loads = _loads(scored)
        return {"cold": cold_stats(loads), "closed_loop": closed_loops(loads), "open_loop": open_loops(loads)}

    def notes(self, scored: Scored, plan: Plan) -> list[str]:
        """Return what was not measured or went wrong."""
        return _notes(_loads(scored), plan.load) if scored.outcome.record is not None else []


def _loads(scored: Scored) -> tuple[LoadRecord, ...]:
    record = scored.outcome.record
    if record is None:
        return ()
    return loads_with_terms(record.loads, has_terms(scored.outcome.vectors, len(record.hits.indptr) - 1))


def loads_with_terms(loads: Sequence[LoadRecord], terms: BoolArray) -> tuple[LoadRecord, ...]:
    """Return the load of those queries alone at which ``terms``, bool (Q,), is True; none where no query has a term.

    A query without a term costs nothing, and many clients never send one: its samples would be times of nothing.
    """
    return tuple(_with_terms(load, terms) for load in loads) if terms.any() else ()


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


def _notes(loads: Sequence[LoadRecord], options: LoadOptions) -> list[str]:
    notes = []
    if options.cold and not any(record.kind == "cold" for record in loads):
        notes.append("no cold pass (--cold): the caches are the server's")
    if options.rates and not any(record.rate is not None for record in loads):
        notes.append("no open loop: --rate is for servers")
    for record in loads:
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
        if record.rate is not None and scheduled(record).overloaded:
            waiting = counted(scheduled(record).backlog, "query was", "queries were")
            notes.append(f"{where}: overload, {waiting} waiting at the end")
    return notes


def _in_words(record: LoadRecord) -> str:
    if record.kind == "cold":
        return "cold pass"
    if record.rate is not None:
        return f"{record.rate:g} queries/s"
    return "1 client" if record.clients == 1 else f"{record.clients} clients"
