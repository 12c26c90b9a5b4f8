"""A collection or shard that somebody else made: which vectors it has, its ids, and whether it holds what is expected.

Its points are read page by page, with whatever client; nothing here writes.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array, Ids, Int32Array, Similarity, SparseVectors
from harness.engines.external_index import (
    DenseComparison,
    as_id,
    other_weights,
    places_of,
    require_same_columns,
    rows_of,
    sparse_of,
    spread_rows,
    unique_ids,
)
from harness.engines.index_folder import ID_FIELD
from harness.engines.interface import ExpectedContent, StoredDocuments
from harness.engines.qdrant.collection import Collection
from harness.engines.qdrant.parameters import (
    DENSE,
    DISTANCES,
    TERMS,
    ExternalSettings,
    QdrantSettings,
    WantedVector,
)
from harness.errors import RejectedInputError
from harness.exact.qdrant_model import qdrant_idf

_PAGE, _PAGE_OF_VECTORS = 10_000, 1_000
"""Points in one page when all are listed, without and with their vectors."""
_OF_TEXTS = ("page_content", "document", "text", "content")
"""Where texts are looked for: keys of LangChain, of Qdrant's own client, of many, and of Haystack."""
_STEP = re.compile(r'"([^"]+)"|([^."]+)')
_WORD = re.compile(r"[\w-]+")
_IDF_STEPS = 2
"""Float32 steps by which a score may differ from the one that was computed."""


@dataclass(frozen=True, slots=True)
class DenseSchema:
    """A dense vector: Qdrant's name of its distance, and what it keeps; with ``several`` a point has a list of them."""

    distance: str
    dimensions: int
    datatype: str
    several: bool
    m: int
    full_scan_threshold_kb: int


class VectorSchemas(NamedTuple):
    """The vectors of an index by name: sparse ones with whether they have Qdrant's idf. An unnamed one is called ""."""

    sparse: Mapping[str, bool]
    dense: Mapping[str, DenseSchema]


class SearchedVectors(NamedTuple):
    """The names of the vectors to search by what they are to the harness, and the settings that they were made with."""

    names: Mapping[str, str]
    dimensions: int | None
    settings: QdrantSettings


class StoredPoint(NamedTuple):
    """A point as Qdrant gives it back: no payload or vectors where none were asked for, or none are there."""

    id: Hashable
    payload: Mapping[str, Any]
    indices: Sequence[int]
    values: Sequence[float]
    dense: Sequence[float] | None

    @classmethod
    def of(cls, record: Any, names: Mapping[str, str]) -> StoredPoint:  # noqa: ANN401 - the clients' records
        """Read a client's record; ``names`` are what its vectors are called there, by :data:`TERMS` and :data:`DENSE`.

        A bare list is a vector without a name.
        """
        vectors = record.vector or {}
        vectors = {"": vectors} if isinstance(vectors, list) else vectors
        sparse = vectors.get(names[TERMS]) if TERMS in names else None
        dense = vectors.get(names[DENSE]) if DENSE in names else None
        indices, values = ((), ()) if sparse is None else (sparse.indices, sparse.values)
        return cls(record.id, record.payload or {}, indices, values, dense)


def pages(collection: Collection, *, key: str | None = None, vectors: bool = False) -> Iterator[list[StoredPoint]]:
    """Return all points page by page: their ids, the payload under ``key``, and the vectors searched, as asked for."""
    offset: Any = None
    while True:
        records, offset = collection.scroll(offset, _PAGE_OF_VECTORS if vectors else _PAGE, key, vectors=vectors)
        yield [StoredPoint.of(record, collection.names) for record in records]
        if offset is None:
            return


def choose_vectors(schemas: VectorSchemas, settings: QdrantSettings, where: str) -> SearchedVectors:
    """Choose the vectors that ``settings`` ask for; ``where`` is the index in messages.

    Raises:
        RejectedInputError: There is none of that name or no single one, it is not made as the settings say (idf,
            similarity), or Qdrant compares it in a way that the harness does not know.
    """
    if settings.external is None:
        raise RejectedInputError("no external index is named", fix="give external=true and path= or collection=")
    wanted, names, dimensions = settings.external.vectors, dict[str, str](), None
    if settings.sparse is not None:
        names[TERMS] = name = _name_of(schemas.sparse, wanted[TERMS], "sparse", where)
        idf = schemas.sparse[name]
        if idf != settings.sparse.idf:
            raise RejectedInputError(
                f"the sparse vector '{name}' of {where} was made {'with' if idf else 'without'} Qdrant's idf",
                fix=f"say idf={str(idf).lower()}",
            )
    if settings.dense is not None:
        names[DENSE] = name = _name_of(schemas.dense, wanted[DENSE], "dense", where)
        schema = schemas.dense[name]
        dense = replace(
            settings.dense,
            similarity=_similarity_of(name, schema, settings.dense.similarity, where),
            datatype=schema.datatype,
            m=schema.m,
            full_scan_threshold_kb=schema.full_scan_threshold_kb,
        )
        dimensions, settings = schema.dimensions, replace(settings, dense=dense)
    return SearchedVectors(names, dimensions, settings)


