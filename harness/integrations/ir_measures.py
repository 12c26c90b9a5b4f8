"""Runs, judgments and results to ir_measures and back.

Ids, scores, grades and the order of hits stay. Its lists of named tuples cannot hold a query without hits. In that case
use the form by id, which it reads as well: :func:`harness.integrations.hits_by_id.run_by_id`. It orders equal scores
itself, as trec_eval does. Needs ir_measures, and raises MissingExtraError without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from harness.data.memory import qrels_from_dict
from harness.data.types import Qrels, Run
from harness.errors import DataError
from harness.integrations.hits_by_id import qrels_by_id, run_by_id, run_of
from harness.registry.optional import require

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "qrels_from_ir_measures",
    "qrels_to_ir_measures",
    "results_from_ir_measures",
    "results_to_ir_measures",
    "run_from_ir_measures",
    "run_to_ir_measures",
]

_library: Any = require("ir_measures", extra="ir-measures", feature="harness.integrations.ir_measures")


def run_to_ir_measures(run: Run) -> list[Any]:
    """Return a ``ScoredDoc`` for each hit, in the run's order."""
    return [
        _library.ScoredDoc(query, document, score)
        for query, hits in run_by_id(run).items()
        for document, score in hits.items()
    ]


def run_from_ir_measures(hits: Iterable[Any]) -> Run:
    """Return the run of ``ScoredDoc``s, in their order; raises DataError for a hit that repeats."""
    return run_of(_grouped("run", ((hit.query_id, hit.doc_id, hit.score) for hit in hits)))


def qrels_to_ir_measures(qrels: Qrels) -> list[Any]:
    """Return a ``Qrel`` for each judgment."""
    return [
        _library.Qrel(query, document, grade)
        for query, grades in qrels_by_id(qrels).items()
        for document, grade in grades.items()
    ]


def qrels_from_ir_measures(qrels: Iterable[Any]) -> Qrels:
    """Return judgments of ``Qrel``s, without their ``iteration``; raises DataError for a repeated judgment."""
    return qrels_from_dict(_grouped("judgments", ((each.query_id, each.doc_id, each.relevance) for each in qrels)))


def _grouped(source: str, rows: Iterable[tuple[str, str, Any]]) -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for query, document, value in rows:
        of_query = table.setdefault(query, {})
        if document in of_query:
            raise DataError(source, [f"query '{query}' has document '{document}' twice"])
        of_query[document] = value
    return table


def results_to_ir_measures(values: pd.DataFrame) -> list[Any]:
    """Return a ``Metric`` for each value of one backend's rows of ``Comparison.per_query()``.

    Raises DataError for metrics that ir_measures has no name for.
    """
    measures: dict[str, Any] = {}
    for name in dict.fromkeys(values["metric"]):
        try:
            measures[name] = _library.parse_measure(name)
        except (NameError, ValueError) as error:
            raise DataError("results", [f"ir_measures has no '{name}': {error}"]) from error
    rows = zip(values["query_id"], values["metric"], values["value"], strict=True)
    return [_library.util.Metric(query, measures[metric], float(value)) for query, metric, value in rows]


def results_from_ir_measures(metrics: Iterable[Any]) -> pd.DataFrame:
    """Return the result of ``ir_measures.iter_calc`` as a frame: columns query_id, metric and value."""
    import pandas as pd

    rows = [(each.query_id, str(each.measure), float(each.value)) for each in metrics]
    return pd.DataFrame(rows, columns=["query_id", "metric", "value"])
