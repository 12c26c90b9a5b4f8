"""Documents in several shards as one matrix: each shard has its own columns, so that it can count separately.

A document has its terms in the columns of its shard, a query in the columns of all. A dot product is then the score in
the document's shard, and one index over all columns ranks like the merged answers of the shards.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from harness.data.document_rows import DocumentRows, WeighedRows, values_per_row
from harness.data.types import Int32Array, SparseVectors


def shard_count(shards: Int32Array) -> int:
    """Return the number of shards, at least 1, of documents whose shards (int32 (n,)) are counted from 0."""
    return int(shards.max(initial=0)) + 1


def spread_documents(documents: DocumentRows, shards: Int32Array) -> DocumentRows:
    """Return the documents over the columns of all ``shards`` (int32, one for each document)."""
    count = shard_count(shards)
    if count == 1:
        return documents
    columns = documents.dimensions * count

    def spread(block: SparseVectors, rows: npt.NDArray[Any]) -> SparseVectors:
        offsets = values_per_row(shards[rows], block) * block.dimensions
        return SparseVectors(block.indptr, block.indices + offsets, block.values, columns)

    return WeighedRows(documents, spread, columns)


def spread_queries(queries: SparseVectors, count: int) -> SparseVectors:
    """Return the queries over the columns of ``count`` shards."""
    from scipy.sparse import hstack

    return SparseVectors.from_scipy(hstack([queries.to_scipy()] * count, format="csr"))
