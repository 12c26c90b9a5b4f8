"""Metrics that see grades. Each fills ``out`` (float64, one value a query)."""

from __future__ import annotations

import math

import numpy as np

from harness.data.jit import inner_kernel, kernel
from harness.metrics.judged import Arguments, JudgedHits, Out

EXPONENTIAL = 1.0
"""``Arguments.extra`` of DCG and nDCG with exponential gains; 0 for linear ones."""


@inner_kernel
def gain(grade: int, exponential: bool) -> float:
    """Return the gain of a grade: the grade itself or 2^grade - 1; 0 for grades below 1."""
    if grade < 1:
        return 0.0
    return 2.0**grade - 1.0 if exponential else float(grade)


@inner_kernel
def ideal_dcg(judged: JudgedHits, query: int, cutoff: int, exponential: bool) -> float:
    """Return the DCG of all judged documents of the query, best grade first, cut at the same rank."""
    start, stop = judged.indptr[query], judged.indptr[query + 1]
    total = 0.0
    for place in range(min(stop - start, cutoff)):
        if judged.ideal[start + place] < 1:
            continue
        total += gain(judged.ideal[start + place], exponential) / math.log2(place + 2.0)
    return total


@inner_kernel
def _dcg(judged: JudgedHits, query: int, cutoff: int, exponential: bool) -> float:
    """Return the DCG of the returned documents of the query within the cutoff."""
    total = 0.0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
        if judged.ranks[hit] <= cutoff and judged.grades[hit] > 0:
            total += gain(judged.grades[hit], exponential) / math.log2(judged.ranks[hit] + 1.0)
    return total


@kernel
def dcg(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Sum of the gains of the returned documents, each divided by log2(rank + 1)."""
    for query in range(len(out)):
        out[query] = _dcg(judged, query, arguments.cutoff, arguments.extra == EXPONENTIAL)


@kernel
def ndcg(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """DCG of the returned documents over the DCG of the ideal order of all relevant ones."""
    exponential = arguments.extra == EXPONENTIAL
    for query in range(len(out)):
        ideal = ideal_dcg(judged, query, arguments.cutoff, exponential)
        out[query] = _dcg(judged, query, arguments.cutoff, exponential) / ideal if ideal > 0.0 else 0.0


@kernel
def expected_reciprocal_rank(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected 1/rank at which a reader stops, who is satisfied by grade g with probability (2^g - 1) / 2^max."""
    highest = 2.0**arguments.extra
    for query in range(len(out)):
        going_on, total = 1.0, 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
            if judged.ranks[hit] > arguments.cutoff:
                break
            if judged.grades[hit] > 0:
                satisfied = (2.0 ** judged.grades[hit] - 1.0) / highest
                total += going_on * satisfied / judged.ranks[hit]
                going_on *= 1.0 - satisfied
        out[query] = total


@inner_kernel
def scaled_gain(judged: JudgedHits, query: int, grade: int) -> float:
    """Return a grade divided by the query's highest one, which is taken as 1 where it is lower."""
    return grade / max(judged.ideal[judged.indptr[query]], 1) if grade > 0 else 0.0


@kernel
def graded_rank_biased_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """(1 - p) times the sum of scaled gain · p^(rank - 1), the powers multiplied up as trec_eval 10 does."""
    for query in range(len(out)):
        weight, reached, gathered = 1.0, np.int64(1), 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
            if judged.ranks[hit] > arguments.cutoff:
                break
            while reached < judged.ranks[hit]:
                weight *= arguments.extra
                reached += 1
            gathered += scaled_gain(judged, query, judged.grades[hit]) * weight
        out[query] = (1.0 - arguments.extra) * gathered
