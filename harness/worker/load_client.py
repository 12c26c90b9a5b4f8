"""One client process of a load test: it opens a finished index, warms up, waits for the others, and asks.

All clients read the same clock: ``perf_counter_ns`` is machine-wide, so that they begin together and their samples can
be laid side by side. Clocks and sleeping are handed in. Nothing but the engine's call and two readings of the clock
stands between queries.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Int32Array, Int64Array
from harness.engines.interface import EngineProtocol, SearchResult
from harness.errors import EngineTimeoutError, EngineUnavailableError, HarnessError
from harness.stats.timing import Samples
from harness.store.disk import drop_from_page_cache, resident_share
from harness.store.record_files import load
from harness.worker.candidate_hits import CandidateHits
from harness.worker.jobs import ClientJob, ClientRecord, TrialJob, TrialRecord
from harness.worker.trial import create_engine, load_documents, load_queries, restrict

READY = "waiting for the other clients"
"""The phase that a client announces when it could begin."""
GO = "go"
"""File that holds the time at which all clients begin, in nanoseconds."""
DUE = "due.npy"
"""File with the times at which the queries of an open loop are due, in nanoseconds from the start."""
_TICKETS = "tickets"
"""File with the counter that gives each of these queries to one client."""
_CALL_NS = 10_000_000
_LARGEST_CALL = 32
_POLL_S = 0.002
Sleep = Callable[[float], None]
"""Waits for so many seconds; injected, so that tests do not wait."""
_NS_PER_S = 1e9
_FAILED_CALLS = 3
"""So many calls that fail one after the other, and a client gives up: an engine may have retried each for long."""
_AWAY = (EngineUnavailableError, EngineTimeoutError)


def run_client(
    job: ClientJob, progress: Progress, clock: Clock, sleep: Sleep, *, before_open: Callable[[], None]
) -> ClientRecord:
    """Open, warm up, wait for the start, ask until the time is over, compare the answers with the single client's.

    A cold client drops the index from the page cache first and asks every query once, without any warm-up.
    """
    trial = job.trial
    documents, queries = load_documents(trial), load_queries(trial)
    kept = CandidateHits.load(trial, queries.ids, documents.ids)
    resident = None
    if job.kind == "cold":
        drop_from_page_cache(trial.index_folder)
        resident = resident_share(trial.index_folder)
    engine = create_engine(trial)
    before_open()
    try:
        started = clock()
        engine.open(trial.index_folder, documents.ids)
        opened = clock()
        restrict(engine, trial)
        size = _LARGEST_CALL
        if job.kind != "cold":
            progress.start("warm-up", trial.warm_up_queries)
            size = _call_size(_warm_up(engine, _calls(queries, 0, _LARGEST_CALL), trial, clock))
        progress.start(READY, None)
        logs = _ask(job, engine, queries, size, kept, _start_ns(job.folder, sleep), clock, sleep)
    finally:
        engine.close()
    return ClientRecord(
        samples=Samples.joined([log.samples() for log in logs]),
        first_error=next((log.first_error for log in logs if log.first_error is not None), None),
        gave_up=next((log.gave_up for log in logs if log.gave_up is not None), None),
        different_queries=_different(logs, load(job.hits, TrialRecord).hits, exactly=engine.capabilities.deterministic),
        open_ns=opened - started,
        resident_share=resident,
    )


def _ask(
    job: ClientJob,
    engine: EngineProtocol,
    queries: Inputs,
    size: int,
    kept: CandidateHits | None,
    start_ns: int,
    clock: Clock,
    sleep: Sleep,
) -> list[CallLog]:
    logs = [CallLog(job.client + thread, kept) for thread in range(job.threads)]
    run = partial(_ask_once, job, engine, queries, size, start_ns, clock, sleep)
    if len(logs) == 1:
        run(logs[0])
    else:
        with ThreadPoolExecutor(len(logs)) as pool:
            list(pool.map(run, logs))
    return logs


def _ask_once(
    job: ClientJob,
    engine: EngineProtocol,
    queries: Inputs,
    size: int,
    start_ns: int,
    clock: Clock,
    sleep: Sleep,
    log: CallLog,
) -> None:
    """Run the loop of one client. Clients begin at different queries, so that they do not all ask the same one."""
    end_ns = start_ns + int(job.seconds * 1e9)
    k = job.trial.k
    if job.kind == "open":
        calls = _calls(queries, 0, 1)
        with closing(Tickets(job.folder / _TICKETS)) as tickets:
            due = np.load(job.folder / DUE, allow_pickle=False) + start_ns
            schedule = Schedule(due, tickets.take, end_ns + int(job.patience_s * 1e9))
            open_loop(engine, calls, k, schedule, clock, sleep, log)
        return
    calls = _calls(queries, log.client * len(queries) // job.clients, size)
    sleep(max(0.0, (start_ns - clock()) / 1e9))
    if job.kind == "cold":
        once(engine, calls, k, clock, log)
    else:
        closed_loop(engine, calls, k, end_ns, clock, log)


def _start_ns(folder: Path, sleep: Sleep) -> int:
    """Wait for the time at which all begin; the parent writes it when every client is ready or gone."""
    go = folder / GO
    while not go.exists():
        sleep(_POLL_S)
    return int(go.read_text(encoding="ascii"))


def _warm_up(engine: EngineProtocol, calls: Sequence[Call], trial: TrialJob, clock: Clock) -> float:
    """Make calls whose times are forgotten, until enough queries have run or the time is over.

    Returns the nanoseconds a query of the last call, when the engine was warmest; 0 when there was none. Single queries
    that fail are no reason to stop: they will be counted.
    """
    log, done, query_ns = CallLog(0), 0, 0.0
    until_ns = clock() + int(trial.warm_up_seconds * 1e9)
    for call in itertools.cycle(calls):
        if done >= trial.warm_up_queries or clock() >= until_ns or log.gave_up is not None:
            break
        begun = clock()
        log.ask(engine, call, trial.k, clock, until_ns=until_ns)
        query_ns = (clock() - begun) / len(call.rows)
        done += len(call.rows)
    return query_ns


def _call_size(query_ns: float) -> int:
    """Return how many queries take some 10 ms: few enough to stop in time, enough to hide the harness's work."""
    return int(np.clip(_CALL_NS / max(1.0, query_ns), 1, _LARGEST_CALL))


