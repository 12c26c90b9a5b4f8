"""What one client does once all are ready: asks queries, one call after the other, and writes down when.

Clocks and sleeping are handed in. Nothing but the engine's call and two readings of the clock stands between queries.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Clock
from harness.data.types import Int32Array, Int64Array
from harness.engines.interface import EngineProtocol, SearchResult
from harness.errors import EngineTimeoutError, EngineUnavailableError, HarnessError
from harness.statistics.under_load import Samples
from harness.worker.candidate_hits import CandidateHits

__all__ = ["Call", "CallLog", "Schedule", "Sleep", "Tickets", "closed_loop", "once", "open_loop"]

Sleep = Callable[[float], None]
"""Waits for so many seconds; injected, so that tests do not wait."""
_NS_PER_S = 1e9
_FAILED_CALLS = 3
"""So many calls that fail one after the other, and a client gives up: an adapter may have retried each for long."""
_AWAY = (EngineUnavailableError, EngineTimeoutError)


class Call(NamedTuple):
    """Queries that go to the engine in one call: their rows in the whole set, and the queries themselves."""

    rows: Int32Array
    queries: Inputs
    singles: Sequence[Call] = ()
    """The same queries one by one, for when one of them fails."""

    @property
    def sent(self) -> bool:
        """False when no query has any term: an adapter answers these itself, its engine may be away."""
        return self.queries.sparse is None or self.queries.sparse.nnz > 0


@dataclass(eq=False, slots=True)
class CallLog:
    """What one client saw: every call with its times, and the first answers, to be compared when all is over.

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
        """One call; when it fails its queries are asked again one by one, and one that fails alone is an error.

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
        """Whether any query of the call was answered."""
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
        """One row a query. Those of one call follow each other: each starts when the ones before it had ended."""
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
        """The next number."""
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
    """Whenever free, take the next query that nobody took, wait until it is due, and ask it, late when it is late.

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
