"""A filtered search is the whole exact ranking without the documents that do not match, to the last bit."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.filtering import BoolArray, Matching
from harness.data.ranking import candidate_positions, candidate_rows, cut, select_hits
from harness.data.types import Float32Array, Ids, SparseVectors, TermCounts, UInt32Array
from harness.errors import UsageError
from harness.exact import DenseIndex, LuceneIndex, SparseIndex
from harness.exact.topk import TopK
from harness.parity import DenseRecipe, DenseReference, Reference, SparseReference
from harness.parity.recipes import make_recipe

DIMENSIONS = 6
EVERYTHING = 10_000

weights = st.sampled_from([1.0, 2.0, 0.5, -1.0, 3.0, 0.1])
counts = st.sampled_from([1.0, 2.0, 5.0])


class Sparse(NamedTuple):
    documents: SparseVectors
    queries: SparseVectors
    matching: BoolArray
    tie_break: UInt32Array


@st.composite
def rows(draw: st.DrawFn, most: int, values: st.SearchStrategy[float]) -> SparseVectors:
    row = st.dictionaries(st.integers(0, DIMENSIONS - 1), values, max_size=DIMENSIONS)
    drawn = draw(st.lists(row, min_size=1, max_size=most))
    indptr = np.cumsum([0, *(len(one) for one in drawn)]).astype(np.int64)
    indices = np.array([column for one in drawn for column in sorted(one)], dtype=np.int32)
    held = np.array([one[column] for one in drawn for column in sorted(one)], dtype=np.float32)
    return SparseVectors(indptr, indices, held, DIMENSIONS)


@st.composite
def sparse(draw: st.DrawFn, values: st.SearchStrategy[float]) -> Sparse:
    documents, queries = draw(rows(60, values)), draw(rows(4, values))
    size = len(documents)
    matching = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    ranks = draw(st.permutations(range(size)))
    return Sparse(documents, queries, np.array(matching, dtype=np.bool_), np.array(ranks, dtype=np.uint32))


def lists(found: TopK) -> list[list[tuple[int, bytes]]]:
    """Rows and score bits of every query."""
    hits = [(int(row), score.tobytes()) for row, score in zip(found.rows, found.scores, strict=True)]
    return [hits[start:stop] for start, stop in zip(found.indptr, found.indptr[1:], strict=False)]


def without_others(found: TopK, matching: BoolArray, k: int) -> list[list[tuple[int, bytes]]]:
    return [[hit for hit in hits if matching[hit[0]]][:k] for hits in lists(found)]


@settings(max_examples=examples(80))
@given(problem=sparse(weights), k=st.sampled_from([1, 3, 10, EVERYTHING]), idf=st.booleans())
def test_sparse(problem: Sparse, k: int, idf: bool) -> None:
    index = SparseIndex.build(problem.documents, idf="bm25" if idf else None, tie_break=problem.tie_break)
    filtered = index.filtered(problem.matching)
    everything = index.retrieve(problem.queries, EVERYTHING)
    assert lists(filtered.retrieve(problem.queries, k)) == without_others(everything, problem.matching, k)
    assert filtered.idf is index.idf


@settings(max_examples=examples(80))
@given(problem=sparse(counts), k=st.sampled_from([1, 3, EVERYTHING]))
def test_lucene(problem: Sparse, k: int) -> None:
    index = LuceneIndex.build(counted(problem))
    everything = index.retrieve(problem.queries, EVERYTHING)
    filtered = index.filtered(problem.matching)
    assert lists(filtered.retrieve(problem.queries, k)) == without_others(everything, problem.matching, k)


def counted(problem: Sparse) -> TermCounts:
    vocabulary = Ids.of(f"t{column}" for column in range(DIMENSIONS))
    unknown = np.zeros(len(problem.queries), dtype=np.int32)
    return TermCounts(problem.documents, problem.queries, vocabulary, unknown)


class Dense(NamedTuple):
    documents: Float32Array
    queries: Float32Array
    matching: BoolArray
    tie_break: UInt32Array


@st.composite
def dense(draw: st.DrawFn) -> Dense:
    """Few distinct vectors, so that ties abound."""
    size = draw(st.integers(1, 80))
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    distinct = generator.choice([0.5, 1.0, -1.0, 2.0], size=(draw(st.integers(1, 8)), 5)).astype(np.float32)
    matching = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=np.bool_)
    documents = distinct[generator.integers(len(distinct), size=size)]
    queries = generator.normal(size=(3, 5)).astype(np.float32)
    return Dense(documents, queries, matching, generator.permutation(size).astype(np.uint32))


@settings(max_examples=examples(60))
@given(problem=dense(), k=st.sampled_from([1, 3, EVERYTHING]), ties=st.booleans())
@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
def test_dense(problem: Dense, k: int, ties: bool, similarity: str) -> None:
    index = DenseIndex.build(problem.documents, tie_break=problem.tie_break if ties else None)
    everything = index.retrieve(problem.queries, EVERYTHING, similarity=similarity)  # type: ignore[arg-type]
    found = index.filtered(problem.matching).retrieve(problem.queries, k, similarity=similarity)  # type: ignore[arg-type]
    assert lists(found) == without_others(everything, problem.matching, k)


@settings(max_examples=examples(30))
@given(problem=sparse(weights), k=st.sampled_from([1, 5, EVERYTHING]))
def test_the_sparse_oracle_and_its_parts(problem: Sparse, k: int) -> None:
    recipe = make_recipe(
        "sparse",
        doc_ids=Ids.of(f"d{row:03}" for row in range(len(problem.documents))),
        query_ids=Ids.of(f"q{row}" for row in range(len(problem.queries))),
        documents=problem.documents,
        queries=problem.queries,
        parameters={},
    )
    whole = SparseReference(recipe)
    oracle = SparseReference(replace(recipe, matching=Matching.of_all(problem.matching, len(problem.queries))))
    everything = whole.retrieve(EVERYTHING)
    expected = without_others(TopK(everything.indptr, everything.rows, everything.scores), problem.matching, k)
    run = oracle.retrieve(k)
    assert lists(TopK(run.indptr, run.rows, run.scores)) == expected
    part = oracle.of_queries(np.array([0], dtype=np.int32)).retrieve(k)
    assert lists(TopK(part.indptr, part.rows, part.scores)) == expected[:1]
    # hits of an engine that ignores the filter have their scores too
    assert oracle.score(everything).tobytes() == everything.scores.tobytes()


def of_candidates(oracle: Reference, documents: Ids, queries: Ids, matching: BoolArray, k: int) -> None:
    """Among candidates, other ones of each query, are the hits of the whole exact ranking that are candidates."""
    listed = [[name for row, name in enumerate(documents) if matching[row] ^ (row % (q + 2) == 0)] for q in range(4)]
    candidates = candidate_rows(queries, documents, dict(zip(queries, listed, strict=False)))
    everything = oracle.retrieve(EVERYTHING)
    expected = cut(select_hits(everything, candidate_positions(everything.indptr, everything.rows, candidates)), k)
    among = type(oracle)(replace(oracle.recipe, candidates=candidates))  # type: ignore[attr-defined, call-arg]
    run = among.retrieve(k)
    part = among.of_queries(np.array([len(queries) - 1], dtype=np.int32)).retrieve(k)
    expected_lists = lists(TopK(expected.indptr, expected.rows, expected.scores))
    assert lists(TopK(run.indptr, run.rows, run.scores)) == expected_lists
    assert lists(TopK(part.indptr, part.rows, part.scores)) == expected_lists[-1:]


@settings(max_examples=examples(60))
@given(problem=sparse(weights), k=st.sampled_from([1, 5, EVERYTHING]), idf=st.booleans())
def test_the_sparse_oracle_among_candidates(problem: Sparse, k: int, idf: bool) -> None:
    ids = ids_of(problem)
    vectors = {"documents": problem.documents, "queries": problem.queries, "parameters": {"idf": idf}}
    recipe = make_recipe("sparse", doc_ids=ids[0], query_ids=ids[1], **vectors)  # type: ignore[arg-type]
    of_candidates(SparseReference(recipe), *ids, problem.matching, k)


@settings(max_examples=examples(60))
@given(problem=sparse(counts), k=st.sampled_from([1, 5, EVERYTHING]))
def test_the_lucene_oracle_among_candidates(problem: Sparse, k: int) -> None:
    ids = ids_of(problem)
    recipe = make_recipe("lucene", doc_ids=ids[0], query_ids=ids[1], counts=counted(problem), parameters={})
    of_candidates(SparseReference(recipe), *ids, problem.matching, k)


@settings(max_examples=examples(40))
@given(problem=dense(), k=st.sampled_from([1, 5, EVERYTHING]))
@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
def test_the_dense_oracle_among_candidates(problem: Dense, k: int, similarity: str) -> None:
    ids, nothing = ids_of(problem), np.empty(0, dtype=np.int32)
    recipe = DenseRecipe(*ids, problem.documents, problem.queries, similarity, missing=nothing)  # type: ignore[arg-type]
    of_candidates(DenseReference(recipe), *ids, problem.matching, k)


def ids_of(problem: Sparse | Dense) -> tuple[Ids, Ids]:
    """In another order than that of the rows, which decides ties in Lucene."""
    documents, queries = len(problem.documents), len(problem.queries)
    return Ids.of(f"d{row * 7 % 101:03}" for row in range(documents)), Ids.of(f"q{row}" for row in range(queries))


def test_the_dense_oracle_and_its_parts() -> None:
    generator = np.random.default_rng(1)
    documents, queries = (generator.normal(size=(size, 8)).astype(np.float32) for size in (50, 3))
    matching = generator.random(50) < 0.3
    ids = [Ids.of(f"{kind}{row}" for row in range(size)) for kind, size in (("d", 50), ("q", 3))]
    nothing = np.empty(0, dtype=np.int32)
    recipe = DenseRecipe(*ids, documents, queries, "cosine", missing=nothing, matching=Matching.of_all(matching, 3))
    oracle = DenseReference(recipe)
    run = oracle.retrieve(50)
    assert np.diff(run.indptr).tolist() == [int(matching.sum())] * 3
    assert matching[run.rows].all()
    lost = run.rows[:1]
    without = oracle.without(lost).retrieve(50)
    assert lost[0] not in without.rows
    assert np.diff(without.indptr).tolist() == [int(matching.sum()) - 1] * 3
    part = oracle.of_queries(np.array([2], dtype=np.int32)).retrieve(50)
    assert part.rows.tolist() == run.rows[run.of_query(2)].tolist()


@pytest.mark.parametrize("wrong", [np.ones(3, dtype=np.bool_), np.ones(2, dtype=np.int8)])
def test_a_mask_of_another_shape_or_type_is_refused(wrong: BoolArray) -> None:
    vectors = np.eye(2, dtype=np.float32)
    sparse_index = SparseIndex.build(SparseVectors(np.arange(3), np.arange(2, dtype=np.int32), vectors[0], 2))
    for index in (DenseIndex.build(vectors), sparse_index):
        with pytest.raises(UsageError, match="matching has shape"):
            index.filtered(wrong)
