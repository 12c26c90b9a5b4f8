"""A collection of Chroma, in the process or on a server: writing, reading and searching.

The differences are in :mod:`harness.engines.chroma.embedded` and :mod:`harness.engines.chroma.server`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as AnyCollection
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from harness.data.field_paths import field_paths
from harness.data.filtering import numbers_of_text, values_of_text
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array
from harness.engines.chroma.parameters import ChromaParameters
from harness.engines.interface import EngineInfo, Storage
from harness.registry.parameters import ParameterValue

T = TypeVar("T")

_UNREPORTED = "num_threads, batch_size"
_COUNTED = "the number of records: Chroma does not report it"
"""Chroma has no other index of dense vectors, and puts every record into the graph, on disk or in memory."""


class Collection(ABC):
    """A collection. In the harness's own, ids are row numbers. Errors are translated, except those of :meth:`query`.

    It is opened once, by :meth:`create`, :meth:`load` or :meth:`attach`.
    """

    name: str

    def __init__(self, parameters: ChromaParameters) -> None:
        self.parameters = parameters
        self._client: Any = None
        self._collection: Any = None
        self._condition: Mapping[str, Any] | None = None

    @property
    def repeated(self) -> int:
        """Number of calls repeated so far after a transient error."""
        return 0

    @property
    @abstractmethod
    def info(self) -> EngineInfo:
        """Return the running engine, once the collection is open."""

    @abstractmethod
    def create(self, folder: Path) -> None:
        """Make a new, empty collection for the index in ``folder``."""

    @abstractmethod
    def load(self, folder: Path) -> None:
        """Open the collection of the index in ``folder``, to be searched with the ``ef_search`` of the parameters."""

    @abstractmethod
    def attach(self, folder: Path, progress: Progress) -> None:
        """Open the user's collection that the parameters name, and write nothing to it; ``folder`` is for copies."""

    @abstractmethod
    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """Return the context in which to call :meth:`query`."""

    @abstractmethod
    def storage(self) -> Storage:
        """Return the allocated bytes."""

    @abstractmethod
    def close(self) -> None:
        """Release everything."""

    def flush(self) -> None:  # noqa: B027 - a server writes by its own schedule
        """Write everything to disk, if Chroma offers that."""

    def finish(self) -> None:  # noqa: B027 - a server needs nothing
        """Record facts for a later check that the index is complete."""

    def changed(self) -> str | None:
        """Return the change in a user's collection since :meth:`attach`; None if nothing changed."""
        return None

    def call(self, operation: Callable[[], T]) -> T:
        """Call the client."""
        return operation()

    @property
    def dimensions(self) -> int | None:
        """Dimensions of the vectors in the collection when it was opened; None if it was empty."""
        dimension = self._collection.get_model().dimension
        return None if dimension is None else int(dimension)

    @property
    def batch(self) -> int:
        """Documents per upsert: ``upsert_batch``, or fewer if the client accepts no more."""
        return max(1, min(self.parameters.upsert_batch, self._largest_batch()))

    def _largest_batch(self) -> int:
        with self.translated(lambda: "asking how much it takes at once"):
            return int(self.call(self._client.get_max_batch_size))

    def upsert(
        self, rows: Int32Array, vectors: Float32Array, records: Sequence[Mapping[str, str]] | None = None
    ) -> None:
        """Store vectors under the numbers ``rows``. ``add`` would silently skip existing ids."""
        ids, embeddings = [str(row) for row in rows.tolist()], np.asarray(vectors)
        # Chroma accepts None for a record without metadata, and refuses an empty dictionary
        metadatas = [record or None for record in records] if records else None
        with self.translated(lambda: f"storing documents {ids[0]} to {ids[-1]}"):
            self.call(lambda: self._collection.upsert(ids=ids, embeddings=embeddings, metadatas=metadatas))

    def delete(self, rows: Int32Array) -> None:
        """Delete the records of these numbers."""
        ids = [str(row) for row in rows.tolist()]
        with self.translated(lambda: f"deleting documents {ids[0]} to {ids[-1]}"):
            self.call(lambda: self._collection.delete(ids=ids))

    def count(self) -> int:
        """Return the number of records."""
        with self.translated(lambda: "counting the records"):
            return int(self.call(self._collection.count))

    def get(self, doing: str = "reading some records", **options: Any) -> Mapping[str, Any]:
        """Return records, by the parameters of Chroma's own ``get``."""
        with self.translated(lambda: doing):
            answer: Mapping[str, Any] = self.call(lambda: self._collection.get(**options))
        return answer

    def pages(self, size: int, *include: str) -> Iterator[Mapping[str, Any]]:
        """Yield all records, ``size`` at a time, with their ids and the fields of ``include``."""
        start = 0
        while (page := self.get("listing the records", limit=size, offset=start, include=list(include)))["ids"]:
            yield page
            start += len(page["ids"])

    def restrict(self, fields: Mapping[str, str], lists: AnyCollection[str] = ()) -> None:
        """Answer queries with records whose metadata have these values; without values, with all records.

        ``lists`` are the fields in which records have lists.

        Chroma compares values with their types. The harness stores text; a collection of the user may hold numbers and
        booleans, which match if they have this text, and lists, which match if an element does.
        """
        conditions = [
            self._condition_on_external(field, text, lists) if self.parameters.external else {field: {"$eq": text}}
            for field, text in fields.items()
        ]
        self._condition = {"$and": conditions} if len(conditions) > 1 else next(iter(conditions), None)

    @staticmethod
    def _condition_on_external(field: str, text: str, lists: AnyCollection[str]) -> Mapping[str, Any]:
        """Make the condition that a field, with or without the name of its container, has a value with this text."""
        clauses: list[Mapping[str, Any]] = []
        for name in field_paths(field):
            clauses += [{name: {"$eq": value}} for value in values_of_text(text)]
            if field in lists:  # Chroma before 1.4 has neither lists nor this operator
                elements = {(type(value), value): value for value in (*values_of_text(text), *numbers_of_text(text))}
                clauses += [{name: {"$contains": value}} for value in elements.values()]
        return {"$or": clauses} if len(clauses) > 1 else clauses[0]

    def query(
        self, vector: Float32Array, k: int, *include: str, only: Sequence[str] | None = None
    ) -> Mapping[str, Any]:
        """Return Chroma's answer to one query vector, float32 (1, d): ``k`` ids, and the fields of ``include``.

        ``only`` are the ids to search among, None for all.
        """
        options: dict[str, Any] = {"n_results": k, "where": self._condition, "include": list(include), "ids": only}
        answer: Mapping[str, Any] = self.call(lambda: self._collection.query(query_embeddings=vector, **options))
        return answer

    def state(self) -> Mapping[str, ParameterValue]:
        """Return the graph's parameters, reported by Chroma or not, and the number of vectors."""
        settings = {name: value for name, value in self.configured().items() if value is not None}
        graph: dict[str, ParameterValue] = {"vectors_in_graph": self.count(), "vectors_in_graph_from": _COUNTED}
        return {**settings, "not_told": _UNREPORTED, "max_batch_size": self._largest_batch(), **graph}

    def configured(self) -> Mapping[str, Any]:
        """Return Chroma's own account of the graph's parameters; empty without an HNSW graph."""
        return dict(self._collection.configuration_json.get("hnsw") or {})
