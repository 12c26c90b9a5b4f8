"""Interpolated precision. Each fills ``out`` (float64, one value a query)."""

from __future__ import annotations

import math

from harness.data.jit import inner_kernel, kernel
from harness.metrics.judged import Arguments, JudgedHits, Out, relevant_total


@inner_kernel
def _interpolated(judged: JudgedHits, query: int, level: int, recall: float, total: int) -> float:
    """Highest precision at or after the point where ``recall`` is reached.

    trec_eval 9 turns a recall point into ``floor(recall * R + 0.9)`` relevant documents; version 10 rounds.
    """
    wanted = math.floor(recall * total + 0.9)
    seen, best = 0, 0.0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
        if judged.grades[hit] >= level:
            seen += 1
            if seen >= wanted:
                best = max(best, seen / judged.ranks[hit])
    return best


@kernel
def interpolated_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Highest precision at any rank where recall is at least ``extra``."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        out[query] = _interpolated(judged, query, arguments.level, arguments.extra, total)


@kernel
def eleven_point_average(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Mean of the interpolated precision at recall 0.0, 0.1 … 1.0."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        gathered = 0.0
        for tenth in range(11):
            gathered += _interpolated(judged, query, arguments.level, tenth / 10.0, total)
        out[query] = gathered / 11.0
