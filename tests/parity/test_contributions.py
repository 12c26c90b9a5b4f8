"""Contributions add up to the reference's score bit for bit, and differences between scores are named with amounts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.types import Ids, SparseVectors, TermCounts, offsets_of
from harness.exact.bm25_models import formula_of
from harness.exact.qdrant_model import qdrant_idf
from harness.loaders import load_dataset
from harness.parity import SparseReference, make_recipe
from harness.parity.causes import UNKNOWN
from harness.parity.contributions import (
    ROUNDING,
    ScoredDocument,
    ScoreStep,
    collection_of,
    pair_difference,
    score_rows,
    score_steps,
    term_scores,
    terms_of_queries,
)
from harness.parity.recipes import Recipe, empty_rows, idf_by_shard, with_formula
from harness.registry.lookup import find_cards
from harness.text import count_terms, create_analyzer
from harness.text.field_counts import join_fields

VARIANTS = ("robertson", "lucene", "atire", "bm25l", "bm25+")
SCORINGS = ("sparse", "lucene", "milvus", "lancedb", "tantivy", "sqlite", *(f"bm25s {name}" for name in VARIANTS))
TEXTS = ["a a b c", "b c", "a c c c d e f g h", "", "a " * 60 + "b", "d e e", "b d d " * 20]
QUERIES = ["a b", "a a a b d", "c", "a b c d e f g h", "", "e"]


def recipe_of(counts: TermCounts, scoring: str, **parameters: float | bool) -> Recipe:
    name, _, variant = scoring.partition(" ")
    known = name in ("sparse", "lucene")
    return make_recipe(
        name if known else "sparse",
        doc_ids=Ids.of(f"d{row}" for row in range(len(counts.documents))),
        query_ids=Ids.of(f"q{row}" for row in range(len(counts.queries))),
        counts=counts,
        parameters={"k1": 0.9, "b": 0.4, "delta": 0.5, "variant": variant, **parameters},
        scoring=None if known else name,
    )


@cache
def counted(documents: tuple[str, ...], queries: tuple[str, ...], analyzer: str = "whitespace") -> TermCounts:
    return count_terms(create_analyzer(analyzer), [list(documents)], list(queries))


def of_query(recipe: Recipe, query: int) -> SparseReference:
    return SparseReference(recipe).of_queries(np.array([query], dtype=np.int32))


def check_sums(recipe: Recipe, documents: int = 40, *, by_hand: bool = True) -> None:
    """Add up the contributions by hand, in the order that the page on the exact reference states."""
    complete = SparseReference(recipe)
    all_best, further = complete.retrieve(documents), np.arange(min(3, len(recipe.doc_ids)))
    lists = [
        np.concatenate([all_best.rows[all_best.of_query(query)], further]).astype(np.int32)
        for query in range(len(recipe.query_ids))
    ]
    together = list(terms_of_queries(complete, offsets_of([len(rows) for rows in lists]), np.concatenate(lists)))
    assert len(together) == len(lists)
    for query, (rows, scores) in enumerate(zip(lists, together, strict=True)):
        reference = complete.of_queries(np.array([query], dtype=np.int32))
        best = reference.retrieve(documents)
        of_run = replace(best, indptr=np.array([0, len(rows)]), rows=rows, scores=scores.scores)
        np.testing.assert_array_equal(scores.scores, reference.score(of_run))
        np.testing.assert_array_equal(scores.scores[: best.hits], best.scores)
        if by_hand and (recipe.formula is None or not recipe.formula.float32_sums):
            added = [np.float32(sum(column, start=np.float64(0))) for column in scores.contributions.T.astype(float)]
            np.testing.assert_array_equal(scores.scores, np.array(added, dtype=np.float32))
        alone = term_scores(reference, rows)
        assert all(np.array_equal(*pair) for pair in zip(scores, alone, strict=True)), "as all queries together"


def test_every_scoring_of_a_card_is_tried() -> None:
    """`kind` is the arithmetic, `scoring` the name of an engine's own formula."""
    rules = [card.reference for card in find_cards("backends").values()]
    tried = {name.partition(" ")[0] for name in SCORINGS}
    assert {rule.scoring or rule.kind for rule in rules if rule.kind not in ("dense", "none")} <= {*tried, "hybrid"}
    assert set(VARIANTS) == set(find_cards("backends")["bm25s"].parameters["variant"].choices)


