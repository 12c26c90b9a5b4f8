"""Why an engine may differ from its oracle: each hypothesis re-scores the queries with one thing changed.

A hypothesis is proven for a query when the engine's ranking is tie-equivalent to the re-scored one *and* every score of
the engine agrees with it, within the tolerance. Adding one is a function and a row of :data:`HYPOTHESES`, which are
tried in order. The last one proves less than the others: it changes nothing and widens the tolerance to what rounding
can do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from harness import ranking
from harness.parity.oracles import Oracle, SparseOracle
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
    other_constant_factor,
    query_counts_ignored,
    textbook_arithmetic,
    uint8_weights,
)
from harness.types import Float32Array, Float64Array, Int32Array, Int64Array, Run

__all__ = ["HYPOTHESES", "Case", "Hypothesis", "Rescored"]

_UNIT_ROUNDOFF = 2.0**-24


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """Queries that need an explanation: the engine's run, its oracle for the same queries, and what is known.

    ``missing_rows`` are documents that the engine is known not to hold.
    """

    run: Run
    oracle: Oracle
    k: int
    tolerance: float
    missing_rows: Int32Array


class Rescored(NamedTuple):
    """The case under one changed assumption.

    ``run`` are the engine's hits that count, ``oracle`` the exact ranking, ``true_scores`` float32 aligned with
    ``run``; per query: ``k`` int64, and the relative tolerances of the ranking and of the scores, float64.
    """

    run: Run
    oracle: Run
    true_scores: Float32Array
    k: Int64Array
    tie_tolerance: Float64Array
    score_tolerance: Float64Array


class Hypothesis(Protocol):
    """One possible cause of a difference."""

    @property
    def name(self) -> str:
        """What the report calls the cause."""

    @property
    def meaning(self) -> str:
        """The cause in one sentence, for the documentation and the legend of a report."""

    def rescore(self, case: Case) -> Rescored | None:
        """The case with this one thing changed; None where it cannot be changed or would change nothing."""


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
        return None if recipe is None else _plain(case, case.run, SparseOracle(recipe))


@dataclass(frozen=True, slots=True)
class _Reread:
    """A cause that leaves the oracle as it is and reads the rankings otherwise."""

    name: str
    meaning: str
    reread: Callable[[Case], Rescored | None]

    def rescore(self, case: Case) -> Rescored | None:
        """Apply it."""
        return self.reread(case)


def _plain(case: Case, run: Run, oracle: Oracle) -> Rescored:
    queries = len(run.query_ids)
    tolerance = np.full(queries, case.tolerance)
    k = np.full(queries, case.k, dtype=np.int64)
    return Rescored(run, oracle.retrieve(case.k), oracle.score(run), k, tolerance, tolerance)


def _float32_rounding(case: Case) -> Rescored | None:
    """Higham, "Accuracy and Stability of Numerical Algorithms" (2002), equation 4.4: for n non-negative terms added in
    float32 in any order the relative error is at most (n - 1) u; one u each for a fused product and the oracle's own
    rounding. Two documents that change places may each be off by it.
    """
    if not isinstance(case.oracle, SparseOracle):
        return None
    recipe = case.oracle.recipe
    if recipe.queries.nnz == 0 or recipe.queries.values.min() < 0 or recipe.documents.values.min() < 0:
        return None
    terms = np.diff(recipe.queries.indptr)
    error = (terms + 1) * _UNIT_ROUNDOFF / (1 - (terms + 1) * _UNIT_ROUNDOFF)
    plain = _plain(case, case.run, case.oracle)
    return plain._replace(
        tie_tolerance=np.maximum(case.tolerance, 2 * error), score_tolerance=np.maximum(case.tolerance, error)
    )


def _fewer_hits(case: Case) -> Rescored | None:
    plain = _plain(case, case.run, case.oracle)
    returned = np.diff(case.run.indptr)
    if not ((returned > 0) & (returned < np.diff(plain.oracle.indptr))).any():
        return None
    k: Int64Array = np.where(returned > 0, returned, case.k)
    return plain._replace(oracle=ranking.cut(plain.oracle, k), k=k)


def _padding(case: Case) -> Rescored | None:
    plain = _plain(case, case.run, case.oracle)
    matching = plain.true_scores != 0
    if matching.all():
        return None
    kept = np.concatenate([[0], np.cumsum(matching)])
    run, scores = case.run, plain.true_scores[matching]
    indptr: Int64Array = kept[run.indptr].astype(np.int64)
    stripped = Run(run.query_ids, run.doc_ids, indptr, run.rows[matching], run.scores[matching])
    return plain._replace(run=stripped, true_scores=scores)


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
    _Reread("zero-score padding", "documents that match nothing fill the list up to k", _padding),
    _Changed("IDF over all documents", "N counts documents without terms too", idf_over_all_documents),
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
