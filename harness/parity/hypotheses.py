"""Why an engine may differ from its oracle: each hypothesis re-scores the queries with one thing changed.

A hypothesis is proven for a query when the engine's ranking is tie-equivalent to the re-scored one *and* every score of
the engine agrees with it, within the tolerance. Adding one is a function and a row of :data:`HYPOTHESES`, which are
tried in order. The last one proves less than the others: it changes nothing and widens the tolerance to what rounding
can do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.data import ranking
from harness.data.types import Float64Array, Int32Array, Int64Array, Run
from harness.parity.case import Case, Hypothesis, Rescored, plain
from harness.parity.dense_changes import dot_product, float16_documents, float16_vectors, missing_vectors
from harness.parity.dense_oracle import DenseOracle
from harness.parity.oracles import SparseOracle
from harness.parity.recipe import Recipe
from harness.parity.recipe_changes import (
    byte_lengths,
    float16_weights,
    float32_idf,
    idf_over_all_documents,
    lucene_arithmetic,
    missing_documents,
    missing_documents_idf_kept,
    no_idf,
    one_idf_for_all_shards,
    other_constant_factor,
    query_counts_ignored,
    textbook_arithmetic,
    uint8_weights,
)

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
