"""Queries to Qdrant one after the other, or several in one call, each timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.data.inputs import Inputs
from harness.data.progress import Clock
from harness.data.types import Float32Array, Int32Array
from harness.engines.hits import HitCollector
from harness.engines.interface import SearchResult
from harness.engines.qdrant.points import Vectors, query_of
from harness.engines.qdrant.store import BatchingStore, QdrantStore

__all__ = ["Ask", "search_in_batches", "search_one_by_one"]

Columns = Callable[[Sequence[Any]], tuple[Int32Array, Float32Array]]
"""Rows and scores of the client's hits."""
Ask = Callable[[Vectors, int], Any]
"""The vectors of a query, and how many hits it may have, to a query in the client's own form."""


def search_one_by_one(
    store: QdrantStore, queries: Inputs, limit: int, clock: Clock, columns: Columns, ask: Ask
) -> SearchResult:
    """One call for each query that has a vector."""
    collector, repeated = HitCollector(len(queries)), store.repeated
    query = 0
    with store.translated(lambda: f"searching for query '{queries.ids[query]}'"):
        for query in range(len(queries)):
            request = _request(ask, queries, query, limit)
            started = clock()
            hits = store.query(request) if request is not None else []
            searched = clock()
            rows, scores = columns(hits)
            del hits  # freed here: the next query's hits would be made beside them, and they be freed in its time
            collector.add(rows, scores, searched - started, clock() - searched)
    return collector.result(repeated_calls=store.repeated - repeated)


def search_in_batches(
    store: BatchingStore, queries: Inputs, limit: int, size: int, clock: Clock, columns: Columns, ask: Ask
) -> SearchResult:
    """Every call answers up to ``size`` queries; each of them is given an equal share of the call's time."""
    collector, repeated = HitCollector(len(queries)), store.repeated
    for start in range(0, len(queries), size):
        stop = min(start + size, len(queries))
        requests = [_request(ask, queries, query, limit) for query in range(start, stop)]
        sent = [request for request in requests if request is not None]
        last = queries.ids[stop - 1]
        with store.translated(lambda: f"searching for queries '{queries.ids[start]}' to '{last}'"):  # noqa: B023 - used inside
            started = clock()
            answers = iter(store.query_batch(sent) if sent else [])
            searched = clock()
        found = [columns(next(answers) if request is not None else []) for request in requests]
        transferred = clock() - searched
        for rows, scores in found:
            collector.add(rows, scores, (searched - started) // len(found), transferred // len(found))
    return collector.result(repeated_calls=store.repeated - repeated, queries_per_call=size)


def _request(ask: Ask, queries: Inputs, query: int, limit: int) -> Any:  # noqa: ANN401
    """A query in the client's own form; None for one without a vector."""
    vectors = query_of(queries, query)
    return ask(vectors, limit) if vectors else None
