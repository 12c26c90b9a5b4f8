"""A client's loops under an injected clock: what a stall looks like in a closed and in an open loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from engines_for_tests import BruteForce

from harness.data.inputs import Inputs
from harness.data.progress import Clock
from harness.data.types import Ids, SparseVectors
from harness.engines.interface import SearchResult
from harness.errors import EngineFailureError, EngineUnavailableError, HarnessError
from harness.stats.timing import arrivals_ns
from harness.stats.timing import open_loop as statistics
from harness.worker.jobs import TrialJob
from harness.worker.load_client import Call, Client, Schedule, Tickets, warm_up

MS = 1_000_000
S = 1000 * MS


class Time:
    """A clock that only sleeping and searching move."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns

    def sleep(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


class Stalls(BruteForce):
    """Answers in 1 ms, but for one query, which finds the engine stopped for a second."""

    def __init__(self, time: Time, *, at: int | None = None) -> None:
        super().__init__({})
        self.time, self.at, self.asked = time, at, 0

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        durations = []
        for _ in range(len(queries)):
            took = S if self.asked == self.at else MS
            self.asked += 1
            self.time.now_ns += took
            durations.append(took)
        count = len(queries)
        return SearchResult(
            np.zeros(count + 1, dtype=np.int64),
            np.zeros(0, dtype=np.int32),
            np.zeros(0, dtype=np.float32),
            np.array(durations, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
        )


class Refuses(Stalls):
    """Fails the calls that hold the query ``bad``."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        if "bad" in list(queries.ids):
            self.time.now_ns += 3 * MS
            raise EngineFailureError("no answer for 'bad'")
        return super().search(queries, k, clock)


def call(*ids: str, first: int = 0) -> Call:
    rows = np.arange(first, first + len(ids), dtype=np.int32)
    singles = [call(one, first=first + place) for place, one in enumerate(ids)] if len(ids) > 1 else []
    return Call(rows, Inputs(Ids.of(ids)), singles)


def numbers() -> Callable[[], int]:
    counter = itertools.count()
    return lambda: next(counter)


def test_a_closed_loop_hides_a_stall_that_an_open_loop_shows() -> None:
    closed_time = Time()
    closed = Client(Stalls(closed_time, at=500), 10, closed_time)
    closed.closed_loop([call("q")], 10 * S)
    hidden = np.sort(closed.samples().search_ns)
    assert np.count_nonzero(hidden > 100 * MS) == 1  # of 9,001 samples
    assert np.percentile(hidden, 99) == MS

    open_time = Time()
    due = arrivals_ns(100, 10, "constant", seed=1)
    schedule = Schedule(due, numbers(), give_up_ns=20 * S)
    opened = Client(Stalls(open_time, at=500), 10, open_time)
    opened.open_loop([call("q")], schedule, open_time.sleep)
    found = statistics(due, opened.samples(), start_ns=0, end_ns=10 * S, gave_up_ns=20 * S, clients=1)
    assert len(found.latency_ns) == 1000
    # the stall lasts 1 s, then a millisecond each: those due in it wait, the first for all of it
    assert np.count_nonzero(found.latency_ns > 100 * MS) == 100
    assert np.percentile(found.latency_ns, 99) > 900 * MS
    assert np.percentile(found.service_ns, 99) == MS
    assert not found.overloaded


def test_a_server_that_is_too_slow_is_an_overload_and_its_waits_are_counted() -> None:
    time = Time()
    due = arrivals_ns(2000, 1, "constant", seed=1)
    schedule = Schedule(due, numbers(), give_up_ns=round(1.5 * S))
    log = Client(Stalls(time), 10, time)
    log.open_loop([call("q")], schedule, time.sleep)
    found = statistics(due, log.samples(), start_ns=0, end_ns=S, gave_up_ns=round(1.5 * S), clients=1)
    assert found.overloaded
    assert found.backlog == 999  # one was being answered
    assert found.unserved == 499
    assert len(found.latency_ns) == 2000
    assert found.latency_ns.max() == 751 * MS  # due at 750 ms, the last that was asked, at 1,500 ms


def test_queries_come_in_turn_and_begin_again() -> None:
    time = Time()
    schedule = Schedule(np.arange(5, dtype=np.int64) * S, numbers(), give_up_ns=10 * S)
    log = Client(Stalls(time), 10, time, 3)
    log.open_loop([call("a"), call("b", first=1)], schedule, time.sleep)
    found = log.samples()
    assert found.query.tolist() == [0, 1, 0, 1, 0]
    assert found.started_ns.tolist() == found.due_ns.tolist() == [0, S, 2 * S, 3 * S, 4 * S]
    assert set(found.client.tolist()) == {3}


def test_a_cold_pass_asks_every_query_once() -> None:
    time = Time()
    log = Client(Stalls(time), 10, time)
    log.once([call("a", "b"), call("c", first=2)])
    found = log.samples()
    assert found.query.tolist() == [0, 1, 2]
    assert found.started_ns.tolist() == [0, MS, 2 * MS]
    assert found.ended_ns.tolist() == [MS, 2 * MS, 3 * MS]
    assert [call.rows.tolist() for call, _ in log.answers] == [[0, 1], [2]]


def test_only_the_query_that_fails_is_an_error() -> None:
    time = Time()
    log = Client(Refuses(time), 10, time)
    log.once([call("a", "bad", "c"), call("d", first=3)])
    found = log.samples()
    assert found.query.tolist() == [0, 1, 2, 3]
    assert found.ok.tolist() == [True, False, True, True]
    assert log.first_error == "no answer for 'bad'"


class Gone(Stalls):
    """Its server is away from some time on: every call is retried for 30 s."""

    def __init__(self, time: Time, *, since_ns: int = 0, error: type[HarnessError] = EngineUnavailableError) -> None:
        super().__init__(time)
        self.since_ns, self.error = since_ns, error

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        if self.time.now_ns < self.since_ns:
            return super().search(queries, k, clock)
        self.time.now_ns += 30 * S
        raise self.error("nobody answers")


MANY = [call(*(f"q{row}" for row in range(first, first + 32)), first=first) for first in range(0, 320, 32)]


@pytest.mark.parametrize("error", [EngineUnavailableError, EngineFailureError])
def test_a_level_ends_with_the_call_under_way_when_the_server_dies(error: type[HarnessError]) -> None:
    time = Time()
    log = Client(Gone(time, since_ns=S, error=error), 10, time)
    log.closed_loop(MANY, 5 * S)
    assert S < time.now_ns < 32 * S
    assert log.gave_up is None


def test_no_call_begins_when_the_time_is_over_however_many_queries_there_are() -> None:
    time = Time()
    log = Client(Stalls(time), 10, time)
    log.closed_loop(MANY, 40 * MS)
    assert time.now_ns == 64 * MS
    assert len(log.samples()) == 64


def test_queries_without_terms_prove_no_server_to_be_there() -> None:
    time = Time()
    empty = SparseVectors(np.zeros(2, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), dimensions=1)
    unsent = Call(np.array([1], np.int32), Inputs(Ids.of(["empty"]), sparse=empty))

    class Away(Gone):
        def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
            return (
                Stalls.search(self, queries, k, clock)
                if queries.sparse is not None
                else super().search(queries, k, clock)
            )

    log = Client(Away(time), 10, time)
    log.closed_loop([call("q"), unsent], 3600 * S)
    assert log.gave_up == "gave up after 3 failed calls in a row: nobody answers"
    assert time.now_ns == 90 * S + 2 * MS


def test_a_client_gives_up_after_three_failed_calls_in_a_row() -> None:
    time = Time()
    log = Client(Gone(time), 10, time)
    log.closed_loop(MANY, 3600 * S)
    assert time.now_ns == 90 * S
    assert log.gave_up == "gave up after 3 failed calls in a row: nobody answers"
    assert log.samples().ok.tolist() == [False] * 96  # none of them was asked again alone

    time = Time()
    log = Client(Gone(time), 10, time)
    log.once(MANY)
    assert time.now_ns == 90 * S

    time = Time()
    schedule = Schedule(np.arange(50, dtype=np.int64) * S, numbers(), give_up_ns=3600 * S)
    log = Client(Gone(time, since_ns=10 * S), 10, time)
    log.open_loop([call("q")], schedule, time.sleep)
    assert log.samples().ok.tolist() == [True] * 10 + [False] * 3


def test_a_call_of_which_some_query_is_answered_did_not_fail() -> None:
    time = Time()
    log = Client(Refuses(time), 10, time)
    log.once([call("a", "bad")] * 4)
    assert log.gave_up is None
    assert log.samples().ok.tolist() == [True, False] * 4


def test_the_warm_up_stops_in_time_when_the_server_is_away() -> None:
    job = TrialJob(
        engine="",
        parameters={},
        corpus="",
        queries="",
        document_vectors=(),
        query_vectors=(),
        index_folder="",
        k=10,
        repeats=1,
        warm_up_queries=1000,
        warm_up_seconds=5.0,
    )
    for error in (EngineUnavailableError, EngineFailureError):
        time = Time()
        warm_up(Client(Gone(time, error=error), 10, time), MANY, job)
        assert time.now_ns == 30 * S


def test_a_number_is_given_once_whoever_asks(tmp_path: Path) -> None:
    def take(_: int) -> list[int]:
        tickets = Tickets(tmp_path / "tickets")
        try:
            return [tickets.take() for _ in range(200)]
        finally:
            tickets.close()

    with ThreadPoolExecutor(4) as pool:
        taken = list(pool.map(take, range(4)))
    assert sorted(itertools.chain(*taken)) == list(range(800))
