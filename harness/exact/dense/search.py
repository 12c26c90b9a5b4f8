"""Find each query's best documents: BLAS multiplies in float32, candidates for the best are scored exactly.

The products of a block of queries and a block of documents become estimates of scores, whose error is bounded
(:mod:`harness.exact.dense.estimates`). A document whose estimate lies below its query's floor is skipped; every other
document is listed. The floor is the k-th largest estimate so far, less that bound, or a threshold estimate: a block
takes its documents at equal distances, so the earlier blocks show what share of the best k should have been seen by
now. At the end the documents above the final floor are scored exactly, block by block, so that their vectors are in the
cache for all queries. A query whose threshold estimate turns out too high is searched again without it.
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
from harness.data.types import Float32Array, Float64Array, Int64Array, UInt32Array, UInt64Array
from harness.exact.dense.estimates import Estimates, Scaling
from harness.exact.dense.scores import Pair, key_of
from harness.exact.selection import keep_largest_beside, nth_largest

_STEP = np.uint64(32)
"""Estimates that are compared together."""
_TOGETHER = np.uint64(512)
"""Documents that are scored exactly for all queries before the next."""
_HALF, _NONE = np.uint64(32), np.uint64(0)
_SPARE = 256
_KEYS = 1 << 21
"""Keys in the lists of a batch of queries, 8 bytes each."""
_FEW = 128
"""Threads share documents rather than fewer queries."""
_SAMPLE = 4096
"""Estimates of the first block that are examined for a threshold."""


class Blocks(NamedTuple):
    """Size of the block multiplied at once; fewer queries than ``queries`` make room for more documents."""

    queries: int = 1024
    documents: int = 1024


class Job(NamedTuple):
    """The input of one search: both sides' vectors, and how to estimate their scores."""

    pair: Pair
    estimates: Estimates
    scaling: Scaling

    def documents(self, rows: slice) -> Float32Array:
        """Return the documents scaled for BLAS, float32 (n, d)."""
        return self.scaling.scaled(self.pair.documents, rows, int(self.pair.dimensions))


class _Block(NamedTuple):
    """Products of some queries with the documents at the positions from ``first``: float32 (Q, m).

    ``scale`` and ``shift`` belong to the documents (m,). The first floor is the estimate of rank ``sample`` in a sample
    of the first block; the floor after this block is the estimate of rank ``rank`` in the whole list. 0 for no floor.
    """

    products: Float32Array
    first: np.uint64
    scale: Float32Array
    shift: Float32Array
    sample: np.uint64
    rank: np.uint64


class _Positions(NamedTuple):
    """The documents in the order of blocks: position p is row ``start + p // width + p % width * step``.

    ``lengths`` float64 and ``tie_break`` uint32 (step * width,) belong to the documents.
    """

    start: np.uint64
    step: np.uint64
    width: np.uint64
    lengths: Float64Array
    tie_break: UInt32Array


class _Lists(NamedTuple):
    """The documents of each query that may be among its best, in the order of blocks.

    ``keys`` uint64 (Q, c): the first ``counts`` (int64) of each row are in use; c is more than k. The high half of a
    key orders the estimate, the low half is the position. ``floors`` float32: the least estimate that is listed;
    ``thresholds`` float32: the highest floor that was only estimated. ``candidate_positions``, ``exact``, ``copy`` and
    ``spare`` uint64 are scratch space for as many values as a list or a block has, ``vector`` float64 for a query.
    """

    keys: UInt64Array
    counts: Int64Array
    floors: Float32Array
    thresholds: Float32Array
    candidate_positions: UInt64Array
    exact: UInt64Array
    copy: UInt64Array
    spare: UInt64Array
    vector: Float64Array


