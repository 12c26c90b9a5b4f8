"""Send every query to a user's function, retriever or endpoint, and make a run of its answers."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.filtering import Conditions
from harness.data.id_spelling import respelling
from harness.data.progress import Progress
from harness.data.types import DocumentContent, Float32Array, Ids, Queries, Run
from harness.engines.callable.answers import PLAIN, Answer, AnsweredQueries, HitContent, ask
from harness.engines.callable.http_endpoint import HttpBackend
from harness.engines.callable.python_callable import PythonBackend
from harness.errors import EngineFailureError, RankingError
from harness.plan.callables import CallableSpec
from harness.plan.config import RunOptions
from harness.store.columns import save_table
from harness.store.record_files import load, save
from harness.wording import counted
from harness.worker.executor import create_executor
from harness.worker.jobs import FILTER_COLUMN, AskJob


class SentFilters(NamedTuple):
    """The conditions of each query, none for a query without a filter.

    Unless they are ``required``, code that takes no filter is called without.
    """

    conditions: Sequence[Conditions]
    required: bool = True


def ask_callable(
    called: CallableSpec,
    queries: Queries,
    k: int,
    options: RunOptions,
    folder: Path,
    progress: Progress,
    *,
    max_calls: int | None = None,
    content: HitContent = PLAIN,
    filters: SentFilters | None = None,
) -> AnsweredQueries:
    """Send every query, ``options.repeat`` times.

    ``filters`` are sent with the queries, None without any.

    Code in Python runs in a worker, as an engine does. An endpoint is called from this process, and so is a
    function that was given as an object. ``folder`` is the job's own. ``max_calls``
    limits the calls of an endpoint. ``content`` is the content of hits that is matched besides their ids.

    Raises:
        HarnessError: It cannot be imported, called or reached, dies, or takes longer than the deadline. A query that
            fails raises nothing: its answer says why.
    """
    if called.http is None and called.function is None:
        file = folder / "queries.arrow"
        columns = {"id": queries.ids.values, "text": queries.texts}
        if filters is not None:
            texts = (orjson.dumps(dict(conditions)).decode() for conditions in filters.conditions)
            columns[FILTER_COLUMN] = strings(texts)
        save_table(file, pa.table(columns))
        repeats, warm_up, required = options.repeat, options.warms_up, filters is None or filters.required
        job = AskJob(called.target, file, k, repeats, warm_up, called.framework, called.id_key, content, required)
        save(folder, job)
        create_executor(options).run(folder, progress)
        return load(folder, AnsweredQueries)
    if called.http is not None:
        limits = replace(called.http.limits, max_calls=max_calls)
        backend: HttpBackend | PythonBackend = HttpBackend(replace(called.http, limits=limits), content=content)
    elif called.function is not None:
        filtered, required = filters is not None, filters is None or filters.required
        backend = PythonBackend(called.function, called.target, content=content, filtered=filtered, required=required)
    with contextlib.redirect_stdout(sys.stderr), backend:  # a function's prints are not the result
        return ask(
            backend,
            queries.texts.to_pylist(),
            k,
            repeats=options.repeat,
            warm_up=options.warms_up,
            deadline_s=options.deadline,
            clock=time.perf_counter_ns,
            progress=progress,
            filters=filters.conditions if filters is not None else (),
        )


def run_of_answers(query_ids: Ids, answers: Sequence[Answer], k: int, expected: Iterable[str] = ()) -> Run:
    """Return answers as a run: each document at its first position, at most ``k`` of them.

    Ids without scores are scored by minus their position, and scores that rise in every list are taken for distances:
    their negative is kept. The documents are those that were found, and the ``expected`` documents: a backend that
    finds none of these has a run of the same collection in which everything is missed. Texts and values that hits have
    are the content of the documents; of several, a document has the first.
    """
    distinct_ids = [list(dict.fromkeys(answer.ids))[:k] for answer in answers]
    scores = [_scores(answer, hits) for answer, hits in zip(answers, distinct_ids, strict=True)]
    if _rise(scores):
        scores = [0.0 - values for values in scores]
    doc_ids = Ids.of(dict.fromkeys([*(doc_id for hits in distinct_ids for doc_id in hits), *expected]))
    row_of = {doc_id: row for row, doc_id in enumerate(doc_ids)}
    return Run(
        query_ids=query_ids,
        doc_ids=doc_ids,
        indptr=np.cumsum([0, *map(len, distinct_ids)], dtype=np.int64),
        rows=np.array([row_of[doc_id] for hits in distinct_ids for doc_id in hits], dtype=np.int32),
        scores=np.concatenate([*scores, np.empty(0, dtype=np.float32)]),
        content=_content(doc_ids, answers),
    )


def _content(doc_ids: Ids, answers: Sequence[Answer]) -> DocumentContent:
    texts, values = dict[str, str](), dict[str, str]()
    for answer in answers:
        for column, by_id in ((answer.texts, texts), (answer.values, values)):
            for doc_id, value in zip(answer.ids, column, strict=False):  # an empty column was not requested
                if value is not None:
                    by_id.setdefault(doc_id, value)
    text_column, value_column = (
        pa.chunked_array([strings(by_id.get(doc_id) for doc_id in doc_ids)]) for by_id in (texts, values)
    )
    return DocumentContent(value_column, text_column)


def taken_for_distances(answers: Sequence[Answer], k: int) -> bool:
    """Return whether the first ``k`` scores rise in every list if they change, so that a run keeps their negative."""
    return _rise([_scores(answer, list(dict.fromkeys(answer.ids))[:k]) for answer in answers])


def _rise(scores: Sequence[Float32Array]) -> bool:
    steps = np.concatenate([np.empty(0, dtype=np.float32), *map(np.diff, scores)])
    return bool((steps > 0).any() and not (steps < 0).any())


def _scores(answer: Answer, hits: Sequence[str]) -> Float32Array:
    if answer.scores is None:
        return -np.arange(len(hits), dtype=np.float32)
    first: dict[str, float] = {}
    for doc_id, score in zip(answer.ids, answer.scores, strict=True):
        first.setdefault(doc_id, score)
    return np.array([first[doc_id] for doc_id in hits], dtype=np.float32)


def require_rankings(outcome: AnsweredQueries, run: Run, documents: Ids) -> None:
    """Refuse answers that a comparison cannot score; a check's preflight reports more about them.

    Args:
        outcome: The answers, with the times of every pass.
        run: The run made of them, its queries in their order.
        documents: The dataset's documents.

    Raises:
        EngineFailureError: A query failed in some pass, or no query has a hit: that is not a 0.0.
        RankingError: No hit is a document of the dataset, a document is ranked twice, or hits are not in the order of
            their scores.
    """
    query_ids = run.query_ids
    failed = np.flatnonzero((outcome.search_ns < 0).any(axis=0)).tolist()
    if failed:
        reasons = [reason for query in failed if (reason := outcome.answers[query].failure) is not None]
        raise EngineFailureError(
            f"{len(failed):,} of {counted(len(query_ids), 'query')} failed, query '{query_ids[failed[0]]}' first: "
            + (reasons[0] if reasons else "it was answered in an earlier pass"),
            fix="correct the backend: a query without an answer cannot be scored",
        )
    if not run.hits:
        raise EngineFailureError(
            f"none of {counted(len(query_ids), 'query')} got a hit", fix="look whether it searches anything at all"
        )
    returned = run.doc_ids.take(np.unique(run.rows))
    if not (documents.rows_of(Ids.of(returned)) >= 0).any():
        spelling = respelling(returned, documents)
        raise RankingError(
            f"none of its documents is in the dataset: it has '{run.doc_ids[int(run.rows[0])]}', the dataset "
            f"'{documents[0]}'{f'; {spelling}' if spelling is not None else ''}",
            fix="return the ids of the dataset's documents",
        )
    for query_id, answer in zip(query_ids, outcome.answers, strict=True):
        if len(set(answer.ids)) < len(answer.ids):
            twice = next(doc_id for position, doc_id in enumerate(answer.ids) if doc_id in answer.ids[:position])
            raise RankingError(
                f"a document is ranked twice: query '{query_id}', document '{twice}'",
                fix="a ranking lists each document once",
            )
    owner = np.repeat(np.arange(len(query_ids)), np.diff(run.indptr))
    rising = np.flatnonzero((run.scores[1:] > run.scores[:-1]) & (owner[1:] == owner[:-1]))
    if len(rising):
        raise RankingError(
            f"hits are not in the order of their scores: query '{query_ids[int(owner[rising[0]])]}'",
            fix="sort the hits by score, best first; if the order counts, return ids without scores",
        )
