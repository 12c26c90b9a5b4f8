"""Points that were in Qdrant before: their ids, and whether their vectors are those of the collection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from harness.adapters.existing import other_weights, require_same_columns, unique_ids
from harness.adapters.qdrant_points import StoredPoint
from harness.errors import IndexChangedError, RejectedInputError
from harness.protocols import Content, ParameterValue, Progress
from harness.types import Float32Array, Ids, Int32Array, SparseVectors

__all__ = ["ExistingPoints", "HoldingStore", "choose_vector"]


class HoldingStore(Protocol):
    """What is needed of a store that holds the user's points, besides searching it."""

    def points(self, *, key: str | None, vectors: bool) -> Iterator[list[StoredPoint]]:
        """All points page by page: their ids, the payload under ``key``, and their sparse vectors, as asked for."""

    def state(self) -> Mapping[str, ParameterValue]:
        """The engine's account of its index."""


def choose_vector(vectors: Mapping[str, bool], wanted: str, *, idf: bool, where: str) -> str:
    """The name of the sparse vector to search: ``wanted``, or the only one. ``vectors``: name -> has it Qdrant's idf?

    Raises RejectedInputError when there is none of that name or no single one, or when ``idf`` says otherwise.
    """
    known = ", ".join(f"'{name}'" for name in sorted(vectors)) or "none"
    if wanted and wanted not in vectors:
        raise RejectedInputError(f"{where} has no sparse vector '{wanted}'", fix=f"it has: {known}")
    if not wanted and len(vectors) != 1:
        raise RejectedInputError(
            f"{where} has {len(vectors)} sparse vectors: {known}", fix="say which one to search: vector="
        )
    name = wanted or next(iter(vectors))
    if vectors[name] != idf:
        held = "without" if idf else "with"
        raise RejectedInputError(
            f"the sparse vector '{name}' of {where} was made {held} Qdrant's idf", fix=f"say idf={str(not idf).lower()}"
        )
    return name


class ExistingPoints:
    """The points of a store by row, in the order in which the store lists them."""

    def __init__(self, store: HoldingStore, id_key: str, progress: Progress) -> None:
        """Reads all ids; raises RejectedInputError for points without one, or with the same."""
        progress.start("attach", None)
        self._store = store
        points = [point for page in store.points(key=id_key or None, vectors=False) for point in page]
        self._row_of = {point.id: row for row, point in enumerate(points)}
        names = [_name(point.payload, id_key) if id_key else str(point.id) for point in points]
        self.ids: Ids = unique_ids(names, f"text or whole number in the payload under '{id_key}'" if id_key else "id")

    def columns(self, hits: Sequence[Any]) -> tuple[Int32Array, Float32Array]:
        """Rows and scores of hits; raises IndexChangedError for a point that was not there before."""
        try:
            rows = np.fromiter([self._row_of[hit.id] for hit in hits], dtype=np.int32, count=len(hits))
        except KeyError as error:
            raise IndexChangedError(
                f"the point {error} was added while the index was searched", fix="stop whatever writes to it"
            ) from error
        return rows, np.fromiter([hit.score for hit in hits], dtype=np.float32, count=len(hits))

    def differs(self, content: Content, progress: Progress) -> str | None:
        """Compares every stored vector, page by page; see :meth:`harness.protocols.ExistingIndex.differs`."""
        expected = content.documents.sparse
        if expected is None:
            raise RejectedInputError("there are no sparse vectors to compare the index with", fix="encode them")
        place_of = np.full(len(self.ids), -1, dtype=np.int64)
        place_of[content.rows] = np.arange(len(content.rows))
        progress.start("compare", len(self.ids))
        other, filled = [], 0
        for page in self._store.points(key=None, vectors=True):
            filled += sum(len(point.indices) > 0 for point in page)
            places = place_of[[self._row_of[point.id] for point in page]]
            known = np.flatnonzero(places >= 0)
            chosen = places[known].astype(np.int32)
            stored = _stack([page[number] for number in known.tolist()], expected.dimensions)
            ids = Ids.of(content.documents.ids.take(chosen))
            other.append(chosen[require_same_columns(stored, expected.take(chosen), ids)])
            progress.advance(len(page))
        strange: Int32Array = np.concatenate([np.empty(0, dtype=np.int32), *other])
        return other_weights(strange, content.documents.ids) if len(strange) else self._other_idf(filled)

    def _other_idf(self, filled: int) -> str | None:
        state = self._store.state()
        if int(state.get("shards", 1)) > 1:
            return f"each of its {state['shards']} shards has an idf of its own, over documents that are not known"
        if int(state["indexed_vectors"]) != filled:
            return (
                f"its idf counts {state['indexed_vectors']:,} vectors, {filled:,} of which it holds: "
                "deleted points count until they are cleaned up"
            )
        return None


def _name(payload: Mapping[str, Any], key: str) -> str | None:
    value = payload.get(key)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def _stack(points: Sequence[StoredPoint], dimensions: int) -> SparseVectors:
    """Vectors of points with ascending columns; Qdrant keeps them in the order in which they came."""
    indptr = np.zeros(len(points) + 1, dtype=np.int64)
    np.cumsum([len(point.indices) for point in points], out=indptr[1:])
    indices = np.array([index for point in points for index in point.indices], dtype=np.int64)
    values = np.array([value for point in points for value in point.values], dtype=np.float32)
    rows = np.repeat(np.arange(len(points)), np.diff(indptr))
    order = np.lexsort((indices, rows))
    # a column beyond the vocabulary stays one: it differs from any that the encoder gives
    columns = np.minimum(indices[order], np.iinfo(np.int32).max).astype(np.int32)
    return SparseVectors(indptr, columns, values[order], dimensions)
