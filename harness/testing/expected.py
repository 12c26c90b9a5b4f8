"""Expected answers of an engine: exact scores of all pairs by the definition, in plain Python and NumPy."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.types import Float32Array, Float64Array, Ids, Similarity, SparseVectors, TermCounts, offsets_of
from harness.exact.bm25_models import Formula, weigh

_NOISE = 1e-9
_DIMENSIONS = 64
_EMPTY = 0.05


@dataclass(frozen=True, slots=True)
class Bm25:
    """The BM25 that an engine claims: a text engine computes all of it, an engine of sparse vectors at most the idf.

    ``idf`` is false for an engine that only computes the dot product. ``k1_plus_1`` is the constant factor that Lucene
    leaves out.
    """

    k1: float = 0.9
    b: float = 0.4
    k1_plus_1: bool = False
    idf: bool = True


class ExpectedScores(NamedTuple):
    """Exact scores float64 (Q, N), and which documents match at all, bool (Q, N).

    Errors of each query's scores are relative to ``scale`` float64 (Q,), or to the score itself if it is None.
    """

    scores: npt.NDArray[np.float64]
    matches: npt.NDArray[np.bool_]
    scale: npt.NDArray[np.float64] | None = None


class SparseSample(NamedTuple):
    """Documents and queries over the same columns."""

    documents: SparseVectors
    queries: SparseVectors


def bm25_idf(documents: int, containing: int) -> float:
    """Return BM25's idf of a term that ``containing`` of ``documents`` contain."""
    return math.log(1 + (documents - containing + 0.5) / (containing + 0.5))


def bm25_scores(documents: Sequence[str], queries: Sequence[str], bm25: Bm25) -> ExpectedScores:
    """Return BM25 of whitespace-separated words; N and the average length count documents with a word."""
    counts = _count(documents, queries)
    filled, containing = int(counts.documents.any(axis=1).sum()), np.count_nonzero(counts.documents, axis=0)
    idf = np.array([bm25_idf(filled, int(n)) for n in containing]) if bm25.idf else np.ones(len(containing))
    scores = (counts.queries * idf) @ _saturated(counts.documents, bm25).T
    return ExpectedScores(scores, (counts.queries > 0) @ (counts.documents > 0).T)


class _Counts(NamedTuple):
    """Return the frequency of each word in each text: float64 (N, V) and (Q, V)."""

    words: list[str]
    documents: Float64Array
    queries: Float64Array


def _count(documents: Sequence[str], queries: Sequence[str]) -> _Counts:
    words = sorted({word for text in (*documents, *queries) for word in text.split()})
    column_of = {word: column for column, word in enumerate(words)}
    counts = []
    for texts in (documents, queries):
        table = np.zeros((len(texts), len(words)))
        for row, text in enumerate(texts):
            for word, count in Counter(text.split()).items():
                table[row, column_of[word]] = count
        counts.append(table)
    return _Counts(words, *counts)


def count_words(documents: Sequence[str], queries: Sequence[str]) -> TermCounts:
    """Count whitespace-separated words, like an analyzer that leaves them unchanged."""
    counts = _count(documents, queries)
    used_columns = np.flatnonzero(counts.documents.any(axis=0))
    of_documents, of_queries = (
        _sparse(table[:, used_columns], len(used_columns)) for table in (counts.documents, counts.queries)
    )
    unknown = np.delete(counts.queries, used_columns, axis=1).sum(axis=1).astype(np.int32)
    return TermCounts(of_documents, of_queries, Ids.of(counts.words[column] for column in used_columns), unknown)


def model_scores(counts: TermCounts, formula: Formula) -> ExpectedScores:
    """Return the scores of an engine's own formula, and which documents share a term with each query."""
    weighted = weigh(counts, formula)
    documents, queries = (part.to_scipy().astype(np.float64).toarray() for part in weighted[:2])
    absent = 0.0 if weighted.absent is None else (queries @ weighted.absent.astype(np.float64))[:, None]
    return ExpectedScores(queries @ documents.T + absent, (queries != 0) @ (documents != 0).T)


def _saturated(counts: Float64Array, bm25: Bm25) -> Float64Array:
    """Return BM25's word weights without idf, from counts (N, V)."""
    lengths = counts.sum(axis=1, keepdims=True)
    average = lengths[lengths > 0].mean() if lengths.any() else 1.0
    factor = bm25.k1 + 1 if bm25.k1_plus_1 else 1.0
    norms = counts + bm25.k1 * (1 - bm25.b + bm25.b * lengths / average)
    weights: Float64Array = factor * np.divide(counts, norms, out=np.zeros_like(counts), where=counts > 0)
    return weights


def encode_words(documents: Sequence[str], queries: Sequence[str], bm25: Bm25) -> SparseSample:
    """Return vectors of whitespace-separated words: BM25 weights without idf for documents, counts for queries.

    Words that occur only in queries also have columns, so an unknown word is a column that no document uses.
    """
    counts = _count(documents, queries)
    width = max(1, len(counts.words))
    return SparseSample(_sparse(_saturated(counts.documents, bm25), width), _sparse(counts.queries, width))


def _sparse(table: Float64Array, dimensions: int) -> SparseVectors:
    rows, columns = np.nonzero(table)
    indptr = offsets_of(np.bincount(rows, minlength=len(table)))
    return SparseVectors(indptr, columns.astype(np.int32), table[rows, columns].astype(np.float32), dimensions)


