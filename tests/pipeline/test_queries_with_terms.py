"""A query without terms, which no client sends, is no sample of any measurement."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from harness.pipeline.probes.load import closed_loops, loads_with_terms, open_loops
from harness.pipeline.probes.load_runs import LoadRecord
from harness.stats.timing import Samples

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
    short = replace(load("open"), due_ns=load("open").due_ns[:0], samples=load("open").samples.where(np.zeros(6, bool)))
    (nothing,) = open_loops([short])
    assert (nothing.queries, nothing.due_qps, nothing.qps, nothing.milliseconds) == (0, 0.0, None, None)


def test_without_any_query_with_terms_there_is_no_measurement() -> None:
    assert loads_with_terms([load("open")], np.zeros(3, dtype=bool)) == ()
