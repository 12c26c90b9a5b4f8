"""BM25 as engines compute it: one formula with fields for all their differences, and a table of models.

A model makes a :class:`Bm25Formula` of a backend's parameters; :func:`weigh` makes term weights of it, which
:class:`harness.exact.SparseIndex` adds in float64. A card names its model: ``[reference] scoring = "NAME"``, or a
function of another package that weighs terms: see :mod:`harness.exact.scoring_functions`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from harness.data.document_rows import DocumentRows, WeighedRows, all_rows, values_per_row, with_values
from harness.data.types import Float32Array, Float64Array, Int64Array, SparseVectors, TermCounts
from harness.errors import UsageError, nearest
from harness.exact.lucene import byte_lengths, decoded_lengths
from harness.exact.scoring_functions import ForeignFormula
from harness.exact.weights import document_frequencies
from harness.registry.parameters import ParameterValue

Idf = Literal["lucene", "robertson", "atire", "bm25l", "bm25+"]
Saturation = Literal["bm25", "bm25l", "bm25+"]
Arithmetic = Literal["float64", "tantivy", "lance", "bm25s"]


@dataclass(frozen=True, slots=True)
class Bm25Formula:
    """A scoring function of the BM25 family.

    The weight of a term in a document is ``idf · (k1 + 1) · tf / (tf + k1 · (1 - b + b · |d| / avgdl))``, and a query
    counts a term as often as it has it.

    Attributes:
        k1: Saturation of term counts, at least 0.
        b: Normalisation by length, from 0 to 1.
        k1_plus_1: Multiply by k1 + 1; false leaves the constant factor out.
        idf: ``lucene`` is ``ln(1 + (N - df + 0.5) / (df + 0.5))``, ``robertson`` the same without the 1, ``atire``
            ``ln(N / df)``, ``bm25l`` ``ln((N + 1) / (df + 0.5))``, ``bm25+`` ``ln((N + 1) / df)``.
        idf_floor: Replaces an IDF that is not above 0; None leaves it unchanged.
        saturation: ``bm25`` as above; ``bm25l`` is ``(k1 + 1) · (c + delta) / (k1 + c + delta)`` of
            ``c = tf / (1 - b + b · |d| / avgdl)``, ``bm25+`` adds delta. Both give something for a term that a document
            lacks, which every document gets: it is separate, in :attr:`WeightedVectors.absent`.
        delta: Of these two.
        byte_lengths: Documents' lengths are rounded down to a byte, as Lucene stores them; avgdl is not.
        all_documents: N and avgdl count documents without terms too.
        least_average: lower bound of avgdl.
        total_lengths: The numerator of avgdl of each field, if it is not the sum of all lengths.
        arithmetic: ``float64`` rounds the weight once to float32, another name rounds as that engine does.
        float32_sums: Weights are added in float32, in the order of the query's terms.
        pools_fields: Of documents with several fields, a term's weighted counts in all fields are one count, in
            documents as long as their fields together; false weighs a term in each field by the field's statistics.
        boost: Multiplies the weights, in Tantivy's arithmetic ``idf · (k1 + 1)`` before it is rounded with a count.
    """

    k1: float = 0.9
    b: float = 0.4
    k1_plus_1: bool = True
    idf: Idf = "lucene"
    idf_floor: float | None = None
    saturation: Saturation = "bm25"
    delta: float = 0.0
    byte_lengths: bool = False
    all_documents: bool = False
    least_average: float = 0.0
    total_lengths: tuple[int, ...] | None = None
    arithmetic: Arithmetic = "float64"
    float32_sums: bool = False
    pools_fields: bool = False
    boost: float = 1.0


Formula = Bm25Formula | ForeignFormula


class WeightedVectors(NamedTuple):
    """Weights of terms: a score is the sum of ``query · document``; float32 values, over the terms of the counts.

    ``absent`` float32 (V,) is what a document gets for a term of the query, present or not; None for nothing.
    """

    documents: SparseVectors
    queries: SparseVectors
    absent: Float32Array | None = None


class Scoring(NamedTuple):
    """A model: its formula except k1 and b, or a function that makes the formula from parameters; and its source."""

    formula: Bm25Formula | Callable[[Mapping[str, ParameterValue]], Bm25Formula]
    source: str


def formula_of(scoring: str, parameters: Mapping[str, ParameterValue]) -> Formula:
    """Return the formula of a model, or of another package's ``module:function``, under a backend's parameters.

    Raises:
        UsageError: The model does not exist.
        CardError: The function does not exist.
    """
    if ":" in scoring:
        return ForeignFormula.of(scoring, parameters)
    if scoring not in SCORINGS:
        raise UsageError(
            f"there is no scoring '{scoring}'{nearest(scoring, SCORINGS)}",
            fix=f"known: {', '.join(SCORINGS)}; another package's function is named 'module:function'",
        )
    model = SCORINGS[scoring].formula
    formula = model if isinstance(model, Bm25Formula) else model(parameters)
    return replace(formula, k1=float(parameters["k1"]), b=float(parameters["b"]))


def idf_of(counts: TermCounts, formula: Bm25Formula) -> Float64Array:
    """Return the IDF of each term, float64 (V,), before any rounding."""
    return _idf(formula, statistics_of(counts, formula))


def weigh(counts: TermCounts, formula: Formula) -> WeightedVectors:
    """Return the weights of every document, IDF and all, and the counts of every query.

    Each weight is computed in float64 and rounded once to float32, or as the formula's arithmetic says. N, df and avgdl
    come from ``counts``; for a single shard, pass the counts of its documents. Raises EngineFailureError if a function
    of another package fails.
    """
    documents, absent = weigh_rows(counts, formula)
    return WeightedVectors(all_rows(documents), counts.queries, absent)


class WeighedDocuments(NamedTuple):
    """Weights of documents, computed when they are read, and ``absent`` as in :class:`WeightedVectors`."""

    documents: DocumentRows
    absent: Float32Array | None


def weigh_rows(counts: TermCounts, formula: Formula) -> WeighedDocuments:
    """Return the documents that :func:`weigh` returns, as rows whose weights are computed when they are read.

    A function of another package gets all postings at once, and its weights stay in memory.
    """
    documents = counts.documents
    if isinstance(formula, ForeignFormula):
        return WeighedDocuments(with_values(documents, formula.weigh(counts)), None)
    if counts.field_weights is not None:
        return _weigh_fields(counts, formula, counts.field_weights)
    statistics, compute = statistics_of(counts, formula), _COMPUTE[formula.arithmetic]

    def weigh_block(block: SparseVectors, rows: npt.NDArray[Any]) -> SparseVectors:
        lengths = values_per_row(statistics.lengths[rows], block)
        return with_values(block, compute(formula, statistics, block, lengths))

    return WeighedDocuments(WeighedRows(documents, weigh_block, documents.dimensions), _absent(formula, statistics))


def _weigh_fields(counts: TermCounts, formula: Bm25Formula, weights: Float64Array) -> WeighedDocuments:
    """Weigh each field as a collection of its own, whose weights are multiplied by the field's."""
    lengths, terms, compute = counts.field_lengths(), counts.terms_per_field, _COMPUTE[formula.arithmetic]
    df = document_frequencies(counts.documents)[0].reshape(len(weights), terms)
    formulas = [replace(formula, boost=float(weight)) for weight in weights]
    fields = [_read_statistics(of_field, df[field], formula, field) for field, of_field in enumerate(lengths.T)]

    def weigh_block(block: SparseVectors, rows: npt.NDArray[Any]) -> SparseVectors:
        values, row_of = np.empty(block.nnz, dtype=np.float32), values_per_row(rows, block)
        field_of = block.indices // terms
        for field, statistics in enumerate(fields):
            inside = field_of == field
            part = block.only(inside)
            part = replace(part, indices=part.indices - np.int32(field * terms), dimensions=terms)
            values[inside] = compute(formulas[field], statistics, part, statistics.lengths[row_of[inside]])
        return with_values(block, values)

    return WeighedDocuments(WeighedRows(counts.documents, weigh_block, counts.documents.dimensions), None)


