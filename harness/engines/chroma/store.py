"""One collection of Chroma, wherever it is: what is written to it, read from it and asked of it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from harness.data.types import Float32Array
from harness.engines.chroma.settings import ChromaSettings
from harness.engines.interface import EngineInfo, Storage
from harness.engines.stored_metadata import records_of
from harness.registry.parameters import ParameterValue

__all__ = ["ChromaStore", "Hits", "Nearest", "Record", "StoredVectors"]

T = TypeVar("T")

_PAGE = 5_000
_PAGE_OF_VECTORS = 1_000
_NOT_TOLD = "num_threads, batch_size"
_COUNTED = "the count of records: Chroma does not tell"
"""It has no other index of dense vectors, and puts every record into the graph, on disk or in memory."""


class Hits(NamedTuple):
    """Chroma's answer to one query, nearest first."""

    ids: list[str]
    distances: list[float]


class Record(NamedTuple):
    """A record's vector, float32 (d,), and its document, None for a record without one."""

    vector: Float32Array
    document: str | None


class StoredVectors(NamedTuple):
    """Some of a collection's vectors, float32 (n, d), as Chroma gives them back, and their ids."""

    ids: list[str]
    vectors: Float32Array


class Nearest(NamedTuple):
    """The nearest record of a query: its vector as Chroma gives it back, float32 (d,), and Chroma's distance."""

    vector: Float32Array
    distance: float


