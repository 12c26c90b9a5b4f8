"""Which columns ``--sort`` can name, as far as it is known before anything runs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from harness.errors import UnknownNameError

__all__ = ["SORTABLE", "check_sort"]

SORTABLE = frozenset({
    "backend", "requirement", "verdict", "value", "range of ties", "n", "would flip", "metric", "before", "after",
    "difference", "p", "W/T/L", "gate", "setting", "cost", "ratio", "exact up to ties", "answered", "evaluated",
    "documents", "docs/s", "searchable", "index", "log", "peak memory", "peak RSS", "p50 ms", "p95 ms", "p99 ms",
    "encode", "open", "ready", "first query", "warm-up", "search", "transfer", "transfer p50 ms", "queries/s",
    "first query ms", "warm p50 ms", "in cache", "clients", "gain", "errors", "memory", "rate", "due/s", "answered/s",
    "service ms", "waiting", "bit-equal", "identical", "tie-equiv.", "RBO", "Δscore", "in graph", "loss", "frontier",
    "rank", "mean rank", "wins", "model", "dimensions", "parameters", "mean", "total", "of", "of these, p50 ms",
    "own ms/query", "sd", "min", "max", "figure", "queries", "judged", "relevant", "published for", "published with",
    "dataset", "reference", "similarity", "proven causes", "question", "query",
    "shows from", "queries needed", "noise floor", "effect",
})  # fmt: skip
"""Columns of tables that are known before anything runs: metrics, datasets and parameters come from the plan."""
_AT_DEPTH = re.compile(r"(overlap|recall|)@\d+")


def check_sort(name: str | None, others: Iterable[str] = ()) -> None:
    """Refuse, before anything runs, a column to sort by that no table will have.

    Args:
        name: What --sort names, if anything.
        others: Columns beside :data:`SORTABLE`: metrics, datasets, swept parameters, slices.

    Raises:
        UnknownNameError: There is no such column.
    """
    known = {*others, *SORTABLE}
    if name is not None and name not in known and not _AT_DEPTH.fullmatch(name):
        raise UnknownNameError("column to sort by", name, known)