class Statistics(NamedTuple):
    """N, avgdl (1 without terms), lengths float64 (n,) as the formula reads them, and df int64 (V,)."""

    documents: int
    average: float
    lengths: Float64Array
    df: Int64Array


def weigh_at_lengths(
    formula: Bm25Formula, statistics: Statistics, documents: SparseVectors, lengths: Float64Array
) -> Float32Array:
    """Return the weights of counts as if their documents had other lengths, float64, one for each count."""
    return _COMPUTE[formula.arithmetic](formula, statistics, documents, lengths)


_FREQUENCIES: WeakKeyDictionary[TermCounts, Int64Array] = WeakKeyDictionary()
"""The document frequencies of counts, as long as these live: several formulas read them."""


def statistics_of(counts: TermCounts, formula: Bm25Formula) -> Statistics:
    """Return the statistics of documents of one field that a formula reads."""
    if counts not in _FREQUENCIES:
        _FREQUENCIES[counts] = document_frequencies(counts.documents)[0]
    return _read_statistics(counts.lengths, _FREQUENCIES[counts], formula)


def _read_statistics(lengths: Int64Array, df: Int64Array, formula: Bm25Formula, field: int = 0) -> Statistics:
    documents = len(lengths) if formula.all_documents else int(np.count_nonzero(lengths))
    read = decoded_lengths()[byte_lengths(lengths)].astype(np.int64) if formula.byte_lengths else lengths
    total = lengths.sum() if formula.total_lengths is None else formula.total_lengths[field]
    average = max(float(total / documents) if lengths.any() else 1.0, formula.least_average)
    return Statistics(documents, average, read.astype(np.float64), df)


