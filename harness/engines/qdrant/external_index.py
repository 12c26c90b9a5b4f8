"""A user's collection or shard: its vectors, its ids, and the comparison with the expected content.

Its points are read page by page, with either client; nothing here writes.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from harness.data.field_paths import CONTAINERS, field_paths, nested_paths
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, Similarity, SparseVectors
from harness.engines.external_index import (
    DocumentKeys,
    DocumentSample,
    ExternalRows,
    as_id,
    compare_sparse,
    positions_of,
    require_similarity,
    sparse_of,
)
from harness.engines.external_metadata import ExternalMetadata
from harness.engines.index_folder import ID_FIELD
from harness.engines.interface import ExpectedContent
from harness.engines.qdrant.collection import Collection
from harness.engines.qdrant.parameters import DENSE, DISTANCES, TERMS, ExternalSettings, QdrantSettings
from harness.errors import RejectedInputError
from harness.exact.qdrant_model import qdrant_idf

_PAGE, _PAGE_OF_VECTORS = 10_000, 1_000
"""Points per page when all are listed, without and with their vectors."""
_OF_TEXTS = {name: (name,) for name in ("page_content", "document", "text", "content")}
"""Keys searched for texts: LangChain's, the keys of Qdrant's own client, a common key, and Haystack's."""
_STEP = re.compile(r'"([^"]+)"|([^."]+)')
_WORD = re.compile(r"[\w-]+")
_IDF_STEPS = 2
"""Float32 steps by which a score may differ from the computed score."""


@dataclass(frozen=True, slots=True)
class DenseSchema:
    """A dense vector: Qdrant's name of its distance, and its storage; with ``several`` a point has several vectors."""

    distance: str
    dimensions: int
    datatype: str
    several: bool
    m: int
    full_scan_threshold_kb: int


class VectorSchemas(NamedTuple):
    """The vectors of an index by name; sparse vectors with whether they have Qdrant's idf. An unnamed vector is ""."""

    sparse: Mapping[str, bool]
    dense: Mapping[str, DenseSchema]


class SearchedVectors(NamedTuple):
    """The names of the vectors to search by their role in the harness, and the settings with which they were made."""

    names: Mapping[str, str]
    dimensions: int | None
    settings: QdrantSettings


class StoredPoint(NamedTuple):
    """A point as returned by Qdrant: without payload or vectors if they were not requested or do not exist."""

    id: Hashable
    payload: Mapping[str, Any]
    indices: Sequence[int]
    values: Sequence[float]
    dense: Sequence[float] | None

    @classmethod
    def of(cls, record: Any, names: Mapping[str, str]) -> StoredPoint:
        """Read a client's record; ``names`` are the names of its vectors, by :data:`TERMS` and :data:`DENSE`.

        A bare list is a vector without a name.
        """
        vectors = record.vector or {}
        vectors = {"": vectors} if isinstance(vectors, list) else vectors
        sparse = vectors.get(names[TERMS]) if TERMS in names else None
        dense = vectors.get(names[DENSE]) if DENSE in names else None
        indices, values = ((), ()) if sparse is None else (sparse.indices, sparse.values)
        return cls(record.id, record.payload or {}, indices, values, dense)


def pages(
    collection: Collection, *, keys: Sequence[str] = (), vector: str | None = None
) -> Iterator[list[StoredPoint]]:
    """Yield all points page by page: their ids, the payload under ``keys``, and the ``vector`` TERMS or DENSE."""
    offset: Any = None
    names = {} if vector is None else {vector: collection.names[vector]}
    while True:
        limit = _PAGE_OF_VECTORS if vector else _PAGE
        records, offset = collection.scroll(offset, limit, keys, list(names.values()))
        yield [StoredPoint.of(record, names) for record in records]
        if offset is None:
            return


def choose_vectors(schemas: VectorSchemas, settings: QdrantSettings, source: str) -> SearchedVectors:
    """Choose the vectors that ``settings`` request; ``source`` is the index in messages.

    Raises:
        RejectedInputError: There is no vector of that name or more than one, it was made with other settings (idf,
            similarity), or Qdrant compares it in a way unknown to the harness.
    """
    external, names, dimensions = settings.external, dict[str, str](), None
    if external is None:
        raise RejectedInputError("no external index is named", fix="give external=true and path= or collection=")
    if settings.sparse is not None:
        parameter = "vector" if settings.dense is None else "sparse_vector"
        names[TERMS] = name = _name_of(schemas.sparse, external.sparse_vector, "sparse", source, parameter)
        idf = schemas.sparse[name]
        if idf != settings.sparse.idf:
            raise RejectedInputError(
                f"the sparse vector '{name}' of {source} was made {'with' if idf else 'without'} Qdrant's idf",
                fix=f"say idf={str(idf).lower()}",
            )
    if settings.dense is not None:
        names[DENSE] = name = _name_of(schemas.dense, external.vector, "dense", source, "vector")
        schema = schemas.dense[name]
        dense = replace(
            settings.dense,
            similarity=_similarity_of(name, schema, settings.dense.similarity, source),
            datatype=schema.datatype,
            m=schema.m,
            full_scan_threshold_kb=schema.full_scan_threshold_kb,
        )
        dimensions, settings = schema.dimensions, replace(settings, dense=dense)
    return SearchedVectors(names, dimensions, settings)


