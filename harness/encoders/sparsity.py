"""How sparse learned sparse vectors are, and what a search over them costs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.types import Float64Array, SparseVectors

__all__ = ["Sparsity", "sparsity"]


class Sparsity(NamedTuple):
    """Mean active dimensions of a text, the share of dimensions that are not active, and ``avg_flops``.

    ``avg_flops`` is the mean number of multiplications of one query and one document: over all dimensions, the share
    of queries times the share of documents that have it. The names and definitions are those of sentence-transformers'
    SparseInformationRetrievalEvaluator; FLOPS is of Paria et al., "Minimizing FLOPs to Learn Efficient Sparse
    Representations" (2020), equation 1.
    """

    query_active_dims: float
    query_sparsity_ratio: float
    corpus_active_dims: float
    corpus_sparsity_ratio: float
    avg_flops: float


def sparsity(documents: SparseVectors, queries: SparseVectors) -> Sparsity:
    """Measure both; stored zeros are inactive. Where there are no rows or dimensions the ratio is 1."""
    width = max(documents.dimensions, queries.dimensions)
    of_documents, of_queries = _shares(documents, width), _shares(queries, width)
    active = float(of_queries.sum()), float(of_documents.sum())
    ratios = [1.0 - one / width if width else 1.0 for one in active]
    return Sparsity(active[0], ratios[0], active[1], ratios[1], float(of_queries @ of_documents))


def _shares(vectors: SparseVectors, width: int) -> Float64Array:
    """The share of rows that have each dimension, float64 (width,)."""
    counts = np.bincount(vectors.indices[vectors.values != 0], minlength=width)
    shares: Float64Array = counts / max(len(vectors), 1)
    return shares
