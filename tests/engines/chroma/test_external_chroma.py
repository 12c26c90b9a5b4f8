"""Collections that somebody else made, in a folder or on a server: ids, only reading calls, and what is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import pytest
from chroma_indexes import COLLECTION, served, write_collection, write_folder
from chroma_proxy import ChromaProxy
from faulty_http import serve
from installed import skip_module_without

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.chroma.engine import ChromaEngine
from harness.engines.interface import ExpectedContent, IndexHandle
from harness.errors import BackendError, IndexChangedError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress
from harness.testing.expected import random_unit_vectors

skip_module_without("chromadb")

pytestmark = pytest.mark.integration
DEFAULTS = find_cards("backends")["chroma"].defaults
READING = {"version", "identity", "limits", "tenant", "database", "find", "count", "get", "query"}
VECTORS = random_unit_vectors(1, 60, 16) * np.linspace(0.5, 3, 60, dtype=np.float32)[:, None]
GIVEN = Inputs(Ids.of(f"d{row}" for row in range(60)), dense=VECTORS)
ASKED = Inputs(Ids.of(f"q{row}" for row in range(5)), dense=random_unit_vectors(2, 5, 16))


@contextmanager
def attached(work: Path, **parameters: ParameterValue) -> Iterator[tuple[ChromaEngine, IndexHandle]]:
    work.mkdir()
    given = {**DEFAULTS, "external": True, "collection": COLLECTION, **parameters}
    with closing(ChromaEngine(given)) as engine:
        yield engine, engine.attach(work, RecordingProgress())


def refused(work: Path, **parameters: ParameterValue) -> str:
    with pytest.raises(BackendError) as refusal, attached(work, **parameters):
        pass
    assert "delete" not in str(refusal.value), "the index is the user's"
    return str(refusal.value)


def content(found: IndexHandle, vectors: np.ndarray = VECTORS) -> ExpectedContent:
    rows = GIVEN.ids.rows_of(found.ids)
    known = np.flatnonzero(rows >= 0).astype(np.int32)
    taken = Inputs(Ids.of(GIVEN.ids.take(rows[known])), dense=np.ascontiguousarray(vectors[rows[known]]))
    return ExpectedContent(known, taken, ASKED)


@pytest.mark.parametrize("space", ["cosine", "l2", "ip"])
def test_a_folder_is_proven_to_hold_the_collection(space: str, tmp_path: Path) -> None:
    write_folder(tmp_path / "theirs", GIVEN, space=space)
    similarity = {"ip": "dot"}.get(space, space)
    with attached(tmp_path / "work", path=str(tmp_path / "theirs"), similarity=similarity) as (engine, found):
        assert engine.mismatch(content(found), RecordingProgress()) is None
        assert found.info.mode == "embedded, a copy of an external folder"
        assert (found.state["vectors_in_graph"], found.state["space"]) == (60, space)
        other = VECTORS.copy()
        other[7, 3] += 1e-4
        reason = engine.mismatch(content(found, other), RecordingProgress())
    assert reason.startswith(
        "1 documents have other vectors than the encoder gives, 'd7' first; values differ by up to "
    )


def test_that_a_folder_can_answer_otherwise_when_it_is_opened_again_is_told(tmp_path: Path) -> None:
    write_folder(tmp_path / "theirs", GIVEN)
    with attached(tmp_path / "work", path=str(tmp_path / "theirs")) as (engine, _):
        (said,) = engine.caveats(5).notes
    assert said.startswith("its 60 records are not in the graph on disk, which is written each sync_threshold (1,000")
    assert said.endswith("answers can differ from one opening to the next")
    write_folder(tmp_path / "whole", GIVEN, sync_threshold=60)
    with attached(tmp_path / "again", path=str(tmp_path / "whole")) as (engine, _):
        (said,) = engine.caveats(5).notes
    assert said.startswith("whether answers change at the next opening cannot be known: the graph is written each")


def test_of_a_server_the_count_and_the_configuration_tell(chroma_url: str, tmp_path: Path) -> None:
    write_collection(chroma_url, GIVEN, name="few")
    write_collection(chroma_url, GIVEN, name="many", sync_threshold=50)
    with attached(tmp_path / "few", url=chroma_url, collection="few") as (engine, _):
        (said,) = engine.caveats(5).notes
    assert said.startswith("its 60 records are not in the graph on disk")
    with attached(tmp_path / "many", url=chroma_url, collection="many") as (engine, _):
        (said,) = engine.caveats(5).notes
    assert said.startswith("whether answers change at the next opening cannot be known")
    assert "sync_threshold records (50 here)" in said
    with served(chroma_url) as client:
        for name in ("few", "many"):
            client.delete_collection(name)


def test_ids_come_from_the_metadata_where_a_key_is_named(tmp_path: Path) -> None:
    write_folder(
        tmp_path / "theirs", GIVEN, ids=[f"chunk-{row}" for row in range(60)], metadata=lambda one: {"docno": one}
    )
    with attached(tmp_path / "work", path=str(tmp_path / "theirs"), id_key="docno") as (engine, found):
        assert sorted(found.ids) == sorted(GIVEN.ids)
        rows = engine.search(ASKED, 1, perf_counter_ns).rows
    normal = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    assert found.ids.take(rows) == GIVEN.ids.take(np.argmax(ASKED.dense @ normal.T, axis=1))


def test_a_document_without_the_matched_field_matches_nothing_and_has_no_id(tmp_path: Path) -> None:
    documents = Inputs(Ids.of(["u1", "u2", "u3"]), dense=random_unit_vectors(3, 3, 8))
    source = {"u1": {"source": "pump.md"}, "u2": {"source": "lamp.md"}, "u3": {"page": 3}}
    write_folder(tmp_path / "index", documents, metadata=lambda doc_id: source[doc_id])
    made = tmp_path / "made"
    made.mkdir()
    np.save(made / "queries.npy", random_unit_vectors(4, 2, 8))
    (made / "queries.ids.txt").write_text("a\nb\n")
    golden = [{"id": "a", "question": "pump", "expected": ["pump.md"]}, {"id": "b", "question": "lamp", "expected": []}]
    against = f"chroma:path={tmp_path / 'index'};collection={COLLECTION};model=precomputed:{made}"
    options = {"k": 3, "isolation": "none", "timing": False, "metrics": ["Recall@3"]}
    (trial,) = harness.check(golden, against=against, match="field:metadata.source", **options).report.trials
    assert trial.error is None
    (first, _) = trial.questions
    assert first.values == {"Recall@3": 1.0}
    assert dict(zip(first.top, first.top_values, strict=True)) == {"u1": "pump.md", "u2": "lamp.md", "u3": None}
    (trial,) = harness.check(golden, against=f"{against};id_key=source", **options).report.trials
    assert trial.error is not None
    assert "1 of 3 documents have no value in the field that was named for ids (numbers 2)" in trial.error.message


def test_what_cannot_be_searched_rightly_is_refused(tmp_path: Path) -> None:
    theirs, path = tmp_path / "theirs", str(tmp_path / "theirs")
    write_folder(theirs, GIVEN, space="l2", metadata=lambda one: {"docno": one, "part": 1, "ratio": 0.5})
    assert refused(tmp_path / "a", path=path).endswith(
        "is searched by Chroma's 'l2', which is not similarity=cosine\n  give similarity=l2, or leave it out"
    )
    same: dict[str, ParameterValue] = {"path": path, "similarity": "l2"}
    said = refused(tmp_path / "b", **same, collection="mine")
    assert said == f"there is no collection 'mine' in '{path}'\n  name an existing one (collection=): '{COLLECTION}'"
    assert "60 of 60 documents have no text or whole number" in refused(tmp_path / "c", **same, id_key="ratio")
    with attached(tmp_path / "d", **same, id_key="part") as (_, shared):  # a key that records share is no id
        assert len(set(shared.ids)) == 60
        assert len(set(shared.values.to_pylist())) < 60
    (tmp_path / "nothing").mkdir()
    assert "is not a folder of Chroma" in refused(tmp_path / "e", path=str(tmp_path / "nothing"))
    with attached(tmp_path / "f", **same) as (engine, found):
        known = content(found)
        wide = ExpectedContent(known.rows, known.documents, Inputs(ASKED.ids, dense=random_unit_vectors(3, 5, 17)))
        with pytest.raises(RejectedInputError, match="vectors of 16 dimensions, the encoder gives 17"):
            engine.mismatch(wide, RecordingProgress())


@pytest.mark.parametrize("space", ["cosine", "l2", "ip"])
@pytest.mark.parametrize("length", [0.01, 1 / 3, 1 / np.sqrt(2), 1, 700])
def test_the_similarity_of_a_collection_is_found_out(space: str, length: float, tmp_path: Path) -> None:
    vectors = random_unit_vectors(4, 20, 16) * np.float32(length)
    vectors[3] = [0.01, *[0] * 15]
    given = Inputs(Ids.of(f"d{row}" for row in range(20)), dense=vectors)
    write_folder(tmp_path / "theirs", given, space=space)
    with attached(tmp_path / "work", path=str(tmp_path / "theirs"), similarity="") as (_, found):
        assert found.state["similarity"] == {"ip": "dot"}.get(space, space)


@pytest.mark.parametrize("documents", [0, 1])
def test_of_no_vectors_and_of_zeros_chroma_says_the_similarity(documents: int, tmp_path: Path) -> None:
    given = Inputs(Ids.of(["d0"][:documents]), dense=np.zeros((documents, 16), dtype=np.float32))
    write_folder(tmp_path / "theirs", given, space="ip")
    with attached(tmp_path / "work", path=str(tmp_path / "theirs"), similarity="") as (_, found):
        assert (len(found.ids), found.state["similarity"]) == (documents, "dot")


def test_a_folder_that_is_searched_by_another_space_than_chroma_says_is_refused(tmp_path: Path) -> None:
    """Chroma 0.5 kept ``hnsw:space`` with the segment. Chroma 1.5 searches by it, and tells its own default."""
    write_folder(tmp_path / "theirs", GIVEN, space="l2")
    with closing(sqlite3.connect(tmp_path / "theirs" / "chroma.sqlite3")) as database, database:
        ((segment,),) = database.execute("SELECT id FROM segments WHERE scope = 'VECTOR'")
        row = (segment, "hnsw:space", "cosine")
        database.execute("INSERT INTO segment_metadata (segment_id, key, str_value) VALUES (?, ?, ?)", row)
    said = refused(tmp_path / "work", path=str(tmp_path / "theirs"), similarity="")
    assert "is searched by Chroma's 'cosine', and Chroma says 'l2', as of folders that Chroma before 1.0 made" in said


@pytest.fixture
def proxy(chroma_url: str) -> Iterator[ChromaProxy]:
    with serve(ChromaProxy(behind=chroma_url)) as serving:
        yield serving
        with served(chroma_url) as client:
            client.delete_collection("of-somebody")


def test_a_collection_on_a_server_is_only_read(proxy: ChromaProxy, chroma_url: str, tmp_path: Path) -> None:
    write_collection(chroma_url, GIVEN, name="of-somebody")
    with attached(tmp_path / "work", url=proxy.url, collection="of-somebody") as (engine, found):
        assert engine.mismatch(content(found), RecordingProgress()) is None
        assert len(engine.search(ASKED, 10, perf_counter_ns).rows) == 50
        assert found.changed is not None
        assert found.changed() is None
        assert found.info.mode == "server, an external collection"
        assert not {"kept", "repeated_calls"} & found.state.keys()
    assert set(proxy.calls) <= READING
    with served(chroma_url) as client:
        assert client.get_collection("of-somebody", embedding_function=None).count() == 60


def test_a_collection_that_changes_is_noticed(proxy: ChromaProxy, chroma_url: str, tmp_path: Path) -> None:
    write_collection(chroma_url, GIVEN, name="of-somebody")
    with (
        attached(tmp_path / "work", url=proxy.url, collection="of-somebody") as (engine, found),
        served(chroma_url) as client,
    ):
        theirs = client.get_collection("of-somebody", embedding_function=None)
        theirs.add(ids=["new"], embeddings=ASKED.dense[:1])
        assert found.changed is not None
        assert found.changed() == "the collection 'of-somebody' held 60 records and now holds 61"
        with pytest.raises(IndexChangedError, match="the record 'new' was added while the index was searched"):
            engine.search(ASKED, 10, perf_counter_ns)
