from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from harness.data.types import Ids, SparseVectors, TermCounts
from harness.errors import DataError, UsageError
from harness.exact import LuceneIndex
from harness.exact.lucene import byte_lengths, decoded_lengths


def counts_of(documents: list[list[int]], queries: list[list[int]]) -> TermCounts:
    terms = len(documents[0])
    return TermCounts(
        SparseVectors.from_scipy(csr_array(np.array(documents, dtype=np.float32))),
        SparseVectors.from_scipy(csr_array(np.array(queries, dtype=np.float32))),
        Ids.of(chr(97 + term) for term in range(terms)),
        np.zeros(len(queries), dtype=np.int32),
    )


def test_lengths_are_exact_up_to_forty():
    lengths = np.arange(41, dtype=np.int64)
    assert decoded_lengths()[byte_lengths(lengths)].tolist() == lengths.tolist()


@pytest.mark.parametrize(
    ("length", "stored"),
    [(41, 40), (42, 42), (55, 54), (56, 56), (59, 56), (60, 60), (87, 84), (88, 88), (95, 88), (1_000, 984)],
)
def test_longer_lengths_are_rounded_down(length: int, stored: int):
    assert decoded_lengths()[byte_lengths(np.array([length]))][0] == stored


def test_byte_lengths_never_round_up_and_lose_at_most_a_ninth():
    lengths = np.concatenate([np.arange(100_000), np.array([2**31 - 1, 2**30, 2**30 - 1])])
    stored = decoded_lengths()[byte_lengths(lengths)].astype(np.float64)
    assert np.all(stored <= lengths)
    assert np.all(lengths - stored <= lengths / 9)


def test_every_byte_is_its_own_code():
    lengths = decoded_lengths()[:231].astype(np.int64)  # above, the length no longer fits a Java int
    assert byte_lengths(lengths).tolist() == list(range(231))


def test_worked_example():
    counts = counts_of([[2, 1, 0], [0, 1, 1]], [[1, 1, 0]])
    found = LuceneIndex.build(counts, k1=1.5, b=0.75).retrieve(counts.queries, 10)
    assert found.rows.tolist() == [0, 1]
    assert (found.scores * 2.5).round(4).tolist() == pytest.approx([1.0977, 0.2004], abs=1e-7)


def test_the_older_similarity_as_opensearch_scores():
    """A real OpenSearch 2.19.0 gave these numbers for `a a b` and `b c`, query `a b`."""
    counts = counts_of([[2, 1, 0], [0, 1, 1]], [[1, 1, 0]])
    found = LuceneIndex.build(counts, k1_plus_1=True).retrieve(counts.queries, 10)
    assert found.scores.tolist() == [np.float32(1.0619229), np.float32(0.1895027)]
    twice = LuceneIndex.build(counts, k1_plus_1=True).retrieve(counts_of([[1, 1, 1]], [[1, 2, 0]]).queries, 10)
    assert twice.scores.tolist() == [np.float32(1.2375877), np.float32(0.3790054)]


def test_a_placement_that_does_not_go_with_the_documents():
    counts = counts_of([[1], [2]], [[1]])
    with pytest.raises(UsageError, match="shards have shape"):
        LuceneIndex.build(counts, shards=np.zeros(3, dtype=np.int32))
    with pytest.raises(UsageError, match="each document once"):
        LuceneIndex.build(counts, order=np.array([0, 0], dtype=np.int32))


@pytest.mark.parametrize(("k1", "b"), [(-0.1, 0.4), (float("nan"), 0.4), (float("inf"), 0.4), (0.9, 1.1), (0.9, -0.1)])
def test_settings_that_lucene_refuses(k1: float, b: float):
    with pytest.raises(UsageError, match="k1 must be"):
        LuceneIndex.build(counts_of([[1]], [[1]]), k1=k1, b=b)


def test_counts_must_be_whole():
    counts = counts_of([[1], [2]], [[1]])
    with pytest.raises(DataError, match="row 1: a count is not a positive whole number"):
        LuceneIndex.build(counts).retrieve(csr_array(np.array([[1.0], [1.5]])), 1)


def test_without_saturation_a_term_scores_its_weight():
    counts = counts_of([[3, 1], [1, 0]], [[2, 1]])
    found = LuceneIndex.build(counts, k1=0.0).retrieve(counts.queries, 10)
    idf = np.log(1 + np.array([0.5 / 2.5, 1.5 / 1.5])).astype(np.float32)
    assert found.scores.tolist() == [np.float32(np.float64(2 * idf[0]) + np.float64(idf[1])), 2 * idf[0]]


def test_no_document_with_terms():
    counts = counts_of([[0, 0]], [[1, 1]])
    assert LuceneIndex.build(counts).retrieve(counts.queries, 3).indptr.tolist() == [0, 0]