def _name_of(vectors: Mapping[str, object], requested: str, kind: str, source: str, parameter: str) -> str:
    """Return the ``requested`` name, or for "" the name of the only vector; ``parameter`` names it."""
    if requested in vectors:
        return requested
    if len(vectors) == 1 and not requested:
        return next(iter(vectors))
    names_text = ", ".join(f"'{name}'" for name in sorted(vectors)) or "none"
    if requested:
        raise RejectedInputError(f"{source} has no {kind} vector '{requested}'", fix=f"it has: {names_text}")
    if not vectors:
        raise RejectedInputError(f"{source} has no {kind} vectors", fix="use a backend that searches such vectors")
    several = f"{source} has {len(vectors)} {kind} vectors: {names_text}"
    raise RejectedInputError(several, fix=f"choose the one to search: {parameter}=")


def _similarity_of(name: str, schema: DenseSchema, requested: str, source: str) -> Similarity:
    """Return the similarity of the vector; ``requested`` is "" if none was requested."""
    if schema.several:
        raise RejectedInputError(
            f"a point of {source} has several vectors under '{name}' (a multivector)",
            fix="name a vector of which a point has one",
        )
    similarity = next(
        (similarity_name for similarity_name, distance in DISTANCES.items() if distance == schema.distance), None
    )
    if similarity is None:
        raise RejectedInputError(
            f"the dense vector '{name}' of {source} has the distance {schema.distance}, which the harness does not "
            "know",
            fix=f"it knows {', '.join(DISTANCES.values())}",
        )
    require_similarity(
        f"the dense vector '{name}' of {source} has the distance {schema.distance}", [similarity], requested
    )
    return similarity


