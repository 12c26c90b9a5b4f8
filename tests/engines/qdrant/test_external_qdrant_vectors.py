"""Shards and collections with dense vectors that somebody else made, alone and beside sparse ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest
import qdrant_edge
from installed import skip_module_without
from qdrant_indexes import write_collection, write_shard
from qdrant_stub import Stub, serve

import harness
from harness.data.inputs import Inputs
from harness.data.types import Float32Array, Ids
from harness.encoders import bm25
from harness.engines.interface import ExpectedContent, IndexHandle
from harness.engines.qdrant.engine import PointsEngine, QdrantDenseEngine, QdrantHybridEngine
from harness.errors import BackendError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress
from harness.text import count_terms, create_analyzer

skip_module_without("qdrant_edge")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
DEFAULTS = {name: find_cards("backends")[name].defaults for name in ("qdrant-dense", "qdrant-hybrid")}
READING = {"root", "ready", "exists", "info", "count", "scroll", "retrieve", "query", "query_batch", "telemetry"}
DOCUMENTS, QUERIES = 80, 6
WORDS = ["cat", "dog", "garden", "light", "station", "water", "mat"]
VECTORS = np.random.default_rng(5).standard_normal((DOCUMENTS, 24)).astype(np.float32)
VECTORS *= np.linspace(0.01, 40, DOCUMENTS, dtype=np.float32)[:, None]
VECTORS[3] /= np.linalg.norm(VECTORS[3])  # Qdrant leaves one of length 1 as it is
ASKED = np.random.default_rng(6).standard_normal((QUERIES, 24)).astype(np.float32)
TEXTS = [" ".join(np.random.default_rng(row).choice(WORDS, 1 + row % 5)) for row in range(DOCUMENTS)]
QUESTIONS = ["cat garden", "dog", "light light station", "water mat", "zeppelin", "mat"]
IDS, QUERY_IDS = [f"d{row}" for row in range(DOCUMENTS)], [f"q{row}" for row in range(QUERIES)]
COUNTS = count_terms(create_analyzer("whitespace"), [TEXTS], QUESTIONS)
GIVEN = Inputs(Ids.of(IDS), dense=VECTORS)
BOTH = Inputs(Ids.of(IDS), sparse=bm25.document_weights(COUNTS), dense=VECTORS)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The collection, with its vectors beside it."""
    folder = tmp_path_factory.mktemp("data") / "small"
    (folder / "qrels").mkdir(parents=True)
    (folder / "vectors").mkdir()
    told = (("corpus", "documents", IDS, TEXTS, VECTORS), ("queries", "queries", QUERY_IDS, QUESTIONS, ASKED))
    for name, role, ids, texts, vectors in told:
        records = [json.dumps({"_id": one, "title": "", "text": text}) for one, text in zip(ids, texts, strict=True)]
        (folder / f"{name}.jsonl").write_text("".join(f"{record}\n" for record in records))
        np.save(folder / "vectors" / f"{role}.npy", vectors)
        (folder / "vectors" / f"{role}.ids.txt").write_text("".join(f"{one}\n" for one in ids))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t1\n")
    return folder


def compared(dataset: Path, *expressions: str) -> list[Any]:
    model = f"model=precomputed:{dataset / 'vectors'}"
    backends = [f"{one};external=true;id_key=docno;{model}" for one in expressions]
    comparison = harness.compare(backends, dataset, k=10, isolation="none", timing=False)
    assert comparison.failed == []
    return comparison.report.trials


@contextmanager
def attached(
    work: Path, backend: str = "qdrant-dense", **parameters: Any
) -> Iterator[tuple[PointsEngine, IndexHandle]]:
    work.mkdir()
    engine = {"qdrant-dense": QdrantDenseEngine, "qdrant-hybrid": QdrantHybridEngine}[backend]
    given: dict[str, ParameterValue] = {**DEFAULTS[backend], "external": True, "id_key": "docno", **parameters}
    with closing(engine(given)) as opened:
        yield opened, opened.attach(work, RecordingProgress())


