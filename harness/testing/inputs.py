"""Contract of inputs: input that an engine must refuse, Unicode that it must accept, and dense vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids, SparseVectors
from harness.engines.interface import EngineInterface, SearchResult
from harness.errors import RejectedInputError
from harness.testing.expected import (
    DenseSample,
    SparseSample,
    dense_scores,
    fused_scores,
    random_unit_vectors,
    sparse_scores,
    to_vectors,
)
from harness.testing.mapped_samples import mapped
from harness.testing.samples import UNICODE_WORDS, RecordingProgress, StepClock, plain_ids, word
from harness.testing.suite import Base, Collection, assert_scores, has_terms, offers, recall, run_if

_BAD_VALUES = (float("nan"), float("inf"), float("-inf"))
_BAD_INDICES = ((3, 3), (4, 2), (-1, 2), (2, 10))
_IN_GRAPH = 3_000
_DEPTH = 50
_K = 10
_LEAST_RECALL = 0.05


_has_sparse = run_if(lambda capabilities: "sparse" in capabilities.columns)
_has_dense = run_if(lambda capabilities: "dense" in capabilities.columns)
_has_vectors = run_if(lambda capabilities: bool({"sparse", "dense"}.intersection(capabilities.columns)))


class InputContract(Base):
    """Bad input is refused before the engine sees it; unusual input is not bad."""

    def test_unicode_words(self, tmp_path: Path) -> None:
        """Words of other scripts, two of them from right to left, find exactly the documents that contain them."""
        texts = [f"{word(7)} {unicode_word}" for unicode_word in UNICODE_WORDS]
        sample = self.collection(texts, list(UNICODE_WORDS))
        with self.built(tmp_path, sample.documents) as (engine, _):
            hits = self.search(engine, sample.queries, len(texts), 3)
        if has_terms(self.engine.capabilities):
            assert hits.indptr.tolist() == list(range(len(texts) + 1)), "a word was found in no or several documents"
        best = hits.rows[hits.indptr[:-1]]
        assert best.tolist() == list(range(len(texts))), "a word was found in another document"

    @run_if(lambda capabilities: capabilities.input == "sparse")
    def test_wide_dimensions(self, tmp_path: Path) -> None:
        """The largest column numbers are columns like any other."""
        widest = self.largest_column
        rows = [{0: 1.0, widest: 2.0}, {0: 1.0}, {widest: 1.0}]
        documents = Inputs(_ids(3), sparse=to_vectors(rows, widest + 1))
        queries = Inputs(_ids(1), sparse=to_vectors([{widest: 1.0}], widest + 1))
        with self.built(tmp_path, documents) as (engine, _):
            hits = self.search(engine, queries, 3, 3)
        assert hits.rows.tolist() == [0, 2], f"rows {hits.rows.tolist()} found, not [0, 2]"

    @_has_vectors
    def test_refuses_bad_values_in_documents(self, tmp_path: Path) -> None:
        """NaN and infinite weights are refused, the document is named, and no part of the batch is searchable."""
        self._assert_refused(tmp_path, self._bad_values())

    @_has_vectors
    def test_refuses_bad_values_in_queries(self, tmp_path: Path) -> None:
        """NaN and infinite query weights are refused, and the query is named."""
        self._assert_refused_as_queries(tmp_path, self._bad_values())

    @_has_sparse
    def test_refuses_bad_indices_in_documents(self, tmp_path: Path) -> None:
        """Repeated, falling, negative and too large column numbers are refused, and the document is named."""
        self._assert_refused(tmp_path, self._bad_indices())

    @_has_sparse
    def test_refuses_bad_indices_in_queries(self, tmp_path: Path) -> None:
        """Repeated, falling, negative and too large column numbers of a query are refused, and the query is named."""
        self._assert_refused_as_queries(tmp_path, self._bad_indices())

    def test_refuses_another_column(self, tmp_path: Path) -> None:
        """Inputs without the column that the capabilities name are refused, for documents and for queries."""
        sample = self.collection([word(1)], [word(1)])
        bare = Inputs(sample.documents.ids)
        with self.opened(tmp_path, bare.ids) as engine:
            with pytest.raises(RejectedInputError):
                engine.index(bare, RecordingProgress(), StepClock())
            self.send(engine, sample.documents)
            with pytest.raises(RejectedInputError):
                engine.search(bare, 3, StepClock())

    def test_refuses_other_ids_than_it_was_opened_with(self, tmp_path: Path) -> None:
        """Documents other than those announced to ``open`` are refused: they would be named wrongly."""
        sample = self.collection([word(1), word(2)], [word(1)])
        with self.opened(tmp_path, Ids.of(["only one"])) as engine, pytest.raises(RejectedInputError):
            self.send(engine, sample.documents)

    def _good(self) -> Inputs:
        columns = self.engine.capabilities.columns
        dense = np.eye(3, 4, dtype=np.float32) if "dense" in columns else None
        sparse = to_vectors([{2: 1.0}, {3: 1.0, 4: 2.0}, {0: 1.0}], 10) if "sparse" in columns else None
        terms = pa.chunked_array([["a", "b b", "c"]]) if "terms" in columns else None
        return Inputs(_ids(3), sparse=sparse, dense=dense, terms=terms)

    def _assert_refused(self, tmp_path: Path, all_inputs: Sequence[Inputs]) -> None:
        """Check that an engine refuses each, names the second document's id, and stays unchanged."""
        with self.opened(tmp_path, all_inputs[0].ids) as engine:
            for documents in all_inputs:
                with pytest.raises(RejectedInputError, match=documents.ids[1]):
                    self.send(engine, documents)

    def _assert_refused_as_queries(self, tmp_path: Path, all_inputs: Sequence[Inputs]) -> None:
        with self.built(tmp_path, self._good()) as (engine, _):
            for queries in all_inputs:
                with pytest.raises(RejectedInputError, match=queries.ids[1]):
                    self.query(engine, queries, 3)

    def _bad_values(self) -> list[Inputs]:
        """Return vectors with each bad value in the second row, once in each column."""
        good, bad = self._good(), []
        for value in _BAD_VALUES:
            if good.dense is not None:
                dense: Float32Array = good.dense.copy()
                dense[1, 2] = value
                bad.append(replace(good, dense=dense))
            if good.sparse is not None:
                bad.append(replace(good, sparse=to_vectors([{2: 1.0}, {3: 1.0, 4: value}, {0: 1.0}], 10)))
        return bad

    def _bad_indices(self) -> list[Inputs]:
        indptr, ones = np.array([0, 1, 3, 4], dtype=np.int64), np.ones(4, dtype=np.float32)
        columns = [np.array([2, *indices, 0], dtype=np.int32) for indices in _BAD_INDICES]
        return [replace(self._good(), sparse=SparseVectors(indptr, some, ones, 10)) for some in columns]


