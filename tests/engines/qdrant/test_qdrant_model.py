"""The model of Qdrant's arithmetic agrees with Qdrant itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from installed import skip_module_without

from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids, SparseVectors
from harness.engines.interface import SearchResult
from harness.engines.qdrant.engine import QdrantEngine
from harness.errors import UnknownNameError
from harness.exact.qdrant_model import qdrant_idf, qdrant_normalised, qdrant_weights
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock

skip_module_without("qdrant_edge")
pytestmark = pytest.mark.integration


def search(
    folder: Path, documents: SparseVectors, queries: SparseVectors, k: int, **changed: ParameterValue
) -> SearchResult:
    card = find_cards("backends")["qdrant"]
    parameters = {**card.defaults, **changed}
    engine = QdrantEngine(parameters)
    ids = Ids.of(f"d{row}" for row in range(len(documents)))
    engine.open(folder, ids)
    try:
        report = engine.index(Inputs(ids, sparse=documents), RecordingProgress(), StepClock())
        assert report.state["datatype_in_effect"] == changed.get("datatype", "float32")
        asked = Inputs(Ids.of(f"q{row}" for row in range(len(queries))), sparse=queries)
        return engine.search(asked, k, StepClock())
    finally:
        engine.close()


def single_terms(dimensions: int) -> SparseVectors:
    columns = np.arange(dimensions, dtype=np.int32)
    return SparseVectors(
        np.arange(dimensions + 1, dtype=np.int64), columns, np.ones(dimensions, dtype=np.float32), dimensions
    )


def test_idf_of_every_document_frequency(tmp_path: Path) -> None:
    size = 2000
    terms = np.arange(0, size, 5, dtype=np.int32)
    containing = terms + 1
    rows = [np.flatnonzero(containing > row).astype(np.int32) for row in range(size)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    columns = np.concatenate(rows)
    documents = SparseVectors(indptr, columns, np.ones(len(columns), dtype=np.float32), len(terms))
    assert len(documents.nonempty_rows) == size - 4
    found = search(tmp_path, documents, single_terms(len(terms)), 1)
    assert found.indptr.tolist() == list(range(len(terms) + 1))
    np.testing.assert_array_max_ulp(found.scores, qdrant_idf(size - 4, containing), maxulp=1)
    assert np.mean(found.scores == qdrant_idf(size - 4, containing)) > 0.99


def random_documents() -> SparseVectors:
    generator = np.random.default_rng(8)
    rows = [np.unique(generator.integers(0, 50, 12)).astype(np.int32) for _ in range(400)]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    values = (generator.random(indptr[-1]) * 5 + 0.01).astype(np.float32)
    return SparseVectors(indptr, np.concatenate(rows), values, 51)


def exact(documents: SparseVectors, found: SearchResult, query: int) -> Float32Array:
    hits = slice(int(found.indptr[query]), int(found.indptr[query + 1]))
    weights = documents.to_scipy().toarray()[found.rows[hits], query]
    idf = qdrant_idf(len(documents), np.bincount(documents.indices, minlength=51))
    scores: Float32Array = weights * idf[query]
    return scores


@pytest.mark.parametrize("datatype", ["float32", "float16", "uint8"])
def test_weights_of_an_optimised_segment(tmp_path: Path, datatype: str) -> None:
    documents = random_documents()
    found = search(tmp_path, documents, single_terms(51), 400, datatype=datatype, indexing_threshold_kb=1)
    held = qdrant_weights(documents, datatype)
    for query in range(51):
        hits = slice(int(found.indptr[query]), int(found.indptr[query + 1]))
        np.testing.assert_allclose(found.scores[hits], exact(held, found, query), rtol=2e-7)
    if datatype != "float32":
        with pytest.raises(AssertionError):
            np.testing.assert_allclose(found.scores[:50], exact(documents, found, 0)[:50], rtol=1e-5)


def test_a_dimension_with_one_weight_keeps_it() -> None:
    documents = single_terms(3)
    assert qdrant_weights(documents, "uint8").values.tolist() == [1.0, 1.0, 1.0]


def test_unknown_datatype() -> None:
    with pytest.raises(UnknownNameError, match="float16"):
        qdrant_weights(single_terms(1), "float64")


@pytest.mark.parametrize("offset", [0.0, 1.0, 100.0, 10_000.0])
def test_normalised_scores_are_qdrants_to_the_bit(tmp_path: Path, offset: float) -> None:
    """Far from 0 float32 leaves little of the spread: any other order of operations would show."""
    import qdrant_edge

    config = qdrant_edge.EdgeConfig(vectors={"dense": qdrant_edge.EdgeVectorParams(4, qdrant_edge.Distance.Dot)})
    shard = qdrant_edge.EdgeShard.create(str(tmp_path), config)
    vectors = np.random.default_rng(1).standard_normal((300, 4))
    vectors[:, 0] = offset
    points = [qdrant_edge.Point(row, {"dense": vector.tolist()}) for row, vector in enumerate(vectors)]
    shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    nearest = qdrant_edge.Query.Nearest([1.0, 1.0, 0.3, 0.5], using="dense")
    plain = shard.query(qdrant_edge.QueryRequest(limit=100, query=nearest))
    prefetch = [qdrant_edge.Prefetch(100, query=nearest)]
    fused = shard.query(qdrant_edge.QueryRequest(limit=100, query=qdrant_edge.Fusion.Dbsf(), prefetches=prefetch))
    shard.close()
    found = {hit.id: hit.score for hit in fused}
    scores = np.array([hit.score for hit in plain], dtype=np.float32)
    modelled = qdrant_normalised(np.array([0, 100], dtype=np.int64), scores)
    assert modelled.tolist() == [found[hit.id] for hit in plain]


def test_a_single_score_and_equal_ones_are_in_the_middle() -> None:
    indptr, scores = np.array([0, 1, 1, 4], dtype=np.int64), np.array([7, 2, 2, 2], dtype=np.float32)
    assert qdrant_normalised(indptr, scores).tolist() == [0.5] * 4
