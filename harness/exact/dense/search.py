"""Find each query's best documents: BLAS multiplies in float32, what may be among the best is scored exactly.

The products of a block of queries and a block of documents become estimates of scores, whose error is bounded
(:mod:`harness.exact.dense.estimates`). A document whose estimate lies below its query's floor is passed over, every
other one is scored exactly while its block is in the cache. The floor is the k-th best exact score so far, less that
bound, or a threshold estimate: a block takes its documents at equal distances, so the blocks before tell what share of
the best k should have been seen by now. A query whose estimate turns out too high is searched again without.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.cpython.unsafe.numbers import trailing_zeros
from threadpoolctl import ThreadpoolController

from harness.data.jit import inner_kernel, kernel
from harness.data.ranking import sortable_bits, unpack_score
from harness.data.types import Float32Array, Float64Array, Int64Array, UInt64Array
from harness.exact.dense.estimates import Estimates, Scaling, directions
from harness.exact.dense.scores import L2, Pair, key_of
from harness.exact.selection import keep_largest_beside, nth_largest, smallest

__all__ = ["Blocks", "Job", "best_keys", "single_threaded_blas"]

_STEP = np.uint64(32)
"""Estimates that are compared together."""
_SPARE = 256
_KEYS = 1 << 21
"""Keys in the lists of a batch of queries, 8 bytes each."""
_FEW = 128
"""Threads share documents rather than fewer queries."""
_SAMPLE = np.uint64(4096)
"""Estimates of the first block that are looked at for a threshold."""


class Blocks(NamedTuple):
    """Size of the block multiplied at once; fewer queries than ``queries`` make room for more documents."""

    queries: int = 1024
    documents: int = 512


class Job(NamedTuple):
    """The input of one search: both sides' vectors, and how to estimate their scores."""

    pair: Pair
    estimates: Estimates
    scaling: Scaling

    def documents(self, rows: slice) -> Float32Array:
        """Return the documents scaled for BLAS, float32 (n, d)."""
        return self.scaling.scaled(self.pair.documents, rows, int(self.pair.dimensions))


class _Block(NamedTuple):
    """Products of some queries with the documents ``first``, ``first + step`` …: float32 (Q, m).

    ``scale`` and ``shift`` are those of the documents (m,). ``seen`` is the share of all documents up to and with this
    block, 0 for a search without threshold estimates; ``is_refining`` makes a new estimate from what has been seen.
    """

    products: Float32Array
    first: np.uint64
    step: np.uint64
    scale: Float32Array
    shift: Float32Array
    seen: float
    is_refining: bool


class _Lists(NamedTuple):
    """Exact sort keys of the documents of each query that may be among its best.

    ``keys`` uint64 (Q, c), of which the first ``counts`` (int64) of each row are in use; c is more than k.
    ``floors`` float32: what an estimate has to reach. ``places`` and ``spare`` uint64 are scratch space for as many
    values as a list or a block has, ``vector`` float64 for a query.
    """

    keys: UInt64Array
    counts: Int64Array
    floors: Float32Array
    places: UInt64Array
    spare: UInt64Array
    vector: Float64Array


