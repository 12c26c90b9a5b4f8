"""Qdrant as an engine: what is sent, what came of it, what it answers, whatever vectors its points have.

How Qdrant is reached is behind :class:`~harness.engines.qdrant.store.QdrantStore`: :mod:`harness.engines.qdrant.edge`
is the engine in the process, :mod:`harness.engines.qdrant.client_store` a server, or the Python re-implementation in
its client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Ids, Int32Array
from harness.engines.checks import require_announced_ids, require_positive_k
from harness.engines.interface import (
    Attached,
    Capabilities,
    Caveats,
    Content,
    EngineInfo,
    IndexReport,
    SearchResult,
    Storage,
    StoredDocuments,
)
from harness.engines.manifest import check_manifest, write_manifest
from harness.engines.qdrant.existing import ExistingPoints
from harness.engines.qdrant.search import Ask, search_in_batches, search_one_by_one
from harness.engines.qdrant.segments import caveats_of
from harness.engines.qdrant.settings import FREE_ON_REOPENING, QdrantSettings, ServerSettings, mode_of
from harness.engines.qdrant.store import BatchingStore, QdrantStore, open_existing, open_store
from harness.engines.stored_metadata import require_fields, save_fields
from harness.errors import EngineTimeoutError, EngineUnavailableError, LostDocumentsError, RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = ["PointsEngine"]

_NANOSECONDS = 1_000_000_000


class PointsEngine:
    """What engines on Qdrant have in common; a subclass says which vectors a point has."""

    capabilities: ClassVar[Capabilities]
    name: ClassVar[str]
    """In the manifest of an index, and in messages."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self._parameters = dict(parameters)
        self._settings = self.settings_of(parameters)
        self._store: QdrantStore | None = None
        self._held: ExistingPoints | None = None
        self._folder = Path()
        self._ids = Ids.of([])
        self._indexed = False

    @classmethod
    def settings_of(cls, parameters: Mapping[str, ParameterValue]) -> QdrantSettings:
        """The card's parameters, typed."""
        raise NotImplementedError

    def require(self, inputs: Inputs, what: str, dimensions: int | None) -> int | None:
        """Refuse vectors that Qdrant would take and answer wrongly; the dimensions of dense ones, None without any.

        ``what`` is ``"document"`` or ``"query"``; ``dimensions`` are those of the index, None where it decides nothing.
        """
        raise NotImplementedError

    def state_of(self, documents: Inputs) -> Mapping[str, ParameterValue]:  # noqa: ARG002 - of subclasses
        """What the report says beside the store's own account of the index."""
        return {}

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """The mode and the version of what answers, found without loading an engine; a server is asked.

        Raises EngineUnavailableError when the server does not answer.
        """
        from harness.engines.qdrant import edge as qdrant_edge

        mode = mode_of(parameters)
        if mode == "edge":
            return {"mode": mode, **_version_of(qdrant_edge.PACKAGE)}
        from harness.engines.qdrant.address import address_of
        from harness.engines.qdrant.connect import connect

        server = ServerSettings.of(parameters)
        address = address_of(server)
        found = connect(address, server)
        found.client.close()
        return {"mode": mode, "url": address.url, "qdrant": found.version}

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start on an empty folder, or on one that holds this index; raises EngineUnavailableError, and
        RejectedInputError when the index was built with other parameters or from other documents.
        """
        self._indexed = check_manifest(folder, self.name, self._parameters, ids, free=FREE_ON_REOPENING) is not None
        self._folder, self._ids = folder, ids
        self._store = open_store(folder, self._settings, exists=self._indexed)
        if self._indexed and (held := self._store.count()) != len(ids):
            self.close()
            raise LostDocumentsError(
                f"the index in '{folder}' holds {held} of {len(ids)} documents", fix="delete the folder and index again"
            )
        return self._store.info

    @property
    def source(self) -> Path | None:
        """The folder of the user's shard; None for a collection on a server."""
        return self._settings.existing.folder if self._settings.existing is not None else None

    def attach(self, folder: Path, progress: Progress) -> Attached:
        """Open a copy of the user's shard, or look at a collection by calls that only read."""
        existing = self._settings.existing
        if existing is None:
            raise RejectedInputError("no existing index is named", fix="give existing=true and path= or collection=")
        store, changed = open_existing(existing, folder, self._settings, progress)
        self._store, self._settings = store, store.settings
        held = ExistingPoints(store, existing, progress)
        self._held, self._ids, self._indexed = held, held.ids, True
        dense = self._settings.dense
        read: Mapping[str, ParameterValue] = {} if dense is None else {"similarity": dense.similarity}
        return Attached(store.info, held.ids, {**read, **store.state()}, changed)

    def differs(self, content: Content, progress: Progress) -> str | None:
        """Compares every stored vector, and the idf; the columns of sparse ones must be the encoder's."""
        return self._attached_points().differs(content, progress)

    def stored_documents(self, count: int) -> StoredDocuments:
        """Some points of the attached index, with the texts in their payloads."""
        return self._attached_points().stored_documents(count)

    def _attached_points(self) -> ExistingPoints:
        self._opened()
        if self._held is None:
            raise EngineUnavailableError("no existing index is attached", fix="call attach first")
        return self._held

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Send all documents in batches, optimise until idle, count, and list what is missing.

        Documents without terms are sent too, with an empty vector: Qdrant counts them as points, and its idf does not.
        Raises RejectedInputError, EngineUnavailableError, EngineTimeoutError, EngineFailureError.
        """
        store = self._opened()
        if self._indexed:
            raise RejectedInputError(f"'{self._folder}' holds an index already", fix="index into a new folder")
        require_announced_ids(documents, self._ids)
        store.make(self.require(documents, "document", None))
        if documents.metadata is not None:
            store.index_fields(documents.metadata.column_names)
        started = clock()
        self._send(store, documents, progress)
        sent = clock()
        progress.start("optimise", None)
        self._optimise_until_idle(store, clock)
        store.flush()
        ready = clock()
        missing = self._missing(store, len(documents))
        save_fields(self._folder, documents.metadata)
        write_manifest(self._folder, self.name, self._parameters, documents.ids, indexed=len(documents))
        self._indexed = True
        indexed = len(documents) - len(missing)
        state = {**store.state(), **self.state_of(documents)}
        return IndexReport(len(documents), indexed, missing, sent - started, ready - sent, state)

    def _send(self, store: QdrantStore, documents: Inputs, progress: Progress) -> None:
        progress.start("index", len(documents))
        size, every = self._settings.batch_size, self._settings.optimize_every
        batches = [(start, min(start + size, len(documents))) for start in range(0, len(documents), size)]
        if self._settings.senders > 1:
            self._send_at_once(store, documents, batches, progress)
            return
        for start, stop in batches:
            store.upsert(documents, start, stop)
            if every and start // every != stop // every:
                store.optimise()
            progress.advance(stop - start)

    def _send_at_once(
        self, store: QdrantStore, documents: Inputs, batches: Sequence[tuple[int, int]], progress: Progress
    ) -> None:
        pool = ThreadPoolExecutor(self._settings.senders, thread_name_prefix="upload")
        try:
            sent = {pool.submit(store.upsert, documents, *batch): batch for batch in batches}
            for done in as_completed(sent):
                done.result()
                start, stop = sent[done]
                progress.advance(stop - start)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after a failure, what waits for a retry is not waited for

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

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Filter by payload; raises RejectedInputError for a field that was not indexed."""
        store = self._opened()
        require_fields(self._folder, wanted)
        store.restrict(wanted)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """The best ``k`` of each query; ``transfer_ns`` is the time from Qdrant's list of Python hits to arrays.

        The engine makes that list inside its own call, so its making counts as search. A query without a vector is not
        sent: it has no hits. Raises RejectedInputError and EngineFailureError.
        """
        store = self._opened()
        if not self._indexed:
            raise EngineUnavailableError("nothing is indexed yet", fix="call index first")
        require_positive_k(k)
        self.require(queries, "query", store.dimensions)
        ask = store.request if self._settings.fusion is None else store.fused
        return self._search(store, queries, k, clock, ask)

    def _search(self, store: QdrantStore, queries: Inputs, k: int, clock: Clock, ask: Ask) -> SearchResult:
        limit, batch = min(k, max(1, len(self._ids))), self._settings.server.search_batch
        if batch > 1:
            return search_in_batches(cast("BatchingStore", store), queries, limit, batch, clock, self.columns, ask)
        return search_one_by_one(store, queries, limit, clock, self.columns, ask)

    def columns(self, hits: Sequence[Any]) -> tuple[Int32Array, Float32Array]:
        """Rows and scores of hits; those of an existing index are numbered as its store lists them."""
        if self._held is not None:
            return self._held.columns(hits)
        rows = np.fromiter([hit.id for hit in hits], dtype=np.int32, count=len(hits))
        return rows, np.fromiter([hit.score for hit in hits], dtype=np.float32, count=len(hits))

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:  # noqa: ARG002 - Qdrant looks at no k
        """No vector is found by a graph where every search scans."""
        dense = self._settings.dense
        return {"vectors_in_graph": 0} if dense is not None and dense.exact else {}

    def caveats(self, k: int) -> Caveats:  # noqa: ARG002 - Qdrant looks at no k
        """Parameters that changed nothing, because no segment is optimised, compressed or searched by a graph."""
        return caveats_of(self._settings, self._opened().index_state())

    def storage(self) -> Storage:
        """Allocated bytes of the shard, its write-ahead log apart; a server's own estimate, without a log."""
        return self._opened().storage()

    def close(self) -> None:
        """Release the shard, and remove the server's collection where this engine made it; again does nothing."""
        store, self._store, self._held, self._indexed = self._store, None, None, False
        if store is not None:
            store.close()

    def _opened(self) -> QdrantStore:
        if self._store is None:
            raise EngineUnavailableError(f"the {self.name} engine is closed", fix="open it first")
        return self._store


def _version_of(package: str) -> dict[str, str]:
    try:
        return {package: version(package)}
    except PackageNotFoundError:
        return {package: "not installed"}
