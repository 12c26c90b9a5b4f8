"""Which documents may be among a query's best: a filter over blocks of float32 products, and the exact choice."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.data.jit import inline_kernel, inner_kernel, kernel
from harness.data.ranking import sortable_bits, unpack_score
from harness.data.types import Float32Array, Int32Array, Int64Array, UInt64Array
from harness.exact.dense.scores import Pair, exact_keys
from harness.exact.instructions import lowest_bit, prefetch, reaching
from harness.exact.selection import keep_largest

__all__ = ["STEP", "Estimates", "Lists", "cut", "decode", "filter_block", "guess_floors", "shorten", "take_reaching"]

STEP = 64
"""Documents that are looked at together: a list has room for that many more."""
_STEP = np.uint64(STEP)
_ONE = np.uint64(1)
_SCRATCH = 1 << 17


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
    reach; ``keys`` uint64, c at least, is scratch space. c is at least k + 128. ``guesses`` float32 are the floors to
    begin with, which may turn out too high.
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
            np.empty(max(width, min(queries * width, _SCRATCH)), dtype=np.uint64),
            np.empty(queries, dtype=np.int64),
            np.empty(queries, dtype=np.float32),
            np.empty(queries, dtype=np.float32),
        )

    def emptied(self, queries: int) -> Lists:
        """The room of the first so many queries, with nothing found yet."""
        self.counts[:] = 0
        self.floors[:] = self.guesses[:] = -np.inf
        return self.part(0, queries)

    def part(self, first: int, end: int) -> Lists:
        """The lists of some queries."""
        one = slice(first, end)
        return Lists(
            self.rows[one], self.estimates[one], self.keys, self.counts[one], self.floors[one], self.guesses[one]
        )


def guess_floors(
    products: Float32Array, sample: Int64Array, first_query: int, estimates: Estimates, rank: int, lists: Lists
) -> int:
    """Begin with floors that the ``rank``-th best of a sample of documents allows; how many of the sample reach them.

    ``products`` (Q, sample) become estimates, in no order.
    """
    part = slice(first_query, first_query + len(products))
    products *= estimates.factor[part, None]
    products *= estimates.scale[sample]
    products += estimates.shift[sample]
    products.partition(-rank, axis=1)
    lists.guesses[:] = products[:, -rank] - estimates.slack[part]
    lists.floors[:] = lists.guesses
    return int(np.count_nonzero(products >= lists.guesses[:, None]))


@kernel
def filter_block(
    products: Float32Array, first: np.uint64, first_query: int, estimates: Estimates, pair: Pair, k: int, lists: Lists
) -> None:
    """Take from a block (Q, m) of products of queries and documents ``first`` to ``first + m`` what may be best.

    ``first_query`` is the place of the block's first query in ``pair`` and ``estimates``. ``products`` have no gaps.
    """
    queries, width = products.shape
    for query in range(queries):
        if query + 1 < queries:
            prefetch(lists.rows, query + 1, lists.counts[query + 1])
            prefetch(lists.estimates, query + 1, lists.counts[query + 1])
        for begin in range(np.uint64(0), np.uint64(width), _STEP):
            start = np.uint64(begin)
            stop = min(start + _STEP, np.uint64(width))
            if not take_reaching(products, query, start, stop, first, query, first_query, estimates, lists):
                shorten(first_query, query, estimates, pair, k, lists)
                take_reaching(products, query, start, stop, first, query, first_query, estimates, lists)


@inner_kernel
def take_reaching(  # noqa: PLR0917 - compiled
    products: Float32Array,
    row: int,
    start: np.uint64,
    stop: np.uint64,
    first: np.uint64,
    query: int,
    first_query: int,
    estimates: Estimates,
    lists: Lists,
) -> bool:
    """Take what may be best for a query from ``products[row, start:stop]``, of at most 64 documents from ``first +
    start`` on; False, and nothing is taken, where the list has to be made shorter first.

    ``query`` is the query's place in ``lists``.
    """
    begin, end, count = first + start, first + stop, np.uint64(lists.counts[query])
    line, scale, shift = products[row, start:stop], estimates.scale[begin:end], estimates.shift[begin:end]
    factor, floor, width = estimates.factor[first_query + query], lists.floors[query], stop - start
    reached = np.uint64(0)
    if width == _STEP:
        reached = reaching(line, factor, scale, shift, np.uint64(0), floor)
    else:
        for place in range(width):
            estimate = line[place] * factor * scale[place] + shift[place]
            reached |= np.uint64(estimate >= floor) << np.uint64(place)
    if not reached:
        return True
    if count + _STEP > np.uint64(lists.rows.shape[1]):
        return False
    rows, values = lists.rows[query], lists.estimates[query]
    while reached:
        hit = lowest_bit(reached)
        rows[count] = np.int32(begin + hit)
        values[count] = line[hit] * factor * scale[hit] + shift[hit]
        reached &= reached - _ONE
        count += _ONE
    lists.counts[query] = np.int64(count)
    return True


@inline_kernel
def shorten(first_query: int, query: int, estimates: Estimates, pair: Pair, k: int, lists: Lists) -> None:
    """Raise the floor to what the k-th largest estimate allows."""
    count, values, keys = lists.counts[query], lists.estimates[query], lists.keys
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
    rows, values, keys = lists.rows[query], lists.estimates[query], lists.keys
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


def cut(first_query: int, estimates: Estimates, pair: Pair, k: int, lists: Lists) -> None:
    """Drop what is not among a query's best ``k``, nor tied with them, by estimates of all documents.

    Where the guess was too high, that is not known, and nothing is left.
    """
    longest = max(k, int(lists.counts.max()))
    scratch = lists.keys.view(np.float32)
    several = len(scratch) // longest
    for first in range(0, len(lists.counts), several):
        some = lists.part(first, first + several)
        likely = scratch[: len(some.counts) * longest].reshape(-1, longest)
        _copy_estimates(some, likely)
        likely.partition(-k, axis=1)
        asked = first_query + first
        floors = likely[:, -k] - estimates.slack[asked : asked + len(likely)]
        _raise_floors(asked, floors, pair, k, some)


@kernel
def _copy_estimates(lists: Lists, copy: Float32Array) -> None:
    """``copy`` is float32 (Q, w); where a list is shorter, minus infinity follows."""
    for query in range(len(copy)):
        count = lists.counts[query]
        copy[query, :count] = lists.estimates[query, :count]
        copy[query, count:] = -np.inf


@kernel
def _raise_floors(first_query: int, floors: Float32Array, pair: Pair, k: int, lists: Lists) -> None:
    """Drop what does not reach the last floors (float32 (Q,)), and everything where the guess was higher."""
    for query in range(len(floors)):
        if lists.counts[query] >= k and floors[query] >= lists.guesses[query]:
            _raise_floor(first_query, query, floors[query], pair, k, lists)
        else:
            lists.counts[query] = 0


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
