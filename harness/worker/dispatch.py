"""Run a job in this process, whichever process that is: the worker's, or the harness's own.

The modules that do a job are imported when there is such a job: a worker loads only what its own job needs.
"""

from __future__ import annotations

import importlib
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from harness.data.filtering import Conditions
from harness.data.progress import Clock, Progress
from harness.store.record_files import is_saved, load, save
from harness.worker.failure import harness_error
from harness.worker.jobs import (
    FILTER_COLUMN,
    AnalysedTexts,
    AnalyseJob,
    AskJob,
    ChurnJob,
    ClientJob,
    DenseSearchJob,
    EncodeJob,
    EncodingRecord,
    ExplainJob,
    Identity,
    IdentityJob,
    RerankJob,
    SparseSearchJob,
    TrialJob,
    TrialRecord,
)

_BATCH = 2000
"""Documents that are analysed at a time."""
_POLL_S = 0.05


class JobEvents(NamedTuple):
    """Calls with which a job reports more than its progress.

    Attributes:
        before_open: called when everything but the engine is in memory.
        waiting: called when a trial begins to keep a server's index open for clients, until its ``release`` file
            exists.
        resumed: called when it goes on: the time since ``waiting`` is not the trial's.
    """

    before_open: Callable[[], None] = lambda: None
    waiting: Callable[[], None] = lambda: None
    resumed: Callable[[], None] = lambda: None


_NO_EVENTS = JobEvents()


class _Context(NamedTuple):
    """Arguments that all jobs share."""

    folder: Path
    progress: Progress
    clock: Clock
    events: JobEvents


def run_job(
    folder: Path, progress: Progress, events: JobEvents = _NO_EVENTS, *, clock: Clock = time.perf_counter_ns
) -> None:
    """Run the job that is saved in ``folder``, and save its result there.

    Raises HarnessError and nothing else, see :func:`harness.worker.failure.harness_error`.
    """
    try:
        kind = job_class(folder)
        save(folder, _RUNNERS[kind](load(folder, kind), _Context(folder, progress, clock, events)))
    except Exception as error:
        reported = harness_error(error, folder)
        if reported is error:
            raise
        raise reported from error


def job_class(folder: Path) -> type[Any]:
    """Return the class of the job that is saved in ``folder``."""
    return next(kind for kind in _RUNNERS if is_saved(folder, kind))


def _analyse(job: AnalyseJob, context: _Context) -> AnalysedTexts:
    """Count the terms of documents and queries, and store them; the analyzer may need a JVM."""
    from harness.store.columns import load_table
    from harness.text import count_terms, create_analyzer, save_counts

    table, queries = load_table(job.corpus), load_table(job.queries).column("text")
    columns = [table.column(name) for name in job.fields or ("text",)]
    batches = (column.slice(start, _BATCH) for column in columns for start in range(0, len(column), _BATCH))
    analyzer = create_analyzer(job.analyzer, heap=job.heap, jar=job.jar)
    started = context.clock()
    counts = count_terms(
        analyzer, batches, queries.to_pylist(), context.progress, total=len(table) * len(columns), folder=job.target
    )
    if job.fields:
        from harness.text.field_counts import join_fields

        counts = join_fields(counts, job.fields)
    save_counts(job.target, counts)
    return AnalysedTexts(context.clock() - started)


def _ask(job: AskJob, context: _Context) -> object:
    """Query a user's callable here: only this process is affected if it prints, allocates or never returns."""
    from harness.engines.callable.answers import ask
    from harness.engines.callable.python_callable import load_retriever
    from harness.store.columns import load_table

    questions = load_table(job.questions)
    filters: list[Conditions] = []
    if FILTER_COLUMN in questions.column_names:
        filters = [orjson.loads(text) for text in questions.column(FILTER_COLUMN).to_pylist()]
    filtered, required = bool(filters), job.filters_required
    content = job.content
    with load_retriever(
        job.target, job.framework, job.id_key, content, filtered=filtered, required=required
    ) as backend:
        return ask(
            backend,
            questions.column("text").to_pylist(),
            job.k,
            repeats=job.repeats,
            warm_up=job.warm_up,
            deadline_s=None,  # the executor's
            clock=context.clock,
            progress=context.progress,
            filters=filters,
        )


