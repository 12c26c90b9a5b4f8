"""Single changes of a recipe. Each returns None where it does not apply or would change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.data.terms import TermCounts
from harness.data.types import Int32Array, Int64Array, SparseVectors
from harness.encoders import bm25
from harness.exact import bm25_idf
from harness.exact.lucene import byte_lengths as encode_lengths
from harness.exact.lucene import decoded_lengths
from harness.exact.qdrant_model import qdrant_idf, qdrant_weights
from harness.parity.recipe import Recipe, empty_rows
from harness.parity.shards import idf_by_shard

__all__ = [
    "byte_lengths",
    "float16_weights",
    "float32_idf",
    "idf_over_all_documents",
    "lucene_arithmetic",
    "missing_documents",
    "missing_documents_idf_kept",
    "no_idf",
    "one_idf_for_all_shards",
    "other_constant_factor",
    "query_counts_ignored",
    "textbook_arithmetic",
    "uint8_weights",
]


def missing_documents(recipe: Recipe, missing: Int32Array) -> Recipe | None:
    """The missing documents are neither returned nor counted. Weights that were made before stay as they are."""
    lost = missing[np.diff(recipe.documents.indptr)[missing] > 0]
    return replace(recipe, documents=empty_rows(recipe.documents, lost)) if len(lost) else None


def missing_documents_idf_kept(recipe: Recipe, missing: Int32Array) -> Recipe | None:
    """The missing documents are not returned, but the IDF counts them: deleted and not yet cleaned up."""
    changed = missing_documents(recipe, missing)
    if changed is None or recipe.mode != "textbook" or recipe.idf != "bm25":
        return None
    return replace(changed, idf=idf_by_shard(recipe, bm25_idf))


def idf_over_all_documents(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """N is the number of all documents, those without terms included."""
    all_documents = len(recipe.documents)
    if recipe.mode != "textbook" or recipe.idf != "bm25" or len(recipe.documents.nonempty_rows) == all_documents:
        return None
    return replace(recipe, idf=idf_by_shard(recipe, bm25_idf, over_all=True))


def one_idf_for_all_shards(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """N and df are counted over the whole collection."""
    return replace(recipe, shards=None) if recipe.shards is not None and recipe.idf == "bm25" else None


def no_idf(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """The engine does not multiply by the IDF."""
    return replace(recipe, idf=None) if recipe.mode == "textbook" and recipe.idf is not None else None


def query_counts_ignored(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """Every query weight is 1."""
    if recipe.counts is None or (recipe.queries.values == 1).all():
        return None
    return replace(recipe, queries=replace(recipe.queries, values=np.ones_like(recipe.queries.values)))


def other_constant_factor(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """With (k1 + 1) where it was left out, without where it was not."""
    if recipe.mode != "textbook" or recipe.counts is None:
        return None
    changed = replace(recipe, k1_plus_1=not recipe.k1_plus_1)
    return replace(changed, documents=_weights(changed, recipe.counts))


def byte_lengths(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """Textbook weights from lengths that were rounded to one byte."""
    if recipe.mode != "textbook" or recipe.counts is None:
        return None
    lengths = decoded_lengths()[encode_lengths(recipe.counts.lengths)].astype(np.int64)
    return replace(recipe, documents=_weights(recipe, recipe.counts, lengths=lengths))


def lucene_arithmetic(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """Everything as Lucene computes it."""
    if recipe.mode != "textbook" or recipe.counts is None:
        return None
    counts = recipe.counts
    return replace(recipe, mode="lucene", documents=counts.documents, idf="bm25", k1_plus_1=False)


def textbook_arithmetic(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """Exact lengths where Lucene rounds them, without (k1 + 1)."""
    if recipe.mode != "lucene" or recipe.counts is None:
        return None
    return replace(recipe, mode="textbook", documents=_weights(recipe, recipe.counts))


def float16_weights(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """Document weights rounded to float16 (Qdrant's ``datatype=float16``)."""
    return _stored_as(recipe, "float16")


def uint8_weights(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """Document weights in 256 steps between each dimension's smallest and largest (Qdrant's ``datatype=uint8``).

    It is what a single segment does; with several segments each has limits of its own.
    """
    return _stored_as(recipe, "uint8")


def float32_idf(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """The IDF with every step in float32, as Qdrant computes it."""
    if recipe.mode != "textbook" or recipe.idf != "bm25":
        return None
    return replace(recipe, idf=idf_by_shard(recipe, lambda containing, documents: qdrant_idf(documents, containing)))


def _stored_as(recipe: Recipe, datatype: str) -> Recipe | None:
    """Weights as ``datatype`` holds them; the IDF does not change."""
    if recipe.mode != "textbook":
        return None
    return replace(recipe, documents=qdrant_weights(recipe.documents, datatype))


def _weights(recipe: Recipe, counts: TermCounts, lengths: Int64Array | None = None) -> SparseVectors:
    return bm25.document_weights(counts, k1=recipe.k1, b=recipe.b, k1_plus_1=recipe.k1_plus_1, lengths=lengths)
