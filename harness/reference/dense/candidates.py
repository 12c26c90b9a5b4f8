"""Which documents may be among a query's best: a filter over blocks of float32 products, and the exact choice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.jit import inline_kernel, kernel, prefetch
from harness.ranking import sortable_bits, unpack_score
from harness.reference.dense.scores import Pair, exact_keys
from harness.reference.selection import keep_largest
from harness.types import Float32Array, Int32Array, Int64Array, UInt64Array

__all__ = ["STEP", "Estimates", "Lists", "choose", "decode", "filter_block", "guess_floors"]

STEP = 512
"""Documents that are looked at together: a list has room for that many more."""
_STEP = np.uint64(STEP)
_EIGHT = np.uint64(8)
_ROWS = 1024


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
    reach; ``keys`` uint64 (Q, c) is scratch space. c is at least k + 1024. ``guesses`` float32 are the floors to begin
    with, which may turn out too high.
    """

    rows: Int32Array
    estimates: Float32Array
    keys: UInt64Array
    counts: Int64Array
    floors: Float32Array
    guesses: Float32Array

    @classmethod
    def of(cls, queries: int, width: int) -> Lists:
        """Room for so many queries' lists of ``width``."""
        pairs = np.empty((2, queries, width), dtype=np.float32)  # one array, so that it may lie in huge pages
        return cls(
            pairs[0].view(np.int32),
            pairs[1],
            np.empty((queries, width), dtype=np.uint64),
            np.empty(queries, dtype=np.int64),
            np.empty(queries, dtype=np.float32),
            np.empty(queries, dtype=np.float32),
        )

    def emptied(self, queries: int) -> Lists:
        """The room of the first so many queries, with nothing found yet."""
        self.counts[:] = 0
        self.floors[:] = self.guesses[:] = -np.inf
        return Lists._make(array[:queries] for array in self)


def guess_floors(
    products: Float32Array, sample: Int64Array, first_query: int, estimates: Estimates, rank: int, lists: Lists
) -> None:
    """Begin with floors that the ``rank``-th best of a sample of documents allows.

    ``products`` (Q, sample) become estimates, in no order.
    """
    part = slice(first_query, first_query + len(products))
    products *= estimates.factor[part, None]
    products *= estimates.scale[sample]
    products += estimates.shift[sample]
    products.partition(-rank, axis=1)
    lists.guesses[:] = products[:, -rank] - estimates.slack[part]
    lists.floors[:] = lists.guesses


