"""A query without terms, which no client sends, is no sample of any measurement."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from harness.engines.interface import EngineInfo, IndexReport, SearchResult, Storage
from harness.results.probe_results import closed_loops, open_loops, queries_with_terms
from harness.stats.timing import Samples
from harness.worker.jobs import LoadRecord, TrialRecord

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


def record(*loads: LoadRecord) -> TrialRecord:
    nothing = np.zeros(0, dtype=np.int32)
    search = np.array([[10, 0, 30], [20, 0, 40]], dtype=np.int64)
    hits = SearchResult(np.zeros(4, np.int64), nothing, np.zeros(0, np.float32), search[0], search[0])
    return TrialRecord(
        engine=EngineInfo("E", "1", "embedded"),
        input="sparse",
        open_ns=1,
        index=IndexReport(0, 0, nothing, 1, 1),
        storage=Storage(0, 0),
        hits=hits,
        search_ns=search,
        transfer_ns=search,
        first_query_ns=1,
        k=1,
        warm_up_queries=0,
        warm_up_ns=0,
        loads=loads,
    )


def test_times_and_rates_are_those_of_queries_with_terms() -> None:
    found = queries_with_terms(record(load("closed"), load("open")), TERMS)
    assert found.search_ns.tolist() == [[10, 30], [20, 40]]
    (closed,), (fixed,) = closed_loops(found.loads), open_loops(found.loads)
    assert closed.milliseconds is not None
    assert (closed.milliseconds.p50, closed.milliseconds.n) == (10.0, 4)
    assert closed.qps == pytest.approx(100, rel=1e-3)
    assert (fixed.queries, fixed.unserved, fixed.errors) == (4, 0, 0)
    assert fixed.service_ms is not None
    assert fixed.service_ms.n == 4


def test_where_all_queries_with_terms_failed_there_is_no_time() -> None:
    found = queries_with_terms(record(load("closed", answered=False)), TERMS)
    (closed,) = closed_loops(found.loads)
    assert (closed.milliseconds, closed.errors) == (None, 4)


def test_without_any_query_with_terms_there_is_no_measurement() -> None:
    found = queries_with_terms(record(load("open")), np.zeros(3, dtype=bool))
    assert (found.search_ns.shape, found.loads) == ((2, 0), ())
