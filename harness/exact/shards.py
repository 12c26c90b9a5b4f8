"""Documents in several shards as one matrix: each shard has columns of its own, so that it can count for itself.

A document has its terms in the columns of its shard, a query in the columns of all. A dot product is then the score in
the document's shard, and one index over all columns ranks like the merged answers of the shards.
"""

from __future__ import annotations

import numpy as np

from harness.data.types import Int32Array, SparseVectors


def shard_count(shards: Int32Array) -> int:
    """Return the number of shards, at least 1, of documents whose shards (int32 (n,)) are counted from 0."""
    return int(shards.max(initial=0)) + 1


def spread_documents(documents: SparseVectors, shards: Int32Array) -> SparseVectors:
    """Return the documents over the columns of all ``shards`` (int32, one for each document)."""
    offsets = np.repeat(shards, np.diff(documents.indptr)) * documents.dimensions
    columns = documents.dimensions * shard_count(shards)
    return SparseVectors(documents.indptr, documents.indices + offsets, documents.values, columns)


def spread_queries(queries: SparseVectors, count: int) -> SparseVectors:
    """Return the queries over the columns of ``count`` shards."""
    from scipy.sparse import hstack

    return SparseVectors.from_scipy(hstack([queries.to_scipy()] * count, format="csr"))
