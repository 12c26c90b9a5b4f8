"""Runs, judgments and results to ranx and back.

Ids, scores, grades and queries without hits stay. What ranx cannot hold: the order of equal scores and of queries (it
sorts both), and intervals. Its own ``Run(…)`` breaks ids beyond ASCII, which are added here one by one. Needs ranx, and
raises MissingExtraError without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from harness.data.memory import qrels_from_dict
from harness.data.types import Qrels, Run
from harness.integrations.hits_by_id import qrels_by_id, run_by_id, run_of
from harness.registry.optional import require

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["qrels_from_ranx", "qrels_to_ranx", "results_from_ranx", "results_to_ranx", "run_from_ranx", "run_to_ranx"]

_ranx: Any = require("ranx", extra="ranx", feature="harness.integrations.ranx")
_NAMES = {"nDCG": "ndcg", "AP": "map", "RR": "mrr", "P": "precision", "R": "recall", "Success": "hit_rate"}
_OURS = {theirs: ours for ours, theirs in _NAMES.items()}


def run_to_ranx(run: Run, name: str | None = None) -> Any:  # noqa: ANN401 - ranx has no types
    """Return a ``ranx.Run``, with ``name``; scores are those of the run, as float64."""
    made = _filled(_ranx.Run, "run", run_by_id(run), name)
    made.sort()
    return made


def run_from_ranx(run: Any) -> Run:  # noqa: ANN401
    """Return the hits of a ``ranx.Run`` in its order; scores become float32."""
    return run_of({query: dict(hits) for query, hits in run.run.items()})


def qrels_to_ranx(qrels: Qrels, name: str | None = None) -> Any:  # noqa: ANN401
    """Return ``ranx.Qrels``, with ``name``."""
    made = _filled(_ranx.Qrels, "qrels", qrels_by_id(qrels), name)
    made.sort()
    return made


def qrels_from_ranx(qrels: Any) -> Qrels:  # noqa: ANN401
    """Return the judgments of ``ranx.Qrels``."""
    return qrels_from_dict({query: dict(grades) for query, grades in qrels.qrels.items()})


def _filled(kind: Any, field: str, table: Mapping[str, Mapping[str, float]], name: str | None) -> Any:  # noqa: ANN401
    """Make a ``ranx.Run`` or ``ranx.Qrels``: at once where its constructor loses nothing, else one by one."""
    texts = (text for query, of_query in table.items() for text in (query, *of_query))
    if any(table.values()) and all(text.isascii() for text in texts):
        return kind({query: dict(of_query) for query, of_query in table.items()}, name=name)
    from numba import types
    from numba.typed import Dict

    made = kind(name=name)
    number = types.float64 if field == "run" else types.int64
    for query, of_query in table.items():
        getattr(made, field)[query] = Dict.empty(key_type=types.unicode_type, value_type=number)
        for document, value in of_query.items():
            made.add_score(query, document, value)
    return made


def results_to_ranx(values: pd.DataFrame, run: Any) -> Any:  # noqa: ANN401
    """Put the values of each query where ``ranx.evaluate`` puts them, with their means, and return the run.

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


def results_from_ranx(run: Any) -> pd.DataFrame:  # noqa: ANN401
    """Return the values that ``ranx.evaluate`` put into a run: columns query_id, metric and value."""
    import pandas as pd

    rows = [
        (query, _renamed(name, _OURS), float(value))
        for name, scores in run.scores.items()
        for query, value in scores.items()
    ]
    return pd.DataFrame(rows, columns=["query_id", "metric", "value"])


def _renamed(metric: str, names: Mapping[str, str]) -> str:
    name, at, depth = metric.partition("@")
    return f"{names.get(name, name)}{at}{depth}"
