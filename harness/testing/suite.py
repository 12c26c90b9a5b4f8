"""The base of the contract suite's parts: a test class's attributes, its engines and gaps, and assertions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar, cast

import numpy as np
import pyarrow as pa
import pytest

from harness.data.arrow import strings
from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float64Array, Ids, Int32Array, Similarity
from harness.engines.interface import Capabilities, EngineInfo, EngineInterface, IndexReport, SearchResult
from harness.errors import UnknownNameError
from harness.exact.bm25_models import formula_of
from harness.registry.cards import BackendCard, read_backend_card
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing.expected import (
    Bm25,
    DenseSample,
    ExpectedScores,
    bm25_idf,
    bm25_scores,
    count_words,
    dense_scores,
    embed_words,
    encode_words,
    fused_scores,
    model_scores,
    sparse_scores,
)
from harness.testing.mapped_samples import mapped
from harness.testing.samples import STEP_NS, RecordingProgress, StepClock, plain_ids
from harness.text.term_texts import term_texts

T = TypeVar("T", bound=Callable[..., None])
_CONDITION = "_contract_condition"
PROPERTY = "contract"
"""Name of the property of a test's report that names the tested engine: see :mod:`harness.testing.proven`."""


def assert_well_formed(result: SearchResult, queries: int, documents: int, k: int) -> None:
    """Check shapes, dtypes and bounds of all arrays, at most ``k`` hits per query, no row twice, no rising scores."""
    indptr, rows, scores = result.indptr, result.rows, result.scores
    assert indptr.dtype == np.int64, f"indptr is {indptr.dtype}, not int64"
    assert rows.dtype == np.int32, f"rows are {rows.dtype}, not int32"
    assert scores.dtype == np.float32, f"scores are {scores.dtype}, not float32"
    assert indptr.shape == (queries + 1,), f"indptr has shape {indptr.shape} for {queries} queries"
    assert indptr[0] == 0, "indptr does not begin with 0"
    assert indptr[-1] == len(rows) == len(scores), "indptr, rows and scores disagree on the number of hits"
    lengths = np.diff(indptr)
    assert np.all(lengths >= 0), "indptr falls"
    assert np.all(lengths <= k), f"a query has {lengths.max()} hits for k = {k}"
    assert np.all((rows >= 0) & (rows < documents)), "a hit is not a row of the documents"
    assert np.all(np.isfinite(scores)), "a score is NaN or infinite"
    for query in range(queries):
        hits = slice(int(indptr[query]), int(indptr[query + 1]))
        assert len(set(rows[hits].tolist())) == lengths[query], f"query {query}: a document is returned twice"
        assert np.all(np.diff(scores[hits]) <= 0), f"query {query}: a score is higher than the one before it"
    assert_timed(result, queries)


def assert_timed(result: SearchResult, queries: int) -> None:
    """Check that each query has a positive search time and a transfer time, both from the injected clock."""
    for name, times in (("search_ns", result.search_ns), ("transfer_ns", result.transfer_ns)):
        assert times.dtype == np.int64, f"{name} is {times.dtype}, not int64"
        assert times.shape == (queries,), f"{name} has shape {times.shape} for {queries} queries"
        assert np.all(times % STEP_NS == 0), f"{name} was not measured with the clock handed in"
    assert np.all(result.search_ns > 0), "a search took no time"
    assert np.all(result.transfer_ns >= 0), "a transfer took negative time"


def assert_exact(result: SearchResult, expected: ExpectedScores, k: int, tolerance: float) -> None:
    """Check the documents: as many as match, up to ``k``, and each rank's exact score within the tolerance.

    Within the tolerance a document may be at the rank of a better document, if their exact scores are that close.
    """
    assert_scores(result, expected, tolerance)
    for query, (scores, matches) in enumerate(zip(expected.scores, expected.matches, strict=True)):
        rows = _rows(result, query)
        expected_count = min(k, int(matches.sum()))
        assert len(rows) == expected_count, (
            f"query {query}, k = {k}: {len(rows)} hits where {expected_count} documents match"
        )
        best = np.sort(scores[matches])[::-1][:expected_count]
        off = np.abs(scores[rows] - best) > _allowed(best, tolerance, expected, query)
        if off.any():
            rank = int(np.argmax(off))
            message = f"row {rows[rank]} scores {scores[rows[rank]]!r}, the best left scores {best[rank]!r}"
            raise AssertionError(f"query {query}, k = {k}, rank {rank + 1}: {message}")


