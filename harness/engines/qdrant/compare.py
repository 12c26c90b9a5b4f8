"""Whether points of Qdrant hold the vectors that the encoder gives, and count as its oracle counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array, Ids, Int32Array, SparseVectors
from harness.engines.dense_compare import Kept
from harness.engines.external_index import other_weights, require_same_columns
from harness.engines.interface import ExpectedContent
from harness.engines.qdrant.points import TERMS, StoredPoint
from harness.engines.qdrant.store import QdrantStore
from harness.engines.qdrant.vector_settings import DenseSettings
from harness.errors import RejectedInputError
from harness.exact.qdrant_model import qdrant_idf

__all__ = ["SparseComparison", "dense_of", "how_kept", "other_idf", "stack"]

_STEPS = 2
"""Float32 steps by which a score may differ from the one that was computed."""


class SparseComparison:
    """Weights, bit for bit; the columns must be the encoder's."""

    def __init__(self, content: ExpectedContent) -> None:
        """Raises RejectedInputError where there are no vectors to compare with."""
        if content.documents.sparse is None:
            raise RejectedInputError("there are no sparse vectors to compare the index with", fix="encode them")
        self._expected, self._ids = content.documents.sparse, content.documents.ids
        self._strange = [np.empty(0, dtype=np.int32)]

    def add(self, points: Sequence[StoredPoint], places: Int32Array) -> None:
        """Compare ``points``, which are documents ``places`` of the collection; raises RejectedInputError for other
        columns.
        """
        stored = stack(points, self._expected.dimensions)
        ids = Ids.of(self._ids.take(places))
        self._strange.append(places[require_same_columns(stored, self._expected.take(places), ids)])

    def reason(self) -> str | None:
        """Which documents differ; None where none do."""
        strange = np.concatenate(self._strange)
        return other_weights(strange, self._ids) if len(strange) else None


def how_kept(settings: DenseSettings) -> Kept:
    """Qdrant divides by the length for cosine, but for whole numbers."""
    return "unit" if settings.similarity == "cosine" and settings.datatype != "uint8" else "bits"


def dense_of(points: Sequence[StoredPoint], places: Int32Array) -> tuple[Float32Array, Int32Array]:
    """The dense vectors (n, d) of those points that have one, and their ``places``."""
    filled = np.array([point.dense is not None for point in points], dtype=np.bool_)
    stored = np.array([point.dense for point in points if point.dense is not None], dtype=np.float32)
    return stored, places[filled]


def other_idf(
    store: QdrantStore,
    content: ExpectedContent,
    place_of: Int32Array,
    columns: Callable[[Sequence[Any]], tuple[Int32Array, Float32Array]],
    progress: Progress,
) -> str | None:
    """Whether Qdrant's idf is the one of its own documents, of every term that the queries have: it is asked for each.

    Deleted points count until they are cleaned up, and what is counted cannot be listed; the score of one document for
    one term tells. All points must be known, with the encoder's weights. None where every idf is right.
    """
    shards = int(store.state().get("shards", 1))
    if shards > 1:
        return f"each of its {shards} shards has an idf of its own, over documents that are not known"
    documents, queries = content.documents.sparse, content.queries.sparse
    if documents is None or queries is None:
        raise RejectedInputError("there are no sparse vectors to compare the index with", fix="encode them")
    terms, containing = np.unique(documents.indices, return_counts=True)
    asked = np.flatnonzero(np.isin(terms, queries.indices))
    idf = qdrant_idf(len(documents.nonempty_rows), containing)
    progress.start("compare idf", len(asked))
    for place in asked.tolist():
        term = int(terms[place])
        with store.translated(lambda: f"searching for column {term}"):  # noqa: B023 - called at once
            hits = store.query(store.request({TERMS: ([term], [1.0])}, 1))
        rows, scores = columns(hits)
        expected = idf[place] * _weight(documents, int(place_of[rows[0]]), term) if len(rows) else np.float32(np.nan)
        if not abs(scores[:1].sum() - expected) <= _STEPS * np.spacing(np.abs(expected)):
            return _said(term, scores, expected, int(containing[place]))
        progress.advance(1)
    return None


def _said(term: int, scores: Float32Array, expected: np.float32, containing: int) -> str:
    found = f"scores {scores[0]:.6g} for it, not {expected:.6g}" if len(scores) else "is not found by it"
    return (
        f"its idf is not that of the documents it holds: {containing:,} have column {term}, and the best {found}; "
        "deleted points count until they are cleaned up"
    )


def _weight(documents: SparseVectors, place: int, column: int) -> np.float32:
    indices, values = documents.row(place)
    return np.float32(values[np.searchsorted(indices, column)])


def stack(points: Sequence[StoredPoint], dimensions: int | None = None) -> SparseVectors:
    """Vectors of points with ascending columns; Qdrant keeps them in the order in which they came.

    Without ``dimensions`` there are as many columns as the vectors have.
    """
    indptr = np.zeros(len(points) + 1, dtype=np.int64)
    np.cumsum([len(point.indices) for point in points], out=indptr[1:])
    indices = np.array([index for point in points for index in point.indices], dtype=np.int64)
    values = np.array([value for point in points for value in point.values], dtype=np.float32)
    rows = np.repeat(np.arange(len(points)), np.diff(indptr))
    order = np.lexsort((indices, rows))
    # a column beyond the vocabulary stays one: it differs from any that the encoder gives
    columns = np.minimum(indices[order], np.iinfo(np.int32).max).astype(np.int32)
    width = int(columns.max(initial=-1)) + 1 if dimensions is None else dimensions
    return SparseVectors(indptr, columns, values[order], width)