def refused(work: Path, **parameters: Any) -> str:
    with pytest.raises(BackendError) as refusal, attached(work, **parameters):
        pass
    assert "delete" not in str(refusal.value), "the index is the user's"
    return str(refusal.value)


def content(found: IndexHandle, vectors: Float32Array = VECTORS) -> ExpectedContent:
    rows = GIVEN.ids.rows_of(found.ids)
    known = np.flatnonzero(rows >= 0).astype(np.int32)
    chosen = rows[known]
    assert BOTH.sparse is not None
    taken = Inputs(Ids.of(GIVEN.ids.take(chosen)), sparse=BOTH.sparse.take(chosen), dense=vectors[chosen])
    return ExpectedContent(known, taken, Inputs(Ids.of(QUERY_IDS), sparse=COUNTS.queries, dense=ASKED))


def digests(folder: Path) -> dict[str, str]:
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def test_a_graph_is_held_against_the_exact_oracle(dataset: Path, tmp_path: Path) -> None:
    """What the graph misses is told as such, and the shard is left as it was."""
    shard = tmp_path / "shard"
    graph = qdrant_edge.HnswIndexConfig(2, 4, 1)
    write_shard(shard, GIVEN, graph=True, hnsw_config=graph)
    before = digests(shard)
    searched, scanned = compared(
        dataset, f"qdrant-dense:path={shard};hnsw_ef=1", f"qdrant-dense:path={shard};exact=true"
    )
    assert digests(shard) == before
    assert searched.engine.mode == "embedded, a copy of an external shard"
    assert searched.index.external_index.files == len(before)
    assert (searched.index.state["vectors_in_graph"], scanned.index.state["vectors_in_graph"]) == (DOCUMENTS, 0)
    assert searched.parity.causes.keys() == {"approximate search"}
    assert searched.parity.overlap["10"] < 1.0
    assert scanned.parity.tie_equivalent == QUERIES


@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
def test_every_stored_vector_is_compared(similarity: str, tmp_path: Path) -> None:
    write_shard(tmp_path / "shard", GIVEN, similarity=similarity)
    given = {"path": str(tmp_path / "shard"), "similarity": ""}
    with attached(tmp_path / "work", **given) as (engine, found):
        assert found.state["similarity"] == similarity
        assert engine.mismatch(content(found), RecordingProgress()) is None
        other = VECTORS.copy()
        other[7, 3] *= np.float32(1 + 1e-6)  # eight float32 steps
        reason = engine.mismatch(content(found, other), RecordingProgress())
        assert reason.startswith(
            "1 documents have other vectors than the encoder gives, 'd7' first; values differ by up to "
        )
        known = content(found)
        short = ExpectedContent(known.rows, known.documents, Inputs(Ids.of(QUERY_IDS), dense=ASKED[:, :20].copy()))
        with pytest.raises(RejectedInputError, match="vectors of 24 dimensions, the encoder gives 20"):
            engine.mismatch(short, RecordingProgress())


def test_vectors_of_half_precision_are_those_of_the_collection(dataset: Path, tmp_path: Path) -> None:
    """The reference is the exact one, and the difference has its cause."""
    half = qdrant_edge.VectorStorageDatatype.Float16
    write_shard(tmp_path / "shard", GIVEN, datatype=half)
    (backend,) = compared(dataset, f"qdrant-dense:path={tmp_path / 'shard'}")
    assert backend.parity.queries == QUERIES
    assert backend.parity.causes.keys() == {"float16 vectors"}
    with attached(tmp_path / "work", path=str(tmp_path / "shard")) as (engine, found):
        other = VECTORS.copy()
        other[7, 3] *= np.float32(1.01)
        assert engine.mismatch(content(found, other), RecordingProgress()) is not None


