"""One client process of a load test: it opens a finished index, warms up, waits for the others, and sends queries.

All clients read the same clock: ``perf_counter_ns`` is machine-wide, so that they begin together and their samples can
be compared. Clocks and sleeping are injected. Only the engine's call and two readings of the clock occur between
queries.
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
from harness.engines.interface import EngineInterface, SearchResult
from harness.errors import EngineTimeoutError, EngineUnavailableError, HarnessError
from harness.stats.timing import Samples
from harness.store.disk import drop_from_page_cache, resident_share
from harness.store.record_files import load
from harness.worker.candidate_hits import CandidateHits
from harness.worker.jobs import ClientJob, ClientRecord, TrialJob, TrialRecord
from harness.worker.trial import create_engine, load_both

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
"""Waits for a number of seconds; injected, so that tests do not wait."""
_NS_PER_S = 1e9
_FAILED_CALLS = 3
"""Failed calls in a row after which a client gives up: an engine may have retried each for long."""
_AWAY = (EngineUnavailableError, EngineTimeoutError)


def run_client(
    job: ClientJob, progress: Progress, clock: Clock, sleep: Sleep, *, before_open: Callable[[], None]
) -> ClientRecord:
    """Open, warm up, wait for the start, query until the time is over, compare the answers with the single client's.

    A cold client first drops the index from the page cache and runs every query once, without any warm-up.
    """
    trial = job.trial
    documents, queries = load_both(trial)
    candidates = trial.candidates
    candidate_hits = CandidateHits.load(candidates, queries.ids, documents.ids) if candidates is not None else None
    resident = None
    if job.kind == "cold":
        drop_from_page_cache(trial.index_folder)
        resident = resident_share(trial.index_folder)
    engine = create_engine(trial)
    before_open()
    clients = [Client(engine, trial.k, clock, job.client + thread, candidate_hits) for thread in range(job.threads)]
    with closing(engine):
        started = clock()
        engine.open(trial.index_folder, documents.ids)
        opened = clock()
        if trial.filters:  # one: load is not measured on queries with several filters
            engine.restrict(trial.filters[0].conditions)
        size = _LARGEST_CALL
        if job.kind != "cold":
            progress.start("warm-up", trial.warm_up_queries)
            size = _call_size(warm_up(Client(engine, trial.k, clock), _calls(queries, 0, _LARGEST_CALL), trial))
        progress.start(READY, None)
        run = partial(_ask, job, queries, size, _start_ns(job.folder, sleep), sleep)
        if len(clients) == 1:
            run(clients[0])
        else:
            with ThreadPoolExecutor(len(clients)) as pool:
                list(pool.map(run, clients))
    expected = load(job.hits, TrialRecord).hits
    return ClientRecord(
        samples=Samples.joined([client.samples() for client in clients]),
        first_error=next((client.first_error for client in clients if client.first_error is not None), None),
        gave_up=next((client.gave_up for client in clients if client.gave_up is not None), None),
        different_queries=_different(clients, expected, exactly=engine.capabilities.deterministic),
        open_ns=opened - started,
        resident_share=resident,
    )


def _ask(job: ClientJob, queries: Inputs, size: int, start_ns: int, sleep: Sleep, client: Client) -> None:
    """Run the loop of one client. Clients begin at different queries, so that they do not all send the same one."""
    end_ns = start_ns + int(job.seconds * _NS_PER_S)
    if job.kind == "open":
        with closing(Tickets(job.folder / _TICKETS)) as tickets:
            due = np.load(job.folder / DUE, allow_pickle=False) + start_ns
            schedule = Schedule(due, tickets.take, end_ns + int(job.patience_s * _NS_PER_S))
            client.open_loop(_calls(queries, 0, 1), schedule, sleep)
        return
    calls = _calls(queries, client.number * len(queries) // job.clients, size)
    sleep(max(0.0, (start_ns - client.clock()) / _NS_PER_S))
    if job.kind == "cold":
        client.once(calls)
    else:
        client.closed_loop(calls, end_ns)


def _start_ns(folder: Path, sleep: Sleep) -> int:
    """Wait for the common start time; the parent writes it when every client is ready or has ended."""
    go = folder / GO
    while not go.exists():
        sleep(_POLL_S)
    return int(go.read_text(encoding="ascii"))


def warm_up(client: Client, calls: Sequence[Call], trial: TrialJob) -> float:
    """Make calls whose times are forgotten, until enough queries have run or the time is over.

    Returns the nanoseconds a query of the last call, when the engine was warmest; 0 if there was none. Failing single
    queries do not stop it: they are counted later.
    """
    done, query_ns = 0, 0.0
    until_ns = client.clock() + int(trial.warm_up_seconds * _NS_PER_S)
    for call in itertools.cycle(calls):
        begun = client.clock()
        if done >= trial.warm_up_queries or begun >= until_ns or client.gave_up is not None:
            break
        client.ask(call, until_ns=until_ns)
        query_ns = (client.clock() - begun) / len(call.rows)
        done += len(call.rows)
    return query_ns


def _call_size(query_ns: float) -> int:
    """Return how many queries take some 10 ms: few enough to stop in time, enough to hide the harness's work."""
    return int(np.clip(_CALL_NS / max(1.0, query_ns), 1, _LARGEST_CALL))


