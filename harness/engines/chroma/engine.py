"""Chroma as an engine of dense vectors: what is sent, what came of it, what it answers.

How Chroma is reached is behind :class:`ChromaStore`: :mod:`harness.engines.chroma.embedded` is the engine in the
process, :mod:`harness.engines.chroma.server` a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float64Array, Ids, Int32Array, Similarity
from harness.engines.checks import require_announced_ids, require_dense, require_positive_k
from harness.engines.chroma.client import PACKAGE, close_http_client
from harness.engines.chroma.existing import ExistingRecords
from harness.engines.chroma.settings import FREE_ON_REOPENING, ChromaSettings
from harness.engines.chroma.space import similarity_of
from harness.engines.chroma.store import ChromaStore, Hits
from harness.engines.hits import HitCollector
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
from harness.engines.stored_metadata import require_fields, save_fields
from harness.errors import EngineUnavailableError, LostDocumentsError, RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = ["ChromaEngine"]

_NAME = "chroma"
_ANEW = (
    "Chroma puts them into the graph anew whenever it opens the collection, and answers can differ from one opening to "
    "the next"
)
_UNKNOWN = (
    "whether answers change when the server is started again cannot be known: it puts the records into the graph anew "
    "that came after the last writing"
)


class ChromaEngine:
    """Dense vectors in Chroma's HNSW graph.

    Scores are 1 - distance for cosine and dot product, and the negative distance for l2. Two builds from the same
    vectors give two graphs, and other answers. The client releases Python's lock while it searches.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense",
        exact=False,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        shares_index=True,
        threads=True,
        existing=True,
        filters=True,
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self._parameters = dict(parameters)
        self._settings = ChromaSettings.of(parameters)
        self._store: ChromaStore | None = None
        self._folder = Path()
        self._ids = Ids.of([])
        self._indexed = False
        self._dimensions: int | None = None
        self._held: ExistingRecords | None = None

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """The mode and the version of what answers, found without loading the engine; a server is asked.

        Raises EngineUnavailableError when the server does not answer.
        """
        settings = ChromaSettings.of(parameters)
        if settings.mode == "embedded":
            try:
                return {"mode": settings.mode, PACKAGE: version(PACKAGE)}
            except PackageNotFoundError:
                return {"mode": settings.mode, PACKAGE: "not installed"}
        from harness.engines.chroma.address import address_of
        from harness.engines.chroma.connect import connect
        from harness.engines.chroma.faults import Retrier

        address = address_of(settings.server)
        found = connect(address, settings.server, Retrier(0))
        close_http_client(found.client)
        return {"mode": settings.mode, "url": address.url, "chroma": found.version}

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        """Start on an empty folder, or on one that holds this index; raises EngineUnavailableError, and
        RejectedInputError when the index was built with other parameters or from other documents.
        """
        self._indexed = check_manifest(folder, _NAME, self._parameters, ids, free=FREE_ON_REOPENING) is not None
        self._folder, self._ids = folder, ids
        self._store = _store(folder, self._settings, exists=self._indexed)
        self._dimensions = self._store.dimensions
        if self._indexed and (held := self._store.count()) != len(ids):
            self.close()
            raise LostDocumentsError(
                f"the index in '{folder}' holds {held} of {len(ids)} documents", fix="delete the folder and index again"
            )
        return self._store.info

    @property
    def source(self) -> Path | None:
        """The user's folder; None for a collection on a server."""
        return self._settings.existing.folder if self._settings.existing is not None else None

    def attach(self, folder: Path, progress: Progress) -> Attached:
        """Open a copy of the user's folder, or look at a collection by calls that only read."""
        existing = self._settings.existing
        if existing is None:
            raise RejectedInputError(
                "no existing index is named", fix="give existing=true with collection=, and path= or url="
            )
        if existing.folder is not None:
            from harness.engines.chroma.embedded import EmbeddedStore

            copied = EmbeddedStore.attach(existing, existing.folder, folder, self._settings, progress)
            return self._attached(copied, existing.id_key, progress, None)
        from harness.engines.chroma.server import ServerStore

        found = ServerStore.attach(existing.collection, self._settings)
        return self._attached(found, existing.id_key, progress, found.changed)

    def _attached(
        self, store: ChromaStore, id_key: str, progress: Progress, changed: Callable[[], str | None] | None
    ) -> Attached:
        self._store = store
        similarity = similarity_of(store, self._settings)
        self._settings = replace(self._settings, similarity=similarity)
        held = ExistingRecords(store, id_key, progress)
        self._held, self._ids, self._indexed, self._dimensions = held, held.ids, True, store.dimensions
        return Attached(store.info, held.ids, {"similarity": similarity, **store.state()}, changed)

    def differs(self, content: Content, progress: Progress) -> str | None:
        """Compares every stored vector; their dimensions must be the encoder's."""
        return self._attached_records().differs(content, progress)

    def stored_documents(self, count: int) -> StoredDocuments:
        """Some records of the attached collection, with their documents."""
        return self._attached_records().stored_documents(count)

    def _attached_records(self) -> ExistingRecords:
        self._opened()
        if self._held is None:
            raise EngineUnavailableError("no existing index is attached", fix="call attach first")
        return self._held

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        """Upsert all documents in batches, have the graph written, count, and list what is missing.

        Raises RejectedInputError, EngineUnavailableError, EngineTimeoutError, EngineFailureError.
        """
        store, settings = self._opened(), self._settings
        if self._indexed:
            raise RejectedInputError(f"'{self._folder}' holds an index already", fix="index into a new folder")
        require_announced_ids(documents, self._ids)
        vectors = require_dense(documents, "document", cosine=settings.similarity == "cosine")
        batch = store.batch
        started = clock()
        progress.start("index", len(vectors))
        for start in range(0, len(vectors), batch):
            stop = min(start + batch, len(vectors))
            store.upsert(vectors, start, stop, documents.metadata)
            progress.advance(stop - start)
        sent = clock()
        progress.start("flush", None)
        if settings.flush:
            store.flush()
        missing = _missing(store, len(documents))
        ready = clock()
        save_fields(self._folder, documents.metadata)
        write_manifest(self._folder, _NAME, self._parameters, documents.ids, indexed=len(documents))
        self._indexed, self._dimensions = True, vectors.shape[1]
        state = {**store.state(), "upsert_batch": batch, "dimensions": vectors.shape[1]}
        indexed = len(documents) - len(missing)
        return IndexReport(len(documents), indexed, missing, sent - started, ready - sent, state)

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Filter by metadata, with Chroma's ``where``; raises RejectedInputError for a field that was not indexed."""
        store = self._opened()
        require_fields(self._folder, wanted)
        store.restrict(wanted)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        """The best ``k`` of each query; ``transfer_ns`` is the time from Chroma's lists of ids and distances to arrays.

        Chroma may return fewer than it was asked for; nothing is added. Raises RejectedInputError and
        EngineFailureError.
        """
        store = self._opened()
        if not self._indexed:
            raise EngineUnavailableError("nothing is indexed yet", fix="call index first")
        require_positive_k(k)
        similarity = self._settings.similarity
        if similarity is None:
            raise AssertionError("a collection that was attached, and no similarity of it")
        vectors = require_dense(queries, "query", cosine=similarity == "cosine", dimensions=self._dimensions)
        limit = min(k, max(1, len(self._ids)))
        rows_of = _rows if self._held is None else self._held.rows
        score = _SCORES[similarity]
        collector, repeated = HitCollector(len(queries)), store.repeated
        query = 0
        with store.translated(lambda: f"searching for query '{queries.ids[query]}'"):
            for query in range(len(queries)):
                vector = vectors[query : query + 1]
                started = clock()
                hits = store.query(vector, limit)
                searched = clock()
                rows, scores = rows_of(hits), score(np.array(hits.distances))
                del hits  # freed here: the next query's hits would be made beside them, and they be freed in its time
                collector.add(rows, scores.astype(np.float32), searched - started, clock() - searched)
        return collector.result(repeated_calls=store.repeated - repeated)

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:  # noqa: ARG002 - Chroma looks at no k
        """The ``ef_search`` that is in effect, by Chroma's own account."""
        told = self._opened().configured().get("ef_search")
        return {} if told is None else {"ef_search": told}

    def caveats(self, k: int) -> Caveats:  # noqa: ARG002 - Chroma looks at no k
        """Whether the collection will answer alike when it is opened again: not where a part of its graph is only in
        memory.
        """
        store = self._opened()
        waiting, threshold = store.unwritten(), store.configured().get("sync_threshold")
        if waiting == 0:
            return Caveats()
        told = "which Chroma does not tell" if threshold is None else f"{int(threshold):,} here"
        if waiting is None:
            return Caveats((f"{_UNKNOWN} (sync_threshold, {told}), and a server does not tell how many they are",))
        count = store.count()  # the log may hold a record several times
        of = f"{waiting:,} of its {count:,} records" if waiting < count else f"its {count:,} records"
        return Caveats((f"{of} are not in the graph on disk, which is written each sync_threshold ({told}): {_ANEW}",))

    def storage(self) -> Storage:
        """Allocated bytes of the folder; unknown for a server."""
        return self._opened().storage()

    def close(self) -> None:
        """Release the folder, and remove the server's collection where this engine made it; again does nothing."""
        store, self._store, self._indexed, self._held = self._store, None, False, None
        if store is not None:
            store.close()

    def _opened(self) -> ChromaStore:
        if self._store is None:
            raise EngineUnavailableError("the chroma engine is closed", fix="open it first")
        return self._store


