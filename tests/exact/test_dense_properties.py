"""Exact dense search against the plainest statement of it: float64 NumPy and a stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.types import Float32Array, Float64Array, Similarity, UInt32Array
from harness.exact import DenseIndex
from harness.exact.dense import Blocks

SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot", "l2")

few = st.sampled_from([0.0, 1.0, -1.0, 2.0, 0.5])
even = st.floats(-4.0, 4.0, width=32)
odd = st.sampled_from([1e-45, -1e-45, 1e-38, 1e-30, -1e-20, 1e-4, 1.0, -3.0, 0.0, -0.0, 1e4, 1e15])
large = st.sampled_from([1e18, -1e18, 3e18, 1.0, 0.0, -2e18, 1e-18])


@st.composite
def matrices(draw: st.DrawFn, most: int, dimensions: int, values: st.SearchStrategy[float]) -> Float32Array:
    drawn = draw(st.lists(st.lists(values, min_size=dimensions, max_size=dimensions), min_size=1, max_size=most))
    return np.array(drawn, dtype=np.float32)


class Problem:
    def __init__(self, documents: Float32Array, queries: Float32Array, copies: list[int], k: int) -> None:
        self.documents = documents[np.array(copies) % len(documents)]
        self.queries, self.k = queries, k

    def __repr__(self) -> str:
        return f"documents={self.documents.tolist()}, queries={self.queries.tolist()}, k={self.k}"


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Few distinct documents and many copies of them, so that ties abound and lists overflow."""
    dimensions = draw(st.sampled_from([1, 2, 7, 8, 9, 19]))
    values = draw(st.sampled_from([few, even, odd, large]))
    documents, queries = draw(matrices(12, dimensions, values)), draw(matrices(4, dimensions, values))
    copies = draw(st.lists(st.integers(0, 11), min_size=1, max_size=40))
    repeats = draw(st.sampled_from([1, 1, 1, 30]))
    return Problem(documents, queries, copies * repeats, draw(st.integers(1, 60)))


def lanes(terms: Float64Array) -> Float64Array:
    """The sum of each row in the documented order: eight sums, added pairwise."""
    count, dimensions = terms.shape
    padded = np.zeros((count, -(-dimensions // 8) * 8))
    padded[:, :dimensions] = terms
    sums = np.zeros((count, 8))
    for block in padded.reshape(count, -1, 8).transpose(1, 0, 2):
        sums = sums + block
    return ((sums[:, 0] + sums[:, 4]) + (sums[:, 2] + sums[:, 6])) + (
        (sums[:, 1] + sums[:, 5]) + (sums[:, 3] + sums[:, 7])
    )


def plain_scores(documents: Float32Array, query: Float32Array, similarity: Similarity) -> Float64Array:
    wide, one = documents.astype(np.float64), query.astype(np.float64)[None]
    if similarity == "l2":
        return -lanes(np.square(one - wide))
    products = lanes(one * wide)
    if similarity == "cosine":
        products = products / (np.sqrt(lanes(one * one)) * np.sqrt(lanes(wide * wide)))
    return products


def check(problem: Problem, similarity: Similarity, tie_break: UInt32Array | None, blocks: Blocks, threads: int):
    documents, queries = problem.documents, problem.queries
    if similarity == "cosine":
        documents, queries = (one[np.abs(one).max(axis=1) > 0] for one in (documents, queries))
        tie_break = None if tie_break is None else tie_break[: len(documents)]
        if not len(documents) or not len(queries):
            return
    found = DenseIndex.build(documents, tie_break=tie_break).retrieve(
        queries, problem.k, threads, similarity=similarity, blocks=blocks
    )
    width = min(problem.k, len(documents))
    assert np.array_equal(found.indptr, np.arange(len(queries) + 1) * width)
    for place, query in enumerate(queries):
        scores = plain_scores(documents, query, similarity).astype(np.float32) + np.float32(0.0)
        ties = np.zeros(len(documents)) if tie_break is None else -tie_break.astype(np.float64)
        best = np.lexsort((np.arange(len(documents)), ties, -scores.astype(np.float64)))[:width]
        hits = slice(place * width, (place + 1) * width)
        assert np.array_equal(found.scores[hits].view(np.int32), scores[best].view(np.int32))
        assert np.array_equal(found.rows[hits], best)


@settings(max_examples=examples(120))
@given(problems(), st.sampled_from(SIMILARITIES), st.booleans(), st.integers(1, 3), st.integers(1, 1300))
def test_it_is_float64_numpy_and_a_stable_sort(
    problem: Problem, similarity: Similarity, ties: bool, queries: int, documents: int
):
    tie_break = None
    if ties:
        tie_break = np.random.default_rng(5).integers(0, 9, len(problem.documents)).astype(np.uint32)
    check(problem, similarity, tie_break, Blocks(queries, documents), threads=1)


@settings(max_examples=examples(20))
@given(problems(), st.sampled_from(SIMILARITIES), st.integers(2, 5))
def test_threads_change_nothing(problem: Problem, similarity: Similarity, threads: int):
    check(problem, similarity, None, Blocks(2, 7), threads)


@settings(max_examples=examples(60))
@given(problems(), st.sampled_from(SIMILARITIES), st.integers(1, 60), st.integers(1, 3))
def test_many_queries_change_nothing(problem: Problem, similarity: Similarity, queries: int, threads: int):
    problem.queries = np.tile(problem.queries, (7, 1))
    check(problem, similarity, None, Blocks(queries, 1024), threads)


@pytest.mark.parametrize("similarity", SIMILARITIES)
@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12, 3e17])
def test_near_duplicates_of_any_length_are_told_apart(similarity: Similarity, scale: float):
    """3,000 vectors within float32's own error of one another: BLAS cannot order them, and lists overflow."""
    generator = np.random.default_rng(3)
    centre = generator.standard_normal(48)
    documents = ((centre + 1e-7 * generator.standard_normal((3000, 48))) * scale).astype(np.float32)
    queries = ((centre + 0.3 * generator.standard_normal((3, 48))) * scale).astype(np.float32)
    problem = Problem(documents, queries, list(range(3000)), 20)
    check(problem, similarity, None, Blocks(), threads=1)


def test_lengths_may_differ_by_sixty_orders_of_magnitude():
    generator = np.random.default_rng(4)
    lengths = np.exp(generator.uniform(np.log(1e-35), np.log(1e18), 2000))
    documents = (generator.standard_normal((2000, 24)) * lengths[:, None]).astype(np.float32)
    problem = Problem(documents, generator.standard_normal((5, 24)).astype(np.float32), list(range(2000)), 50)
    for similarity in SIMILARITIES:
        check(problem, similarity, None, Blocks(), threads=1)
