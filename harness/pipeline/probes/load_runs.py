"""Load a finished index: cold, and by several clients, in closed loops and at fixed rates, on request to saturation.

:class:`LoadRuns` is the parent's side. Every client is a worker, with a worker's limits, log and end. Clients of the
same measurement begin together: the parent sets the start time when each of them is ready, or gone.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.data.filtering import BoolArray
from harness.data.progress import Progress
from harness.data.types import Int64Array
from harness.errors import HarnessError
from harness.plan.config import ClientKind, CompareRequest
from harness.stats.saturation import REST_SHARE, RateLevel, next_rate, seconds_at_rate
from harness.stats.timing import Arrivals, OpenLoop, Samples, arrivals_ns, latency, open_loop
from harness.store.cpu_use import OtherProcesses, other_processes, read_cpu
from harness.store.disk import copy_folder
from harness.store.record_files import load, save
from harness.wording import counted
from harness.worker.executor import Executor
from harness.worker.jobs import ClientJob, ClientRecord, LoadKind, TrialJob, TrialRecord
from harness.worker.load_client import DUE, GO, READY
from harness.worker.process import FinishedProcess
from harness.worker.threads import side_by_side

_NS_PER_S = 1e9
_LEAD_NS = 100_000_000
"""Between naming the start and the start itself: every client has noticed by then."""


class _Level(NamedTuple):
    """A measurement: the number of clients, the seconds, and for an open loop the rate."""

    kind: LoadKind
    clients: int
    seconds: float
    rate: float | None = None


@dataclass(frozen=True, eq=False, slots=True)
class LoadRecord:
    """One measurement: a cold pass, a number of clients, or a rate.

    ``failures`` holds one sentence for each client process that died, whose samples are lost, or gave up, whose samples
    until then are among ``samples``. ``different_queries`` counts queries, however many clients differ. ``due_ns``
    int64, ``start_ns`` and ``end_ns`` are an open loop's schedule on the samples' clock, ``gave_up_ns`` is when it
    stopped sending. Memory is the sum over all client processes, None if the system does not report it.
    ``index_copies`` counts the copies of the index that were made because the engine cannot share it.
    ``other_processes`` is the use of the cores by processes other than the clients.
    """

    kind: LoadKind
    clients: int
    threads: bool
    samples: Samples
    due_ns: Int64Array
    rate: float | None
    arrivals: Arrivals | None
    start_ns: int
    end_ns: int
    gave_up_ns: int
    failures: tuple[str, ...]
    first_error: str | None
    different_queries: int
    open_ns: int | None
    resident_share: float | None
    peak_rss_bytes: int | None
    peak_anonymous_bytes: int | None
    index_copies: int
    other_processes: OtherProcesses | None = None

    @property
    def processes(self) -> int:
        """Return how many processes its clients were."""
        return 1 if self.threads else self.clients

    @property
    def alive(self) -> bool:
        """Return whether any of them lasted to the end."""
        return len(self.failures) < self.processes

    @property
    def words(self) -> str:
        """Name the measurement."""
        return _words(self.kind, self.clients, self.rate)


@dataclass(frozen=True, eq=False, slots=True)
class LoadRecords:
    """All measurements of one trial, in the order in which they were made."""

    levels: tuple[LoadRecord, ...]


@dataclass(frozen=True, slots=True)
class LoadRuns:
    """Measurements to be made on the index of one trial, with their results in ``folder``.

    ``shared``: several processes may have the index open at once. Otherwise all but the first get copies of it.
    ``terms``, bool (Q,), marks queries that have a term. ``open_loop_clients`` send at fixed rates.
    """

    request: CompareRequest
    trial: TrialJob
    folder: Path
    executor: Executor
    shared: bool
    terms: BoolArray
    open_loop_clients: int = 1
    is_server: bool = False

    def run(self, progress: Progress) -> tuple[LoadRecord, ...]:
        """Measure cold first, then the closed loops, then the open ones.

        A measurement that is impossible, mostly for lack of disk space, is a failed measurement and does not affect the
        others.
        """
        request, seconds = self.request, self.request.load_seconds
        levels = [_Level("cold", 1, seconds)] if request.cold else []
        levels += [_Level("closed", clients, seconds) for clients in request.concurrency]
        levels += [_Level("open", self.open_loop_clients, seconds, rate) for rate in request.rates]
        measured = [self._measure(level, progress) for level in levels]
        return (*measured, *(self._swept(progress) if request.sweeps_rates else ()))

    def _swept(self, progress: Progress) -> list[LoadRecord]:
        """Measure rates until the knee of queries with terms is known, the lowest first; none without such queries."""
        if not self.terms.any():
            return []
        record, swept = load(self.folder, TrialRecord), list[LoadRecord]()
        single_ns = (record.search_ns + record.transfer_ns)[:, self.terms]
        first = REST_SHARE * single_ns.size / max(1, int(single_ns.sum())) * _NS_PER_S
        while (rate := next_rate([*map(rate_level, loads_with_terms(swept, self.terms))], first)) is not None:
            seconds = seconds_at_rate(rate * float(self.terms.mean()), self.request.load_seconds)
            swept.append(self._measure(_Level("open", self.open_loop_clients, seconds, rate), progress))
        return sorted(swept, key=lambda record: record.rate or 0.0)

    def _measure(self, level: _Level, progress: Progress) -> LoadRecord:
        threads = self.request.clients is ClientKind.THREADS and level.kind != "cold"
        processes = 1 if threads else level.clients
        due_ns = np.zeros(0, dtype=np.int64)
        if level.rate is not None:
            due_ns = arrivals_ns(level.rate, level.seconds, self.request.arrivals, self.request.seed)
        start_ns, before = 0, read_cpu()
        try:
            folder = Path(tempfile.mkdtemp(prefix=f"{level.kind}-", dir=self.folder))
            np.save(folder / DUE, due_ns, allow_pickle=False)
            jobs = self._jobs(level, folder, processes, progress, threads=threads)
            words = _words(level.kind, level.clients, level.rate)
            progress.start(words if level.rate is None else f"{words}, {counted(level.clients, 'client')}", None)
            gate = _Gate(folder / GO, processes)
            ends = side_by_side(lambda job: self._client(job, gate), jobs, jobs=processes)
            start_ns = gate.start_ns
        except (HarnessError, OSError) as error:
            reason = error.problem if isinstance(error, HarnessError) else f"the clients could not be started: {error}"
            ends = [_End(None, None, reason)] * processes
        record = self._record(level, ends, start_ns, due_ns, threads=threads)
        other_use = other_processes(record.words, before, read_cpu(), server=self.is_server)
        return replace(record, other_processes=other_use)

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
                seconds=level.seconds,
                patience_s=level.seconds,
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
            return _End(None, None, error.problem)
        finally:
            gate.pass_by(job.client)

    def _index(self, client: int, progress: Progress) -> Path:
        """Return the index for a client process: the trial's own, or a copy, which later measurements use again."""
        index_folder = self.trial.index_folder
        if self.shared or client == 0:
            return index_folder
        copy = self.folder / f"copy-{client}" / index_folder.name
        if not copy.exists():
            copy.mkdir(parents=True)
            try:
                copy_folder(index_folder, copy, progress)
            except BaseException:  # an interrupted copy, too, would be taken for a complete copy
                shutil.rmtree(copy.parent)
                raise
        return copy

    def _record(
        self, level: _Level, ends: Sequence[_End], start_ns: int, due_ns: Int64Array, *, threads: bool
    ) -> LoadRecord:
        records = [end.record for end in ends if end.record is not None]
        memory = [end.memory for end in ends if end.memory is not None]
        end_ns = start_ns + int(level.seconds * _NS_PER_S)
        return LoadRecord(
            kind=level.kind,
            clients=level.clients,
            threads=threads,
            samples=Samples.joined([record.samples for record in records]),
            due_ns=due_ns + start_ns,
            rate=level.rate,
            arrivals=self.request.arrivals if level.rate is not None else None,
            start_ns=start_ns,
            end_ns=end_ns,
            gave_up_ns=end_ns + int(level.seconds * _NS_PER_S),
            failures=tuple(end.failure for end in ends if end.failure is not None),
            first_error=next((record.first_error for record in records if record.first_error is not None), None),
            different_queries=len({query for record in records for query in record.different_queries}),
            open_ns=max((record.open_ns for record in records), default=None),
            resident_share=next((record.resident_share for record in records), None),
            peak_rss_bytes=_sum([finished.peak_rss_bytes for finished in memory]),
            peak_anonymous_bytes=_sum([finished.peak_anonymous_bytes for finished in memory]),
            index_copies=0 if self.shared or threads else len(ends) - 1,
        )


