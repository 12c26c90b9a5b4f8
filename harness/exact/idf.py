"""Inverse document frequency, one definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.data.types import Float32Array, Int64Array
from harness.errors import DataError
from harness.exact.postings import as_sparse

__all__ = ["bm25_idf", "document_frequencies"]


def bm25_idf(df: Int64Array, documents: int) -> Float32Array:
    """``ln(1 + (N - df + 0.5) / (df + 0.5))`` in float64, rounded once to float32 (float32, shape of ``df``).

    ``documents`` is N: Lucene and Qdrant count the documents that have the field, that is at least one term or stored
    value. Above 0 for every ``df`` from 0 to N. Raises DataError when a ``df`` is negative or larger than N.
    Robertson and Zaragoza 2009, equation 3.1, with the 1 that Lucene adds to keep it positive.
    """
    if len(df) and (int(df.min()) < 0 or int(df.max()) > documents):
        raise DataError("idf", [f"a document frequency lies outside 0 to {documents}"])
    counts = df.astype(np.float64)
    idf: Float32Array = np.log(1.0 + (documents - counts + 0.5) / (counts + 0.5)).astype(np.float32)
    return idf


def document_frequencies(documents: Any) -> tuple[Int64Array, int]:  # noqa: ANN401 - SciPy has no type information
    """In how many rows each dimension is stored (int64, shape (dimensions,)), and how many rows store anything.

    A stored zero counts, as in Qdrant. ``documents``: SparseVectors or any SciPy sparse matrix.
    """
    vectors = as_sparse(documents, "documents")
    df = np.bincount(vectors.indices, minlength=vectors.dimensions).astype(np.int64, copy=False)
    return df, len(vectors.nonempty_rows)
