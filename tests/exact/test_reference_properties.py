"""The kernels against the plainest statement of the same arithmetic, on every path they can take."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from example_counts import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from plain_search import as_lists, contributions, exact_score, plain_search

from harness.data.types import SparseVectors
from harness.errors import DataError
from harness.exact import SparseIndex, TopK, bm25_idf

DIMENSIONS = 6
TINIEST, LARGEST = np.float32(1e-45), np.finfo(np.float32).max

few_values = st.sampled_from([1.0, 2.0, 0.5, -1.0, 3.0, 0.0])
positive_values = st.floats(0.0625, 8.0, width=32)
any_values = st.floats(-(2.0**60), 2.0**60, width=32)
odd_values = st.sampled_from([float(TINIEST), -float(TINIEST), 1e-38, -1e-38, 1e-18, 1e18, -1e18, 1.0, 0.0, -0.0])

APART = {"side by side": 1, "blocks apart": 1031}
"""How far documents lie from one another; none is between them."""


@st.composite
def rows(draw: st.DrawFn, most: int, values: st.SearchStrategy[float]) -> SparseVectors:
    drawn = draw(
        st.lists(
            st.dictionaries(st.integers(0, DIMENSIONS - 1), values, max_size=DIMENSIONS), min_size=1, max_size=most
        )
    )
    indptr = np.cumsum([0, *(len(row) for row in drawn)]).astype(np.int64)
    indices = np.array([column for row in drawn for column in sorted(row)], dtype=np.int32)
    weights = np.array([row[column] for row in drawn for column in sorted(row)], dtype=np.float32)
    return SparseVectors(indptr, indices, weights, DIMENSIONS)


@st.composite
def problems(draw: st.DrawFn) -> tuple[SparseVectors, SparseVectors]:
    values = draw(st.sampled_from([few_values, positive_values, any_values, odd_values]))
    return draw(rows(40, values)), draw(rows(4, values))


@pytest.fixture(params=APART)
def apart(request: pytest.FixtureRequest) -> int:
    return APART[request.param]


def moved(documents: SparseVectors, apart: int) -> SparseVectors:
    """The documents with empty ones between them."""
    indptr = np.repeat(documents.indptr, [1, *([apart] * len(documents))])
    return SparseVectors(indptr, documents.indices, documents.values, documents.dimensions)


def back(found: TopK, apart: int) -> TopK:
    return TopK(found.indptr, found.rows // np.int32(apart), found.scores)


everything = settings(
    max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@everything
@given(problem=problems(), k=st.sampled_from([1, 2, 3, 10, 1000]), threads=st.sampled_from([1, 2]))
def test_equals_the_plain_search(
    apart: int, problem: tuple[SparseVectors, SparseVectors], k: int, threads: int
) -> None:
    documents, queries = problem
    found = SparseIndex.build(moved(documents, apart)).retrieve(queries, k, threads)
    assert as_lists(back(found, apart)) == plain_search(documents, queries, k)


@everything
@given(problem=problems(), k=st.sampled_from([1, 3, 1000]), ties=st.data())
def test_equals_the_plain_search_with_idf_and_tie_breaks(
    apart: int, problem: tuple[SparseVectors, SparseVectors], k: int, ties: st.DataObject
) -> None:
    documents, queries = problem
    breaks = ties.draw(st.lists(st.integers(0, 2**32 - 1), min_size=len(documents), max_size=len(documents)))
    tie_break = np.array(breaks, dtype=np.uint32)
    df = np.bincount(documents.indices, minlength=DIMENSIONS)
    index = SparseIndex.build(moved(documents, apart), idf="bm25", tie_break=np.repeat(tie_break, apart))
    expected = plain_search(documents, queries, k, bm25_idf(df, int((np.diff(documents.indptr) > 0).sum())), tie_break)
    assert as_lists(back(index.retrieve(queries, k), apart)) == expected


@everything
@given(documents=rows(40, positive_values), queries=rows(4, positive_values))
def test_sums_of_ordinary_weights_are_exact(documents: SparseVectors, queries: SparseVectors) -> None:
    found = as_lists(SparseIndex.build(documents).retrieve(queries, 1000))
    for query, hits in enumerate(found):
        for hit in hits:
            exact = exact_score(contributions(documents.row(hit.row), queries.row(query), None))
            nearest = [np.nextafter(hit.score, np.float32(-np.inf)), np.nextafter(hit.score, np.float32(np.inf))]
            error = abs(Fraction(float(hit.score)) - exact)
            assert all(error <= abs(Fraction(float(other)) - exact) for other in nearest)


@everything
@given(problem=problems(), data=st.data())
def test_scores_of_listed_documents_are_those_of_the_search(
    problem: tuple[SparseVectors, SparseVectors], data: st.DataObject
) -> None:
    documents, queries = problem
    tie_break = np.array(data.draw(st.permutations(range(len(documents)))), dtype=np.uint32)
    index = SparseIndex.build(documents, idf="bm25", tie_break=tie_break)
    found = index.retrieve(queries, 1000)
    assert index.score(queries, found.indptr, found.rows).tolist() == found.scores.tolist()
    every = np.tile(np.arange(len(documents), dtype=np.int32), len(queries))
    indptr = np.arange(len(queries) + 1, dtype=np.int64) * len(documents)
    scores = index.score(queries, indptr, every).reshape(len(queries), -1)
    for query, hits in enumerate(as_lists(found)):
        expected = np.zeros(len(documents), dtype=np.float32)
        expected[[hit.row for hit in hits]] = [hit.score for hit in hits]
        assert scores[query].tolist() == expected.tolist()


@everything
@given(
    values=st.lists(st.sampled_from([float(LARGEST), -float(LARGEST), 1e20, 1.0]), min_size=1, max_size=4),
    weight=st.sampled_from([1.0, 2.0, 1e20, 1e-20, float(LARGEST)]),
)
def test_scores_beyond_float32_are_refused_and_never_wrong(values: list[float], weight: float) -> None:
    document = SparseVectors(
        np.array([0, len(values)], dtype=np.int64),
        np.arange(len(values), dtype=np.int32),
        np.array(values, dtype=np.float32),
        4,
    )
    query = SparseVectors(
        np.array([0, 4], dtype=np.int64), np.arange(4, dtype=np.int32), np.full(4, weight, dtype=np.float32), 4
    )
    with np.errstate(over="ignore", invalid="ignore"):
        parts = contributions(document.row(0), query.row(0), None)
        total = np.float32(sum(np.float64(part) for part in parts))
    index = SparseIndex.build(document)
    if np.isfinite(total) and np.isfinite(parts).all():
        assert index.retrieve(query, 1).scores.tolist() == ([total] if total != 0.0 else [])
    else:
        with pytest.raises(DataError, match=r"row 0: .* beyond float32"):
            index.retrieve(query, 1)


@settings(max_examples=examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(problem=problems())
def test_a_saved_index_is_the_same_index(
    problem: tuple[SparseVectors, SparseVectors], tmp_path_factory: pytest.TempPathFactory
) -> None:
    documents, queries = problem
    folder: Path = tmp_path_factory.mktemp("index")
    index = SparseIndex.build(documents, idf="bm25", tie_break=np.arange(len(documents), dtype=np.uint32))
    index.save(folder)
    assert as_lists(SparseIndex.load(folder).retrieve(queries, 5)) == as_lists(index.retrieve(queries, 5))


@settings(max_examples=examples(4), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), k=st.sampled_from([1, 7, 100]), levels=st.sampled_from([2, 1000]))
def test_large_collections_take_every_path(seed: int, k: int, levels: int) -> None:
    generator = np.random.default_rng(seed)
    documents = _random_rows(generator, 3_000, 60, 6, levels)
    queries = _random_rows(generator, 3, 60, 4, levels)
    assume(queries.nnz > 0)
    found = SparseIndex.build(documents).retrieve(queries, k)
    assert as_lists(found) == plain_search(documents, queries, k)


def _random_rows(generator: np.random.Generator, count: int, dimensions: int, most: int, levels: int) -> SparseVectors:
    lengths = generator.integers(0, most, count, endpoint=True)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    chance = 1.0 / np.arange(1, dimensions + 1)
    picks = [np.sort(generator.choice(dimensions, n, replace=False, p=chance / chance.sum())) for n in lengths]
    values = generator.integers(1, levels, int(indptr[-1]), endpoint=True) / levels
    return SparseVectors(indptr, np.concatenate(picks).astype(np.int32), values.astype(np.float32), dimensions)
