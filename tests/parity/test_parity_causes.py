"""Every cause is found on an engine that differs in just that, and on no other; what nothing explains is unknown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.data import ranking
from harness.data.document_rows import all_rows
from harness.data.types import Ids, Run, SparseVectors, TermCounts
from harness.encoders.bm25 import document_weights
from harness.errors import UsageError
from harness.exact import bm25_idf, document_frequencies
from harness.exact.lucene import byte_lengths, decoded_lengths
from harness.exact.qdrant_model import qdrant_idf, qdrant_weights
from harness.parity import HYPOTHESES, UNKNOWN, Parity, SparseReference, compare_run, make_recipe
from harness.parity.recipes import Recipe, empty_rows
from harness.text import count_terms, create_analyzer

DOCUMENTS, QUERIES, K = 300, 25, 40
MISSING = np.array([3, 50, 51, 120, 299], dtype=np.int32)


def made_texts(count: int, longest: int, seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    words = generator.zipf(1.3, (count, longest)) % 400
    lengths = generator.integers(longest // 8, longest, count)
    return [" ".join(f"t{word}" for word in row[:length]) for row, length in zip(words, lengths, strict=True)]


@pytest.fixture(scope="module")
def counts() -> TermCounts:
    documents = made_texts(DOCUMENTS, 120, 1)
    for row in (7, 100, 200):
        documents[row] = ""
    return count_terms(create_analyzer("whitespace"), [documents], made_texts(QUERIES, 16, 2))


def oracle(counts: TermCounts, kind: str = "sparse", **parameters: float | bool) -> SparseReference:
    recipe = make_recipe(
        kind,
        doc_ids=Ids.of(f"d{row}" for row in range(len(counts.documents))),
        query_ids=Ids.of(f"q{row}" for row in range(len(counts.queries))),
        counts=counts,
        parameters=parameters,
    )
    return SparseReference(recipe)


def engine(base: SparseReference, **changes: object) -> Run:
    return SparseReference(replace(base.recipe, **changes)).retrieve(K)


def scaled(base: SparseReference, factor: float) -> SparseVectors:
    documents = base.recipe.documents
    return replace(documents, values=(documents.values * np.float64(factor)).astype(np.float32))


def without_bytes(counts: TermCounts) -> SparseVectors:
    lengths = decoded_lengths()[byte_lengths(counts.lengths)].astype(np.int64)
    return document_weights(counts, lengths=lengths)


def shortened(run: Run) -> Run:
    kept = np.minimum(np.diff(run.indptr), 11)
    places = np.concatenate([np.arange(s, s + n) for s, n in zip(run.indptr[:-1], kept, strict=True)])
    indptr = np.concatenate([[0], np.cumsum(kept)]).astype(np.int64)
    return Run(run.query_ids, run.doc_ids, indptr, run.rows[places], run.scores[places])


def padded(base: SparseReference, k: int) -> Run:
    run = base.retrieve(k)
    rows, scores = [], []
    for query in range(len(run.query_ids)):
        found = run.rows[run.of_query(query)]
        rest = np.setdiff1d(np.arange(len(run.doc_ids)), found)[: k - len(found)]
        rows.append(np.concatenate([found, rest]))
        scores.append(np.concatenate([run.scores[run.of_query(query)], np.zeros(len(rest))]))
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    flat = np.concatenate(scores).astype(np.float32)
    return Run(run.query_ids, run.doc_ids, indptr, np.concatenate(rows).astype(np.int32), flat)


def float32_summed(base: SparseReference) -> Run:
    """The reference's hits re-scored with float32 accumulators, the last term first."""
    recipe = base.recipe
    dense = recipe.documents.to_scipy().toarray()
    idf = bm25_idf(*document_frequencies(recipe.documents))
    rows, scores = [], []
    for query in range(len(recipe.query_ids)):
        indices, values = recipe.queries.row(query)
        sums = np.zeros(len(dense), dtype=np.float32)
        for index, value in reversed(list(zip(indices, values, strict=True))):
            sums += (value * idf[index]) * dense[:, index]
        best = np.argsort(-sums, kind="stable")[:K]
        best = best[sums[best] > 0]
        rows.append(best)
        scores.append(sums[best])
    indptr = np.cumsum([0, *map(len, rows)]).astype(np.int64)
    return Run(recipe.query_ids, recipe.doc_ids, indptr, np.concatenate(rows).astype(np.int32), np.concatenate(scores))


