"""Term counts: what an analyzer leaves of documents and queries."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.types import Ids, Int32Array, Int64Array, SparseVectors

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

    @property
    def lengths(self) -> Int64Array:
        """Terms in each document, repeats included (int64, shape (n,)); 0 for a document without terms."""
        totals = np.concatenate([[0.0], np.cumsum(self.documents.values, dtype=np.float64)])
        lengths: Int64Array = np.diff(totals[self.documents.indptr]).astype(np.int64)
        return lengths
