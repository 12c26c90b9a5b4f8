"""Every cause of a difference between dense engines is found on an engine that differs in just that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.data import ranking
from harness.data.types import Float32Array, Ids, Run, Similarity
from harness.parity import UNKNOWN, DenseRecipe, DenseReference, Parity, compare_run

DOCUMENTS, QUERIES, K, DIMENSIONS = 400, 20, 30, 48
TOLERANCE = 1e-6
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot", "l2")
GENERATOR = np.random.default_rng(6)
CENTRES = GENERATOR.standard_normal((12, DIMENSIONS))
VECTORS = (CENTRES[np.arange(DOCUMENTS) % 12] + 0.6 * GENERATOR.standard_normal((DOCUMENTS, DIMENSIONS))).astype(
    np.float32
)
ASKED = (CENTRES[np.arange(QUERIES) % 12] + 0.6 * GENERATOR.standard_normal((QUERIES, DIMENSIONS))).astype(np.float32)
MISSING = np.array([1, 13, 25, 37, 100], dtype=np.int32)


def oracle(similarity: Similarity) -> DenseReference:
    ids = (Ids.of(f"{name}{row:03}" for row in range(n)) for name, n in (("d", DOCUMENTS), ("q", QUERIES)))
    return DenseReference(DenseRecipe(*ids, VECTORS, ASKED, similarity, np.empty(0, dtype=np.int32)))


def in_float32(similarity: Similarity, k: int = K, documents: Float32Array = VECTORS) -> Run:
    """What an engine does that computes in float32, by distances for l2 and with normalised vectors for cosine."""
    base, asked = oracle(similarity), ASKED
    if similarity == "cosine":
        documents, asked = (one / np.linalg.norm(one, axis=1, keepdims=True) for one in (documents, asked))
    scores = asked @ documents.T
    if similarity == "l2":
        scores = -((asked[:, None] - documents[None]) ** 2).sum(axis=2)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k].astype(np.int32)
    found = np.take_along_axis(scores, best, axis=1)
    indptr = np.arange(QUERIES + 1) * best.shape[1]
    return Run(base.recipe.query_ids, base.recipe.doc_ids, indptr, best.ravel(), found.astype(np.float32).ravel())


def held(run: Run, similarity: Similarity, **options: object) -> Parity:
    return compare_run(run, oracle(similarity), k=K, tolerance=TOLERANCE, **options)


def some_hits(run: Run, keep: np.ndarray) -> Run:
    indptr = np.concatenate([[0], np.cumsum(keep)])[run.indptr].astype(np.int64)
    return Run(run.query_ids, run.doc_ids, indptr, run.rows[keep], run.scores[keep])


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_an_engine_in_float32_is_tie_equivalent(similarity: Similarity):
    parity = held(in_float32(similarity), similarity)
    assert parity.tie_equivalent == QUERIES
    assert parity.causes == {}
    assert (parity.reference, parity.mode) == ("dense", similarity)
    assert 0 < parity.max_rel_score_diff < TOLERANCE


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_the_oracle_is_bit_equal_to_itself(similarity: Similarity):
    parity = compare_run(oracle(similarity).retrieve(K), oracle(similarity), k=K, tolerance=0)
    assert parity.bit_equal == QUERIES


def test_cosines_near_zero_are_judged_by_the_largest_possible_one():
    """Orthogonal up to float32: the scores' relative difference is 100 %, and means nothing."""
    documents = np.array([[1, 1, 0], [1, 1, 1e-9], [3, 0, 4]], dtype=np.float32)
    base = DenseReference(
        DenseRecipe(
            Ids.of("abc"), Ids.of("q"), documents, np.array([[1, -1, 0]], dtype=np.float32), "cosine", MISSING[:0]
        )
    )
    exact = base.retrieve(3)
    run = replace(exact, scores=exact.scores + np.float32(3e-8))
    parity = compare_run(run, base, k=3, tolerance=1e-7)
    assert parity.identical == 1
    assert parity.causes == {}
    assert parity.max_rel_score_diff == pytest.approx(3e-8, rel=0.5)


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_a_graph_that_misses_documents(similarity: Similarity):
    run = in_float32(similarity, K + 15)
    run = ranking.cut(some_hits(run, np.arange(len(run.rows)) % 3 > 0), K)
    parity = held(run, similarity, approximate=True)
    assert parity.causes == {"approximate search": QUERIES}
    assert parity.overlap[K] == pytest.approx(2 / 3, abs=0.01)
    assert held(run, similarity).causes == {UNKNOWN: QUERIES}, "only what has a graph may miss documents"


def test_a_graph_that_gives_wrong_scores_or_another_order_is_not_excused():
    run = in_float32("cosine", K + 15)
    run = ranking.cut(some_hits(run, np.arange(len(run.rows)) % 3 > 0), K)
    wrong = replace(run, scores=(run.scores * np.float32(1.001)).astype(np.float32))
    assert held(wrong, "cosine", approximate=True).causes == {UNKNOWN: QUERIES}
    turned = np.concatenate([run.rows[s:e][::-1] for s, e in zip(run.indptr, run.indptr[1:], strict=False)])
    swapped = replace(run, rows=turned)
    assert held(swapped, "cosine", approximate=True).causes == {UNKNOWN: QUERIES}