def test_an_unnamed_vector_and_what_a_quantised_index_offers_can_be_searched(tmp_path: Path) -> None:
    scalar = qdrant_edge.ScalarQuantizationConfig(qdrant_edge.ScalarType.Int8)
    write_shard(tmp_path / "shard", GIVEN, dense_name="", graph=True, quantization_config=scalar)
    with attached(tmp_path / "work", path=str(tmp_path / "shard"), rescore="true", oversampling=4.0) as (engine, found):
        assert (found.state["quantised_segments"], found.state["vectors_in_graph"]) == (1, 0)
        assert engine.mismatch(content(found), RecordingProgress()) is None
        rows = engine.search(Inputs(Ids.of(QUERY_IDS), dense=ASKED), 1, perf_counter_ns).rows
    directions = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    assert found.ids.take(rows) == GIVEN.ids.take(np.argmax(ASKED @ directions.T, axis=1))


def test_points_without_the_vector_leave_no_oracle(tmp_path: Path) -> None:
    """A search never finds them."""
    dense = {"meaning": qdrant_edge.EdgeVectorParams(size=24, distance=qdrant_edge.Distance.Dot)}
    shard = qdrant_edge.EdgeShard.create(str(tmp_path / "shard"), qdrant_edge.EdgeConfig(vectors=dense))
    points = [
        qdrant_edge.Point(row, {"meaning": VECTORS[row].tolist()} if row != 4 else {}, {"docno": IDS[row]})
        for row in range(10)
    ]
    shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    shard.flush()
    shard.close()
    with attached(tmp_path / "work", path=str(tmp_path / "shard"), similarity="dot") as (engine, found):
        reason = engine.mismatch(content(found), RecordingProgress())
    assert reason == "1 documents have no such vector, 'd4' first"


def test_what_cannot_be_searched_rightly_is_refused(tmp_path: Path) -> None:
    shard = tmp_path / "shard"
    write_shard(shard, BOTH, similarity="dot")
    path = {"path": str(shard)}
    said = refused(tmp_path / "a", **path)
    assert "the dense vector 'meaning' of the shard in" in said
    assert "has the distance Dot, which is not similarity=cosine\n  say similarity=dot, or leave it out" in said
    assert "has no dense vector 'words'\n  it has: 'meaning'" in refused(tmp_path / "b", **path, vector="words")
    said = refused(tmp_path / "c", **path, backend="qdrant-hybrid", similarity="dot", sparse_vector="titles")
    assert "has no sparse vector 'titles'" in said
    write_shard(tmp_path / "sparse", Inputs(BOTH.ids, sparse=BOTH.sparse))
    assert "has no dense vectors" in refused(tmp_path / "d", path=str(tmp_path / "sparse"))
    assert "quantile cannot be set with quantization=stored" in refused(tmp_path / "e", **path, quantile=0.9)
    names = {name: qdrant_edge.EdgeVectorParams(size=2, distance=qdrant_edge.Distance.Manhattan) for name in "xy"}
    qdrant_edge.EdgeShard.create(str(tmp_path / "two"), qdrant_edge.EdgeConfig(vectors=names)).close()
    said = refused(tmp_path / "f", path=str(tmp_path / "two"))
    assert "has 2 dense vectors: 'x', 'y'\n  choose the one to search: vector=" in said
    assert "which the harness does not know\n  it knows Cosine, Dot, Euclid" in refused(
        tmp_path / "g", path=str(tmp_path / "two"), vector="x"
    )


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serve() as serving:
        yield serving