def _name_of(vectors: Mapping[str, object], wanted: WantedVector, kind: str, where: str) -> str:
    known = ", ".join(f"'{name}'" for name in sorted(vectors)) or "none"
    if wanted.name and wanted.name not in vectors:
        raise RejectedInputError(f"{where} has no {kind} vector '{wanted.name}'", fix=f"it has: {known}")
    if not wanted.name and not vectors:
        raise RejectedInputError(f"{where} has no {kind} vectors", fix="take a backend that searches what it has")
    if not wanted.name and len(vectors) != 1:
        raise RejectedInputError(
            f"{where} has {len(vectors)} {kind} vectors: {known}",
            fix=f"say which one to search: {wanted.parameter}=",
        )
    return wanted.name or next(iter(vectors))


def _similarity_of(name: str, schema: DenseSchema, wanted: str, where: str) -> Similarity:
    """Return the similarity of the vector; ``wanted`` is "" where none was asked for."""
    if schema.several:
        raise RejectedInputError(
            f"a point of {where} has several vectors under '{name}' (a multivector)",
            fix="name a vector of which a point has one",
        )
    similarity = next((known for known, distance in DISTANCES.items() if distance == schema.distance), None)
    if similarity is None:
        raise RejectedInputError(
            f"the dense vector '{name}' of {where} has the distance {schema.distance}, which the harness does not know",
            fix=f"it knows {', '.join(DISTANCES.values())}",
        )
    if wanted not in ("", similarity):
        raise RejectedInputError(
            f"the dense vector '{name}' of {where} has the distance {schema.distance}, which is not "
            f"similarity={wanted}",
            fix=f"say similarity={similarity}, or leave it out",
        )
    return similarity


