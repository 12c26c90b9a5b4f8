"""Backends made of other backends' hits: fusions of their lists, and second stages that score their hits again."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np

from harness.data import ranking
from harness.data.dataset import Dataset
from harness.data.progress import CombinedProgress, Display, Progress
from harness.data.types import Float32Array, Int32Array, Int64Array, Run, Similarity, ranks_in
from harness.encoders.token_counts import TextLengths
from harness.errors import DataError, RankingError, RejectedInputError
from harness.exact.dense import DenseIndex
from harness.plan.backend_spec import BackendSpec
from harness.plan.plan import Trial
from harness.plan.stages import parse_weights
from harness.rerank import fusion
from harness.rerank.rerankers import create_reranker
from harness.rerank.stage import PairRows, RerankedRun
from harness.store.cache import Cache
from harness.store.record_files import load, save
from harness.wording import counted
from harness.worker.executor import Executor
from harness.worker.jobs import RerankJob
from harness.worker.outcome import CombinedRuns
from harness.worker.threads import side_by_side
from harness.worker.vectors import DensePair

_MAX_EXAMPLES = 5


def fuse(
    spec: BackendSpec, of: Sequence[str], runs: Sequence[Run], times: Sequence[Int64Array | None], k: int
) -> tuple[Run, CombinedRuns]:
    """Return the fusion that ``spec`` names of ``runs``, cut to ``k`` hits a query.

    ``of`` are the labels of the runs, ``times`` the times of each (:attr:`Outcome.query_ns`).
    """
    started = time.perf_counter_ns()
    fused = fuse_runs(spec, runs, k)
    fusion_ns = time.perf_counter_ns() - started
    return fused, CombinedRuns(spec.name, tuple(of), _sum(times), fusion_ns)


def second_stage(spec: BackendSpec, of: str, reranked: RerankedRun, first_ns: Int64Array | None) -> CombinedRuns:
    """Return the parts of a reranked backend: the stage before it, ``of``, and its own."""
    score_ns = reranked.score_ns if reranked.scored == len(reranked.scores) else None
    return CombinedRuns(spec.name, (of,), first_ns, score_ns, reranked)


def fuse_runs(spec: BackendSpec, runs: Sequence[Run], k: int | None) -> Run:
    """Return the fusion that ``spec`` names, cut to ``k`` hits a query (None: not).

    Raises as :mod:`harness.rerank.fusion` does.
    """
    weights = parse_weights(str(spec.parameters["weights"]))
    match spec.name:
        case "rrf":
            fused = fusion.rrf(runs, k=float(spec.parameters["k"]), weights=weights)
        case "minmax":
            fused = fusion.min_max(runs, weights=weights)
        case "dbsf":
            fused = fusion.dbsf(runs, weights=weights)
        case other:
            raise AssertionError(f"unknown fusion: {other}")
    return fused if k is None else ranking.cut(fused, k)


def _sum(times: Sequence[Int64Array | None]) -> Int64Array | None:
    """Add times query by query, over the passes that all have; None if one is missing."""
    present = [run_ns for run_ns in times if run_ns is not None]
    if len(present) < len(times):
        return None
    passes = min(len(run_ns) for run_ns in present)
    total: Int64Array = np.stack([run_ns[:passes] for run_ns in present]).sum(axis=0)
    return total


class _Pairs(NamedTuple):
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

    def run(self, trial: Trial, first: Run) -> tuple[Run, RerankedRun]:
        """Return the candidates of ``first`` in the order of new scores, and the time taken.

        If the dataset names each query's candidates, exactly these are scored. Raises RejectedInputError for candidates
        that the collection does not hold, and the reranker's exceptions.
        """
        return self._reranked(trial, first, lambda pairs: self._score_in_worker(trial, pairs))

    def run_with_vectors(self, trial: Trial, first: Run, vectors: DensePair) -> tuple[Run, RerankedRun]:
        """Return the same, scored by the similarity of given vectors with the arithmetic of exact dense search.

        Only the candidates' vectors are read, once each; the time is the time of scoring them. Also raises DataError
        for vectors that are zero under cosine.
        """
        similarity = cast("Similarity", trial.parameters["similarity"])

        def score(pairs: _Pairs) -> RerankedRun:
            distinct, rows = np.unique(pairs.documents, return_inverse=True)
            documents = np.ascontiguousarray(vectors.documents[distinct])
            queries = np.ascontiguousarray(vectors.queries[pairs.queries])
            if similarity == "cosine":
                self._refuse_zero(documents, distinct)
            started = time.perf_counter_ns()
            scores = DenseIndex.build(documents).score(
                queries, pairs.indptr, rows.astype(np.int32), similarity=similarity
            )
            took_ns = time.perf_counter_ns() - started
            return RerankedRun(scores, len(scores), took_ns, 0, integer_scores=False)

        return self._reranked(trial, first, score)

    def _refuse_zero(self, vectors: Float32Array, rows: Int32Array) -> None:
        """Name zero vectors by their ids: the numbers of the chosen rows would mean nothing to the user."""
        zero = rows[~vectors.any(axis=1)]
        if len(zero):
            examples = ", ".join(self.dataset.corpus.ids.take(zero[:_MAX_EXAMPLES]))
            problem = f"{len(zero)} candidates have a zero vector, which has no cosine, among them: {examples}"
            raise DataError(f"dataset '{self.dataset.name}'", [problem], fix="use similarity=dot or similarity=l2")

    def _reranked(self, trial: Trial, first: Run, score: Callable[[_Pairs], RerankedRun]) -> tuple[Run, RerankedRun]:
        candidates = self._candidates(trial, first)
        reranked = score(self._pairs(candidates))
        if not np.isfinite(reranked.scores).all():
            problem = f"the reranker '{trial.spec.name}' gave NaN or an infinite score"
            raise RankingError(problem, fix="this is a defect of its model")
        scores = _apart(candidates, reranked.scores) if reranked.integer_scores else reranked.scores
        run = Run(candidates.query_ids, candidates.doc_ids, candidates.indptr, candidates.rows, scores)
        return ranking.order(run), reranked

    def _candidates(self, trial: Trial, first: Run) -> Run:
        """Return the best hits of the first stage, or all documents that the dataset names for each query."""
        if self.dataset.candidates is None:
            return ranking.cut(ranking.order(first), int(trial.parameters["candidates"]))
        return ranking.all_candidates(first, self.dataset.candidates, self.dataset.queries.ids, self.dataset.corpus.ids)

    def _pairs(self, candidates: Run) -> _Pairs:
        queries = self.dataset.queries.ids.rows_of(candidates.query_ids)
        documents = self.dataset.corpus.ids.rows_of(candidates.doc_ids)[candidates.rows]
        strange = np.flatnonzero((documents < 0) | (np.repeat(queries, np.diff(candidates.indptr)) < 0))
        if len(strange):
            ids = candidates.doc_ids.take(candidates.rows[strange[:_MAX_EXAMPLES]])
            raise RejectedInputError(
                f"{len(strange)} candidates are of queries or documents that the dataset lacks, among them: "
                f"{', '.join(ids)}",
                fix="there is no text to score: rerank runs of this dataset",
            )
        return _Pairs(queries, candidates.indptr, documents)

    def _score_in_worker(self, trial: Trial, pairs: _Pairs) -> RerankedRun:
        """Score in as many jobs as the executor runs at once.

        Each job gets whole groups of the reranker, so that batches equal a single job's; calls that may cost money are
        counted by one process.
        """
        reranker = create_reranker(trial.spec.name, trial.parameters)
        query_rows = np.repeat(pairs.queries, np.diff(pairs.indptr))
        groups = -(-len(query_rows) // reranker.group)
        slots = 1 if reranker.paid else self.executor.slots(str(trial.parameters.get("device", "cpu")))
        count = max(1, min(slots, groups))
        bounds = np.linspace(0, groups, count + 1).astype(int) * reranker.group
        progress: Progress = self.display.section(trial.label)
        if count > 1:
            progress = CombinedProgress(progress, f"rerank in {counted(count, 'job')}", len(query_rows))

        def score(start: int, stop: int) -> RerankedRun:
            folder = Path(tempfile.mkdtemp(prefix="rerank-", dir=self.work))
            job = RerankJob(
                reranker=trial.spec.name,
                parameters=trial.parameters,
                corpus=self.corpus,
                queries=self.queries,
                query_rows=query_rows[start:stop],
                document_rows=pairs.documents[start:stop],
                cache=self.cache.root.absolute(),
            )
            save(folder, job)
            self.executor.run(folder, progress)
            return load(folder, RerankedRun)

        parts = side_by_side(lambda part: score(*part), list(itertools.pairwise(bounds)), jobs=count)
        return replace(_joined(parts), pairs=PairRows(query_rows, pairs.documents))


def _joined(parts: Sequence[RerankedRun]) -> RerankedRun:
    """Return the parts of one reranking combined; times are sums over the jobs."""
    return replace(
        parts[0],
        scores=np.concatenate([part.scores for part in parts]),
        scored=sum(part.scored for part in parts),
        score_ns=sum(part.score_ns for part in parts),
        load_ns=sum(part.load_ns for part in parts),
        lengths=_joined_lengths([part.lengths for part in parts]),
    )


def _joined_lengths(parts: Sequence[TextLengths | None]) -> TextLengths | None:
    present = [part for part in parts if part is not None]
    if len(present) < len(parts):
        return None
    limited = next((part for part in present if part.limit is not None), present[0])
    return limited._replace(counts=np.concatenate([part.counts for part in present]))


def _apart(candidates: Run, scores: Float32Array) -> Float32Array:
    """Add to whole numbers a fraction below 1 that keeps equal numbers in the order of the first stage."""
    count = np.repeat(np.diff(candidates.indptr), np.diff(candidates.indptr))
    apart: Float32Array = (scores + (count - 1 - ranks_in(candidates.indptr)) / np.maximum(count, 1)).astype(np.float32)
    return apart