def test_a_collection_is_only_read(stub: Stub, dataset: Path) -> None:
    """An unnamed vector, one beside a sparse one, and a hybrid of both."""
    write_collection(stub.url, "plain", GIVEN, similarity="l2", dense_name="")
    write_collection(stub.url, "both", BOTH)
    stub.calls.clear()
    way = f"url={stub.url};transport=rest"
    plain, dense, hybrid = compared(
        dataset,
        f"qdrant-dense:{way};collection=plain",
        f"qdrant-dense:{way};collection=both;vector=meaning",
        f"qdrant-hybrid:{way};collection=both;analyzer=whitespace;fusion=dbsf;candidates=80",
    )
    assert [one.parameters["similarity"] for one in (plain, dense, hybrid)] == ["l2", "cosine", "cosine"]
    for backend in (plain, dense, hybrid):
        assert backend.parity.queries == QUERIES, backend.notes
        assert backend.parity.causes.keys() <= {"within float32 rounding", "float32 IDF"}
        assert backend.index.state["vectors_in_graph"] == 0
        assert (backend.index.external_index.files, backend.index.external_index.in_dataset) == (None, DOCUMENTS)
        assert backend.engine.mode == "server, rest, an external collection"
    assert set(stub.calls) <= READING


def test_a_golden_set_is_held_against_a_collection_and_a_shard(stub: Stub, tmp_path: Path) -> None:
    """Without the documents: their vectors are there, and the distance too. Exact search says what is expected."""
    write_collection(stub.url, "mine", GIVEN, similarity="l2")
    write_shard(tmp_path / "shard", GIVEN, similarity="dot")
    made = tmp_path / "made"
    made.mkdir()
    np.save(made / "queries.npy", ASKED)
    (made / "queries.ids.txt").write_text("".join(f"{one}\n" for one in QUERY_IDS))
    best = {
        "l2": np.square(VECTORS[None] - ASKED[:, None]).sum(axis=2).argmin(axis=1),
        "dot": (ASKED @ VECTORS.T).argmax(axis=1),
    }
    ways = {
        "l2": f"url={stub.url};transport=rest;collection=mine;exact=true",
        "dot": f"path={tmp_path / 'shard'};exact=true",
    }
    stub.calls.clear()
    for similarity, way in ways.items():
        golden = [
            {"id": name, "question": f"about {name}", "expected": [GIVEN.ids[int(row)]]}
            for name, row in zip(QUERY_IDS, best[similarity], strict=True)
        ]
        against = f"qdrant-dense:{way};id_key=docno;model=precomputed:{made}"
        options = {"k": 5, "isolation": "none", "timing": False}
        checked = harness.check(golden, against=against, require="MRR@5>=1", **options)
        assert checked.passed, checked
        assert checked.report.trials[0].parameters["similarity"] == similarity
        golden[0]["expected"] = ["nowhere"]
        assert harness.check(golden, against=against, **options).report.verdict == "invalid"
    assert set(stub.calls) <= READING


def test_a_hybrid_searches_both_vectors_of_a_shard(dataset: Path, tmp_path: Path) -> None:
    write_shard(tmp_path / "shard", BOTH, graph=True)
    expression = f"qdrant-hybrid:path={tmp_path / 'shard'};analyzer=whitespace;candidates=80;fusion=dbsf"
    (backend,) = compared(dataset, expression)
    assert backend.parity.queries == QUERIES, backend.notes
    assert backend.parity.causes.keys() <= {"within float32 rounding", "float32 IDF"}
    assert backend.index.external_index.in_dataset == DOCUMENTS


def test_a_hybrid_tells_what_differs_in_both(tmp_path: Path) -> None:
    other = Inputs(BOTH.ids, sparse=bm25.document_weights(COUNTS, k1=2.0), dense=VECTORS)
    write_shard(tmp_path / "shard", other)
    with attached(tmp_path / "work", backend="qdrant-hybrid", path=str(tmp_path / "shard")) as (engine, found):
        wrong = VECTORS.copy()
        wrong[7, 3] += 1
        reason = engine.mismatch(content(found, wrong), RecordingProgress())
    assert reason is not None
    assert "documents have other weights than the encoder gives" in reason
    assert "1 documents have other vectors than the encoder gives, 'd7' first; values differ by " in reason