def _weigh_in_float64(
    formula: Bm25Formula,
    statistics: Statistics,
    documents: SparseVectors,
    lengths: Float64Array,
    dtype: type[np.floating[Any]] = np.float64,
) -> Float32Array:
    """Return what a document gets for a term beyond what all documents get; IDF and counts have ``dtype``."""
    indices, absent = np.asarray(documents.indices), _absent(formula, statistics)
    tf = np.asarray(documents.values, dtype=dtype)
    weights = _idf(formula, statistics).astype(dtype)[indices] * _saturated(formula, tf, lengths, statistics.average)
    weights = weights if formula.boost == 1.0 else weights * formula.boost
    beyond: Float32Array = (weights if absent is None else weights - absent[indices]).astype(np.float32)
    return beyond


def _saturated(
    formula: Bm25Formula, tf: npt.NDArray[np.floating], lengths: Float64Array, average: float
) -> npt.NDArray[np.float64]:
    """Return the factor by which the IDF is multiplied."""
    k1, b = formula.k1, formula.b
    relative = 1 - b + b * lengths / average
    if formula.saturation == "bm25l":
        shifted = tf / relative + formula.delta
        of_lengths: Float64Array = (k1 + 1) * shifted / (k1 + shifted)
        return of_lengths
    above = tf * (k1 + 1) if formula.k1_plus_1 else tf
    weight: Float64Array = above / (k1 * relative + tf)
    return weight + formula.delta if formula.saturation == "bm25+" else weight


def _absent(formula: Bm25Formula, statistics: Statistics) -> Float32Array | None:
    """Return what a document gets for a term that it lacks, float32 (V,); None for nothing."""
    if formula.saturation == "bm25":
        return None
    saturated = _saturated(formula, np.zeros(1), np.ones(1), 1.0)
    absent: Float32Array = (_idf(formula, statistics) * saturated).astype(np.float32)
    return absent


def _as_tantivy(
    formula: Bm25Formula, statistics: Statistics, documents: SparseVectors, lengths: Float64Array
) -> Float32Array:
    """Round each step: ``weight = idf · (k1 + 1)``, and its product with ``tf / (tf + norm)``."""
    idf, norm = _float32_parts(formula, statistics, lengths)
    weight = idf * (np.float32(1.0) + np.float32(formula.k1)) if formula.k1_plus_1 else idf
    weight = weight if formula.boost == 1.0 else weight * np.float32(formula.boost)
    tf = np.asarray(documents.values)
    saturated: Float32Array = (tf / (tf + norm)).astype(np.float32, copy=False)
    weights: Float32Array = weight[np.asarray(documents.indices)] * saturated
    return weights


def _as_lance(
    formula: Bm25Formula, statistics: Statistics, documents: SparseVectors, lengths: Float64Array
) -> Float32Array:
    """Round each step: ``(k1 + 1) · tf / (tf + norm)``, and its product with the IDF."""
    idf, norm = _float32_parts(formula, statistics, lengths)
    tf = np.asarray(documents.values)
    saturated = (np.float32(1.0) + np.float32(formula.k1)) * tf / (tf + norm)
    weights: Float32Array = (idf[np.asarray(documents.indices)] * saturated).astype(np.float32, copy=False)
    return weights


