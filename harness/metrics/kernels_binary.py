"""Metrics that see documents as relevant or not, judged or not. Each fills ``out`` (float64, one value a query).

Functions that kernels call for every query leave their loops at the end only: with an early exit Numba counts
references of all arrays of ``JudgedHits`` at each call, which takes twenty times as long as the few hits themselves.
"""

from __future__ import annotations

import math

from harness.data.jit import inner_kernel, kernel
from harness.metrics.judged import NO_CUTOFF, Arguments, JudgedHits, Out, relevant_total

_EPSILON = 1e-5
"""trec_eval's smoothing of infAP."""


@inner_kernel
def _relevant_within(judged: JudgedHits, query: int, level: int, cutoff: int) -> int:
    count = 0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
        count += judged.ranks[hit] <= cutoff and judged.grades[hit] >= level
    return count


@inner_kernel
def _first_relevant(judged: JudgedHits, query: int, level: int, cutoff: int) -> int:
    """Return the rank of the first relevant hit within the cutoff; 0 when there is none."""
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


@inner_kernel
def _least_relevant_9(recall: float, total: int) -> int:
    """Return the number of relevant documents at a recall point as trec_eval 9 takes it."""
    return math.floor(recall * total + 0.9)


@inner_kernel
def _least_relevant_10(recall: float, total: int) -> int:
    """Return the number of relevant documents at a recall point as trec_eval 10 takes it: rounded, halves up."""
    exact = recall * total
    down = math.floor(exact)
    return down + 1 if exact - down >= 0.5 else down


@inner_kernel
def _interpolated(judged: JudgedHits, query: int, level: int, least: int) -> float:
    """Return the highest precision at or after the rank of the relevant hit number ``least``."""
    seen, best = 0, 0.0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
        if judged.grades[hit] >= level:
            seen += 1
            if seen >= least:
                best = max(best, seen / judged.ranks[hit])
    return best


@kernel
def interpolated_precision_9(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Highest precision at any rank where recall is at least ``extra``, as trec_eval 9 counts."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        out[query] = _interpolated(judged, query, arguments.level, _least_relevant_9(arguments.extra, total))


@kernel
def interpolated_precision_10(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Highest precision at any rank where recall is at least ``extra``, as trec_eval 10 counts."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        out[query] = _interpolated(judged, query, arguments.level, _least_relevant_10(arguments.extra, total))


@kernel
def eleven_point_average_9(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Mean of the interpolated precision at recall 0.0, 0.1 … 1.0, as trec_eval 9 counts."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        gathered = 0.0
        for tenth in range(11):
            gathered += _interpolated(judged, query, arguments.level, _least_relevant_9(tenth / 10.0, total))
        out[query] = gathered / 11.0


@kernel
def eleven_point_average_10(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Mean of the interpolated precision at recall 0.0, 0.1 … 1.0, as trec_eval 10 counts."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        gathered = 0.0
        for tenth in range(11):
            gathered += _interpolated(judged, query, arguments.level, _least_relevant_10(tenth / 10.0, total))
        out[query] = gathered / 11.0


@kernel
def binary_preference(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Mean over relevant documents of 1 - (non-relevant ones above it, at most R) / min(R, N); unjudged are skipped."""
    for query in range(len(out)):
        start, stop = judged.indptr[query], judged.indptr[query + 1]
        total = relevant_total(judged, query, arguments.level)
        nonrelevant = 0
        for place in range(start + total, stop):
            if judged.ideal[place] >= 0:
                nonrelevant += 1
        above, gathered = 0, 0.0
        for hit in range(start, start + judged.found[query]):
            if judged.grades[hit] >= arguments.level:
                gathered += 1.0 - min(above, total) / min(nonrelevant, total) if above else 1.0
            elif judged.grades[hit] >= 0:
                above += 1
        out[query] = gathered / total if total else 0.0


@kernel
def inferred_average_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """AP estimated from a sampled pool; a negative grade means pooled but not judged (Yilmaz and Aslam, CIKM 2006)."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        relevant, nonrelevant, unjudged, gathered = 0, 0, 0, 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
            if judged.grades[hit] < 0:
                unjudged += 1
            elif judged.grades[hit] < arguments.level:
                nonrelevant += 1
            else:
                rank = judged.ranks[hit]
                pooled = (relevant + nonrelevant + unjudged) / rank
                sampled = (relevant + _EPSILON) / (relevant + nonrelevant + 2.0 * _EPSILON)
                gathered += 1.0 / rank + pooled * sampled
                relevant += 1
        out[query] = gathered / total if total else 0.0


@kernel
def judged_rate(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Hits in the top k that this query has a judgment for, divided by the hits in the top k."""
    for query in range(len(out)):
        returned = min(arguments.cutoff, judged.retrieved[query])
        count = 0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
            if judged.ranks[hit] > arguments.cutoff:
                break
            count += 1
        out[query] = count / returned if returned else 0.0


@kernel
def set_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits, divided by the number of hits."""
    for query in range(len(out)):
        returned = judged.retrieved[query]
        out[query] = _relevant_within(judged, query, arguments.level, NO_CUTOFF) / returned if returned else 0.0


@kernel
def set_f(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """(1 + beta) P R / (beta P + R) of the returned set; ``extra`` is beta."""
    weight = arguments.extra
    for query in range(len(out)):
        found = _relevant_within(judged, query, arguments.level, NO_CUTOFF)
        total = relevant_total(judged, query, arguments.level)
        out[query] = (1.0 + weight) * found / (weight * total + judged.retrieved[query]) if found else 0.0


@kernel
def f1(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Harmonic mean of P@k and R@k; without a cutoff of the precision and recall of everything returned."""
    for query in range(len(out)):
        count = _relevant_within(judged, query, arguments.level, arguments.cutoff)
        total = relevant_total(judged, query, arguments.level)
        depth = judged.retrieved[query] if arguments.cutoff == NO_CUTOFF else arguments.cutoff
        out[query] = 2.0 * count / (total + depth) if count else 0.0


@kernel
def relevant_hits(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits in the top k."""
    for query in range(len(out)):
        out[query] = _relevant_within(judged, query, arguments.level, arguments.cutoff)


def number_of_queries(_judged: JudgedHits, _arguments: Arguments, out: Out) -> None:
    """1 for every query."""
    out[:] = 1.0


def number_retrieved(judged: JudgedHits, _arguments: Arguments, out: Out) -> None:
    """Hits, judged or not."""
    out[:] = judged.retrieved


@kernel
def number_relevant(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant documents, returned or not."""
    for query in range(len(out)):
        out[query] = relevant_total(judged, query, arguments.level)


@kernel
def number_relevant_retrieved(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits."""
    for query in range(len(out)):
        out[query] = _relevant_within(judged, query, arguments.level, NO_CUTOFF)
