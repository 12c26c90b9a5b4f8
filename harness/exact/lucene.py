"""Lucene's BM25 to the last bit: byte lengths and float32 arithmetic in Lucene's own order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.document_rows import (
    DocumentRows,
    WeighedRows,
    all_rows,
    blocks_of,
    values_per_row,
    with_values,
)
from harness.data.jit import read_only
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, SparseVectors, TermCounts
from harness.errors import DataError, UsageError
from harness.exact.index import check_dimensions
from harness.exact.postings import Postings, QueryRows, Rule, as_sparse, transpose
from harness.exact.shards import shard_count, spread_documents, spread_queries
from harness.exact.topk import Searcher, TopK
from harness.exact.weights import bm25_idf, document_frequencies, with_idf

LUCENE_RULE = Rule(lucene=True, mask=np.uint64(0xFFFFFFFFFFFFFFFF), empty=np.uint64(0x8000000000000000))
"""Lucene's contributions; every document that a term touches is a hit."""
_FREE = 24
"""Lengths below this are stored as they are: 255 less the code of the largest int (SmallFloat.NUM_FREE_VALUES)."""


def byte_lengths(lengths: Int64Array) -> npt.NDArray[np.uint8]:
    """Encode document lengths as Lucene stores them, in one byte (``SmallFloat.intToByte4``; uint8, same shape).

    Exact up to 40 terms; above, three bits follow the leading one and the rest is dropped. ``lengths`` from 0 to
    2**31 - 1.
    """
    above = np.maximum(lengths.astype(np.int64) - _FREE, 0)
    # bit length by float64: exact, because lengths are below 2**53
    bits = np.frexp(above.astype(np.float64))[1].astype(np.int64)
    shift = np.maximum(bits - 4, 0)
    code = np.where(bits < 4, above, ((above >> shift) & 7) | ((shift + 1) << 3))
    encoded: npt.NDArray[np.uint8] = np.where(lengths < _FREE, lengths, _FREE + code).astype(np.uint8)
    return encoded


def decoded_lengths() -> Float32Array:
    """Return the length that each of the 256 bytes encodes (``SmallFloat.byte4ToInt``; float32, shape (256,))."""
    code = np.arange(256, dtype=np.int64) - _FREE
    shift = np.maximum(code >> 3, 1) - 1
    above = np.where(code < 8, code, ((code & 7) | 8) << shift)
    decoded: Float32Array = (_FREE + above).astype(np.float32)
    return decoded


