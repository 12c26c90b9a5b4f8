"""Points that were in Qdrant before: their ids, and whether their vectors are those of the collection."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array, Ids, Int32Array
from harness.engines.dense_compare import DenseComparison
from harness.engines.external_index import places_of, spread_rows, unique_ids
from harness.engines.interface import ExpectedContent, StoredDocuments
from harness.engines.qdrant.compare import SparseComparison, dense_of, how_kept, other_idf, stack
from harness.engines.qdrant.settings import ExternalQdrant
from harness.engines.qdrant.store import HoldingStore
from harness.engines.stored_metadata import ID_FIELD
from harness.errors import IndexChangedError

__all__ = ["ExternalPoints"]

_OF_TEXTS = ("page_content", "document", "text", "content")
"""Where texts are looked for: keys of LangChain, of Qdrant's own client, of many, and of Haystack."""
_STEP = re.compile(r'"([^"]+)"|([^."]+)')
_WORD = re.compile(r"[\w-]+")


class ExternalPoints:
    """The points of a store by row, in the order in which the store lists them."""

    def __init__(self, store: HoldingStore, external: ExternalQdrant, progress: Progress) -> None:
        """Reads all ids; raises RejectedInputError for points without one, or with the same."""
        progress.start("attach", None)
        self._store, self._text_key = store, external.text_key
        path = _path(external.id_key or ID_FIELD)
        points = [point for page in store.points(key=_selector(path) or None, vectors=False) for point in page]
        self._row_of = {point.id: row for row, point in enumerate(points)}
        names = [_name(point.payload, path) for point in points]
        key = external.id_key or (ID_FIELD if any(name is not None for name in names) else "")
        if not key:
            names = [str(point.id) for point in points]
        self.ids: Ids = unique_ids(names, f"text or whole number in the payload under '{key}'" if key else "id")

    def columns(self, hits: Sequence[Any]) -> tuple[Int32Array, Float32Array]:
        """Rows and scores of hits; raises IndexChangedError for a point that was not there before."""
        try:
            rows = np.fromiter([self._row_of[hit.id] for hit in hits], dtype=np.int32, count=len(hits))
        except KeyError as error:
            raise IndexChangedError(
                f"the point {error} was added while the index was searched", fix="stop whatever writes to it"
            ) from error
        return rows, np.fromiter([hit.score for hit in hits], dtype=np.float32, count=len(hits))

    def stored_documents(self, count: int) -> StoredDocuments:
        """Points from all over the index; see :meth:`harness.engines.interface.WithStoredVectors.stored_documents`."""
        ids = list(self._row_of)
        wanted = [ids[row] for row in spread_rows(len(ids), count).tolist()]
        dense = self._store.settings.dense is not None
        points = [one for one in self._store.retrieve(wanted) if one.dense is not None or not dense]
        rows = np.array([self._row_of[point.id] for point in points], dtype=np.int32)
        key = self._text_key or next(
            (key for key in _OF_TEXTS if any(_text(point.payload, (key,)) for point in points)), ""
        )
        texts = tuple(_text(point.payload, _path(key)) if key else None for point in points)
        place = f"the payload's '{key}'" if key else ""
        if dense:
            return StoredDocuments(rows, texts, dense=dense_of(points, rows)[0], place=place)
        return StoredDocuments(rows, texts, sparse=stack(points), place=place)

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compares every stored vector, page by page, and the idf of the queries' terms; see
        :meth:`harness.engines.base.ExternalIndex.mismatch`.
        """
        settings = self._store.settings
        sparse, dense = (SparseComparison(content) if settings.sparse is not None else None), None
        if settings.dense is not None:
            dense = DenseComparison(content, how_kept(settings.dense), half=settings.dense.datatype == "float16")
        place_of = places_of(content, len(self.ids))
        progress.start("compare", len(self.ids))
        for page in self._store.points(key=None, vectors=True):
            places = place_of[[self._row_of[point.id] for point in page]]
            known = np.flatnonzero(places >= 0)
            points = [page[number] for number in known.tolist()]
            if sparse is not None:
                sparse.add(points, places[known])
            if dense is not None and any(point.dense is not None for point in points):
                dense.add(*dense_of(points, places[known]))
            progress.advance(len(page))
        comparisons = [one for one in (sparse, dense) if one is not None]
        reasons = [reason for one in comparisons if (reason := one.reason()) is not None]
        if len(content.rows) != len(self.ids):
            reasons.append("it holds other documents")
        if not reasons and settings.sparse is not None and settings.sparse.idf:
            return other_idf(self._store, content, place_of, self.columns, progress)
        return "; ".join(reasons) or None


def _path(key: str) -> tuple[str, ...]:
    """A dot leads into an object, and quotation marks hold a key that has dots itself, as in Qdrant's own filters."""
    return tuple(quoted or plain for quoted, plain in _STEP.findall(key))


def _selector(path: Sequence[str]) -> str:
    """The same for Qdrant, which wants quotation marks around all that are no words too."""
    return ".".join(step if _WORD.fullmatch(step) else f'"{step}"' for step in path)


def _text(payload: Mapping[str, Any] | None, path: Sequence[str]) -> str | None:
    value = _value(payload, path)
    return value if isinstance(value, str) else None


def _name(payload: Mapping[str, Any] | None, path: Sequence[str]) -> str | None:
    value = _value(payload, path)
    return str(value) if isinstance(value, str | int) and not isinstance(value, bool) else None


def _value(payload: Mapping[str, Any] | None, path: Sequence[str]) -> object:
    value: object = payload
    for step in path:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
