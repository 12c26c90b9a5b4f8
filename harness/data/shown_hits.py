"""The hits that reports show of a ranking, and the documents whose texts belong to them."""

from __future__ import annotations

import numpy as np

from harness.data.types import Int32Array, Int64Array

SHOWN_HITS = 10
"""Hits of each query that reports show."""
_MOST_DOCUMENTS = 20_000


def first_documents(indptr: Int64Array, rows: Int32Array) -> Int32Array:
    """Return the distinct documents that reports show of a ranking, those of first ranks first, int32 (D,).

    They are among the first ``SHOWN_HITS`` hits of some query, and at most 20,000.
    """
    positions = indptr[:-1][None, :] + np.arange(SHOWN_HITS)[:, None]
    documents = rows[positions[positions < indptr[1:][None, :]]]
    distinct, first = np.unique(documents, return_index=True)
    ordered: Int32Array = distinct[np.argsort(first, kind="stable")][:_MOST_DOCUMENTS]
    return ordered