def _calls(queries: Inputs, first: int, size: int) -> list[Call]:
    """Return calls of all queries from ``first`` on, then those before it, ``size`` to a call."""
    bounds = [(start, min(start + size, len(queries))) for start in range(first, len(queries), size)]
    bounds += [(start, min(start + size, first)) for start in range(0, first, size)]
    calls = []
    for start, stop in bounds:
        rows = np.arange(start, stop, dtype=np.int32)
        singles = [_call(queries, row, row + 1) for row in range(start, stop)] if stop - start > 1 else []
        calls.append(Call(rows, queries.slice(start, stop), singles))
    return calls


def _call(queries: Inputs, start: int, stop: int) -> Call:
    return Call(np.arange(start, stop, dtype=np.int32), queries.slice(start, stop))


def _different(logs: Sequence[CallLog], expected: SearchResult, *, exactly: bool) -> tuple[int, ...]:
    """Return the rows of queries that were answered otherwise than the single client's, ascending.

    ``exactly`` False compares scores alone.
    """
    different = set()
    for log in logs:
        for call, result in log.answers:
            for place, query in enumerate(call.rows.tolist()):
                here = slice(int(result.indptr[place]), int(result.indptr[place + 1]))
                there = slice(int(expected.indptr[query]), int(expected.indptr[query + 1]))
                same = np.array_equal(result.scores[here], expected.scores[there])
                if exactly:
                    same = same and np.array_equal(result.rows[here], expected.rows[there])
                if not same:
                    different.add(query)
    return tuple(sorted(different))


class Call(NamedTuple):
    """Queries that go to the engine in one call: their rows in the whole set, and the queries themselves."""

    rows: Int32Array
    queries: Inputs
    singles: Sequence[Call] = ()
    """The same queries one by one, for when one of them fails."""

    @property
    def sent(self) -> bool:
        """False when no query has any term: these are answered without the engine, which may be away."""
        return self.queries.sparse is None or self.queries.sparse.nnz > 0


@dataclass(eq=False, slots=True)
class CallLog:
    """Log of one client: every call with its times, and the first answers, to be compared when all is over.

    Of answers only what is ``kept`` of a single client's is kept: hits among candidates, or all of them.
    """

    client: int
    kept: CandidateHits | None = None
    first_error: str | None = None
    gave_up: str | None = None
    answers: list[tuple[Call, SearchResult]] = field(default_factory=list)
    _timed: list[_Timed] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _failed_calls: int = 0

    def ask(
        self,
        engine: EngineProtocol,
        call: Call,
        k: int,
        clock: Clock,
        *,
        due_ns: int | None = None,
        until_ns: int | None = None,
    ) -> None:
        """Make one call; when it fails, ask its queries again one by one, and one that fails alone is an error.

        Not so when the engine is away or silent, and no more of them after ``until_ns``. ``gave_up`` says why when it
        was the last of too many calls in a row of which nothing was answered.
        """
        started = clock()
        error = self._answered(engine, call, k, clock, due_ns)
        if error is not None and (not call.singles or isinstance(error, _AWAY)):
            self._fail(call, due_ns, started, clock(), error)
        elif error is not None and self._ask_singly(engine, call, k, clock, due_ns, until_ns):
            error = None
        if error is not None:
            self._failed_calls += 1
        elif call.sent:
            self._failed_calls = 0
        if error is not None and self._failed_calls == _FAILED_CALLS:
            self.gave_up = f"gave up after {_FAILED_CALLS} failed calls in a row: {_sentence(error)}"

    def _ask_singly(
        self, engine: EngineProtocol, call: Call, k: int, clock: Clock, due_ns: int | None, until_ns: int | None
    ) -> bool:
        """Send the queries of a failed call one by one; return whether any was answered."""
        answered = False
        for single in call.singles:
            started = clock()
            if until_ns is not None and started >= until_ns:
                break
            error = self._answered(engine, single, k, clock, due_ns)
            if error is None:
                answered = answered or single.sent
                continue
            self._fail(single, due_ns, started, clock(), error)
            if isinstance(error, _AWAY):
                break
        return answered

    def _answered(
        self, engine: EngineProtocol, call: Call, k: int, clock: Clock, due_ns: int | None
    ) -> HarnessError | None:
        """Note the answer, or give the error."""
        started = clock()
        try:
            result = engine.search(call.queries, k, clock)
        except HarnessError as error:
            return error
        self._timed.append(_Timed(call.rows, due_ns, started, clock(), result.search_ns, result.transfer_ns))
        if int(call.rows[0]) not in self._seen:
            self._seen.add(int(call.rows[0]))
            self.answers.append((call, result if self.kept is None else self.kept.of(result, call.rows)))
        return None

    def _fail(self, call: Call, due_ns: int | None, started_ns: int, ended_ns: int, error: HarnessError) -> None:
        self.first_error = self.first_error or _sentence(error)
        self._timed.append(_Timed(call.rows, due_ns, started_ns, ended_ns, None, None))

    def samples(self) -> Samples:
        """Return one row a query. In a call each query starts when the ones before it had ended."""
        return Samples.joined([_samples_of(self.client, timed) for timed in self._timed])


