"""Score one document exactly: float64 sums in one fixed order, rounded once to float32.

A product of two float32 numbers is exact in float64. The products of dimensions 0, 8, 16, … form the first of eight
sums, the products of 1, 9, 17, … the second, and so on; the eight are added as ((0 + 4) + (2 + 6)) + ((1 + 5) + (3 +
7)). So a score depends only on the two vectors. A sum in the compiler's order is several times faster; it is used if
the bound on its error (Higham, "Accuracy and Stability of Numerical Algorithms", 2002, equation 4.4) shows that both
round to the same float32, and that is nearly always.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.data.jit import inner_kernel, kernel, reordering_kernel
from harness.data.ranking import pack_key
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, Similarity, UInt32Array, UInt64Array

COSINE, DOT, L2 = 0, 1, 2
CODES: dict[Similarity, int] = {"cosine": COSINE, "dot": DOT, "l2": L2}
_ROUNDOFF = 2.0**-53
_FOUR, _EIGHT = np.uint64(4), np.uint64(8)


class Pair(NamedTuple):
    """The input of scores: both sides' vectors, their lengths, and the rule.

    ``documents`` float32 (n, d) may have more than ``dimensions`` columns; only the first count. ``queries`` float32
    (Q, dimensions); lengths are float64 (n,) and (Q,). ``tie_break`` uint32 (n,) orders equal scores, the larger first.
    ``similarity`` is one of :data:`CODES`.
    """

    documents: Float32Array
    queries: Float32Array
    document_lengths: Float64Array
    query_lengths: Float64Array
    tie_break: UInt32Array
    dimensions: np.uint64
    similarity: int


@inner_kernel
def _lane_sum(
    query: Float64Array, document: Float32Array, dimensions: np.uint64, distance: bool, lane: np.uint64
) -> np.float64:
    """Add the terms of dimensions ``lane``, ``lane + 8`` … in this order."""
    total = np.float64(0.0)
    for position in range(lane, dimensions, _EIGHT):
        x, y = query[position], np.float64(document[position])
        total += (x - y) * (x - y) if distance else x * y
    return total


@inner_kernel
def _sum_of(query: Float64Array, document: Float32Array, dimensions: np.uint64, distance: bool) -> np.float64:
    """Add all terms as the definition says: eight sums, added pairwise."""
    even = odd = np.float64(0.0)
    for lane in range(_FOUR):
        both = _lane_sum(query, document, dimensions, distance, np.uint64(lane))
        both += _lane_sum(query, document, dimensions, distance, np.uint64(lane) + _FOUR)
        if lane % np.uint64(2):
            odd += both
        else:
            even += both
    return even + odd


@reordering_kernel
def _quick_sum(query: Float64Array, document: Float32Array, dimensions: np.uint64, distance: bool) -> float:
    """Add the same terms in the compiler's order."""
    total = 0.0
    if distance:
        for position in range(dimensions):
            difference = query[position] - np.float64(document[position])
            total += difference * difference
    else:
        for position in range(dimensions):
            total += query[position] * np.float64(document[position])
    return total


@inner_kernel
def _score(total: float, lengths: float, similarity: int) -> float:
    """Return the score of a sum; ``lengths`` is the product of both vectors' lengths."""
    if similarity == L2:
        return -total
    return total / lengths if similarity == COSINE else total


@inner_kernel
def key_of(
    query: Float64Array, document: Float32Array, lengths: float, tie_break: np.uint32, similarity: int
) -> np.uint64:
    """Return the sort key of a document for a query: score, then tie-breaker.

    ``lengths`` is the product of both lengths. -0.0 counts as 0.0, and values beyond float32 as infinite.
    """
    distance, dimensions = similarity == L2, np.uint64(len(query))
    total = _quick_sum(query, document, dimensions, distance)
    part = 4.0 * (np.float64(dimensions) + 8.0) * _ROUNDOFF
    error = part * (total if distance else 1.0 if similarity == COSINE else lengths)
    score = _score(total, lengths, similarity)
    if np.float32(score - error) != np.float32(score + error):
        score = _score(_sum_of(query, document, dimensions, distance), lengths, similarity)
    return pack_key(np.float32(score), tie_break)


@kernel
def exact_keys(pair: Pair, indptr: Int64Array, rows: Int32Array, keys: UInt64Array) -> None:
    """Write the sort keys of ``rows[indptr[i]:indptr[i + 1]]`` for query ``i`` to the same positions of ``keys``."""
    for query in range(len(indptr) - 1):
        vector = pair.queries[query].astype(np.float64)
        for position in range(indptr[query], indptr[query + 1]):
            row = np.uint64(rows[position])
            lengths = pair.query_lengths[query] * pair.document_lengths[row]
            keys[position] = key_of(vector, pair.documents[row], lengths, pair.tie_break[row], pair.similarity)


def vector_lengths(vectors: Float32Array, dimensions: int | None = None) -> Float64Array:
    """Return the length of every row's first ``dimensions`` columns, float64 (n,).

    A length is the square root of a sum in the fixed order.
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
        for position in range(dimensions):
            value = np.float64(vectors[row, position])
            sums[position % _EIGHT] += value * value
        squares[row] = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
