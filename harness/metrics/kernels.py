"""Metrics as kernels: each fills ``out`` (float64, one value per query) from the judged hits and their tie groups.

A tie group begins after ``above`` hits and holds ``tied`` hits, some of them relevant. A kernel returns the expected
value if every order of each group is equally likely. In a ranking without ties every hit is its own group, so that the
same kernel gives the value of that ranking, to the last bit. DCG and RBP are the exception: their expected values are
summed by group, which rounds in another way than trec_eval's sum by rank, so each has two kernels.

Source of the closed forms: F. McSherry and M. Najork, Computing information retrieval performance measures
efficiently in the presence of tied scores, ECIR 2008.

Functions that kernels call for every query leave their loops only at the end: with an early exit Numba counts
references of all arrays of ``JudgedHits`` at each call, which takes twenty times as long as the few hits themselves.
"""

from __future__ import annotations

import math

import numpy as np

from harness.data.jit import inner_kernel, kernel
from harness.metrics.judged import NO_CUTOFF, Arguments, JudgedHits, Out, relevant_total

EXPONENTIAL = 1.0
"""``Arguments.extra`` of DCG and nDCG with exponential gains; 0 for linear ones."""
_EPSILON = 1e-5
"""trec_eval's smoothing of infAP."""
_ANY_GRADE = -(2**31)
"""A level that every judged hit reaches."""


@inner_kernel
def _group_end(judged: JudgedHits, query: int, first: int) -> int:
    """Return one past the last judged hit of the tie group that begins at judged hit ``first``."""
    stop = judged.indptr[query] + judged.hit_counts[query]
    last = first + 1
    while last < stop and judged.above[last] == judged.above[first]:
        last += 1
    return last


@inner_kernel
def _relevant_in(judged: JudgedHits, first: int, last: int, level: float) -> int:
    count = 0
    for hit in range(first, last):
        if judged.grades[hit] >= level:
            count += 1
    return count


@inner_kernel
def _expected_within(judged: JudgedHits, query: int, level: float, cutoff: int) -> float:
    """Return the expected number of hits with at least grade ``level`` in the top ``cutoff``."""
    expected = 0.0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
        if judged.grades[hit] >= level:
            reached = min(max(cutoff - judged.above[hit], 0), judged.tied[hit])
            expected += reached / judged.tied[hit]
    return expected


@inner_kernel
def _reached_first(judged: JudgedHits, query: int, level: float, cutoff: int, reciprocal: bool) -> float:
    """Return the expected 1/rank (or 1) at the first relevant hit within the cutoff.

    Only the best tie group with a relevant hit matters. With m hits, r of them relevant, the chance that the first
    relevant hit is at position i is C(m - i, r - 1) / C(m, r), built up factor by factor.
    """
    best, relevant = judged.indptr[query], 0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
        if judged.grades[hit] >= level and (relevant == 0 or judged.above[hit] == judged.above[best]):
            best = hit
            relevant += 1
    expected, none_yet = 0.0, 1.0
    if relevant:
        above, tied = judged.above[best], judged.tied[best]
        for position in range(min(tied - relevant + 1, cutoff - above)):
            chance = relevant / (tied - position)
            expected += none_yet * chance * (1.0 / (above + position + 1) if reciprocal else 1.0)
            none_yet *= 1.0 - chance
    return expected


@kernel
def precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits in the top k, divided by k even when fewer were returned."""
    for query in range(len(out)):
        out[query] = _expected_within(judged, query, arguments.level, arguments.cutoff) / arguments.cutoff


@kernel
def recall(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits in the top k, divided by R, the number of relevant documents."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        relevant_hits = _expected_within(judged, query, arguments.level, arguments.cutoff)
        out[query] = relevant_hits / total if total else 0.0


@kernel
def capped_recall(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits in the top k, divided by min(k, R)."""
    for query in range(len(out)):
        total = min(arguments.cutoff, relevant_total(judged, query, arguments.level))
        relevant_hits = _expected_within(judged, query, arguments.level, arguments.cutoff)
        out[query] = relevant_hits / total if total else 0.0


