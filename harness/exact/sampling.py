"""Looking at some of the sums, to guess the k-th best score from them."""

from __future__ import annotations

import numpy as np

from harness.data.jit import inner_kernel
from harness.data.ranking import pack_key
from harness.exact.guess import rank_for
from harness.exact.postings import contribution
from harness.exact.workspace import Found, Search

__all__ = ["best_touched", "sample_all", "sample_touched"]

_STEP, _SAMPLE = np.uint64(16), np.uint64(512)
_ENOUGH = np.uint64(2048)
_LANE = np.uint64(8)
_ONE = np.uint64(1)


@inner_kernel
def sample_all(search: Search) -> tuple[np.uint64, np.uint64]:
    """Keys of documents in short runs at equal distances: how many, and which of them, by rank, is to be the guess."""
    sums, keys = search.sums, search.found.keys
    documents = np.uint64(len(sums))
    found = np.uint64(0)
    for start in range(np.uint64(0), documents, np.uint64(search.sample.step) * _LANE):
        for row in range(start, min(start + _LANE, documents)):
            keys[found] = pack_key(np.float32(sums[row]), np.uint32(row))
            found += np.uint64(sums[row] > 0.0)
    return found, np.uint64(search.sample.rank)


@inner_kernel
def sample_touched(search: Search, done: int, last: int, counted: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Keys of documents of some of the ``counted`` postings of the first ``last`` terms; how many, and the rank.

    Those of the terms from ``done`` on, one at most, are still to be added. The best documents have most of the terms,
    the best thousand fewer, and as many chances to be in the sample; that a document occurs more than once, or without
    its last contribution, lowers the guess but not the result.
    """
    postings, queries, terms, sums, keys = search.postings, search.queries, search.terms, search.sums, search.found.keys
    step = max(_STEP, counted // max(_SAMPLE, np.uint64(4) * search.width))
    rank = search.sample.touched_rank
    if rank == 0:
        repeats = 2.0 + max(0.0, np.float64(last) - 2.0) * min(1.0, (10.0 / np.float64(search.width)) ** 0.3)
        rank = rank_for(np.float64(search.width) * repeats / np.float64(step))
    found = np.uint64(0)
    for number in range(last):
        column, weight = queries.columns[terms.places[number]], queries.weights[terms.places[number]]
        for posting in range(postings.columns[column], postings.columns[column + 1], step):
            row = np.uint64(postings.rows[posting])
            total = sums[row]
            if number >= done:
                total += np.float64(contribution(weight, postings.values[posting], search.rule))
            keys[found] = pack_key(np.float32(total), np.uint32(row))
            found += np.uint64(total > 0.0)
    return found, np.uint64(rank)


@inner_kernel
def _insert(found: Found, count: np.uint64, most: np.uint64, row: np.uint64, total: np.float64) -> np.uint64:
    """Keep a document, unless it is there, among ``count`` sorted ones, ``most`` at most; how many there are then."""
    keys, sums = found.keys, found.sums
    hole = count
    while hole > 0 and sums[hole - _ONE] < total:
        hole -= _ONE
    equal = hole
    while equal > 0 and sums[equal - _ONE] == total:
        equal -= _ONE
        if keys[equal] == row:
            return count
    grown = min(count + _ONE, most)
    place = grown - _ONE
    while place > hole:
        keys[place], sums[place] = keys[place - _ONE], sums[place - _ONE]
        place -= _ONE
    keys[hole], sums[hole] = row, total
    return grown


@inner_kernel
def best_touched(search: Search, done: int, most: np.uint64) -> np.uint64:
    """Rows of the ``most`` best different documents of the first few of the ``done`` terms; how many there are.

    Kept sorted by insertion: that takes one comparison for nearly every posting.
    """
    postings, queries, terms, sums, found = search.postings, search.queries, search.terms, search.sums, search.found
    count, seen, worst = np.uint64(0), np.uint64(0), np.float64(0.0)
    for number in range(done):
        column = queries.columns[terms.places[number]]
        for posting in range(postings.columns[column], postings.columns[column + 1]):
            row = np.uint64(postings.rows[posting])
            if sums[row] > worst:
                count = _insert(found, count, most, row, sums[row])
                if count == most:
                    worst = found.sums[count - _ONE]
        seen += postings.columns[column + 1] - postings.columns[column]
        if seen > _ENOUGH:
            break
    return count
