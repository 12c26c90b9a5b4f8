"""One trial: one engine indexes the documents and searches the queries. Runs in a worker."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from itertools import chain, count
from typing import Any, NamedTuple

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids, Int32Array, Int64Array, gather, offsets_of
from harness.engines.interface import EngineInterface, Hits, IndexReport, ScoreTree, ScoreTrees, SearchResult
from harness.engines.mapped_inputs import load_inputs
from harness.errors import EngineFailureError
from harness.registry.cards import FIELDS
from harness.registry.parameters import ParameterValue
from harness.store.cpu_use import SHORTEST_S, CpuReading, OtherProcesses, other_processes, read_cpu
from harness.store.record_files import load
from harness.worker.attach import Ready, add_texts, attach, read_only
from harness.worker.candidate_hits import CandidateHits
from harness.worker.jobs import ExplainJob, QueryGroup, TrialJob, TrialRecord

_CHUNK = 32
_CHUNK_HITS = 1_000_000
"""Most hits of one call of several queries: 8 MB, if every document is requested and only candidates are kept."""
_NS_PER_S = 1e9
_SEVERAL = 2


def run_trial(
    job: TrialJob,
    progress: Progress,
    clock: Clock,
    *,
    before_open: Callable[[], None],
    before_close: Callable[[TrialRecord], None] | None = None,
) -> TrialRecord:
    """Open, index, warm up, search, measure, close; every failure leaves the engine closed.

    With ``job.external`` the user's index takes the place of opening and indexing, and its files are hashed around it.
    A shared index is closed when it is built, and opened again: all trials that search it find it in the same state.

    ``before_open`` is called when everything but the engine is in memory, ``before_close`` with the measurements while
    an index built here and not shared still exists. The first query on the fresh index is timed separately; then
    ``warm_up_queries`` run unmeasured, then every query ``repeats`` times, always in the same order.
    """
    started = read_cpu()
    documents, queries = load_both(job)
    candidate_hits = (
        CandidateHits.load(job.candidates, queries.ids, documents.ids) if job.candidates is not None else None
    )
    engine = create_engine(job)
    before_open()
    if job.external:
        with read_only(engine, job, progress) as files, closing(engine):
            ready = attach(engine, job, documents, queries, files, progress, clock)
            if job.filters:
                engine.restrict(job.filters[0].conditions)
            record = _measure(engine, ready, job, queries, candidate_hits, progress, clock, started)
            ready.require_unchanged()
            return record
    report = load(job.built, TrialRecord).index if job.built is not None else None
    if report is None:
        with closing(engine):
            ready = _open(engine, job, documents, progress, clock)
            if not job.shared:
                record = _measure(engine, ready, job, queries, candidate_hits, progress, clock, started)
                if before_close is not None:
                    before_close(record)
                return record
            report = ready.report
        engine = create_engine(job)
    with closing(engine):
        ready = _open(engine, job, documents, progress, clock, report)
        return _measure(engine, ready, job, queries, candidate_hits, progress, clock, started)


def explain_scores(job: ExplainJob, progress: Progress, clock: Clock) -> ScoreTrees:
    """Index the documents, or attach to the user's index, and return the engine's own explanation of some scores."""
    trial = job.trial
    documents, queries = load_both(trial)
    engine = create_engine(trial)
    with read_only(engine, trial, progress) if trial.external else nullcontext(), closing(engine):
        if trial.external:
            ids = engine.attach(trial.index_folder, progress).ids
            for group in trial.filters:
                engine.restrict(group.conditions)
        else:
            _open(engine, trial, documents, progress, clock)
            ids = documents.ids
        rows = ids.rows_of(Ids.of(job.documents))
        present = rows >= 0
        answer = engine.explain(queries.slice(job.query, job.query + 1), rows[present])
    if not all(tree is None or _is_finite(tree) for tree in answer.trees):
        raise EngineFailureError("the engine explained a score by a number that is NaN or infinite")
    trees = iter(answer.trees)
    return replace(answer, trees=tuple(next(trees, None) if has_row else None for has_row in present.tolist()))


def _is_finite(tree: ScoreTree) -> bool:
    return bool(np.isfinite(tree.value)) and all(map(_is_finite, tree.details))


def _open(
    engine: EngineInterface,
    job: TrialJob,
    documents: Inputs,
    progress: Progress,
    clock: Clock,
    built: IndexReport | None = None,
) -> Ready:
    """Open the engine, and index the documents unless they are ``built`` already."""
    started = clock()
    info = engine.open(job.index_folder, documents.ids)
    opened = clock()
    report = engine.index(documents, progress, clock) if built is None else built
    if job.filters:
        engine.restrict(job.filters[0].conditions)
    return Ready(info, opened - started, report, len(documents))


def _other_processes(start: CpuReading, searching: CpuReading, *, server: bool) -> tuple[OtherProcesses, ...]:
    """Return other processes' use while documents were indexed, and while queries were searched until now.

    Searches that were too short to measure are combined with all phases before.
    """
    end = read_cpu()
    indexing = other_processes("indexing", start, searching, server=server)
    begin = start if end.clock_s - searching.clock_s < SHORTEST_S else searching
    return (indexing, other_processes("search", begin, end, server=server))


def _measure(
    engine: EngineInterface,
    ready: Ready,
    job: TrialJob,
    queries: Inputs,
    candidate_hits: CandidateHits | None,
    progress: Progress,
    clock: Clock,
    started: CpuReading,
) -> TrialRecord:
    searching = read_cpu()
    first = engine.search(queries.slice(0, 1), job.k, clock)
    progress.start("warm-up", job.warm_up_queries)
    warming = clock()
    warmed = warm_up(engine, queries, ready.documents, job, progress, clock)
    warm = clock()
    progress.start("search", len(queries) * job.repeats)
    if candidate_hits is not None and ready.external is not None:
        candidate_hits = replace(candidate_hits, rows=ready.external.rows)
    passes = [
        search_all(engine, queries, ready.documents, job.k, progress, clock, candidate_hits, job.filters)
        for _ in range(job.repeats)
    ]
    other_use = _other_processes(started, searching, server=ready.info.is_server)
    external = ready.external
    if external is not None:
        external = add_texts(engine, external, passes[0], matched=job.content.texts)
    lists, remeasured = dict[str, Hits](), dict[str, Hits]()
    if queries.dense is not None:  # engines that compare dense vectors
        lists |= _lists(engine, queries, job, lambda part: engine.lists(part, job.k, clock))
        remeasured |= _lists(engine, queries, job, lambda part: engine.remeasured(part, job.k))
    if len(job.filters) >= _SEVERAL:  # state and caveats are of filtered searches
        engine.restrict(next(group.conditions for group in job.filters if group.conditions))
    return TrialRecord(
        engine=ready.info,
        input=engine.capabilities.reads(external=job.external),
        open_ns=ready.open_ns,
        index=replace(ready.report, state=plain_state(engine, ready.report, job.k)),
        storage=engine.storage(),
        hits=passes[0]._replace(repeated_calls=sum(one_pass.repeated_calls for one_pass in passes)),
        search_ns=np.stack([one_pass.search_ns for one_pass in passes]),
        transfer_ns=np.stack([one_pass.transfer_ns for one_pass in passes]),
        first_query_ns=int(first.search_ns[0]),
        k=job.k,
        warm_up_queries=warmed,
        warm_up_ns=warm - warming,
        external=external,
        lists=lists,
        caveats=engine.caveats(job.k),
        compared=engine.compared_vectors(queries) if queries.dense is not None else None,
        remeasured=remeasured,
        placement=None if job.external else engine.placement(),
        other_processes=other_use,
    )


def plain_state(engine: EngineInterface, report: IndexReport, k: int) -> dict[str, ParameterValue]:
    """Return the index's state during these searches; NaN and infinite numbers, which JSON lacks, as text.

    NumPy's numbers become Python's.
    """
    stated = {**report.state, **engine.searched_state(k)}
    state = {name: value.item() if isinstance(value, np.generic) else value for name, value in stated.items()}
    finite = {name: not isinstance(value, float) or np.isfinite(value) for name, value in state.items()}
    return {name: value if finite[name] else str(value) for name, value in state.items()}


def load_both(job: TrialJob) -> tuple[Inputs, Inputs]:
    """Load the documents, with the fields to filter by, and the queries of a job."""
    shared: Mapping[str, Any] = {"dimensions": job.dimensions, "term_texts": job.term_texts}
    documents = load_inputs(job.corpus, job.document_vectors, "documents", metadata=job.metadata, **shared)
    if job.fields is not None and job.term_texts is None:
        from harness.engines.mapped_inputs import with_fields

        documents = with_fields(documents, job.fields, str(job.parameters[FIELDS]))
    return documents, load_inputs(job.queries, job.query_vectors, "queries", **shared)


def create_engine(job: TrialJob) -> EngineInterface:
    """Create the engine that the job names, not yet open; raises EngineFailureError for another object."""
    module, _, name = job.engine.partition(":")
    engine = getattr(importlib.import_module(module), name)(job.parameters)
    if not isinstance(engine, EngineInterface):
        raise EngineFailureError(
            f"'{job.engine}' is not an engine: it does not subclass harness.engines.base.Engine",
            fix="run the contract suite of harness.testing against it",
        )
    return engine


def warm_up(
    engine: EngineInterface, queries: Inputs, documents: int, job: TrialJob, progress: Progress, clock: Clock
) -> int:
    """Run all queries repeatedly until enough have run or the time is over; return the number that ran."""
    started, done = clock(), 0
    if not len(queries):
        return done
    parts = chain.from_iterable(_parts(engine, queries, job.filters, _chunk(job.k)) for _ in count())
    while done < job.warm_up_queries and clock() - started < job.warm_up_seconds * _NS_PER_S:
        part = next(parts).queries.slice(0, job.warm_up_queries - done)
        search_all(engine, part, documents, job.k, progress, clock)
        done += len(part)
    return done


def search_all(
    engine: EngineInterface,
    queries: Inputs,
    documents: int,
    k: int,
    progress: Progress,
    clock: Clock,
    candidate_hits: CandidateHits | None = None,
    groups: Sequence[QueryGroup] = (),
) -> SearchResult:
    """Search every query once, a few to a call; raises EngineFailureError for an answer that cannot be one.

    Of each call's hits only hits among the candidates are kept, if there are any. Queries with several filters are
    searched group by group: the filter is set between the calls, outside the time of any query.
    """
    results = []
    for part, rows in _parts(engine, queries, groups, _chunk(k)):
        result = _checked(engine.search(part, k, clock), len(part), documents, k)
        results.append(result if candidate_hits is None else candidate_hits.of(result, rows))
        progress.advance(len(part))
    joined = results[0] if len(results) == 1 else _join(results)
    return joined if len(groups) < _SEVERAL else _reordered_by_query(joined, groups)


class _Part(NamedTuple):
    """Queries of one call, and their numbers."""

    queries: Inputs
    rows: Int32Array


def _parts(engine: EngineInterface, queries: Inputs, groups: Sequence[QueryGroup], size: int) -> Iterator[_Part]:
    """Yield the queries, at most ``size`` at once, those of a group together and after its filter was set.

    A filter that all queries share was set when the index was opened.
    """
    if len(groups) < _SEVERAL:
        for start in range(0, len(queries), size):
            part = queries.slice(start, start + size)
            yield _Part(part, np.arange(start, start + len(part), dtype=np.int32))
        return
    for group in groups:
        engine.restrict(group.conditions)
        for start in range(0, len(group.rows), size):
            rows = group.rows[start : start + size]
            yield _Part(queries.take(rows), rows)


def _lists(
    engine: EngineInterface, queries: Inputs, job: TrialJob, search: Callable[[Inputs], Mapping[str, Hits]]
) -> Mapping[str, Hits]:
    """Return the lists of an engine that compares dense vectors, in the order of the queries."""
    if len(job.filters) < _SEVERAL:
        return search(queries)
    parts = [search(part) for part, _ in _parts(engine, queries, job.filters, len(queries))]
    order = _order(job.filters)
    return {name: hits_in_order([part[name] for part in parts], order) for name in parts[0]}


def _order(groups: Sequence[QueryGroup]) -> Int64Array:
    """Return the position of each query in the sequence of all groups, int64 (Q,)."""
    order: Int64Array = np.argsort(np.concatenate([group.rows for group in groups]), kind="stable")
    return order


def _reordered_by_query(result: SearchResult, groups: Sequence[QueryGroup]) -> SearchResult:
    """Return results of one group after the other in the order of the queries."""
    order = _order(groups)
    hits = hits_in_order([Hits(result.indptr, result.rows, result.scores)], order)
    return result._replace(
        indptr=hits.indptr,
        rows=hits.rows,
        scores=hits.scores,
        search_ns=result.search_ns[order],
        transfer_ns=result.transfer_ns[order],
    )


def hits_in_order(parts: Sequence[Hits], order: Int64Array) -> Hits:
    """Return the hits of consecutive parts of the queries, in another ``order`` of all of these."""
    indptr = offsets_of(np.concatenate([np.diff(part.indptr) for part in parts]))
    rows, scores = (np.concatenate([part[column] for part in parts]) for column in (1, 2))
    offsets, positions = gather(indptr, order)
    return Hits(offsets, rows[positions], scores[positions])


def _chunk(k: int) -> int:
    return int(np.clip(_CHUNK_HITS // k, 1, _CHUNK))


def _checked(result: SearchResult, queries: int, documents: int, k: int) -> SearchResult:
    lengths = np.diff(result.indptr)
    if len(lengths) != queries or lengths.min() < 0 or result.indptr[-1] != len(result.rows):
        raise EngineFailureError(f"the engine answered {len(lengths)} of {queries} queries or with broken offsets")
    if len(result.rows) and not 0 <= int(result.rows.min()) <= int(result.rows.max()) < documents:
        raise EngineFailureError(f"the engine returned a row outside the {documents} documents")
    if lengths.max() > k:
        raise EngineFailureError(f"the engine returned {lengths.max()} hits, and {k} were requested")
    return result


def _join(parts: list[SearchResult]) -> SearchResult:
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return SearchResult(np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32), nothing, nothing)
    return SearchResult(
        indptr=offsets_of(np.concatenate([np.diff(part.indptr) for part in parts])),
        rows=np.concatenate([part.rows for part in parts]),
        scores=np.concatenate([part.scores for part in parts]),
        search_ns=np.concatenate([part.search_ns for part in parts]),
        transfer_ns=np.concatenate([part.transfer_ns for part in parts]),
        repeated_calls=sum(part.repeated_calls for part in parts),
        queries_per_call=max(part.queries_per_call for part in parts),
    )
