"""A query without terms, which no client sends, is no sample of any measurement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal
from unittest.mock import Mock

import numpy as np
import pytest

from harness.pipeline.probes import load_runs
from harness.pipeline.probes.load import closed_loops, knee_stats, open_loops
from harness.pipeline.probes.load_runs import LoadRecord, LoadRuns, loads_with_terms
from harness.plan.config import CompareRequest
from harness.stats.timing import Samples
from harness.testing import RecordingProgress

TERMS = np.array([True, False, True])
MS = 1_000_000


def load(kind: Literal["closed", "open"], *, answered: bool = True) -> LoadRecord:
    """One client goes through the three queries twice; the one without terms takes no time and never fails."""
    queries = np.array([0, 1, 2, 0, 1, 2], dtype=np.int32)
    search = np.where(TERMS[queries], 10 * MS, 0).astype(np.int64)
    ends = np.cumsum(search + 1)
    samples = Samples(
        client=np.zeros(6, dtype=np.int32),
        query=queries,
        due_ns=ends - search - 1,
        started_ns=ends - search - 1,
        ended_ns=ends,
        search_ns=search,
        transfer_ns=np.zeros(6, dtype=np.int64),
        ok=~TERMS[queries] | answered,
    )
    fixed = kind == "open"
    return LoadRecord(
        kind=kind,
        clients=1,
        threads=False,
        samples=samples,
        due_ns=samples.due_ns if fixed else np.zeros(0, dtype=np.int64),
        rate=100.0 if fixed else None,
        arrivals="constant" if fixed else None,
        start_ns=0,
        end_ns=int(ends[-1]),
        gave_up_ns=int(ends[-1]) + 1,
        failures=(),
        first_error=None if answered else "no",
        different_queries=0,
        open_ns=None,
        resident_share=None,
        peak_rss_bytes=None,
        peak_anonymous_bytes=None,
        index_copies=0,
    )


def test_times_and_rates_are_those_of_queries_with_terms() -> None:
    loads = loads_with_terms([load("closed"), load("open")], TERMS)
    (closed,), (fixed,) = closed_loops(loads), open_loops(loads)
    assert closed.milliseconds is not None
    assert (closed.milliseconds.p50, closed.milliseconds.n) == (10.0, 4)
    assert closed.qps == pytest.approx(100, rel=1e-3)
    assert (fixed.queries, fixed.unserved, fixed.errors) == (4, 0, 0)
    assert fixed.service_ms is not None
    assert fixed.service_ms.n == 4


def test_where_all_queries_with_terms_failed_there_is_no_time() -> None:
    (closed,) = closed_loops(loads_with_terms([load("closed", answered=False)], TERMS))
    assert (closed.milliseconds, closed.errors) == (None, 4)


def test_a_rate_at_which_no_query_with_terms_was_due_has_none() -> None:
    short = replace(
        load("open"), due_ns=load("open").due_ns[:0], samples=load("open").samples.select(np.zeros(6, bool))
    )
    (nothing,) = open_loops([short])
    assert (nothing.queries, nothing.due_qps, nothing.qps, nothing.milliseconds) == (0, 0.0, None, None)


def test_without_any_query_with_terms_there_is_no_measurement() -> None:
    assert loads_with_terms([load("open")], np.zeros(3, dtype=bool)) == ()


class Failing:
    """Clients of an engine that fails one in fifty of the queries with terms at more than 600 queries a second."""

    def __init__(self, terms: np.ndarray, folder: Path) -> None:
        self.terms, self.rates = terms, list[float]()
        trial = SimpleNamespace(
            search_ns=np.where(terms, 2 * MS, 0)[None, :], transfer_ns=np.zeros((1, len(terms)), int)
        )
        self.runs = LoadRuns(CompareRequest(rate="sweep"), Mock(), folder, Mock(), True, terms)
        self.record = trial

    def measure(self, level: Any, progress: object) -> LoadRecord:
        self.rates.append(level.rate)
        queries = np.arange(300, dtype=np.int32) % len(self.terms)
        due = np.arange(300) * int(1e9 / level.rate)
        took = np.where(self.terms[queries], MS, 0)
        fails = (queries == np.flatnonzero(self.terms)[0]) & (level.rate > 600)
        none = np.zeros(300, dtype=np.int64)
        samples = Samples(none.astype(np.int32), queries, due, due, due + took, took, none, ~fails)
        end = int(due[-1])
        return replace(load("open"), samples=samples, due_ns=due, rate=level.rate, end_ns=end, gave_up_ns=end)

    def sweep(self, monkeypatch: pytest.MonkeyPatch) -> tuple[LoadRecord, ...]:
        monkeypatch.setattr(load_runs, "load", lambda *_: self.record)
        monkeypatch.setattr(LoadRuns, "_measure", self.measure)
        return self.runs.run(RecordingProgress())


def test_a_sweep_of_rates_closes_in_on_the_knee_of_queries_with_terms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in fifty of those with terms fails, which is less than one in a hundred of all."""
    terms = np.arange(150) % 3 == 0
    engine = Failing(terms, tmp_path)
    knee = knee_stats(loads_with_terms(engine.sweep(monkeypatch), terms))
    assert engine.rates[0] == 62.5  # an eighth of what one client was answered
    assert knee is not None
    assert knee.rate is not None
    assert knee.unsustained_rate is not None
    assert knee.rate <= 600 < knee.unsustained_rate <= 1.1 * knee.rate


def test_no_rate_is_measured_where_no_query_has_a_term(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Failing(np.zeros(3, dtype=bool), tmp_path).sweep(monkeypatch) == ()