class ExternalPoints(DocumentKeys, ExternalRows, ExternalMetadata):
    """The points of a collection by row, in the order in which Qdrant lists them."""

    noun = "point"
    numbers_by_value = False

    def __init__(self, collection: Collection, external: ExternalSettings, progress: Progress) -> None:
        """Read all ids; raises RejectedInputError for missing or repeated ids, unless ``id_key`` names their field."""
        progress.start("attach", None)
        self._collection, self._text_key, dense = collection, external.text_key, collection.settings.dense
        self.sparse = dense is None
        if dense is not None:
            # Qdrant divides by the length for cosine, except for whole numbers
            self.stored_as = "unit" if dense.similarity == "cosine" and dense.datatype != "uint8" else "bits"
            self.half = dense.datatype == "float16"
        key = external.id_key or ID_FIELD
        id_pages: list[tuple[list[Hashable], list[str | None]]] = []
        for name in field_paths(key):  # a payload holds LangChain's metadata nested, LlamaIndex's beside the text
            path = _path(name)
            selector = _selector(path)
            id_pages = [
                ([point.id for point in page], [as_id(_value(point.payload, path)) for point in page])
                for page in pages(collection, keys=[selector] if selector else [])
            ]
            if any(value is not None for _, values in id_pages for value in values):
                break
        super().__init__(
            id_pages, f"text or whole number in the payload under '{key}'", "" if external.id_key else "id"
        )

    def columns(self, hits: Sequence[Any]) -> tuple[Int32Array, Float32Array]:
        """Return rows and scores of hits; raises IndexChangedError for a point that did not exist before."""
        rows = self.rows(hit.id for hit in hits)
        return rows, np.fromiter([hit.score for hit in hits], dtype=np.float32, count=len(hits))

    def sample(self, rows: Int32Array) -> DocumentSample:
        """Read points that have the vector, with the keys of their payload that may hold texts."""
        records = self._collection.read(self.keys(rows))
        points = [StoredPoint.of(record, self._collection.names) for record in records]
        points = [point for point in points if point.dense is not None or self.sparse]
        texts = {
            f"the payload's '{key}'": [_text(point.payload, path) for point in points]
            for key, path in ({self._text_key: _path(self._text_key)} if self._text_key else _OF_TEXTS).items()
        }
        present = self.rows(point.id for point in points)
        return DocumentSample(present, _sparse_of(points) if self.sparse else _dense_of(present, points)[1], texts)

    def metadata(self, fields: Sequence[str]) -> Iterator[tuple[Int32Array, Sequence[Mapping[str, Any]]]]:
        """Yield these fields of all points' payloads."""
        for page in pages(self._collection, keys=[path for field in fields for path in payload_paths(field)]):
            yield self.rows(point.id for point in page), [point.payload for point in page]

    def pages(self) -> Iterator[tuple[Int32Array, Any]]:
        """Yield all vectors: the dense vectors if points have both."""
        for page in pages(self._collection, vector=TERMS if self.sparse else DENSE):
            rows = self.rows(point.id for point in page)
            yield (rows, _sparse_of(page)) if self.sparse else _dense_of(rows, page)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector, page by page, and the idf of the queries' terms.

        Returns:
            Why results cannot be compared with a reference made from ``content``; None if they can.

        Raises:
            RejectedInputError: Sparse vectors have other columns than the encoder gives.
        """
        settings, reasons = self._collection.settings, []
        if settings.sparse is not None and settings.dense is not None:
            vector_pages = pages(self._collection, vector=TERMS)
            terms = ((self.rows(point.id for point in page), _sparse_of(page)) for page in vector_pages)
            reasons.append(compare_sparse(content, len(self.ids), terms, progress))
        reasons.append(super().mismatch(content, progress))
        if len(content.rows) != len(self.ids):
            reasons.append("it holds other documents")
        if settings.sparse is not None and settings.sparse.idf and not any(reasons):
            reasons.append(self._other_idf(content, progress))
        return "; ".join(reason for reason in reasons if reason) or None

    def _other_idf(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Return a note if Qdrant's idf differs from its documents' idf, tested for each term of the queries.

        Deleted points count until they are cleaned up, and counted points cannot be listed; the score of one document
        for one term shows the idf. All points must be known, with the encoder's weights.
        """
        shards = int(self._collection.state().get("shards", 1))
        if shards > 1:
            return f"each of its {shards} shards has its own idf, over unknown documents"
        documents, queries = content.documents.sparse, content.queries.sparse
        if documents is None or queries is None:
            raise AssertionError("sparse vectors were compared")
        by_term, position_of = documents.to_scipy().tocsc(), positions_of(content, len(self.ids))
        terms, containing = np.unique(documents.indices, return_counts=True)
        searched = np.flatnonzero(np.isin(terms, queries.indices))
        idf = qdrant_idf(len(documents.nonempty_rows), containing)
        progress.start("compare idf", len(searched))
        for position in searched.tolist():
            term = int(terms[position])
            with self._collection.translated(lambda: f"searching for column {term}"):  # noqa: B023 - called at once
                hits = self._collection.query(self._collection.nearest({TERMS: ([term], [1.0])}, 1))
            rows, scores = self.columns(hits)
            weight = by_term[int(position_of[rows[0]]), term] if len(rows) else np.nan
            expected = idf[position] * np.float32(weight)
            if not abs(scores[:1].sum() - expected) <= _IDF_STEPS * np.spacing(np.abs(expected)):
                best = f"scores {scores[0]:.6g} for it, not {expected:.6g}" if len(scores) else "is not found by it"
                return (
                    f"its idf does not match its documents: {int(containing[position]):,} have column {term}, and the "
                    f"best {best}; deleted points count until they are cleaned up"
                )
            progress.advance(1)
        return None


def _dense_of(rows: Int32Array, points: Sequence[StoredPoint]) -> tuple[Int32Array, Float32Array]:
    """Return the ``rows`` and the dense vectors, float32 (n, d), of the points that have one."""
    filled = np.array([point.dense is not None for point in points], dtype=np.bool_)
    vectors = np.array([point.dense for point in points if point.dense is not None], dtype=np.float32)
    return rows[filled], vectors


def _sparse_of(points: Sequence[StoredPoint]) -> SparseVectors:
    return sparse_of([point.indices for point in points], [point.values for point in points])


def payload_paths(field: str) -> list[str]:
    """Return Qdrant's paths to a field of the metadata: in the payload or in a container of it, with dots or nested."""
    steps = dict.fromkeys(path for name in field_paths(field) for path in nested_paths(name))
    return [_selector((*container, *path)) for path in steps for container in ((), *((name,) for name in CONTAINERS))]


def _selector(path: Sequence[str]) -> str:
    """Return a path in Qdrant's form, which requires quotation marks around all steps that are not words."""
    return ".".join(step if _WORD.fullmatch(step) else f'"{step}"' for step in path)


def _path(key: str) -> tuple[str, ...]:
    """Split a key: a dot leads into an object, quotation marks hold a key with dots itself, as in Qdrant's filters."""
    return tuple(quoted or plain for quoted, plain in _STEP.findall(key))


def _text(payload: Mapping[str, Any], path: Sequence[str]) -> str | None:
    value = _value(payload, path)
    return value if isinstance(value, str) else None


def _value(payload: Mapping[str, Any], path: Sequence[str]) -> object:
    value: object = payload
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
