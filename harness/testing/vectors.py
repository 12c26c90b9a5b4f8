"""What holds for engines of dense vectors only: dimensions, zero vectors, and whether a graph was searched at all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids
from harness.engines.interface import Capabilities, EngineProtocol, Fusing, SearchResult
from harness.errors import RejectedInputError
from harness.testing.base import Base, Collection, only_where
from harness.testing.dense import DenseSample, dense_scores, random_unit_vectors
from harness.testing.drive import RecordingProgress, StepClock
from harness.testing.oracle import SparseSample, fused_scores, sparse_scores, to_vectors
from harness.testing.samples import plain_ids
from harness.testing.verdicts import assert_scores, recall

__all__ = ["DenseContract"]

_IN_GRAPH = 3_000
_ASKED = 50
_K = 10
_LEAST_RECALL = 0.05


def _dense(capabilities: Capabilities) -> bool:
    return capabilities.input in {"dense", "hybrid"}


def _approximate(capabilities: Capabilities) -> bool:
    return _dense(capabilities) and not capabilities.exact


class DenseContract(Base):
    """Only for engines of dense vectors, with sparse ones beside them or without."""

    @only_where(_dense)
    def test_refuses_another_dimension(self, tmp_path: Path) -> None:
        """Queries of more or fewer dimensions than the documents are refused, and the message has both numbers."""
        documents, queries = self._vectors(np.eye(3, 8)), [self._vectors(np.eye(3, n)) for n in (7, 9)]
        with self.built(tmp_path, documents) as (engine, _):
            for other in queries:
                with pytest.raises(RejectedInputError, match=r"\b[79]\b.*\b8\b|\b8\b.*\b[79]\b"):
                    engine.search(other, 3, StepClock())

    @only_where(_dense)
    def test_zero_vectors(self, tmp_path: Path) -> None:
        """Under cosine, where they have no direction, they are refused and named; else they score like any other."""
        good, bad = np.eye(3, 8), np.eye(3, 8) * [[1], [0], [1]]
        if self.similarity != "cosine":
            documents, queries = self._vectors(bad), self._vectors(bad)
            expected = dense_scores(_sample(documents, queries), self.similarity)
            if documents.sparse is not None and queries.sparse is not None:
                of_terms = sparse_scores(SparseSample(documents.sparse, queries.sparse), None)
                expected = fused_scores((of_terms, expected))
            with self.built(tmp_path, documents) as (engine, _):
                self.search_rightly(engine, Collection(documents, queries, expected), 3)
            return
        refused = self._vectors(bad)
        with (
            self.opened(tmp_path / "documents", refused.ids) as engine,
            pytest.raises(RejectedInputError, match=refused.ids[1]),
        ):
            engine.index(refused, RecordingProgress(), StepClock())
        with (
            self.built(tmp_path / "queries", self._vectors(good)) as (engine, _),
            pytest.raises(RejectedInputError, match=refused.ids[1]),
        ):
            engine.search(refused, 3, StepClock())

    @only_where(_approximate)
    def test_a_graph_is_searched(self, tmp_path: Path) -> None:
        """``graph_parameters`` force a graph: the state counts the vectors in it, and the smallest ef misses some.

        Of an engine that fuses lists, they also let the dense one have ten hits.

        A recall of 1.0 on directions drawn evenly is a full scan that passes for a graph.
        """
        assert self.graph_parameters is not None, "'graph_parameters' do not say how this engine is made to use a graph"
        documents = self._inputs(Ids.of(plain_ids(_IN_GRAPH)), random_unit_vectors(41, _IN_GRAPH))
        queries = self._inputs(Ids.of(f"q{n}" for n in range(_ASKED)), random_unit_vectors(42, _ASKED))
        expected = dense_scores(_sample(documents, queries), self.similarity)
        with self.built(tmp_path, documents, self.graph_parameters) as (engine, report):
            found = self._dense_hits(engine, queries)
        in_graph = report.state.get("vectors_in_graph")
        assert type(in_graph) is int, f"the state does not say how many 'vectors_in_graph' there are: {report.state}"
        assert 0 < in_graph <= _IN_GRAPH, f"{in_graph} vectors in the graph: it was not made"
        assert_scores(found, expected, self.tolerance)
        reached = recall(found, expected, _K)
        assert reached < 1.0, f"recall@{_K} is 1.0 at the smallest ef: no graph was searched"
        assert reached >= _LEAST_RECALL, f"recall@{_K} is {reached:.3f}: chance would not do worse"

    def _vectors(self, values: np.ndarray) -> Inputs:
        vectors: Float32Array = np.ascontiguousarray(values, dtype=np.float32)
        return self._inputs(Ids.of(f"named{row}" for row in range(len(vectors))), vectors)

    def _inputs(self, ids: Ids, dense: Float32Array) -> Inputs:
        """Dense vectors, and of an engine that reads sparse ones too, the same one everywhere."""
        both = self.engine.capabilities.input == "hybrid"
        return Inputs(ids, sparse=to_vectors([{0: 1.0}] * len(ids), 1) if both else None, dense=dense)

    def _dense_hits(self, engine: EngineProtocol, queries: Inputs) -> SearchResult:
        if not isinstance(engine, Fusing):
            return self.search(engine, queries, _IN_GRAPH, _K)
        nothing = np.zeros(len(queries), dtype=np.int64)
        return SearchResult(*engine.lists(queries, StepClock())["dense"], nothing, nothing)


def _sample(documents: Inputs, queries: Inputs) -> DenseSample:
    assert documents.dense is not None
    assert queries.dense is not None
    return DenseSample(documents.dense, queries.dense)
