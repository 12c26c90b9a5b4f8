"""Blocks of queries and documents, threads, and the merging of what they find."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from harness.data.types import Float32Array, Int64Array, Similarity, UInt64Array
from harness.exact.dense.blas import single_threaded_blas
from harness.exact.dense.candidates import STEP, Estimates, Lists, cut, filter_block, guess_floors
from harness.exact.dense.estimates import Coarse, Scaling, coarse_for, directions
from harness.exact.dense.finalists import Finalists
from harness.exact.dense.scores import Pair
from harness.exact.dense.whole_numbers import Desk, filter_documents, rounded_queries

__all__ = ["Blocks", "Job", "Take", "best_keys", "best_keys_of_query"]

_CANDIDATES = (1 << 24) // 8  # of all similarities, in lists and as finalists, 8 bytes each
_TOGETHER = 1024
_SPARE = 256
_SAMPLED = 1024
_FEW_DOCUMENTS = 16 * _SAMPLED
_FEW_QUERIES = 32
_MORE = _SAMPLED // 128  # of the sample: exact scores of more documents than that cost what rounding saves


Take = Callable[[Similarity, int, UInt64Array], None]
"""Gets keys of the queries from a certain one on, uint64 (Q, k), best first. They last until it returns."""


class Blocks(NamedTuple):
    """How much is multiplied at once: at most ``queries`` by ``documents``."""

    queries: int = 256
    documents: int = 1024


class Job(NamedTuple):
    """One search: for each similarity what its scores and their estimates are computed from."""

    pairs: Mapping[Similarity, Pair]
    estimates: Mapping[Similarity, Estimates]
    scaling: Scaling
    k: int

    def documents(self, rows: slice | Int64Array) -> Float32Array:
        """The documents ``rows`` as BLAS gets them."""
        return self.scaling.scaled(self.any_pair.documents, rows, int(self.any_pair.dimensions))

    @property
    def any_pair(self) -> Pair:
        """One of the pairs: documents, queries and their lengths are the same in all."""
        return next(iter(self.pairs.values()))


class _Part(NamedTuple):
    queries: slice
    documents: slice


class _Sample(NamedTuple):
    """Documents by which floors are guessed, drawn evenly, and which of them counts; ``vectors`` as BLAS gets them."""

    rows: Int64Array
    vectors: Float32Array
    rank: int
    coarse: Coarse | None
    """Where it may pay to begin with rounded vectors: one similarity, and documents that need no scaling."""

    @classmethod
    def of(cls, job: Job) -> _Sample | None:
        """None where there are too few documents or queries for a guess to pay.

        The rank is that of the k-th best of all documents in a sample of so many, and three standard deviations more.
        """
        documents, queries = len(job.any_pair.documents), len(job.any_pair.queries)
        expected = job.k * _SAMPLED / documents if documents else 0.0
        rank = math.ceil(expected + 3.0 * math.sqrt(expected) + 2.0)
        if documents < _FEW_DOCUMENTS or queries < _FEW_QUERIES or rank > _SAMPLED // 4:
            return None
        rows = np.linspace(0, documents - 1, _SAMPLED).astype(np.int64)
        alone = len(job.pairs) == 1 and job.scaling.factors is None
        coarse = coarse_for(job.any_pair, next(iter(job.estimates.values()))) if alone else None
        return cls(rows, job.documents(rows), rank, coarse)


class _Room(NamedTuple):
    """What one part works in: products float32 (at least a block or a sample of all queries of a batch), and the lists
    of such a batch and the finalists of several, for each similarity.
    """

    products: Float32Array
    lists: dict[Similarity, Lists]
    finalists: dict[Similarity, Finalists]

    @classmethod
    def of(cls, job: Job, batch: int, queries: int, documents: int, block: int) -> _Room:
        """For parts of at most so many queries and documents."""
        width, k = _list_width(job.k, documents), min(job.k, documents)
        products = np.empty(batch * max(min(block, documents), _SAMPLED), dtype=np.float32)
        most = _CANDIDATES // len(job.pairs) - batch * width
        room = max(batch * width, min(most, queries * ((k + width) // 2)))
        return cls(
            products,
            {name: Lists.of(batch, width) for name in job.pairs},
            {name: Finalists.of(queries, room) for name in job.pairs},
        )

    def block(self, queries: int, documents: int) -> Float32Array:
        """Room for the products of so many queries and documents, without gaps: kernels are quick there alone."""
        return self.products[: queries * documents].reshape(queries, documents)


class _Rooms:
    """Rooms that are used again: in new memory every 4 KiB cost a page fault, together some percent of a search."""

    def __init__(self, make: Callable[[], _Room]) -> None:
        self._make = make
        self._free: list[_Room] = []

    @contextmanager
    def one(self) -> Iterator[_Room]:
        """A room, nobody else's for as long."""
        try:
            room = self._free.pop()
        except IndexError:
            room = self._make()
        yield room
        self._free.append(room)


