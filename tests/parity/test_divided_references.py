"""An exact search in parts, wherever they begin, has the hits of the whole search to the last bit."""

from __future__ import annotations

import tempfile
import threading
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.filtering import Matching
from harness.data.progress import Progress, SilentDisplay
from harness.data.types import Ids, Run, SparseVectors, TermCounts
from harness.errors import BackendError, DataError, EngineTimeoutError, MemoryLimitError
from harness.parity import DenseRecipe, DenseReference, SparseReference
from harness.parity.recipes import Recipe, make_recipe
from harness.registry.lookup import find_cards
from harness.store.columns import load_column, load_sparse, save_column, save_sparse
from harness.store.memory_budget import MemoryBudget
from harness.worker import divided_search, exact_search
from harness.worker.dispatch import run_job
from harness.worker.divided_search import DividedSearch
from harness.worker.failure import RemoteError
from harness.worker.process import FinishedProcess

TERMS, QUERIES = 6, 4
CARDS = find_cards("backends")
BACKENDS: dict[str, dict[str, object]] = {
    "csr": {},
    "lucene": {},
    "opensearch": {},
    "sqlite": {},
    "tantivy": {},
    "bm25s": {"variant": "bm25+"},
}
"""One of each arithmetic, and the parameters that are not its card's."""


class HereAndNow:
    """Runs jobs in this process, one at a time: Python 3.11 fails when two threads compile kernels."""

    _alone = threading.Lock()

    def slots(self, device: str = "cpu") -> int:
        return 3

    def run(self, folder: Path, progress: Progress) -> FinishedProcess:
        try:
            with self._alone:
                run_job(folder, progress)
        except DataError as error:  # as a worker reports it
            raise RemoteError("DataError", error.problem, error.fix, []) from error
        return FinishedProcess(None, None, ())


class AtPlaces(DividedSearch):
    """Begins parts at some places."""

    def __init__(self, places: list[int], work: Path) -> None:
        super().__init__(HereAndNow(), work, SilentDisplay())
        self._places = places

    def bounds(self, documents: int) -> list[int]:
        return sorted({0, documents, *(1 + place % (documents - 1) for place in self._places)})


class Problem(NamedTuple):
    generator: np.random.Generator
    documents: int
    filtered: bool
    k: int
    places: list[int]

    @property
    def ids(self) -> tuple[Ids, Ids]:
        """In another order than that of the rows."""
        documents = (f"d{row * 7 % 101:03}" for row in range(self.documents))
        return Ids.of(documents), Ids.of(f"q{row}" for row in range(QUERIES))

    def matching(self) -> Matching | None:
        return Matching.of_all(self.generator.random(self.documents) < 0.3, QUERIES) if self.filtered else None


problems = st.builds(
    Problem,
    st.integers(0, 2**32 - 1).map(np.random.default_rng),
    st.integers(2, 60),
    st.booleans(),
    st.sampled_from([1, 3, 10, 1000]),
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
)


def counts_of(generator: np.random.Generator, rows: int) -> SparseVectors:
    table = generator.choice([0, 0, 1, 2, 5], size=(rows, TERMS)).astype(np.float32)
    lengths, indices = np.count_nonzero(table, axis=1), np.nonzero(table)[1].astype(np.int32)
    return SparseVectors(np.concatenate([[0], np.cumsum(lengths)]), indices, table[table > 0], TERMS)


def sparse_recipe(problem: Problem, backend: str, shards: int) -> Recipe:
    rule = CARDS[backend].reference
    generator, (doc_ids, query_ids) = problem.generator, problem.ids
    unknown = np.zeros(QUERIES, dtype=np.int32)
    vocabulary = Ids.of(f"t{column}" for column in range(TERMS))
    parameters = {**CARDS[backend].defaults, **BACKENDS[backend]}
    assert parameters.keys() == CARDS[backend].defaults.keys()
    columns = counts_of(generator, problem.documents), counts_of(generator, QUERIES)
    in_shards = shards > 1 and rule.scoring is None
    placed = generator.integers(shards, size=problem.documents).astype(np.int32) if in_shards else None
    recipe = make_recipe(
        rule.kind,
        doc_ids=doc_ids,
        query_ids=query_ids,
        counts=TermCounts(*columns, vocabulary, unknown),
        parameters=parameters,  # type: ignore[dict-item]
        shards=placed,
        scoring=rule.scoring,
    )
    order = generator.permutation(problem.documents).astype(np.int32) if rule.kind == "lucene" and shards > 1 else None
    return replace(recipe, order=order, matching=problem.matching())


