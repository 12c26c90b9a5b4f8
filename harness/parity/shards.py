"""Collections in several shards, each with an IDF of its own: as one matrix with columns for every shard.

A document has its terms in the columns of its shard, a query in the columns of all: what meets is what the shard
scores, and one index over all of it ranks what the shards' answers, merged by score, rank.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from harness.data.types import Float32Array, Int32Array, Int64Array, SparseVectors
from harness.exact import bm25_idf, document_frequencies
from harness.parity.recipe import Recipe

__all__ = ["Spread", "idf_by_shard", "spread_documents", "spread_queries"]

Formula = Callable[[Int64Array, int], Float32Array]
"""IDF from document frequencies int64 (V,) and the number of documents."""


class Spread(NamedTuple):
    """Documents with columns for every shard, and the factor of each column (None: no IDF)."""

    documents: SparseVectors
    idf: Float32Array | None


def idf_by_shard(recipe: Recipe, formula: Formula, *, over_all: bool = False) -> Float32Array:
    """The IDF that ``formula`` gives: float32 (V,), or (shards, V) for a recipe with shards.

    N is the number of documents with terms, ``over_all`` the number of all documents, in each shard apart.
    """
    if recipe.shards is None:
        return _idf(recipe.documents, formula, over_all=over_all)
    parts = [np.flatnonzero(recipe.shards == shard) for shard in range(_count(recipe.shards))]
    return np.stack([_idf(recipe.documents.take(rows), formula, over_all=over_all) for rows in parts])


def _idf(documents: SparseVectors, formula: Formula, *, over_all: bool) -> Float32Array:
    containing, with_terms = document_frequencies(documents)
    return formula(containing, len(documents) if over_all else with_terms)


def spread_documents(recipe: Recipe, shards: Int32Array) -> Spread:
    """The recipe's documents over the columns of all ``shards`` (int32, one for each document)."""
    documents = recipe.documents
    offsets = np.repeat(shards, np.diff(documents.indptr)) * documents.dimensions
    columns = documents.dimensions * _count(shards)
    spread = SparseVectors(documents.indptr, documents.indices + offsets, documents.values, columns)
    if recipe.idf is None:
        return Spread(spread, None)
    return Spread(spread, idf_by_shard(recipe, bm25_idf).ravel() if isinstance(recipe.idf, str) else recipe.idf.ravel())


def spread_queries(queries: SparseVectors, shards: Int32Array) -> SparseVectors:
    """The queries over the columns of all shards."""
    from scipy.sparse import hstack

    return SparseVectors.from_scipy(hstack([queries.to_scipy()] * _count(shards), format="csr"))


def _count(shards: Int32Array) -> int:
    return int(shards.max(initial=0)) + 1