@pytest.mark.parametrize("approximate", [False, True])
def test_compressed_vectors_explain_the_scores_and_the_order_that_are_theirs(approximate: bool):
    coarse = (np.round(VECTORS * 4) / 4).astype(np.float32)
    compared = DenseReference(replace(oracle("l2").recipe, documents=coarse))
    run = in_float32("l2", K + 15, coarse)
    if approximate:
        run = some_hits(run, np.arange(len(run.rows)) % 3 > 0)
    run = ranking.cut(run, K)
    name = "quantisation, approximate search" if approximate else "quantisation"
    assert held(run, "l2", approximate=approximate, compared=compared).causes == {name: QUERIES}
    assert held(run, "l2", approximate=approximate).causes == {UNKNOWN: QUERIES}
    wrong = replace(run, scores=(run.scores * np.float32(1.001)).astype(np.float32))
    assert held(wrong, "l2", approximate=approximate, compared=compared).causes == {UNKNOWN: QUERIES}
    swapped = replace(run, rows=run.rows.reshape(QUERIES, -1)[:, ::-1].ravel())
    assert held(swapped, "l2", approximate=approximate, compared=compared).causes == {UNKNOWN: QUERIES}


def test_an_index_that_compares_other_vectors_than_its_scores_are_of_orders_by_these():
    """Scores of vectors that were rounded once, in the order of what the index rounded again."""
    once, twice = (np.round(VECTORS * step) / step for step in (8, 2))
    compared, ordered = (
        DenseReference(replace(oracle("dot").recipe, documents=vectors.astype(np.float32))) for vectors in (once, twice)
    )
    run = ranking.cut(some_hits(ordered.retrieve(K + 15), np.arange(QUERIES * (K + 15)) % 3 > 0), K)
    run = run.with_scores(compared.score(run))
    name = "quantisation in the index, approximate search"
    assert held(run, "dot", approximate=True, compared=compared, ordered=ordered).causes == {name: QUERIES}
    assert held(run, "dot", approximate=True, compared=compared).causes == {UNKNOWN: QUERIES}
    assert held(run, "dot", compared=compared, ordered=ordered).causes == {UNKNOWN: QUERIES}
    wrong = run.with_scores((run.scores * np.float32(1.001)).astype(np.float32))
    assert held(wrong, "dot", approximate=True, compared=compared, ordered=ordered).causes == {UNKNOWN: QUERIES}
    of_the_index = run.with_scores(ordered.score(run))
    assert name not in held(of_the_index, "dot", approximate=True, compared=compared, ordered=ordered).causes
    swapped = replace(run, rows=run.rows.reshape(QUERIES, -1)[:, ::-1].ravel())
    assert held(swapped, "dot", approximate=True, compared=compared, ordered=ordered).causes == {UNKNOWN: QUERIES}


@pytest.mark.parametrize("similarity", SIMILARITIES)
def test_documents_that_the_engine_does_not_hold(similarity: Similarity):
    run = in_float32(similarity, K + len(MISSING))
    run = ranking.cut(some_hits(run, ~np.isin(run.rows, MISSING)), K)
    parity = held(run, similarity, missing_rows=MISSING)
    assert set(parity.causes) == {"missing vectors"}
    assert parity.different == parity.causes["missing vectors"] > 0


def halved(vectors: Float32Array, similarity: Similarity) -> Float32Array:
    if similarity == "cosine":
        vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return vectors.astype(np.float16).astype(np.float32)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("queries", [False, True])
def test_vectors_in_half_precision(similarity: Similarity, queries: bool):
    """Under cosine the engine does not normalise again what it has rounded."""
    base, documents, asked = oracle(similarity), halved(VECTORS, similarity), ASKED
    if similarity == "cosine":
        asked = (ASKED / np.linalg.norm(ASKED, axis=1, keepdims=True)).astype(np.float32)
    if queries:
        asked = halved(ASKED, similarity)
    rounded = DenseReference(
        replace(base.recipe, documents=documents, queries=asked, similarity="l2" if similarity == "l2" else "dot")
    )
    parity = held(rounded.retrieve(K), similarity)
    assert parity.causes == {"float16 vectors" if queries else "float16 documents": QUERIES}
    assert parity.max_rel_score_diff > TOLERANCE


def test_a_dot_product_where_the_cosine_was_asked_for():
    assert held(in_float32("dot"), "cosine").causes == {"dot product": QUERIES}


def test_rounding_beyond_the_stated_tolerance():
    run = in_float32("cosine")
    off = replace(run, scores=(run.scores + np.float32(2e-6)).astype(np.float32))
    assert held(off, "cosine").causes == {"within float32 rounding": QUERIES}


def test_too_few_hits():
    assert held(in_float32("cosine", K - 3), "cosine").causes == {"fewer hits": QUERIES}
