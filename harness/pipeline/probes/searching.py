"""The probe of searching: latency and throughput of one client on the warm index, and the queries sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.data.dataset import Dataset
from harness.data.types import Run
from harness.document.cells import BACKEND, absent, latencies, latency_columns, milliseconds, number
from harness.document.model import Cell, Column, Table
from harness.engines.callable.answers import AnsweredQueries
from harness.pipeline.probes.probe import Probe, label_cell, latency_stats
from harness.plan.plan import Plan
from harness.results.schema import TrialResult
from harness.results.schema_costs import SearchStats
from harness.results.scored import ScoredTrial, has_terms

_NS_PER_S = 1e9


class SearchingProbe(Probe[None]):
    """Sum up the records that every trial's worker makes of its searches."""

    name = "searching"
    fields = frozenset({"search"})

    def summarise(self, scored: ScoredTrial, dataset: Dataset, plan: Plan) -> Mapping[str, object]:
        """Return the field ``search``; without times unless the plan took them."""
        queries, run = scored.outcome.answers, scored.outcome.run
        if queries is not None and run is not None:
            return {"search": answered_search(queries, run, plan.request.k, timed=plan.request.timing)}
        record = scored.timed_record()
        if record is None:
            return {}
        terms, timed = has_terms(scored.outcome.vectors, len(dataset.queries)), plan.request.timing
        total_ns = int(record.search_ns.sum() + record.transfer_ns.sum())
        per_second = record.search_ns.size / (total_ns / _NS_PER_S) if total_ns > 0 else 0.0
        measured = timed and record.search_ns.size > 0
        search = SearchStats(
            queries=len(terms),
            queries_without_terms=int(np.count_nonzero(~terms)),
            k=record.k,
            repeats=len(record.search_ns),
            concurrency=1,
            milliseconds=latency_stats(record.search_ns) if measured else None,
            transfer_ms=latency_stats(record.transfer_ns) if measured else None,
            qps=per_second if measured else None,
            first_query_ms=record.first_query_ns / 1e6 if timed and terms[:1].all() else None,
            warm_up_queries=record.warm_up_queries,
            hits=len(record.hits.rows),
            queries_without_hits=int(np.count_nonzero(np.diff(record.hits.indptr) == 0)),
            repeated_calls=record.hits.repeated_calls,
            queries_per_call=record.hits.queries_per_call,
        )
        return {"search": search}

    def tables(self, trials: Sequence[TrialResult], cores: int) -> list[Table]:
        """Tabulate latency and throughput."""
        return [_search_table(trials)]


def answered_search(queries: AnsweredQueries, run: Run, k: int, *, timed: bool) -> SearchStats:
    """Describe how a function or an endpoint was queried; a call includes its answer, so transfer is not separate."""
    answered = queries.search_ns[queries.search_ns >= 0]
    return SearchStats(
        queries=len(queries.answers),
        queries_without_terms=0,
        k=k,
        repeats=len(queries.search_ns),
        concurrency=1,
        milliseconds=latency_stats(answered) if timed else None,
        transfer_ms=None,
        qps=None,
        first_query_ms=None,
        warm_up_queries=0,
        hits=run.hits,
        queries_without_hits=int(np.count_nonzero(np.diff(run.indptr) == 0)),
        repeated_calls=queries.repeated,
        queries_per_call=1,
    )


def _search_table(trials: Sequence[TrialResult]) -> Table:
    searched = [(trial, trial.search) for trial in trials if trial.search is not None]
    columns = [
        BACKEND,
        *latency_columns(),
        Column("transfer p50 ms"),
        Column("queries/s", best="highest", timed=True),
        Column("first query ms"),
    ]
    rows = [[label_cell(trial), *_search_cells(search)] for trial, search in searched]
    timed = any(search.milliseconds is not None for _, search in searched)
    return Table("Search, one client", columns, rows if timed else [], detail=True)


def _search_cells(search: SearchStats) -> list[Cell]:
    if search.milliseconds is None:
        return absent(7)
    return [
        *latencies(search.milliseconds),
        milliseconds(search.transfer_ms.p50 if search.transfer_ms is not None else None),
        number(search.qps, ",.0f"),
        number(search.first_query_ms, ".2f"),
    ]