class QueryWeighing(NamedTuple):
    """Everything that decides scores except the documents' weights.

    ``idf`` float32 has a value for each column of the weighted documents; ``shards`` counts them. ``field_weights``
    float64 (F,) are the weights of the documents' fields, None for documents that are one text.
    """

    idf: Float32Array
    k1: float
    b: float
    k1_plus_1: bool
    shards: int
    field_weights: Float64Array | None = None

    def weigh(self, queries: Any) -> SparseVectors:
        """Return the weights of queries of term counts (Q, terms), over the columns of the weighted documents.

        Raises DataError for counts that are not positive integers, UsageError for another number of terms.
        """
        vectors = _checked_counts(as_sparse(queries, "queries"), "queries")
        check_dimensions(vectors, len(self.idf) // self.shards)
        boosts = np.asarray(vectors.values)
        if self.field_weights is not None:
            terms = vectors.dimensions // len(self.field_weights)
            boosts = boosts * self.field_weights.astype(np.float32)[np.asarray(vectors.indices) // terms]
        if self.k1_plus_1:
            boosts = boosts * (np.float32(1.0) + np.float32(self.k1))
        vectors = replace(vectors, values=boosts)
        if self.shards > 1:
            vectors = spread_queries(vectors, self.shards)
        return with_idf(vectors, self.idf)


class LuceneWeights(NamedTuple):
    """Weighted documents, one column for each term and shard, and the weighing of queries.

    A document's score no longer depends on other documents: any subset of rows can be searched.
    """

    documents: DocumentRows
    queries: QueryWeighing

    @classmethod
    def of(
        cls,
        counts: TermCounts,
        *,
        k1: float = 0.9,
        b: float = 0.4,
        k1_plus_1: bool = False,
        shards: Int32Array | None = None,
    ) -> LuceneWeights:
        """Weigh the documents of ``counts``; arguments and errors as :meth:`LuceneIndex.build`."""
        if not (np.isfinite(k1) and k1 >= 0.0) or not 0.0 <= b <= 1.0:
            raise UsageError(f"k1 is {k1} and b is {b}", fix="k1 must be at least 0 and finite, b from 0 to 1")
        documents = counts.documents
        for start, block in blocks_of(documents):
            _checked_counts(block, "documents", start)
        placed = np.zeros(len(documents), dtype=np.int32) if shards is None else shards
        if placed.shape != (len(documents),) or placed.min(initial=0) < 0:
            raise UsageError(
                f"shards have shape {placed.shape}", fix=f"give one, from 0, for each of {len(documents)} documents"
            )
        count, fields = shard_count(placed), 1 if counts.field_weights is None else len(counts.field_weights)
        lengths = counts.lengths[:, np.newaxis] if fields == 1 else counts.field_lengths()
        codes = byte_lengths(lengths)
        filled = np.zeros((count, fields), dtype=np.int64)
        inverse = np.empty((len(documents), fields), dtype=np.float32)
        for shard, field in np.ndindex(count, fields):
            inside = placed == shard
            of_field = lengths[inside, field]
            filled[shard, field] = np.count_nonzero(of_field)
            factors = _inverse(k1, b, int(of_field.sum()), int(filled[shard, field]))
            inverse[inside, field] = factors[codes[inside, field]]
        spread = spread_documents(documents, placed)
        frequencies = document_frequencies(spread)[0].reshape(count * fields, -1)
        idf = np.concatenate([bm25_idf(part, int(n)) for part, n in zip(frequencies, filled.ravel(), strict=True)])

        def weigh(block: SparseVectors, rows: npt.NDArray[Any]) -> SparseVectors:
            # 1 + f32(tf) * inv of every posting; the kernel divides, because that depends on the query
            if fields == 1:
                factors = values_per_row(inverse[rows, 0], block)
            else:
                field_of = block.indices // counts.terms_per_field % fields
                factors = inverse[values_per_row(rows, block), field_of]
            return with_values(block, np.float32(1.0) + block.values * factors)

        weighed = WeighedRows(spread, weigh, spread.dimensions)
        return cls(weighed, QueryWeighing(idf, k1, b, k1_plus_1, count, counts.field_weights))


class LuceneIndex:
    """Exact top-k under Lucene's ``BM25Similarity``: the same documents, order and score bits as ``IndexSearcher``.

    N, df and avgdl are taken over documents with at least one term, in each field separately if documents have several;
    this index rounds the sum of all fields once, and :mod:`harness.exact.field_sums` rounds as Lucene does. All in
    float32 unless stated: ``idf`` as :func:`bm25_idf`; ``avgdl = f32(sumTotalTermFreq / docCount)``; ``inv = 1 / (k1 *
    ((1 - b) + b * len(byte) / avgdl))``; ``weight = f32(count) * idf`` for a query term, whose count is multiplied by
    the field's weight; contribution ``weight - weight / (1 + f32(tf) * inv)``; contributions are added in float64 and
    rounded once. Every document with a query term is a hit, also with a score of 0 or less; equal scores are ordered by
    row ascending, which is Lucene's internal document number.

    With ``k1_plus_1`` the arithmetic follows ``LegacyBM25Similarity``, which OpenSearch and Elasticsearch use: a query
    term's count is multiplied by ``f32(1) + k1`` before its idf. With ``shards`` each shard has its own N, df and
    avgdl, as a server's shards have when they answer a query without consulting each other.
    """

    def __init__(self, searcher: Searcher, queries: QueryWeighing | None) -> None:
        """``queries`` weighs queries; None if they are weights already."""
        self._searcher = searcher
        self.queries = queries

    @classmethod
    def build(
        cls,
        counts: TermCounts,
        *,
        k1: float = 0.9,
        b: float = 0.4,
        k1_plus_1: bool = False,
        shards: Int32Array | None = None,
        order: Int32Array | None = None,
    ) -> LuceneIndex:
        """Build an index of the documents of ``counts``.

        Args:
            counts: Term counts of the documents.
            k1: Saturation of term counts.
            b: Normalisation by length.
            k1_plus_1: Multiply weights by k1 + 1.
            shards: int32 (n,), the shard of each document, counted from 0; None for a single one.
            order: int32 (n,), all rows in the order in which equal scores are ranked; None for ascending rows.

        Raises:
            UsageError: ``k1`` is negative or not finite, or ``b`` outside 0 to 1, which Lucene refuses too; or
                ``shards`` or ``order`` do not go with the documents.
            DataError: names the documents with counts that are not positive integers.
        """
        weights = LuceneWeights.of(counts, k1=k1, b=b, k1_plus_1=k1_plus_1, shards=shards)
        return cls(_searcher(all_rows(weights.documents), order), weights.queries)

    @classmethod
    def of_weights(cls, documents: SparseVectors, order: Int32Array | None = None) -> LuceneIndex:
        """Build an index of :class:`LuceneWeights`, or some of their rows; queries of it are weights too."""
        return cls(_searcher(documents, order), None)

    def __len__(self) -> int:
        return self._searcher.documents

    @property
    def dimensions(self) -> int:
        """Return the number of terms."""
        return (len(self._searcher.postings.columns) - 1) // (1 if self.queries is None else self.queries.shards)

    @property
    def lists(self) -> Postings:
        """Return the postings of each term, whose rows are positions in the order of ties."""
        return self._searcher.postings

    @property
    def index_bytes(self) -> int:
        """Return the bytes of the index: postings (8 each), column starts and IDF; workspaces not counted."""
        return self._searcher.index_bytes + (0 if self.queries is None else self.queries.idf.nbytes)

    def retrieve(self, queries: Any, k: int, threads: int = 1) -> TopK:
        """Return the best ``k`` documents of every query, best first. ``queries`` holds term counts (Q, dimensions).

        Threads, memory and errors as :meth:`SparseIndex.retrieve`; DataError names queries with counts that are not
        positive integers.
        """
        return self._searcher.retrieve(self._weighted(queries), k, threads)

    def filtered(self, matching: npt.NDArray[np.bool_]) -> LuceneIndex:
        """Return an index of only the documents which are ``matching``; see :meth:`SparseIndex.filtered`."""
        searcher = Searcher(self._searcher.only(matching), len(self), LUCENE_RULE, self._searcher.order)
        return LuceneIndex(searcher, self.queries)

    def score(self, queries: Any, indptr: Int64Array, rows: Int32Array) -> Float32Array:
        """Return the exact scores of listed documents; see :meth:`SparseIndex.score`."""
        return self._searcher.score(self._weighted(queries), indptr, rows)

    def _weighted(self, queries: Any) -> QueryRows:
        vectors = as_sparse(queries, "queries") if self.queries is None else self.queries.weigh(queries)
        return QueryRows(read_only(vectors.indptr), read_only(vectors.indices), read_only(vectors.values))


def _searcher(documents: SparseVectors, order: Int32Array | None) -> Searcher:
    if order is not None and not np.array_equal(np.sort(order), np.arange(len(documents))):
        raise UsageError("the order does not name each document once", fix=f"give the rows 0 to {len(documents) - 1}")
    return Searcher(transpose(documents, order), len(documents), LUCENE_RULE, order)


def _inverse(k1: float, b: float, total_terms: int, documents: int) -> Float32Array:
    """Return Lucene's norm cache: one factor for each byte length, every operation in float32."""
    unit, k1_f32, b_f32 = np.float32(1.0), np.float32(k1), np.float32(b)
    average = np.float32(total_terms / documents) if documents else unit
    with np.errstate(divide="ignore"):  # k1 = 0 gives infinity in Java as well, and then the weight itself
        inverse: Float32Array = unit / (k1_f32 * ((unit - b_f32) + b_f32 * decoded_lengths() / average))
    return inverse


def _checked_counts(counts: SparseVectors, source: str, first_row: int = 0) -> SparseVectors:
    vectors = as_sparse(counts, source, first_row)
    broken = np.flatnonzero((vectors.values < 1.0) | (vectors.values != np.floor(vectors.values)))
    if len(broken):
        rows = np.unique(np.searchsorted(vectors.indptr, broken, side="right") - 1) + first_row
        raise DataError(source, [f"row {row}: a count is not a positive whole number" for row in rows])
    return vectors