class ExternalPoints:
    """The points of a collection by row, in the order in which Qdrant lists them."""

    def __init__(self, collection: Collection, external: ExternalSettings, progress: Progress) -> None:
        """Read all ids; raises RejectedInputError for points without one, or with the same."""
        progress.start("attach", None)
        self._collection, self._text_key = collection, external.text_key
        path = _path(external.id_key or ID_FIELD)
        self._row_of: dict[Hashable, int] = {}
        names: list[str | None] = []
        for page in pages(collection, key=_selector(path) or None):
            self._row_of.update((point.id, row) for row, point in enumerate(page, len(names)))
            names += [as_id(_value(point.payload, path)) for point in page]
        key = external.id_key or (ID_FIELD if any(name is not None for name in names) else "")
        if not key:
            names = [str(point) for point in self._row_of]
        self.ids = unique_ids(names, f"text or whole number in the payload under '{key}'" if key else "id")

    def columns(self, hits: Sequence[Any]) -> tuple[Int32Array, Float32Array]:
        """Return rows and scores of hits; raises IndexChangedError for a point that was not there before."""
        rows = rows_of(self._row_of, [hit.id for hit in hits], "point")
        return rows, np.fromiter([hit.score for hit in hits], dtype=np.float32, count=len(hits))

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return points from all over the index, those that have the vector."""
        ids = list(self._row_of)
        dense = self._collection.settings.dense is not None
        records = self._collection.read([ids[row] for row in spread_rows(len(ids), count).tolist()])
        points = [StoredPoint.of(record, self._collection.names) for record in records]
        points = [point for point in points if point.dense is not None or not dense]
        rows = np.array([self._row_of[point.id] for point in points], dtype=np.int32)
        key = self._text_key or next(
            (key for key in _OF_TEXTS if any(_text(point.payload, (key,)) for point in points)), ""
        )
        texts = tuple(_text(point.payload, _path(key)) if key else None for point in points)
        place = f"the payload's '{key}'" if key else ""
        if dense:
            return StoredDocuments(rows, texts, dense=_dense_of(points, rows)[0], place=place)
        return StoredDocuments(rows, texts, sparse=_sparse_of(points), place=place)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector, page by page, and the idf of the queries' terms.

        Returns:
            Why results cannot be held against a reference made of ``content``; None where they can.

        Raises:
            RejectedInputError: Sparse vectors have other columns than the encoder gives.
        """
        settings, ids = self._collection.settings, content.documents.ids
        sparse, dense = (_require_sparse(content)[0] if settings.sparse is not None else None), None
        if settings.dense is not None:
            # Qdrant divides by the length for cosine, but for whole numbers
            scaled = settings.dense.similarity == "cosine" and settings.dense.datatype != "uint8"
            half = settings.dense.datatype == "float16"
            dense = DenseComparison(content, "unit" if scaled else "bits", half=half)
        strange = [np.empty(0, dtype=np.int32)]
        place_of = places_of(content, len(self.ids))
        progress.start("compare", len(self.ids))
        for page in pages(self._collection, vectors=True):
            places = place_of[[self._row_of[point.id] for point in page]]
            known = np.flatnonzero(places >= 0)
            points = [page[number] for number in known.tolist()]
            if sparse is not None:
                stored, expected = _sparse_of(points, sparse.dimensions), sparse.take(places[known])
                strange.append(places[known][require_same_columns(stored, expected, Ids.of(ids.take(places[known])))])
            if dense is not None and any(point.dense is not None for point in points):
                dense.add(*_dense_of(points, places[known]))
            progress.advance(len(page))
        others = np.concatenate(strange)
        reasons = [other_weights(others, ids)] if len(others) else []
        if dense is not None and (reason := dense.reason()) is not None:
            reasons.append(reason)
        if len(content.rows) != len(self.ids):
            reasons.append("it holds other documents")
        if not reasons and settings.sparse is not None and settings.sparse.idf:
            return self._other_idf(content, place_of, progress)
        return "; ".join(reasons) or None

    def _other_idf(self, content: ExpectedContent, place_of: Int32Array, progress: Progress) -> str | None:
        """Say whether Qdrant's idf is another than that of its documents, asking for each term that the queries have.

        Deleted points count until they are cleaned up, and what is counted cannot be listed; the score of one document
        for one term tells. All points must be known, with the encoder's weights.
        """
        shards = int(self._collection.state().get("shards", 1))
        if shards > 1:
            return f"each of its {shards} shards has an idf of its own, over documents that are not known"
        documents, queries = _require_sparse(content)
        terms, containing = np.unique(documents.indices, return_counts=True)
        searched = np.flatnonzero(np.isin(terms, queries.indices))
        idf = qdrant_idf(len(documents.nonempty_rows), containing)
        progress.start("compare idf", len(searched))
        for place in searched.tolist():
            term = int(terms[place])
            with self._collection.translated(lambda: f"searching for column {term}"):  # noqa: B023 - called at once
                hits = self._collection.query(self._collection.nearest({TERMS: ([term], [1.0])}, 1))
            rows, scores = self.columns(hits)
            expected = idf[place] * _weight(documents, int(place_of[rows[0]]), term) if len(rows) else np.float32("nan")
            if not abs(scores[:1].sum() - expected) <= _IDF_STEPS * np.spacing(np.abs(expected)):
                best = f"scores {scores[0]:.6g} for it, not {expected:.6g}" if len(scores) else "is not found by it"
                return (
                    f"its idf is not that of the documents it holds: {int(containing[place]):,} have column {term}, "
                    f"and the best {best}; deleted points count until they are cleaned up"
                )
            progress.advance(1)
        return None


def _require_sparse(content: ExpectedContent) -> tuple[SparseVectors, SparseVectors]:
    documents, queries = content.documents.sparse, content.queries.sparse
    if documents is None or queries is None:
        raise RejectedInputError("there are no sparse vectors to compare the index with", fix="encode them")
    return documents, queries


def _dense_of(points: Sequence[StoredPoint], places: Int32Array) -> tuple[Float32Array, Int32Array]:
    """Return the dense vectors (n, d) of those points that have one, and their ``places``."""
    filled = np.array([point.dense is not None for point in points], dtype=np.bool_)
    return np.array([point.dense for point in points if point.dense is not None], dtype=np.float32), places[filled]


def _weight(documents: SparseVectors, place: int, column: int) -> np.float32:
    indices, values = documents.row(place)
    return np.float32(values[np.searchsorted(indices, column)])


def _sparse_of(points: Sequence[StoredPoint], dimensions: int | None = None) -> SparseVectors:
    return sparse_of([point.indices for point in points], [point.values for point in points], dimensions)


def _path(key: str) -> tuple[str, ...]:
    """Split a key: a dot leads into an object, quotation marks hold a key with dots itself, as in Qdrant's filters."""
    return tuple(quoted or plain for quoted, plain in _STEP.findall(key))


def _selector(path: Sequence[str]) -> str:
    """Spell a path for Qdrant, which wants quotation marks around all that are no words too."""
    return ".".join(step if _WORD.fullmatch(step) else f'"{step}"' for step in path)


def _text(payload: Mapping[str, Any], path: Sequence[str]) -> str | None:
    value = _value(payload, path)
    return value if isinstance(value, str) else None


def _value(payload: Mapping[str, Any], path: Sequence[str]) -> object:
    value: object = payload
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
