"""Term counts: what an analyzer leaves of documents and queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from harness.data.types import Ids, Int32Array, Int64Array, SparseVectors

__all__ = ["TermCounts"]


@dataclass(frozen=True, eq=False)
class TermCounts:
    """How often each term of the corpus occurs in each document and each query.

    ``documents`` and ``queries`` share the columns of ``vocabulary`` (the terms of the corpus in ascending byte order);
    their values are counts. ``unknown_terms`` int32 (Q,) counts query tokens that no document contains.
    """

    documents: SparseVectors
    queries: SparseVectors
    vocabulary: Ids
    unknown_terms: Int32Array

    @cached_property
    def lengths(self) -> Int64Array:
        """Terms in each document, repeats included (int64, shape (n,)); 0 for a document without terms."""
        lengths = np.zeros(len(self.documents), dtype=np.int64)
        filled = self.documents.nonempty_rows
        if len(filled):
            starts = self.documents.indptr[filled]
            lengths[filled] = np.add.reduceat(self.documents.values, starts, dtype=np.float64)
        return lengths

    def of_documents(self, rows: Int32Array) -> TermCounts:
        """Return the counts of some documents, in the order of ``rows``; queries and vocabulary stay."""
        return replace(self, documents=self.documents.take(rows))
