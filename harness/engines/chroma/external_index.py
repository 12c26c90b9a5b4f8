"""Records that were in Chroma before: their ids, and whether their vectors are those of the collection."""

from __future__ import annotations

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array, Ids, Int32Array
from harness.engines.chroma.store import ChromaStore, Hits
from harness.engines.external_index import other_vectors, places_of, spread_rows, unique_ids
from harness.engines.interface import ExpectedContent, StoredDocuments
from harness.engines.stored_metadata import ID_FIELD
from harness.errors import IndexChangedError, RejectedInputError

__all__ = ["ExternalRecords"]

_STEPS = 8
"""Chroma keeps a vector of a cosine graph as direction and length, and gives back their product: a few float32 steps
of the largest value away from what it was given (4 were seen)."""


class ExternalRecords:
    """The records of a collection by row, in the order in which Chroma lists them."""

    def __init__(self, store: ChromaStore, id_key: str, progress: Progress) -> None:
        """Reads all ids; raises RejectedInputError for records without one, or with the same."""
        progress.start("attach", None)
        self._store = store
        named = list(store.names(id_key or ID_FIELD))
        key = id_key or (ID_FIELD if any(name is not None for _, name in named) else "")
        if not key:
            named = [(one, one) for one, _ in named]
        self._row_of = {one: row for row, (one, _) in enumerate(named)}
        where = f"text or whole number in the metadata under '{key}'" if key else "id"
        self.ids: Ids = unique_ids([name for _, name in named], where)

    def rows(self, hits: Hits) -> Int32Array:
        """Rows of hits; raises IndexChangedError for a record that was not there before."""
        try:
            return np.fromiter((self._row_of[one] for one in hits.ids), dtype=np.int32, count=len(hits.ids))
        except KeyError as error:
            raise IndexChangedError(
                f"the record {error} was added while the index was searched", fix="stop whatever writes to it"
            ) from error

    def stored_documents(self, count: int) -> StoredDocuments:
        """Return records from all over the collection."""
        names = list(self._row_of)
        wanted = [names[row] for row in spread_rows(len(names), count).tolist()]
        found = self._store.records(wanted)
        records = {one: found[one] for one in wanted if one in found}
        return StoredDocuments(
            rows=np.array([self._row_of[one] for one in records], dtype=np.int32),
            texts=tuple(record.document for record in records.values()),
            dense=np.stack([record.vector for record in records.values()]),
            place="Chroma's documents",
        )

    def mismatch(self, content: ExpectedContent, progress: Progress) -> str | None:
        """Compares every stored vector, page by page; see :meth:`harness.engines.base.ExternalIndex.mismatch`."""
        expected, queries = content.documents.dense, content.queries.dense
        if expected is None or queries is None:
            raise RejectedInputError("there are no dense vectors to compare the index with", fix="encode them")
        place_of = places_of(content, len(self.ids))
        progress.start("compare", len(self.ids))
        strange = [np.empty(0, dtype=np.int32)]
        for ids, stored in self._store.stored():
            if stored.shape[1] != queries.shape[1]:
                raise RejectedInputError(
                    f"the index has vectors of {stored.shape[1]} dimensions, the encoder gives {queries.shape[1]}",
                    fix="name the model and the truncate_dim that the index was made with",
                )
            places = place_of[[self._row_of[one] for one in ids]]
            known = np.flatnonzero(places >= 0)
            strange.append(places[known][_other(stored[known], expected[places[known]])])
            progress.advance(len(ids))
        found = np.sort(np.concatenate(strange))
        return other_vectors(found, content.documents.ids) if len(found) else None


def _other(stored: Float32Array, expected: Float32Array) -> Int32Array:
    """Numbers of the rows that differ by more than Chroma's own rounding."""
    allowed = _STEPS * np.spacing(np.abs(expected).max(axis=1, initial=0.0))
    differs: Int32Array = np.flatnonzero((np.abs(stored - expected) > allowed[:, None]).any(axis=1)).astype(np.int32)
    return differs
