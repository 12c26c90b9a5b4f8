"""Parity of an engine that fuses lists itself: each cause is found on an engine that differs in just that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from harness.data import ranking
from harness.data.types import Ids, Run
from harness.parity import UNKNOWN, DenseRecipe, DenseReference, Parity, Recipe, SparseReference
from harness.parity.causes import FLOAT32_FUSION, WITHIN_LISTS
from harness.parity.fused_lists import EngineFusion, compare_fused, fuse_like_qdrant
from harness.testing.expected import to_vectors

DOCUMENTS, QUERIES, DEPTH, K = 60, 8, 20, 15
TOLERANCE = 2e-6
METHODS = ("rrf", "dbsf")


def oracles() -> dict[str, SparseReference | DenseReference]:
    """Sparse scores are small whole numbers, so that ties abound; dense ones have none."""
    generator = np.random.default_rng(3)
    documents, queries = Ids.of(f"d{row:02}" for row in range(DOCUMENTS)), Ids.of(f"q{row}" for row in range(QUERIES))
    words = [{int(one): 1.0 for one in generator.choice(9, 3, replace=False)} for _ in range(DOCUMENTS)]
    asked = [{int(one): 1.0 for one in generator.choice(9, 3, replace=False)} for _ in range(QUERIES)]
    recipe = Recipe("textbook", documents, queries, to_vectors(words, 9), to_vectors(asked, 9), None)
    vectors = generator.standard_normal((DOCUMENTS + QUERIES, 16)).astype(np.float32)
    nothing = np.empty(0, dtype=np.int32)
    dense = DenseRecipe(documents, queries, vectors[:DOCUMENTS], vectors[DOCUMENTS:], "dot", nothing)
    return {"sparse": SparseReference(recipe), "dense": DenseReference(dense)}


def fused(method: str, runs: list[Run]) -> Run:
    """What an engine does that takes the lists as they are: by places, or by scores."""
    if method == "rrf":
        places = [np.arange(run.hits) - np.repeat(run.indptr[:-1], np.diff(run.indptr)) for run in runs]
        runs = [replace(run, scores=-place.astype(np.float32)) for run, place in zip(runs, places, strict=True)]
    return fuse_like_qdrant(method, 2, runs, K)


def held(method: str, actual: dict[str, Run], run: Run | None = None, *, approximate: bool = False) -> Parity:
    found = fused(method, list(actual.values())) if run is None else run
    fuse = partial(fuse_like_qdrant, method, 2)
    fusion = EngineFusion(method, DEPTH, method == "rrf", fuse, fuse)
    parity, _ = compare_fused(found, actual, oracles(), fusion, k=K, tolerance=TOLERANCE, approximate=approximate)
    return parity


def exact() -> dict[str, Run]:
    return {name: oracle.retrieve(DEPTH) for name, oracle in oracles().items()}


def ties_reversed(run: Run) -> Run:
    """Equal scores by ascending id, where the reference has them descending."""
    query = np.repeat(np.arange(len(run.query_ids)), np.diff(run.indptr))
    order = np.lexsort((run.rows, -run.scores, query))
    return replace(run, rows=run.rows[order], scores=run.scores[order])


def without_the_second(run: Run) -> Run:
    """A graph that misses the second hit of every query."""
    keep = np.ones(run.hits, dtype=np.bool_)
    keep[run.indptr[:-1] + 1] = False
    indptr = np.concatenate([[0], np.cumsum(keep)])[run.indptr].astype(np.int64)
    return Run(run.query_ids, run.doc_ids, indptr, run.rows[keep], run.scores[keep])


@pytest.mark.parametrize("method", METHODS)
def test_the_exact_lists_give_the_oracle_to_the_bit(method: str) -> None:
    parity = held(method, exact())
    assert (parity.reference, parity.mode, parity.bit_equal, parity.causes) == ("fusion", method, QUERIES, {})


def test_ranks_show_another_order_of_ties_and_distributions_do_not() -> None:
    lists = exact()
    lists["sparse"] = ties_reversed(lists["sparse"])
    by_ranks = held("rrf", lists)
    assert by_ranks.different > 0
    assert by_ranks.causes.keys() == {WITHIN_LISTS}
    assert held("dbsf", lists).causes == {}


@pytest.mark.parametrize("method", METHODS)
def test_what_a_graph_misses_is_told_of_the_list_that_misses_it(method: str) -> None:
    lists = exact()
    lists["dense"] = without_the_second(lists["dense"])
    parity = held(method, lists, approximate=True)
    assert parity.causes == {"approximate search in the dense list": QUERIES}
    assert held(method, lists).causes == {UNKNOWN: QUERIES}


@pytest.mark.parametrize("method", METHODS)
def test_lists_that_differ_for_two_causes_are_told_apart_from_one(method: str) -> None:
    lists = exact()
    lists["dense"] = without_the_second(lists["dense"])
    lists["sparse"] = ranking.cut(lists["sparse"], 5)
    assert held(method, lists, approximate=True).causes == {"causes in several lists": QUERIES}


@pytest.mark.parametrize("method", METHODS)
def test_a_fusion_of_other_lists_than_those_told_is_unknown(method: str) -> None:
    lists = exact()
    other = fused(method, [lists["dense"], lists["dense"]])
    assert held(method, lists, other).causes == {UNKNOWN: QUERIES}


def test_a_fusion_in_float32_is_told_from_the_lists_that_it_fuses() -> None:
    """As coarse as float16 would be, so that it shows."""

    def coarse(runs: Sequence[Run], k: int | None) -> Run:
        return fuse_like_qdrant("dbsf", 2, [replace(run, scores=np.round(run.scores, 1)) for run in runs], k)

    lists, exactly = exact(), partial(fuse_like_qdrant, "dbsf", 2)
    fusion = EngineFusion("dbsf", DEPTH, by_rank=False, fuse=exactly, as_engine=coarse)
    run = coarse(list(lists.values()), K)
    parity, _ = compare_fused(run, lists, oracles(), fusion, k=K, tolerance=TOLERANCE)
    assert parity.causes == {FLOAT32_FUSION: QUERIES}


def test_qdrant_counts_places_from_zero() -> None:
    ids, asked = Ids.of(["a", "b", "c"]), Ids.of(["q"])
    indptr = np.array([0, 2], dtype=np.int64)
    one, two = (
        Run(asked, ids, indptr, np.array(rows, dtype=np.int32), np.array([2, 1], dtype=np.float32))
        for rows in ([0, 1], [1, 2])
    )
    fused = fuse_like_qdrant("rrf", 2, [one, two], None)
    assert fused.doc_ids.take(fused.rows) == ["b", "a", "c"]
    assert fused.scores.tolist() == pytest.approx([1 / 2 + 1 / 3, 1 / 2, 1 / 3])
    assert fuse_like_qdrant("rrf", 60, [one, two], 1).scores.tolist() == pytest.approx([1 / 60 + 1 / 61])