def _similarities(distances: Float64Array) -> Float64Array:
    return 1.0 - distances


def _negated(distances: Float64Array) -> Float64Array:
    return 0.0 - distances  # and not -distances, which makes a distance of 0 the score -0.0


_SCORES: Mapping[Similarity, Callable[[Float64Array], Float64Array]] = {
    "cosine": _similarities,
    "dot": _similarities,
    "l2": _negated,
}
"""How Chroma's distances become scores: its distances are 1 - cosine, 1 - dot product, and the squared distance."""


def _store(folder: Path, settings: ChromaSettings, *, exists: bool) -> ChromaStore:
    """The store of the mode, created in ``folder`` or opened from it."""
    if settings.mode == "embedded":
        from harness.engines.chroma.embedded import EmbeddedStore

        return EmbeddedStore.load(folder, settings) if exists else EmbeddedStore.create(folder, settings)
    from harness.engines.chroma.server import ServerStore

    return ServerStore.load(folder, settings) if exists else ServerStore.create(folder, settings)


def _rows(hits: Hits) -> Int32Array:
    return np.fromiter(map(int, hits.ids), dtype=np.int32, count=len(hits.ids))


def _missing(store: ChromaStore, documents: int) -> Int32Array:
    if store.count() == documents:
        return np.array([], dtype=np.int32)
    held = np.zeros(documents, dtype=bool)
    held[np.fromiter(map(int, store.ids()), dtype=np.int64)] = True
    return np.flatnonzero(~held).astype(np.int32)
