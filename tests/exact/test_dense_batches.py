"""Exact dense search of many queries: any order of documents, and any blocks."""

from __future__ import annotations

import numpy as np
import pytest

from harness.data.types import Float32Array, Similarity
from harness.exact import DenseIndex, TopK
from harness.exact.dense import Blocks, search
from harness.exact.dense import index as dense_index

GENERATOR = np.random.default_rng(12)
# Whole numbers, whose products are exact, and so are their ties.
DOCUMENTS = GENERATOR.integers(-50, 50, (18_000, 24)).astype(np.float32)
QUERIES = GENERATOR.integers(-50, 50, (70, 24)).astype(np.float32)


def plain(documents: Float32Array, k: int) -> list[list[int]]:
    """The best k of each query, the lower row first where scores are equal."""
    return np.argsort(-(QUERIES @ documents.T), axis=1, kind="stable")[:, :k].tolist()


def ranked(found: TopK, k: int) -> list[list[int]]:
    return found.rows.reshape(-1, k).tolist()


@pytest.mark.parametrize("k", [1, 30, 900])
@pytest.mark.parametrize("order", ["random", "best last", "best first"])
def test_no_order_of_documents_loses_anything(k: int, order: str) -> None:
    documents = DOCUMENTS
    if order != "random":
        places = np.argsort(DOCUMENTS @ QUERIES[0])
        documents = DOCUMENTS[places if order == "best last" else places[::-1]]
    found = DenseIndex.build(documents).retrieve(QUERIES, k, similarity="dot")
    assert ranked(found, k) == plain(documents, k)


@pytest.mark.parametrize("keys", [1, 1 << 15, 1 << 21])
@pytest.mark.parametrize("together", [1, 40, 1024])
@pytest.mark.parametrize("threads", [1, 3])
def test_it_does_not_matter_how_many_queries_are_searched_together(
    keys: int, together: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_KEYS", keys)
    monkeypatch.setattr(dense_index, "_TOGETHER", together)
    found = DenseIndex.build(DOCUMENTS).retrieve(QUERIES, 200, threads, similarity="dot", blocks=Blocks(16, 5000))
    assert ranked(found, 200) == plain(DOCUMENTS, 200)


@pytest.mark.parametrize("k", [10, 1000])
def test_a_threshold_that_is_too_high_is_noticed(k: int) -> None:
    """The documents that a first block takes are the only good ones: their share says nothing of the others'."""
    documents = np.abs(DOCUMENTS)
    step = -(-len(documents) // Blocks().documents)
    documents[::step] *= 10
    found = DenseIndex.build(documents).retrieve(np.abs(QUERIES), k, similarity="dot", blocks=Blocks(len(QUERIES)))
    exact = np.abs(QUERIES) @ documents.T
    assert ranked(found, k) == np.argsort(-exact, axis=1, kind="stable")[:, :k].tolist()


@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
def test_every_hit_is_returned_once(similarity: Similarity) -> None:
    documents = np.random.default_rng(5).standard_normal((30_000, 16)).astype(np.float32)
    queries = np.random.default_rng(6).standard_normal((300, 16)).astype(np.float32)
    index = DenseIndex.build(documents)
    together = index.retrieve(queries, 1500, similarity=similarity)
    alone = [index.retrieve(query, 1500, similarity=similarity) for query in queries[:20]]
    rows = together.rows.reshape(-1, 1500)
    assert all(len(np.unique(row)) == 1500 for row in rows)
    assert rows[:20].tolist() == [found.rows.tolist() for found in alone]