def cause_of(run: Run, base: SparseReference, *, k: int = K, missing: bool = False) -> Parity:
    rows = MISSING if missing else None
    return compare_run(run, base, k=k, tolerance=0.0 if base.mode == "lucene" else 1e-7, missing_rows=rows)


def assert_only(found: Parity, cause: str, at_least: int = 1) -> None:
    assert set(found.causes) == {cause}, found.causes
    assert found.causes[cause] >= at_least
    assert found.causes[cause] == sum(one is not None for one in found.per_query.cause)


TEXTBOOK_CHANGES = {
    "IDF over all documents": lambda recipe, counts: {
        "idf": bm25_idf(document_frequencies(recipe.documents)[0], DOCUMENTS)
    },
    "float32 IDF": lambda recipe, counts: {"idf": qdrant_idf(DOCUMENTS - 3, document_frequencies(recipe.documents)[0])},
    "no IDF": lambda recipe, counts: {"idf": None},
    "query counts ignored": lambda recipe, counts: {
        "queries": replace(recipe.queries, values=np.ones(recipe.queries.nnz, dtype=np.float32))
    },
    "factor (k1 + 1)": lambda recipe, counts: {"documents": document_weights(counts, k1_plus_1=False)},
    "byte lengths": lambda recipe, counts: {"documents": without_bytes(counts)},
    "Lucene's arithmetic": lambda recipe, counts: {
        "mode": "lucene",
        "documents": counts.documents,
        "k1_plus_1": False,
    },
    "float16 weights": lambda recipe, counts: {"documents": qdrant_weights(recipe.documents, "float16")},
    "uint8 weights": lambda recipe, counts: {"documents": qdrant_weights(recipe.documents, "uint8")},
}