def best_keys(job: Job, queries: slice, k: int, threads: int, blocks: Blocks) -> UInt64Array:
    """Return the sort keys of each query's best min(k, n) documents, ascending: uint64 (Q, min(k, n)).

    Threads share the queries, and the documents if there are fewer blocks of queries than threads.
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
    scratch = np.empty((4, max(width, most)), dtype=np.uint64)
    lists = _Lists(
        np.empty((count, width), dtype=np.uint64),
        np.zeros(count, dtype=np.int64),
        np.full(count, -np.inf, dtype=np.float32),
        np.full(count, -np.inf, dtype=np.float32),
        *(scratch[0], scratch[1], scratch[2], scratch[3]),
        np.empty(int(job.pair.dimensions), dtype=np.float64),
    )
    scaled = job.estimates.scaled(job.pair.queries, queries)
    scale, shift = (_split_by_block(array[rows], step) for array in (job.estimates.scale, job.estimates.shift))
    lengths, ties = (_split_by_block(array[rows], step) for array in (job.pair.document_lengths, job.pair.tie_break))
    positions = _Positions(
        np.uint64(rows.start), np.uint64(step), np.uint64(lengths.shape[1]), lengths.reshape(-1), ties.reshape(-1)
    )
    room, seen = np.empty(count * most, dtype=np.float32), 0
    for first in range(step):
        documents = job.documents(slice(rows.start + first, rows.stop, step))
        products = room[: count * len(documents)].reshape(count, len(documents))
        np.matmul(scaled, documents.T, out=products)
        seen += len(documents)
        block = _Block(
            products,
            np.uint64(first * lengths.shape[1]),
            scale[first, : len(documents)],
            shift[first, : len(documents)],
            np.uint64(_rank(k, min(seen, _SAMPLE) / total) if is_estimating and first == 0 else 0),
            np.uint64(_rank(k, seen / total) if is_estimating and first & (first + 1) == 0 else 0),
        )
        _filter_block(block, queries, job.estimates.slack, job.pair, positions, np.uint64(k), lists)
    best = np.empty((count, k), dtype=np.uint64)
    complete = np.zeros(count, dtype=np.bool_)
    _choose(queries, job.estimates.slack, job.pair, positions, lists, best, complete)
    if not complete.all():
        best[~complete] = _search(job, queries[~complete], rows, k, blocks, is_estimating=False)
    return best


def _split_by_block(values: npt.NDArray[Any], step: int) -> npt.NDArray[Any]:
    """Return a row for each block: every ``step``-th value, from the first, the second …"""
    padded = np.pad(values, (0, -len(values) % step))
    return np.ascontiguousarray(padded.reshape(-1, step).T)


def _rank(k: int, share: float) -> int:
    """Return the rank in a sample of this share of all documents that is hardly ever better than rank k of all.

    That many of the best k are in a sample by chance: k * share, with the deviation of the binomial distribution.
    """
    return min(k, int(k * share + 4.0 * (k * share * (1.0 - share)) ** 0.5 + 3.0))


@inner_kernel
def _estimate(block: _Block, query_in_block: int, position: int | np.uint64) -> np.float32:
    return np.float32(block.products[query_in_block, position] * block.scale[position] + block.shift[position])


@inner_kernel
def _nth(keys: UInt64Array, rank: np.uint64, lists: _Lists) -> np.float32:
    """Return the ``rank``-th largest score of ``keys``, which stay as they are."""
    for position in range(np.uint64(len(keys))):
        lists.copy[position] = keys[position]
    return np.float32(unpack_score(nth_largest(lists.copy[: len(keys)], rank, lists.spare)))


@inner_kernel
def _threshold(block: _Block, query_in_block: int, lists: _Lists) -> np.float32:
    """Estimate the k-th largest estimate by some of the first block; minus infinity if these are too few."""
    width, count = np.uint64(block.products.shape[1]), _NONE
    for position in range(_NONE, width, max(np.uint64(1), width // np.uint64(_SAMPLE))):
        lists.candidate_positions[count] = np.uint64(sortable_bits(_estimate(block, query_in_block, position))) << _HALF
        count += np.uint64(1)
    if block.sample == _NONE or block.sample > count:
        return np.float32(-np.inf)
    return _nth(lists.candidate_positions[:count], block.sample, lists)


@inner_kernel
def _scan(block: _Block, query_in_block: int, floor: np.float32, candidate_positions: UInt64Array) -> np.uint64:
    """Write the positions of the estimates that reach ``floor``; return how many.

    The comparisons of a few estimates become the bits of one number, which takes no branch.
    """
    width, reached = np.uint64(block.products.shape[1]), _NONE
    full_steps = width - width % _STEP
    for start in range(_NONE, full_steps, _STEP):
        bits = np.uint32(0)
        for step in range(_STEP):
            bits |= np.uint32(_estimate(block, query_in_block, start + step) >= floor) << np.uint32(step)
        while bits:
            candidate_positions[reached] = start + np.uint64(trailing_zeros(bits))
            reached += np.uint64(1)
            bits &= bits - np.uint32(1)
    for position in range(full_steps, width):
        candidate_positions[reached] = position
        reached += np.uint64(_estimate(block, query_in_block, position) >= floor)
    return reached


@inner_kernel
def _keep(keys: UInt64Array, floor: np.float32) -> np.uint64:
    """Keep the keys whose estimates reach ``floor``, in their order; return how many."""
    least, count = np.uint64(sortable_bits(floor)) << _HALF, _NONE
    for position in range(np.uint64(len(keys))):
        key = keys[position]
        keys[count] = key
        count += np.uint64(key >= least)
    return count


@inner_kernel
def _load(query: int, pair: Pair, vector: Float64Array) -> None:
    """Copy a query's vector."""
    for position in range(np.uint64(len(vector))):
        vector[position] = np.float64(pair.queries[query, position])


