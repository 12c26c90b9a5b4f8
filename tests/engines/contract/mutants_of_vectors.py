"""Engines of dense vectors that break the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
from contract_fakes import FakeDense, FakeGraph
from contract_kills import breaks

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array
from harness.engines.interface import IndexReport
from harness.errors import RejectedInputError
from harness.registry.parameters import ParameterValue
from harness.testing import ExpectedScores

GRAPH = "test_a_graph_is_searched"
FINDS = "test_finds_the_right_documents"


def dense_of(inputs: Inputs) -> Float32Array:
    assert inputs.dense is not None
    return inputs.dense


@breaks("test_refuses_another_dimension")
class CutsLongQueries(FakeDense):
    def take_queries(self, queries: Inputs) -> Float32Array:
        cut = np.zeros((len(queries), self.documents.shape[1]), dtype=np.float32)
        given = dense_of(queries)[:, : cut.shape[1]]
        cut[:, : given.shape[1]] = given
        return cut


@breaks("test_refuses_another_dimension")
class SaysNotWhichDimensions(FakeDense):
    def take_queries(self, queries: Inputs) -> Float32Array:
        if dense_of(queries).shape[1] != self.documents.shape[1]:
            raise RejectedInputError("wrong dimension")
        return super().take_queries(queries)


@breaks("test_zero_vectors")
class TakesZeroVectors(FakeDense):
    def take(self, documents: Inputs) -> None:
        self.documents = dense_of(documents)


@breaks("test_zero_vectors")
class TakesZeroQueries(FakeDense):
    def take_queries(self, queries: Inputs) -> Float32Array:
        return np.maximum(dense_of(queries), np.float32(1e-6))


@breaks(FINDS)
class NormalisesInPlace(FakeDense):
    """As a library does that wants arrays to write into: those of a comparison are read-only."""

    def take(self, documents: Inputs) -> None:
        super().take(documents)
        self.documents /= np.linalg.norm(self.documents, axis=1, keepdims=True)


@breaks(FINDS)
class NormalisesQueriesInPlace(FakeDense):
    def take_queries(self, queries: Inputs) -> Float32Array:
        vectors = super().take_queries(queries)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors


@breaks("test_refuses_bad_values_in_documents", "test_refuses_bad_values_in_queries")
class TakesAnyVector(FakeDense):
    def take(self, documents: Inputs) -> None:
        self.documents = np.nan_to_num(dense_of(documents))

    def take_queries(self, queries: Inputs) -> Float32Array:
        return np.nan_to_num(dense_of(queries))


@breaks(FINDS)
class ScoresByDotProduct(FakeDense):
    similarity = "dot"


@breaks("test_empty_documents")
class LosesTheLastVector(FakeDense):
    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        report = super().index(documents, progress, clock)
        lost = np.array([len(documents) - 1], dtype=np.int32)
        return replace(report, indexed=report.sent - 1, missing_rows=lost)


@breaks(GRAPH)
class ScansEverything(FakeGraph):
    """Claims a graph, and answers without one."""

    def score(self, queries: Inputs) -> ExpectedScores:
        return FakeDense.score(self, queries)


@breaks(GRAPH)
class MakesNoGraph(FakeGraph):
    graph_parameters: ClassVar[Mapping[str, ParameterValue] | None] = {"graph": False}


@breaks(GRAPH)
class SaysNothingOfItsGraph(FakeGraph):
    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        return replace(super().index(documents, progress, clock), state={"kind": "graph"})


@breaks(GRAPH)
class GuessesDocuments(FakeGraph):
    def score(self, queries: Inputs) -> ExpectedScores:
        right = super().score(queries)
        right.matches[:, 20:] = False
        return right


@breaks(GRAPH)
class HasNoWayToForceAGraph(FakeGraph):
    graph_parameters = None
