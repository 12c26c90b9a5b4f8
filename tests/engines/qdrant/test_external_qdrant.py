"""Shards and collections that somebody else made: ids, parity, only reading calls, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import pytest
import qdrant_edge
from installed import skip_module_without
from qdrant_indexes import write_collection, write_shard
from qdrant_stub import Stub, serve
from small_world import DOCUMENTS, QUERIES
from small_world import write_collection as write_dataset

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids, SparseVectors
from harness.encoders import bm25
from harness.engines.interface import ExpectedContent, IndexHandle
from harness.engines.qdrant.engine import QdrantEngine
from harness.errors import BackendError, IndexChangedError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress
from harness.text import TermCounts, count_terms, create_analyzer

skip_module_without("qdrant_edge")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
DEFAULTS = find_cards("backends")["qdrant"].defaults
IDS = list(DOCUMENTS)
READING = {"root", "ready", "exists", "info", "count", "scroll", "retrieve", "query", "query_batch", "telemetry"}


def counted() -> TermCounts:
    return count_terms(create_analyzer("whitespace"), [list(DOCUMENTS.values())], list(QUERIES.values()))


def documents(*, k1: float = 0.9, ids: Sequence[str] = tuple(IDS), order: Sequence[int] | None = None) -> Inputs:
    vectors = bm25.document_weights(counted(), k1=k1, b=0.4)
    return Inputs(Ids.of(ids), sparse=vectors if order is None else vectors.take(np.array(order)))


def queries() -> Inputs:
    return Inputs(Ids.of(QUERIES), sparse=counted().queries)


def content(attached: IndexHandle, ours: Inputs, asked: Inputs | None = None) -> ExpectedContent:
    rows = ours.ids.rows_of(attached.ids)
    known = np.flatnonzero(rows >= 0).astype(np.int32)
    assert ours.sparse is not None
    taken = Inputs(Ids.of(ours.ids.take(rows[known])), sparse=ours.sparse.take(rows[known]))
    return ExpectedContent(known, taken, asked if asked is not None else queries())


@contextmanager
def attached(work: Path, **parameters: ParameterValue) -> Iterator[tuple[QdrantEngine, IndexHandle]]:
    work.mkdir()
    with closing(QdrantEngine({**DEFAULTS, "external": True, **parameters})) as engine:
        yield engine, engine.attach(work, RecordingProgress())


def refused(work: Path, **parameters: ParameterValue) -> str:
    with pytest.raises(BackendError) as refusal, attached(work, **parameters):
        pass
    assert "delete" not in str(refusal.value), "the index is the user's"
    return str(refusal.value)


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serve() as serving:
        yield serving


def test_a_shard_is_held_against_its_oracle_and_left_as_it_was(tmp_path: Path) -> None:
    write_shard(tmp_path / "shard", documents())
    expression = f"qdrant:external=true;path={tmp_path / 'shard'};id_key=docno;analyzer=whitespace"
    comparison = harness.compare([expression], write_dataset(tmp_path / "small"), k=5)
    (backend,) = comparison.report.trials
    assert backend.parity is not None
    assert backend.parity.tie_equivalent == backend.parity.queries == len(QUERIES)
    assert backend.parity.causes == {}
    assert backend.engine is not None
    assert backend.engine.mode == "embedded, a copy of an external shard"
    assert backend.index is not None
    assert backend.index.external_index is not None
    assert backend.index.external_index.files == len(
        [path for path in (tmp_path / "shard").rglob("*") if path.is_file()]
    )
    assert (backend.index.documents_indexed, backend.index.seconds) == (6, None)
    run = comparison.run(backend.label)
    assert set(run.doc_ids.take(run.rows)) <= set(IDS)


def test_points_can_be_the_documents_themselves(tmp_path: Path) -> None:
    write_shard(tmp_path / "shard", documents(), point_ids=range(100, 106), payload=None)
    with attached(tmp_path / "work", path=str(tmp_path / "shard")) as (_, found):
        assert sorted(found.ids) == [str(number) for number in range(100, 106)]


@pytest.mark.parametrize(
    ("id_key", "payload_of"),
    [
        ("metadata.docno", lambda one: {"metadata": {"docno": one, "page": 1}}),
        ('"the.docno"', lambda one: {"the.docno": one, "the": {"docno": "another"}}),
        ("doc no", lambda one: {"doc no": one}),
        ("Kürzel-1", lambda one: {"Kürzel-1": one}),
    ],
)
def test_ids_are_found_under_keys_of_all_kinds(
    id_key: str, payload_of: Callable[[str], dict[str, Any]], tmp_path: Path
) -> None:
    write_shard(tmp_path / "shard", documents(), payload=payload_of)
    with attached(tmp_path / "work", path=str(tmp_path / "shard"), id_key=id_key) as (_, found):
        assert sorted(found.ids) == sorted(IDS)
    for number, wrong in enumerate(("metadata", "metadata.docno.page", "..", "doc..no", 'a"b')):
        assert "documents have no text or whole number" in refused(
            tmp_path / str(number), path=str(tmp_path / "shard"), id_key=wrong
        )


def test_an_index_of_a_part_in_another_order_is_proven(tmp_path: Path) -> None:
    write_shard(tmp_path / "shard", documents(ids=["d6", "d2", "d5"], order=[5, 1, 4]))
    with attached(tmp_path / "work", path=str(tmp_path / "shard"), id_key="docno") as (engine, found):
        assert engine.mismatch(content(found, documents()), RecordingProgress()) is None


def test_other_weights_leave_no_oracle(tmp_path: Path) -> None:
    write_shard(tmp_path / "shard", documents(k1=2.0))
    with attached(tmp_path / "work", path=str(tmp_path / "shard"), id_key="docno") as (engine, found):
        reason = engine.mismatch(content(found, documents()), RecordingProgress())
    assert reason is not None
    assert "5 documents have other weights than the encoder gives" in reason


def test_other_columns_are_refused(tmp_path: Path) -> None:
    """Vectors of another vocabulary would be answered with nonsense; here two documents have changed places."""
    write_shard(tmp_path / "shard", documents(order=[1, 0, 2, 3, 4, 5]))
    with attached(tmp_path / "work", path=str(tmp_path / "shard"), id_key="docno") as (engine, found):
        ours = content(found, documents())
        with pytest.raises(RejectedInputError, match="other columns than the encoder gives it"):
            engine.mismatch(ours, RecordingProgress())


def test_columns_beyond_any_vocabulary_are_refused(tmp_path: Path) -> None:
    hashed = documents().sparse
    assert hashed is not None
    wide = SparseVectors(hashed.indptr, hashed.indices.astype(np.int64) + 2**32 - 100, hashed.values, 2**32)  # type: ignore[arg-type]
    write_shard(tmp_path / "shard", Inputs(Ids.of(IDS), sparse=wide))
    with attached(tmp_path / "work", path=str(tmp_path / "shard"), id_key="docno") as (engine, found):
        ours = content(found, documents())
        with pytest.raises(RejectedInputError, match="other columns than the encoder gives it"):
            engine.mismatch(ours, RecordingProgress())


def test_deleted_points_that_the_idf_still_counts_leave_no_oracle(tmp_path: Path) -> None:
    """In an optimised segment they are only marked."""
    words = {"words": qdrant_edge.EdgeSparseVectorParams(modifier=qdrant_edge.Modifier.Idf)}
    optimisers = qdrant_edge.EdgeOptimizersConfig(indexing_threshold=1)
    config = qdrant_edge.EdgeConfig(sparse_vectors=words, optimizers=optimisers)
    shard = qdrant_edge.EdgeShard.create(str(tmp_path / "shard"), config)
    vector = qdrant_edge.SparseVector([3], [1.0])
    points = [qdrant_edge.Point(number, {"words": vector}, {}) for number in range(400)]
    shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    shard.optimize()
    shard.update(qdrant_edge.UpdateOperation.delete_points(list(range(20))))
    shard.flush()
    shard.close()
    vectors = SparseVectors(np.arange(401), np.full(400, 3, np.int32), np.ones(400, np.float32), 10)
    ours = Inputs(Ids.of(str(number) for number in range(400)), sparse=vectors)
    with attached(tmp_path / "work", path=str(tmp_path / "shard")) as (engine, found):
        assert len(found.ids) == 380
        reason = engine.mismatch(content(found, ours), RecordingProgress())
    assert reason is not None
    assert "380 have column 3, and the best scores 0.0012477 for it, not 0.00131318" in reason


def test_what_cannot_be_searched_rightly_is_refused(tmp_path: Path) -> None:
    ours, shard = documents(), tmp_path / "shard"
    write_shard(shard, ours, more={"titles": qdrant_edge.SparseVector([1], [1.0])})
    key: dict[str, ParameterValue] = {"path": str(shard), "id_key": "docno"}
    assert "has 2 sparse vectors: 'titles', 'words'" in refused(tmp_path / "a", **key)
    assert "has no sparse vector 'text'" in refused(tmp_path / "b", **key, vector="text")
    assert "was made with Qdrant's idf\n  say idf=true" in refused(tmp_path / "c", **key, vector="words", idf=False)
    said = refused(tmp_path / "d", path=str(shard), vector="words", id_key="id")
    assert "6 of 6 documents have no text or whole number in the payload under 'id'" in said
    write_shard(tmp_path / "twice", documents(ids=["a", "b", "c", "d", "e", "a"]))
    with attached(tmp_path / "e", path=str(tmp_path / "twice"), id_key="docno") as (_, shared):
        assert sorted(shared.values.to_pylist()) == ["a", "a", "b", "c", "d", "e"]  # a key that points share is no id
        assert len(set(shared.ids)) == 6
    (tmp_path / "nothing").mkdir()
    assert "is not a shard of Qdrant" in refused(tmp_path / "f", path=str(tmp_path / "nothing"))
    (broken,) = (shard / "segments").glob("*/segment.json")
    broken.write_text("{}")
    assert "cannot be read" in refused(tmp_path / "g", **key)


def test_places_and_modes_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    for parameters, said in (
        ({"path": str(tmp_path), "url": "http://127.0.0.1:1"}, "a shard's folder is opened in the process"),
        ({"collection": "c"}, "a collection is on a server, and mode=edge"),
    ):
        with pytest.raises(RejectedInputError, match=said):
            QdrantEngine({**DEFAULTS, "external": True, **parameters})
    with closing(QdrantEngine(DEFAULTS)) as engine, pytest.raises(RejectedInputError, match="no external index"):
        engine.attach(tmp_path, RecordingProgress())


def on(stub: Stub, **parameters: ParameterValue) -> dict[str, ParameterValue]:
    return {"url": stub.url, "transport": "rest", "collection": "theirs", "id_key": "docno", **parameters}


def test_a_collection_is_only_read(stub: Stub, tmp_path: Path) -> None:
    write_collection(stub.url, "theirs", documents())
    stub.calls.clear()
    expression = (
        f"qdrant:external=true;url={stub.url};transport=rest;collection=theirs;id_key=docno;analyzer=whitespace"
    )
    comparison = harness.compare([expression, f"{expression};search_batch=2"], write_dataset(tmp_path / "small"), k=5)
    for backend in comparison.report.trials:
        assert backend.parity is not None
        assert backend.parity.tie_equivalent == len(QUERIES)
        assert backend.index is not None
        assert backend.index.external_index is not None
        assert (backend.index.external_index.files, backend.index.external_index.in_dataset) == (None, 6)
        assert backend.index.state["shards"] == 1
        assert backend.engine is not None
        assert backend.engine.mode.endswith("an external collection")
    assert stub.calls["query"] > 0
    assert stub.calls["query_batch"] > 0
    assert set(stub.calls) <= READING
    assert list(stub.collections) == ["theirs"]


def test_a_collection_that_changes_is_noticed(stub: Stub, tmp_path: Path) -> None:
    write_collection(stub.url, "theirs", documents())
    with attached(tmp_path / "work", **on(stub)) as (engine, found):
        assert found.changed is not None
        assert found.changed() is None
        insert(stub, 77)
        assert found.changed() == "the collection 'theirs' held 6 points and now holds 7"
        with pytest.raises(IndexChangedError, match="the point 77 was added while the index was searched"):
            engine.search(queries(), 10, perf_counter_ns)


def insert(stub: Stub, number: int) -> None:
    vector = {"words": {"indices": list(range(20)), "values": [1.0] * 20}}
    stub._upsert("theirs", {"points": [{"id": number, "vector": vector, "payload": {"docno": "new"}}]})


def test_a_changed_collection_fails_the_backend(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_collection(stub.url, "theirs", documents())
    plain, seen = stub._query, []

    def query(name: str, body: Any) -> Any:
        found = plain(name, body)
        if not seen:
            insert(stub, 77)
        seen.append(name)
        found["points"] = [point for point in found["points"] if point["id"] != 77]
        return found

    monkeypatch.setattr(stub, "_query", query)
    expression = (
        f"qdrant:external=true;url={stub.url};transport=rest;collection=theirs;id_key=docno;analyzer=whitespace"
    )
    comparison = harness.compare([expression], write_dataset(tmp_path / "small"), k=5)
    (backend,) = comparison.report.trials
    assert backend.error is not None
    assert backend.error.type == "IndexChangedError"
    assert "held 6 points and now holds 7" in backend.error.message


def test_several_shards_leave_no_oracle(stub: Stub, tmp_path: Path) -> None:
    write_collection(stub.url, "theirs", documents(), shards=2)
    with attached(tmp_path / "work", **on(stub)) as (engine, found):
        reason = engine.mismatch(content(found, documents()), RecordingProgress())
    assert reason is not None
    assert "each of its 2 shards has its own idf" in reason


def test_several_shards_are_one_index_without_idf(stub: Stub, tmp_path: Path) -> None:
    """Learned weights are summed as they are, wherever a point lies."""
    write_collection(stub.url, "theirs", documents(), idf=False, shards=2)
    with attached(tmp_path / "work", **on(stub, idf=False)) as (engine, found):
        assert engine.mismatch(content(found, documents()), RecordingProgress()) is None


def test_a_collection_that_is_not_there_is_refused(stub: Stub, tmp_path: Path) -> None:
    assert "there is no collection 'theirs' on the server" in refused(tmp_path / "work", **on(stub))
    assert set(stub.calls) <= READING
