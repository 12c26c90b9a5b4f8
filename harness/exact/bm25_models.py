"""BM25 as engines compute it: one formula with fields for everything by which they differ, and a table of models.

A model makes a :class:`Bm25Formula` of a backend's parameters; :func:`weigh` makes term weights of it, which
:class:`harness.exact.SparseIndex` adds in float64. A card names its model: ``[reference] scoring = "NAME"``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from harness.data.types import Float32Array, Float64Array, Int64Array, SparseVectors, TermCounts
from harness.errors import UsageError, nearest
from harness.exact.lucene import byte_lengths, decoded_lengths
from harness.registry.parameters import ParameterValue

__all__ = ["SCORINGS", "Bm25Formula", "Scoring", "Weighted", "formula_of", "weigh"]

Idf = Literal["lucene", "robertson"]


@dataclass(frozen=True, slots=True)
class Bm25Formula:
    """A scoring function of the BM25 family.

    The weight of a term in a document is ``idf · (k1 + 1) · tf / (tf + k1 · (1 - b + b · |d| / avgdl))``, and a query
    counts a term as often as it has it.

    Attributes:
        k1: Saturation of term counts, at least 0.
        b: Normalisation by length, from 0 to 1.
        k1_plus_1: Multiply by k1 + 1; false leaves the constant factor out.
        idf: ``lucene`` is ``ln(1 + (N - df + 0.5) / (df + 0.5))``, ``robertson`` the same without the 1.
        idf_floor: Replaces an IDF that is not above 0; None leaves it as it is.
        byte_lengths: Documents' lengths are rounded down to a byte, as Lucene stores them; avgdl is not.
        all_documents: N and avgdl count documents without terms too.
        least_average: avgdl is never taken to be below this.
        float32: Each step is rounded to float32, in the order of :func:`_in_float32`.
    """

    k1: float
    b: float
    k1_plus_1: bool = True
    idf: Idf = "lucene"
    idf_floor: float | None = None
    byte_lengths: bool = False
    all_documents: bool = False
    least_average: float = 0.0
    float32: bool = False


class Weighted(NamedTuple):
    """Weights of terms: a score is the sum of ``query · document``; float32 values, over the terms of the counts."""

    documents: SparseVectors
    queries: SparseVectors


class Scoring(NamedTuple):
    """A model: what makes a formula of a backend's parameters, and the source of the formula."""

    formula: Callable[[Mapping[str, ParameterValue]], Bm25Formula]
    source: str


def formula_of(scoring: str, parameters: Mapping[str, ParameterValue]) -> Bm25Formula:
    """Return the formula of a model under a backend's parameters; raises UsageError for a model that is not known."""
    if scoring not in SCORINGS:
        raise UsageError(
            f"there is no scoring '{scoring}'{nearest(scoring, SCORINGS)}", fix=f"known: {', '.join(SCORINGS)}"
        )
    return SCORINGS[scoring].formula(parameters)


def weigh(counts: TermCounts, formula: Bm25Formula) -> Weighted:
    """Return the weights of every document, IDF and all, and the counts of every query.

    Each weight is computed in float64 and rounded once to float32, or every step is, for a formula of float32.
    N, df and avgdl are those of ``counts``: of one shard, hand over the counts of its documents.
    """
    documents = counts.documents
    statistics = _statistics(counts, formula)
    lengths = statistics.lengths[np.repeat(np.arange(len(documents)), np.diff(documents.indptr))]
    compute = _in_float32 if formula.float32 else _in_float64
    values = compute(formula, statistics, documents, lengths)
    return Weighted(SparseVectors(documents.indptr, documents.indices, values, documents.dimensions), counts.queries)


class _Statistics(NamedTuple):
    """N, avgdl (1 for a collection without terms), lengths float64 (n,) as the formula reads them, and df (V,)."""

    documents: int
    average: float
    lengths: Float64Array
    df: Int64Array


