"""Exact dense search of many queries: guessed floors, batches that are scored together, and room that runs out."""

from __future__ import annotations

import numpy as np
import pytest

from harness.data.types import Float32Array
from harness.exact import DenseIndex, TopK
from harness.exact.dense import Blocks, search

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
def test_floors_guessed_from_a_sample_lose_nothing(k: int, order: str) -> None:
    documents = DOCUMENTS
    if order != "random":
        places = np.argsort(DOCUMENTS @ QUERIES[0])
        documents = DOCUMENTS[places if order == "best last" else places[::-1]]
    found = DenseIndex.build(documents).retrieve(QUERIES, k, similarity="dot")
    assert ranked(found, k) == plain(documents, k)


@pytest.mark.parametrize("threads", [1, 2])
def test_queries_whose_floor_was_guessed_too_high_are_searched_again(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    again: list[int] = []
    search_again = search._search_again

    def counted(*arguments: object) -> object:
        again.append(1)
        return search_again(*arguments)  # type: ignore[arg-type]

    sample_of = search._Sample.of
    monkeypatch.setattr(search._Sample, "of", lambda job: sample_of(job)._replace(rank=1))
    monkeypatch.setattr(search, "_search_again", counted)
    index = DenseIndex.build(DOCUMENTS)
    found = index.retrieve_each(QUERIES, 30, threads, blocks=Blocks(32, 1024))
    assert len(again) > 3 * len(QUERIES) // 2
    assert ranked(found["dot"], 30) == plain(DOCUMENTS, 30)


@pytest.mark.parametrize("candidates", [1, 1 << 15, 1 << 16, 1 << 21])
@pytest.mark.parametrize("together", [1, 40, 1024])
def test_it_does_not_matter_how_many_queries_are_scored_together(
    candidates: int, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_CANDIDATES", candidates)
    monkeypatch.setattr(search, "_TOGETHER", together)
    index = DenseIndex.build(DOCUMENTS)
    found = index.retrieve_each(QUERIES, 200, similarities=("dot", "l2"), blocks=Blocks(16, 5000))
    assert ranked(found["dot"], 200) == plain(DOCUMENTS, 200)
    assert found["l2"].scores.tolist() == index.retrieve(QUERIES, 200, similarity="l2").scores.tolist()


def test_room_for_candidates_is_bounded_whatever_is_asked() -> None:
    for queries, k, similarities in ((1, 10, 1), (256, 1000, 1), (5000, 1000, 3), (5000, 100_000, 3), (1, 10**6, 1)):
        pairs = dict.fromkeys(("cosine", "dot", "l2")[:similarities])
        job = search.Job(pairs, {}, search.Scaling(None), k)  # type: ignore[arg-type]
        documents = 400_000
        batch = search._batch(job, queries, documents, Blocks())
        room = search._Room.of(job, batch, queries, documents, 1024)
        lists, finalists = room.lists.values(), room.finalists.values()
        taken = sum(one.rows.nbytes + one.estimates.nbytes for one in lists) + sum(
            one.entries.nbytes for one in finalists
        )
        scratch = sum(one.keys.nbytes for one in lists)
        one_query = (2 * k + 384) * 8 * similarities
        assert taken <= max(1 << 24, 2 * one_query)
        assert scratch <= max(similarities << 20, one_query)
