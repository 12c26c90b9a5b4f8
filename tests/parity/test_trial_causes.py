"""Causes that facts of a trial suggest: proven where the one change reproduces the run, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from harness.data.document_rows import all_rows
from harness.data.types import Ids, Run
from harness.engines.interface import Hits, Placement
from harness.exact import document_frequencies
from harness.exact.bm25_models import formula_of
from harness.parity import UNKNOWN, DenseRecipe, DenseReference, Reference, SparseReference
from harness.parity.causes import HYPOTHESES
from harness.parity.recipes import make_recipe
from harness.parity.run_comparison import compare_run
from harness.parity.trial_causes import OUTSIDE_THE_INDEX, QUANTISED_SCORES, SMALL_WEIGHTS, causes_of_trial
from harness.testing.expected import count_words, random_unit_vectors
from harness.testing.samples import random_texts, word
from harness.worker.jobs import TrialRecord

K = 20
DOCUMENTS, QUERIES = Ids.of(f"d{row:03}" for row in range(80)), Ids.of(f"q{row}" for row in range(4))


def causes(name: str, reference: Reference, run: Run, record: object, **parameters: float) -> set[str | None]:
    suggested = causes_of_trial(name, reference, cast("TrialRecord", record), parameters, (run.query_ids, run.doc_ids))
    parity = compare_run(run, reference, k=K, tolerance=1e-6, hypotheses=(*suggested, *HYPOTHESES))
    return set(parity.per_query.cause)


def dense() -> tuple[DenseReference, Run]:
    """The reference, and a run of its documents with scores that are rounded to two digits."""
    nothing = np.empty(0, dtype=np.int32)
    vectors = random_unit_vectors(5, 80, 16), random_unit_vectors(6, 4, 16)
    reference = DenseReference(DenseRecipe(DOCUMENTS, QUERIES, *vectors, "dot", nothing))
    exact = reference.retrieve(K)
    return reference, replace(exact, scores=np.round(exact.scores, 2).astype(np.float32))


def test_scores_of_codes_are_proven_by_measuring_the_same_documents() -> None:
    reference, run = dense()
    exact = reference.retrieve(K)
    measured = SimpleNamespace(remeasured={"dense": Hits(exact.indptr, exact.rows, exact.scores)}, placement=None)
    assert causes("dense", reference, run, measured) == {QUANTISED_SCORES}
    assert causes("dense", reference, run, SimpleNamespace(remeasured={}, placement=None)) == {UNKNOWN}


def test_other_documents_or_wrong_scores_prove_nothing() -> None:
    reference, run = dense()
    deeper = reference.retrieve(K + 1)
    later = np.concatenate([np.arange(start + 1, start + K + 1) for start in deeper.indptr[:-1]])
    for hits in (
        Hits(run.indptr, deeper.rows[later], deeper.scores[later]),
        Hits(run.indptr, run.rows, run.scores),
    ):
        record = SimpleNamespace(remeasured={"dense": hits}, placement=None)
        assert causes("dense", reference, run, record) == {UNKNOWN}


def of_terms(scoring: str, **parameters: float) -> SparseReference:
    queries = [f"{word(0)} {word(2)} {word(9)}", f"{word(1)} {word(1)} {word(3)}", word(4), f"{word(5)} {word(6)}"]
    counts = count_words(random_texts(11, 80), queries)
    parameters = {"k1": 1.2, "b": 0.75, **parameters}
    recipe = make_recipe(
        "sparse", doc_ids=DOCUMENTS, query_ids=QUERIES, counts=counts, parameters=parameters, scoring=scoring
    )
    assert recipe.formula == formula_of(scoring, parameters)
    return SparseReference(recipe)


@pytest.mark.parametrize(("ratio", "left"), [(0.5, [2, 1, 1, 1]), (0.34, [2, 2, 1, 2])])
def test_the_smallest_weights_of_a_query_are_left_out(ratio: float, left: list[int]) -> None:
    """Half of three is one, of two one, of one none; a term's weight is its count times its IDF."""
    reference = of_terms("milvus")
    recipe = reference.recipe
    assert recipe.counts is not None
    df, _ = document_frequencies(recipe.documents)
    idf = np.log(1 + (80 - df + 0.5) / (df + 0.5))
    kept = []
    for query in range(4):
        indices, counts = recipe.queries.row(query)
        kept.append(np.sort(indices[np.argsort(-counts * idf[indices])][: left[query]]))
    dropped = [np.isin(recipe.queries.row(query)[0], kept[query]) for query in range(4)]
    flags = np.concatenate(dropped)
    indptr = np.concatenate([[0], np.cumsum(left)]).astype(np.int64)
    queries = replace(
        recipe.queries, indptr=indptr, indices=recipe.queries.indices[flags], values=recipe.queries.values[flags]
    )
    run = SparseReference(replace(recipe, queries=queries)).retrieve(K)
    record = SimpleNamespace(remeasured={}, placement=None)
    assert causes("dense", reference, run, record, drop_ratio_search=ratio) == {SMALL_WEIGHTS, None}
    assert UNKNOWN in causes("dense", reference, run, record)


def test_rows_outside_the_index_are_scored_by_statistics_of_all() -> None:
    """The first 30 documents by their own, the others by those of all 80."""
    reference = of_terms("lancedb")
    recipe = reference.recipe
    assert recipe.counts is not None
    own = make_recipe(
        "sparse",
        doc_ids=Ids.of(DOCUMENTS.to_list()[:30]),
        query_ids=QUERIES,
        counts=recipe.counts.of_documents(np.arange(30, dtype=np.int32)),
        parameters={"k1": 1.2, "b": 0.75},
        scoring="lancedb",
    )
    documents = all_rows(recipe.documents)
    values = np.concatenate([all_rows(own.documents).values, documents.values[documents.indptr[30] :]])
    run = SparseReference(replace(recipe, documents=replace(documents, values=values))).retrieve(K)
    order = np.arange(80, dtype=np.int32)
    outside = Placement(None, order, np.arange(30, 80, dtype=np.int32))
    assert causes("dense", reference, run, SimpleNamespace(remeasured={}, placement=outside)) == {OUTSIDE_THE_INDEX}
    none_outside = Placement(None, order, np.empty(0, dtype=np.int32))
    assert UNKNOWN in causes("dense", reference, run, SimpleNamespace(remeasured={}, placement=none_outside))


def test_an_engine_without_a_formula_may_have_rows_outside_its_index() -> None:
    """There is no such cause to try then, and the comparison goes on."""
    reference = of_terms("lancedb")
    plain = SparseReference(replace(reference.recipe, formula=None))
    run = plain.retrieve(K)
    outside = Placement(None, np.arange(80, dtype=np.int32), np.arange(30, 80, dtype=np.int32))
    wrong = replace(run, scores=run.scores * np.float32(1.5))
    assert causes("dense", plain, wrong, SimpleNamespace(remeasured={}, placement=outside)) == {UNKNOWN}
