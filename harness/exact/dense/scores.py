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

from harness.data.jit import inline_kernel, kernel
from harness.data.ranking import pack_key
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, Similarity, UInt32Array, UInt64Array
from harness.exact.instructions import four_product_sums, four_square_sums, product_sum, square_sum

__all__ = ["AT_ONCE", "CODES", "COSINE", "DOT", "L2", "Pair", "exact_keys", "keys_of", "vector_lengths"]

COSINE, DOT, L2 = 0, 1, 2
CODES: dict[Similarity, int] = {"cosine": COSINE, "dot": DOT, "l2": L2}
AT_ONCE = 256
"""Documents whose keys are computed together: their sums, then their keys."""
_ROUNDOFF = 2.0**-53
_EIGHT = np.uint64(8)
_FOUR = np.uint64(4)
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

    -0.0 counts as 0.0, and what is beyond float32 as infinite.
    """
    sums = np.empty(AT_ONCE)
    for own in range(len(indptr) - 1):
        end = indptr[own + 1]
        for start in range(indptr[own], end, AT_ONCE):
            stop = min(start + AT_ONCE, end)
            keys_of(pair, first_query + own, rows[start:stop], sums, keys[start:stop])


@inline_kernel
def keys_of(pair: Pair, query: int, rows: Int32Array | UInt64Array, sums: Float64Array, keys: UInt64Array) -> None:
    """The keys of up to :data:`AT_ONCE` rows for one query. ``sums`` is scratch space."""
    count, vector, documents = np.uint64(len(rows)), pair.queries[query], pair.documents
    fours = count // _FOUR
    for four in range(fours):
        place = np.uint64(four) * _FOUR
        if pair.similarity == L2:
            four_square_sums(vector, documents, rows, place, pair.dimensions, sums)
        else:
            four_product_sums(vector, documents, rows, place, pair.dimensions, sums)
    for last in range(fours * _FOUR, count):
        document = documents[np.uint64(rows[last])]
        if pair.similarity == L2:
            sums[last] = square_sum(vector, document, pair.dimensions)
        else:
            sums[last] = product_sum(vector, document, pair.dimensions)
    part, length = 4.0 * (np.float64(pair.dimensions) + 8.0) * _ROUNDOFF, pair.query_lengths[query]
    undecided = 0
    for one in range(count):
        row = np.uint64(rows[one])
        lengths = length * pair.document_lengths[row]
        if pair.similarity == L2:
            fast, error = -sums[one], sums[one] * part
        elif pair.similarity == COSINE:
            fast, error = sums[one] / lengths, part
        else:
            fast, error = sums[one], lengths * part
        low, high = np.float32(fast - error), np.float32(fast + error)
        keys[one] = pack_key(high, pair.tie_break[row]) if low == high else _UNDECIDED
        undecided += low != high
    if undecided:
        _decide(pair, query, rows, keys)


@inline_kernel
def _decide(pair: Pair, query: int, rows: Int32Array | UInt64Array, keys: UInt64Array) -> None:
    """The keys that are undecided, from the definition."""
    for place in range(len(rows)):
        if keys[place] != _UNDECIDED:
            continue
        row = np.uint64(rows[place])
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
