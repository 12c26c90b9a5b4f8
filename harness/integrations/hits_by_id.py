"""Runs and judgments by id, ``{query: {document: number}}``: queries without hits, order and scores stay."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from harness.data import ranking
from harness.data.judgments import require_whole_grades
from harness.data.memory import run_from_dict
from harness.data.types import Qrels, Run

Number = TypeVar("Number", int, float)


def run_by_id(run: Run) -> dict[str, dict[str, float]]:
    """Return the hits of each query in their order; scores as wide as the run has them."""
    scores = run.scores if run.wide_scores is None else run.wide_scores
    return _values_by_id(run, scores.tolist())


def qrels_by_id(qrels: Qrels) -> dict[str, dict[str, int]]:
    """Return the grades of each query; raises DataError for a grade that is not a whole number."""
    require_whole_grades(qrels, "judgments")
    return _values_by_id(qrels, qrels.grades.tolist())


def _values_by_id(table: Run | Qrels, values: list[Number]) -> dict[str, dict[str, Number]]:
    documents, bounds = table.doc_ids.take(table.rows), table.indptr.tolist()
    return {
        query: dict(zip(documents[start:stop], values[start:stop], strict=True))
        for query, start, stop in zip(table.query_ids, bounds[:-1], bounds[1:], strict=True)
    }


def run_of(hits: Mapping[str, Mapping[str, float]]) -> Run:
    """Return the run of hits by query and document id, in their order; a query without hits stays.

    Scores become float32; they are also kept as float64 if float32 would lose their order. Raises RankingError for a
    score that is not finite, DataError for ids that are neither text nor whole numbers.
    """
    run = run_from_dict(hits)
    ranking.check(run)
    return run
