"""A reference of several shards: each with an IDF of its own, held against scores that are summed term by term."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.data.types import Ids, Int32Array, Run
from harness.exact.qdrant_model import qdrant_idf
from harness.exact.qdrant_shards import shards_of
from harness.parity import SparseReference, compare_run, make_recipe
from harness.parity.recipes import Recipe, empty_rows
from harness.testing.expected import bm25_idf
from harness.testing.samples import random_texts
from harness.text import count_terms, create_analyzer

DOCUMENTS, QUERIES, K, SHARDS = 200, 20, 30, 3


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    texts = random_texts(3, DOCUMENTS)
    texts[10] = texts[11] = ""
    return make_recipe(
        "sparse",
        doc_ids=Ids.of(f"d{row}" for row in range(DOCUMENTS)),
        query_ids=Ids.of(f"q{row}" for row in range(QUERIES)),
        counts=count_terms(create_analyzer("whitespace"), [texts], random_texts(4, QUERIES, longest=6)),
        parameters={},
        shards=shards_of(DOCUMENTS, SHARDS),
    )


def scores(recipe: Recipe, *, kept: Int32Array | None = None) -> np.ndarray:
    """Every document's score for every query, with an IDF counted within its shard over the documents ``kept``."""
    assert recipe.shards is not None
    documents, queries = recipe.documents, recipe.queries
    rows = np.arange(DOCUMENTS) if kept is None else kept
    found = np.zeros((len(queries), DOCUMENTS))
    for shard in range(SHARDS):
        members = [row for row in rows.tolist() if recipe.shards[row] == shard]
        with_terms = sum(len(documents.row(row)[0]) > 0 for row in members)
        containing = np.zeros(documents.dimensions, dtype=np.int64)
        for row in members:
            containing[documents.row(row)[0]] += 1
        for query in range(len(queries)):
            weights = dict(zip(*map(np.ndarray.tolist, queries.row(query)), strict=True))
            for row in members:
                for column, value in zip(*map(np.ndarray.tolist, documents.row(row)), strict=True):
                    idf = bm25_idf(with_terms, int(containing[column]))
                    found[query, row] += weights.get(column, 0.0) * idf * value
    return found


def test_each_shard_has_its_own_idf(recipe: Recipe) -> None:
    exact = scores(recipe)
    run = SparseReference(recipe).retrieve(K)
    for query in range(QUERIES):
        hits = run.of_query(query)
        best = np.sort(exact[query])[::-1][: len(run.rows[hits])]
        assert run.scores[hits] == pytest.approx(best, rel=1e-6)
        assert exact[query][run.rows[hits]] == pytest.approx(best, rel=1e-6)


def test_hits_are_scored_as_they_are_retrieved_and_queries_may_be_chosen(recipe: Recipe) -> None:
    oracle = SparseReference(recipe)
    run = oracle.retrieve(K)
    assert np.array_equal(oracle.score(run), run.scores)
    chosen = oracle.of_queries(np.array([7, 2], dtype=np.int32)).retrieve(K)
    assert np.array_equal(chosen.scores[chosen.of_query(1)], run.scores[run.of_query(2)])


def causes(run: Run, recipe: Recipe, missing: Int32Array | None = None) -> set[str]:
    return set(compare_run(run, SparseReference(recipe), k=K, tolerance=1e-7, missing_rows=missing).causes)


def test_one_idf_for_all_is_a_cause(recipe: Recipe) -> None:
    assert causes(SparseReference(replace(recipe, shards=None)).retrieve(K), recipe) == {"one IDF for all shards"}


def test_float32_is_a_cause_in_every_shard(recipe: Recipe) -> None:
    assert recipe.shards is not None
    idf = np.stack(
        [
            qdrant_idf(len(part.nonempty_rows), np.bincount(part.indices, minlength=part.dimensions))
            for part in (recipe.documents.take(np.flatnonzero(recipe.shards == shard)) for shard in range(SHARDS))
        ]
    )
    assert causes(SparseReference(replace(recipe, idf=idf)).retrieve(K), recipe) == {"float32 IDF"}


def test_missing_documents_are_a_cause_in_their_shards(recipe: Recipe) -> None:
    missing = np.array([3, 50, 51, 120, 199], dtype=np.int32)
    left = replace(recipe, documents=empty_rows(recipe.documents, missing))
    kept = np.setdiff1d(np.arange(DOCUMENTS), missing).astype(np.int32)
    run = SparseReference(left).retrieve(K)
    first = run.of_query(0)
    assert run.scores[first] == pytest.approx(np.sort(scores(recipe, kept=kept)[0])[::-1][: len(run.rows[first])])
    assert causes(run, recipe, missing) == {"missing documents"}


def test_without_idf_shards_change_nothing(recipe: Recipe) -> None:
    plain = SparseReference(replace(recipe, idf=None, shards=None)).retrieve(K)
    sharded = SparseReference(replace(recipe, idf=None)).retrieve(K)
    assert np.array_equal(plain.rows, sharded.rows)
    assert np.array_equal(plain.scores, sharded.scores)
