"""Which documents are a query's best: BLAS multiplies in float32, what may be among the best is scored exactly.

Products of a block of queries and a block of documents become estimates, and those within the proven error of the k-th
largest so far are kept (:mod:`harness.exact.dense.estimates`). At the end the documents that are left, hardly more than
k, are scored exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import ThreadpoolController

from harness.data.jit import inline_kernel, kernel
from harness.data.ranking import sortable_bits
from harness.data.types import Float32Array, Int32Array, Int64Array, UInt64Array
from harness.exact.dense.estimates import Estimates, Scaling, directions
from harness.exact.dense.scores import Pair, keys_of
from harness.exact.selection import keep_largest

__all__ = ["Blocks", "Job", "best_keys", "single_threaded_blas"]

_STEP = np.uint64(64)
"""Estimates that are compared together: a list has room for that many more."""
_SPARE = 256
_CANDIDATES = 1 << 20  # in the lists of a batch, 16 bytes each
_VISITED = 2048
"""Documents that are scored for all queries of a batch before the next ones: they come from memory once."""


class Blocks(NamedTuple):
    """How much is multiplied at once: ``queries`` by ``documents``, more documents where there are fewer queries."""

    queries: int = 512
    documents: int = 768


class Job(NamedTuple):
    """One search: what exact scores, and estimates of them, are computed from."""

    pair: Pair
    estimates: Estimates
    scaling: Scaling

    def documents(self, rows: slice) -> Float32Array:
        """The documents as BLAS gets them, float32 (n, d)."""
        return self.scaling.scaled(self.pair.documents, rows, int(self.pair.dimensions))


class _Lists(NamedTuple):
    """Documents of each query that may be among its best: rows int32 (Q, c), estimates float32 (Q, c).

    The first ``counts`` (int64) of each row are in use, rows ascending; ``floors`` float32 is what an estimate has to
    reach; ``keys`` uint64 (Q, c) is scratch space. c is at least k + 64.
    """

    rows: Int32Array
    estimates: Float32Array
    keys: UInt64Array
    counts: Int64Array
    floors: Float32Array


def best_keys(job: Job, queries: slice, k: int, threads: int, blocks: Blocks) -> UInt64Array:
    """The sort keys of each query's best min(k, n) documents, best first: uint64 (Q, min(k, n)).

    Threads share the queries, and the documents where there are fewer blocks of queries than threads.
    """
    documents = len(job.pair.documents)
    if not documents or queries.stop <= queries.start:
        return np.empty((queries.stop - queries.start, 0), dtype=np.uint64)
    size = max(1, min(blocks.queries, _CANDIDATES // _list_width(min(k, documents))))
    batches = [slice(first, min(first + size, queries.stop)) for first in range(queries.start, queries.stop, size)]
    pieces = 1 if len(batches) >= threads else min(threads, documents)
    step = -(-documents // pieces)
    parts = [
        (batch, slice(first, min(first + step, documents))) for batch in batches for first in range(0, documents, step)
    ]
    unit = directions(job.pair.queries[queries], job.pair.query_lengths[queries])

    def search(part: tuple[slice, slice]) -> UInt64Array:
        batch, rows = part
        return _search(
            job, unit[batch.start - queries.start : batch.stop - queries.start], batch.start, rows, k, blocks
        )

    with single_threaded_blas():
        if threads == 1 or len(parts) == 1:
            found = [search(part) for part in parts]
        else:
            with ThreadPoolExecutor(max_workers=threads) as pool:
                found = list(pool.map(search, parts))
    each = len(parts) // len(batches)
    merged = [np.sort(np.hstack(found[first : first + each]), axis=1) for first in range(0, len(found), each)]
    best: UInt64Array = np.vstack(merged)[:, ::-1][:, : min(k, documents)]
    return best


def _list_width(k: int) -> int:
    """Room for the candidates of one query: twice k, so that a list is seldom shortened."""
    return 2 * k + _SPARE + 2 * int(_STEP)


def _search(job: Job, unit: Float32Array, first_query: int, rows: slice, k: int, blocks: Blocks) -> UInt64Array:
    """The keys of the best of some documents, in no order: uint64 (Q, at most k)."""
    count, k = len(unit), min(k, rows.stop - rows.start)
    width = _list_width(k)
    lists = _Lists(
        np.empty((count, width), dtype=np.int32),
        np.empty((count, width), dtype=np.float32),
        np.empty((count, width), dtype=np.uint64),
        np.zeros(count, dtype=np.int64),
        np.full(count, -np.inf, dtype=np.float32),
    )
    block = min(max(blocks.documents, blocks.queries * blocks.documents // count), rows.stop - rows.start)
    room = np.empty(count * block, dtype=np.float32)
    for first in range(rows.start, rows.stop, block):
        end = min(first + block, rows.stop)
        products = room[: count * (end - first)].reshape(count, end - first)
        np.matmul(unit, job.documents(slice(first, end)).T, out=products)
        _filter_block(products, np.uint64(first), first_query, job.estimates, job.pair, k, lists)
    best = np.empty((count, k), dtype=np.uint64)
    _choose(first_query, job.estimates, job.pair, lists, best)
    return best


@kernel
def _filter_block(
    products: Float32Array, first: np.uint64, first_query: int, estimates: Estimates, pair: Pair, k: int, lists: _Lists
) -> None:
    """Take from a block (Q, m) of products of queries and documents ``first`` to ``first + m`` what may be best.

    ``first_query`` is the place of the block's first query in ``pair`` and ``estimates``.
    """
    width = np.uint64(products.shape[1])
    scale, shift = estimates.scale[first : first + width], estimates.shift[first : first + width]
    for query in range(len(products)):
        line, rows, values = products[query], lists.rows[query], lists.estimates[query]
        factor, floor = estimates.factor[first_query + query], lists.floors[query]
        for begin in range(np.uint64(0), width, _STEP):
            start, stop = np.uint64(begin), min(np.uint64(begin) + _STEP, width)
            reached = np.uint32(0)
            for place in range(start, stop):
                reached |= np.uint32(line[place] * factor * scale[place] + shift[place] >= floor)
            if not reached:
                continue
            if lists.counts[query] + np.int64(_STEP) > len(rows):
                _shorten(first_query, query, estimates, pair, k, lists)
                floor = lists.floors[query]
            count = np.uint64(lists.counts[query])
            for place in range(start, stop):
                estimate = line[place] * factor * scale[place] + shift[place]
                rows[count], values[count] = np.int32(first + place), estimate
                count += np.uint64(estimate >= floor)
            lists.counts[query] = np.int64(count)


@inline_kernel
def _shorten(first_query: int, query: int, estimates: Estimates, pair: Pair, k: int, lists: _Lists) -> None:
    """Raise the floor to what the k-th largest estimate allows; where ties keep the list long, choose exactly."""
    count, rows, values, keys = lists.counts[query], lists.rows[query], lists.estimates[query], lists.keys[query]
    for place in range(count):
        keys[place] = np.uint64(sortable_bits(values[place])) << np.uint64(32) | np.uint64(place)
    keep_largest(keys[:count], np.uint64(k))
    kth = np.float32(np.inf)
    for place in range(k):
        kth = min(kth, values[keys[place] & np.uint64(0xFFFFFFFF)])
    floor = max(lists.floors[query], np.float32(kth - estimates.slack[first_query + query]))
    kept = 0
    for place in range(count):
        rows[kept], values[kept] = rows[place], values[place]
        kept += values[place] >= floor
    lists.floors[query], lists.counts[query] = floor, kept
    if kept > (k + len(rows)) // 2:
        _keep_best(first_query, query, pair, k, lists)


@inline_kernel
def _keep_best(first_query: int, query: int, pair: Pair, k: int, lists: _Lists) -> None:
    """Keep exactly the best k of a list: a document that comes later is compared with them at the end."""
    count, rows, values, keys = lists.counts[query], lists.rows[query], lists.estimates[query], lists.keys[query]
    exact = np.empty(count, dtype=np.uint64)
    keys_of(pair, first_query + query, rows[:count], exact)
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


@kernel
def _choose(first_query: int, estimates: Estimates, pair: Pair, lists: _Lists, best: UInt64Array) -> None:
    """Score what is left exactly; the keys of the best, in no order, into ``best`` (Q, k)."""
    k, cursors = best.shape[1], np.zeros(len(best), dtype=np.int64)
    for query in range(len(best)):
        _shorten(first_query, query, estimates, pair, k, lists)
    for first in range(0, len(pair.documents), _VISITED):
        for query in range(len(best)):
            rows, start = lists.rows[query, : lists.counts[query]], cursors[query]
            stop = start
            while stop < len(rows) and rows[stop] < first + _VISITED:
                stop += 1
            keys_of(pair, first_query + query, rows[start:stop], lists.keys[query, start:stop])
            cursors[query] = stop
    for query in range(len(best)):
        keys = lists.keys[query, : lists.counts[query]]
        keep_largest(keys, np.uint64(k))
        best[query] = keys[:k]


class _Limit:
    """BLAS on one thread. The limit is the process's: it is lifted by the last of its users, not by the first."""

    def __init__(self) -> None:
        self.controller = ThreadpoolController()
        self.lock = threading.Lock()
        self.users = 0
        self.limited: Any = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            if self.users == 0:
                self.limited = self.controller.limit(limits=1, user_api="blas")
            self.users += 1
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if self.users == 0:
                    self.limited.restore_original_limits()


@cache
def _limit() -> _Limit:
    """Made once: looking for loaded libraries takes milliseconds, and NumPy's BLAS is there from the start."""
    return _Limit()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Products of NumPy take one thread each: the caller's own threads divide the work."""
    with _limit()():
        yield
