"""Sums over fields as Lucene rounds them: every field with a weight by itself, and then the sum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.types import Float32Array, Ids, Int32Array, SparseVectors, TermCounts
from harness.exact.field_sums import FieldSumIndex, rounded_columns
from harness.exact.lucene import LuceneWeights

_WEIGHTS = ([3.0, 1.0], [1.0, 1.0], [0.7, 2.3], [0.1, 1.0, 5.0])


def counts_of(seed: int, weights: list[float], documents: int = 60, terms: int = 5) -> TermCounts:
    chance = np.random.default_rng(seed)
    sides = []
    for rows, most in ((documents, 9), (4, 3)):
        table = np.concatenate([chance.integers(0, most, (rows, terms)) for _ in weights], axis=1)
        sides.append(table * (chance.random(table.shape) < 0.6))
    by_field = sides[1].reshape(4, len(weights), terms)
    by_field[:] = by_field[:, :1]  # a query has its terms in every field
    vectors = [SparseVectors.from_scipy(_sparse(side)) for side in sides]
    names = Ids.of(f"{field}:{term}" for field in range(len(weights)) for term in range(terms))
    return TermCounts(*vectors, names, np.zeros(4, dtype=np.int32), field_weights=np.array(weights))


def _sparse(table: np.ndarray) -> object:
    from scipy.sparse import csr_array

    return csr_array(table.astype(np.float32))


def scores_by_hand(counts: TermCounts, shards: Int32Array | None) -> Float32Array:
    """Every contribution in Lucene's float32, then a sum of each field with a weight, then the sum of all."""
    weights = LuceneWeights.of(counts, k1=0.9, b=0.4, shards=shards)
    documents = weights.documents.slice(0, len(counts.documents)).to_scipy().toarray()
    queries = weights.queries.weigh(counts.queries).to_scipy().toarray()
    terms, fields = counts.terms_per_field, counts.fields
    scores = np.zeros((len(queries), len(documents)), dtype=np.float32)
    for query, document in np.ndindex(scores.shape):
        total = 0.0
        for block in range(len(documents[0]) // terms):
            part = slice(block * terms, (block + 1) * terms)
            value, weight = documents[document, part], queries[query, part]
            used = (value != 0) & (weight != 0)
            added = (weight[used] - weight[used] / value[used]).astype(np.float32)
            if counts.field_weights[block % fields] != 1.0:
                total += float(np.float32(added.astype(np.float64).sum()))
            else:
                for contribution in added:
                    total += float(contribution)
        scores[query, document] = np.float32(total)
    return scores


@given(seed=st.integers(0, 2**32 - 1), weights=st.sampled_from(_WEIGHTS), shards=st.integers(1, 3))
def test_scores_and_the_best_are_those_made_by_hand(seed: int, weights: list[float], shards: int) -> None:
    counts, documents = counts_of(seed, weights), 60
    chance = np.random.default_rng(seed)
    placed = chance.integers(0, shards, documents).astype(np.int32) if shards > 1 else None
    order = chance.permutation(documents).astype(np.int32)
    weighed = LuceneWeights.of(counts, k1=0.9, b=0.4, shards=placed)
    queries = weighed.queries.weigh(counts.queries)
    rounded = rounded_columns(counts.field_weights, counts.terms_per_field, weighed.queries.shards)
    index = FieldSumIndex.build(weighed.documents.slice(0, documents), rounded, order)
    by_hand = scores_by_hand(counts, placed)
    rows = np.tile(np.arange(documents, dtype=np.int32), 4)
    indptr = np.arange(5, dtype=np.int64) * documents
    assert index.score(queries, indptr, rows).reshape(by_hand.shape).tolist() == by_hand.tolist()
    position = np.argsort(order)
    matching = chance.random(documents) < 0.5
    for k in (1, 7, documents):
        for searched, mask in ((index, np.ones(documents, dtype=bool)), (index.filtered(matching), matching)):
            best = searched.retrieve(queries, k)
            for query in range(4):
                hits = slice(best.indptr[query], best.indptr[query + 1])
                found = np.flatnonzero((by_hand[query] > 0) & mask)
                expected = found[np.lexsort((position[found], -by_hand[query, found]))][:k]
                assert best.rows[hits].tolist() == expected.tolist()
                assert best.scores[hits].tolist() == by_hand[query, expected].tolist()


def test_rounding_each_field_changes_some_sums() -> None:
    """Otherwise the tests above would prove nothing about it."""
    counts = counts_of(5, [3.0, 0.7], documents=200)
    weighed = LuceneWeights.of(counts)
    documents, queries = weighed.documents.slice(0, 200), weighed.queries.weigh(counts.queries)
    rows, indptr = np.tile(np.arange(200, dtype=np.int32), 4), np.arange(5, dtype=np.int64) * 200
    once = FieldSumIndex.build(documents, rounded_columns(np.ones(2), 5, 1)).score(queries, indptr, rows)
    each = FieldSumIndex.build(documents, rounded_columns(counts.field_weights, 5, 1)).score(queries, indptr, rows)
    assert (once != each).any()
    assert once == pytest.approx(each, rel=2e-7)
