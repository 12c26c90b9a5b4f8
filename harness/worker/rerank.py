"""The second stage of a backend: which pairs are scored, by whom, and the run that comes of it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
import orjson

from harness.data import ranking
from harness.data.dataset import Dataset
from harness.data.progress import Clock, Display, Progress
from harness.data.types import Float32Array, Int32Array, Int64Array, Run, Similarity
from harness.errors import DataError, RankingError, RejectedInputError
from harness.exact.dense import DenseIndex
from harness.plan.plan import Trial
from harness.registry.parameters import ParameterValue
from harness.rerank.rerankers import create_reranker
from harness.rerank.stage import Candidates, Reranked, ScoreCache, score_candidates
from harness.store.cache import Cache
from harness.store.columns import load_table
from harness.worker.executor import Executor
from harness.worker.jobs import RerankJob, write_job
from harness.worker.vectors import DensePair

__all__ = ["SecondStage", "carry_out_rerank"]

_SHOWN = 5
_QUERIES, _DOCUMENTS, _SCORES, _SAID = "query_rows.npy", "document_rows.npy", "scores.npy", "reranked.json"


class _Found(NamedTuple):
    """Candidates as rows of the dataset: ``queries`` int32 (Q,), ``indptr`` int64 (Q + 1), ``documents`` int32 (H,)."""

    queries: Int32Array
    indptr: Int64Array
    documents: Int32Array


@dataclass(frozen=True, slots=True)
class SecondStage:
    """Runs second stages on one dataset. ``corpus`` and ``queries`` are Arrow files with columns id and text."""

    dataset: Dataset
    corpus: Path
    queries: Path
    cache: Cache
    executor: Executor
    work: Path
    display: Display

    def run(self, trial: Trial, first: Run) -> tuple[Run, Reranked]:
        """The candidates of ``first`` in the order of new scores, and what that took.

        Where the dataset names each query's candidates, all of these are scored, and nothing else.
        Raises RejectedInputError for candidates that the collection does not hold, and what the reranker raises.
        """
        return self._reranked(trial, first, lambda found: self._in_worker(trial, found))

    def run_with_vectors(self, trial: Trial, first: Run, vectors: DensePair) -> tuple[Run, Reranked]:
        """The same, scored by the similarity of vectors that are there, with the arithmetic of exact dense search.

        Only the candidates' vectors are read, once each; the time is that of scoring them. Raises DataError for vectors
        that are zero under cosine, besides.
        """
        similarity = cast("Similarity", trial.parameters["similarity"])

        def score(found: _Found) -> Reranked:
            distinct, rows = np.unique(found.documents, return_inverse=True)
            documents = np.ascontiguousarray(vectors.documents[distinct])
            queries = np.ascontiguousarray(vectors.queries[found.queries])
            if similarity == "cosine":
                self._refuse_zero(documents, distinct)
            started = time.perf_counter_ns()
            scores = DenseIndex.build(documents).score(
                queries, found.indptr, rows.astype(np.int32), similarity=similarity
            )
            took_ns = time.perf_counter_ns() - started
            return Reranked(scores, len(scores), took_ns, 0, whole_numbers=False)

        return self._reranked(trial, first, score)

    def _refuse_zero(self, vectors: Float32Array, rows: Int32Array) -> None:
        """By their ids, because the numbers of the rows that were taken would tell nobody anything."""
        zero = rows[~vectors.any(axis=1)]
        if len(zero):
            named = ", ".join(self.dataset.corpus.ids.take(zero[:_SHOWN]))
            problem = f"{len(zero)} candidates have a zero vector, which has no cosine, among them: {named}"
            raise DataError(f"dataset '{self.dataset.name}'", [problem], fix="use similarity=dot or similarity=l2")

    def _reranked(self, trial: Trial, first: Run, score: Callable[[_Found], Reranked]) -> tuple[Run, Reranked]:
        candidates = self._candidates(trial, first)
        reranked = score(self._found(candidates))
        if not np.isfinite(reranked.scores).all():
            what = f"the reranker '{trial.spec.name}' gave NaN or an infinite score"
            raise RankingError(what, fix="this is a defect of its model")
        scores = _apart(candidates, reranked.scores) if reranked.whole_numbers else reranked.scores
        run = Run(candidates.query_ids, candidates.doc_ids, candidates.indptr, candidates.rows, scores)
        return ranking.order(run), reranked

    def _candidates(self, trial: Trial, first: Run) -> Run:
        """The best hits of the first stage, or the documents that the dataset names for each query, all of them."""
        if self.dataset.candidates is None:
            return ranking.cut(ranking.order(first), int(trial.parameters["candidates"]))
        return ranking.all_candidates(first, self.dataset.candidates, self.dataset.queries.ids, self.dataset.corpus.ids)

    def _found(self, candidates: Run) -> _Found:
        queries = self.dataset.queries.ids.rows_of(candidates.query_ids)
        documents = self.dataset.corpus.ids.rows_of(candidates.doc_ids)[candidates.rows]
        strange = np.flatnonzero((documents < 0) | (np.repeat(queries, np.diff(candidates.indptr)) < 0))
        if len(strange):
            ids = candidates.doc_ids.take(candidates.rows[strange[:_SHOWN]])
            raise RejectedInputError(
                f"{len(strange)} candidates are of queries or documents that the collection lacks, among them: "
                f"{', '.join(ids)}",
                fix="there is no text to score: rerank runs of this collection",
            )
        return _Found(queries, candidates.indptr, documents)

    def _in_worker(self, trial: Trial, found: _Found) -> Reranked:
        folder = Path(tempfile.mkdtemp(prefix="rerank-", dir=self.work))
        np.save(folder / _QUERIES, np.repeat(found.queries, np.diff(found.indptr)), allow_pickle=False)
        np.save(folder / _DOCUMENTS, found.documents, allow_pickle=False)
        parameters = dict(trial.parameters)
        cache = str(self.cache.root.absolute())
        write_job(folder, RerankJob(trial.spec.name, parameters, str(self.corpus), str(self.queries), cache))
        self.executor.run(folder, self.display.section(trial.label))
        said = orjson.loads((folder / _SAID).read_bytes())
        return Reranked(np.load(folder / _SCORES, allow_pickle=False), **said)


def carry_out_rerank(folder: Path, job: RerankJob, progress: Progress, clock: Clock) -> None:
    """Do a job that :class:`SecondStage` wrote, and leave its scores beside it."""
    reranker = create_reranker(job.reranker, job.parameters)
    candidates = Candidates(
        load_table(Path(job.queries)).column("text"),
        load_table(Path(job.corpus)).column("text"),
        np.load(folder / _QUERIES, allow_pickle=False),
        np.load(folder / _DOCUMENTS, allow_pickle=False),
    )
    cache = ScoreCache(Cache(Path(job.cache)), job.reranker, reranker.identity())
    done = score_candidates(reranker, candidates, cache, progress, clock)
    np.save(folder / _SCORES, done.scores, allow_pickle=False)
    said: dict[str, ParameterValue | dict[str, ParameterValue]] = {
        "scored": done.scored,
        "score_ns": done.score_ns,
        "load_ns": done.load_ns,
        "whole_numbers": done.whole_numbers,
        "facts": dict(done.facts),
    }
    (folder / _SAID).write_bytes(orjson.dumps(said))


def _apart(candidates: Run, scores: Float32Array) -> Float32Array:
    """Whole numbers with a fraction below 1 that keeps equal ones in the order of the first stage."""
    lengths = np.diff(candidates.indptr)
    place = np.arange(candidates.hits) - np.repeat(candidates.indptr[:-1], lengths)
    count = np.repeat(lengths, lengths)
    apart: Float32Array = (scores + (count - 1 - place) / np.maximum(count, 1)).astype(np.float32)
    return apart
