"""Exact dense search of many queries: any order of documents, and any blocks."""

from __future__ import annotations

import numpy as np
import pytest

from harness.data.types import Float32Array
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


@pytest.mark.parametrize("candidates", [1, 1 << 15, 1 << 20])
@pytest.mark.parametrize("together", [1, 40, 1024])
@pytest.mark.parametrize("threads", [1, 3])
def test_it_does_not_matter_how_many_queries_are_searched_together(
    candidates: int, together: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_CANDIDATES", candidates)
    monkeypatch.setattr(dense_index, "_TOGETHER", together)
    found = DenseIndex.build(DOCUMENTS).retrieve(QUERIES, 200, threads, similarity="dot", blocks=Blocks(16, 5000))
    assert ranked(found, 200) == plain(DOCUMENTS, 200)