def to_vectors(rows: Sequence[dict[int, float]], dimensions: int) -> SparseVectors:
    """Return sparse vectors from a ``{column: value}`` per row."""
    indptr = np.zeros(len(rows) + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    indices = np.array([column for row in rows for column in sorted(row)], dtype=np.int32)
    values = np.array([row[column] for row in rows for column in sorted(row)], dtype=np.float32)
    return SparseVectors(indptr, indices, values, dimensions)


def sparse_scores(sample: SparseSample, idf: Callable[[int, int], float] | None) -> ExpectedScores:
    """Return dot products of all queries with all documents; each query value is multiplied by any ``idf(N, df)``.

    N counts the documents with at least one stored value, df the documents with a value in the column.
    """
    documents, queries = sample
    columns, positions = np.unique(np.concatenate([documents.indices, queries.indices]), return_inverse=True)
    tables, stored = [], []
    for vectors, column in ((documents, positions[: documents.nnz]), (queries, positions[documents.nnz :])):
        row = np.repeat(np.arange(len(vectors)), np.diff(vectors.indptr))
        table, is_set = np.zeros((len(vectors), len(columns))), np.zeros((len(vectors), len(columns)), dtype=np.bool_)
        table[row, column], is_set[row, column] = vectors.values, True
        tables.append(table)
        stored.append(is_set)
    filled, containing = len(documents.nonempty_rows), np.count_nonzero(stored[0], axis=0)
    weights = np.array([idf(filled, int(n)) for n in containing]) if idf else 1.0
    return ExpectedScores((tables[1] * weights) @ tables[0].T, stored[1] @ stored[0].T)


def fused_scores(lists: Sequence[ExpectedScores]) -> ExpectedScores:
    """Return distribution-based fusion of lists of all matching documents: the sum of ``(s - m + 3 sd) / (6 sd)``.

    ``m`` and ``sd`` (with n - 1) are the mean and standard deviation of a list's scores; equal scores all become 0.5.
    Errors of scores grow by the ratio of their scale to ``6 sd``; the returned scale adds these ratios up.
    """
    shape = lists[0].scores.shape
    scores, matches, scale = np.zeros(shape), np.zeros(shape, dtype=np.bool_), np.ones(shape[0])
    for part in lists:
        for query, (query_scores, matching) in enumerate(zip(part.scores, part.matches, strict=True)):
            largest = (
                float(np.abs(query_scores[matching]).max(initial=0.0))
                if part.scale is None
                else float(part.scale[query])
            )
            spread = 6 * float(query_scores[matching].std(ddof=1)) if matching.sum() > 1 else 0.0
            if spread <= _NOISE * largest:
                scores[query, matching] += 0.5
                continue
            scores[query, matching] += (query_scores[matching] - query_scores[matching].mean()) / spread + 0.5
            scale[query] += largest / spread
        matches |= part.matches
    return ExpectedScores(scores, matches, scale)


class DenseSample(NamedTuple):
    """Vectors of documents and queries, float32 (n, d) and (q, d)."""

    documents: Float32Array
    queries: Float32Array


@lru_cache(maxsize=4096)
def _vector_of(word: str) -> Float64Array:
    vector: Float64Array = np.random.default_rng(zlib.crc32(word.encode())).standard_normal(_DIMENSIONS)
    vector.setflags(write=False)
    return vector


@lru_cache(maxsize=4096)
def _sum_of(text: str) -> Float32Array:
    vector = _EMPTY * _vector_of("")
    for word in sorted(text.split()):
        vector += _vector_of(word)
    return vector.astype(np.float32)


def embed_words(texts: Sequence[str]) -> Float32Array:
    """Return a vector for each text, float32 (n, 64): the sum of its words' normal vectors, seeded by the word.

    Every vector contains a small part of one more direction, so that a text without words has a vector, as with
    encoders. Equal bags of words have equal vectors, bit for bit; lengths differ, so that cosine, dot product and l2
    differ too.
    """
    return np.array([_sum_of(text) for text in texts], dtype=np.float32).reshape(len(texts), _DIMENSIONS)


def random_unit_vectors(seed: int, count: int, dimensions: int = _DIMENSIONS) -> Float32Array:
    """Draw directions evenly, float32 (count, dimensions): without clusters, the hardest case for a graph."""
    drawn = np.random.default_rng(seed).standard_normal((count, dimensions))
    vectors: Float32Array = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return vectors


def dense_scores(sample: DenseSample, similarity: Similarity) -> ExpectedScores:
    """Return every document's score, by NumPy in float64: cosine, dot product, or the negative squared distance.

    Every document matches every query. Errors are relative to the query's largest possible score, because a sum of
    cancelling products is only as exact as its largest parts: 1 for cosine, ``|q| max|d|`` for the dot product,
    ``(|q| + max|d|)²`` for l2.
    """
    documents, queries = (vectors.astype(np.float64) for vectors in sample)
    of_documents, of_queries = np.linalg.norm(documents, axis=1), np.linalg.norm(queries, axis=1)
    longest = of_documents.max(initial=0.0)
    scores: Float64Array
    scale: Float64Array
    if similarity == "l2":
        scores = np.empty((len(queries), len(documents)))
        for position, query in enumerate(queries):
            scores[position] = -np.square(documents - query).sum(axis=1)
        scale = np.square(of_queries + longest)
    else:
        scores = queries @ documents.T
        scale = of_queries * longest
    if similarity == "cosine":
        scores = scores / np.outer(of_queries, of_documents)
        scale = np.ones(len(queries))
    return ExpectedScores(scores, np.ones(scores.shape, dtype=np.bool_), scale)