@pytest.mark.parametrize("scoring", SCORINGS)
@given(
    documents=st.lists(st.text("abcdefgh ", max_size=200), min_size=1, max_size=12).filter(
        lambda texts: any(map(str.split, texts))
    ),
    queries=st.lists(st.text("abcdefgh ", max_size=60), min_size=1, max_size=3),
    k1=st.floats(0.125, 4, width=32),
    b=st.floats(0, 1, width=32),
)
@settings(max_examples=examples(30), deadline=None)
def test_contributions_sum_to_the_score_bit_for_bit(
    scoring: str, documents: list[str], queries: list[str], k1: float, b: float
) -> None:
    check_sums(recipe_of(counted(tuple(documents), tuple(queries)), scoring, k1=k1, b=b))


@pytest.mark.parametrize("collection", ["cacm", "chunking-eval"])
@pytest.mark.parametrize("scoring", SCORINGS)
def test_contributions_sum_to_the_score_on_bundled_collections(collection: str, scoring: str) -> None:
    counts = of_collection(collection)
    check_sums(recipe_of(counts, scoring, k1_plus_1=scoring == "sparse"), documents=10)


@cache
def of_collection(name: str) -> TermCounts:
    dataset = load_dataset(name)
    texts, queries = dataset.corpus.texts.to_pylist(), dataset.queries.texts.to_pylist()
    return count_terms(create_analyzer("snowball-english"), [texts], queries[:20])


@pytest.mark.parametrize("scoring", ["sparse", "lucene", "tantivy"])
def test_contributions_of_shards_have_their_statistics(scoring: str) -> None:
    counts = counted(tuple(TEXTS), tuple(QUERIES))
    recipe = replace(recipe_of(counts, scoring), shards=np.array([0, 1, 2, 0, 1, 2, 0], dtype=np.int32))
    if scoring == "tantivy":
        recipe = with_formula(recipe, counts, formula_of(scoring, {"k1": 0.9, "b": 0.4}))
    check_sums(recipe)


@pytest.mark.parametrize("weights", [[1.0, 1.0], [2.5, 1.0], [3.1, 0.7]])
@pytest.mark.parametrize("scoring", ["lucene", "tantivy", "sqlite"])
def test_contributions_of_fields_are_rounded_as_the_reference_rounds_them(scoring: str, weights: list[float]) -> None:
    stacked = counted(tuple(text[::2] for text in TEXTS) + tuple(TEXTS), tuple(QUERIES))
    counts = replace(join_fields(stacked, ["title", "text"]), field_weights=np.array(weights))
    recipe = recipe_of(counts, scoring)
    check_sums(recipe, by_hand=False)
    collection = collection_of(recipe)
    assert len(collection.df) == recipe.documents.dimensions
    assert (collection.documents >= collection.df).all()


@pytest.mark.parametrize("idf", [True, False])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(30), deadline=None)
def test_contributions_of_learned_weights_sum_to_the_score(idf: bool, seed: int) -> None:
    """Weights of any size and sign: their float64 sums are not exact, so the order of addition counts."""
    generator = np.random.default_rng(seed)

    def vectors(rows: int) -> SparseVectors:
        dense = generator.standard_normal((rows, 9)) * 10.0 ** generator.integers(-6, 6, (rows, 9))
        dense[generator.random((rows, 9)) < 0.4] = 0
        from scipy.sparse import csr_array

        return SparseVectors.from_scipy(csr_array(dense.astype(np.float32)))

    ids = Ids.of(f"d{row}" for row in range(8))
    recipe = make_recipe(
        "sparse",
        doc_ids=ids,
        query_ids=Ids.of(["q"]),
        documents=vectors(8),
        queries=vectors(1),
        parameters={"idf": idf},
    )
    check_sums(recipe)


