"""The engine on Chroma.

A collection is written and searched in the process (:mod:`harness.engines.chroma.embedded`) or on a server
(:mod:`harness.engines.chroma.server`); for the engine they differ only in the allowed parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array, Float64Array, Int32Array
from harness.engines.base import (
    Capabilities,
    ClientEngine,
    Documents,
    EngineInfo,
    External,
    ExternalVectorIndex,
    Filterable,
    LoadedIndex,
    Storage,
)
from harness.engines.changeable import Changeable, Changes
from harness.engines.chroma.collection import Collection
from harness.engines.chroma.connection import ADDRESS_RULES, PACKAGE, address_of, open_server
from harness.engines.chroma.embedded import EmbeddedCollection
from harness.engines.chroma.external_index import ExternalRecords, similarity_of
from harness.engines.chroma.parameters import ChromaParameters
from harness.engines.chroma.server import ServerCollection
from harness.engines.chroma.stored_collections import stored_collections
from harness.engines.interface import Caveats, StoredIndex
from harness.engines.remote_server import ServerKind
from harness.registry.optional import versions_of
from harness.registry.parameters import ParameterValue

_PAGE = 5_000
_COLLECTIONS: Mapping[str, type[Collection]] = {"embedded": EmbeddedCollection, "server": ServerCollection}


class ChromaEngine(
    ClientEngine[Float32Array], Filterable[Float32Array], ExternalVectorIndex[Float32Array], Changeable[Float32Array]
):
    """Dense vectors in Chroma's HNSW graph.

    Scores are 1 - distance for cosine and dot product, and the negative distance for l2. Two builds from the same
    vectors give different graphs and answers. Chroma may return fewer hits than requested; nothing is added. The client
    releases Python's lock while it searches.
    """

    name = "chroma"
    capabilities: ClassVar[Capabilities] = Capabilities(
        "dense",
        exact=False,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        shares_index=True,
        threads=True,
        filters_external=True,
    )
    search_parameters = frozenset(
        {
            *("ef_search", "num_threads"),  # another ef_search does not need another graph
            *("url", "api_key_env", "api_key_header", "keep", "timeout_s", "retry_s"),
        }
    )

    collection: Collection
    _external: ExternalRecords
    _dimensions: int | None = None
    """Dimensions of the vectors just sent: a collection reports only its dimensions at opening."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._settings = ChromaParameters.of(parameters)
        self._similarity: str = self._settings.similarity

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """Return the mode and the engine's version, which a server reports; loads no engine.

        Raises EngineUnavailableError if the server does not answer.
        """
        settings = ChromaParameters.of(parameters)
        if settings.mode == "embedded":
            return {"mode": settings.mode, **versions_of(PACKAGE)}
        connection = open_server(parameters)
        connection.close()
        return {"mode": settings.mode, "url": connection.address.url, "chroma": connection.version}

    @classmethod
    def server_kind(cls) -> ServerKind:
        """Return the description of Chroma's servers."""
        return ServerKind(ADDRESS_RULES, open_server)

    def require_address(self) -> None:
        """Raise EngineUnavailableError if a server is to be searched but is not named."""
        if self._settings.mode == "server":
            address_of(self._settings)

    def _new_collection(self) -> Collection:
        self.collection = self.use(_COLLECTIONS[self._settings.mode](self._settings))
        return self.collection

    def info(self) -> EngineInfo:
        """Open the collection of the folder, or make an empty collection."""
        collection = self._new_collection()
        if self.finished:
            collection.load(self.folder)
        else:
            collection.create(self.folder)
        return collection.info

    def build(self, folder: Path, documents: Documents[Float32Array], progress: Progress) -> None:
        """Upsert all documents in batches; getting ready means writing the graph and counting."""
        documents = documents.with_ids() if self._settings.keep else documents
        for start, stop in documents.batches(self.collection.batch, progress):
            records = documents.records(start, stop) if documents.fields else None
            self.collection.upsert(np.arange(start, stop, dtype=np.int32), documents.column[start:stop], records)
        self._dimensions = documents.column.shape[1]
        self._flush(progress)

    def _flush(self, progress: Progress) -> None:
        progress.start("flush", None)
        if self._settings.flush:
            self.collection.flush()

    def change(self, folder: Path, changes: Changes[Float32Array], progress: Progress) -> None:
        """Delete and upsert in batches; getting ready means writing the graph."""
        batch = self.collection.batch
        for start in range(0, len(changes.deleted), batch):
            part = changes.deleted[start : start + batch]
            self.collection.delete(part)
            progress.advance(len(part))
        for start, stop in changes.written.batches(batch, progress):
            self.collection.upsert(changes.rows[start:stop], changes.written.column[start:stop])
        self._flush(progress)

    def load(self, folder: Path) -> LoadedIndex:
        """Count the records, and list the just sent records that are missing."""
        collection = self.collection
        dimensions, documents = self._dimensions or collection.dimensions, collection.count()
        missing = self.absent_rows(documents, lambda: (_rows(page["ids"]) for page in collection.pages(_PAGE)))
        if not self.finished:
            collection.finish()
        state = {**collection.state(), "upsert_batch": collection.batch, "dimensions": dimensions or 0}
        return LoadedIndex(documents, state, dimensions, missing)

    def retrieve(self, query: Float32Array, k: int) -> Mapping[str, Any]:
        """Search; Chroma answers with lists of ids and distances."""
        return self.collection.query(query, k, "distances")

    def columns(self, answer: Mapping[str, Any]) -> tuple[Int32Array, Float64Array]:
        """Convert Chroma's lists to arrays, and its distances to scores."""
        names, distances = answer["ids"][0], np.array(answer["distances"][0], dtype=np.float64)
        rows = self._external.rows(names) if self._settings.external else _rows(names)
        return rows, (0.0 if self._similarity == "l2" else 1.0) - distances

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Filter by metadata, with Chroma's ``where``."""
        self.collection.restrict(conditions, self._external.lists if self._settings.external else ())

    def size(self, folder: Path) -> Storage:
        """Return the allocated bytes of the folder; unknown for a server."""
        return self.collection.storage()

    @classmethod
    def stored_indexes(cls, folder: Path) -> list[StoredIndex]:
        """Return the collections in a folder of Chroma's persistent client."""
        return stored_collections(folder)

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open a copy of the user's folder, or a server's collection with read-only calls."""
        collection = self._new_collection()
        collection.attach(folder, progress)
        self._similarity = similarity_of(collection, self._similarity)
        self._external = ExternalRecords(collection, self._settings.id_key, progress)
        ids = self._external.ids
        loaded = LoadedIndex(len(ids), {"similarity": self._similarity, **collection.state()}, collection.dimensions)
        records = self._external
        return External(
            collection.info, ids, loaded, folder, collection.changed, records, records.values, metadata=records
        )

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Return the ``ef_search`` that is in effect, by Chroma's own account."""
        ef_search = self.collection.configured().get("ef_search")
        return {} if ef_search is None else {"ef_search": ef_search}

    def caveats(self, k: int) -> Caveats:
        """Note whether answers can change at the next opening; they cannot if the harness wrote the whole graph."""
        if self._settings.flush and self._settings.mode == "embedded" and not self._settings.external:
            return Caveats()
        records, threshold = self.collection.count(), self.collection.configured().get("sync_threshold")
        interval = "which Chroma does not report" if threshold is None else f"{int(threshold):,} here"
        anew = "Chroma adds them to the graph again whenever it opens the collection"
        if threshold is not None and records < int(threshold):
            note = (
                f"its {records:,} records are not in the graph on disk, which is written each sync_threshold "
                f"({interval}): {anew}, and answers can differ from one opening to the next"
            )
        else:
            note = (
                f"whether answers change at the next opening cannot be known: the graph is written each sync_threshold "
                f"records ({interval}), Chroma does not report how many came after, and {anew}"
            )
        return Caveats((note,))


def _rows(names: Sequence[str]) -> Int32Array:
    return np.fromiter(map(int, names), dtype=np.int32, count=len(names))