@kernel
def filter_block(
    products: Float32Array, first: np.uint64, first_query: int, estimates: Estimates, pair: Pair, k: int, lists: Lists
) -> None:
    """Take from a block (Q, m) of products of queries and documents ``first`` to ``first + m`` what may be best.

    ``first_query`` is the place of the block's first query in ``pair`` and ``estimates``. Which estimates reach the
    floor cannot be predicted, so that it is no branch that asks: all are written, eight at a time, the next over those
    that did not reach it.
    """
    queries, width = products.shape
    end, room = np.uint64(width), np.uint64(lists.rows.shape[1])
    scale, shift = estimates.scale[first : first + end], estimates.shift[first : first + end]
    several, reached = np.empty(STEP, dtype=np.float32), np.zeros(STEP, dtype=np.uint8)
    eights, hits = reached.view(np.uint64), np.empty(STEP // 8, dtype=np.uint64)
    for query in range(queries):
        line, factor = products[query], estimates.factor[first_query + query]
        rows, values = lists.rows[query], lists.estimates[query]
        count, floor = np.uint64(lists.counts[query]), lists.floors[query]
        if query + 1 < queries:
            prefetch(lists.rows, query + 1, lists.counts[query + 1])
            prefetch(lists.estimates, query + 1, lists.counts[query + 1])
        for start in range(np.uint64(0), end, _STEP):
            if start + _STEP <= end:
                for place in range(_STEP):
                    estimate = line[start + place] * factor * scale[start + place] + shift[start + place]
                    several[place], reached[place] = estimate, estimate >= floor
            else:
                reached[:] = 0
                for place in range(end - start):
                    estimate = line[start + place] * factor * scale[start + place] + shift[start + place]
                    several[place], reached[place] = estimate, estimate >= floor
            found = np.uint64(0)
            for eight in range(_STEP // _EIGHT):
                hits[found] = eight * _EIGHT
                found += np.uint64(eights[eight] != 0)
            if found and count + _STEP > room:
                lists.counts[query] = np.int64(count)
                _shorten(first_query, query, estimates, pair, k, lists)
                count, floor = np.uint64(lists.counts[query]), lists.floors[query]
            for hit in range(found):
                for place in range(hits[hit], hits[hit] + _EIGHT):
                    rows[count], values[count] = np.int32(first + start + place), several[place]
                    count += np.uint64(reached[place])
        lists.counts[query] = np.int64(count)


@inline_kernel
def _shorten(first_query: int, query: int, estimates: Estimates, pair: Pair, k: int, lists: Lists) -> None:
    """Raise the floor to what the k-th largest estimate allows."""
    count, values, keys = lists.counts[query], lists.estimates[query], lists.keys[query]
    for place in range(count):
        keys[place] = np.uint64(sortable_bits(values[place])) << np.uint64(32) | np.uint64(place)
    keep_largest(keys[:count], np.uint64(k))
    kth = np.float32(np.inf)
    for place in range(k):
        kth = min(kth, values[keys[place] & np.uint64(0xFFFFFFFF)])
    _raise_floor(first_query, query, np.float32(kth - estimates.slack[first_query + query]), pair, k, lists)


@inline_kernel
def _raise_floor(first_query: int, query: int, floor: np.float32, pair: Pair, k: int, lists: Lists) -> None:
    """Drop what does not reach ``floor``; where ties keep the list long, choose exactly."""
    lists.floors[query] = max(lists.floors[query], floor)
    _drop_below(query, lists)
    if lists.counts[query] > (k + lists.rows.shape[1]) // 2:
        _keep_best(first_query, query, pair, k, lists)


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
    rows, values, keys = lists.rows[query], lists.estimates[query], lists.keys[query]
    exact = np.empty(count, dtype=np.uint64)
    exact_keys(pair, first_query + query, np.array([0, count]), rows[:count], exact)
    keys[:count] = exact
    keep_largest(keys[:count], np.uint64(k))
    least = keys[0]
    for place in range(k):
        least = min(least, keys[place])
    kept = 0
    for place in range(count):
        if exact[place] >= least:
            rows[kept], values[kept] = rows[place], values[place]
            kept += 1
    lists.counts[query] = kept


def choose(first_query: int, estimates: Estimates, pair: Pair, k: int, lists: Lists) -> UInt64Array:
    """The keys of each query's best ``k`` documents, ascending: uint64 (Q, k), a part of the lists' scratch space.

    Where the guess was too high, they are not known; all of them are 0 then, which no document's key is.
    """
    likely = lists.keys.view(np.float32)[:, : max(k, int(lists.counts.max()))]
    _copy_estimates(lists, likely)
    likely.partition(-k, axis=1)
    floors = likely[:, -k] - estimates.slack[first_query : first_query + len(likely)]
    longest = _raise_floors(first_query, floors, pair, k, lists)
    _score(first_query, pair, lists)
    keys = lists.keys[:, :longest]
    keys.sort(axis=1)
    return keys[:, -k:]


@kernel
def _copy_estimates(lists: Lists, copy: Float32Array) -> None:
    """``copy`` is float32 (Q, w); where a list is shorter, minus infinity follows."""
    for query in range(len(copy)):
        count = lists.counts[query]
        copy[query, :count] = lists.estimates[query, :count]
        copy[query, count:] = -np.inf


@kernel
def _raise_floors(first_query: int, floors: Float32Array, pair: Pair, k: int, lists: Lists) -> int:
    """Drop what does not reach the last floors (float32 (Q,)), and everything where the guess was higher; then fill
    the keys with 0. Gives the length of the longest list, or k.
    """
    longest = k
    for query in range(len(floors)):
        if lists.counts[query] >= k and floors[query] >= lists.guesses[query]:
            _raise_floor(first_query, query, floors[query], pair, k, lists)
            longest = max(longest, lists.counts[query])
        else:
            lists.counts[query] = 0
    lists.keys[:, :longest] = 0
    return longest


@kernel
def _score(first_query: int, pair: Pair, lists: Lists) -> None:
    """The keys of the documents of each list.

    Documents are scored in blocks, for all queries one block after the other, so that they come from memory once.
    """
    queries = len(lists.counts)
    room = queries * min(lists.counts.max(), _ROWS)
    cursors, indptr = np.zeros(queries, dtype=np.int64), np.zeros(queries + 1, dtype=np.int64)
    rows, keys = np.empty(room, dtype=np.int32), np.empty(room, dtype=np.uint64)
    for first in range(0, len(pair.documents), _ROWS):
        count = 0
        for query in range(queries):
            listed, place = lists.rows[query], cursors[query]
            while place < lists.counts[query] and listed[place] < first + _ROWS:
                rows[count] = listed[place]
                place, count = place + 1, count + 1
            indptr[query + 1] = count
        exact_keys(pair, first_query, indptr, rows[:count], keys)
        for query in range(queries):
            begin, end = indptr[query], indptr[query + 1]
            for place in range(begin, end):
                lists.keys[query, cursors[query] + place - begin] = keys[place]
            cursors[query] += end - begin


@kernel
def decode(keys: UInt64Array, first: int, order: Int32Array, rows: Int32Array, scores: Float32Array) -> None:
    """Rows and scores of ``keys`` (uint64 (Q, k)), into the places of the queries from ``first`` on.

    ``order`` int32 (n,) are the documents in the order of ties.
    """
    queries, width = keys.shape
    for query in range(queries):
        start = (first + query) * width
        for place in range(width):
            key = keys[query, place]
            scores[start + place] = unpack_score(key)
            rows[start + place] = order[np.uint64(0xFFFFFFFF) - (key & np.uint64(0xFFFFFFFF))]