def assert_scores(result: SearchResult, expected: ExpectedScores, tolerance: float) -> None:
    """Check that only matching documents were returned, each with its own exact score within the tolerance."""
    for query, (scores, matches) in enumerate(zip(expected.scores, expected.matches, strict=True)):
        rows = _rows(result, query)
        stray = rows[~matches[rows]]
        assert len(stray) == 0, f"query {query}: rows {stray.tolist()} do not match it"
        returned = result.scores[int(result.indptr[query]) : int(result.indptr[query + 1])].astype(np.float64)
        off = np.abs(returned - scores[rows]) > _allowed(scores[rows], tolerance, expected, query)
        if off.any():
            hit = int(np.argmax(off))
            raise AssertionError(
                f"query {query}, row {rows[hit]}: score {returned[hit]!r}, exact {scores[rows[hit]]!r}"
            )


def recall(result: SearchResult, expected: ExpectedScores, k: int) -> float:
    """Return the mean share of each query's best ``k`` that was found, ties in its favour; 1.0 if nothing matches."""
    shares = []
    for query, (scores, matches) in enumerate(zip(expected.scores, expected.matches, strict=True)):
        expected_count = min(k, int(matches.sum()))
        if expected_count:
            floor = np.sort(scores[matches])[::-1][expected_count - 1]
            shares.append(min(1.0, float(np.sum(scores[_rows(result, query)] >= floor)) / expected_count))
    return float(np.mean(shares)) if shares else 1.0


def assert_same(result: SearchResult, repeated: SearchResult, description: str) -> None:
    """Check for equal hits in equal order with equal scores, bit for bit."""
    assert np.array_equal(result.indptr, repeated.indptr), f"{description}: other numbers of hits"
    assert np.array_equal(result.rows, repeated.rows), f"{description}: other documents, or in another order"
    assert np.array_equal(result.scores, repeated.scores), f"{description}: other scores"


def assert_same_scores(result: SearchResult, repeated: SearchResult, description: str) -> None:
    """Check for equal scores, bit for bit, and equal documents, except ties with another document or with the cut."""
    assert np.array_equal(result.indptr, repeated.indptr), f"{description}: other numbers of hits"
    assert np.array_equal(result.scores, repeated.scores), f"{description}: other scores"
    for query in range(len(result.indptr) - 1):
        hits = slice(int(result.indptr[query]), int(result.indptr[query + 1]))
        scores = result.scores[hits]
        for score in set(scores[:-1].tolist()) - set(scores[-1:].tolist()):
            first, second = (set(answer.rows[hits][scores == score].tolist()) for answer in (result, repeated))
            assert first == second, f"{description}: query {query} has other documents that score {score}"


def _rows(result: SearchResult, query: int) -> Int32Array:
    return result.rows[int(result.indptr[query]) : int(result.indptr[query + 1])]


def _allowed(scores: Float64Array, tolerance: float, expected: ExpectedScores, query: int) -> Float64Array:
    float32_step = np.spacing(np.abs(scores).astype(np.float32)).astype(np.float64)
    scale = np.abs(scores) if expected.scale is None else expected.scale[query]
    allowed: Float64Array = tolerance * scale + float32_step
    return allowed


def only_for(condition: Callable[[type[EngineInterface]], bool]) -> Callable[[T], T]:
    """Mark a test that does not apply to engine classes that do not meet ``condition``."""

    def mark(test: T) -> T:
        setattr(test, _CONDITION, condition)
        return test

    return mark