class ChromaStore(ABC):
    """Ids are row numbers in a collection of the harness's own. Errors come translated, but for :meth:`query`."""

    def __init__(self, client: Any, collection: Any, settings: ChromaSettings, info: EngineInfo) -> None:  # noqa: ANN401
        self.info = info
        self._client, self._collection, self._settings = client, collection, settings
        self._where: Mapping[str, Any] | None = None

    @property
    def repeated(self) -> int:
        """Calls that were made again so far, because the first answer was an error that may pass."""
        return 0

    @abstractmethod
    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """The context in which to call :meth:`query`."""

    @abstractmethod
    def storage(self) -> Storage:
        """Allocated bytes."""

    @abstractmethod
    def flush(self) -> None:
        """Bring everything to disk, where that can be asked for."""

    def finish(self) -> None:  # noqa: B027 - a server needs nothing
        """Note what tells later whether the index is still whole."""

    def unwritten(self) -> int | None:
        """Return how many records are in the log and not in the files of the graph, None where Chroma does not tell.

        Of fewer records than ``sync_threshold`` none were written yet; of more, the count does not tell how many.
        """
        count, threshold = self.count(), self.configured().get("sync_threshold")
        return count if threshold is not None and count < int(threshold) else None

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""

    def call(self, operation: Callable[[], T]) -> T:
        """One call of the client."""
        return operation()

    @property
    def name(self) -> str:
        """The collection's name."""
        return str(self._collection.name)

    @property
    def dimensions(self) -> int | None:
        """Dimensions of the vectors that the collection held when it was opened; None when it held none."""
        known = self._collection.get_model().dimension
        return None if known is None else int(known)

    @property
    def batch(self) -> int:
        """Documents in one upsert: as many as asked for, at most what the client takes."""
        return max(1, min(self._settings.upsert_batch, self._largest_batch()))

    def _largest_batch(self) -> int:
        with self.translated(lambda: "asking how much it takes at once"):
            return int(self.call(self._client.get_max_batch_size))

    def upsert(self, vectors: Float32Array, start: int, stop: int, metadata: pa.Table | None = None) -> None:
        """Store rows ``start`` to ``stop`` under these numbers. ``add`` would leave out ids that it knows, silently."""
        ids, rows = [str(row) for row in range(start, stop)], np.asarray(vectors[start:stop])
        # Chroma takes None for a record without metadata, and refuses an empty dictionary
        records = None if metadata is None else [one or None for one in records_of(metadata, start, stop)]
        with self.translated(lambda: f"storing documents {start} to {stop - 1}"):
            self.call(lambda: self._collection.upsert(ids=ids, embeddings=rows, metadatas=records))

    def count(self) -> int:
        """Number of records."""
        with self.translated(lambda: "counting the records"):
            return int(self.call(self._collection.count))

    def ids(self) -> Iterator[str]:
        """Ids of all records, page by page."""
        for page in self._pages(_PAGE, []):
            yield from page["ids"]

    def names(self, key: str) -> Iterator[tuple[str, str | None]]:
        """Each record's id, and what its metadata hold under ``key`` as a name: text or a whole number."""
        for page in self._pages(_PAGE, ["metadatas"]):
            for one, metadata in zip(page["ids"], page["metadatas"], strict=True):
                yield one, _name((metadata or {}).get(key))

    def stored(self) -> Iterator[StoredVectors]:
        """All vectors, page by page."""
        for page in self._pages(_PAGE_OF_VECTORS, ["embeddings"]):
            yield StoredVectors(page["ids"], np.asarray(page["embeddings"], dtype=np.float32))

    def records(self, ids: list[str]) -> Mapping[str, Record]:
        """The records of these ids."""
        with self.translated(lambda: "reading some records"):
            found = self.call(lambda: self._collection.get(ids=ids, include=["documents", "embeddings"]))
        vectors = np.asarray(found["embeddings"], dtype=np.float32)
        documents = found["documents"] or [None] * len(vectors)
        return {one: Record(*record) for one, *record in zip(found["ids"], vectors, documents, strict=True)}

    def _pages(self, size: int, include: list[str]) -> Iterator[Mapping[str, Any]]:
        start = 0
        while True:
            with self.translated(lambda: "listing the records"):
                page = self.call(lambda: self._collection.get(limit=size, offset=start, include=include))  # noqa: B023
            if not page["ids"]:
                return
            yield page
            start += len(page["ids"])

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Answer queries with records whose metadata have these values; with all records for none."""
        conditions = [{field: {"$eq": value}} for field, value in wanted.items()]
        self._where = {"$and": conditions} if len(conditions) > 1 else next(iter(conditions), None)

    def query(self, vector: Float32Array, k: int) -> Hits:
        """The nearest ``k`` of one query vector, float32 (1, d)."""
        found = self.call(
            lambda: self._collection.query(
                query_embeddings=vector, n_results=k, where=self._where, include=["distances"]
            )
        )
        return Hits(found["ids"][0], found["distances"][0])

    def sample(self, count: int) -> Float32Array:
        """Vectors of at most ``count`` records, float32 (n, d)."""
        with self.translated(lambda: "reading some records"):
            page = self.call(lambda: self._collection.get(limit=count, include=["embeddings"]))
        return np.asarray(page["embeddings"], dtype=np.float32)

    def nearest(self, vector: Float32Array) -> Nearest:
        """The nearest record of one query vector, float32 (d,); there is at least one record."""
        asked = vector[None]
        with self.translated(lambda: "asking for the nearest record"):
            found = self.call(
                lambda: self._collection.query(query_embeddings=asked, n_results=1, include=["distances", "embeddings"])
            )
        return Nearest(np.asarray(found["embeddings"][0][0], dtype=np.float32), float(found["distances"][0][0]))

    def state(self) -> Mapping[str, ParameterValue]:
        """What Chroma says of the graph's parameters, which of them it does not say again, and what is in the graph."""
        told = {name: value for name, value in self.configured().items() if value is not None}
        graph: dict[str, ParameterValue] = {"vectors_in_graph": self.count(), "vectors_in_graph_from": _COUNTED}
        return {**told, "not_told": _NOT_TOLD, "max_batch_size": self._largest_batch(), **graph}

    def configured(self) -> Mapping[str, Any]:
        """Chroma's own account of the graph's parameters; empty where there is no HNSW graph."""
        return dict(self._collection.configuration_json.get("hnsw") or {})


def _name(value: object) -> str | None:
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None