@pytest.mark.parametrize("cause", TEXTBOOK_CHANGES)
def test_a_changed_engine_is_found_out(cause: str, counts: TermCounts) -> None:
    base = oracle(counts)
    run = engine(base, **TEXTBOOK_CHANGES[cause](base.recipe, counts))
    assert_only(cause_of(run, base), cause, at_least=QUERIES // 5)


def test_missing_documents(counts: TermCounts) -> None:
    base = oracle(counts)
    run = engine(base, documents=empty_rows(base.recipe.documents, MISSING))
    assert_only(cause_of(run, base, missing=True), "missing documents", at_least=QUERIES // 2)
    assert set(cause_of(run, base).causes) == {UNKNOWN}


def test_missing_documents_that_the_idf_still_counts(counts: TermCounts) -> None:
    base = oracle(counts)
    kept = bm25_idf(*document_frequencies(base.recipe.documents))
    run = engine(base, documents=empty_rows(base.recipe.documents, MISSING), idf=kept)
    assert_only(cause_of(run, base, missing=True), "missing documents, IDF kept")


def test_missing_documents_in_lucene(counts: TermCounts) -> None:
    base = oracle(counts, "lucene")
    left = replace(counts, documents=all_rows(empty_rows(counts.documents, MISSING)))
    run = oracle(left, "lucene").retrieve(K)
    assert_only(cause_of(run, base, missing=True), "missing documents", at_least=QUERIES // 2)


def test_missing_empty_documents_change_nothing(counts: TermCounts) -> None:
    base = oracle(counts)
    empty = np.array([7, 100, 200], dtype=np.int32)
    found = compare_run(base.retrieve(K), base, k=K, tolerance=0.0, missing_rows=empty)
    assert (found.bit_equal, found.causes) == (QUERIES, {})


def test_lucene_without_the_constant_factor(counts: TermCounts) -> None:
    base = oracle(counts, "lucene", k1_plus_1=True)
    assert_only(cause_of(oracle(counts, "lucene").retrieve(K), base), "factor (k1 + 1)", at_least=QUERIES // 2)


def test_lucene_with_statistics_of_all_shards(counts: TermCounts) -> None:
    shards = (np.arange(DOCUMENTS) % 2).astype(np.int32)
    base = SparseReference(replace(oracle(counts, "lucene", k1_plus_1=True).recipe, shards=shards))
    run = engine(base, shards=None)
    assert_only(cause_of(run, base), "one IDF for all shards", at_least=QUERIES // 2)


def test_candidates_are_ranked_in_the_order_of_ties() -> None:
    same = count_terms(create_analyzer("whitespace"), [["a", "a", "a"]], ["a"])
    base = oracle(same, "lucene").recipe
    order = np.array([2, 0, 1], dtype=np.int32)
    recipe = replace(base, order=order)
    whole = SparseReference(recipe).retrieve(3)
    listed = SparseReference(replace(recipe, candidates=SparseReference(base).retrieve(3))).retrieve(3)
    assert whole.rows.tolist() == listed.rows.tolist() == order.tolist()


def test_exact_lengths_where_lucene_rounds(counts: TermCounts) -> None:
    base = oracle(counts, "lucene")
    run = engine(base, mode="textbook", documents=document_weights(counts, k1_plus_1=False))
    assert_only(cause_of(run, base), "exact lengths", at_least=QUERIES // 2)


def test_fewer_hits(counts: TermCounts) -> None:
    base = oracle(counts)
    assert_only(cause_of(shortened(base.retrieve(K)), base), "fewer hits", at_least=QUERIES // 2)


def test_an_engine_that_finds_nothing_is_not_explained(counts: TermCounts) -> None:
    base = oracle(counts)
    run = base.retrieve(K)
    nothing = Run(run.query_ids, run.doc_ids, np.zeros_like(run.indptr), run.rows[:0], run.scores[:0])
    assert set(cause_of(nothing, base).causes) == {UNKNOWN}


def test_zero_score_padding(counts: TermCounts) -> None:
    base = oracle(counts)
    assert_only(cause_of(padded(base, DOCUMENTS), base, k=DOCUMENTS), "zero-score padding", at_least=QUERIES // 2)


def test_within_float32_rounding(counts: TermCounts) -> None:
    base = oracle(counts)
    run = float32_summed(base)
    found = compare_run(run, base, k=K, tolerance=0.0)
    assert_only(found, "within float32 rounding", at_least=QUERIES // 2)
    assert compare_run(run, base, k=K, tolerance=4e-7).causes == {}


def test_negative_weights_have_no_bound_for_rounding(counts: TermCounts) -> None:
    base = oracle(counts)
    negative = SparseReference(replace(base.recipe, documents=scaled(base, -1.0), counts=None))
    run = negative.retrieve(K)
    off = Run(run.query_ids, run.doc_ids, run.indptr, run.rows, np.nextafter(run.scores, np.float32(0)))
    found = compare_run(off, negative, k=K, tolerance=0.0)
    assert found.identical == QUERIES
    assert set(found.causes) == {UNKNOWN}


def test_two_changes_at_once_are_unknown(counts: TermCounts) -> None:
    base = oracle(counts)
    found = cause_of(engine(base, idf=None, documents=document_weights(counts, k1=2.0)), base)
    assert set(found.causes) == {UNKNOWN}
    assert found.causes[UNKNOWN] > QUERIES // 2


def test_a_wrong_scale_that_keeps_the_ranking_is_unknown_but_identical(counts: TermCounts) -> None:
    base = oracle(counts)
    found = cause_of(engine(base, documents=scaled(base, 2.0)), base)
    assert (found.identical, found.different) == (QUERIES, 0)
    assert found.max_rel_score_diff == pytest.approx(0.5)
    assert set(found.causes) == {UNKNOWN}


def test_each_query_gets_its_own_cause(counts: TermCounts) -> None:
    base = oracle(counts)
    exact, other = base.retrieve(K), engine(base, idf=None)
    parts = [(exact if query % 2 else other, query) for query in range(QUERIES)]
    rows = np.concatenate([run.rows[run.of_query(query)] for run, query in parts])
    scores = np.concatenate([run.scores[run.of_query(query)] for run, query in parts])
    indptr = np.cumsum([0, *(len(run.rows[run.of_query(query)]) for run, query in parts)]).astype(np.int64)
    found = cause_of(Run(exact.query_ids, exact.doc_ids, indptr, rows, scores), base)
    assert all(cause is None for cause in found.per_query.cause[1::2])
    assert set(found.per_query.cause[0::2]) == {"no IDF"}


def test_a_run_that_is_its_oracle_tries_no_hypothesis(counts: TermCounts) -> None:
    for kind in ("sparse", "lucene"):
        base = oracle(counts, kind)
        found = compare_run(base.retrieve(K), base, k=K, tolerance=0.0)
        assert (found.bit_equal, found.causes, found.rbo) == (QUERIES, {}, pytest.approx(1.0))
        assert (found.reference, found.mode) == ("sparse", "lucene" if kind == "lucene" else "textbook")


def test_a_graph_of_sparse_vectors_that_misses_documents(counts: TermCounts) -> None:
    base = oracle(counts)
    deep = base.retrieve(K + 15)
    run = ranking.cut(ranking.select_hits(deep, np.flatnonzero(np.arange(len(deep.rows)) % 3)), K)
    assert compare_run(run, base, k=K, tolerance=1e-7, approximate=True).causes == {"approximate search": QUERIES}
    assert "approximate search" not in compare_run(run, base, k=K, tolerance=1e-7).causes


def test_every_hypothesis_has_a_test_and_a_meaning() -> None:
    tested = {
        *TEXTBOOK_CHANGES,
        "missing documents",
        "missing documents, IDF kept",
        "fewer hits",
        "zero-score padding",
        "within float32 rounding",
        "exact lengths",
        "one IDF for all shards",  # in test_parity_shards.py
        "statistics of documents with terms",  # in test_causes_of_models.py
        *("missing vectors", "approximate search", "dot product"),  # in test_dense_parity.py
        *("float16 documents", "float16 vectors", "quantisation", "quantisation, approximate search"),
        "quantisation in the index, approximate search",  # in test_dense_parity.py
    }
    assert {hypothesis.name for hypothesis in HYPOTHESES} == tested
    assert len({hypothesis.name for hypothesis in HYPOTHESES}) == len(HYPOTHESES)
    assert HYPOTHESES[-1].name == "within float32 rounding", "it would give its name to defects that have a better one"
    assert all(hypothesis.meaning for hypothesis in HYPOTHESES)


def test_the_documentation_lists_every_cause_in_order(repository: Path) -> None:
    page = (repository / "docs" / "explanation" / "parity.md").read_text(encoding="utf-8")
    rows = "\n".join(f"| {hypothesis.name} | {hypothesis.meaning} |" for hypothesis in HYPOTHESES)
    assert f"|---|---|\n{rows}\n\n" in page


def test_an_oracle_of_vectors_that_bm25_did_not_make(counts: TermCounts) -> None:
    known = oracle(counts)
    recipe = make_recipe(
        "sparse",
        doc_ids=known.recipe.doc_ids,
        query_ids=known.recipe.query_ids,
        documents=known.recipe.documents,
        queries=known.recipe.queries,
        parameters={},
    )
    bare = SparseReference(recipe)
    found = cause_of(engine(bare, idf=None), bare)
    assert_only(found, "no IDF", at_least=QUERIES // 2)


def test_parameters_reach_the_oracle(counts: TermCounts) -> None:
    assert oracle(counts, k1=0.0).recipe.documents.values.max() == 1.0
    assert oracle(counts, idf=False).recipe.idf is None
    assert np.array_equal(
        oracle(counts, k1=1.2, b=0.75, k1_plus_1=False).recipe.documents.values,
        document_weights(counts, k1=1.2, b=0.75, k1_plus_1=False).values,
    )
    lucene = oracle(counts, "lucene", k1=1.2, b=0.75).recipe
    assert (lucene.k1, lucene.b, lucene.mode) == (1.2, 0.75, "lucene")


def test_what_an_oracle_needs_is_asked_for(counts: TermCounts) -> None:
    ids = Ids.of([])
    with pytest.raises(UsageError, match="no reference of kind 'dense'"):
        make_recipe("dense", doc_ids=ids, query_ids=ids, parameters={})
    with pytest.raises(UsageError, match="needs term counts"):
        make_recipe("lucene", doc_ids=ids, query_ids=ids, parameters={})
    with pytest.raises(UsageError, match="or term counts"):
        make_recipe("sparse", doc_ids=ids, query_ids=ids, documents=counts.documents, parameters={})


def test_a_recipe_of_some_queries_scores_them_alike(counts: TermCounts) -> None:
    base = oracle(counts)
    rows = np.array([4, 0, 9], dtype=np.int32)
    whole, part = base.retrieve(K), base.of_queries(rows).retrieve(K)
    assert part.query_ids.to_list() == ["q4", "q0", "q9"]
    for place, query in enumerate(rows):
        assert np.array_equal(part.rows[part.of_query(place)], whole.rows[whole.of_query(query)])
        assert np.array_equal(part.scores[part.of_query(place)], whole.scores[whole.of_query(query)])


def test_emptied_rows_hold_nothing_and_the_rest_stays(counts: TermCounts) -> None:
    left = all_rows(empty_rows(counts.documents, MISSING))
    assert np.diff(left.indptr)[MISSING].tolist() == [0] * len(MISSING)
    for row in range(0, DOCUMENTS, 7):
        if row not in MISSING:
            assert left.row(row)[0].tolist() == counts.documents.row(row)[0].tolist()


def test_recipes_are_frozen(counts: TermCounts) -> None:
    recipe: Recipe = oracle(counts).recipe
    with pytest.raises(AttributeError):
        recipe.idf = None