def run_if(condition: Callable[[Capabilities], bool]) -> Callable[[T], T]:
    """Mark a test that does not apply to engines whose capabilities do not meet ``condition``."""
    return only_for(lambda engine: condition(engine.capabilities))


def offers(engine: type[EngineInterface], method: str) -> bool:
    """Return whether an engine class itself implements an optional method."""
    return getattr(engine, method) is not getattr(EngineInterface, method)


def applies(test: object, engine: type[EngineInterface]) -> bool:
    """Return whether a test of the contract applies to an engine class."""
    condition = getattr(test, _CONDITION, None)
    return condition is None or bool(condition(engine))


has_external_indexes = run_if(lambda capabilities: capabilities.external)
has_filters = run_if(lambda capabilities: capabilities.filters)
has_changes = run_if(lambda capabilities: capabilities.changes)
has_fields = run_if(lambda capabilities: capabilities.fields)
"""Marks of tests that do not apply to engines without these capabilities."""


def has_terms(capabilities: Capabilities) -> bool:
    """Return whether documents match only by terms: every dense vector matches every other."""
    return capabilities.input in {"text", "terms", "sparse"}


class Collection(NamedTuple):
    """Documents and queries in the engine's form, and the expected answers."""

    documents: Inputs
    queries: Inputs
    expected: ExpectedScores


class Built(NamedTuple):
    """An open engine that holds a collection, and its indexing report."""

    engine: EngineInterface
    report: IndexReport


def _card_of(name: str) -> BackendCard:
    cards = find_cards("backends")
    if name not in cards:
        raise UnknownNameError("card", name, cards)
    return cards[name]


def _require_free_names(suite: type) -> None:
    """Raise TypeError if an attribute of a test class hides a method of the suite."""
    for name, member in vars(suite).items():
        inherited = next((vars(base)[name] for base in suite.__mro__[1:] if name in vars(base)), None)
        hides = inspect.isfunction(inherited) and not hasattr(member, "__get__")
        if hides and not name.startswith("test_"):
            raise TypeError(
                f"the attribute '{name}' of '{suite.__name__}' hides the method '{name}' of the contract suite: "
                "choose another name"
            )


