"""Measures that see documents as relevant or not. Each fills ``out`` (float64, one value a query).

Functions that kernels call for every query leave their loops at the end only: with an early exit Numba counts
references of all arrays of ``JudgedHits`` at each call, which takes twenty times as long as the few hits themselves.
"""

from __future__ import annotations

from harness.data.jit import inner_kernel, kernel
from harness.metrics.judged import Arguments, JudgedHits, Out, relevant_total


@inner_kernel
def _relevant_within(judged: JudgedHits, query: int, level: int, cutoff: int) -> int:
    count = 0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
        count += judged.ranks[hit] <= cutoff and judged.grades[hit] >= level
    return count


@inner_kernel
def _first_relevant(judged: JudgedHits, query: int, level: int, cutoff: int) -> int:
    """Rank of the first relevant hit within the cutoff; 0 when there is none."""
    first = 0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
        if first == 0 and judged.ranks[hit] <= cutoff and judged.grades[hit] >= level:
            first = judged.ranks[hit]
    return first


@kernel
def precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits in the top k, divided by k even when fewer were returned."""
    for query in range(len(out)):
        out[query] = _relevant_within(judged, query, arguments.level, arguments.cutoff) / arguments.cutoff


@kernel
def recall(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits in the top k, divided by R, the number of relevant documents."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        found = _relevant_within(judged, query, arguments.level, arguments.cutoff)
        out[query] = found / total if total else 0.0


@kernel
def capped_recall(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits in the top k, divided by min(k, R)."""
    for query in range(len(out)):
        total = min(arguments.cutoff, relevant_total(judged, query, arguments.level))
        found = _relevant_within(judged, query, arguments.level, arguments.cutoff)
        out[query] = found / total if total else 0.0


@kernel
def success(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """1 when a relevant document is in the top k."""
    for query in range(len(out)):
        out[query] = 1.0 if _first_relevant(judged, query, arguments.level, arguments.cutoff) else 0.0


@kernel
def reciprocal_rank(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """1 divided by the rank of the first relevant hit."""
    for query in range(len(out)):
        first = _first_relevant(judged, query, arguments.level, arguments.cutoff)
        out[query] = 1.0 / first if first else 0.0


@kernel
def r_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits in the top R, divided by R."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        out[query] = _relevant_within(judged, query, arguments.level, total) / total if total else 0.0


@kernel
def average_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Sum of the precision at each relevant hit in the top k, divided by R; never below ``extra``."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        seen, gathered = 0, 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
            if judged.ranks[hit] > arguments.cutoff:
                break
            if judged.grades[hit] >= arguments.level:
                seen += 1
                gathered += seen / judged.ranks[hit]
        out[query] = max(gathered / total if total else 0.0, arguments.extra)


@kernel
def rank_biased_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """(1 - p) times the sum of p^(rank - 1) over relevant hits."""
    for query in range(len(out)):
        gathered = 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
            if judged.ranks[hit] > arguments.cutoff:
                break
            if judged.grades[hit] >= arguments.level:
                gathered += arguments.extra ** (judged.ranks[hit] - 1)
        out[query] = (1.0 - arguments.extra) * gathered
