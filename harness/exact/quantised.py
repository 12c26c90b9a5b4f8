"""Learned weights as whole numbers, as impact indexes keep them."""

from __future__ import annotations

import numpy as np

from harness.data.types import Float32Array, SparseVectors
from harness.errors import UsageError

__all__ = ["LARGEST_IMPACT", "to_impacts", "with_idf"]

LARGEST_IMPACT = 2**24
"""Up to here every whole number is a float32."""


def to_impacts(vectors: SparseVectors, scale: float) -> SparseVectors:
    """Weights times ``scale``, rounded to whole numbers (halves to even); those that become 0 are left out.

    Raises UsageError for a weight below 0, and for one that becomes larger than :data:`LARGEST_IMPACT`.
    """
    rounded = np.rint(np.asarray(vectors.values, dtype=np.float64) * scale)
    wrong = (rounded < 0) | (rounded > LARGEST_IMPACT)
    if wrong.any():
        weight = vectors.values[int(np.argmax(wrong))]
        raise UsageError(
            f"a weight of {weight:g} times {scale:g} is no whole number from 0 to {LARGEST_IMPACT:,}",
            fix="choose another impact_scale; impacts cannot stand for weights below 0",
        )
    kept = rounded > 0
    before = np.concatenate([[0], np.cumsum(kept)])
    indptr = before[np.asarray(vectors.indptr)].astype(np.int64)
    return SparseVectors(indptr, vectors.indices[kept], rounded[kept].astype(np.float32), vectors.dimensions)


def with_idf(queries: SparseVectors, idf: Float32Array) -> SparseVectors:
    """Query weights times the IDF of their columns, each product rounded once to float32.

    ``idf`` float32 has a value for every column that the queries store.
    """
    return SparseVectors(
        queries.indptr, queries.indices, np.asarray(queries.values) * idf[queries.indices], queries.dimensions
    )
