"""Runs, judgments and results to ranx and back.

Ids, scores, grades, queries without hits and the order of equal scores stay. ranx cannot hold the order of queries,
which it needs sorted, or intervals. Needs ranx, and raises MissingExtraError without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.data.jit import kernel
from harness.data.memory import qrels_from_dict
from harness.data.types import Qrels, Run
from harness.integrations.hits_by_id import qrels_by_id, run_by_id, run_of
from harness.registry.optional import require

if TYPE_CHECKING:
    import pandas as pd

    from harness.data.types import Int64Array

__all__ = ["qrels_from_ranx", "qrels_to_ranx", "results_from_ranx", "results_to_ranx", "run_from_ranx", "run_to_ranx"]

_ranx: Any = require("ranx", extra="ranx", feature="harness.integrations.ranx")
_NAMES = {"nDCG": "ndcg", "AP": "map", "RR": "mrr", "P": "precision", "R": "recall", "Success": "hit_rate"}
_VALUES = {"run": np.float64, "qrels": np.int64}
_OURS = {theirs: ours for ours, theirs in _NAMES.items()}


def run_to_ranx(run: Run, name: str | None = None) -> Any:
    """Return a ``ranx.Run``, with ``name``; scores are the run's, as float64."""
    return _filled(_ranx.Run, "run", run_by_id(run), name)


def run_from_ranx(run: Any) -> Run:
    """Return the hits of a ``ranx.Run`` in its order; scores become float32."""
    return run_of(_unpacked(run.run))


def qrels_to_ranx(qrels: Qrels, name: str | None = None) -> Any:
    """Return ``ranx.Qrels``, with ``name``."""
    return _filled(_ranx.Qrels, "qrels", qrels_by_id(qrels), name)


def qrels_from_ranx(qrels: Any) -> Qrels:
    """Return the judgments of ``ranx.Qrels``."""
    return qrels_from_dict(_unpacked(qrels.qrels))


def _filled(kind: Any, field: str, by_id: Mapping[str, Mapping[str, float]], name: str | None) -> Any:
    """Make a ``ranx.Run`` or ``ranx.Qrels`` in the order that ranx computes on; equal values keep their order.

    Its constructor breaks ids beyond ASCII, and sorts in code that takes a quarter of a minute to compile.
    """
    table = {query: sorted(by_id[query].items(), key=lambda hit: -hit[1]) for query in sorted(by_id)}
    made = kind(name=name)
    names = [text for query, of_query in table.items() for text in (query, *(document for document, _ in of_query))]
    values = np.array([value for of_query in table.values() for _, value in of_query], dtype=_VALUES[field])
    sizes = np.array([len(of_query) for of_query in table.values()], dtype=np.int64)
    _fill(getattr(made, field), "".join(names), np.cumsum([len(text) for text in names], dtype=np.int64), sizes, values)
    made.sorted = True
    return made


@kernel
def _fill(table: Any, names: str, ends: Int64Array, sizes: Int64Array, values: Any) -> None:
    """Put a dictionary for each query into Numba's ``table``; from Python, every kind of access is compiled again.

    ``names`` are each query with its documents, one behind the other, and end at ``ends``.
    """
    position, start, first = 0, 0, 0
    for size in sizes:
        query, start = names[start : ends[position]], ends[position]
        of_query = {}
        for number in range(size):
            end = ends[position + 1 + number]
            of_query[names[start:end]] = values[first + number]
            start = end
        table[query] = of_query
        position, first = position + 1 + size, first + size


@kernel
def _as_lists(table: Any) -> tuple[list[str], list[int], list[str], list[float]]:
    """Return the queries of Numba's ``table``, how many documents each has, and these with their values."""
    return (
        [str(query) for query in table],
        [len(table[query]) for query in table],
        [str(document) for query in table for document in table[query]],
        [value for query in table for value in table[query].values()],
    )


def _unpacked(table: Any) -> dict[str, dict[str, Any]]:
    queries, sizes, documents, values = _as_lists(table)
    pairs = zip(documents, values, strict=True)
    return {query: dict(islice(pairs, size)) for query, size in zip(queries, sizes, strict=True)}


def results_to_ranx(values: pd.DataFrame, run: Any) -> Any:
    """Store the values of each query as ``ranx.evaluate`` does, with their means, and return the run.

    Args:
        values: one backend's rows of ``Comparison.per_query()``: columns query_id, metric and value.
        run: the ``ranx.Run``; ``nDCG@10`` is its ``ndcg@10``, and names that ranx has no own one for stay.
    """
    for metric, rows in values.groupby("metric", sort=False):
        scores = dict(zip(rows["query_id"], rows["value"], strict=True))
        name = _renamed(str(metric), _NAMES)
        run.scores[name] = scores
        run.mean_scores[name] = sum(scores.values()) / len(scores)
    return run


def results_from_ranx(run: Any) -> pd.DataFrame:
    """Return the values that ``ranx.evaluate`` put into a run: columns query_id, metric and value."""
    import pandas as pd

    rows = [
        (query, _renamed(name, _OURS), float(value))
        for name, scores in run.scores.items()
        for query, value in scores.items()
    ]
    return pd.DataFrame(rows, columns=["query_id", "metric", "value"])


def _renamed(metric: str, names: Mapping[str, str]) -> str:
    name, separator, depth = metric.partition("@")
    return f"{names.get(name, name)}{separator}{depth}"
