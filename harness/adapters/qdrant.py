"""Qdrant as an engine of sparse vectors: what is sent, what came of it, what it answers.

How Qdrant is reached is behind :class:`QdrantStore`; :mod:`harness.adapters.qdrant_edge` is the engine in the process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np

from harness.adapters.checks import require_announced_ids, require_positive_k, require_sparse
from harness.adapters.hits import HitCollector
from harness.adapters.manifest import check_manifest, write_manifest
from harness.adapters.qdrant_settings import FREE_ON_REOPENING, QdrantSettings
from harness.errors import EngineTimeoutError, EngineUnavailableError, LostDocumentsError, RejectedInputError
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
from harness.types import Ids, Int32Array, SparseVectors

__all__ = ["QdrantEngine", "QdrantStore"]

_NAME = "qdrant"
_NANOSECONDS = 1_000_000_000


class QdrantStore(Protocol):
    """What the adapter needs of a Qdrant, wherever it runs; errors come translated, but for :meth:`query`."""

    def upsert(self, vectors: SparseVectors, start: int, stop: int) -> None:
        """Store rows ``start`` to ``stop`` as points of those numbers."""

    def optimise(self) -> bool:
        """Run the optimisers that are due; False when there was nothing to do."""

    def flush(self) -> None:
        """Bring everything to disk."""

    def count(self) -> int:
        """Number of points."""

    def rows(self) -> Iterator[int]:
        """Row numbers of all points."""

    def state(self) -> Mapping[str, ParameterValue]:
        """The engine's account of its index."""

    def request(self, indices: Sequence[int], values: Sequence[float], k: int) -> Any:  # noqa: ANN401
        """A query in the client's own form."""

    def query(self, request: Any) -> list[Any]:  # noqa: ANN401
        """Hits, best first, each with ``id`` and ``score``."""

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """The context in which to call :meth:`query`."""

    def storage(self) -> Storage:
        """Allocated bytes."""

    def close(self) -> None:
        """Let go of everything."""


class QdrantEngine:
    """Sparse vectors in Qdrant, searched exactly through its inverted index, with its own idf on request.

    Equal scores come in no fixed order: in a segment that the optimiser has not touched it changes from build to
    build, and the top 3 need not begin the top 5.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=True, deterministic=False, reopens=True, keeps_k_prefix=False
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self._parameters = dict(parameters)
        self._settings = QdrantSettings.of(parameters)
        self._store: QdrantStore | None = None
        self._folder = Path()
        self._ids = Ids.of([])
        self._indexed = False

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start on an empty folder, or on one that holds this index; raises EngineUnavailableError, and
        RejectedInputError when the index was built with other parameters or from other documents.
        """
        from harness.adapters.qdrant_edge import EdgeStore

        info = EdgeStore.engine_info()
        self._indexed = check_manifest(folder, _NAME, self._parameters, ids, free=FREE_ON_REOPENING)
        self._folder, self._ids = folder, ids
        shard = folder / "shard"
        self._store = (
            EdgeStore.load(shard, self._settings) if self._indexed else EdgeStore.create(shard, self._settings)
        )
        if self._indexed and (held := self._store.count()) != len(ids):
            self.close()
            raise LostDocumentsError(
                f"the index in '{folder}' holds {held} of {len(ids)} documents", fix="delete the folder and index again"
            )
        return info

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Send all documents in batches, optimise until idle, count, and list what is missing.

        Documents without terms are sent too, with an empty vector: Qdrant counts them as points, and its idf does not.
        Raises RejectedInputError, EngineTimeoutError, EngineFailureError.
        """
        store = self._opened()
        if self._indexed:
            raise RejectedInputError(f"'{self._folder}' holds an index already", fix="index into a new folder")
        require_announced_ids(documents, self._ids)
        vectors = require_sparse(documents, "document")
        started = clock()
        self._send(store, vectors, progress)
        sent = clock()
        progress.start("optimise", None)
        self._optimise_until_idle(store, clock)
        store.flush()
        ready = clock()
        missing = self._missing(store, len(documents))
        write_manifest(self._folder, _NAME, self._parameters, documents.ids)
        self._indexed = True
        with_terms = len(vectors.nonempty_rows)
        state = {**store.state(), "idf_documents": with_terms, "empty_vectors": len(vectors) - with_terms}
        indexed = len(documents) - len(missing)
        return IndexReport(len(documents), indexed, missing, sent - started, ready - sent, state)

    def _send(self, store: QdrantStore, vectors: SparseVectors, progress: Progress) -> None:
        progress.start("index", len(vectors))
        size, every = self._settings.batch_size, self._settings.optimize_every
        for start in range(0, len(vectors), size):
            stop = min(start + size, len(vectors))
            store.upsert(vectors, start, stop)
            if every and start // every != stop // every:
                store.optimise()
            progress.advance(stop - start)

    def _optimise_until_idle(self, store: QdrantStore, clock: Clock) -> None:
        deadline = clock() + int(self._settings.optimize_timeout_s * _NANOSECONDS)
        while store.optimise():
            if clock() > deadline:
                raise EngineTimeoutError(
                    f"Qdrant was still optimising after {self._settings.optimize_timeout_s:g} s",
                    fix="raise 'optimize_timeout_s'",
                )

    def _missing(self, store: QdrantStore, documents: int) -> Int32Array:
        if store.count() == documents:
            return np.array([], dtype=np.int32)
        held = np.zeros(documents, dtype=bool)
        held[np.fromiter(store.rows(), dtype=np.int64)] = True
        return np.flatnonzero(~held).astype(np.int32)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """The best ``k`` of each query; ``transfer_ns`` is the time from Qdrant's list of Python hits to arrays.

        The engine makes that list inside its own call, so its making counts as search. A query without terms is not
        sent: it has no hits. Raises RejectedInputError and EngineFailureError.
        """
        store = self._opened()
        if not self._indexed:
            raise EngineUnavailableError("nothing is indexed yet", fix="call index first")
        require_positive_k(k)
        vectors = require_sparse(queries, "query")
        limit = min(k, max(1, len(self._ids)))
        collector = HitCollector(len(queries))
        query = 0
        with store.translated(lambda: f"searching for query '{queries.ids[query]}'"):
            for query in range(len(queries)):
                indices, values = vectors.row(query)
                request = store.request(indices.tolist(), values.tolist(), limit)
                started = clock()
                hits = store.query(request)
                searched = clock()
                rows = np.fromiter([hit.id for hit in hits], dtype=np.int32, count=len(hits))
                scores = np.fromiter([hit.score for hit in hits], dtype=np.float32, count=len(hits))
                collector.add(rows, scores, searched - started, clock() - searched)
        return collector.result()

    def storage(self) -> Storage:
        """Allocated bytes of the shard, its write-ahead log apart."""
        return self._opened().storage()

    def close(self) -> None:
        """Release the shard; calling it again does nothing."""
        store, self._store, self._indexed = self._store, None, False
        if store is not None:
            store.close()

    def _opened(self) -> QdrantStore:
        if self._store is None:
            raise EngineUnavailableError("the qdrant engine is closed", fix="open it first")
        return self._store