def bits(run: Run) -> list[bytes]:
    return [array.tobytes() for array in (run.indptr, run.rows, run.scores)]


@settings(max_examples=examples(80))
@given(problem=problems, shards=st.sampled_from([1, 3]), backend=st.sampled_from(list(BACKENDS)))
def test_sparse(problem: Problem, shards: int, backend: str) -> None:
    recipe = sparse_recipe(problem, backend, shards)
    whole = SparseReference(recipe)
    with tempfile.TemporaryDirectory() as work:
        parts = SparseReference(recipe, divided=AtPlaces(problem.places, Path(work)))
        assert bits(parts.retrieve(problem.k)) == bits(whole.retrieve(problem.k))
        assert "indexed" not in vars(parts)
        everything = SparseReference(replace(recipe, matching=None)).retrieve(problem.documents)
        assert parts.score(everything).tobytes() == whole.score(everything).tobytes()
        some = np.array([3, 1], dtype=np.int32)
        for k in (problem.k, 5):  # the first was retrieved before
            assert bits(parts.of_queries(some).retrieve(k)) == bits(whole.of_queries(some).retrieve(k))


@settings(max_examples=examples(80))
@given(problem=problems, shards=st.sampled_from([1, 3]), backend=st.sampled_from(list(BACKENDS)))
def test_blocks_that_are_searched_here(problem: Problem, shards: int, backend: str) -> None:
    recipe = sparse_recipe(problem, backend, shards)
    whole, blocks = SparseReference(recipe), SparseReference(recipe)
    few = 1 + problem.places[0]
    everything = SparseReference(replace(recipe, matching=None)).retrieve(problem.documents)
    expected = bits(whole.retrieve(problem.k)), whole.score(everything).tobytes()
    with (
        patch.object(exact_search, "values_at_once", lambda *_, **__: few),
        patch.object(exact_search, "_MERGED_HITS", 7),
    ):
        assert bits(blocks.retrieve(problem.k)) == expected[0]
        assert blocks.score(everything).tobytes() == expected[1]
        some = np.array([3, 1], dtype=np.int32)
        part = blocks.of_queries(some)
        part.retrieved = None
        assert bits(part.retrieve(problem.k)) == bits(whole.of_queries(some).retrieve(problem.k))
    if recipe.documents.indptr[-1] > few * problem.documents:
        assert "indexed" not in vars(blocks)


def mapped_counts(folder: Path, documents: int) -> SparseVectors:
    """Return 20 terms a document of a vocabulary of 1,000, mapped from files as a comparison has them."""
    generator = np.random.default_rng(3)
    indptr = np.arange(documents + 1, dtype=np.int64) * 20
    indices = np.sort(generator.integers(0, 50, (documents, 20)) + np.arange(0, 1000, 50), axis=1).astype(np.int32)
    values = generator.integers(1, 9, documents * 20).astype(np.float32)
    save_sparse(folder, "counts", SparseVectors(indptr, indices.ravel(), values, 1000))
    return load_sparse(folder, "counts")


@pytest.mark.parametrize("kind", ["lucene", "tantivy"])
def test_a_small_limit_gives_the_same_hits_with_less_memory(kind: str, tmp_path: Path) -> None:
    """NumPy reports its arrays to tracemalloc; the postings of one index of all documents would take 32 MB."""
    counts = mapped_counts(tmp_path, 200_000)
    queries = counts.slice(5, 5 + QUERIES)
    terms = TermCounts(counts, queries, Ids.of(map(str, range(1000))), np.zeros(QUERIES, dtype=np.int32))
    recipe = make_recipe(
        "lucene" if kind == "lucene" else "sparse",
        doc_ids=Ids.of(map(str, range(200_000))),
        query_ids=Ids.of(map(str, range(QUERIES))),
        counts=terms,
        parameters={"k1": 0.9, "b": 0.4},
        scoring=None if kind == "lucene" else kind,
    )
    whole = SparseReference(recipe)
    expected = whole.retrieve(10)
    least = SparseReference(recipe).search_of_all(10).least_bytes
    with MemoryBudget(least + (8 << 20)):
        tracemalloc.start()
        try:
            reference = SparseReference(recipe)
            found = reference.retrieve(10)
            scores = reference.score(found)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert bits(found) == bits(expected)
    assert scores.tobytes() == whole.score(expected).tobytes()
    assert "indexed" in vars(whole)
    assert "indexed" not in vars(reference)
    assert peak < least + (8 << 20)
    with MemoryBudget(1), pytest.raises(MemoryLimitError, match="the exact reference needs"):
        SparseReference(recipe).retrieve(10)