def _calls(queries: Inputs, first: int, size: int) -> list[Call]:
    """Return calls of all queries from ``first`` on, then of the queries before it, ``size`` to a call."""

    def call(start: int, stop: int) -> Call:
        singles = [call(row, row + 1) for row in range(start, stop)] if stop - start > 1 else []
        return Call(np.arange(start, stop, dtype=np.int32), queries.slice(start, stop), singles)

    count = len(queries)
    later = [call(start, min(start + size, count)) for start in range(first, count, size)]
    return later + [call(start, min(start + size, first)) for start in range(0, first, size)]


def _different(clients: Sequence[Client], expected: SearchResult, *, exactly: bool) -> tuple[int, ...]:
    """Return the rows of queries whose answers differ from the single client's, ascending.

    ``exactly`` False compares only scores.
    """
    different = set()
    for call, result in itertools.chain.from_iterable(client.answers for client in clients):
        for position, query in enumerate(call.rows.tolist()):
            returned = slice(int(result.indptr[position]), int(result.indptr[position + 1]))
            expected_hits = slice(int(expected.indptr[query]), int(expected.indptr[query + 1]))
            same = np.array_equal(result.scores[returned], expected.scores[expected_hits])
            if not same or (exactly and not np.array_equal(result.rows[returned], expected.rows[expected_hits])):
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


class Schedule(NamedTuple):
    """When queries are due (``due_ns`` int64, rising), the counter that distributes them, and when clients give up."""

    due_ns: Int64Array
    take: Callable[[], int]
    give_up_ns: int