@inner_kernel
def _exact(query: int, position: np.uint64, pair: Pair, positions: _Positions, vector: Float64Array) -> np.uint64:
    """Return the exact key of a document for ``query``, whose vector is ``vector``."""
    block = position // positions.width
    row = positions.start + block + (position - block * positions.width) * positions.step
    lengths = pair.query_lengths[query] * positions.lengths[position]
    return key_of(vector, pair.documents[row], lengths, positions.tie_break[position], pair.similarity)


@inner_kernel
def _shorten(
    query_in_block: int, query: int, slack: np.float32, pair: Pair, positions: _Positions, k: np.uint64, lists: _Lists
) -> np.uint64:
    """Make room in a full list; return how many keys are left, in their order.

    If the bound on the error leaves more than there is room for, as among thousands of equal documents, the exact
    scores and the order of ties decide.
    """
    keys, exact = lists.keys[query_in_block], lists.exact
    lists.floors[query_in_block] = max(lists.floors[query_in_block], np.float32(_nth(keys, k, lists) - slack))
    count = _keep(keys, lists.floors[query_in_block])
    if count <= (k + np.uint64(len(keys))) // np.uint64(2):
        return count
    _load(query, pair, lists.vector)
    for position in range(count):
        exact[position] = _exact(query, np.uint64(np.uint32(keys[position])), pair, positions, lists.vector)
        lists.copy[position] = exact[position]
    least, remaining = nth_largest(lists.copy[:count], k, lists.spare), _NONE
    for position in range(count):
        keys[remaining] = keys[position]
        remaining += np.uint64(exact[position] >= least)
    return remaining


