"""BM25 term weights, by the harness's one definition.

``w(t, d) = tf · (k1 + 1) / (tf + k1 · (1 - b + b · |d| / avgdl))``, ``idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5))``.
A document's score is the sum, over the query's terms, of ``count in query · idf · w``. The vectors made here hold
``w`` for documents and the counts for queries; engines and references multiply by the IDF themselves
(:func:`harness.exact.bm25_idf`).

N, df and avgdl are taken over the documents that have at least one term, as Lucene and Qdrant do.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond" (2009), equation 3.15; the IDF is
Lucene's, whose ``1 +`` keeps it positive for terms in more than half of the documents.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.document_rows import DocumentRows, WeighedRows, all_rows, blocks_of, with_values
from harness.data.jit import kernel, read_only
from harness.data.types import Float32Array, Int64Array, SparseVectors, TermCounts
from harness.errors import UsageError

K1 = 0.9
"""Anserini's default; the lower, the faster repeats of a term stop counting."""
B = 0.4
"""Anserini's default; the higher, the more long documents lose."""


class Statistics(NamedTuple):
    """Statistics of a collection.

    ``documents`` is N, the number of documents with at least one term; ``avgdl`` their mean length in terms (0.0 for an
    empty collection); ``df`` int64 (V,) the number of documents that have each term.
    """

    documents: int
    avgdl: float
    df: Int64Array


def statistics(counts: TermCounts) -> Statistics:
    """Measure N, avgdl and df."""
    df = np.zeros(counts.documents.dimensions, dtype=np.int64)
    for _, block in blocks_of(counts.documents):
        df += np.bincount(block.indices, minlength=len(df))
    return Statistics(int(np.count_nonzero(counts.lengths)), _mean_length(counts), df)


def _mean_length(counts: TermCounts) -> float:
    """Measure only avgdl: counting df reads all stored data."""
    documents = int(np.count_nonzero(counts.lengths))
    return float(counts.lengths.sum() / documents) if documents else 0.0


def document_weights(
    counts: TermCounts,
    *,
    k1: float = K1,
    b: float = B,
    k1_plus_1: bool = True,
    avgdl: float | None = None,
    lengths: Int64Array | None = None,
) -> SparseVectors:
    """Return the BM25 weights of every document, computed in float64 and rounded once to float32.

    Documents without terms stay empty. With k1 = 0 a weight is 1 whenever the term occurs.

    Args:
        counts: Term counts of the documents.
        k1: At least 0.
        b: From 0 to 1.
        k1_plus_1: False leaves the constant factor (k1 + 1) out, as Lucene does since version 8: every score shrinks
            by that factor and no ranking changes.
        avgdl: Overrides the measured mean length.
        lengths: int64 (n,), overrides the documents' own lengths.

    Raises:
        UsageError: A parameter is out of range.
    """
    return all_rows(weighed_rows(counts, k1=k1, b=b, k1_plus_1=k1_plus_1, avgdl=avgdl, lengths=lengths))


def weighed_rows(
    counts: TermCounts,
    *,
    k1: float = K1,
    b: float = B,
    k1_plus_1: bool = True,
    avgdl: float | None = None,
    lengths: Int64Array | None = None,
) -> DocumentRows:
    """Return the documents of :func:`document_weights`, as rows whose weights are computed when they are read."""
    check_parameters(k1, b, avgdl)
    mean = _mean_length(counts) if avgdl is None else avgdl
    terms, factor = counts.lengths if lengths is None else lengths, k1 + 1.0 if k1_plus_1 else 1.0

    def weigh(block: SparseVectors, rows: npt.NDArray[Any]) -> SparseVectors:
        values = np.empty(block.nnz, dtype=np.float32)
        if len(values):
            indptr, counted, lengths_of_rows = read_only(block.indptr), read_only(block.values), read_only(terms[rows])
            _weigh(indptr, counted, lengths_of_rows, float(k1), float(b), mean, factor, values)
        return with_values(block, values)

    return WeighedRows(counts.documents, weigh, counts.documents.dimensions)


def check_parameters(k1: float, b: float, avgdl: float | None = None) -> None:
    """Raise one UsageError that names every parameter out of range."""
    problems = []
    if not (math.isfinite(k1) and k1 >= 0):
        problems.append(f"k1 is {k1}; it must be 0 or more")
    if not (math.isfinite(b) and 0 <= b <= 1):
        problems.append(f"b is {b}; it must lie between 0 and 1")
    if avgdl is not None and not (math.isfinite(avgdl) and avgdl > 0):
        problems.append(f"avgdl is {avgdl}; it must be more than 0")
    if problems:
        raise UsageError("BM25: " + "; ".join(problems), fix=f"the defaults are k1={K1}, b={B} and the measured avgdl")


@kernel
def _weigh(
    indptr: Int64Array,
    counts: Float32Array,
    lengths: Int64Array,
    k1: float,
    b: float,
    avgdl: float,
    factor: float,
    values: Float32Array,
) -> None:
    for row in range(len(indptr) - 1):
        norm = k1 * (1.0 - b + b * lengths[row] / avgdl)
        for position in range(indptr[row], indptr[row + 1]):
            tf = np.float64(counts[position])
            values[position] = np.float32(tf * factor / (tf + norm))
