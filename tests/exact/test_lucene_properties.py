"""Lucene's BM25 in bulk against the same arithmetic written out for one document and one term at a time."""

from __future__ import annotations

import numpy as np
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.types import Ids, SparseVectors, TermCounts
from harness.exact import LuceneIndex

TERMS = 5
F = np.float32


def stored_length(length: int) -> int:
    """Lucene's byte, in words: from 24 on, the excess keeps its leading bit and the three after it."""
    excess = length - 24
    if excess < 8:
        return length
    shift = excess.bit_length() - 4
    return 24 + (excess >> shift << shift)


def plain_scores(
    documents: np.ndarray, query: np.ndarray, k1: float, b: float, *, k1_plus_1: bool = False
) -> dict[int, np.float32]:
    lengths = documents.sum(axis=1)
    filled = int((lengths > 0).sum())
    average = F(lengths.sum() / filled) if filled else F(1)
    scores = {}
    for row, document in enumerate(documents):
        matching = [term for term in range(TERMS) if query[term] and document[term]]
        total = np.float64(0)
        for term in matching:
            df = int((documents[:, term] > 0).sum())
            idf = F(np.log(1 + (filled - df + 0.5) / (df + 0.5)))
            boost = F(query[term]) * (F(1) + F(k1)) if k1_plus_1 else F(query[term])
            weight = boost * idf
            norm = F(k1) * ((F(1) - F(b)) + F(b) * F(stored_length(int(lengths[row]))) / average)
            inverse = F(1) / norm if norm else F(np.inf)
            total += np.float64(weight - weight / (F(1) + F(document[term]) * inverse))
        if matching:
            scores[row] = F(total)
    return scores


counts = st.lists(
    st.lists(st.sampled_from([0, 0, 0, 1, 1, 2, 30, 1_000]), min_size=TERMS, max_size=TERMS), min_size=1, max_size=30
)


@settings(max_examples=examples(150))
@given(
    documents=counts,
    queries=counts.map(lambda rows: rows[:3]),
    k=st.sampled_from([1, 3, 100]),
    k1=st.sampled_from([0.9, 1.2, 0.0, 1e6, 1e9]),
    b=st.sampled_from([0.4, 0.0, 1.0]),
)
def test_equals_the_plain_arithmetic(
    documents: list[list[int]],
    queries: list[list[int]],
    k: int,
    k1: float,
    b: float,
) -> None:
    rows, asked = np.array(documents), np.array(queries)
    index = LuceneIndex.build(as_counts(rows, asked), k1=k1, b=b)
    found = index.retrieve(as_vectors(asked), k)
    for number, query in enumerate(asked):
        scores = plain_scores(rows, query, k1, b)
        expected = sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))[:k]
        hits = slice(found.indptr[number], found.indptr[number + 1])
        assert list(zip(found.rows[hits].tolist(), found.scores[hits], strict=True)) == expected
    assert index.score(as_vectors(asked), found.indptr, found.rows).tolist() == found.scores.tolist()


@settings(max_examples=examples(150))
@given(
    documents=counts,
    queries=counts.map(lambda rows: rows[:3]),
    k=st.sampled_from([1, 3, 100]),
    k1=st.sampled_from([0.9, 1.2, 0.0, 1e6]),
    k1_plus_1=st.booleans(),
    data=st.data(),
)
def test_each_shard_counts_for_itself_and_ties_come_in_the_given_order(
    documents: list[list[int]], queries: list[list[int]], k: int, k1: float, k1_plus_1: bool, data: st.DataObject
) -> None:
    rows, asked = np.array(documents), np.array(queries)
    shards = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))), dtype=np.int32)
    order = np.array(data.draw(st.permutations(range(len(rows)))), dtype=np.int32)
    index = LuceneIndex.build(as_counts(rows, asked), k1=k1, k1_plus_1=k1_plus_1, shards=shards, order=order)
    assert (len(index), index.dimensions) == (len(rows), TERMS)
    found = index.retrieve(as_vectors(asked), k)
    places = np.argsort(order)
    for number, query in enumerate(asked):
        scores: dict[int, np.float32] = {}
        for shard in range(3):
            inside = np.flatnonzero(shards == shard)
            part = plain_scores(rows[inside], query, k1, 0.4, k1_plus_1=k1_plus_1)
            scores |= {int(inside[row]): score for row, score in part.items()}
        expected = sorted(scores.items(), key=lambda hit: (-hit[1], places[hit[0]]))[:k]
        hits = slice(found.indptr[number], found.indptr[number + 1])
        assert list(zip(found.rows[hits].tolist(), found.scores[hits], strict=True)) == expected
    assert index.score(as_vectors(asked), found.indptr, found.rows).tolist() == found.scores.tolist()


def as_vectors(dense: np.ndarray) -> SparseVectors:
    rows, columns = np.nonzero(dense)
    indptr = np.searchsorted(rows, np.arange(len(dense) + 1))
    values = dense[rows, columns].astype(np.float32)
    return SparseVectors(indptr.astype(np.int64), columns.astype(np.int32), values, TERMS)


def as_counts(documents: np.ndarray, queries: np.ndarray) -> TermCounts:
    unknown = np.zeros(len(queries), dtype=np.int32)
    return TermCounts(as_vectors(documents), as_vectors(queries), Ids.of("abcde"), unknown)