@kernel
def success(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """1 when a relevant document is in the top k."""
    for query in range(len(out)):
        out[query] = _reached_first(judged, query, arguments.level, arguments.cutoff, False)


@inner_kernel
def _all_reached(judged: JudgedHits, query: int, level: float, cutoff: int) -> float:
    """Return the chance that every relevant document is in the top ``cutoff``; 0 if one was not returned.

    Of a tie group that the cutoff divides, c of m places count. The chance that all of its r relevant hits have one is
    C(m - r, c - r) / C(m, c), the product of (c - i) / (m - i) over i < r.
    """
    total = relevant_total(judged, query, level)
    missing, chance = total, 1.0 if total else 0.0
    first, stop = judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]
    while first < stop:
        last = _group_end(judged, query, first)
        relevant = _relevant_in(judged, first, last, level)
        reached = min(max(cutoff - judged.above[first], 0), judged.tied[first])
        for position in range(relevant):
            chance *= max(reached - position, 0) / (judged.tied[first] - position)
        missing -= relevant
        first = last
    return chance if missing == 0 else 0.0


@kernel
def complete(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """1 when every relevant document is in the top k."""
    for query in range(len(out)):
        out[query] = _all_reached(judged, query, arguments.level, arguments.cutoff)


@kernel
def reciprocal_rank(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """1 divided by the rank of the first relevant hit."""
    for query in range(len(out)):
        out[query] = _reached_first(judged, query, arguments.level, arguments.cutoff, True)


@kernel
def r_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits in the top R, divided by R."""
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        out[query] = _expected_within(judged, query, arguments.level, total) / total if total else 0.0


@kernel
def average_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Sum of the precision at each relevant hit in the top k, divided by R; never below ``extra``.

    At position i of a group the expected precision is (before + 1 + (i - 1)(r - 1)/(m - 1)) / rank.
    """
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        before, gathered = 0, 0.0
        first, stop = judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]
        while first < stop:
            last = _group_end(judged, query, first)
            relevant = _relevant_in(judged, first, last, arguments.level)
            above, tied = judged.above[first], judged.tied[first]
            share_of_others = (relevant - 1) / (tied - 1) if tied > 1 else 0.0
            for position in range(min(tied, arguments.cutoff - above) if relevant else 0):
                gathered += relevant / tied * (before + 1 + position * share_of_others) / (above + position + 1)
            before += relevant
            first = last
        out[query] = max(gathered / total if total else 0.0, arguments.extra)


@kernel
def f1(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Harmonic mean of P@k and R@k; without a cutoff of the precision and recall of everything returned."""
    for query in range(len(out)):
        count = _expected_within(judged, query, arguments.level, arguments.cutoff)
        total = relevant_total(judged, query, arguments.level)
        depth = judged.retrieved[query] if arguments.cutoff == NO_CUTOFF else arguments.cutoff
        out[query] = 2.0 * count / (total + depth) if count else 0.0


@kernel
def judged_rate(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Hits in the top k that this query has a judgment for, divided by the hits in the top k."""
    for query in range(len(out)):
        returned = min(arguments.cutoff, judged.retrieved[query])
        expected = _expected_within(judged, query, _ANY_GRADE, arguments.cutoff)
        out[query] = expected / returned if returned else 0.0


@kernel
def relevant_hits(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits in the top k."""
    for query in range(len(out)):
        out[query] = _expected_within(judged, query, arguments.level, arguments.cutoff)


@kernel
def set_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Relevant hits, divided by the number of hits."""
    for query in range(len(out)):
        returned = judged.retrieved[query]
        out[query] = _expected_within(judged, query, arguments.level, NO_CUTOFF) / returned if returned else 0.0


@kernel
def set_f(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """(1 + beta) P R / (beta P + R) of the returned set; ``extra`` is beta."""
    weight = arguments.extra
    for query in range(len(out)):
        relevant_hits = _expected_within(judged, query, arguments.level, NO_CUTOFF)
        total = relevant_total(judged, query, arguments.level)
        out[query] = (
            (1.0 + weight) * relevant_hits / (weight * total + judged.retrieved[query]) if relevant_hits else 0.0
        )


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
        out[query] = _expected_within(judged, query, arguments.level, NO_CUTOFF)


@inner_kernel
def _gain(grade: float, exponential: bool) -> float:
    """Return the gain of a grade: the grade itself or 2^grade - 1; 0 for grades of 0 and below."""
    if grade <= 0:
        return 0.0
    return 2.0**grade - 1.0 if exponential else float(grade)


@inner_kernel
def _ideal_dcg(judged: JudgedHits, query: int, cutoff: int, exponential: bool) -> float:
    """Return the DCG of all judged documents of the query, best grade first, cut at the same rank."""
    start, stop = judged.indptr[query], judged.indptr[query + 1]
    total = 0.0
    for position in range(min(stop - start, cutoff)):
        if judged.ideal[start + position] <= 0:  # no `break`, although all that follow are as low: see above
            continue
        total += _gain(judged.ideal[start + position], exponential) / math.log2(position + 2.0)
    return total


@inner_kernel
def _dcg(judged: JudgedHits, query: int, cutoff: int, exponential: bool) -> float:
    """Return the DCG of the returned documents of the query within the cutoff."""
    total = 0.0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
        if judged.ranks[hit] <= cutoff and judged.grades[hit] > 0:
            total += _gain(judged.grades[hit], exponential) / math.log2(judged.ranks[hit] + 1.0)
    return total


@inner_kernel
def _expected_dcg(judged: JudgedHits, query: int, cutoff: int, exponential: bool) -> float:
    """Return the expected DCG: every position of a group has the group's mean gain."""
    gathered = 0.0
    first, stop = judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]
    while first < stop:
        last = _group_end(judged, query, first)
        gains, discounts = 0.0, 0.0
        for hit in range(first, last):
            gains += _gain(judged.grades[hit], exponential)
        above, tied = judged.above[first], judged.tied[first]
        for position in range(min(tied, cutoff - above) if gains else 0):
            discounts += 1.0 / math.log2(above + position + 2.0)
        gathered += gains / tied * discounts
        first = last
    return gathered


@kernel
def dcg(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Sum of the gains of the returned documents, each divided by log2(rank + 1)."""
    for query in range(len(out)):
        out[query] = _dcg(judged, query, arguments.cutoff, arguments.extra == EXPONENTIAL)


@kernel
def expected_dcg(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected DCG."""
    for query in range(len(out)):
        out[query] = _expected_dcg(judged, query, arguments.cutoff, arguments.extra == EXPONENTIAL)


@kernel
def ndcg(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """DCG of the returned documents over the DCG of the ideal order of all relevant ones."""
    exponential = arguments.extra == EXPONENTIAL
    for query in range(len(out)):
        ideal = _ideal_dcg(judged, query, arguments.cutoff, exponential)
        out[query] = _dcg(judged, query, arguments.cutoff, exponential) / ideal if ideal > 0.0 else 0.0


@kernel
def expected_ndcg(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected nDCG."""
    exponential = arguments.extra == EXPONENTIAL
    for query in range(len(out)):
        ideal = _ideal_dcg(judged, query, arguments.cutoff, exponential)
        out[query] = _expected_dcg(judged, query, arguments.cutoff, exponential) / ideal if ideal > 0.0 else 0.0


@kernel
def rank_biased_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """(1 - p) times the sum of p^(rank - 1) over relevant hits."""
    for query in range(len(out)):
        gathered = 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
            if judged.ranks[hit] > arguments.cutoff:
                break
            if judged.grades[hit] >= arguments.level:
                gathered += arguments.extra ** (judged.ranks[hit] - 1)
        out[query] = (1.0 - arguments.extra) * gathered


@kernel
def expected_rank_biased_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected RBP: a relevant hit of a group earns the mean weight of the group's positions."""
    for query in range(len(out)):
        gathered = 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
            if judged.grades[hit] >= arguments.level:
                above, tied = judged.above[hit], judged.tied[hit]
                reached = min(max(arguments.cutoff - above, 0), tied)
                gathered += arguments.extra**above * (1.0 - arguments.extra**reached) / tied
        out[query] = gathered


@inner_kernel
def _scaled_gain(judged: JudgedHits, query: int, grade: float) -> float:
    """Return a grade divided by the query's highest grade, which is taken as 1 if it is lower."""
    return grade / max(judged.ideal[judged.indptr[query]], 1) if grade > 0 else 0.0


@kernel
def graded_rank_biased_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """(1 - p) times the sum of scaled gain · p^(rank - 1), the powers multiplied up as trec_eval 10 does."""
    for query in range(len(out)):
        weight, reached, gathered = 1.0, np.int64(1), 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
            if judged.ranks[hit] > arguments.cutoff:
                break
            while reached < judged.ranks[hit]:  # a power by `**` differs from trec_eval's product in its last bits
                weight *= arguments.extra
                reached += 1
            gathered += _scaled_gain(judged, query, judged.grades[hit]) * weight
        out[query] = (1.0 - arguments.extra) * gathered


@kernel
def expected_graded_rank_biased_precision(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected graded RBP: a hit of a group earns its gain times the mean weight of the group's positions."""
    for query in range(len(out)):
        gathered = 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
            above, tied = judged.above[hit], judged.tied[hit]
            reached = min(max(arguments.cutoff - above, 0), tied)
            weight = arguments.extra**above * (1.0 - arguments.extra**reached) / tied
            gathered += _scaled_gain(judged, query, judged.grades[hit]) * weight
        out[query] = gathered


@kernel
def expected_reciprocal_rank(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Expected 1/rank at which a reader stops, who is satisfied by grade g with probability (2^g - 1) / 2^max."""
    highest = 2.0**arguments.extra
    for query in range(len(out)):
        going_on, total = 1.0, 0.0
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
            if judged.ranks[hit] > arguments.cutoff:
                break
            if judged.grades[hit] > 0:
                satisfied = (2.0 ** judged.grades[hit] - 1.0) / highest
                total += going_on * satisfied / judged.ranks[hit]
                going_on *= 1.0 - satisfied
        out[query] = total


@inner_kernel
def _least_relevant(recall: float, total: int, release: int) -> int:
    """Return the number of relevant documents at a recall point as this release of trec_eval takes it.

    Release 9 adds 0.9 and rounds down; release 10 rounds, halves up.
    """
    exact = recall * total
    if release == 9:
        return math.floor(exact + 0.9)
    down = math.floor(exact)
    return down + 1 if exact - down >= 0.5 else down


@inner_kernel
def _interpolated(judged: JudgedHits, query: int, level: float, least: int) -> float:
    """Return the highest precision at or after the rank of the relevant hit number ``least``."""
    seen, best = 0, 0.0
    for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
        if judged.grades[hit] >= level:
            seen += 1
            if seen >= least:
                best = max(best, seen / judged.ranks[hit])
    return best


@inner_kernel
def _interpolated_precision(judged: JudgedHits, arguments: Arguments, out: Out, release: int) -> None:
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        least = _least_relevant(arguments.extra, total, release)
        out[query] = _interpolated(judged, query, arguments.level, least)


@inner_kernel
def _eleven_point_average(judged: JudgedHits, arguments: Arguments, out: Out, release: int) -> None:
    for query in range(len(out)):
        total = relevant_total(judged, query, arguments.level)
        gathered = 0.0
        for tenth in range(11):
            least = _least_relevant(tenth / 10.0, total, release)
            gathered += _interpolated(judged, query, arguments.level, least)
        out[query] = gathered / 11.0


@kernel
def interpolated_precision_9(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Highest precision at any rank where recall is at least ``extra``, as trec_eval 9 counts."""
    _interpolated_precision(judged, arguments, out, 9)


@kernel
def interpolated_precision_10(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Highest precision at any rank where recall is at least ``extra``, as trec_eval 10 counts."""
    _interpolated_precision(judged, arguments, out, 10)


@kernel
def eleven_point_average_9(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Mean of the interpolated precision at recall 0.0, 0.1 … 1.0, as trec_eval 9 counts."""
    _eleven_point_average(judged, arguments, out, 9)


@kernel
def eleven_point_average_10(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Mean of the interpolated precision at recall 0.0, 0.1 … 1.0, as trec_eval 10 counts."""
    _eleven_point_average(judged, arguments, out, 10)


@kernel
def binary_preference(judged: JudgedHits, arguments: Arguments, out: Out) -> None:
    """Mean over relevant documents of 1 - (non-relevant ones above it, at most R) / min(R, N); unjudged are skipped."""
    for query in range(len(out)):
        start, stop = judged.indptr[query], judged.indptr[query + 1]
        total = relevant_total(judged, query, arguments.level)
        nonrelevant = 0
        for position in range(start + total, stop):  # grades descend; negative ones are pooled, but not judged
            if judged.ideal[position] >= 0:
                nonrelevant += 1
        above, gathered = 0, 0.0
        for hit in range(start, start + judged.hit_counts[query]):
            if judged.grades[hit] >= arguments.level:
                # without a non-relevant document above, there may be none at all, and no divisor
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
        for hit in range(judged.indptr[query], judged.indptr[query] + judged.hit_counts[query]):
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