@inner_kernel
def _filter(
    block: _Block,
    queries: Int64Array,
    slack: Float32Array,
    pair: Pair,
    positions: _Positions,
    k: np.uint64,
    lists: _Lists,
) -> None:
    """List the candidates for the best from a block of products; raise the floors."""
    candidate_positions = lists.candidate_positions
    for query_in_block in range(len(queries)):
        keys, query, count = (
            lists.keys[query_in_block],
            queries[query_in_block],
            np.uint64(lists.counts[query_in_block]),
        )
        if block.sample > _NONE:
            lists.floors[query_in_block] = lists.thresholds[query_in_block] = np.float32(
                _threshold(block, query_in_block, lists) - slack[query]
            )
        if count < np.uint64(len(keys)):
            keys[count] = _NONE  # brings the end of the list into the cache in the meantime
        for candidate in range(_scan(block, query_in_block, lists.floors[query_in_block], candidate_positions)):
            if count == np.uint64(len(keys)):
                count = _shorten(query_in_block, query, slack[query], pair, positions, k, lists)
            bits = np.uint64(sortable_bits(_estimate(block, query_in_block, candidate_positions[candidate])))
            keys[count] = (bits << _HALF) | (block.first + candidate_positions[candidate])
            count += np.uint64(1)
        if _NONE < block.rank <= count:
            floor = np.float32(_nth(keys[:count], block.rank, lists) - slack[query])
            if block.rank < k:
                lists.thresholds[query_in_block] = max(lists.thresholds[query_in_block], floor)
            lists.floors[query_in_block] = max(lists.floors[query_in_block], floor)
        lists.counts[query_in_block] = np.int64(count)


@kernel
def _filter_block(
    block: _Block,
    queries: Int64Array,
    slack: Float32Array,
    pair: Pair,
    positions: _Positions,
    k: np.uint64,
    lists: _Lists,
) -> None:
    """Do the work of :func:`_filter`, without counting references."""
    _filter(block, queries, slack, pair, positions, k, lists)


@inner_kernel
def _rescore(queries: Int64Array, pair: Pair, positions: _Positions, lists: _Lists, next_positions: Int64Array) -> None:
    """Replace all keys by exact keys, a few documents at a time for all queries while these documents are in the cache.

    ``next_positions`` int64 (Q,), zeros, is scratch space.
    """
    vector = lists.vector
    for end in range(_TOGETHER, np.uint64(len(positions.lengths)) + _TOGETHER, _TOGETHER):
        for query_in_block in range(len(queries)):
            keys, first, count = (
                lists.keys[query_in_block],
                next_positions[query_in_block],
                lists.counts[query_in_block],
            )
            if first == count or np.uint64(np.uint32(keys[first])) >= end:
                continue
            next_position, query = first, queries[query_in_block]
            _load(query, pair, vector)
            while next_position < count:
                candidate_position = np.uint64(np.uint32(keys[next_position]))
                if candidate_position >= end:
                    break
                keys[next_position] = _exact(query, candidate_position, pair, positions, vector)
                next_position += 1
            next_positions[query_in_block] = next_position


@inner_kernel
def _drop_low(
    queries: Int64Array, slack: Float32Array, k: np.uint64, lists: _Lists, complete: npt.NDArray[np.bool_]
) -> None:
    """Keep the entries above the final floors, and nothing of queries whose lists are not ``complete``."""
    for query_in_block in range(len(queries)):
        keys, remaining = lists.keys[query_in_block, : lists.counts[query_in_block]], _NONE
        if len(keys) >= k:
            floor = np.float32(_nth(keys, k, lists) - slack[queries[query_in_block]])
            complete[query_in_block] = lists.thresholds[query_in_block] <= floor
            if complete[query_in_block]:
                remaining = _keep(keys, floor)
        lists.counts[query_in_block] = np.int64(remaining)


@kernel
def _choose(
    queries: Int64Array,
    slack: Float32Array,
    pair: Pair,
    positions: _Positions,
    lists: _Lists,
    best: UInt64Array,
    complete: npt.NDArray[np.bool_],
) -> None:
    """Write the exact keys of the best, in no order, into ``best`` (Q, k), and whether nothing better was left out."""
    k = np.uint64(best.shape[1])
    _drop_low(queries, slack, k, lists, complete)
    _rescore(queries, pair, positions, lists, np.zeros(len(queries), dtype=np.int64))
    for query_in_block in range(len(best)):
        if complete[query_in_block]:
            keep_largest_beside(lists.keys[query_in_block, : lists.counts[query_in_block]], k, lists.spare)
            best[query_in_block] = lists.keys[query_in_block, :k]


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
