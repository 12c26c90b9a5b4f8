"""Chroma as an engine of dense vectors: what is sent, what came of it, what it answers.

How Chroma is reached is behind :class:`ChromaStore`: :mod:`harness.engines.chroma.embedded` is the engine in the
process, :mod:`harness.engines.chroma.server` a server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import ClassVar

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Progress
from harness.data.types import Float32Array, Float64Array, Int32Array, Similarity
from harness.engines.base import (
    Capabilities,
    Documents,
    EngineInfo,
    External,
    ExternalIndex,
    Filterable,
    LoadedIndex,
    Storage,
)
from harness.engines.checks import require_dense
from harness.engines.chroma.client import PACKAGE, close_http_client
from harness.engines.chroma.external_index import ExternalRecords
from harness.engines.chroma.settings import ChromaSettings
from harness.engines.chroma.space import similarity_of
from harness.engines.chroma.store import ChromaStore, Hits
from harness.engines.interface import Caveats, ExpectedContent, StoredDocuments
from harness.engines.stored_metadata import with_ids
from harness.errors import BackendError, EngineFailureError
from harness.registry.parameters import ParameterValue

__all__ = ["ChromaEngine"]

_ANEW = "Chroma puts them into the graph anew whenever it opens the collection"


class ChromaEngine(Filterable[Float32Array], ExternalIndex[Float32Array]):
    """Dense vectors in Chroma's HNSW graph.

    Scores are 1 - distance for cosine and dot product, and the negative distance for l2. Two builds from the same
    vectors give two graphs, and other answers. Chroma may return fewer than it was asked for; nothing is added. The
    client releases Python's lock while it searches.
    """

    name = "chroma"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense",
        exact=False,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        shares_index=True,
        threads=True,
    )
    search_parameters = frozenset(
        {
            *("ef_search", "num_threads"),  # a search with another ef_search needs no other graph
            *("url", "api_key_env", "api_key_header", "keep", "timeout_s", "retry_s"),
        }
    )

    _store: ChromaStore
    _records: ExternalRecords

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._settings = ChromaSettings.of(parameters)

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

    def info(self) -> EngineInfo:
        """Open the collection of the folder, or make an empty one."""
        return self._use(_store(self.folder, self._settings, exists=self.finished)).info

    def _use(self, store: ChromaStore) -> ChromaStore:
        self.resources.callback(store.close)
        self._store = store
        return store

    def check(self, inputs: Inputs, what: str, dimensions: int | None) -> Float32Array:
        """Return dense vectors; see :func:`require_dense`."""
        return require_dense(inputs, what, cosine=self._settings.similarity == "cosine", dimensions=dimensions)

    def build(self, folder: Path, documents: Documents[Float32Array], progress: Progress) -> None:  # noqa: ARG002
        """Upsert all documents in batches; getting ready is having the graph written, and counting."""
        batch, vectors, metadata = self._store.batch, documents.column, documents.metadata
        if self._settings.server.keep:
            metadata = with_ids(metadata, documents.ids)
        for start in range(0, len(vectors), batch):
            stop = min(start + batch, len(vectors))
            self._store.upsert(vectors, start, stop, metadata)
            progress.advance(stop - start)
        progress.start("flush", None)
        if self._settings.flush:
            self._store.flush()
        self._dimensions = vectors.shape[1]

    _dimensions: int | None = None
    """Of the vectors that were just sent: a collection tells those that it held when it was opened."""

    def load(self, folder: Path) -> LoadedIndex:  # noqa: ARG002 - the collection is open
        """Count the records, and list what is missing of those that were just sent."""
        store, dimensions = self._store, self._dimensions or self._store.dimensions
        documents = store.count()
        missing = np.empty(0, dtype=np.int32)
        if not self.finished:
            missing = _missing(store, documents, len(self.ids))
            store.finish()
        state = {**store.state(), "upsert_batch": store.batch, "dimensions": dimensions or 0}
        return LoadedIndex(documents, state, dimensions, missing)

    def retrieve(self, query: Float32Array, k: int) -> Hits:
        """Ask Chroma, which answers with lists of ids and distances."""
        return self._store.query(query, k)

    def columns(self, answer: Hits) -> tuple[Int32Array, Float64Array]:
        """Make arrays of Chroma's lists, and scores of its distances."""
        similarity = self._settings.similarity
        if similarity is None:
            raise AssertionError("a collection that was attached, and no similarity of it")
        rows = self._records.rows(answer) if self.parameters["external"] else _rows(answer)
        return rows, _SCORES[similarity](np.array(answer.distances))

    def translated(
        self,
        doing: Callable[[], str],
        kind: type[BackendError] = EngineFailureError,  # noqa: ARG002 - the store decides
        fix: str | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[None]:
        """Raise the client's errors as ours."""
        return self._store.translated(doing) if hasattr(self, "_store") else nullcontext()

    @property
    def repeated_calls(self) -> int:
        """Calls that the client made again so far."""
        return self._store.repeated

    def filter(self, wanted: Mapping[str, str]) -> None:
        """Filter by metadata, with Chroma's ``where``."""
        self._store.restrict(wanted)

    def size(self, folder: Path) -> Storage:  # noqa: ARG002 - the store knows
        """Return the allocated bytes of the folder; unknown for a server."""
        return self._store.storage()

    @property
    def source(self) -> Path | None:
        """The user's folder; None for a collection on a server."""
        return self._settings.external.folder if self._settings.external is not None else None

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open a copy of the user's folder, or look at a collection by calls that only read."""
        external = self._settings.external
        if external is None:
            raise AssertionError("an external index that the settings do not name")
        changed: Callable[[], str | None] | None = None
        if external.folder is not None:
            from harness.engines.chroma.embedded import EmbeddedStore

            store = self._use(EmbeddedStore.attach(external, external.folder, folder, self._settings, progress))
        else:
            from harness.engines.chroma.server import ServerStore

            server = ServerStore.attach(external.collection, self._settings)
            store, changed = self._use(server), server.changed
        similarity = similarity_of(store, self._settings)
        self._settings = replace(self._settings, similarity=similarity)
        self._records = ExternalRecords(store, external.id_key, progress)
        ids = self._records.ids
        loaded = LoadedIndex(len(ids), {"similarity": similarity, **store.state()}, store.dimensions)
        return External(store.info, ids, loaded, folder, changed)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector; their dimensions must be the encoder's."""
        return self._records.mismatch(content, progress)

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return some records of the attached collection, with their documents."""
        return self._records.stored_documents(count)

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:  # noqa: ARG002 - Chroma looks at no k
        """The ``ef_search`` that is in effect, by Chroma's own account."""
        told = self._store.configured().get("ef_search")
        return {} if told is None else {"ef_search": told}

    def caveats(self, k: int) -> Caveats:  # noqa: ARG002 - Chroma looks at no k
        """Whether the collection will answer alike when it is opened again: not where a part of its graph is only in
        memory, of which Chroma tells no more than the count of records and ``sync_threshold``.
        """
        store = self._store
        waiting, threshold = store.unwritten(), store.configured().get("sync_threshold")
        if waiting == 0:
            return Caveats()
        told = "which Chroma does not tell" if threshold is None else f"{int(threshold):,} here"
        if waiting is None:
            note = (
                f"whether answers change at the next opening cannot be known: the graph is written each "
                f"sync_threshold records ({told}), Chroma does not tell how many came after, and {_ANEW}"
            )
        else:
            note = (
                f"its {waiting:,} records are not in the graph on disk, which is written each sync_threshold ({told}): "
                f"{_ANEW}, and answers can differ from one opening to the next"
            )
        return Caveats((note,))


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


def _missing(store: ChromaStore, count: int, sent: int) -> Int32Array:
    if count == sent:
        return np.array([], dtype=np.int32)
    held = np.zeros(sent, dtype=bool)
    held[np.fromiter(map(int, store.ids()), dtype=np.int64)] = True
    return np.flatnonzero(~held).astype(np.int32)
