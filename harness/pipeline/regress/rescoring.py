"""Scoring a side's hits again under other judgments: labels that came later, or labels that are only supposed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.data import ranking
from harness.data.judgments import Judgments, group_judgments
from harness.data.problems import Problems
from harness.data.ranking import TieRule
from harness.data.types import Ids, Qrels, Run
from harness.metrics import Measure, QuerySet, score
from harness.pipeline.check.check_subject import column_of
from harness.results.side import OVERLAP, Side

__all__ = ["Grades", "can_score", "grades_of", "relabelled", "scorable", "score_again", "to_qrels"]

Grades = Mapping[str, Mapping[str, int]]
"""Query to document to grade."""


def grades_of(qrels: Qrels, queries: Iterable[str] | None = None) -> dict[str, dict[str, int]]:
    """The judgments by query and document; of some queries only where they are named."""
    chosen = qrels if queries is None else qrels.of_queries(Ids.of(queries))
    documents, grades = chosen.doc_ids.take(chosen.rows), chosen.grades.tolist()
    bounds = chosen.indptr.tolist()
    return {
        query: dict(zip(documents[start:stop], grades[start:stop], strict=True))
        for query, start, stop in zip(chosen.query_ids, bounds[:-1], bounds[1:], strict=True)
    }


def to_qrels(grades: Grades) -> Qrels:
    """The same judgments as columns."""
    rows = [(query, document, grade) for query, found in grades.items() for document, grade in found.items()]
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[], [], []]
    return group_judgments(Judgments(list(range(len(rows))), *columns), Problems("judgments"))


def can_score(side: Side, measure: Measure) -> bool:
    """Whether a side holds enough to score again: all hits, or as many as the measure looks at, in their order."""
    if side.depth is None or not side.rescorable:
        return side.rescorable
    return isinstance(measure.cutoff, int) and measure.cutoff <= side.depth and side.ties is not TieRule.AVERAGE


def scorable(sides: Sequence[Side], measures: Mapping[str, Measure]) -> dict[str, Measure]:
    """The measures, by their names, that every side can be scored by again."""
    return {name: measure for name, measure in measures.items() if all(can_score(side, measure) for side in sides)}


def score_again(
    side: Side,
    run: Run,
    qrels: Qrels,
    measures: Mapping[str, Measure],
    *,
    queries: QuerySet = QuerySet.JUDGED,
) -> dict[str, dict[str, float]]:
    """Name of a measure to query to value, of ``run`` (hits of ``side``, or of some of its queries) by ``qrels``."""
    relevance = int(str(side.report.plan.resolved["relevance"]))
    ties = TieRule.ENGINE if side.depth is not None else side.ties
    scores = score(
        run, _of_same_collection(qrels, run), list(measures.values()), ties=ties, queries=queries, relevance=relevance
    )
    ids = scores.query_ids.to_list()
    columns = {name: column_of(scores, measure, relevance) for name, measure in measures.items()}
    return {name: dict(zip(ids, scores.values[:, at].tolist(), strict=True)) for name, at in columns.items()}


def _of_same_collection(qrels: Qrels, run: Run) -> Qrels:
    """The same judgments for a run that may hold no judged document: a few queries of a result may well do so.

    Scoring refuses a run that shares no document with the judgments, as one of another collection. One of the run's is
    named here, and judged for no query.
    """
    if not run.hits or bool((qrels.doc_ids.rows_of(run.doc_ids) >= 0).any()):
        return qrels
    return replace(qrels, doc_ids=Ids.of([*qrels.doc_ids, run.doc_ids[0]]))


def relabelled(side: Side, qrels: Qrels) -> tuple[Side, list[str]]:
    """The side with its metrics scored again under ``qrels``, and the names of those that could not be.

    These are left out; overlaps with the reference stay as they are, because no judgment enters them.
    """
    wanted = scorable([side], side.measures)
    lost = [name for name in side.measures if name not in wanted]
    rule = QuerySet(str(side.report.plan.resolved["queries"]))
    figures: dict[str, Mapping[str, Mapping[str, float]]] = {}
    for label, found in side.figures.items():
        kept = {name: values for name, values in found.items() if name.startswith(OVERLAP)}
        run = side.hits(label)
        scored = score_again(side, run, qrels, wanted, queries=rule) if run is not None and wanted else {}
        figures[label] = {**scored, **kept}
    return replace(side, figures=figures, qrels=qrels), lost


def repeated(run: Run, queries: Sequence[str], names: Sequence[str], depth: int | None) -> Run:
    """The rankings of ``queries``, which may repeat, under other ``names``; a query without hits has none."""
    rows = run.query_ids.rows_of(Ids.of(queries))
    known = np.flatnonzero(rows >= 0)
    found = run.of_queries(rows[known])
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    indptr[known + 1] = np.diff(found.indptr)
    again = Run(Ids.of(names), run.doc_ids, np.cumsum(indptr), found.rows, found.scores)
    return again if depth is None else ranking.cut(again, depth)
