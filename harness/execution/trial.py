"""One trial: one engine indexes the documents and searches the queries. Runs in a worker."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from harness.columns import load_sparse, load_table
from harness.errors import EngineFailureError
from harness.execution.jobs import TrialJob, TrialRecord
from harness.protocols import Clock, Engine, Inputs, Progress, SearchResult
from harness.types import Ids, Int64Array, SparseVectors

__all__ = ["load_inputs", "run_trial"]

_CHUNK = 32
_NS_PER_S = 1e9


def run_trial(job: TrialJob, progress: Progress, clock: Clock, *, before_open: Callable[[], None]) -> TrialRecord:
    """Open, index, warm up, search, measure, close; every failure leaves the engine closed.

    ``before_open`` is called when everything but the engine is in memory. The first query on the fresh index is timed
    on its own; then ``warm_up_queries`` run unmeasured, then every query ``repeats`` times, always in the same order.
    """
    documents = load_inputs(Path(job.corpus), job.vectors, "documents")
    queries = load_inputs(Path(job.queries), job.vectors, "queries")
    engine = _create(job)
    before_open()
    try:
        info = engine.open(Path(job.index_folder), documents.ids)
        report = engine.index(documents, progress, clock)
        first = engine.search(_part(queries, 0, 1), job.k, clock)
        progress.start("warm-up", job.warm_up_queries)
        warmed = _warm_up(engine, queries, len(documents), job, progress, clock)
        progress.start("search", len(queries) * job.repeats)
        passes = [_search(engine, queries, len(documents), job.k, progress, clock) for _ in range(job.repeats)]
        return TrialRecord(
            engine=info,
            index=report,
            storage=engine.storage(),
            hits=passes[0],
            search_ns=np.stack([one.search_ns for one in passes]),
            transfer_ns=np.stack([one.transfer_ns for one in passes]),
            first_query_ns=int(first.search_ns[0]),
            k=job.k,
            warm_up_queries=warmed,
        )
    finally:
        engine.close()


def load_inputs(table: Path, vectors: str | None, name: str) -> Inputs:
    """Documents or queries as engines take them, memory-mapped."""
    columns = load_table(table)
    ids = Ids(columns.column("id").combine_chunks())
    return Inputs(ids, columns.column("text"), load_sparse(Path(vectors), name) if vectors is not None else None)


def _create(job: TrialJob) -> Engine:
    module, _, name = job.engine.partition(":")
    engine = getattr(importlib.import_module(module), name)(job.parameters)
    if not isinstance(engine, Engine):
        raise EngineFailureError(
            f"'{job.engine}' is not an engine: it lacks a method of harness.protocols.Engine",
            fix="run the contract suite of harness.testing against it",
        )
    return engine


def _warm_up(engine: Engine, queries: Inputs, documents: int, job: TrialJob, progress: Progress, clock: Clock) -> int:
    """All queries, again and again, until enough have run or the time is over; the number that ran."""
    started, done = clock(), 0
    while done < job.warm_up_queries and clock() - started < job.warm_up_seconds * _NS_PER_S:
        start = done % len(queries)
        part = _part(queries, start, start + min(_CHUNK, job.warm_up_queries - done))
        _search(engine, part, documents, job.k, progress, clock)
        done += len(part)
    return done


def _search(engine: Engine, queries: Inputs, documents: int, k: int, progress: Progress, clock: Clock) -> SearchResult:
    parts = []
    for start in range(0, len(queries), _CHUNK):
        part = _part(queries, start, start + _CHUNK)
        parts.append(_checked(engine.search(part, k, clock), len(part), documents, k))
        progress.advance(len(part))
    return _join(parts)


def _checked(result: SearchResult, queries: int, documents: int, k: int) -> SearchResult:
    lengths = np.diff(result.indptr)
    if len(lengths) != queries or lengths.min() < 0 or result.indptr[-1] != len(result.rows):
        raise EngineFailureError(f"the adapter answered {len(lengths)} of {queries} queries or with broken offsets")
    if len(result.rows) and not 0 <= int(result.rows.min()) <= int(result.rows.max()) < documents:
        raise EngineFailureError(f"the adapter returned a row outside the {documents} documents")
    if lengths.max() > k:
        raise EngineFailureError(f"the engine returned {lengths.max()} hits where {k} were asked for")
    return result


def _join(parts: list[SearchResult]) -> SearchResult:
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return SearchResult(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), nothing, nothing)
    lengths: Int64Array = np.concatenate([np.diff(part.indptr) for part in parts])
    return SearchResult(
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        rows=np.concatenate([part.rows for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
        search_ns=np.concatenate([part.search_ns for part in parts]),
        transfer_ns=np.concatenate([part.transfer_ns for part in parts]),
    )


def _part(inputs: Inputs, start: int, stop: int) -> Inputs:
    stop = min(stop, len(inputs))
    texts = inputs.texts.slice(start, stop - start) if inputs.texts is not None else None
    sparse = _rows(inputs.sparse, start, stop) if inputs.sparse is not None else None
    return Inputs(Ids(inputs.ids.values.slice(start, stop - start)), texts, sparse)


def _rows(vectors: SparseVectors, start: int, stop: int) -> SparseVectors:
    indptr = vectors.indptr[start : stop + 1]
    values = slice(int(indptr[0]), int(indptr[-1]))
    return SparseVectors(indptr - indptr[0], vectors.indices[values], vectors.values[values], vectors.dimensions)