def _encode(job: EncodeJob, context: _Context) -> EncodingRecord:
    """Encode every part with one model, into its target; the model may need torch, and may die of it."""
    from harness.encoders.embeddings_endpoint import EndpointModel, Spent
    from harness.encoders.prompts import applied_prompt
    from harness.encoders.settings import Settings
    from harness.encoders.sources import create_model
    from harness.encoders.stream import encode_into
    from harness.engines.mapped_inputs import load_inputs

    settings = Settings.of(job.encoder, job.parameters)
    context.progress.start("load model", None)
    model = create_model(settings)
    rows: Counter[str] = Counter()
    chunks = 0
    for part in job.parts:
        texts = load_inputs(part.texts, (), part.role)
        done = encode_into(
            part.target,
            texts.slice(part.start, len(texts) if part.stop is None else part.stop),
            part.role,
            settings,
            model,
            prompt=applied_prompt(settings, part.role).text,
            progress=context.progress,
            clock=context.clock,
        )
        rows[part.role] += done.rows
        chunks += done.chunks
    spent = model.spent if isinstance(model, EndpointModel) else Spent()
    return EncodingRecord(rows, chunks, *spent)


def _rerank(job: RerankJob, context: _Context) -> object:
    """Score pairs with a model."""
    from harness.rerank.rerankers import create_reranker
    from harness.rerank.stage import Candidates, ScoreCache, score_candidates
    from harness.store.cache import Cache
    from harness.store.columns import load_table

    reranker = create_reranker(job.reranker, job.parameters)
    queries, documents = (load_table(path).column("text") for path in (job.queries, job.corpus))
    candidates = Candidates(queries, documents, job.query_rows, job.document_rows)
    cache = ScoreCache(Cache(job.cache), job.reranker, reranker.identity())
    return score_candidates(reranker, candidates, cache, context.progress, context.clock)


def _identify(job: IdentityJob, _: _Context) -> object:
    module, _colon, name = job.engine.partition(":")
    identity = getattr(importlib.import_module(module), name).identity(job.parameters)
    return Identity({str(key): str(value) for key, value in identity.items()})


def _search(job: TrialJob, context: _Context) -> object:
    from harness.worker.trial import run_trial

    hold = partial(_hold_open, job, context) if job.release is not None else None
    return run_trial(job, context.progress, context.clock, before_open=context.events.before_open, before_close=hold)


def _explain(job: ExplainJob, context: _Context) -> object:
    from harness.worker.trial import explain_scores

    return explain_scores(job, context.progress, context.clock)


def _hold_open(job: TrialJob, context: _Context, record: TrialRecord) -> None:
    """Keep a server's index for later clients, and leave them the answers to compare with their own."""
    if job.release is None or not record.engine.is_server:
        return
    save(context.folder, record)
    context.events.waiting()
    while not job.release.exists():
        time.sleep(_POLL_S)
    context.events.resumed()
    context.progress.start("close", None)


def _measure(job: ClientJob, context: _Context) -> object:
    from harness.worker.load_client import run_client

    return run_client(job, context.progress, context.clock, time.sleep, before_open=context.events.before_open)


def _churn(job: ChurnJob, context: _Context) -> object:
    from harness.worker.churn import run_churn

    return run_churn(job, context.progress, context.clock, before_open=context.events.before_open)


def _search_exactly(job: SparseSearchJob | DenseSearchJob, context: _Context) -> object:
    from harness.worker.exact_search import search

    return search(job, context.progress)


_RUNNERS: Mapping[type, Callable[..., object]] = {
    AnalyseJob: _analyse,
    AskJob: _ask,
    ChurnJob: _churn,
    ClientJob: _measure,
    DenseSearchJob: _search_exactly,
    EncodeJob: _encode,
    ExplainJob: _explain,
    IdentityJob: _identify,
    RerankJob: _rerank,
    SparseSearchJob: _search_exactly,
    TrialJob: _search,
}
"""The function that runs a job of each class, and returns the record that is saved as its result."""