def test_values_of_terms_are_those_of_the_documents() -> None:
    counts = counted(tuple(TEXTS), tuple(QUERIES))
    rows = np.array([6, 2, 3], dtype=np.int32)
    for scoring in ("sparse", "lucene", "tantivy"):
        scores = term_scores(of_query(recipe_of(counts, scoring), 3), rows)
        held = [dict(zip(*map(np.ndarray.tolist, counts.documents.row(row)), strict=True)) for row in rows.tolist()]
        assert scores.values.T.tolist() == [[of.get(column, 0) for column in scores.columns.tolist()] for of in held]


def test_queries_in_several_blocks_are_those_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.parity.contributions._PAIRS_AT_ONCE", 7)
    for scoring in ("lucene", "tantivy", "bm25s bm25l"):
        check_sums(recipe_of(counted(tuple(TEXTS), tuple(QUERIES)), scoring))


def test_contributions_that_do_not_sum_to_the_score_are_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    reference = of_query(recipe_of(counted(tuple(TEXTS), tuple(QUERIES)), "sparse"), 0)
    monkeypatch.setattr("harness.parity.contributions._sum", lambda *_: np.array([5.0]))
    with pytest.raises(AssertionError, match="add up to"):
        term_scores(reference, np.array([0], dtype=np.int32))


@pytest.mark.parametrize("scoring", SCORINGS)
def test_a_pair_of_documents_differs_by_terms_and_length(scoring: str) -> None:
    counts = counted(tuple(TEXTS), tuple(QUERIES))
    reference = of_query(recipe_of(counts, scoring), 3)
    for rows in ([0, 2], [2, 0], [4, 6], [0, 1], [6, 4]):
        pair = np.array(rows, dtype=np.int32)
        scores = term_scores(reference, pair)
        difference = pair_difference(reference, scores, pair)
        assert difference.terms.sum() + difference.length == pytest.approx(float(scores.scores[0]) - scores.scores[1])


def test_equal_counts_differ_by_length_alone() -> None:
    counts = counted(("a b", "a b c c c c", "c d"), ("a b",))
    pair = np.array([0, 1], dtype=np.int32)
    reference = of_query(recipe_of(counts, "sparse"), 0)
    difference = pair_difference(reference, term_scores(reference, pair), pair)
    assert difference.terms.tolist() == [0, 0]
    assert difference.length > 0


def scored(
    recipe: Recipe, row: int, *, query: int = 1, cause: str | None = None, engine: Recipe | None = None
) -> ScoredDocument:
    reference = of_query(recipe, query)
    score = None
    if engine is not None:
        score = float(score_rows(of_query(engine, query), np.array([row], dtype=np.int32))[0])
    return ScoredDocument(reference, row, score, cause, "whitespace", "terms")


def amounts(steps: list[ScoreStep]) -> dict[str, float]:
    return {step.name: step.amount for step in steps if step.name != ROUNDING}


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ({"k1": 2.0}, "k1"),
        ({"b": 0.9}, "b"),
        ({"k1_plus_1": False}, "factor (k1 + 1)"),
        ({"idf": False}, "IDF"),
    ],
)
def test_a_planted_parameter_is_named_with_its_amount(planted: dict[str, float | bool], name: str) -> None:
    counts = counted(tuple(TEXTS), tuple(QUERIES))
    first, second = scored(recipe_of(counts, "sparse"), 2), scored(recipe_of(counts, "sparse", **planted), 2)
    steps = score_steps(first, second)
    assert amounts(steps).keys() == {name}
    assert amounts(steps)[name] == pytest.approx(second.exact - first.exact, rel=1e-5)
    assert sum(step.amount for step in steps) == pytest.approx(second.exact - first.exact, abs=1e-12)