class Base:
    """Attributes that a test class sets, and helpers that the tests use."""

    engine: ClassVar[type[EngineInterface]]
    """The engine class under test."""
    parameters: ClassVar[Mapping[str, ParameterValue]] = {}
    """Arguments of its constructor; with a ``card``, only the arguments that differ from its defaults."""
    card: ClassVar[str | Path | None] = None
    """The engine's card, by name or by file: it completes ``parameters``, and sets ``scoring`` and ``similarity``."""
    tolerance: ClassVar[float] = 0.0
    """Largest difference from the exact score, on top of one float32 step: relative to the score, and for dense vectors
    to the query's largest possible score."""
    bm25: ClassVar[Bm25] = Bm25()
    """The BM25 that it computes; an engine of sparse vectors computes only ``idf`` itself."""
    scoring: ClassVar[str | None] = None
    """The model of an engine's own BM25, as named on its card, which then computes the expected answers."""
    largest_column: ClassVar[int] = 2**31 - 2
    """Largest tested column number; lower it if memory grows with the number of dimensions."""
    minimum_recall: ClassVar[float] = 0.8
    """Required recall on small collections, used if the engine does not claim to be exact."""
    similarity: ClassVar[Similarity] = "cosine"
    """Scoring of an engine of dense vectors under ``parameters``; for ``l2``, the negative squared distance."""
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"a parameter of another index": True}
    """Parameters that would make a different index: they replace values in ``parameters``."""
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {}
    """Parameters that change only the search of the same index: they replace values in ``parameters``."""
    graph_parameters: ClassVar[Mapping[str, ParameterValue] | None] = None
    """Parameters under which an approximate engine of dense vectors makes its graph of 3,000 vectors of 64 dimensions,
    and searches it with the smallest ef: they replace values in ``parameters``."""

    stub: ClassVar[bool] = False
    """True if a stub of the engine's protocol answers: this proves requests, but nothing about the engine."""

    proves: ClassVar[type[EngineInterface] | None] = None
    """The class that proofs are for, if ``engine`` is a subclass that only declares other gaps; None: ``engine``."""

    _facts: dict[str, str | bool]
    """Record of a test, filled when an engine opens."""

    def __init_subclass__(cls) -> None:
        """Leave out tests that do not apply to the engine, so that they are not counted as skipped.

        Raises TypeError for an attribute that hides a method, and errors from reading the card.
        """
        super().__init_subclass__()
        _require_free_names(cls)
        if cls.card is not None and vars(cls).keys() & {"card", "parameters", "scoring"}:
            card = read_backend_card(cls.card) if isinstance(cls.card, Path) else _card_of(cls.card)
            cls.parameters = {**card.defaults, **vars(cls).get("parameters", {})}
            cls.scoring = cls.scoring or card.reference.scoring
            if "similarity" in cls.parameters and "similarity" not in vars(cls):
                cls.similarity = cast("Similarity", cls.parameters["similarity"])
        declared = getattr(getattr(cls, "engine", None), "capabilities", None)
        if not isinstance(declared, Capabilities):  # an abstract suite, or an engine that a test will reject
            return
        for name in dir(cls):
            if not applies(getattr(cls, name), cls.engine):
                setattr(cls, name, None)

    @pytest.fixture(autouse=True)
    def _record(self, request: pytest.FixtureRequest) -> None:
        proven = self.proves or self.engine
        target = f"{proven.__module__}:{proven.__qualname__}"
        self._facts = {"target": target, "stub": self.stub, "test": request.node.originalname}
        request.node.user_properties.append((PROPERTY, self._facts))

    def record(self, info: EngineInfo) -> None:
        """Record the engine that a test runs."""
        self._facts |= {
            "engine": info.name,
            "version": info.version,
            "mode": "server" if info.is_server else "embedded",
        }

    @pytest.fixture(autouse=True)
    def _expect_declared_gap(self, request: pytest.FixtureRequest) -> None:
        reason = self.engine.capabilities.gaps.get(request.node.originalname)
        if reason is not None:
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    def expected(self, documents: Sequence[str], queries: Sequence[str]) -> ExpectedScores:
        """Return the exact scores of all pairs; override it for an engine that computes something else."""
        lists = self.expected_lists(documents, queries)
        return lists[0] if len(lists) == 1 else self.expected_fusion(lists)

    def expected_lists(self, documents: Sequence[str], queries: Sequence[str]) -> Sequence[ExpectedScores]:
        """Return the exact scores by each column that the engine reads."""

        def scores(column: str) -> ExpectedScores:
            if column == "dense":
                return dense_scores(DenseSample(embed_words(documents), embed_words(queries)), self.similarity)
            if column == "sparse":
                return sparse_scores(encode_words(documents, queries, self.bm25), bm25_idf if self.bm25.idf else None)
            if self.scoring is not None:
                return model_scores(count_words(documents, queries), formula_of(self.scoring, self.parameters))
            return bm25_scores(documents, queries, self.bm25)

        return [scores(column) for column in self.engine.capabilities.columns]

    def expected_fusion(self, lists: Sequence[ExpectedScores]) -> ExpectedScores:
        """Fuse both lists like the engine, with all documents as candidates: by distributions, unless overridden."""
        return fused_scores(lists)

    def inputs(self, documents: Sequence[str], queries: Sequence[str]) -> tuple[Inputs, Inputs]:
        """Return both lists of texts, and the columns that the engine reads; see :meth:`send`."""
        columns = self.engine.capabilities.columns
        of_documents = Inputs(Ids.of(plain_ids(len(documents))), pa.chunked_array([strings(documents)]))
        of_queries = Inputs(Ids.of(f"q{n}" for n in range(len(queries))), pa.chunked_array([strings(queries)]))
        if "terms" in columns:
            counts = count_words(documents, queries)
            of_documents = replace(of_documents, terms=term_texts(counts, "documents"))
            of_queries = replace(of_queries, terms=term_texts(counts, "queries"))
        if "sparse" in columns:
            sample = encode_words(documents, queries, self.bm25)
            of_documents = replace(of_documents, sparse=sample.documents)
            of_queries = replace(of_queries, sparse=sample.queries)
        if "dense" in columns:
            of_documents = replace(of_documents, dense=embed_words(documents))
            of_queries = replace(of_queries, dense=embed_words(queries))
        return of_documents, of_queries

    def collection(self, documents: Sequence[str], queries: Sequence[str]) -> Collection:
        """Return the inputs of both, and the expected answers."""
        return Collection(*self.inputs(documents, queries), self.expected(documents, queries))

    @contextmanager
    def opened(
        self, folder: Path, ids: Ids, parameters: Mapping[str, ParameterValue] | None = None
    ) -> Iterator[EngineInterface]:
        """Open the engine on ``folder``, which is made if missing; close it afterwards.

        ``parameters`` replace the test class's parameters of the same names.
        """
        folder.mkdir(exist_ok=True)
        engine = self.engine({**self.parameters, **(parameters or {})})
        try:
            self.record(engine.open(folder, ids))
            yield engine
        finally:
            engine.close()

    @contextmanager
    def built(
        self, folder: Path, documents: Inputs, parameters: Mapping[str, ParameterValue] | None = None
    ) -> Iterator[Built]:
        """Index ``documents`` into a new folder; close the engine afterwards. See :meth:`opened`."""
        sent = mapped(documents)
        with self.opened(folder, sent.ids, parameters) as engine:
            yield Built(engine, engine.index(sent, RecordingProgress(), StepClock()))

    def send(
        self,
        engine: EngineInterface,
        documents: Inputs,
        progress: Progress | None = None,
        clock: Clock | None = None,
    ) -> IndexReport:
        """Have an engine index documents, passed as in a comparison: read-only, from memory-mapped files."""
        return engine.index(mapped(documents), progress or RecordingProgress(), clock or StepClock())

    def query(self, engine: EngineInterface, queries: Inputs, k: int, clock: Clock | None = None) -> SearchResult:
        """Have an engine search, with the queries passed as in a comparison: a slice of memory-mapped files."""
        return engine.search(mapped(queries).slice(0, len(queries)), k, clock or StepClock())

    def search(self, engine: EngineInterface, queries: Inputs, documents: int, k: int) -> SearchResult:
        """Search, and check that the result is well formed. See :meth:`query`."""
        result = self.query(engine, queries, k)
        assert_well_formed(result, len(queries), documents, k)
        return result

    def search_rightly(self, engine: EngineInterface, sample: Collection, k: int) -> SearchResult:
        """Search, and check that the result is right: exactly, or by recall if the engine does not claim that."""
        result = self.search(engine, sample.queries, len(sample.documents), k)
        if self.engine.capabilities.exact:
            assert_exact(result, sample.expected, k, self.tolerance)
        else:
            assert_scores(result, sample.expected, self.tolerance)
            share = recall(result, sample.expected, k)
            assert share >= self.minimum_recall, (
                f"recall@{k} is {share:.3f}, at least {self.minimum_recall} is required"
            )
        return result

    def assert_repeated(self, result: SearchResult, repeated: SearchResult, description: str) -> None:
        """Check for equal results: bit for bit, or up to the order of equal scores unless deterministic."""
        if self.engine.capabilities.deterministic:
            assert_same(result, repeated, description)
        else:
            assert_same_scores(result, repeated, description)


def select(queries: Inputs, rows: Sequence[int]) -> Inputs:
    """Return some rows of ``queries``, in this order; a row may occur twice, and then has a separate id."""
    chosen = queries.take(np.asarray(rows, dtype=np.int32))
    return replace(chosen, ids=Ids.of(f"s{number}" for number in range(len(rows))))