class _Timed(NamedTuple):
    """One call: ``due_ns`` None in a closed loop, ``search_ns`` and ``transfer_ns`` None when it failed."""

    rows: Int32Array
    due_ns: int | None
    started_ns: int
    ended_ns: int
    search_ns: Int64Array | None
    transfer_ns: Int64Array | None


def _samples_of(client: int, timed: _Timed) -> Samples:
    count = len(timed.rows)
    nothing = np.zeros(count, dtype=np.int64)
    search = nothing if timed.search_ns is None else timed.search_ns
    transfer = nothing if timed.transfer_ns is None else timed.transfer_ns
    ends = timed.started_ns + np.cumsum(search + transfer)
    ends[-1] = timed.ended_ns  # the harness's own share of a call is put at its end
    starts = np.concatenate([np.array([timed.started_ns], dtype=np.int64), ends[:-1]])
    return Samples(
        client=np.full(count, client, dtype=np.int32),
        query=timed.rows,
        due_ns=starts if timed.due_ns is None else np.full(count, timed.due_ns, dtype=np.int64),
        started_ns=starts,
        ended_ns=ends,
        search_ns=search,
        transfer_ns=transfer,
        ok=np.full(count, timed.search_ns is not None),
    )


def once(engine: EngineProtocol, calls: Sequence[Call], k: int, clock: Clock, log: CallLog) -> None:
    """Ask every call once, however long it takes, unless the client gives up."""
    for call in calls:
        if log.gave_up is not None:
            return
        log.ask(engine, call, k, clock)


def closed_loop(
    engine: EngineProtocol, calls: Sequence[Call], k: int, until_ns: int, clock: Clock, log: CallLog
) -> None:
    """Ask all calls again and again, each when the last one is answered; none begins after ``until_ns`` but the first.

    It also ends when the client gives up.
    """
    for call in itertools.cycle(calls):
        log.ask(engine, call, k, clock, until_ns=until_ns)
        if log.gave_up is not None or clock() >= until_ns:
            return


class Tickets:
    """Numbers from 0, each given once, to whichever process or thread asks next: a counter in a locked file."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)

    def take(self) -> int:
        """Return the next number."""
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        try:
            number = int.from_bytes(os.pread(self._descriptor, 8, 0), "little")
            os.pwrite(self._descriptor, (number + 1).to_bytes(8, "little"), 0)
        finally:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        return number

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class Schedule(NamedTuple):
    """When queries are due (``due_ns`` int64, rising), who gives out the next one, and when clients give up."""

    due_ns: Int64Array
    take: Callable[[], int]
    give_up_ns: int


def open_loop(
    engine: EngineProtocol, calls: Sequence[Call], k: int, schedule: Schedule, clock: Clock, sleep: Sleep, log: CallLog
) -> None:
    """Take the next query that nobody took whenever free, wait until it is due, and ask it, late when it is late.

    ``calls`` are of one query each, and begin again where the schedule is longer. A client that is still behind when it
    is time to give up asks nothing more, nor does one whose calls fail one after the other.
    """
    while log.gave_up is None and (number := schedule.take()) < len(schedule.due_ns):
        due, now = int(schedule.due_ns[number]), clock()
        if now > schedule.give_up_ns:
            return
        if due > now:
            sleep((due - now) / _NS_PER_S)
        log.ask(engine, calls[number % len(calls)], k, clock, due_ns=due)


def _sentence(error: HarnessError) -> str:
    return error.what.splitlines()[0]