def test_a_length_in_a_byte_is_named_with_its_amount() -> None:
    counts = counted(tuple(TEXTS), tuple(QUERIES))
    first = scored(recipe_of(counts, "sparse", k1_plus_1=False), 4)  # 61 terms, stored as 60
    second = scored(recipe_of(counts, "lucene"), 4)
    steps = score_steps(first, second)
    assert amounts(steps).keys() == {"length of a document"}
    assert amounts(steps)["length of a document"] == pytest.approx(second.exact - first.exact, rel=1e-4)
    assert steps[0].before == "exact"
    assert steps[0].after == "in one byte"
    short = score_steps(scored(recipe_of(counts, "sparse", k1_plus_1=False), 0), scored(recipe_of(counts, "lucene"), 0))
    assert not amounts(short), "4 terms are exact in a byte"


def test_another_idf_and_saturation_are_named() -> None:
    counts = counted(tuple(TEXTS), tuple(QUERIES))
    steps = score_steps(scored(recipe_of(counts, "bm25s lucene"), 2), scored(recipe_of(counts, "bm25s bm25+"), 2))
    assert amounts(steps).keys() == {"IDF", "saturation", "factor (k1 + 1)"}


def test_another_analyzer_is_named_with_its_amount() -> None:
    texts, queries = ("running dogs run", "a dog", "x y"), ("dogs running",)
    plain, stemmed = counted(texts, queries), counted(texts, queries, "snowball-english")
    first = scored(recipe_of(plain, "sparse"), 0, query=0)
    second = replace(scored(recipe_of(stemmed, "sparse"), 0, query=0), analyzer="snowball-english", terms="stems")
    steps = score_steps(first, second)
    assert amounts(steps).keys() == {"analyzer"}
    assert amounts(steps)["analyzer"] == pytest.approx(second.exact - first.exact, rel=1e-5)


def test_shards_are_named() -> None:
    counts = counted(tuple(TEXTS), tuple(QUERIES))
    recipe = recipe_of(counts, "sparse")
    sharded = replace(recipe, shards=np.array([0, 1, 0, 1, 0, 1, 0], dtype=np.int32))
    first, second = scored(recipe, 2), scored(sharded, 2)
    steps = score_steps(first, second)
    assert amounts(steps) == {"statistics": pytest.approx(second.exact - first.exact)}
    assert [(step.before, step.after) for step in steps] == [("of all documents", "of each shard")]


@pytest.mark.parametrize("cause", ["missing documents", "float32 IDF"])
def test_a_proven_cause_is_a_step_with_its_amount(cause: str) -> None:
    counts = counted(tuple(TEXTS), tuple(QUERIES))
    recipe = recipe_of(counts, "sparse")
    if cause == "missing documents":
        engine = replace(recipe, documents=empty_rows(recipe.documents, np.array([0], dtype=np.int32)))
    else:
        engine = replace(recipe, idf=idf_by_shard(recipe, lambda df, documents: qdrant_idf(documents, df) * 1.5))
    first, second = scored(recipe, 2), scored(recipe, 2, cause=cause, engine=engine)
    assert amounts(score_steps(first, second)) == {cause: pytest.approx(second.score - first.exact)}
    assert amounts(score_steps(second, first)) == {cause: pytest.approx(first.exact - second.score)}


def test_nothing_planted_is_nothing_named() -> None:
    counts = counted(tuple(TEXTS), tuple(QUERIES))
    recipe = recipe_of(counts, "sparse")
    for row in range(len(TEXTS)):
        assert score_steps(scored(recipe, row), scored(recipe, row, engine=recipe)) == []


def test_a_difference_beyond_rounding_without_a_cause_is_unknown() -> None:
    counts = counted(tuple(TEXTS), tuple(QUERIES))
    recipe = recipe_of(counts, "sparse")
    wrong = replace(scored(recipe, 2), score=100.0)
    assert amounts(score_steps(scored(recipe, 2), wrong)) == {UNKNOWN: pytest.approx(100.0 - wrong.exact)}