def _ids(count: int) -> Ids:
    return Ids.of(f"named{row}" for row in range(count))


class DenseContract(Base):
    """Tests of engines of dense vectors, with or without additional sparse vectors."""

    @_has_dense
    def test_refuses_another_dimension(self, tmp_path: Path) -> None:
        """Queries of more or fewer dimensions than the documents are refused, and the message has both numbers."""
        documents, queries = self._vectors(np.eye(3, 8)), [self._vectors(np.eye(3, n)) for n in (7, 9)]
        with self.built(tmp_path, documents) as (engine, _):
            for other in queries:
                with pytest.raises(RejectedInputError, match=r"\b[79]\b.*\b8\b|\b8\b.*\b[79]\b"):
                    self.query(engine, other, 3)

    @_has_dense
    def test_zero_vectors(self, tmp_path: Path) -> None:
        """Zero vectors are refused and named under cosine, where they have no direction; else they score as usual."""
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
        with self.opened(tmp_path, refused.ids) as engine:
            with pytest.raises(RejectedInputError, match=refused.ids[1]):
                self.send(engine, refused)
            self.send(engine, self._vectors(good))
            with pytest.raises(RejectedInputError, match=refused.ids[1]):
                self.query(engine, refused, 3)

    @run_if(lambda capabilities: "dense" in capabilities.columns and not capabilities.exact)
    def test_a_graph_is_searched(self, tmp_path: Path) -> None:
        """``graph_parameters`` force a graph: the state counts the vectors in it, and the smallest ef misses some.

        For an engine that fuses lists, they also let the dense list have ten hits.

        A recall of 1.0 on evenly drawn directions would be a full scan that poses as a graph.
        """
        assert self.graph_parameters is not None, "'graph_parameters' do not say how this engine is made to use a graph"
        documents = self._inputs(Ids.of(plain_ids(_IN_GRAPH)), random_unit_vectors(41, _IN_GRAPH))
        queries = self._inputs(Ids.of(f"q{n}" for n in range(_DEPTH)), random_unit_vectors(42, _DEPTH))
        expected = dense_scores(_sample(documents, queries), self.similarity)
        with self.built(tmp_path, documents, self.graph_parameters) as (engine, report):
            hits = self._dense_hits(engine, queries)
        in_graph = report.state.get("vectors_in_graph")
        assert type(in_graph) is int, f"the state does not say how many 'vectors_in_graph' there are: {report.state}"
        assert 0 < in_graph <= _IN_GRAPH, f"{in_graph} vectors in the graph: it was not made"
        assert_scores(hits, expected, self.tolerance)
        reached = recall(hits, expected, _K)
        assert reached < 1.0, f"recall@{_K} is 1.0 at the smallest ef: no graph was searched"
        assert reached >= _LEAST_RECALL, f"recall@{_K} is {reached:.3f}: chance would not do worse"

    def _vectors(self, values: np.ndarray) -> Inputs:
        vectors: Float32Array = np.ascontiguousarray(values, dtype=np.float32)
        return self._inputs(Ids.of(f"named{row}" for row in range(len(vectors))), vectors)

    def _inputs(self, ids: Ids, dense: Float32Array) -> Inputs:
        """Return dense vectors and, if the engine also reads sparse vectors or terms, the same of these in all rows."""
        columns = self.engine.capabilities.columns
        sparse = to_vectors([{0: 1.0}] * len(ids), 1) if "sparse" in columns else None
        terms = pa.chunked_array([["a"] * len(ids)], pa.string()) if "terms" in columns else None
        return Inputs(ids, sparse=sparse, dense=dense, terms=terms)

    def _dense_hits(self, engine: EngineInterface, queries: Inputs) -> SearchResult:
        if not offers(type(engine), "lists"):
            return self.search(engine, queries, _IN_GRAPH, _K)
        nothing = np.zeros(len(queries), dtype=np.int64)
        return SearchResult(*engine.lists(mapped(queries), _K, StepClock())["dense"], nothing, nothing)


def _sample(documents: Inputs, queries: Inputs) -> DenseSample:
    assert documents.dense is not None
    assert queries.dense is not None
    return DenseSample(documents.dense, queries.dense)
