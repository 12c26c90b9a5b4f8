"""Causes of a difference between an engine and its reference: each re-scores the queries with one thing changed.

A hypothesis is proven for a query when the engine's ranking is tie-equivalent to the re-scored one *and* every score of
the engine agrees with it, within the tolerance. Adding one is a function and a row of :data:`HYPOTHESES`, which are
tried in order. A change returns None where it does not apply or would change nothing. The last hypothesis proves less
than the others: it changes nothing and widens the tolerance to what rounding can do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from harness.data import ranking
from harness.data.terms import TermCounts
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, Run, Similarity, SparseVectors
from harness.encoders import bm25
from harness.exact import bm25_idf
from harness.exact.dense import vector_lengths
from harness.exact.lucene import byte_lengths as encode_lengths
from harness.exact.lucene import decoded_lengths
from harness.exact.qdrant_model import qdrant_idf, qdrant_weights
from harness.parity.case import Case, Hypothesis, Rescored, plain
from harness.parity.dense_oracle import DenseOracle, DenseRecipe
from harness.parity.oracles import SparseOracle
from harness.parity.recipe import Recipe, empty_rows, idf_by_shard

__all__ = ["HYPOTHESES"]

_UNIT_ROUNDOFF = 2.0**-24


@dataclass(frozen=True, slots=True)
class _Changed:
    """A cause that is another recipe of the oracle."""

    name: str
    meaning: str
    change: Callable[[Recipe, Int32Array], Recipe | None]

    def rescore(self, case: Case) -> Rescored | None:
        """Score everything anew under the changed recipe."""
        if not isinstance(case.oracle, SparseOracle):
            return None
        recipe = self.change(case.oracle.recipe, case.missing_rows)
        return None if recipe is None else plain(case, case.run, SparseOracle(recipe))


@dataclass(frozen=True, slots=True)
class _ChangedVectors:
    """A cause that is another oracle of dense vectors."""

    name: str
    meaning: str
    change: Callable[[DenseOracle, Int32Array], DenseOracle | None]

    def rescore(self, case: Case) -> Rescored | None:
        """Score everything anew with the changed vectors."""
        if not isinstance(case.oracle, DenseOracle):
            return None
        oracle = self.change(case.oracle, case.missing_rows)
        return None if oracle is None else plain(case, case.run, oracle)


@dataclass(frozen=True, slots=True)
class _Reread:
    """A cause that leaves the oracle as it is and reads the rankings otherwise."""

    name: str
    meaning: str
    reread: Callable[[Case], Rescored | None]

    def rescore(self, case: Case) -> Rescored | None:
        """Apply it."""
        return self.reread(case)


def _float32_rounding(case: Case) -> Rescored | None:
    """Two documents that change places may each be off by the error bound of their scores."""
    error = _error_of_vectors(case.oracle) if isinstance(case.oracle, DenseOracle) else _error_of_terms(case)
    if error is None:
        return None
    return plain(case, case.run, case.oracle)._replace(
        tie_tolerance=np.maximum(case.tolerance, 2 * error), score_tolerance=np.maximum(case.tolerance, error)
    )


def _error_of_terms(case: Case) -> Float64Array | None:
    """Higham, "Accuracy and Stability of Numerical Algorithms" (2002), equation 4.4: for n non-negative terms added in
    float32 in any order the relative error is at most (n - 1) u; one u each for a fused product and the oracle's own
    rounding.
    """
    if not isinstance(case.oracle, SparseOracle):
        return None
    recipe = case.oracle.recipe
    if recipe.queries.nnz == 0 or recipe.queries.values.min() < 0 or recipe.documents.values.min() < 0:
        return None
    terms = np.diff(recipe.queries.indptr) + 1
    error: Float64Array = terms * _UNIT_ROUNDOFF / (1 - terms * _UNIT_ROUNDOFF)
    return error


def _error_of_vectors(oracle: DenseOracle) -> Float64Array:
    """Equation 3.5 there: a product of vectors of d dimensions is off by d u of the product of the lengths at most, in
    any order. Dividing by lengths takes two such sums, each of which counts half, and a few more roundings.
    """
    dimensions = oracle.recipe.queries.shape[1]
    steps = (2 if oracle.mode == "cosine" else 1) * dimensions + 16
    return np.full(len(oracle.recipe.query_ids), steps * _UNIT_ROUNDOFF / (1 - steps * _UNIT_ROUNDOFF))


def _fewer_hits(case: Case) -> Rescored | None:
    same = plain(case, case.run, case.oracle)
    returned = np.diff(case.run.indptr)
    if not ((returned > 0) & (returned < np.diff(same.oracle.indptr))).any():
        return None
    k: Int64Array = np.where(returned > 0, returned, case.k)
    return same._replace(oracle=ranking.cut(same.oracle, k), k=k)


def _missed(case: Case) -> Rescored | None:
    """The exact ranking of what was found, and nothing else: a graph finds the neighbours of what it visits."""
    if not case.graph or not isinstance(case.oracle, DenseOracle):
        return None
    same = plain(case, case.run, case.oracle)
    found = ranking.order(case.run.with_scores(same.true_scores))
    return same._replace(oracle=found, k=np.diff(found.indptr))


def _padding(case: Case) -> Rescored | None:
    if not isinstance(case.oracle, SparseOracle):
        return None
    same = plain(case, case.run, case.oracle)
    matching = same.true_scores != 0
    if matching.all():
        return None
    kept = np.concatenate([[0], np.cumsum(matching)])
    run, scores = case.run, same.true_scores[matching]
    indptr: Int64Array = kept[run.indptr].astype(np.int64)
    stripped = Run(run.query_ids, run.doc_ids, indptr, run.rows[matching], run.scores[matching])
    return same._replace(run=stripped, true_scores=scores)


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


def missing_vectors(oracle: DenseOracle, missing_rows: Int32Array) -> DenseOracle | None:
    """The engine does not hold these documents."""
    return oracle.without(missing_rows) if len(missing_rows) else None


def float16_documents(oracle: DenseOracle, _missing: Int32Array) -> DenseOracle | None:
    """The engine stores documents as float16; under cosine it divides them by their lengths before."""
    documents, queries = _normalised(oracle.recipe)
    return _of(oracle.recipe, _halved(documents), queries)


def float16_vectors(oracle: DenseOracle, _missing: Int32Array) -> DenseOracle | None:
    """As :func:`float16_documents`, and queries are rounded too."""
    documents, queries = _normalised(oracle.recipe)
    return _of(oracle.recipe, _halved(documents), _halved(queries))


def dot_product(oracle: DenseOracle, _missing: Int32Array) -> DenseOracle | None:
    """The engine takes the dot product where the cosine was asked for: it does not divide by the lengths."""
    if oracle.recipe.similarity != "cosine":
        return None
    return DenseOracle(replace(oracle.recipe, similarity="dot"), whole=oracle)


def _normalised(recipe: DenseRecipe) -> tuple[Float32Array, Float32Array]:
    if recipe.similarity != "cosine":
        return recipe.documents, recipe.queries
    return _directions(recipe.documents), _directions(recipe.queries)


def _directions(vectors: Float32Array) -> Float32Array:
    divided: Float32Array = (vectors / vector_lengths(vectors)[:, None]).astype(np.float32)
    return divided


def _halved(vectors: Float32Array) -> Float32Array | None:
    with np.errstate(over="ignore"):
        rounded = vectors.astype(np.float16).astype(np.float32)
    return rounded if np.isfinite(rounded).all() else None


def _of(recipe: DenseRecipe, documents: Float32Array | None, queries: Float32Array | None) -> DenseOracle | None:
    """Vectors that are divided by their lengths already are scored by their dot product."""
    if documents is None or queries is None:
        return None
    similarity: Similarity = "l2" if recipe.similarity == "l2" else "dot"
    return DenseOracle(replace(recipe, documents=documents, queries=queries, similarity=similarity))


HYPOTHESES: tuple[Hypothesis, ...] = (
    _Changed("float32 IDF", "every step of the IDF is rounded to float32, as Qdrant does", float32_idf),
    _Changed(
        "missing documents", "the engine does not hold these documents, and counts without them", missing_documents
    ),
    _Changed(
        "missing documents, IDF kept",
        "the engine does not return these documents, but its IDF still counts them",
        missing_documents_idf_kept,
    ),
    _Reread("fewer hits", "the engine returned the right documents, and stopped early", _fewer_hits),
    _ChangedVectors("missing vectors", "the engine does not hold these documents", missing_vectors),
    _Reread(
        "approximate search",
        "the right documents of those that were found, in their order with their scores; the graph missed better ones",
        _missed,
    ),
    _ChangedVectors(
        "float16 documents", "the index stores documents as float16, for cosine after normalising", float16_documents
    ),
    _ChangedVectors("float16 vectors", "documents and queries are rounded to float16", float16_vectors),
    _ChangedVectors("dot product", "the engine does not divide by the lengths", dot_product),
    _Reread("zero-score padding", "documents that match nothing fill the list up to k", _padding),
    _Changed("IDF over all documents", "N counts documents without terms too", idf_over_all_documents),
    _Changed("one IDF for all shards", "N and df are those of the whole collection", one_idf_for_all_shards),
    _Changed("no IDF", "the engine leaves the IDF out", no_idf),
    _Changed("query counts ignored", "a repeated query term counts once", query_counts_ignored),
    _Changed("factor (k1 + 1)", "the constant factor is left out, or put in", other_constant_factor),
    _Changed("byte lengths", "document lengths are rounded to Lucene's single byte", byte_lengths),
    _Changed("Lucene's arithmetic", "byte lengths, no (k1 + 1), float32 in Lucene's order", lucene_arithmetic),
    _Changed("exact lengths", "document lengths are not rounded to a byte", textbook_arithmetic),
    _Changed("float16 weights", "the index stores weights as float16", float16_weights),
    _Changed("uint8 weights", "the index stores weights as uint8, scaled per posting list", uint8_weights),
    _Reread(
        "within float32 rounding",
        "nothing is scored anew: the scores lie within the error bound of float32 sums in any order",
        _float32_rounding,
    ),
)
"""Every cause that can be proven, in the order in which they are tried."""
