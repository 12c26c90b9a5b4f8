"""Runs and judgments by id, ``{query: {document: number}}``: queries without hits, order and scores stay."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import TypeVar

import numpy as np

from harness.data import ranking
from harness.data.frames import id_column
from harness.data.grouping import loses_order, to_float32
from harness.data.types import Ids, Int32Array, Int64Array, Qrels, Run
from harness.errors import DataError

Number = TypeVar("Number", int, float)
_LIMIT = 2**31


def run_by_id(run: Run) -> dict[str, dict[str, float]]:
    """Return the hits of each query in their order; scores as wide as the run has them."""
    scores = run.scores if run.wide_scores is None else run.wide_scores
    return _by_id(run, scores.tolist())


def qrels_by_id(qrels: Qrels) -> dict[str, dict[str, int]]:
    """Return the grades of each query."""
    return _by_id(qrels, qrels.grades.tolist())


def _by_id(table: Run | Qrels, values: list[Number]) -> dict[str, dict[str, Number]]:
    documents, bounds = table.doc_ids.take(table.rows), table.indptr.tolist()
    return {
        query: dict(zip(documents[start:stop], values[start:stop], strict=True))
        for query, start, stop in zip(table.query_ids, bounds[:-1], bounds[1:], strict=True)
    }


def run_of(hits: Mapping[str, Mapping[str, float]]) -> Run:
    """Return the run of hits by query and document id, in their order; a query without hits stays.

    Scores become float32; they are kept as float64 beside it where float32 would lose their order. Raises RankingError
    for a score that is not finite, DataError for ids that are neither text nor whole numbers.
    """
    queries, documents, indptr, rows = _columns("run", hits)
    wide = np.fromiter(chain.from_iterable(of_query.values() for of_query in hits.values()), dtype=np.float64)
    scores = to_float32(wide)
    run = Run(queries, documents, indptr, rows, scores)
    ranking.check(run)
    codes = np.repeat(np.arange(len(queries), dtype=np.int32), np.diff(indptr))
    return Run(queries, documents, indptr, rows, scores, wide) if loses_order(codes, wide, scores) else run


def qrels_of(grades: Mapping[str, Mapping[str, int]]) -> Qrels:
    """Return judgments by query and document id; raises DataError for a grade that is no whole number of 32 bits."""
    queries, documents, indptr, rows = _columns("judgments", grades)
    values = np.fromiter(chain.from_iterable(of_query.values() for of_query in grades.values()), dtype=np.float64)
    if not ((np.abs(values) < _LIMIT) & (values == np.rint(values))).all():
        raise DataError("judgments", ["a grade is no whole number of 32 bits"])
    return Qrels(queries, documents, indptr, rows, values.astype(np.int32))


def _columns(source: str, table: Mapping[str, Mapping[str, object]]) -> tuple[Ids, Ids, Int64Array, Int32Array]:
    try:
        queries = Ids(id_column(table))
        listed = id_column(chain.from_iterable(table.values()))
    except (TypeError, UnicodeEncodeError) as error:
        raise DataError(source, [str(error)]) from error
    documents = Ids(listed.unique())
    indptr = np.cumsum([0, *map(len, table.values())], dtype=np.int64)
    return queries, documents, indptr, documents.rows_of(listed)