@settings(max_examples=examples(50))
@given(problem=problems, similarity=st.sampled_from(["cosine", "dot", "l2"]), mapped=st.booleans())
def test_dense(problem: Problem, similarity: str, mapped: bool) -> None:
    """Few distinct vectors, so that ties abound."""
    generator = problem.generator
    distinct = generator.choice([0.5, 1.0, -1.0, 2.0], size=(5, 4)).astype(np.float32)
    documents = distinct[generator.integers(5, size=problem.documents)]
    queries = generator.normal(size=(QUERIES, 4)).astype(np.float32)
    missing = np.unique(generator.integers(problem.documents, size=2)).astype(np.int32)
    with tempfile.TemporaryDirectory() as work:
        file = Path(work) / "vectors.npy"
        if mapped:
            save_column(file, documents)
            documents = load_column(file)
        recipe = DenseRecipe(*problem.ids, documents, queries, similarity, missing, problem.matching())  # type: ignore[arg-type]
        whole = DenseReference(recipe)
        parts = DenseReference(recipe, divided=AtPlaces(problem.places, Path(work)))
        found = parts.retrieve(problem.k)
        assert bits(found) == bits(whole.retrieve(problem.k))
        assert "index" not in vars(parts)
        assert list(Path(work).iterdir()) == ([file] if mapped else [])  # no folder of a job is left
        assert parts.score(found).tobytes() == whole.score(found).tobytes()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the other part, cut off while it reads
def test_an_error_names_the_rows_of_the_corpus(tmp_path: Path) -> None:
    documents, queries = np.eye(8, dtype=np.float32), np.ones((QUERIES, 8), dtype=np.float32)
    documents[5] = 0.0
    ids = Problem(np.random.default_rng(0), 8, False, 1, []).ids
    recipe = DenseRecipe(*ids, documents, queries, "cosine", np.empty(0, dtype=np.int32))
    with pytest.raises(DataError, match="row 5: a zero vector has no cosine"):
        DenseReference(recipe, divided=AtPlaces([4], tmp_path)).retrieve(1)


@pytest.mark.parametrize("error", [EngineTimeoutError("too late"), RemoteError("MemoryError", "too large", None, [])])
def test_a_part_that_fails_is_searched_here(
    error: BackendError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    both = threading.Barrier(2, timeout=60)

    def fail(*_: object) -> FinishedProcess:
        if both.wait() == 0:
            raise error
        for _ in range(6000):  # until it is interrupted: here, and not while it writes or removes its folder
            time.sleep(0.01)
        raise AssertionError("the other part was not interrupted")

    monkeypatch.setattr(HereAndNow, "run", fail)
    recipe = sparse_recipe(Problem(np.random.default_rng(0), 8, False, 3, []), "lucene", 1)
    parts = SparseReference(recipe, divided=AtPlaces([4], tmp_path))
    assert bits(parts.retrieve(3)) == bits(SparseReference(recipe).retrieve(3))
    assert f"a part of the exact reference failed ({error.problem}): searched here instead" in caplog.text


def test_there_are_as_many_parts_as_jobs_and_none_is_small(tmp_path: Path) -> None:
    search = DividedSearch(HereAndNow(), tmp_path, SilentDisplay())
    least = divided_search._LEAST_ROWS
    assert not search.divides(2 * least - 1)
    assert search.bounds(2 * least) == [0, least, 2 * least]
    assert search.bounds(30 * least) == [0, 10 * least, 20 * least, 30 * least]