def _float32_parts(
    formula: Bm25Formula, statistics: Statistics, lengths: Float64Array
) -> tuple[Float32Array, Float32Array]:
    """Return the IDF of each term, and ``k1 · (1 - b + b · |d| / avgdl)`` of each length, every step rounded.

    The IDF is ``ln(1 + odds)``; if that sum is near 1, float32 keeps few digits of it. The logarithm is the C
    library's, which Tantivy calls; it is not always the nearest float32.
    """
    unit, half, k1, b = np.float32(1.0), np.float32(0.5), np.float32(formula.k1), np.float32(formula.b)
    df = statistics.df.astype(np.float32)
    odds = ((statistics.documents - statistics.df).astype(np.float32) + half) / (df + half)
    idf = _logf(unit + odds)
    average = np.float32(round(statistics.average * statistics.documents)) / np.float32(statistics.documents)
    norm: Float32Array = k1 * (unit - b + b * lengths.astype(np.float32) / average)
    return idf, norm


def _logf(values: Float32Array) -> Float32Array:
    """Return logarithms by the C library's ``logf``; rounded float64 logarithms if ``logf`` cannot be called."""
    distinct, positions = np.unique(values, return_inverse=True)
    try:
        logf = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):  # Windows has no library of the process
        rounded: Float32Array = np.log(values.astype(np.float64)).astype(np.float32)
        return rounded
    logf.restype, logf.argtypes = ctypes.c_float, [ctypes.c_float]
    logarithms: Float32Array = np.array([logf(value) for value in distinct.tolist()], dtype=np.float32)[positions]
    return logarithms


def _idf(formula: Bm25Formula, statistics: Statistics) -> Float64Array:
    """Return the IDF of each term, float64 (V,)."""
    df: Float64Array = statistics.df.astype(np.float64)
    documents = statistics.documents
    odds = (documents - df + 0.5) / (df + 0.5)
    match formula.idf:
        case "lucene":
            idf: Float64Array = np.log(1 + odds)
        case "robertson":
            idf = np.log(odds)
        case "atire":
            idf = np.log(documents / np.maximum(df, 1))
        case "bm25l":
            idf = np.log((documents + 1) / (df + 0.5))
        case "bm25+":
            idf = np.log((documents + 1) / np.maximum(df, 1))
    return idf if formula.idf_floor is None else np.where(idf > 0, idf, formula.idf_floor)


_BM25S: Mapping[str, Bm25Formula] = {
    "robertson": Bm25Formula(k1_plus_1=False, idf="robertson", idf_floor=0.0),
    "lucene": Bm25Formula(k1_plus_1=False),
    "atire": Bm25Formula(idf="atire"),
    "bm25l": Bm25Formula(idf="bm25l", saturation="bm25l"),
    "bm25+": Bm25Formula(idf="bm25+", saturation="bm25+"),
}


def _bm25s_formula(parameters: Mapping[str, ParameterValue]) -> Bm25Formula:
    variant = _BM25S[str(parameters["variant"])]
    delta = float(parameters["delta"]) if variant.saturation != "bm25" else 0.0
    return replace(variant, delta=delta, all_documents=True, arithmetic="bm25s", float32_sums=True)


_COMPUTE: Mapping[Arithmetic, Callable[[Bm25Formula, Statistics, SparseVectors, Float64Array], Float32Array]] = {
    "float64": _weigh_in_float64,
    "tantivy": _as_tantivy,
    "lance": _as_lance,
    # the IDF and tf · (k1 + 1) are rounded to float32; the rest is float64 until a weight is stored
    "bm25s": partial(_weigh_in_float64, dtype=np.float32),
}
SCORINGS: Mapping[str, Scoring] = {
    "milvus": Scoring(
        Bm25Formula(all_documents=True, least_average=1.0),
        "knowhere, src/index/sparse/sparse_inverted_index.h; N and the least avgdl were measured",
    ),
    "lancedb": Scoring(
        Bm25Formula(arithmetic="lance", float32_sums=True),
        "measured on lancedb 0.40.0: N and avgdl over documents with terms, all lengths exact",
    ),
    "tantivy": Scoring(
        Bm25Formula(byte_lengths=True, all_documents=True, arithmetic="tantivy", float32_sums=True),
        "tantivy, src/query/bm25.rs",
    ),
    "bm25s": Scoring(_bm25s_formula, "bm25s, bm25s/scoring.py; Kamphuis and others, ECIR 2020"),
    "sqlite": Scoring(
        Bm25Formula(idf="robertson", idf_floor=1e-6, all_documents=True, pools_fields=True),
        "SQLite, ext/fts5/fts5_aux.c, fts5Bm25Function",
    ),
}
"""Every model that a card may name, in addition to the functions of other packages."""
