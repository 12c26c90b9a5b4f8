"""Guessing which score the k-th best document has, from a sample of the sums.

A guess is only a guess: whoever uses it counts the documents that reach it, and starts again without one when they are
fewer than wanted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from harness.jit import inline_kernel
from harness.reference.postings import Outlook, Postings, QueryRows, Rule, contribution
from harness.reference.selection import nth_largest
from harness.types import Float64Array, UInt64Array

__all__ = ["Sample", "guess_from_all", "guess_from_touched", "lowest_reaching", "threshold_of"]

_LARGE_COLLECTION = 131_072
_STEP, _LARGE_STEP = 32, 128
_TOUCHED_STEP = np.uint64(16)
_TOUCHED_SAMPLE = np.uint64(512)
_LANE = np.uint64(8)
_ONE = np.uint64(1)


class Sample(NamedTuple):
    """One sum in ``step`` is looked at; the ``rank``-th best of them is the guess (0: never guess).

    ``touched_rank`` is the same for a sample of a query's postings; 0: by the size of that sample.
    """

    step: int
    rank: int
    touched_rank: int

    @classmethod
    def of(cls, wanted: int, documents: int) -> Sample:
        """For the best ``wanted`` of ``documents``."""
        step = _STEP if documents < _LARGE_COLLECTION else _LARGE_STEP
        return cls(step, rank_for(wanted / step), 0)

    @classmethod
    def never(cls) -> Sample:
        """No guess: every hit is collected."""
        return cls(1, 0, 0)


@inline_kernel
def rank_for(expected: float) -> int:
    """A rank so low that the guess is right nearly always: three standard deviations below the expected one."""
    return math.ceil(expected + 3.0 * math.sqrt(expected)) + 1


@inline_kernel
def lowest_reaching(score: np.float32) -> np.float64:
    """The smallest float64 that rounds to at least ``score`` (positive and finite) in float32."""
    bits = np.float32(score).view(np.uint32)
    below = np.uint32(bits - np.uint32(1)).view(np.float32)
    middle = (np.float64(score) + np.float64(below)) * 0.5
    if bits & np.uint32(1):  # a value in the middle rounds to the even neighbour, which is the lower one here
        return np.uint64(np.float64(middle).view(np.uint64) + _ONE).view(np.float64)
    return middle


@inline_kernel
def threshold_of(sample: UInt64Array, rank: np.uint64) -> np.float64:
    """The ``rank``-th best of a sample (bits of positive doubles) as a threshold; 0.0 when there are fewer."""
    if np.uint64(len(sample)) < rank:
        return np.float64(0.0)
    score = np.float32(np.uint64(nth_largest(sample, rank)).view(np.float64))
    return lowest_reaching(score) if score < np.float32(np.inf) else np.float64(0.0)


@inline_kernel
def guess_from_all(sample: Sample, sums: Float64Array, buffer: UInt64Array) -> np.float64:
    """A threshold from short runs of sums at equal distances; 0.0 for none."""
    documents = np.uint64(len(sums))
    bits = sums.view(np.uint64)
    found = np.uint64(0)
    for start in range(np.uint64(0), documents, np.uint64(sample.step) * _LANE):
        for row in range(start, min(start + _LANE, documents)):
            buffer[found] = bits[row]  # bits of positive doubles are in the order of their values
            found += np.uint64(sums[row] > 0.0)
    return threshold_of(buffer[:found], np.uint64(sample.rank))


@inline_kernel
def guess_from_touched(
    postings: Postings,
    queries: QueryRows,
    query: int,
    outlook: Outlook,
    rule: Rule,
    sample: Sample,
    width: np.uint64,
    sums: Float64Array,
    buffer: UInt64Array,
) -> np.float64:
    """A threshold from some of the query's postings, those of the longest term being still to be added.

    The best documents have most of the query's terms, the best thousand fewer, and as many chances to be in the sample;
    that a document occurs more than once, or without its last contribution, lowers the guess but not the result.
    """
    last = outlook.last
    step = max(_TOUCHED_STEP, outlook.postings // max(_TOUCHED_SAMPLE, np.uint64(4) * width))
    rank = sample.touched_rank
    if rank == 0:
        terms = np.float64(queries.indptr[query + 1] - queries.indptr[query])
        repeats = 2.0 + max(0.0, terms - 2.0) * min(1.0, (10.0 / np.float64(width)) ** 0.3)
        rank = rank_for(np.float64(width) * repeats / np.float64(step))
    found = np.uint64(0)
    for place in range(queries.indptr[query], queries.indptr[query + 1]):
        column, weight = queries.columns[place], queries.weights[place]
        for posting in range(postings.columns[column], postings.columns[column + 1], step):
            total = sums[np.uint64(postings.rows[posting])]
            if place == last:
                total += np.float64(contribution(weight, postings.values[posting], rule))
            buffer[found] = np.float64(total).view(np.uint64)
            found += np.uint64(total > 0.0)
    return threshold_of(buffer[:found], np.uint64(rank))
