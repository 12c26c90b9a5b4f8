"""Lucene's sums over several fields: the score of a field with a weight is rounded before the fields are added.

A query of several fields is a disjunction of one query for each field, which is multiplied by the field's weight
(``BoostQuery``) and has a score of its own, a float. Lucene adds these scores in float64 and rounds the sum. It takes
the query of a field of weight 1 apart (``BooleanQuery.rewrite``), so that the terms of such fields are added directly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.data.jit import inner_kernel, kernel, read_only
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, SparseVectors
from harness.exact.candidates import best_of_candidates
from harness.exact.lucene import LUCENE_RULE, LuceneIndex
from harness.exact.postings import Postings, QueryRows, Rule, as_sparse, contribution
from harness.exact.topk import TopK, check_lists

_SLACK = 1.0 + 2.0**-20
"""More than the rounding of fields can raise a sum of scores that are 0 or more."""


def rounded_columns(weights: Float64Array, terms: int, shards: int) -> Int64Array:
    """Return the first column and the end of each sum that is rounded: int64 (R, 2).

    ``weights`` (F,) are the fields' weights; each of the ``shards`` has ``terms`` columns for each field.
    """
    starts = [
        (shard * len(weights) + field) * terms for shard in range(shards) for field in np.flatnonzero(weights != 1.0)
    ]
    first: Int64Array = np.array(starts, dtype=np.int64)
    return np.stack([first, first + terms], axis=1)


class FieldSumIndex:
    """Exact top-k under Lucene's sums of several fields, of :class:`harness.exact.lucene.LuceneWeights`.

    Queries are weights. Every document with a term of the query is a hit; equal scores are ordered as in
    :class:`LuceneIndex`.
    """

    def __init__(
        self, complete: LuceneIndex, searched: LuceneIndex, rounded: Int64Array, order: Int32Array | None
    ) -> None:
        self._complete, self._searched, self._rounded, self._order = complete, searched, rounded, order
        self._position_of: Int32Array | None = None
        if order is not None:
            self._position_of = np.empty(len(order), dtype=np.int32)
            self._position_of[order] = np.arange(len(order), dtype=np.int32)

    @classmethod
    def build(cls, documents: SparseVectors, rounded: Int64Array, order: Int32Array | None = None) -> FieldSumIndex:
        """Build an index of weighted documents; ``rounded`` as :func:`rounded_columns` returns them."""
        index = LuceneIndex.of_weights(documents, order)
        return cls(index, index, rounded, order)

    def filtered(self, matching: npt.NDArray[np.bool_]) -> FieldSumIndex:
        """Return an index of only the documents which are ``matching``; see :meth:`SparseIndex.filtered`."""
        return FieldSumIndex(self._complete, self._complete.filtered(matching), self._rounded, self._order)

    def retrieve(self, queries: SparseVectors, k: int, threads: int = 1) -> TopK:
        """Return the best ``k`` documents of every query, best first; fewer if fewer match.

        Candidates are the best by sums that are rounded once, as many as it takes.
        """
        return TopK.joined([self._best(queries.slice(row, row + 1), k, threads) for row in range(len(queries))])

    def _best(self, query: SparseVectors, k: int, threads: int) -> TopK:
        return best_of_candidates(
            lambda width: self._searched.retrieve(query, width, threads),
            lambda top: self.score(query, top.indptr, top.rows),
            k,
            _SLACK,
            position_of=self._position_of,
        )

    def score(self, queries: Any, indptr: Int64Array, rows: Int32Array) -> Float32Array:
        """Return the exact scores of listed documents; see :meth:`SparseIndex.score`."""
        vectors = as_sparse(queries, "queries")
        check_lists(indptr, rows, len(vectors), len(self._complete))
        lists = QueryRows(read_only(vectors.indptr), read_only(vectors.indices), read_only(vectors.values))
        scores, sums = np.empty(len(rows), dtype=np.float32), np.zeros((2, len(self._complete)))
        internal = rows if self._position_of is None else self._position_of[rows]
        _score(
            self._complete.lists,
            lists,
            LUCENE_RULE,
            read_only(self._rounded),
            read_only(np.ascontiguousarray(indptr)),
            read_only(np.ascontiguousarray(internal)),
            sums,
            scores,
        )
        return scores


@inner_kernel
def _add(postings: Postings, queries: QueryRows, rule: Rule, position: int, sums: Float64Array) -> int:
    """Add the postings of one term of a query to the sums; return the next position."""
    column, weight = queries.columns[position], queries.weights[position]
    for posting in range(postings.columns[column], postings.columns[column + 1]):
        sums[postings.rows[posting]] += np.float64(contribution(weight, postings.values[posting], rule))
    return position + 1


@kernel
def _score(
    postings: Postings,
    queries: QueryRows,
    rule: Rule,
    rounded: Int64Array,
    indptr: Int64Array,
    rows: Int32Array,
    sums: Float64Array,
    scores: Float32Array,
) -> None:
    """Score the listed documents of every query; ``sums`` float64 (2, n) are zeros, and are afterwards."""
    total, part = sums[0], sums[1]
    for query in range(len(indptr) - 1):
        first, last = queries.indptr[query], queries.indptr[query + 1]
        if indptr[query] == indptr[query + 1]:
            continue
        current, position = 0, first
        while position < last:
            column = queries.columns[position]
            while current < len(rounded) and rounded[current, 1] <= column:
                current += 1
            end = position
            if current == len(rounded) or column < rounded[current, 0]:
                end = _add(postings, queries, rule, position, total)
            else:
                while end < last and queries.columns[end] < rounded[current, 1]:
                    end = _add(postings, queries, rule, end, part)
                for term in range(position, end):
                    for posting in range(
                        postings.columns[queries.columns[term]], postings.columns[queries.columns[term] + 1]
                    ):
                        row = postings.rows[posting]
                        total[row] += np.float64(np.float32(part[row]))
                        part[row] = 0.0
            position = end
        for hit in range(indptr[query], indptr[query + 1]):
            scores[hit] = np.float32(total[rows[hit]])
        for term in range(first, last):
            for posting in range(postings.columns[queries.columns[term]], postings.columns[queries.columns[term] + 1]):
                total[postings.rows[posting]] = 0.0