def _statistics(counts: TermCounts, formula: Bm25Formula) -> _Statistics:
    lengths = counts.lengths
    documents = len(lengths) if formula.all_documents else int(np.count_nonzero(lengths))
    average = float(lengths.sum() / documents) if documents and lengths.any() else 1.0
    average = max(average, formula.least_average)
    read = decoded_lengths()[byte_lengths(lengths)].astype(np.int64) if formula.byte_lengths else lengths
    df = np.bincount(np.asarray(counts.documents.indices), minlength=counts.documents.dimensions)
    return _Statistics(documents, average, read.astype(np.float64), df.astype(np.int64))


def _in_float64(
    formula: Bm25Formula, statistics: _Statistics, documents: SparseVectors, lengths: Float64Array
) -> Float32Array:
    tf = np.asarray(documents.values, dtype=np.float64)
    factor = formula.k1 + 1.0 if formula.k1_plus_1 else 1.0
    norm = formula.k1 * (1.0 - formula.b + formula.b * lengths / statistics.average)
    weights = _idf(formula, statistics)[np.asarray(documents.indices)] * factor * tf / (tf + norm)
    rounded: Float32Array = weights.astype(np.float32)
    return rounded


def _in_float32(
    formula: Bm25Formula, statistics: _Statistics, documents: SparseVectors, lengths: Float64Array
) -> Float32Array:
    """Round each step: ``weight = idf · (k1 + 1)``, ``norm = k1 · (1 - b + b · |d| / avgdl)``, ``tf / (tf + norm)``."""
    unit, k1, b = np.float32(1.0), np.float32(formula.k1), np.float32(formula.b)
    average = np.float32(statistics.average)
    idf = _idf(formula, statistics).astype(np.float32)
    weight = idf * (unit + k1) if formula.k1_plus_1 else idf
    norm = k1 * (unit - b + b * lengths.astype(np.float32) / average)
    tf = np.asarray(documents.values)
    saturated: Float32Array = (tf / (tf + norm)).astype(np.float32, copy=False)
    weights: Float32Array = weight[np.asarray(documents.indices)] * saturated
    return weights


def _idf(formula: Bm25Formula, statistics: _Statistics) -> Float64Array:
    """Return the IDF of each term, float64 (V,)."""
    odds = (statistics.documents - statistics.df + 0.5) / (statistics.df + 0.5)
    match formula.idf:
        case "lucene":
            idf: Float64Array = np.log(1.0 + odds)
        case "robertson":
            idf = np.log(odds)
    return idf if formula.idf_floor is None else np.where(idf > 0, idf, formula.idf_floor)


def _as_parameters_say(parameters: Mapping[str, ParameterValue]) -> tuple[float, float]:
    return float(parameters["k1"]), float(parameters["b"])


def _tantivy(parameters: Mapping[str, ParameterValue]) -> Bm25Formula:
    k1, b = _as_parameters_say(parameters)
    return Bm25Formula(k1, b, byte_lengths=True, all_documents=True, float32=True)


def _sqlite(parameters: Mapping[str, ParameterValue]) -> Bm25Formula:
    k1, b = _as_parameters_say(parameters)
    return Bm25Formula(k1, b, idf="robertson", idf_floor=1e-6, all_documents=True)


def _milvus(parameters: Mapping[str, ParameterValue]) -> Bm25Formula:
    k1, b = _as_parameters_say(parameters)
    return Bm25Formula(k1, b, all_documents=True, least_average=1.0)


SCORINGS: Mapping[str, Scoring] = {
    "milvus": Scoring(
        _milvus, "knowhere, src/index/sparse/sparse_inverted_index.h; N and the least avgdl were measured"
    ),
    "tantivy": Scoring(_tantivy, "tantivy, src/query/bm25.rs"),
    "sqlite": Scoring(_sqlite, "SQLite, ext/fts5/fts5_aux.c, fts5Bm25Function"),
}
"""Every model that a card may name; an engine with a BM25 of its own adds a line."""
