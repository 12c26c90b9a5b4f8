"""A collection that was in Milvus before: its field and metric, its ids, and whether it holds the expected vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array, Ids, Int32Array, Similarity, SparseVectors
from harness.engines.external_index import (
    TEXT_FIELDS,
    as_id,
    compare_dense,
    compare_sparse,
    rows_of,
    sparse_of,
    spread_rows,
    unique_ids,
)
from harness.engines.index_folder import ID_FIELD
from harness.engines.interface import ExpectedContent, StoredDocuments
from harness.engines.milvus.collection import Collection
from harness.engines.milvus.parameters import METRICS
from harness.errors import RejectedInputError

__all__ = ["ExternalEntities", "Kind", "choose_vector"]

Kind = Literal["dense", "sparse", "function"]
_PAGE_OF_VECTORS = 1_000


def choose_vector(collection: Collection, kind: Kind, wanted: str) -> Similarity | None:
    """Search the field that the parameters name, or the only one of this ``kind``; return its similarity.

    Args:
        collection: The user's, open.
        kind: Of the vectors to search; ``function`` are term counts that Milvus makes of texts.
        wanted: The similarity that was asked for; "" for the index's own. Sparse vectors have none.

    Raises:
        RejectedInputError: There is no such field or no single one, it has no index, or one of another metric.
    """
    schema, name, where = collection.schema(), collection.parameters.vector, f"the collection '{collection.name}'"
    known = sorted(field for field, its_kind in schema.vectors.items() if its_kind == kind)
    listed = ", ".join(f"'{field}' ({its_kind})" for field, its_kind in sorted(schema.vectors.items())) or "none"
    if name and name not in known:
        raise RejectedInputError(f"{where} has no {kind} vectors '{name}'", fix=f"it has: {listed}")
    if not name and len(known) != 1:
        raise RejectedInputError(
            f"{where} has {len(known)} fields of {kind} vectors; its vectors: {listed}",
            fix="say which one to search: vector=" if known else "take a backend that searches what it has",
        )
    field = name or known[0]
    collection.choose(field, schema.key, "")
    metric = str(collection.index().get("metric_type", ""))
    if not metric:
        raise RejectedInputError(f"the field '{field}' of {where} has no index", fix="make one: Milvus needs it")
    collection.choose(field, schema.key, metric)
    if kind != "dense":
        expected = "IP" if kind == "sparse" else "BM25"
        if metric != expected:
            raise RejectedInputError(
                f"the field '{field}' of {where} is searched by {metric}, not by {expected}",
                fix=f"name a field with the metric {expected}: vector=",
            )
        return None
    similarity = next((own for own, its_name in METRICS.items() if its_name == metric), None)
    if similarity is None:
        raise RejectedInputError(
            f"the field '{field}' of {where} has the metric {metric}, which the harness does not know",
            fix=f"it knows {', '.join(METRICS.values())}",
        )
    if wanted not in ("", similarity):
        raise RejectedInputError(
            f"the field '{field}' of {where} has the metric {metric}, which is not similarity={wanted}",
            fix=f"say similarity={similarity}, or leave it out",
        )
    return similarity


class ExternalEntities:
    """The entities of a collection by row, in ascending order of their primary keys.

    ``text_field`` is the field that Milvus makes the searched field of; "" where it is stored as it is.
    """

    def __init__(self, collection: Collection, kind: Kind, progress: Progress) -> None:
        """Read all ids; raises RejectedInputError for entities without one, or with the same."""
        progress.start("attach", None)
        self._collection, self._kind, self._schema = collection, kind, collection.schema()
        self.text_field = self._schema.made_of.get(collection.field, "")
        key = collection.parameters.id_key
        field = key or (ID_FIELD if self._schema.dynamic or ID_FIELD in self._schema.others else "")
        keys: list[int | str] = []
        named: list[str | None] = []
        for page in collection.pages(*([field] if field else [])):
            keys += [entity[self._schema.key] for entity in page]
            named += [as_id(entity.get(field)) for entity in page]
        if not key and not any(name is not None for name in named):
            field = ""
        self._row_of = {entity: row for row, entity in enumerate(keys)}
        where = f"text or whole number in the field '{field}'" if field else f"primary key '{self._schema.key}'"
        self.ids: Ids = unique_ids(named if field else [str(entity) for entity in keys], where)

    def rows(self, keys: Sequence[int | str]) -> Int32Array:
        """Return the rows of primary keys; raises IndexChangedError for an entity that was not there before."""
        return rows_of(self._row_of, keys, "entity")

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return entities from all over the collection."""
        keys = list(self._row_of)
        entities = self._collection.entities([keys[row] for row in spread_rows(len(keys), count).tolist()])
        rows = self.rows([entity[self._schema.key] for entity in entities])
        entities = [entities[place] for place in np.argsort(rows).tolist()]
        candidates = [self._collection.parameters.text_key] if self._collection.parameters.text_key else TEXT_FIELDS
        field = next((name for name in candidates if any(isinstance(e.get(name), str) for e in entities)), "")
        texts = tuple(_text(entity, field) for entity in entities)
        place = f"the field '{field}'" if field else ""
        if self._kind == "dense":
            return StoredDocuments(np.sort(rows), texts, dense=self._dense(entities), place=place)
        return StoredDocuments(np.sort(rows), texts, sparse=self._sparse(entities), place=place)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compare every stored vector, page by page; see :meth:`harness.engines.base.ExternalIndex.mismatch`."""
        fetched = self._collection.pages(self._collection.field, size=_PAGE_OF_VECTORS)
        pages = ((self.rows([entity[self._schema.key] for entity in page]), page) for page in fetched)
        if self._kind == "dense":
            dense = ((rows, self._dense(page)) for rows, page in pages)
            return compare_dense(content, len(self.ids), dense, progress)
        return compare_sparse(content, len(self.ids), ((rows, self._sparse(page)) for rows, page in pages), progress)

    def _dense(self, entities: Sequence[Mapping[str, Any]]) -> Float32Array:
        return np.array([entity[self._collection.field] for entity in entities], dtype=np.float32)

    def _sparse(self, entities: Sequence[Mapping[str, Any]]) -> SparseVectors:
        vectors = [entity[self._collection.field] for entity in entities]
        return sparse_of([list(vector) for vector in vectors], [list(vector.values()) for vector in vectors])


def _text(entity: Mapping[str, Any], field: str) -> str | None:
    value = entity.get(field)
    return value if isinstance(value, str) else None