@dataclass(eq=False, slots=True)
class Client:
    """One client of an engine: its loops, the times of all its calls, and the first answer to each.

    Answers are compared at the end. With ``candidate_hits``, only hits among the candidates are stored, as for a
    single client. ``gave_up`` says why it stopped early.
    """

    engine: EngineInterface
    k: int
    clock: Clock
    number: int = 0
    candidate_hits: CandidateHits | None = None
    first_error: str | None = None
    gave_up: str | None = None
    answers: list[tuple[Call, SearchResult]] = field(default_factory=list)
    _timed: list[_TimedCall] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _failed_calls: int = 0

    def once(self, calls: Sequence[Call]) -> None:
        """Make every call once, however long it takes, unless the client gives up."""
        for call in calls:
            if self.gave_up is None:
                self.ask(call)

    def closed_loop(self, calls: Sequence[Call], until_ns: int) -> None:
        """Make all calls again and again, each when the last one is answered; only the first begins after ``until_ns``.

        It also ends when the client gives up.
        """
        for call in itertools.cycle(calls):
            self.ask(call, until_ns=until_ns)
            if self.gave_up is not None or self.clock() >= until_ns:
                return

    def open_loop(self, calls: Sequence[Call], schedule: Schedule, sleep: Sleep) -> None:
        """Take the next free query, wait until it is due, and send it, late if it is late.

        ``calls`` have one query each, and begin again if the schedule is longer. A client that is still late when it is
        time to give up sends nothing more, nor does a client whose calls fail one after another.
        """
        while self.gave_up is None and (number := schedule.take()) < len(schedule.due_ns):
            due, now = int(schedule.due_ns[number]), self.clock()
            if now > schedule.give_up_ns:
                return
            if due > now:
                sleep((due - now) / _NS_PER_S)
            self.ask(calls[number % len(calls)], due_ns=due)

    def ask(self, call: Call, *, due_ns: int | None = None, until_ns: int | None = None) -> None:
        """Make one call; when it fails, send its queries again one by one; a query that fails by itself is an error.

        Queries are not sent again if the engine is away or silent, or after ``until_ns``. ``gave_up`` gives the reason
        if this was the last of too many consecutive calls without any answer.
        """
        started = self.clock()
        error = self._answered(call, due_ns)
        if error is not None and (not call.singles or isinstance(error, _AWAY)):
            self._fail(call, due_ns, started, error)
        elif error is not None and self._ask_singly(call, due_ns, until_ns):
            error = None
        if error is None:
            self._failed_calls = 0 if call.sent else self._failed_calls
            return
        self._failed_calls += 1
        if self._failed_calls == _FAILED_CALLS:
            self.gave_up = f"gave up after {_FAILED_CALLS} failed calls in a row: {_sentence(error)}"

    def _ask_singly(self, call: Call, due_ns: int | None, until_ns: int | None) -> bool:
        """Send the queries of a failed call one by one; return whether any was answered."""
        answered = False
        for single in call.singles:
            started = self.clock()
            if until_ns is not None and started >= until_ns:
                break
            error = self._answered(single, due_ns)
            if error is None:
                answered = answered or single.sent
                continue
            self._fail(single, due_ns, started, error)
            if isinstance(error, _AWAY):
                break
        return answered

    def _answered(self, call: Call, due_ns: int | None) -> HarnessError | None:
        """Note the answer, or return the error."""
        started = self.clock()
        try:
            result = self.engine.search(call.queries, self.k, self.clock)
        except HarnessError as error:
            return error
        self._timed.append(_TimedCall(call.rows, due_ns, started, self.clock(), result.search_ns, result.transfer_ns))
        if int(call.rows[0]) not in self._seen:
            self._seen.add(int(call.rows[0]))
            self.answers.append(
                (call, result if self.candidate_hits is None else self.candidate_hits.of(result, call.rows))
            )
        return None

    def _fail(self, call: Call, due_ns: int | None, started_ns: int, error: HarnessError) -> None:
        self.first_error = self.first_error or _sentence(error)
        self._timed.append(_TimedCall(call.rows, due_ns, started_ns, self.clock(), None, None))

    def samples(self) -> Samples:
        """Return one row a query. In a call each query starts when the queries before it had ended."""
        return Samples.joined([_samples_of(self.number, timed) for timed in self._timed])


class _TimedCall(NamedTuple):
    """One call: ``due_ns`` None in a closed loop, ``search_ns`` and ``transfer_ns`` None when it failed."""

    rows: Int32Array
    due_ns: int | None
    started_ns: int
    ended_ns: int
    search_ns: Int64Array | None
    transfer_ns: Int64Array | None


def _samples_of(client: int, timed: _TimedCall) -> Samples:
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


class Tickets:
    """Numbers from 0, each given once, to the next process or thread that requests one: a counter in a locked file."""

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


def _sentence(error: HarnessError) -> str:
    return error.problem.splitlines()[0]
