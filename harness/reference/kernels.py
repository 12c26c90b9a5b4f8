"""The kernels behind exact sparse search: scatter postings into accumulators, then take the best k.

Conventions that keep them fast: indices and loop counters are unsigned (a signed index needs a wrap-around test and
blocks vectorisation); inputs are read-only views, so that one compiled signature serves arrays in memory and mapped
from disk; the caller owns all buffers.

Accumulators are float64 and hold ``empty`` between queries. ``mask`` and ``empty`` (as bits) tell hits from the rest:
a document is a hit when ``bits & mask != empty``. Textbook scoring takes every score other than zero (mask without the
sign bit, empty 0.0); Lucene's takes every document that was touched (all bits, empty -0.0, which no sum of
contributions can equal, because x + 0.0 and x - x are +0.0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.jit import inline_kernel, kernel
from harness.ranking import pack_key
from harness.reference.selection import keep_largest
from harness.types import Float32Array, Float64Array, Int32Array, Int64Array, UInt32Array, UInt64Array

__all__ = ["Postings", "QueryRows", "Rule", "retrieve_kernel", "sample_step", "score_kernel"]

_BLOCK = np.uint64(64)
_LANE = np.uint64(8)
_LARGE = np.uint64(131_072)
_SMALL_STEP = np.uint64(16)
_LARGE_STEP = np.uint64(64)
_ONE = np.uint64(1)
_TOP = np.uint32(0xFFFFFFFF)


class Postings(NamedTuple):
    """Documents by dimension (CSC): ``columns`` uint64 (D + 1), ``rows`` uint32 (P,), ``values`` float32 (P,)."""

    columns: UInt64Array
    rows: UInt32Array
    values: Float32Array

    def document_frequencies(self) -> Int64Array:
        """Documents in each dimension (int64, shape (D,))."""
        return np.diff(self.columns).astype(np.int64)


class QueryRows(NamedTuple):
    """Queries (CSR) with their final weights: ``indptr`` int64, ``columns`` int32, ``weights`` float32."""

    indptr: Int64Array
    columns: Int32Array
    weights: Float32Array


class Rule(NamedTuple):
    """How postings become contributions, and which sums are hits."""

    lucene: bool
    mask: np.uint64
    empty: np.uint64


@inline_kernel
def _scatter(postings: Postings, queries: QueryRows, query: int, lucene: bool, sums: Float64Array) -> None:
    rows, values = postings.rows, postings.values
    for place in range(queries.indptr[query], queries.indptr[query + 1]):
        column = queries.columns[place]
        weight = queries.weights[place]
        start, stop = postings.columns[column], postings.columns[column + 1]
        if lucene:
            for posting in range(start, stop):
                sums[np.uint64(rows[posting])] += np.float64(weight - weight / values[posting])
        else:
            for posting in range(start, stop):
                sums[np.uint64(rows[posting])] += np.float64(weight * values[posting])


@inline_kernel
def _lowest_reaching(score: np.float32) -> np.float64:
    """The smallest float64 that rounds to at least ``score`` (positive and finite) in float32."""
    bits = np.float32(score).view(np.uint32)
    below = np.uint32(bits - np.uint32(1)).view(np.float32)
    middle = (np.float64(score) + np.float64(below)) * 0.5
    if bits & np.uint32(1):  # a value in the middle rounds to the even neighbour, which is the lower one here
        return np.uint64(np.float64(middle).view(np.uint64) + _ONE).view(np.float64)
    return middle


@inline_kernel
def sample_step(documents: int | np.uint64) -> np.uint64:
    """One in how many sums is in the sample."""
    return _SMALL_STEP if np.uint64(documents) < _LARGE else _LARGE_STEP


@inline_kernel
def _guess(sums: Float64Array, rank: int, buffer: UInt64Array) -> np.float64:
    """The ``rank``-th best of a sample of the sums as a threshold; 0.0 when the sample has fewer positive ones."""
    documents = np.uint64(len(sums))
    step = sample_step(documents) * _LANE
    bits = sums.view(np.uint64)
    found = np.uint64(0)
    for start in range(np.uint64(0), documents, step):
        for row in range(start, min(start + _LANE, documents)):
            buffer[found] = bits[row]  # bits of positive doubles are in the order of their values
            found += np.uint64(sums[row] > 0.0)
    if found < np.uint64(rank):
        return np.float64(0.0)
    keep_largest(buffer[:found], np.uint64(rank))
    worst = buffer[np.uint64(0)]
    for place in range(_ONE, np.uint64(rank)):
        worst = min(worst, buffer[place])
    score = np.float32(np.uint64(worst).view(np.float64))
    return _lowest_reaching(score) if score > np.float32(0.0) and score < np.float32(np.inf) else np.float64(0.0)


@inline_kernel
def _collect_reaching(sums: Float64Array, threshold: np.float64, empty: np.float64, keys: UInt64Array) -> np.uint64:
    """Keys of all documents with a sum of at least ``threshold`` (positive); clears the sums on the way."""
    documents = np.uint64(len(sums))
    found = np.uint64(0)
    for start in range(np.uint64(0), documents, _BLOCK):
        stop = min(start + _BLOCK, documents)
        hits = np.uint64(0)
        for row in range(start, stop):
            hits += np.uint64(sums[row] >= threshold)
        if hits:
            for row in range(start, stop):
                if sums[row] >= threshold:
                    keys[found] = pack_key(np.float32(sums[row]), _TOP - np.uint32(row))
                    found += _ONE
        for row in range(start, stop):
            sums[row] = empty
    return found


@inline_kernel
def _collect_all(sums: Float64Array, mask: np.uint64, empty: np.uint64, keys: UInt64Array) -> np.uint64:
    """Keys of all hits; clears the sums on the way."""
    bits = sums.view(np.uint64)
    found = np.uint64(0)
    for row in range(np.uint64(0), np.uint64(len(sums))):
        if bits[row] & mask != empty:
            keys[found] = pack_key(np.float32(sums[row]), _TOP - np.uint32(row))
            found += _ONE
        bits[row] = empty
    return found


@kernel
def retrieve_kernel(
    postings: Postings,
    queries: QueryRows,
    first: int,
    rule: Rule,
    rank: int,
    sums: Float64Array,
    keys: UInt64Array,
    best: UInt64Array,
    counts: Int64Array,
) -> int:
    """The best hits of queries ``first``, ``first + 1`` … as unsorted keys in the rows of ``best``.

    ``best`` is uint64 (queries, width) and full of zeros, ``counts`` int64 (queries,) receives how many it holds.
    ``rank`` is where in the sample the threshold is guessed (0: never). Returns how many guesses were too high and
    made a query run twice.
    """
    width = np.uint64(best.shape[1])
    empty = np.uint64(rule.empty).view(np.float64)
    rejected = 0
    for place in range(len(counts)):
        query = first + place
        _scatter(postings, queries, query, rule.lucene, sums)
        threshold = _guess(sums, rank, keys) if rank > 0 else np.float64(0.0)
        if threshold > 0.0:
            found = _collect_reaching(sums, threshold, empty, keys)
            if found < width:
                rejected += 1
                _scatter(postings, queries, query, rule.lucene, sums)
                found = _collect_all(sums, rule.mask, rule.empty, keys)
        else:
            found = _collect_all(sums, rule.mask, rule.empty, keys)
        if found > width:
            keep_largest(keys[:found], width)
            found = width
        for hit in range(found):
            best[np.uint64(place), hit] = keys[hit]
        counts[place] = found
    return rejected


@kernel
def score_kernel(
    postings: Postings,
    queries: QueryRows,
    rule: Rule,
    indptr: Int64Array,
    rows: Int32Array,
    sums: Float64Array,
    scores: Float32Array,
) -> None:
    """Scores of the given documents of every query; +0.0 for a document that matches nothing."""
    empty = np.uint64(rule.empty).view(np.float64)
    for query in range(len(indptr) - 1):
        if indptr[query] == indptr[query + 1]:
            continue
        _scatter(postings, queries, query, rule.lucene, sums)
        for hit in range(indptr[query], indptr[query + 1]):
            scores[hit] = np.float32(sums[rows[hit]] + 0.0)
        sums[:] = empty
