"""Measure the sparsity of learned sparse vectors and the cost of a search over them; keep their strongest weights."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.data.types import Float64Array, Int64Array, SparseVectors


class Sparsity(NamedTuple):
    """Mean active dimensions of a text, the share of dimensions that are not active, and ``avg_flops``.

    ``avg_flops`` is the mean number of multiplications of one query and one document: over all dimensions, the share of
    queries times the share of documents that have it. The names and definitions follow sentence-transformers'
    SparseInformationRetrievalEvaluator; FLOPS is from Paria et al., "Minimizing FLOPs to Learn Efficient Sparse
    Representations" (2020), equation 1.
    """

    query_active_dims: float
    query_sparsity_ratio: float
    corpus_active_dims: float
    corpus_sparsity_ratio: float
    avg_flops: float


class DimensionCounts:
    """Number of vectors in which each dimension is not zero, added up over batches; the vectors are not kept.

    ``used`` is int64 (dimensions,), ``vectors`` the number of vectors counted.
    """

    def __init__(self, dimensions: int = 0) -> None:
        self.used: Int64Array = np.zeros(dimensions, dtype=np.int64)
        self.vectors = 0

    def add(self, used: Int64Array, vectors: int) -> None:
        """Add the counts of a batch, int64 (dimensions,); the first batch sets the number of dimensions."""
        self.used = self.used + used if len(self.used) else used
        self.vectors += vectors

    @property
    def shares(self) -> Float64Array:
        """Share of vectors that have each dimension, float64 (dimensions,); zeros when nothing was counted."""
        shares: Float64Array = self.used / max(self.vectors, 1)
        return shares


def sparsity(documents: SparseVectors, queries: SparseVectors) -> Sparsity:
    """Measure documents and queries; stored zeros are inactive. Without rows or dimensions the ratio is 1."""
    width = max(documents.dimensions, queries.dimensions)
    return sparsity_of(_counts(documents, width), _counts(queries, width))


def sparsity_of(documents: DimensionCounts, queries: DimensionCounts) -> Sparsity:
    """Return the five values from counts over the same dimensions."""
    width = len(documents.used)
    active = [float(counts.used.sum()) / max(counts.vectors, 1) for counts in (queries, documents)]
    ratios = [1.0 - dimensions / width if width else 1.0 for dimensions in active]
    return Sparsity(active[0], ratios[0], active[1], ratios[1], float(queries.shares @ documents.shares))


def strongest(vectors: SparseVectors, most: int) -> SparseVectors:
    """Keep at most ``most`` values of each vector: the furthest from zero, of equal values, the lower dimensions.

    Their order within a row and the number of dimensions stay. Shorter vectors are returned unchanged. Raises
    AssertionError for ``most`` below 1.
    """
    if most < 1:
        raise AssertionError(f"{most} values of each vector")
    lengths = np.diff(vectors.indptr)
    if lengths.max(initial=0) <= most:
        return vectors
    owner = np.repeat(np.arange(len(vectors)), lengths)
    best_first = np.lexsort((vectors.indices, -np.abs(vectors.values), owner))
    rank = np.arange(vectors.nnz) - np.repeat(vectors.indptr[:-1], lengths)
    selected = np.sort(best_first[rank < most])
    indptr = np.zeros_like(vectors.indptr)
    np.cumsum(np.minimum(lengths, most), out=indptr[1:])
    return SparseVectors(indptr, vectors.indices[selected], vectors.values[selected], vectors.dimensions)


def _counts(vectors: SparseVectors, width: int) -> DimensionCounts:
    counts = DimensionCounts(width)
    counts.add(np.bincount(vectors.indices[vectors.values != 0], minlength=width), len(vectors))
    return counts
