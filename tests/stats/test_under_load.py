"""What follows from raw samples of clients: throughput over the common window, and latencies of an open loop."""

from __future__ import annotations

import numpy as np
import pytest

from harness.stats.timing import Samples, arrivals_ns, open_loop, throughput

S = 1_000_000_000


def samples(*rows: tuple[int, float, float, float], ok: bool = True) -> Samples:
    """(client, due, started, ended) in seconds; half of the time between is search, the other half transfer."""
    client, due, started, ended = (np.array(column) for column in zip(*rows, strict=True))
    half = ((ended - started) * S / 2).astype(np.int64)
    due_ns, started_ns, ended_ns = ((column * S).astype(np.int64) for column in (due, started, ended))
    query = np.zeros(len(rows), dtype=np.int32)
    return Samples(
        client.astype(np.int32), query, due_ns, started_ns, ended_ns, half, half, np.full(len(rows), ok, dtype=np.bool_)
    )


def test_the_window_is_the_time_in_which_all_clients_asked() -> None:
    early = samples((0, 0, 0, 1), (0, 1, 1, 2), (0, 2, 2, 3))
    late = samples((1, 1.5, 1.5, 2.5), (1, 2.5, 2.5, 3.5), (1, 3.5, 3.5, 4.5))
    found = throughput(Samples.joined([early, late]))
    assert found is not None
    assert found.window_s == 1.5
    assert found.completed == 3  # answers at 2, 2.5 and 3 s; 1.5 < t <= 3
    assert found.per_second == 2.0
    assert found.busy == pytest.approx(3 / (2 * 1.5))


def test_failed_queries_are_no_throughput() -> None:
    found = throughput(Samples.joined([samples((0, 0, 0, 1), (0, 1, 1, 2)), samples((0, 2, 2, 4), ok=False)]))
    assert found is not None
    assert (found.window_s, found.completed) == (4.0, 2)


def test_clients_that_never_asked_together_have_no_window() -> None:
    assert throughput(Samples.joined([])) is None
    assert throughput(Samples.joined([samples((0, 0, 0, 1)), samples((1, 2, 2, 3))])) is None


def test_joined_samples_keep_their_types_even_when_there_are_none() -> None:
    for found in (Samples.joined([]), Samples.joined([samples((0, 0, 0, 1)), samples((1, 0, 0, 1))])):
        assert (found.client.dtype, found.query.dtype, found.ok.dtype) == (np.int32, np.int32, np.bool_)
        assert found.due_ns.dtype == found.search_ns.dtype == np.int64


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert arrivals_ns(4, 1, "constant", seed=1).tolist() == [0, S // 4, S // 2, 3 * S // 4]
    assert arrivals_ns(0.1, 1, "constant", seed=1).tolist() == [0]


def test_poisson_arrivals_have_the_rate_and_the_spread_of_independent_users() -> None:
    found = arrivals_ns(100, 50, "poisson", seed=7)
    assert np.array_equal(found, arrivals_ns(100, 50, "poisson", seed=7))
    assert not np.array_equal(found, arrivals_ns(100, 50, "poisson", seed=8))
    assert len(found) == pytest.approx(5000, rel=0.05)
    assert found.max() < 50 * S
    gaps = np.diff(found) / S
    assert gaps.min() > 0
    assert gaps.std() == pytest.approx(gaps.mean(), rel=0.1)


def test_a_query_is_due_within_the_schedule_however_low_the_rate() -> None:
    for seed in range(50):
        (due,) = arrivals_ns(0.001, 5, "poisson", seed=seed).tolist()
        assert 0 <= due < 5 * S


def test_latency_counts_from_when_a_query_was_due() -> None:
    due = np.array([0, 1, 2], dtype=np.int64) * S
    asked = samples((0, 0, 0, 3), (0, 1, 3, 3.5), (1, 2, 2, 2.5))
    found = open_loop(due, asked, start_ns=0, end_ns=3 * S, gave_up_ns=6 * S, clients=2)
    assert sorted((found.latency_ns / S).tolist()) == [0.5, 2.5, 3.0]
    assert sorted((found.service_ns / S).tolist()) == [0.5, 0.5, 3.0]
    assert found.answered_per_second == pytest.approx(3 / 3.5)
    assert (found.failed, found.unserved, found.backlog, found.overloaded) == (0, 0, 0, False)


def test_queries_that_nobody_asked_count_with_their_wait() -> None:
    due = (np.arange(100) * S / 100).astype(np.int64)
    served = [(0, moment / 100, moment / 100, moment / 100 + 0.005) for moment in range(90)]
    found = open_loop(due, samples(*served), start_ns=0, end_ns=S, gave_up_ns=2 * S, clients=4)
    assert (len(found.latency_ns), found.unserved, found.backlog) == (100, 10, 10)
    assert found.latency_ns.max() == pytest.approx(1.1 * S)
    assert found.overloaded


def test_a_backlog_of_as_many_queries_as_clients_is_no_overload() -> None:
    due = (np.arange(100) * S / 100).astype(np.int64)
    late = [(0, moment / 100, moment / 100 + (0.5 if moment >= 96 else 0), 1.6) for moment in range(100)]
    found = open_loop(due, samples(*late), start_ns=0, end_ns=S, gave_up_ns=2 * S, clients=4)
    assert (found.backlog, found.overloaded) == (4, False)


def test_failed_queries_of_a_schedule_are_counted_apart() -> None:
    due = np.array([0, 1], dtype=np.int64) * S
    asked = Samples.joined([samples((0, 0, 0, 0.5)), samples((0, 1, 1, 1.5), ok=False)])
    found = open_loop(due, asked, start_ns=0, end_ns=2 * S, gave_up_ns=3 * S, clients=1)
    assert (len(found.latency_ns), found.failed, found.unserved) == (1, 1, 0)
