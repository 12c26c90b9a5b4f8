"""The exact score of one document: float64 sums in one fixed order, rounded once to float32.

A product of two float32 numbers is exact in float64. The products of dimensions 0, 8, 16, … form the first of eight
sums, those of 1, 9, 17, … the second, and so on; the eight are added as ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7)). So a
score depends on nothing but the two vectors. A sum in the compiler's order is several times faster; it is taken where
the bound on its error (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, equation 4.4) shows that both
round to the same float32, and that is nearly always.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.jit import inline_kernel, kernel, prefetch, reordering_kernel
from harness.ranking import pack_key
from harness.types import (
    Float32Array,
    Float64Array,
    Int32Array,
    Int64Array,
    Similarity,
    UInt32Array,
    UInt64Array,
)

__all__ = ["CODES", "COSINE", "DOT", "L2", "Pair", "exact_keys", "vector_lengths"]

COSINE, DOT, L2 = 0, 1, 2
CODES: dict[Similarity, int] = {"cosine": COSINE, "dot": DOT, "l2": L2}
_ROUNDOFF = 2.0**-53
_EIGHT = np.uint64(8)
_LINE = np.uint64(16)
_AHEAD = 4
_UNDECIDED = np.uint64(0)


class Pair(NamedTuple):
    """What scores are computed from: both sides' vectors, their lengths, and the rule.

    ``documents`` float32 (n, d) may have more than ``dimensions`` columns, of which the first count; ``queries``
    float64 (Q, dimensions) holds float32 numbers, and is fastest where it begins a cache line; lengths are float64 (n,)
    and (Q,). ``tie_break`` uint32 (n,) orders equal scores, the larger first. ``similarity`` is one of :data:`CODES`.
    """

    documents: Float32Array
    queries: Float64Array
    document_lengths: Float64Array
    query_lengths: Float64Array
    tie_break: UInt32Array
    dimensions: np.uint64
    similarity: int


@reordering_kernel
def _fast_dot(query: Float64Array, document: Float32Array, dimensions: np.uint64) -> float:
    total = 0.0
    for place in range(dimensions):
        total += query[place] * np.float64(document[place])
    return total


@reordering_kernel
def _fast_distance(query: Float64Array, document: Float32Array, dimensions: np.uint64) -> float:
    total = 0.0
    for place in range(dimensions):
        difference = query[place] - np.float64(document[place])
        total += difference * difference
    return total


@inline_kernel
def _sum_of(query: Float64Array, document: Float32Array, dimensions: np.uint64, distance: bool) -> float:
    """The definition: eight sums, added pairwise."""
    sums = np.zeros(8)
    for place in range(dimensions):
        x, y = query[place], np.float64(document[place])
        sums[place % _EIGHT] += (x - y) * (x - y) if distance else x * y
    return float(((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7])))


@kernel
def exact_keys(pair: Pair, first_query: int, indptr: Int64Array, rows: Int32Array, keys: UInt64Array) -> None:
    """The sort keys of ``rows[indptr[i]:indptr[i + 1]]`` for query ``first_query + i``, into the same places of
    ``keys``: score, then tie-breaker.

    -0.0 counts as 0.0, and what is beyond float32 as infinite. While a document is scored, one that comes later in
    ``rows`` is on its way from memory.
    """
    part = 4.0 * (np.float64(pair.dimensions) + 8.0) * _ROUNDOFF
    for own in range(len(indptr) - 1):
        query, undecided = first_query + own, 0
        vector, length = pair.queries[query], pair.query_lengths[query]
        for place in range(indptr[own], indptr[own + 1]):
            if place + _AHEAD < len(rows):
                for column in range(np.uint64(0), pair.dimensions, _LINE):
                    prefetch(pair.documents, rows[place + _AHEAD], column)
            row = rows[place]
            document, lengths = pair.documents[row], length * pair.document_lengths[row]
            if pair.similarity == L2:
                fast = -_fast_distance(vector, document, pair.dimensions)
                error = -fast * part
            elif pair.similarity == COSINE:
                fast = _fast_dot(vector, document, pair.dimensions) / lengths
                error = part
            else:
                fast = _fast_dot(vector, document, pair.dimensions)
                error = lengths * part
            low, high = np.float32(fast - error), np.float32(fast + error)
            keys[place] = pack_key(high, pair.tie_break[row]) if low == high else _UNDECIDED
            undecided += low != high
        if undecided:
            _decide(pair, query, rows[indptr[own] : indptr[own + 1]], keys[indptr[own] : indptr[own + 1]])


@inline_kernel
def _decide(pair: Pair, query: int, rows: Int32Array, keys: UInt64Array) -> None:
    """The keys that are undecided, from the definition. It stands apart because a call that takes an array counts
    references to it, and in the loop above that would make each document wait for the one before.
    """
    for place in range(len(rows)):
        if keys[place] != _UNDECIDED:
            continue
        row = rows[place]
        total = _sum_of(pair.queries[query], pair.documents[row], pair.dimensions, pair.similarity == L2)
        if pair.similarity == L2:
            total = -total
        elif pair.similarity == COSINE:
            total /= pair.query_lengths[query] * pair.document_lengths[row]
        keys[place] = pack_key(np.float32(total), pair.tie_break[row])


def vector_lengths(vectors: Float32Array, dimensions: int | None = None) -> Float64Array:
    """The length of every row's first ``dimensions`` columns, float64 (n,): square roots of sums in the fixed order.

    ``vectors`` are C-contiguous float32 (n, d); None counts all dimensions.
    """
    squares = np.empty(len(vectors))
    view = vectors.view()
    view.flags.writeable = False  # so that arrays in memory and mapped from disk share one compiled signature
    _squares(view, np.uint64(vectors.shape[1] if dimensions is None else dimensions), squares)
    lengths: Float64Array = np.sqrt(squares)
    return lengths


@kernel
def _squares(vectors: Float32Array, dimensions: np.uint64, squares: Float64Array) -> None:
    for row in range(len(vectors)):
        sums = np.zeros(8)
        for place in range(dimensions):
            value = np.float64(vectors[row, place])
            sums[place % _EIGHT] += value * value
        squares[row] = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