def loads_with_terms(loads: Sequence[LoadRecord], terms: BoolArray) -> tuple[LoadRecord, ...]:
    """Return the load of the queries at which ``terms``, bool (Q,), is True; none if no query has a term.

    A query without a term costs nothing, and many clients never send one: its samples would be times of nothing.
    """
    return tuple(_select_nonempty(load, terms) for load in loads) if terms.any() else ()


def _select_nonempty(load: LoadRecord, terms: BoolArray) -> LoadRecord:
    samples = load.samples.select(terms[load.samples.query])
    due = terms[np.arange(len(load.due_ns)) % len(terms)]  # an open loop goes round through the queries in their order
    return replace(load, samples=samples, due_ns=load.due_ns[due])


def scheduled(record: LoadRecord) -> OpenLoop:
    """Return the results of the queries of an open loop, against the times at which they were due."""
    return open_loop(
        record.due_ns,
        record.samples,
        start_ns=record.start_ns,
        end_ns=record.end_ns,
        gave_up_ns=record.gave_up_ns,
        clients=record.clients,
    )


def rate_level(record: LoadRecord) -> RateLevel:
    """Return an open loop as rules of saturation see it: one whose clients all failed has no percentile."""
    loop = scheduled(record)
    return RateLevel(
        rate=record.rate or 0.0,
        p99_ms=latency(loop.latency_ns).p99 if record.alive and len(loop.service_ns) else None,
        overloaded=loop.overloaded,
        failed_share=loop.failed / max(1, len(record.samples)),
        queries=len(loop.latency_ns),
    )


class _End(NamedTuple):
    """End of a client: with a record, with the reason why there is none, or with both if it gave up."""

    record: ClientRecord | None
    memory: FinishedProcess | None
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
    """A client's progress; only its readiness matters."""

    def __init__(self, gate: _Gate, client: int) -> None:
        self._gate, self._client = gate, client

    def start(self, phase: str, total: int | None) -> None:
        """Notify the gate if the phase is the last."""
        if phase == READY:
            self._gate.pass_by(self._client)

    def advance(self, amount: int) -> None:
        """Show nothing of single clients."""


def _words(kind: LoadKind, clients: int, rate: float | None) -> str:
    """Name a measurement by its rate, or by how many clients it has."""
    if kind == "cold":
        return "cold pass"
    return f"{rate:g} queries/s" if rate is not None else counted(clients, "client")


def _sum(values: Sequence[int | None]) -> int | None:
    present = [value for value in values if value is not None]
    return sum(present) if present and len(present) == len(values) else None