def best_keys(job: Job, threads: int, blocks: Blocks, take: Take) -> None:
    """Have ``take`` every query's best documents, in parts as they are found: min(k, n) of each."""
    pair = job.any_pair
    documents, queries = len(pair.documents), len(pair.queries)
    batch = _batch(job, queries, documents, blocks)
    size = batch * -(-min(-(-queries // threads), _TOGETHER) // batch)
    starts = range(0, queries if documents else 0, max(1, size))
    pieces = 1 if len(starts) >= threads else threads
    parts = list(_parts(starts, size, queries, documents, pieces))
    unit = directions(pair.queries, pair.query_lengths)
    rooms = _Rooms(lambda: _Room.of(job, batch, min(size, queries), documents, blocks.documents))

    with single_threaded_blas():
        sample = _Sample.of(job) if pieces == 1 else None

        def search(part: _Part) -> dict[Similarity, UInt64Array]:
            found: dict[Similarity, list[UInt64Array]] = {name: [] for name in job.pairs}
            with rooms.one() as room:
                for name, first, keys in _search(job, unit, part, Blocks(batch, blocks.documents), sample, room):
                    if pieces > 1:
                        found[name].append(keys.copy())
                    else:
                        take(name, first, keys[:, ::-1])
            return {name: np.vstack(some) for name, some in found.items() if some}

        results = _mapped(search, parts, threads)
        for start in starts:
            own = [next(results) for _ in range(len(parts) // len(starts))]
            for name in job.pairs if pieces > 1 else ():
                merged = np.sort(np.hstack([one[name] for one in own]), axis=1)
                take(name, start, merged[:, ::-1][:, : min(job.k, documents)])


def _batch(job: Job, queries: int, documents: int, blocks: Blocks) -> int:
    """How many queries are multiplied at once: half of the room is for their lists."""
    most = _CANDIDATES // (2 * len(job.pairs) * _list_width(job.k, documents))
    return max(1, min(blocks.queries, queries, most))


def best_keys_of_query(job: Job, name: Similarity, query: int) -> UInt64Array:
    """The keys of one query's best documents, best first: uint64 (min(k, n),)."""
    pair = job.pairs[name]
    unit = directions(pair.queries, pair.query_lengths)
    return _search_again(job, name, unit, _Part(slice(query, query + 1), slice(0, len(pair.documents))))[::-1]


def _mapped(
    search: Callable[[_Part], dict[Similarity, UInt64Array]], parts: list[_Part], threads: int
) -> Iterator[dict[Similarity, UInt64Array]]:
    """Results in order, so that finished ones are merged while others run."""
    if threads == 1 or len(parts) == 1:
        yield from map(search, parts)
        return
    with ThreadPoolExecutor(max_workers=threads) as pool:
        yield from pool.map(search, parts)


def _parts(starts: range, size: int, queries: int, documents: int, pieces: int) -> Iterator[_Part]:
    """Blocks of queries over all documents; over pieces of them where there are fewer blocks than threads."""
    step = max(1, -(-documents // pieces))
    for start in starts:
        for first in range(0, documents, step):
            yield _Part(slice(start, min(start + size, queries)), slice(first, min(first + step, documents)))


def _list_width(k: int, documents: int) -> int:
    """Room for the candidates of one query: twice k, so that a list is shortened seldom, or all documents."""
    return min(documents, 2 * min(k, documents) + _SPARE) + 2 * STEP


def _search(
    job: Job, unit: Float32Array, part: _Part, blocks: Blocks, sample: _Sample | None, room: _Room
) -> Iterator[tuple[Similarity, int, UInt64Array]]:
    """The keys of the part's best documents, ascending: uint64 (some, at most k), of the queries from a certain one on.

    They lie in scratch space of ``room``, and last until the next ones.
    """
    begin = part.queries.start
    for first in range(part.queries.start, part.queries.stop, blocks.queries):
        batch = _Part(slice(first, min(first + blocks.queries, part.queries.stop)), part.documents)
        lists = _filtered(job, unit, batch, blocks.documents, sample, room)
        if not all(room.finalists[name].has_room(first - begin, one) for name, one in lists.items()):
            yield from _scored(job, unit, _Part(slice(begin, first), part.documents), room)
            begin = first
        for name, one in lists.items():
            room.finalists[name].add(first - begin, one)
    yield from _scored(job, unit, _Part(slice(begin, part.queries.stop), part.documents), room)


def _filtered(
    job: Job, unit: Float32Array, part: _Part, block: int, sample: _Sample | None, room: _Room
) -> dict[Similarity, Lists]:
    """The documents that may be among the best of a batch of queries; none where a guess was too high."""
    first_query, count = part.queries.start, part.queries.stop - part.queries.start
    k = min(job.k, part.documents.stop - part.documents.start)
    lists = {name: one.emptied(count) for name, one in room.lists.items()}
    asked, coarse = unit[part.queries], None
    if sample is not None:
        for name in job.pairs:
            sampled = np.matmul(asked, sample.vectors.T, out=room.block(count, len(sample.rows)))
            coarse = _begin(sampled, sample, first_query, job.estimates[name], lists[name])
    if coarse is not None:
        ((name, pair),) = job.pairs.items()
        ends = np.uint64(part.documents.start), np.uint64(part.documents.stop)
        rounded, estimates, desk = rounded_queries(asked), coarse.estimates, Desk.of(int(pair.dimensions))
        filter_documents(rounded, coarse.factors, *ends, first_query, estimates, pair, k, lists[name], desk)
        cut(first_query, estimates, pair, k, lists[name])
        return lists
    for first in range(part.documents.start, part.documents.stop, block):
        end = min(first + block, part.documents.stop)
        out = room.block(count, end - first)
        np.matmul(asked, job.documents(slice(first, end)).T, out=out)
        for name, one in job.pairs.items():
            filter_block(out, np.uint64(first), first_query, job.estimates[name], one, k, lists[name])
    for name, one in job.pairs.items():
        cut(first_query, job.estimates[name], one, k, lists[name])
    return lists


def _begin(sampled: Float32Array, sample: _Sample, first_query: int, fine: Estimates, lists: Lists) -> Coarse | None:
    """Begin with guessed floors. What is returned are the estimates to go on with, of rounded vectors, where they let
    through at most a few documents more; None stands for the usual ones.
    """
    if sample.coarse is not None:
        slack = sample.coarse.estimates.slack
        reaching = guess_floors(sampled, sample.rows, first_query, fine._replace(slack=slack), sample.rank, lists)
        if reaching <= (sample.rank + _MORE) * len(sampled):
            return sample.coarse
        lists.guesses[:] += np.float32(sample.coarse.wider)
        lists.floors[:] = lists.guesses
        return None
    guess_floors(sampled, sample.rows, first_query, fine, sample.rank, lists)
    return None


def _scored(job: Job, unit: Float32Array, part: _Part, room: _Room) -> Iterator[tuple[Similarity, int, UInt64Array]]:
    """The keys of the best of the finalists, which are those of the part's queries."""
    first_query, count = part.queries.start, part.queries.stop - part.queries.start
    k = min(job.k, part.documents.stop - part.documents.start)
    for name, pair in job.pairs.items():
        query = first_query
        for keys in room.finalists[name].best(pair, first_query, count, k, room.lists[name].keys):
            for place in np.flatnonzero(keys[:, 0] == 0):  # a guess that was too high
                again = _Part(slice(query + int(place), query + int(place) + 1), part.documents)
                keys[place] = _search_again(job, name, unit, again)
            yield name, query, keys
            query += len(keys)


def _search_again(job: Job, name: Similarity, unit: Float32Array, part: _Part) -> UInt64Array:
    """The keys of one query's best documents, ascending, without a guess: uint64 (at most k,)."""
    single = job._replace(pairs={name: job.pairs[name]})
    blocks = Blocks(1)
    room = _Room.of(single, 1, 1, part.documents.stop - part.documents.start, blocks.documents)
    ((_, _, keys),) = _search(single, unit, part, blocks, None, room)
    best: UInt64Array = keys[0]
    return best
