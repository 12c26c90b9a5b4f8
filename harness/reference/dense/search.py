"""Blocks of queries and documents, threads, and the merging of what they find."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from harness.reference.dense.blas import single_threaded_blas
from harness.reference.dense.candidates import STEP, Estimates, Lists, choose, filter_block, guess_floors
from harness.reference.dense.estimates import Scaling, directions
from harness.reference.dense.scores import Pair
from harness.types import Float32Array, Int64Array, Similarity, UInt64Array

__all__ = ["Blocks", "Job", "Take", "best_keys", "best_keys_of_query"]

_LIST_BYTES = 1 << 24
_BYTES_A_CANDIDATE = 16
_SPARE = 256
_SAMPLED = 1024
_FEW_DOCUMENTS = 16 * _SAMPLED
_FEW_QUERIES = 32


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
        return cls(rows, job.documents(rows), rank)


class _Room(NamedTuple):
    """What one part works in: products float32 (Q, at least a block or a sample), and the lists of each similarity."""

    products: Float32Array
    lists: dict[Similarity, Lists]

    @classmethod
    def of(cls, job: Job, queries: int, documents: int, block: int) -> _Room:
        """For parts of at most so many queries and documents."""
        width = _list_width(job.k, documents)
        products = np.empty((queries, max(min(block, documents), _SAMPLED)), dtype=np.float32)
        return cls(products, {name: Lists.of(queries, width) for name in job.pairs})


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
    most = max(1, _LIST_BYTES // (_BYTES_A_CANDIDATE * len(job.pairs) * _list_width(job.k, documents)))
    size = min(blocks.queries, most)
    starts = range(0, queries if documents else 0, size)
    pieces = 1 if len(starts) >= threads else threads
    parts = list(_parts(starts, size, queries, documents, pieces))
    unit = directions(pair.queries, pair.query_lengths)
    rooms = _Rooms(lambda: _Room.of(job, min(size, queries), documents, blocks.documents))

    with single_threaded_blas():
        sample = _Sample.of(job) if pieces == 1 else None

        def search(part: _Part) -> dict[Similarity, UInt64Array]:
            with rooms.one() as room:
                best = _search(job, unit, part, blocks.documents, sample, room)
                if pieces > 1:
                    return {name: keys.copy() for name, keys in best.items()}
                for name, keys in best.items():
                    take(name, part.queries.start, keys[:, ::-1])
                return {}

        results = _mapped(search, parts, threads)
        for start in starts:
            own = [next(results) for _ in range(len(parts) // len(starts))]
            for name in job.pairs if pieces > 1 else ():
                merged = np.sort(np.hstack([one[name] for one in own]), axis=1)
                take(name, start, merged[:, ::-1][:, : min(job.k, documents)])


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
    job: Job, unit: Float32Array, part: _Part, block: int, sample: _Sample | None, room: _Room
) -> dict[Similarity, UInt64Array]:
    """The keys of the part's best documents, ascending: uint64 (Q, at most k), in scratch space of ``room``."""
    first_query, count = part.queries.start, part.queries.stop - part.queries.start
    documents = part.documents.stop - part.documents.start
    k = min(job.k, documents)
    lists = {name: one.emptied(count) for name, one in room.lists.items()}
    products, asked = room.products[:count], unit[part.queries]
    if sample is not None:
        for name in job.pairs:
            sampled = np.matmul(asked, sample.vectors.T, out=products[:, : len(sample.rows)])
            guess_floors(sampled, sample.rows, first_query, job.estimates[name], sample.rank, lists[name])
    for first in range(part.documents.start, part.documents.stop, block):
        end = min(first + block, part.documents.stop)
        out = products[:, : end - first]
        np.matmul(asked, job.documents(slice(first, end)).T, out=out)
        for name, one in job.pairs.items():
            filter_block(out, np.uint64(first), first_query, job.estimates[name], one, k, lists[name])
    best = {}
    for name, one in job.pairs.items():
        best[name] = choose(first_query, job.estimates[name], one, k, lists[name])
        for place in np.flatnonzero(best[name][:, 0] == 0):  # a guess that was too high
            query = first_query + int(place)
            best[name][place] = _search_again(job, name, unit, _Part(slice(query, query + 1), part.documents))
    return best


def _search_again(job: Job, name: Similarity, unit: Float32Array, part: _Part) -> UInt64Array:
    """The keys of one query's best documents, ascending, without a guess: uint64 (at most k,)."""
    single = job._replace(pairs={name: job.pairs[name]})
    block = Blocks().documents
    room = _Room.of(single, 1, part.documents.stop - part.documents.start, block)
    keys: UInt64Array = _search(single, unit, part, block, None, room)[name][0]
    return keys
