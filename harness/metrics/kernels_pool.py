"""Measures about judged and unjudged documents. Each fills ``out`` (float64, one value a query)."""

from __future__ import annotations

from harness.data.jit import kernel
from harness.metrics.judged import Arguments, JudgedHits, Out, relevant_total

_EPSILON = 1e-5
"""trec_eval's smoothing of infAP."""


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
