"""A saved :class:`harness.exact.SparseIndex`, searched as it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.data.types import SparseVectors
from harness.engines.base import Content
from harness.engines.existing import NOT_THESE_VECTORS, other_weights, read_ids, require_same_columns
from harness.errors import RejectedInputError
from harness.exact import SparseIndex, bm25_idf
from harness.exact.storage import StoredIndex, load_index

__all__ = ["SavedIndex"]


class SavedIndex:
    """An index that ``SparseIndex.save`` wrote, and the file that names its documents."""

    def __init__(self, folder: Path, *, id_file: str, idf: bool) -> None:
        """Raises what ``SparseIndex.load`` raises, EngineUnavailableError without ids, RejectedInputError for an IDF
        that was asked for and is not stored, or the other way round.
        """
        self.index = SparseIndex.load(folder)
        self._folder = folder
        if (self.index.idf is not None) != idf:
            stored = "no IDF" if idf else "an IDF"
            raise RejectedInputError(
                f"the index in '{folder}' was saved with {stored}", fix=f"say idf={str(not idf).lower()}"
            )
        self.ids = read_ids(folder / Path(id_file).expanduser(), len(self.index))

    def differs(self, content: Content) -> str | None:
        """See :meth:`harness.engines.base.ExistingIndex.differs`."""
        expected, queries = content.documents.sparse, content.queries.sparse
        if expected is None or queries is None:
            raise RejectedInputError("there are no sparse vectors to compare the index with", fix="encode them")
        if queries.dimensions > self.index.dimensions:  # of fewer the encoder may know those that it gave, no more
            raise RejectedInputError(
                f"the index has {self.index.dimensions} dimensions, the encoder {queries.dimensions}",
                fix=NOT_THESE_VECTORS,
            )
        stored = load_index(self._folder, "sparse", verify=False)
        vectors = _vectors(stored)
        other = require_same_columns(vectors.take(content.rows), expected, content.documents.ids)
        if len(other):
            return other_weights(other, content.documents.ids)
        if stored.idf is not None:
            own = bm25_idf(stored.postings.document_frequencies(), len(vectors.nonempty_rows))
            if not np.array_equal(own, stored.idf):
                return "its IDF is not BM25's over its own documents"
        return None


def _vectors(stored: StoredIndex) -> SparseVectors:
    """Postings as rows of documents again, in the order in which they were given to ``build``."""
    from scipy.sparse import csc_array

    columns, rows, values = stored.postings
    external = rows.astype(np.int64) if stored.order is None else stored.order[rows.astype(np.int64)]
    shape = (stored.documents, len(columns) - 1)
    return SparseVectors.from_scipy(csc_array((values, external, columns.astype(np.int64)), shape=shape))
