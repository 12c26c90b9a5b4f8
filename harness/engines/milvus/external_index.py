"""An existing Milvus collection: its field and metric, its ids, and whether it holds the expected vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Int32Array, Similarity
from harness.engines.external_index import (
    TEXT_FIELDS,
    DocumentKeys,
    DocumentSample,
    ExternalRows,
    require_similarity,
    sparse_of,
)
from harness.engines.external_metadata import ExternalMetadata, shortest_number
from harness.engines.index_folder import ID_FIELD
from harness.engines.milvus.collection import METRICS, Collection
from harness.engines.milvus.conditions import (
    FRACTIONS,
    Location,
    ScalarField,
    containers_of,
    find_locations,
    locations_of,
)
from harness.errors import RejectedInputError

__all__ = ["ExternalEntities", "Kind", "choose_vector"]

Kind = Literal["dense", "sparse", "function"]
_PAGE_OF_VECTORS = 1_000
_SIMILARITIES: Mapping[Kind, Mapping[str, Similarity | None]] = {
    "dense": {metric: similarity for similarity, metric in METRICS.items()},
    "sparse": {"IP": None},
    "function": {"BM25": None},
}
"""Milvus's metrics of each kind of vectors, and their similarities."""


def choose_vector(collection: Collection, kind: Kind, requested: str) -> Similarity | None:
    """Search the field that the parameters name, or the only field of this ``kind``; return its similarity.

    Args:
        collection: The user's collection, open. kind: Kind of the vectors to search; ``function`` are term counts that
            Milvus computes from texts. wanted: Requested similarity; "" for the index's own. Sparse vectors have no
            similarity.

    Raises:
        RejectedInputError: There is no such field or more than one, or it has no index or an index of another metric.
    """
    schema, name = collection.schema(), str(collection.parameters["vector"])
    fields_of_kind = sorted(field for field, its_kind in schema.vectors.items() if its_kind == kind)
    fields_text = ", ".join(f"'{field}' ({its_kind})" for field, its_kind in sorted(schema.vectors.items())) or "none"
    if name not in fields_of_kind and (name or len(fields_of_kind) != 1):
        lacking = f"no {kind} vectors '{name}'" if name else f"{len(fields_of_kind)} fields of {kind} vectors"
        raise RejectedInputError(
            f"the collection '{collection.name}' has {lacking}; its vectors: {fields_text}",
            fix="choose the one to search: vector=" if fields_of_kind else "use a backend that searches such vectors",
        )
    field = name or fields_of_kind[0]
    description = f"the field '{field}' of the collection '{collection.name}'"
    collection.choose(field, schema.key, "")
    metric = str(collection.index().get("metric_type", ""))
    if not metric:
        raise RejectedInputError(f"{description} has no index", fix="create an index: Milvus needs it")
    collection.choose(field, schema.key, metric)
    similarities = _SIMILARITIES[kind]
    if metric not in similarities:
        raise RejectedInputError(
            f"{description} has the metric {metric}, which the harness does not search {kind} vectors by",
            fix=f"name a field with the metric {' or '.join(similarities)}: vector=",
        )
    similarity = similarities[metric]
    if similarity is not None:
        require_similarity(f"{description} has the metric {metric}", [similarity], requested)
    return similarity


