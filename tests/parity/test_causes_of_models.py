"""Causes where an engine has a BM25 of its own: each is proven of a run that differs in just that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.data.document_rows import all_rows
from harness.data.types import Ids, Run
from harness.exact.bm25_models import Bm25Formula
from harness.parity import UNKNOWN, SparseReference, compare_run, make_recipe
from harness.parity.recipes import Recipe, empty_rows, with_formula
from harness.parity.scoring_differences import formula_in_effect
from harness.registry.lookup import find_cards
from harness.testing.expected import count_words
from harness.testing.samples import word

K, QUERIES = 30, 12
MISSING = np.array([3, 50, 51, 120, 299], dtype=np.int32)
GENERATOR = np.random.default_rng(5)


def made_texts(count: int, longest: int) -> list[str]:
    rows = GENERATOR.zipf(1.3, (count, longest)) % 300
    lengths = GENERATOR.integers(longest // 8, longest, count)
    return [" ".join(word(int(n)) for n in row[:length]) for row, length in zip(rows, lengths, strict=True)]


COUNTS = count_words([*made_texts(297, 150), "", "", ""], made_texts(QUERIES, 12))
PARAMETERS = {name: card.defaults for name, card in find_cards("backends").items()}


def recipe_of(scoring: str) -> Recipe:
    return make_recipe(
        "sparse",
        doc_ids=Ids.of(f"d{row}" for row in range(300)),
        query_ids=Ids.of(f"q{row}" for row in range(QUERIES)),
        counts=COUNTS,
        parameters=PARAMETERS[scoring],
        scoring=scoring,
    )


def run_of(recipe: Recipe, **fields: object) -> Run:
    assert recipe.formula is not None
    return SparseReference(with_formula(recipe, COUNTS, replace(recipe.formula, **fields))).retrieve(K)  # type: ignore[arg-type]


CHANGES = {
    "tantivy": {
        "exact lengths": {"byte_lengths": False},
        "statistics of documents with terms": {"all_documents": False},
        "factor (k1 + 1)": {"k1_plus_1": False},
    },
    "sqlite": {
        "byte lengths": {"byte_lengths": True},
        "statistics of documents with terms": {"all_documents": False},
        "factor (k1 + 1)": {"k1_plus_1": False},
    },
    "bm25s": {"byte lengths": {"byte_lengths": True}, "factor (k1 + 1)": {"k1_plus_1": True}},
}


@pytest.mark.parametrize(("scoring", "cause"), [(scoring, cause) for scoring in CHANGES for cause in CHANGES[scoring]])
def test_a_changed_formula_is_found_out(scoring: str, cause: str) -> None:
    recipe = recipe_of(scoring)
    found = compare_run(run_of(recipe, **CHANGES[scoring][cause]), SparseReference(recipe), k=K, tolerance=4e-7)
    assert set(found.causes) == {cause}
    assert found.causes[cause] > QUERIES // 2


@pytest.mark.parametrize("scoring", CHANGES)
def test_a_changed_k1_is_not_explained_by_something_else(scoring: str) -> None:
    recipe = recipe_of(scoring)
    found = compare_run(run_of(recipe, k1=0.3), SparseReference(recipe), k=K, tolerance=4e-7)
    assert set(found.causes) == {UNKNOWN}


@pytest.mark.parametrize("scoring", CHANGES)
def test_missing_documents_with_and_without_their_statistics(scoring: str) -> None:
    recipe = recipe_of(scoring)
    held = np.setdiff1d(np.arange(300), MISSING).astype(np.int32)
    ids = Ids.of(recipe.doc_ids.take(held))
    part = make_recipe(
        "sparse",
        doc_ids=ids,
        query_ids=recipe.query_ids,
        counts=COUNTS.of_documents(held),
        parameters=PARAMETERS[scoring],
        scoring=scoring,
    )
    run = SparseReference(part).retrieve(K)
    gone = Run(run.query_ids, recipe.doc_ids, run.indptr, held[run.rows], run.scores)
    kept = SparseReference(replace(recipe, documents=empty_rows(recipe.documents, MISSING))).retrieve(K)
    for changed, cause in ((gone, "missing documents"), (kept, "missing documents, IDF kept")):
        found = compare_run(changed, SparseReference(recipe), k=K, tolerance=4e-7, missing_rows=MISSING)
        assert set(found.causes) == {cause}


def test_shards_have_statistics_of_their_own() -> None:
    recipe = recipe_of("sqlite")
    assert recipe.formula is not None
    shards = (np.arange(300) % 2).astype(np.int32)
    sharded = with_formula(replace(recipe, shards=shards), COUNTS, recipe.formula)
    for shard in (0, 1):
        rows = np.flatnonzero(shards == shard).astype(np.int32)
        alone = make_recipe(
            "sparse",
            doc_ids=Ids.of(recipe.doc_ids.take(rows)),
            query_ids=recipe.query_ids,
            counts=COUNTS.of_documents(rows),
            parameters=PARAMETERS["sqlite"],
            scoring="sqlite",
        )
        assert sharded.documents.take(rows).values.tobytes() == all_rows(alone.documents).values.tobytes()
    found = compare_run(SparseReference(recipe).retrieve(K), SparseReference(sharded), k=K, tolerance=4e-7)
    assert set(found.causes) == {"one IDF for all shards"}


def test_formulas_in_effect_are_those_of_the_cards() -> None:
    cards = find_cards("backends")

    def formula(name: str, **parameters: object) -> Bm25Formula | None:
        return formula_in_effect(cards[name], {**cards[name].defaults, **parameters})  # type: ignore[dict-item]

    assert formula("csr") == Bm25Formula(0.9, 0.4)
    assert formula("lucene", k1=1.2) == Bm25Formula(1.2, 0.4, k1_plus_1=False, byte_lengths=True)
    assert formula("lucene", model="ql") is None
    assert formula("flat") is None
    assert formula("csr-splade") is None
    assert formula("qdrant", idf=False) is None
    tantivy = formula("tantivy")
    assert tantivy is not None
    assert (tantivy.k1, tantivy.b, tantivy.byte_lengths) == (1.2, 0.75, True)
