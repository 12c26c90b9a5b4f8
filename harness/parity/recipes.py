"""Recipes of exact references. A cause of a difference is a field of a recipe, changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from harness.data.document_rows import DocumentRows, WeighedRows, blocks_of, values_per_row, with_values
from harness.data.filtering import Matching
from harness.data.types import (
    Float32Array,
    Ids,
    Int32Array,
    Int64Array,
    Run,
    Similarity,
    SparseVectors,
    TermCounts,
)
from harness.encoders import bm25
from harness.errors import UsageError
from harness.exact import bm25_idf, document_frequencies
from harness.exact.bm25_models import Bm25Formula, Formula, formula_of, weigh, weigh_rows
from harness.exact.shards import shard_count, spread_documents
from harness.exact.weights import impacts_of, to_impacts, with_idf
from harness.registry.parameters import ParameterValue

IdfFormula = Callable[[Int64Array, int], Float32Array]
"""IDF from document frequencies int64 (V,) and the number of documents."""


@dataclass(frozen=True, eq=False)
class Recipe:
    """Everything that decides the scores of a sparse reference.

    ``mode`` ``textbook``: ``documents`` are weights, ``queries`` query weights, and a contribution is
    ``f32(f32(query weight · idf) · document weight)``. ``mode`` ``lucene``: both are term counts, scored with Lucene's
    byte lengths and order of operations under ``k1``, ``b`` and ``k1_plus_1``. Another ``mode`` is the name of an
    engine's own BM25, or another package's ``module:function``: ``documents`` are the weights of its ``formula``, IDF
    and all. Contributions are always added in float64.

    Attributes:
        idf: "bm25" (from the document frequencies of ``documents``, over its rows that are not empty), None for no IDF,
            or float32 (V,) to use unchanged.
        counts: None for vectors that BM25 did not make; causes that need new weights cannot be tested then, and
            ``k1``, ``b`` and ``k1_plus_1`` mean nothing.
        shards: int32 (N,), the shard of each document if there are several: each shard then counts its own documents,
            and an ``idf`` to use unchanged is (shards, V).
        order: int32 (N,), the rows in the order in which ``lucene`` mode ranks equal scores, None for row order.
        matching: The documents that the filter of each query leaves, None for all of them; statistics count all
            documents.
        formula: How an engine with its own BM25 weighs a term, for such a ``mode``.
        absent: float32 (V,), what every document gets for a term of the query, for such a formula; None for nothing.
        candidates: The hits that each query may have, by ascending row, None for all documents; their scores mean
            nothing.
    """

    mode: str
    doc_ids: Ids
    query_ids: Ids
    documents: DocumentRows
    queries: SparseVectors
    idf: Literal["bm25"] | Float32Array | None = "bm25"
    counts: TermCounts | None = None
    k1: float = bm25.K1
    b: float = bm25.B
    k1_plus_1: bool = True
    shards: Int32Array | None = None
    order: Int32Array | None = None
    matching: Matching | None = None
    candidates: Run | None = None
    formula: Formula | None = None
    absent: Float32Array | None = None


@dataclass(frozen=True, eq=False)
class DenseRecipe:
    """Everything that decides the scores of a dense reference: vectors, float32 (n, d) and (Q, d), and similarity.

    ``missing`` int32 are rows that are never returned. ``matching`` and ``candidates`` as in :class:`Recipe`.
    """

    doc_ids: Ids
    query_ids: Ids
    documents: Float32Array
    queries: Float32Array
    similarity: Similarity
    missing: Int32Array
    matching: Matching | None = None
    candidates: Run | None = None


def make_recipe(
    kind: str,
    *,
    doc_ids: Ids,
    query_ids: Ids,
    counts: TermCounts | None = None,
    documents: DocumentRows | None = None,
    queries: SparseVectors | None = None,
    parameters: Mapping[str, ParameterValue],
    shards: Int32Array | None = None,
    scoring: str | None = None,
) -> Recipe:
    """Make the recipe of the reference that a backend's card names.

    Args:
        kind: ``lucene`` needs ``counts``; ``sparse`` takes the engine's vectors, or makes them from ``counts``.
        doc_ids: Ids of the documents.
        query_ids: Ids of the queries.
        counts: Term counts.
        documents: The engine's document vectors.
        queries: The engine's query vectors.
        parameters: The backend's; k1, b, k1_plus_1 (default false for ``lucene``, else true) and idf are read (does the
            engine multiply by the IDF? default true), and impact_scale: weights are then integers, query weights after
            multiplication by the IDF (default false).
        shards: The shard of each document, for a collection that has several.
        scoring: The model of an engine's own BM25, or another package's function
            (:func:`harness.exact.bm25_models.formula_of`): ``sparse`` then needs ``counts``, and the model says which
            parameters are read.

    Raises:
        UsageError: The kind or the scoring is unknown, or vectors or counts are missing.
    """
    if scoring is not None:
        if counts is None:
            raise UsageError(f"the reference by {scoring} needs term counts", fix="only BM25 backends have it")
        formula = formula_of(scoring, parameters)
        if counts.field_weights is not None and isinstance(formula, Bm25Formula) and formula.pools_fields:
            from harness.text.field_counts import pooled

            counts = pooled(counts)
        base = Recipe(scoring, doc_ids, query_ids, counts.documents, counts.queries, None, counts, shards=shards)
        return with_formula(base, counts, formula)
    k1, b = float(parameters.get("k1", bm25.K1)), float(parameters.get("b", bm25.B))
    if kind == "lucene":
        if counts is None:
            raise UsageError("the lucene reference needs term counts", fix="only BM25 backends have it")
        k1_plus_1 = bool(parameters.get("k1_plus_1", False))
        columns = counts.documents, counts.queries
        return Recipe("lucene", doc_ids, query_ids, *columns, "bm25", counts, k1, b, k1_plus_1, shards)
    if kind != "sparse":
        raise UsageError(f"there is no reference of kind '{kind}'", fix="use sparse or lucene")
    k1_plus_1 = bool(parameters.get("k1_plus_1", True))
    if counts is not None and documents is None:
        documents = bm25.document_weights(counts, k1=k1, b=b, k1_plus_1=k1_plus_1)
    if counts is not None and queries is None:
        queries = counts.queries
    if documents is None or queries is None:
        raise UsageError("the sparse reference needs document and query vectors, or term counts")
    idf: Literal["bm25"] | None = "bm25" if parameters.get("idf", True) else None
    scale = parameters.get("impact_scale")
    if scale is not None:  # the IDF counts the documents that have an impact left
        documents, idf = impacts_of(documents, float(scale)), None
        if parameters.get("idf", False):
            queries = with_idf(queries, bm25_idf(*document_frequencies(documents)))
        queries = to_impacts(queries, float(scale))
    return Recipe("textbook", doc_ids, query_ids, documents, queries, idf, counts, k1, b, k1_plus_1, shards)


def with_formula(recipe: Recipe, counts: TermCounts, formula: Formula) -> Recipe:
    """Return the recipe with the weights of a formula; each shard has its own statistics."""
    if recipe.shards is None:
        documents, absent = weigh_rows(counts, formula)
    else:
        values = np.empty(counts.documents.nnz, dtype=np.float32)
        shard_of_count = np.repeat(recipe.shards, np.diff(counts.documents.indptr))
        for shard in range(shard_count(recipe.shards)):
            rows = np.flatnonzero(recipe.shards == shard).astype(np.int32)
            values[shard_of_count == shard] = weigh(counts.of_documents(rows), formula).documents.values
        documents, absent = with_values(counts.documents, values), None
    return replace(recipe, documents=documents, formula=formula, absent=absent)


def empty_rows(documents: DocumentRows, rows: Int32Array) -> DocumentRows:
    """Return the same documents with nothing left in ``rows``."""

    def empty(block: SparseVectors, numbers: npt.NDArray[Any]) -> SparseVectors:
        return block.only(values_per_row(~np.isin(numbers, rows), block))

    return WeighedRows(documents, empty, documents.dimensions)


def idf_by_shard(recipe: Recipe, formula: IdfFormula, *, over_all: bool = False) -> Float32Array:
    """Return the IDF of ``formula``: float32 (V,), or (shards, V) for a recipe with shards.

    N is the number of documents with terms, ``over_all`` the number of all documents, in each shard separately.
    """
    documents, shards = recipe.documents, recipe.shards
    if shards is None:
        containing, with_terms = document_frequencies(documents)
        return formula(containing, len(documents) if over_all else with_terms)
    count = shard_count(shards)
    frequencies = document_frequencies(spread_documents(documents, shards))[0].reshape(count, -1)
    sizes = np.bincount(shards, minlength=count)
    if not over_all:
        sizes = np.zeros(count, dtype=np.int64)
        for start, block in blocks_of(documents):
            sizes += np.bincount(shards[start + block.nonempty_rows], minlength=count)
    return np.stack([formula(of_shard, int(size)) for of_shard, size in zip(frequencies, sizes, strict=True)])
