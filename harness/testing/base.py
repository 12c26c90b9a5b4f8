"""What the parts of the contract suite share: the attributes of a test class, its engines, its gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pytest

from harness.data.arrow import numbers, strings
from harness.data.inputs import Inputs
from harness.data.types import Ids, Similarity, SparseVectors
from harness.engines.interface import Capabilities, EngineProtocol, IndexReport, SearchResult
from harness.registry.parameters import ParameterValue
from harness.testing.dense import DenseSample, dense_scores, embed_words
from harness.testing.drive import RecordingProgress, StepClock
from harness.testing.oracle import Bm25, Expected, bm25_idf, bm25_scores, encode_words, fused_scores, sparse_scores
from harness.testing.samples import plain_ids
from harness.testing.verdicts import (
    assert_exact,
    assert_same,
    assert_same_scores,
    assert_scores,
    assert_well_formed,
    recall,
)

__all__ = ["Base", "Built", "Collection", "has_terms", "only_for", "only_where", "select"]


T = TypeVar("T", bound=Callable[..., None])
_CONDITION = "_contract_condition"


def only_for(condition: Callable[[type[EngineProtocol]], bool]) -> Callable[[T], T]:
    """Mark a test that means nothing for engine classes that do not meet ``condition``."""

    def mark(test: T) -> T:
        setattr(test, _CONDITION, condition)
        return test

    return mark


def only_where(condition: Callable[[Capabilities], bool]) -> Callable[[T], T]:
    """Mark a test that means nothing for engines whose capabilities do not meet ``condition``."""
    return only_for(lambda engine: condition(engine.capabilities))


def has_terms(capabilities: Capabilities) -> bool:
    """Whether documents match by terms alone: every dense vector matches every other."""
    return capabilities.input in {"text", "sparse"}


class Collection(NamedTuple):
    """Documents and queries as the engine takes them, and what it should answer."""

    documents: Inputs
    queries: Inputs
    expected: Expected


class Built(NamedTuple):
    """An open engine that holds a collection, and its report of indexing it."""

    engine: EngineProtocol
    report: IndexReport


class Base:
    """Attributes that a test class sets, and helpers that the tests use."""

    engine: ClassVar[type[EngineProtocol]]
    """The engine class under test."""
    parameters: ClassVar[Mapping[str, ParameterValue]] = {}
    """What its constructor gets."""
    tolerance: ClassVar[float] = 0.0
    """Largest difference from the exact score, on top of one float32 step: relative to the score, and for dense vectors
    to the query's largest possible score."""
    bm25: ClassVar[Bm25] = Bm25()
    """The BM25 it computes; for an engine of sparse vectors only ``idf`` is its own doing."""
    largest_column: ClassVar[int] = 2**31 - 2
    """Largest column number that is tried; lower it where memory grows with the number of dimensions."""
    minimum_recall: ClassVar[float] = 0.8
    """Required recall on small collections; used when the engine does not claim to be exact."""
    similarity: ClassVar[Similarity] = "cosine"
    """How an engine of dense vectors scores under ``parameters``; for ``l2``, the negative squared distance."""
    other_parameters: ClassVar[Mapping[str, ParameterValue]] = {"a parameter of another index": True}
    """Parameters under which an index would be another one: they replace those of ``parameters``."""
    search_parameters: ClassVar[Mapping[str, ParameterValue]] = {}
    """Parameters under which the same index is searched otherwise: they replace those of ``parameters``."""
    graph_parameters: ClassVar[Mapping[str, ParameterValue] | None] = None
    """Parameters under which an approximate engine of dense vectors makes its graph of 3,000 vectors of 64 dimensions,
    and searches it with the smallest ef: they replace those of ``parameters``."""

    def __init_subclass__(cls) -> None:
        """Leave out tests that mean nothing for the engine, so that they are no skips either."""
        super().__init_subclass__()
        declared = getattr(getattr(cls, "engine", None), "capabilities", None)
        if not isinstance(declared, Capabilities):  # an abstract suite, or an engine that a test will find wanting
            return
        for name in dir(cls):
            condition = getattr(getattr(cls, name), _CONDITION, None)
            if condition is not None and not condition(cls.engine):
                setattr(cls, name, None)

    @pytest.fixture(autouse=True)
    def _expect_declared_gap(self, request: pytest.FixtureRequest) -> None:
        reason = self.engine.capabilities.gaps.get(request.node.originalname)
        if reason is not None:
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    def expected(self, documents: Sequence[str], queries: Sequence[str]) -> Expected:
        """Exact scores of all pairs; override it for an engine that computes something else."""
        kind = self.engine.capabilities.input
        if kind == "hybrid":
            return self.expected_fusion(self.expected_lists(documents, queries))
        if kind == "dense":
            return dense_scores(DenseSample(embed_words(documents), embed_words(queries)), self.similarity)
        if kind == "sparse":
            return sparse_scores(encode_words(documents, queries, self.bm25), bm25_idf if self.bm25.idf else None)
        return bm25_scores(documents, queries, self.bm25)

    def expected_lists(self, documents: Sequence[str], queries: Sequence[str]) -> tuple[Expected, Expected]:
        """Of an engine of both sparse and dense vectors: the exact scores by each."""
        sparse = sparse_scores(encode_words(documents, queries, self.bm25), bm25_idf if self.bm25.idf else None)
        return sparse, dense_scores(DenseSample(embed_words(documents), embed_words(queries)), self.similarity)

    def expected_fusion(self, lists: Sequence[Expected]) -> Expected:
        """What such an engine makes of the two, all documents being candidates: by distributions, if not overridden."""
        return fused_scores(lists)

    def inputs(self, documents: Sequence[str], queries: Sequence[str]) -> tuple[Inputs, Inputs]:
        """Both lists of texts as the engine takes them."""
        kind = self.engine.capabilities.input
        document_ids, query_ids = Ids.of(plain_ids(len(documents))), Ids.of(f"q{n}" for n in range(len(queries)))
        if kind == "text":
            return _texts(document_ids, documents), _texts(query_ids, queries)
        sample = encode_words(documents, queries, self.bm25)
        if kind == "sparse":
            return Inputs(document_ids, sparse=sample.documents), Inputs(query_ids, sparse=sample.queries)
        dense = DenseSample(embed_words(documents), embed_words(queries))
        if kind == "dense":
            return Inputs(document_ids, dense=dense.documents), Inputs(query_ids, dense=dense.queries)
        return (
            Inputs(document_ids, sparse=sample.documents, dense=dense.documents),
            Inputs(query_ids, sparse=sample.queries, dense=dense.queries),
        )

    def collection(self, documents: Sequence[str], queries: Sequence[str]) -> Collection:
        """Inputs of both, and what the engine should answer."""
        return Collection(*self.inputs(documents, queries), self.expected(documents, queries))

    @contextmanager
    def opened(
        self, folder: Path, ids: Ids, parameters: Mapping[str, ParameterValue] | None = None
    ) -> Iterator[EngineProtocol]:
        """The engine, open on ``folder``, which is made when missing; closed afterwards.

        ``parameters`` replace those of the test class that have the same names.
        """
        folder.mkdir(exist_ok=True)
        engine = self.engine({**self.parameters, **(parameters or {})})
        try:
            engine.open(folder, ids)
            yield engine
        finally:
            engine.close()

    @contextmanager
    def built(
        self, folder: Path, documents: Inputs, parameters: Mapping[str, ParameterValue] | None = None
    ) -> Iterator[Built]:
        """The engine with ``documents`` indexed into a new folder; closed afterwards. See :meth:`opened`."""
        with self.opened(folder, documents.ids, parameters) as engine:
            yield Built(engine, engine.index(documents, RecordingProgress(), StepClock()))

    def search(self, engine: EngineProtocol, queries: Inputs, documents: int, k: int) -> SearchResult:
        """A search whose result is well formed."""
        result = engine.search(queries, k, StepClock())
        assert_well_formed(result, len(queries), documents, k)
        return result

    def search_rightly(self, engine: EngineProtocol, sample: Collection, k: int) -> SearchResult:
        """A search whose result is right: exactly, or by its recall when the engine does not claim to be exact."""
        result = self.search(engine, sample.queries, len(sample.documents), k)
        if self.engine.capabilities.exact:
            assert_exact(result, sample.expected, k, self.tolerance)
        else:
            assert_scores(result, sample.expected, self.tolerance)
            found = recall(result, sample.expected, k)
            assert found >= self.minimum_recall, (
                f"recall@{k} is {found:.3f}, at least {self.minimum_recall} is required"
            )
        return result

    def assert_repeated(self, one: SearchResult, other: SearchResult, what: str) -> None:
        """Equal results: bit for bit, or up to the order of equal scores for an engine that is not deterministic."""
        if self.engine.capabilities.deterministic:
            assert_same(one, other, what)
        else:
            assert_same_scores(one, other, what)


def _texts(ids: Ids, texts: Sequence[str]) -> Inputs:
    return Inputs(ids, texts=pa.chunked_array([strings(texts)]))


def select(queries: Inputs, rows: Sequence[int]) -> Inputs:
    """Some rows of ``queries``, in the order given."""
    ids = Ids.of(f"s{place}" for place in range(len(rows)))
    if queries.texts is not None:
        return Inputs(ids, texts=queries.texts.take(numbers(np.array(rows, dtype=np.int64))))
    if queries.sparse is None and queries.dense is None:
        pytest.fail("the queries have no column")
    chosen = np.asarray(rows, dtype=np.int64)
    return Inputs(
        ids,
        sparse=None if queries.sparse is None else SparseVectors.from_scipy(queries.sparse.to_scipy()[chosen]),
        dense=None if queries.dense is None else np.ascontiguousarray(queries.dense[chosen]),
    )