class ExternalEntities(DocumentKeys, ExternalRows, ExternalMetadata):
    """The entities of a collection by row, in ascending order of their primary keys.

    ``text_field`` is the field from which Milvus computes the searched field; "" if that is stored directly.
    """

    noun = "entity"

    def __init__(self, collection: Collection, kind: Kind, progress: Progress) -> None:
        """Read all ids; raises RejectedInputError for missing or repeated ids, unless ``id_key`` names their field."""
        progress.start("attach", None)
        self._collection, self._schema, self.sparse = collection, collection.schema(), kind != "dense"
        self.stored_as = "direction" if collection.index().get("metric_type") == METRICS["cosine"] else "bits"
        self.containers = containers_of(self._schema.fields, dynamic=self._schema.dynamic)
        self.text_field = self._schema.made_of.get(collection.field, "")
        key = str(collection.parameters["id_key"])
        if key and not self._locations(key):
            raise RejectedInputError(
                f"the collection '{collection.name}' has no field '{key}'",
                fix=f"name one of {', '.join(map(repr, self._schema.fields))}: id_key=",
            )
        field = key or ID_FIELD
        pages = (
            (self._keys_of(page), [self.id_in(entity, field) for entity in page])
            for page in collection.pages(*dict.fromkeys(location.output_field for location in self._locations(field)))
        )
        key_description = "" if key else f"primary key '{self._schema.key}'"
        super().__init__(pages, f"text or whole number in the field '{field}'", key_description)

    def _locations(self, field: str) -> list[Location]:
        return find_locations(field, self._schema.fields, dynamic=self._schema.dynamic)

    def _keys_of(self, entities: Sequence[Mapping[str, Any]]) -> list[int | str]:
        return [entity[self._schema.key] for entity in entities]

    def texts(self, rows: Int32Array) -> list[str | None]:
        """Return the texts of documents: of the field that Milvus analyses, if it computes the searched field."""
        if not self.text_field:
            return super().texts(rows)
        texts = dict[int, str]()
        for start in range(0, len(rows), _PAGE_OF_VECTORS):
            entities = self._collection.entities(self.keys(rows[start : start + _PAGE_OF_VECTORS]), self.text_field)
            for row, entity in zip(self.rows(self._keys_of(entities)).tolist(), entities, strict=True):
                texts[row] = str(entity[self.text_field])
        return [texts.get(row) for row in rows.tolist()]

    def sample(self, rows: Int32Array) -> DocumentSample:
        """Read entities with the fields that may hold texts."""
        entities = self._collection.entities(self.keys(rows))
        text_field = str(self._collection.parameters.get("text_key", ""))
        texts = {
            f"the field '{field}'": [
                value if isinstance(value := entity.get(field), str) else None for entity in entities
            ]
            for field in ([text_field] if text_field else TEXT_FIELDS)
        }
        return DocumentSample(self.rows(self._keys_of(entities)), self._vectors(entities), texts)

    def metadata(self, fields: Sequence[str]) -> Iterator[tuple[Int32Array, Sequence[Mapping[str, Any]]]]:
        """Yield the fields of entities that hold these fields; raises RejectedInputError for an unknown field."""
        schema = self._schema
        locations = [
            location for field in fields for location in locations_of(field, schema.fields, dynamic=schema.dynamic)
        ]
        names = dict.fromkeys(location.output_field for location in locations)
        for page in self._collection.pages(*names):
            records = [
                {name: _plain(value, schema.fields.get(name)) for name, value in entity.items()} for entity in page
            ]
            yield self.rows(self._keys_of(page)), records

    def pages(self) -> Iterator[tuple[Int32Array, Any]]:
        """Yield all vectors."""
        for page in self._collection.pages(self._collection.field, size=_PAGE_OF_VECTORS):
            yield self.rows(self._keys_of(page)), self._vectors(page)

    def _vectors(self, entities: Sequence[Mapping[str, Any]]) -> Any:
        vectors = [entity[self._collection.field] for entity in entities]
        if not self.sparse:
            return np.array(vectors, dtype=np.float32)
        return sparse_of([list(vector) for vector in vectors], [list(vector.values()) for vector in vectors])


def _plain(value: Any, field: ScalarField | None) -> Any:
    """Return a value as Python's own, with numbers of float32 by their shortest text: 0.1, not 0.10000000149."""
    if value is None or field is None:
        return value
    if field.kind == "ARRAY":
        return [_plain(element, ScalarField(field.element)) for element in value]
    return shortest_number(value, FRACTIONS[field.kind]) if field.kind in FRACTIONS else value
