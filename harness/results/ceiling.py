"""What the candidates of a second stage allow at best: the measures of their best possible order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.data.types import Float32Array, Qrels, Run
from harness.metrics import Measure, QuerySet, score

__all__ = ["best_order", "ceiling"]

_BEST_BY_GRADE = "nDCG"


def ceiling(run: Run, qrels: Qrels, measures: Sequence[Measure], queries: QuerySet, relevance: int) -> dict[str, float]:
    """Every nDCG among ``measures`` of the best order of the run's hits, by name; none where nothing is evaluated."""
    chosen = [measure for measure in measures if measure.name == _BEST_BY_GRADE]
    if not chosen or not run.hits:
        return {}
    scores = score(best_order(run, qrels), qrels, chosen, queries=queries, relevance=relevance)
    if not len(scores.query_ids):
        return {}
    return {str(summary.measure): summary.value for summary in scores.means()}


def best_order(run: Run, qrels: Qrels) -> Run:
    """The same hits, scored by their grades: those of the highest grade first, what is not judged as grade 0."""
    return run.with_scores(_grades(run, qrels))


def _grades(run: Run, qrels: Qrels) -> Float32Array:
    queries = qrels.query_ids.rows_of(run.query_ids).astype(np.int64)
    documents = qrels.doc_ids.rows_of(run.doc_ids)[run.rows].astype(np.int64)
    query = np.repeat(queries, np.diff(run.indptr))
    width = len(qrels.doc_ids)
    judged = np.repeat(np.arange(len(qrels.query_ids), dtype=np.int64), np.diff(qrels.indptr)) * width + qrels.rows
    order = np.argsort(judged)
    wanted = query * width + documents
    places = order[np.minimum(np.searchsorted(judged, wanted, sorter=order), len(judged) - 1)]
    found = (query >= 0) & (documents >= 0) & (judged[places] == wanted)
    grades: Float32Array = np.where(found, qrels.grades[places], 0).astype(np.float32)
    return grades
