"""Weights of terms: inverse document frequency, in one definition, and learned weights as integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from harness.data.document_rows import VALUES_AT_ONCE, DocumentRows, WeighedRows, blocks_of
from harness.data.types import Float32Array, Int64Array, SparseVectors
from harness.errors import DataError, UsageError
from harness.exact.postings import as_sparse

LARGEST_IMPACT = 2**24
"""Up to here every integer is a float32."""


def bm25_idf(df: Int64Array, documents: int) -> Float32Array:
    """Return ``ln(1 + (N - df + 0.5) / (df + 0.5))`` in float64, rounded once to float32 (float32, shape of ``df``).

    ``documents`` is N: Lucene and Qdrant count the documents that have the field, that is at least one term or stored
    value. Above 0 for every ``df`` from 0 to N. Raises DataError when a ``df`` is negative or larger than N.
    Robertson and Zaragoza 2009, equation 3.1, with the 1 that Lucene adds to keep it positive.
    """
    if len(df) and (int(df.min()) < 0 or int(df.max()) > documents):
        raise DataError("idf", [f"a document frequency lies outside 0 to {documents}"])
    counts = df.astype(np.float64)
    idf: Float32Array = np.log(1.0 + (documents - counts + 0.5) / (counts + 0.5)).astype(np.float32)
    return idf


def document_frequencies(documents: Any) -> tuple[Int64Array, int]:
    """Count the rows in which each dimension is stored (int64, shape (dimensions,)), and rows that store anything.

    A stored zero counts, as in Qdrant. ``documents``: SparseVectors or other :class:`DocumentRows`, which are read in
    blocks, or any SciPy sparse matrix.
    """
    rows: DocumentRows = documents if isinstance(documents, WeighedRows) else as_sparse(documents, "documents")
    df, filled = np.zeros(rows.dimensions, dtype=np.int64), 0
    for _, block in blocks_of(rows, max(VALUES_AT_ONCE, rows.dimensions)):
        df += np.bincount(block.indices, minlength=rows.dimensions)
        filled += len(block.nonempty_rows)
    return df, filled


def to_impacts(vectors: SparseVectors, scale: float) -> SparseVectors:
    """Return weights times ``scale``, rounded to integers (halves to even), without weights that become 0.

    Raises UsageError for a weight below 0, and for one that becomes larger than :data:`LARGEST_IMPACT`.
    """
    rounded = np.rint(np.asarray(vectors.values, dtype=np.float64) * scale)
    wrong = (rounded < 0) | (rounded > LARGEST_IMPACT)
    if wrong.any():
        weight = vectors.values[int(np.argmax(wrong))]
        raise UsageError(
            f"a weight of {weight:g} times {scale:g} is not a whole number from 0 to {LARGEST_IMPACT:,}",
            fix="choose another impact_scale; impacts cannot represent weights below 0",
        )
    return replace(vectors, values=rounded.astype(np.float32)).only(rounded > 0)


def impacts_of(documents: DocumentRows, scale: float) -> DocumentRows:
    """Return documents whose rows are computed by :func:`to_impacts` when they are read."""
    return WeighedRows(documents, lambda block, _: to_impacts(block, scale), documents.dimensions)


def with_idf(queries: SparseVectors, idf: Float32Array) -> SparseVectors:
    """Return query weights times the IDF of their columns, each product rounded once to float32.

    ``idf`` float32 has a value for every column that the queries store.
    """
    with np.errstate(over="ignore"):  # an index refuses an overflow, with its row
        return replace(queries, values=np.asarray(queries.values) * idf[queries.indices])
