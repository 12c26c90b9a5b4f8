"""Expected values over all orders of each tie group, every order equally likely.

Source of the closed forms: F. McSherry and M. Najork, Computing information retrieval performance measures
efficiently in the presence of tied scores, ECIR 2008. A tie group begins after ``above`` hits, holds ``tied`` hits of
which some are relevant, and counts as far as the cutoff reaches into it. Each function fills ``out`` (float64, one
value a query).
"""

from __future__ import annotations

import math

from harness.data.jit import inner_kernel, kernel
from harness.metrics.judged import NO_CUTOFF, Arguments, JudgedHits, Out, relevant_total
from harness.metrics.kernels_graded import EXPONENTIAL, gain, ideal_dcg, scaled_gain


@inner_kernel
def _group_end(judged: JudgedHits, query: int, first: int) -> int:
    """Return one past the last judged hit of the tie group that begins at judged hit ``first``."""
    stop = judged.indptr[query] + judged.found[query]
    last = first + 1
    while last < stop and judged.above[last] == judged.above[first]:
        last += 1
    return last


@inner_kernel
def _relevant_in(judged: JudgedHits, first: int, last: int, level: int) -> int:
    count = 0
    for hit in range(first, last):
        if judged.grades[hit] >= level:
            count += 1
    return count


@inner_kernel
def _expected_within(judged: JudgedHits, query: int, level: int, cutoff: int) -> float:
    """Return the expected number of hits with at least grade ``level`` in the top ``cutoff``."""
    expected = 0.0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
        if judged.grades[hit] >= level:
            reached = min(max(cutoff - judged.above[hit], 0), judged.tied[hit])
            expected += reached / judged.tied[hit]
    return expected


@kernel
def precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected P@k."""
    for query in range(len(out)):
        out[query] = _expected_within(judged, query, arguments.level, arguments.cutoff) / arguments.cutoff


@kernel
def recall(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected R@k."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        expected = _expected_within(judged, query, arguments.level, arguments.cutoff)
        out[query] = expected / total if total else 0.0


@kernel
def capped_recall(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected capped recall."""
    for query in range(len(out)):
        total = min(arguments.cutoff, relevant_total(judged, query, arguments.level))
        expected = _expected_within(judged, query, arguments.level, arguments.cutoff)
        out[query] = expected / total if total else 0.0


@kernel
def r_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected R-precision."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        out[query] = _expected_within(judged, query, arguments.level, total) / total if total else 0.0


@kernel
def judged_rate(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected share of judged hits in the top k."""
    for query in range(len(out)):
        returned = min(arguments.cutoff, judged.retrieved[query])
        expected = _expected_within(judged, query, -(2**31), arguments.cutoff)
        out[query] = expected / returned if returned else 0.0


@inner_kernel
def _reached_first(judged: JudgedHits, query: int, level: int, cutoff: int, reciprocal: bool) -> float:
    """Return the expected 1/rank (or 1) at the first relevant hit within the cutoff.

    Only the best tie group with a relevant hit matters. With m hits of which r are relevant, the chance that the first
    of them comes at place i is C(m - i, r - 1) / C(m, r), built up factor by factor.
    """
    first, stop = judged.indptr[query], judged.indptr[query] + judged.found[query]
    while first < stop:
        last = _group_end(judged, query, first)
        relevant = _relevant_in(judged, first, last, level)
        if relevant:
            above, tied = judged.above[first], judged.tied[first]
            none_yet, expected = 1.0, 0.0
            for place in range(min(tied - relevant + 1, cutoff - above)):
                here = relevant / (tied - place)
                expected += none_yet * here * (1.0 / (above + place + 1) if reciprocal else 1.0)
                none_yet *= 1.0 - here
            return expected
        first = last
    return 0.0


@kernel
def reciprocal_rank(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected reciprocal rank."""
    for query in range(len(out)):
        out[query] = _reached_first(judged, query, arguments.level, arguments.cutoff, True)


@kernel
def success(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Chance of a relevant document in the top k."""
    for query in range(len(out)):
        out[query] = _reached_first(judged, query, arguments.level, arguments.cutoff, False)


@kernel
def average_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected AP: at place i of a group the expected precision is (before + 1 + (i - 1)(r - 1)/(m - 1)) / rank."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        before, gathered = 0, 0.0
        first, stop = judged.indptr[query], judged.indptr[query] + judged.found[query]
        while first < stop:
            last = _group_end(judged, query, first)
            relevant = _relevant_in(judged, first, last, arguments.level)
            above, tied = judged.above[first], judged.tied[first]
            others = (relevant - 1) / (tied - 1) if tied > 1 else 0.0
            for place in range(min(tied, arguments.cutoff - above) if relevant else 0):
                gathered += relevant / tied * (before + 1 + place * others) / (above + place + 1)
            before += relevant
            first = last
        out[query] = gathered / total if total else 0.0


@inner_kernel
def _expected_dcg(judged: JudgedHits, query: int, cutoff: int, exponential: bool) -> float:
    """Return the expected DCG: every place of a group has the group's mean gain."""
    gathered = 0.0
    first, stop = judged.indptr[query], judged.indptr[query] + judged.found[query]
    while first < stop:
        last = _group_end(judged, query, first)
        gains, discounts = 0.0, 0.0
        for hit in range(first, last):
            gains += gain(judged.grades[hit], exponential)
        above, tied = judged.above[first], judged.tied[first]
        for place in range(min(tied, cutoff - above) if gains else 0):
            discounts += 1.0 / math.log2(above + place + 2.0)
        gathered += gains / tied * discounts
        first = last
    return gathered


@kernel
def dcg(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected DCG."""
    for query in range(len(out)):
        out[query] = _expected_dcg(judged, query, arguments.cutoff, arguments.extra == EXPONENTIAL)


@kernel
def ndcg(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected nDCG."""
    exponential = arguments.extra == EXPONENTIAL
    for query in range(len(out)):
        ideal = ideal_dcg(judged, query, arguments.cutoff, exponential)
        out[query] = _expected_dcg(judged, query, arguments.cutoff, exponential) / ideal if ideal > 0.0 else 0.0


@kernel
def rank_biased_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected RBP: a relevant hit of a group earns the mean weight of the group's places."""
    for query in range(len(out)):
        gathered = 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
            if judged.grades[hit] >= arguments.level:
                above, tied = judged.above[hit], judged.tied[hit]
                reached = min(max(arguments.cutoff - above, 0), tied)
                gathered += arguments.extra**above * (1.0 - arguments.extra**reached) / tied
        out[query] = gathered


@kernel
def graded_rank_biased_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected graded RBP: a hit of a group earns its gain times the mean weight of the group's positions."""
    for query in range(len(out)):
        gathered = 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.found[query]):
            above, tied = judged.above[hit], judged.tied[hit]
            reached = min(max(arguments.cutoff - above, 0), tied)
            weight = arguments.extra**above * (1.0 - arguments.extra**reached) / tied
            gathered += scaled_gain(judged, query, judged.grades[hit]) * weight
        out[query] = gathered


@kernel
def f1(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected F1: its divisor does not depend on the order."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        depth = judged.retrieved[query] if arguments.cutoff == NO_CUTOFF else arguments.cutoff
        expected = _expected_within(judged, query, arguments.level, arguments.cutoff)
        out[query] = 2.0 * expected / (total + depth) if expected else 0.0


@kernel
def relevant_hits(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected number of relevant hits in the top k."""
    for query in range(len(out)):
        out[query] = _expected_within(judged, query, arguments.level, arguments.cutoff)
