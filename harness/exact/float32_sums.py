"""Exact sparse search for engines that add in float32, in the order of the query's terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.data.jit import kernel, read_only
from harness.data.types import Float32Array, Int32Array, Int64Array, SparseVectors
from harness.errors import UsageError
from harness.exact.candidates import best_of_candidates
from harness.exact.index import SparseIndex
from harness.exact.postings import Postings, QueryRows, as_sparse
from harness.exact.topk import TopK, check_lists

_UNIT_ROUNDOFF = 2.0**-24


class Float32SumIndex:
    """Exact top-k under sums of float32, each addition rounded, over columns ascending; a repeated term is added again.

    Query values are counts: a term that occurs twice in a query is added twice. Weights are 0 or more; what all
    documents get for a term, if anything, is added at the end, and a document that gets nothing more is not a hit.
    Equal scores are ordered by row ascending.
    """

    def __init__(self, complete: SparseIndex, searched: SparseIndex, absent: Float32Array | None) -> None:
        self._complete, self._searched, self._absent = complete, searched, absent

    @classmethod
    def build(cls, documents: SparseVectors, absent: Float32Array | None = None) -> Float32SumIndex:
        """Build an index of weighted documents; ``absent`` float32 (V,) is what every document gets for a term.

        Raises UsageError for a weight below 0.
        """
        if documents.nnz and np.asarray(documents.values).min() < 0:
            raise UsageError("a weight is below 0: the order of float32 sums is not modelled for it")
        index = SparseIndex.build(documents)
        return cls(index, index, absent)

    def filtered(self, matching: npt.NDArray[np.bool_]) -> Float32SumIndex:
        """Return an index of only the documents which are ``matching``; see :meth:`SparseIndex.filtered`."""
        return Float32SumIndex(self._complete, self._complete.filtered(matching), self._absent)

    def retrieve(self, queries: SparseVectors, k: int, threads: int = 1) -> TopK:
        """Return the best ``k`` documents of every query, best first; fewer if fewer match.

        Candidates are the best by float64 sums, as many as it takes: a sum of n float32 terms is off by n roundings
        at most (Higham 2002, equation 4.4), so no other document can be among the best.
        """
        return TopK.joined([self._best(queries.slice(row, row + 1), k, threads) for row in range(len(queries))])

    def _best(self, query: SparseVectors, k: int, threads: int) -> TopK:
        slack = 1.0 + 4.0 * (float(np.asarray(query.values).sum()) + 2.0) * _UNIT_ROUNDOFF
        (of_all,) = self._score_all(query)
        return best_of_candidates(
            lambda width: self._searched.retrieve(query, width, threads),
            lambda top: self.score(query, top.indptr, top.rows),
            k,
            slack,
            above=float(of_all),
        )

    def _score_all(self, queries: SparseVectors) -> Float32Array:
        """Return what every document gets for each query, float32 (Q,), summed in NumPy's order."""
        if self._absent is None:
            return np.zeros(len(queries), dtype=np.float32)
        terms = (np.repeat(*queries.row(row)[:1], queries.row(row)[1].astype(np.int64)) for row in range(len(queries)))
        return np.array([self._absent[columns].sum() for columns in terms], dtype=np.float32)

    def score(self, queries: Any, indptr: Int64Array, rows: Int32Array) -> Float32Array:
        """Return the exact scores of listed documents; see :meth:`SparseIndex.score`."""
        vectors = as_sparse(queries, "queries")
        check_lists(indptr, rows, len(vectors), len(self._complete))
        scores = np.empty(len(rows), dtype=np.float32)
        lists = QueryRows(read_only(vectors.indptr), read_only(vectors.indices), read_only(vectors.values))
        starts, row_list = read_only(np.ascontiguousarray(indptr)), read_only(np.ascontiguousarray(rows))
        _score(self._complete.lists, lists, starts, row_list, np.zeros(len(self._complete), dtype=np.float32), scores)
        return scores if self._absent is None else scores + np.repeat(self._score_all(vectors), np.diff(indptr))


@kernel
def _score(
    postings: Postings,
    queries: QueryRows,
    indptr: Int64Array,
    rows: Int32Array,
    sums: Float32Array,
    scores: Float32Array,
) -> None:
    """Score the listed documents of every query; ``sums`` float32 (n,) are zeros, and are afterwards."""
    for query in range(len(indptr) - 1):
        if indptr[query] == indptr[query + 1]:
            continue
        for position in range(queries.indptr[query], queries.indptr[query + 1]):
            column = queries.columns[position]
            for _ in range(np.int64(queries.weights[position])):
                for posting in range(postings.columns[column], postings.columns[column + 1]):
                    row = postings.rows[posting]
                    sums[row] = np.float32(sums[row] + postings.values[posting])
        for hit in range(indptr[query], indptr[query + 1]):
            scores[hit] = sums[rows[hit]]
        for position in range(queries.indptr[query], queries.indptr[query + 1]):
            column = queries.columns[position]
            for posting in range(postings.columns[column], postings.columns[column + 1]):
                sums[postings.rows[posting]] = np.float32(0.0)
