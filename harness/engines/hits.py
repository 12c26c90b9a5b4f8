"""Gathers the hits of one query after another into the columns of a search result."""

from __future__ import annotations

import numpy as np

from harness.data.types import Float32Array, Int32Array
from harness.engines.interface import SearchResult

__all__ = ["HitCollector"]


class HitCollector:
    """Collects hits and times of a batch of queries, in order."""

    def __init__(self, queries: int) -> None:
        self._rows: list[Int32Array] = []
        self._scores: list[Float32Array] = []
        self._times = np.zeros((2, queries), dtype=np.int64)

    def __len__(self) -> int:
        """How many queries were added."""
        return len(self._rows)

    def add(self, rows: Int32Array, scores: Float32Array, search_ns: int, transfer_ns: int) -> None:
        """The next query's hits, and how long finding and transferring them took."""
        self._times[:, len(self._rows)] = search_ns, transfer_ns
        self._rows.append(rows)
        self._scores.append(scores)

    def result(self, *, repeated_calls: int = 0, queries_per_call: int = 1) -> SearchResult:
        """Everything that was added."""
        indptr = np.zeros(len(self._rows) + 1, dtype=np.int64)
        np.cumsum([len(rows) for rows in self._rows], out=indptr[1:])
        rows = np.concatenate([np.array([], dtype=np.int32), *self._rows])
        scores = np.concatenate([np.array([], dtype=np.float32), *self._scores])
        search_ns, transfer_ns = self._times
        return SearchResult(indptr, rows, scores, search_ns, transfer_ns, repeated_calls, queries_per_call)
