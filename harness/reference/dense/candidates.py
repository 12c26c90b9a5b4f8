"""Which documents may be among a query's best: a filter over blocks of float32 products, and the exact choice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.jit import inline_kernel, kernel
from harness.ranking import sortable_bits, unpack_score
from harness.reference.dense.scores import Pair, exact_keys
from harness.reference.selection import keep_largest, nth_largest
from harness.types import Float32Array, Int32Array, Int64Array, UInt64Array

__all__ = ["STEP", "Estimates", "Lists", "choose", "decode", "filter_block", "guess_floors"]

STEP = 64
"""Documents that are looked at together: a list has room for that many more."""
_STEP = np.uint64(STEP)
_ROWS = np.int64(1024)


class Estimates(NamedTuple):
    """How products become estimates of scores: ``product * factor[query] * scale[row] + shift[row]``, all float32.

    ``slack`` float32 (Q,): a document whose estimate lies further than this below the k-th largest estimate is not
    among the best k, nor tied with any of them.
    """

    factor: Float32Array
    scale: Float32Array
    shift: Float32Array
    slack: Float32Array


class Lists(NamedTuple):
    """Documents of each query that may be among its best: rows int32 (Q, c), estimates float32 (Q, c).

    The first ``counts`` (int64) of each row are in use, rows ascending; ``floors`` float32 is what an estimate has to
    reach; ``keys`` uint64 (c,) is scratch space. c is at least k + 128. ``guesses`` float32 are the floors to begin
    with, which may turn out too high.
    """

    rows: Int32Array
    estimates: Float32Array
    counts: Int64Array
    floors: Float32Array
    guesses: Float32Array
    keys: UInt64Array

    @classmethod
    def empty(cls, queries: int, width: int) -> Lists:
        """Nothing found yet."""
        return cls(
            np.empty((queries, width), dtype=np.int32),
            np.empty((queries, width), dtype=np.float32),
            np.zeros(queries, dtype=np.int64),
            np.full(queries, -np.inf, dtype=np.float32),
            np.full(queries, -np.inf, dtype=np.float32),
            np.empty(width, dtype=np.uint64),
        )


@kernel
def guess_floors(
    products: Float32Array, sample: Int64Array, first_query: int, estimates: Estimates, rank: int, lists: Lists
) -> None:
    """Begin with floors that the ``rank``-th best of a sample of documents allows: ``products`` is (Q, sample)."""
    queries, width = products.shape
    keys = np.empty(width, dtype=np.uint64)
    for query in range(queries):
        factor = estimates.factor[first_query + query]
        for place in range(width):
            row = sample[place]
            estimate = products[query, place] * factor * estimates.scale[row] + estimates.shift[row]
            keys[place] = np.uint64(sortable_bits(estimate)) << np.uint64(32) | np.uint64(place)
        found = np.int64(nth_largest(keys, np.uint64(rank)) & np.uint64(0xFFFFFFFF))
        row = sample[found]
        estimate = products[query, found] * factor * estimates.scale[row] + estimates.shift[row]
        lists.guesses[query] = np.float32(estimate - estimates.slack[first_query + query])
        lists.floors[query] = lists.guesses[query]


@kernel
def filter_block(
    products: Float32Array, first: np.uint64, first_query: int, estimates: Estimates, pair: Pair, k: int, lists: Lists
) -> None:
    """Take from a block (Q, m) of products of queries and documents ``first`` to ``first + m`` what may be best.

    ``first_query`` is the place of the block's first query in ``pair`` and ``estimates``.
    """
    queries, width = products.shape
    end, room = np.uint64(width), np.uint64(lists.rows.shape[1])
    scale, shift = estimates.scale[first : first + end], estimates.shift[first : first + end]
    several = np.empty(STEP, dtype=np.float32)
    for query in range(queries):
        line, factor = products[query], estimates.factor[first_query + query]
        rows, values = lists.rows[query], lists.estimates[query]
        count, floor = np.uint64(lists.counts[query]), lists.floors[query]
        for start in range(np.uint64(0), end, _STEP):
            stop = start + _STEP
            if stop <= end:
                reached = np.uint32(0)
                for place in range(_STEP):
                    estimate = line[start + place] * factor * scale[start + place] + shift[start + place]
                    several[place] = estimate
                    reached += np.uint32(estimate >= floor)
                if not reached:
                    continue
            else:
                stop = end
                for place in range(start, end):
                    several[place - start] = line[place] * factor * scale[place] + shift[place]
            if count + _STEP > room:
                lists.counts[query] = np.int64(count)
                _shorten(first_query, query, estimates, pair, k, lists)
                count, floor = np.uint64(lists.counts[query]), lists.floors[query]
            for place in range(stop - start):
                if several[place] >= floor:
                    rows[count] = np.int32(first + start + place)
                    values[count] = several[place]
                    count += np.uint64(1)
        lists.counts[query] = np.int64(count)


@inline_kernel
def _shorten(first_query: int, query: int, estimates: Estimates, pair: Pair, k: int, lists: Lists) -> np.float32:
    """Raise the floor to what the k-th largest estimate allows, and give that; where ties keep the list long, choose
    exactly.
    """
    count, values = lists.counts[query], lists.estimates[query]
    for place in range(count):
        lists.keys[place] = np.uint64(sortable_bits(values[place])) << np.uint64(32) | np.uint64(place)
    keep_largest(lists.keys[:count], np.uint64(k))
    kth = np.float32(np.inf)
    for place in range(k):
        kth = min(kth, values[lists.keys[place] & np.uint64(0xFFFFFFFF)])
    allowed = np.float32(kth - estimates.slack[first_query + query])
    lists.floors[query] = max(lists.floors[query], allowed)
    _drop_below(query, lists)
    if lists.counts[query] > (k + len(values)) // 2:
        _keep_best(first_query, query, pair, k, lists)
    return allowed


@inline_kernel
def _drop_below(query: int, lists: Lists) -> None:
    rows, values, floor = lists.rows[query], lists.estimates[query], lists.floors[query]
    kept = 0
    for place in range(lists.counts[query]):
        rows[kept], values[kept] = rows[place], values[place]
        kept += values[place] >= floor
    lists.counts[query] = kept


@inline_kernel
def _keep_best(first_query: int, query: int, pair: Pair, k: int, lists: Lists) -> None:
    """Keep exactly the best k of a list: a document that comes later is compared with them at the end."""
    count = lists.counts[query]
    rows, values = lists.rows[query], lists.estimates[query]
    exact = np.empty(count, dtype=np.uint64)
    exact_keys(pair, first_query + query, rows, 0, count, exact)
    lists.keys[:count] = exact
    keep_largest(lists.keys[:count], np.uint64(k))
    least = lists.keys[0]
    for place in range(k):
        least = min(least, lists.keys[place])
    kept = 0
    for place in range(count):
        if exact[place] >= least:
            rows[kept], values[kept] = rows[place], values[place]
            kept += 1
    lists.counts[query] = kept


@kernel
def choose(
    first_query: int, estimates: Estimates, pair: Pair, k: int, lists: Lists, keys: UInt64Array, best: UInt64Array
) -> None:
    """The keys of each query's best ``k`` documents, in no order: ``best`` uint64 (Q, k).

    Where the guess was too high, they are not known; the first of them is 0 then, which no document's key is.

    ``keys`` uint64, of the shape of the lists, is scratch space. Documents are scored in blocks, for all queries one
    block after the other, so that they come from memory once.
    """
    queries = len(best)
    cursors, last = np.zeros(queries, dtype=np.int64), np.int64(-1)
    for query in range(queries):
        known = lists.counts[query] >= k
        if known:
            known = _shorten(first_query, query, estimates, pair, k, lists) >= lists.guesses[query]
        if not known:
            lists.counts[query] = 0
        if lists.counts[query]:
            last = max(last, np.int64(lists.rows[query, lists.counts[query] - 1]))
    end = np.int64(0)
    while end <= last:
        end += _ROWS
        for query in range(queries):
            rows, count, start = lists.rows[query], lists.counts[query], cursors[query]
            place = start
            while place < count and rows[place] < end:
                place += 1
            if place > start:
                exact_keys(pair, first_query + query, rows, start, place, keys[query])
            cursors[query] = place
    for query in range(queries):
        if lists.counts[query] > k:
            keep_largest(keys[query, : lists.counts[query]], np.uint64(k))
        if lists.counts[query]:
            best[query, :] = keys[query, :k]
        else:
            best[query, :] = np.uint64(0)


@kernel
def decode(keys: UInt64Array, order: Int32Array, rows: Int32Array, scores: Float32Array) -> None:
    """Rows and scores of ``keys`` (uint64, (H,)): ``order`` int32 (n,) are the documents in the order of ties."""
    for place in range(len(keys)):
        key = keys[place]
        scores[place] = unpack_score(key)
        rows[place] = order[np.uint64(0xFFFFFFFF) - (key & np.uint64(0xFFFFFFFF))]
