"""How documents become points, the same for every way to reach Qdrant: numbered by row, one vector for each column."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

from harness.data.inputs import Inputs
from harness.data.types import SparseVectors
from harness.engines.stored_metadata import records_of

__all__ = [
    "DENSE",
    "SCROLL",
    "SCROLL_VECTORS",
    "TERMS",
    "StoredPoint",
    "Vector",
    "Vectors",
    "path_of",
    "payloads_of",
    "points_of",
    "query_of",
]

TERMS = "terms"
"""The name of the sparse vector in a collection."""
DENSE = "dense"
"""The name of the dense vector in a collection."""
SCROLL = 10_000
"""Points in one page when all are listed."""
SCROLL_VECTORS = 1_000
"""Points in one page when their vectors come too."""

Vector: TypeAlias = list[float] | tuple[list[int], list[float]]
"""A dense vector, or the indices and values of a sparse one, as Python's own numbers."""
Vectors: TypeAlias = Mapping[str, Vector]
"""The vectors of one point or one query by name: :data:`TERMS`, :data:`DENSE`."""


class StoredPoint(NamedTuple):
    """A point as Qdrant gives it back: no payload or vectors where none were asked for, or none are there."""

    id: Hashable
    payload: Mapping[str, Any]
    indices: Sequence[int]
    values: Sequence[float]
    dense: Sequence[float] | None

    @classmethod
    def of(cls, record: Any, names: Mapping[str, str]) -> StoredPoint:  # noqa: ANN401 - the clients' records
        """From a client's record; ``names`` are what its vectors are called there, by :data:`TERMS` and :data:`DENSE`.

        A bare list is a vector without a name.
        """
        held = record.vector or {}
        held = {"": held} if isinstance(held, list) else held
        sparse = held.get(names[TERMS]) if TERMS in names else None
        dense = held.get(names[DENSE]) if DENSE in names else None
        indices, values = ((), ()) if sparse is None else (sparse.indices, sparse.values)
        return cls(record.id, record.payload or {}, indices, values, dense)


def points_of(documents: Inputs, start: int, stop: int) -> Iterator[tuple[int, Vectors]]:
    """Number and vectors of the rows ``start`` to ``stop``: of each column that ``documents`` hold, empty ones too.

    One conversion to lists a batch: slicing lists is several times faster than slicing arrays row by row.
    """
    columns: dict[str, Iterator[Vector]] = {}
    if documents.sparse is not None:
        columns[TERMS] = _sparse_rows(documents.sparse, start, stop)
    if documents.dense is not None:
        columns[DENSE] = iter(documents.dense[start:stop].tolist())
    for row, vectors in enumerate(zip(*columns.values(), strict=True), start):
        yield row, dict(zip(columns, vectors, strict=True))


def payloads_of(documents: Inputs, start: int, stop: int) -> list[dict[str, str] | None]:
    """The metadata of the rows ``start`` to ``stop`` as payloads; None for a document without any."""
    if documents.metadata is None:
        return [None] * (stop - start)
    return [record or None for record in records_of(documents.metadata, start, stop)]


def path_of(field: str) -> str:
    """The name of a payload's field as a path: in quotes, so that a dot or a bracket in it is not taken apart."""
    return f'"{field}"'


def query_of(queries: Inputs, query: int) -> Vectors:
    """The vectors of one query, without a sparse one that is empty."""
    vectors: dict[str, Vector] = {}
    if queries.sparse is not None:
        indices, values = queries.sparse.row(query)
        if len(indices):
            vectors[TERMS] = indices.tolist(), values.tolist()
    if queries.dense is not None:
        vectors[DENSE] = queries.dense[query].tolist()
    return vectors


def _sparse_rows(vectors: SparseVectors, start: int, stop: int) -> Iterator[Vector]:
    low, high = int(vectors.indptr[start]), int(vectors.indptr[stop])
    bounds = (vectors.indptr[start : stop + 1] - low).tolist()
    indices, values = vectors.indices[low:high].tolist(), vectors.values[low:high].tolist()
    for a, b in pairwise(bounds):
        yield indices[a:b], values[a:b]
