"""Engines that behave, and engines that fail in one way each, for tests of whatever drives engines."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.errors import EngineUnavailableError
from harness.protocols import (
    Capabilities,
    Clock,
    EngineInfo,
    IndexReport,
    Inputs,
    ParameterValue,
    Progress,
    SearchResult,
    Storage,
)
from harness.types import Ids, SparseVectors


class BruteForce:
    """Every document scored against every query; ties by row."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=True, deterministic=True, reopens=False, keeps_k_prefix=True
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self.parameters = parameters
        self.documents: SparseVectors | None = None
        self.closed = 0

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        assert folder.is_dir()
        assert len(ids)
        return EngineInfo("brute force", "1", "in process")

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        progress.start("index", len(documents))
        started = clock()
        self.documents = documents.sparse
        progress.advance(len(documents))
        missing = self._missing(documents)
        return IndexReport(
            len(documents), len(documents) - len(missing), missing, clock() - started, 0, {"segments": 1}
        )

    def _missing(self, documents: Inputs) -> np.ndarray:
        return np.zeros(0, dtype=np.int32)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        assert self.documents is not None
        assert queries.sparse is not None
        dense = self.documents.to_scipy().toarray()
        rows, scores, search_ns, lengths = [], [], [], [0]
        for query in queries.sparse.to_scipy().toarray():
            started = clock()
            total = (dense @ query).astype(np.float32)
            best = np.lexsort((np.arange(len(total)), -total))
            best = best[total[best] > 0][:k]
            rows.append(best.astype(np.int32))
            scores.append(total[best])
            lengths.append(len(best))
            search_ns.append(clock() - started)
        times = np.array(search_ns, dtype=np.int64)
        indptr = np.cumsum(lengths, dtype=np.int64)
        return SearchResult(indptr, np.concatenate(rows), np.concatenate(scores), times, np.zeros_like(times))

    def storage(self) -> Storage:
        return Storage(1, 0)

    def close(self) -> None:
        self.closed += 1


class ByLength(BruteForce):
    """Reads texts by itself: every document is found, the longest first, whatever was asked."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="text", exact=True, deterministic=True, reopens=False, keeps_k_prefix=True
    )

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        assert documents.texts is not None
        assert documents.sparse is None
        self.lengths = np.array([len(text) for text in documents.texts.to_pylist()], dtype=np.float32)
        return super().index(documents, progress, clock)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        count = len(queries)
        best = np.argsort(-self.lengths, kind="stable")[:k].astype(np.int32)
        times = np.ones(count, dtype=np.int64)
        indptr = np.arange(count + 1, dtype=np.int64) * len(best)
        return SearchResult(indptr, np.tile(best, count), np.tile(self.lengths[best], count), times, times)


class LosesDocuments(BruteForce):
    """Does not hold row 1, and says so."""

    def _missing(self, documents: Inputs) -> np.ndarray:
        return np.array([1], dtype=np.int32)


class Unavailable(BruteForce):
    """Cannot start."""

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        raise EngineUnavailableError("the engine is not there", fix="start it")


class Segfaults(BruteForce):
    """Dies while indexing."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        ctypes.string_at(0)
        raise AssertionError("unreachable")


class Hangs(BruteForce):
    """Never finishes indexing."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        time.sleep(600)
        raise AssertionError("unreachable")


class Stumbles(BruteForce):
    """Raises an exception that no adapter should let through."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        print("about to stumble")  # noqa: T201 - standard output must not reach the parent's pipe
        raise KeyError("inner detail")


class Lingers(BruteForce):
    """Leaves a thread behind that never ends."""

    def close(self) -> None:
        threading.Thread(target=time.sleep, args=(600,)).start()
