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

import numpy as np

from harness.jit import inline_kernel, kernel
from harness.reference.collect import collect_all, collect_reaching, collect_touched
from harness.reference.guess import Sample, guess_from_all, guess_from_touched
from harness.reference.postings import Postings, QueryRows, Rule
from harness.reference.selection import keep_largest
from harness.types import Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array

__all__ = ["retrieve_kernel", "score_kernel"]

_FEW = np.uint64(3)
"""Queries with fewer than one posting for this many documents go by way of their postings."""


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
def _postings_of(postings: Postings, queries: QueryRows, query: int) -> np.uint64:
    total = np.uint64(0)
    for place in range(queries.indptr[query], queries.indptr[query + 1]):
        column = queries.columns[place]
        total += postings.columns[column + 1] - postings.columns[column]
    return total


@inline_kernel
def _guess(
    postings: Postings,
    queries: QueryRows,
    query: int,
    few: bool | np.bool,
    sample: Sample,
    sums: Float64Array,
    buffer: UInt64Array,
) -> np.float64:
    if few:
        return guess_from_touched(postings, queries, query, sample, sums, buffer)
    return guess_from_all(sample, sums, buffer)


@inline_kernel
def _collect(
    postings: Postings,
    queries: QueryRows,
    query: int,
    few: bool | np.bool,
    threshold: np.float64,
    rule: Rule,
    sums: Float64Array,
    keys: UInt64Array,
) -> np.uint64:
    if few:
        return collect_touched(postings, queries, query, threshold, rule, sums, keys)
    if threshold > 0.0:
        return collect_reaching(threshold, rule, sums, keys)
    return collect_all(rule, sums, keys)


@kernel
def retrieve_kernel(
    postings: Postings,
    queries: QueryRows,
    first: int,
    rule: Rule,
    sample: Sample,
    sums: Float64Array,
    keys: UInt64Array,
    best: UInt64Array,
    counts: Int64Array,
) -> int:
    """The best hits of queries ``first``, ``first + 1`` … as unsorted keys in the rows of ``best``.

    ``best`` is uint64 (queries, width) and full of zeros, ``counts`` int64 (queries,) receives how many it holds.
    ``keys`` has one place for each document and one more. Returns how many guesses were too high and made a query run
    twice.
    """
    width = np.uint64(best.shape[1])
    rejected = 0
    for place in range(len(counts)):
        query = first + place
        few = _postings_of(postings, queries, query) * _FEW < np.uint64(len(sums))
        guessing = sample.rank > 0
        while True:
            _scatter(postings, queries, query, rule.lucene, sums)
            threshold = _guess(postings, queries, query, few, sample, sums, keys) if guessing else np.float64(0.0)
            found = _collect(postings, queries, query, few, threshold, rule, sums, keys)
            if threshold == 0.0 or found >= width:
                break
            guessing = False
            rejected += 1
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