def best_keys(job: Job, queries: slice, k: int, threads: int, blocks: Blocks) -> UInt64Array:
    """Return the sort keys of each query's best min(k, n) documents, ascending: uint64 (Q, min(k, n)).

    Threads share the queries, and the documents where there are fewer blocks of queries than threads.
    """
    documents, count = len(job.pair.documents), queries.stop - queries.start
    if not documents or count <= 0:
        return np.empty((max(count, 0), 0), dtype=np.uint64)
    most = max(1, min(blocks.queries, _KEYS // _list_width(min(k, documents)), max(_FEW, -(-count // threads))))
    batches = np.array_split(np.arange(queries.start, queries.stop), -(-count // most))
    pieces = 1 if len(batches) >= threads else min(threads, documents)
    step = -(-documents // pieces)
    rows = [slice(first, min(first + step, documents)) for first in range(0, documents, step)]
    parts = [(batch, piece) for batch in batches for piece in rows]

    def search(part: tuple[Int64Array, slice]) -> UInt64Array:
        return _search(job, *part, k, blocks)

    with single_threaded_blas():
        if threads == 1 or len(parts) == 1:
            parts_keys = [search(part) for part in parts]
        else:
            with ThreadPoolExecutor(max_workers=threads) as pool:
                parts_keys = list(pool.map(search, parts))
    if len(rows) > 1:
        starts = range(0, len(parts_keys), len(rows))
        parts_keys = [np.hstack(parts_keys[start : start + len(rows)]) for start in starts]
    for keys in parts_keys:
        keys.sort(axis=1)
    best = [keys[:, -min(k, documents) :] for keys in parts_keys]
    return best[0] if len(best) == 1 else np.vstack(best)


def _list_width(k: int) -> int:
    """Return how many keys a list has room for: half as many again and some, so that it is seldom shortened."""
    return k + k // 2 + _SPARE


def _search(
    job: Job, queries: Int64Array, rows: slice, k: int, blocks: Blocks, *, is_estimating: bool = True
) -> UInt64Array:
    """Return the keys of the best min(k, m) of some m documents for each query, in no order."""
    count, total = len(queries), rows.stop - rows.start
    k = min(k, total)
    most = min(max(blocks.documents, blocks.queries * blocks.documents // count), total)
    step = -(-total // most)
    width = _list_width(k)
    lists = _Lists(
        np.empty((count, width), dtype=np.uint64),
        np.zeros(count, dtype=np.int64),
        np.full(count, -np.inf, dtype=np.float32),
        np.empty(max(width, most), dtype=np.uint64),
        np.empty(max(width, most), dtype=np.uint64),
        np.empty(int(job.pair.dimensions), dtype=np.float64),
    )
    unit = directions(job.pair.queries[queries], job.pair.query_lengths[queries])
    scale, shift = (_by_block(array[rows], step) for array in (job.estimates.scale, job.estimates.shift))
    room, seen = np.empty(count * most, dtype=np.float32), 0
    for first in range(step):
        part = slice(rows.start + first, rows.stop, step)
        documents = job.documents(part)
        products = room[: count * len(documents)].reshape(count, len(documents))
        np.matmul(unit, documents.T, out=products)
        seen += len(documents)
        block = _Block(
            products,
            np.uint64(part.start),
            np.uint64(step),
            scale[first, : len(documents)],
            shift[first, : len(documents)],
            seen / total if is_estimating else 0.0,
            is_estimating and first & (first + 1) == 0,
        )
        _filter_block(block, queries, job.estimates, job.pair, np.uint64(k), lists)
    best = np.empty((count, k), dtype=np.uint64)
    complete = np.zeros(count, dtype=np.bool_)
    _choose(queries, job.estimates, job.pair, lists, best, complete)
    if not complete.all():
        best[~complete] = _search(job, queries[~complete], rows, k, blocks, is_estimating=False)
    return best


def _by_block(values: Float32Array, step: int) -> Float32Array:
    """Return a row for each block: every ``step``-th value, from the first, the second …"""
    padded = np.pad(values, (0, -len(values) % step))
    return np.ascontiguousarray(padded.reshape(-1, step).T)


@inner_kernel
def _rank(k: np.uint64, share: float) -> np.uint64:
    """Return the rank in a sample of this share of all documents that is hardly ever better than rank k of all."""
    likely = np.float64(k) * share
    return np.uint64(likely + 4.0 * np.sqrt(likely) + 3.0)


@inner_kernel
def _floor_of(key: np.uint64, query: int, pair: Pair, estimates: Estimates) -> np.float32:
    """Return what the estimate of every document reaches that has the score of ``key`` or a better one."""
    score, length, largest = np.float64(unpack_score(key)), pair.query_lengths[query], estimates.largest[query]
    if largest == 0.0:
        return np.float32(-np.inf)
    if pair.similarity == L2:
        score += length * length
    return np.float32(np.float32(score / largest) - estimates.slack[query])


@inner_kernel
def _estimate(block: _Block, own: int, place: int | np.uint64, factor: np.float32) -> np.float32:
    return np.float32(block.products[own, place] * factor * block.scale[place] + block.shift[place])


@inner_kernel
def _threshold(block: _Block, own: int, factor: np.float32, k: np.uint64, lists: _Lists) -> np.float32:
    """Estimate the k-th best score by some of the first block; minus infinity where these are too few."""
    width, count = np.uint64(block.products.shape[1]), np.uint64(0)
    for place in range(np.uint64(0), width, max(np.uint64(1), width // _SAMPLE)):
        bits = sortable_bits(_estimate(block, own, place, factor))
        lists.places[count] = np.uint64(bits) << np.uint64(32)
        count += np.uint64(1)
    rank = _rank(k, block.seen * np.float64(count) / np.float64(width))
    if rank > count:
        return np.float32(-np.inf)
    return np.float32(unpack_score(nth_largest(lists.places[:count], rank, lists.spare)))


@inner_kernel
def _scan(block: _Block, own: int, factor: np.float32, floor: np.float32, places: UInt64Array) -> np.uint64:
    """Write the places of the estimates that reach ``floor``; return how many.

    The comparisons of a few estimates become the bits of one number, which takes no branch.
    """
    width, reached = np.uint64(block.products.shape[1]), np.uint64(0)
    for begin in range(np.uint64(0), width, _STEP):
        start, bits = np.uint64(begin), np.uint32(0)
        for place in range(start, min(start + _STEP, width)):
            bits |= np.uint32(_estimate(block, own, place, factor) >= floor) << np.uint32(place - start)
        while bits:
            places[reached] = start + np.uint64(trailing_zeros(bits))
            reached += np.uint64(1)
            bits &= bits - np.uint32(1)
    return reached


@inner_kernel
def _filter(block: _Block, own: int, query: int, estimates: Estimates, pair: Pair, k: np.uint64, lists: _Lists) -> None:
    """Score what may be best of one query's products; raise its floor."""
    keys, places, vector, count = lists.keys[own], lists.places, lists.vector, np.uint64(lists.counts[own])
    factor, floor = estimates.factor[query], lists.floors[own]
    if count == np.uint64(0) and block.seen > 0.0:
        floor = _threshold(block, own, factor, k, lists)
    reached = _scan(block, own, factor, floor, places)
    if reached > np.uint64(0):
        for place in range(np.uint64(len(vector))):
            vector[place] = np.float64(pair.queries[query, place])
    for candidate in range(reached):
        if count == np.uint64(len(keys)):
            keep_largest_beside(keys, k, lists.spare)
            count, floor = k, max(floor, _floor_of(smallest(keys[:k]), query, pair, estimates))
        keys[count] = key_of(pair, query, vector, block.first + places[candidate] * block.step)
        count += np.uint64(1)
    rank = min(_rank(k, block.seen), k)
    if block.is_refining and rank <= count:
        for place in range(count):  # selecting moves keys, and these are still needed
            places[place] = keys[place]
        floor = max(floor, _floor_of(nth_largest(places[:count], rank, lists.spare), query, pair, estimates))
    lists.counts[own], lists.floors[own] = np.int64(count), floor


@kernel
def _filter_block(
    block: _Block, queries: Int64Array, estimates: Estimates, pair: Pair, k: np.uint64, lists: _Lists
) -> None:
    """Score what may be best of a block of products."""
    for own in range(len(queries)):
        _filter(block, own, queries[own], estimates, pair, k, lists)


@kernel
def _choose(
    queries: Int64Array,
    estimates: Estimates,
    pair: Pair,
    lists: _Lists,
    best: UInt64Array,
    complete: npt.NDArray[np.bool_],
) -> None:
    """Write the keys of the best, in no order, into ``best`` (Q, k), and whether nothing else can be among them."""
    k = best.shape[1]
    for own in range(len(best)):
        keys = lists.keys[own, : lists.counts[own]]
        if len(keys) >= k:
            keep_largest_beside(keys, np.uint64(k), lists.spare)
            for place in range(k):
                best[own, place] = keys[place]
            complete[own] = _floor_of(smallest(keys[:k]), queries[own], pair, estimates) >= lists.floors[own]


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
    """Return the process's limit, made once: looking for loaded libraries takes milliseconds."""
    return _Limit()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Limit BLAS to one thread while the block runs: the caller's own threads divide the work."""
    with _limit()():
        yield
