"""Single changes of a recipe. Each returns None where it does not apply or would change nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.analysis.terms import TermCounts
from harness.encoders import bm25
from harness.parity.recipe import Recipe, empty_rows
from harness.types import Float32Array, Int32Array, Int64Array, SparseVectors

__all__ = [
    "byte_lengths",
    "float16_weights",
    "idf_over_all_documents",
    "lucene_arithmetic",
    "missing_documents",
    "missing_documents_idf_kept",
    "no_idf",
    "other_constant_factor",
    "query_counts_ignored",
    "rounded_lengths",
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
    return replace(changed, idf=_idf(recipe.documents, len(recipe.documents.nonempty_rows)))


def idf_over_all_documents(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """N is the number of all documents, those without terms included."""
    all_documents = len(recipe.documents)
    if recipe.mode != "textbook" or recipe.idf != "bm25" or len(recipe.documents.nonempty_rows) == all_documents:
        return None
    return replace(recipe, idf=_idf(recipe.documents, all_documents))


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
    lengths = rounded_lengths(recipe.counts.lengths)
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
    if recipe.mode != "textbook":
        return None
    rounded = recipe.documents.values.astype(np.float16).astype(np.float32)
    return replace(recipe, documents=replace(recipe.documents, values=rounded))


def uint8_weights(recipe: Recipe, _missing: Int32Array) -> Recipe | None:
    """Document weights in 256 steps between each dimension's smallest and largest (Qdrant's ``datatype=uint8``).

    It is what a single segment does; with several segments each has limits of its own.
    """
    if recipe.mode != "textbook":
        return None
    documents = recipe.documents
    lowest = np.full(documents.dimensions, np.inf, dtype=np.float32)
    highest = np.full(documents.dimensions, -np.inf, dtype=np.float32)
    np.minimum.at(lowest, documents.indices, documents.values)
    np.maximum.at(highest, documents.indices, documents.values)
    step = ((highest - lowest) / np.float32(255))[documents.indices]
    low = lowest[documents.indices]
    # A dimension with a single value has steps of zero, and stores that value.
    places = np.divide(documents.values - low, step, out=np.zeros_like(low), where=step > 0).astype(np.float64)
    stored = np.clip(np.floor(places + 0.5), 0, 255).astype(np.float32)
    return replace(recipe, documents=replace(documents, values=low + stored * step))


def rounded_lengths(lengths: Int64Array) -> Int64Array:
    """Lengths as Lucene's byte holds them (int64): 24 + the four leading bits of the rest; always at most the truth."""
    rest = np.maximum(lengths - 24, 1)
    dropped = np.maximum(np.floor(np.log2(rest)).astype(np.int64) - 3, 0)
    return np.where(lengths < 40, lengths, 24 + (rest >> dropped << dropped))


def _idf(documents: SparseVectors, count: int) -> Float32Array:
    df = np.bincount(documents.indices, minlength=documents.dimensions).astype(np.int64)
    return bm25.idf(df, count).astype(np.float32)


def _weights(recipe: Recipe, counts: TermCounts, lengths: Int64Array | None = None) -> SparseVectors:
    return bm25.document_weights(counts, k1=recipe.k1, b=recipe.b, k1_plus_1=recipe.k1_plus_1, lengths=lengths)
