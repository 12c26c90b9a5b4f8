"""The documents that are left after the filter, of many queries: scored exactly, and the best of them chosen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from harness.data.jit import kernel
from harness.data.types import Int64Array, UInt64Array
from harness.exact.dense.candidates import Lists
from harness.exact.dense.scores import AT_ONCE, Pair, keys_of

__all__ = ["Finalists"]

_ROWS = 1024
_PER_VISIT = 8


class Finalists(NamedTuple):
    """Rows of each query, ascending, which become keys: uint64 (c,), those of a query side by side.

    They are scored in blocks of documents, for all queries one block after the other, so that the documents come from
    memory once. So the more queries there are, the less each of them waits.
    """

    entries: UInt64Array
    starts: Int64Array
    """Where those of each query begin, and after the last one where they end: int64 (Q + 1,)."""

    @classmethod
    def of(cls, queries: int, room: int) -> Finalists:
        """Room for so many queries and rows of all of them together."""
        return cls(np.empty(room, dtype=np.uint64), np.zeros(queries + 1, dtype=np.int64))

    def has_room(self, done: int, lists: Lists) -> bool:
        """Whether the lists fit in after those of ``done`` queries."""
        return done + len(lists.counts) < len(self.starts) and self.starts[done] + lists.counts.sum() <= len(
            self.entries
        )

    def add(self, done: int, lists: Lists) -> None:
        """Take the lists of the queries after those that are ``done``."""
        _add(self.entries, self.starts, done, lists)

    def best(self, pair: Pair, first_query: int, queries: int, k: int, room: UInt64Array) -> Iterator[UInt64Array]:
        """The keys of each query's best ``k``, ascending, of some queries after the others: uint64 (some, k).

        They lie in ``room`` (uint64), and last until the next ones. Where fewer than k are known, 0 comes first.
        """
        starts = self.starts[: queries + 1]
        total, longest = int(starts[-1]), max(k, int(np.diff(starts).max()))
        rows = max(_ROWS, _PER_VISIT * len(pair.documents) * queries // max(1, total))
        _score(pair, first_query, starts, self.entries, rows)
        several = len(room) // longest
        for first in range(0, queries, several):
            count = min(several, queries - first)
            keys = room[: count * longest].reshape(count, longest)
            _copy(self.entries, starts, first, keys)
            keys.sort(axis=1)
            yield keys[:, -k:]


@kernel
def _add(entries: UInt64Array, starts: Int64Array, done: int, lists: Lists) -> None:
    for query in range(len(lists.counts)):
        begin, count = starts[done + query], lists.counts[query]
        for place in range(count):
            entries[begin + place] = np.uint64(lists.rows[query, place])
        starts[done + query + 1] = begin + count


@kernel
def _score(pair: Pair, first_query: int, starts: Int64Array, entries: UInt64Array, step: int) -> None:
    sums, keys = np.empty(AT_ONCE), np.empty(AT_ONCE, dtype=np.uint64)
    cursors = starts[:-1].copy()
    for first in range(0, len(pair.documents), step):
        limit = np.uint64(first + step)
        for query in range(len(cursors)):
            end = starts[query + 1]
            while cursors[query] < end and entries[cursors[query]] < limit:
                begin = cursors[query]
                stop, last = begin + 1, min(end, begin + AT_ONCE)
                while stop < last and entries[stop] < limit:
                    stop += 1
                keys_of(pair, first_query + query, entries[begin:stop], sums, keys[: stop - begin])
                entries[begin:stop] = keys[: stop - begin]
                cursors[query] = stop


@kernel
def _copy(entries: UInt64Array, starts: Int64Array, first: int, keys: UInt64Array) -> None:
    """Where a query has fewer, 0 follows."""
    for query in range(len(keys)):
        begin, end = starts[first + query], starts[first + query + 1]
        keys[query, : end - begin] = entries[begin:end]
        keys[query, end - begin :] = 0
