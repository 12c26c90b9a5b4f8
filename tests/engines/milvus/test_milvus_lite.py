"""Milvus Lite: its process, what it cannot do, filters, and collections that somebody else made."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from installed import skip_module_without
from milvus_indexes import COLLECTION, write_file

from harness.data.arrow import strings
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.doctor import State
from harness.doctor.servers import examine_server, find_servers
from harness.engines.milvus.collection import LARGEST_K, Collection
from harness.engines.milvus.connection import Retrier, require_milvus
from harness.engines.milvus.engine import MilvusEngine, MilvusSparseEngine
from harness.engines.milvus.lite import LiteServer
from harness.engines.remote_server import Cause
from harness.errors import EngineUnavailableError, RejectedInputError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import random_unit_vectors, to_vectors

skip_module_without("pymilvus")

DENSE, SPARSE = (find_cards("backends")[name].defaults for name in ("milvus", "milvus-sparse"))
IDS = Ids.of(f"d{row}" for row in range(30))
DOCUMENTS = Inputs(IDS, dense=random_unit_vectors(1, 30, 8))
QUERIES = Inputs(Ids.of(["q0", "q1"]), dense=random_unit_vectors(2, 2, 8))
PARENT = """
import sys, time
from pathlib import Path
from harness.engines.milvus.lite import LiteServer
server = LiteServer(Path(sys.argv[1]))
print(server.process.pid, flush=True)
time.sleep(60)
"""


def build(folder: Path, documents: Inputs, **parameters: ParameterValue) -> MilvusEngine:
    engine = MilvusEngine({**DENSE, **parameters})
    engine.open(folder, documents.ids)
    engine.index(documents, RecordingProgress(), StepClock())
    return engine


def server_of(engine: MilvusEngine) -> psutil.Process:
    lite = engine.collection._lite
    assert lite is not None
    return psutil.Process(lite.process.pid)


def best(engine: MilvusEngine, k: int) -> list[int]:
    hits = engine.search(QUERIES, k, StepClock())
    return hits.rows[: int(hits.indptr[1])].tolist()


def test_its_server_ends_with_a_process_that_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "file.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        server = psutil.Process(int(parent.stdout.readline()))
        time.sleep(1.0)  # it would end within that, were the lock not held
        assert server.status() != psutil.STATUS_ZOMBIE
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while server.is_running() and server.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "the server outlives the process that started it"
        time.sleep(0.02)
    again = LiteServer(tmp_path / "file.db")
    again.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["file.db"]


def test_nothing_is_left_when_an_engine_closes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, temporary = tmp_path / "index", tmp_path / "temporary"
    folder.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    engine = build(folder, DOCUMENTS)
    server = server_of(engine)
    held = engine.searched_state(3)["server_memory_bytes"]
    assert int(held) == pytest.approx(server.memory_info().rss, rel=0.2)
    engine.close()
    assert not server.is_running()
    assert sorted(path.name for path in folder.iterdir()) == ["harness-index.json", "milvus.db"]
    assert list(temporary.iterdir()) == []


def test_a_server_that_is_killed_between_two_queries_is_named(tmp_path: Path) -> None:
    with closing(build(tmp_path, DOCUMENTS)) as engine:
        server = server_of(engine)
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(EngineUnavailableError, match=r"Milvus Lite at .*searching for query 'q0'.*"):
            engine.search(QUERIES, 3, StepClock())


def test_a_call_before_lite_is_ready_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server listens before it is ready, and on a busy machine it stays so for a while."""
    not_ready = require_milvus().MilvusException(2000, 'Assert "init_flag_ == true" => Mmap manager has not been init.')
    with closing(MilvusEngine(DENSE)) as engine:
        engine.open(tmp_path, IDS)
        create, errors = engine.collection._client.create_collection, [not_ready]

        def late(*arguments: object, **options: object) -> None:
            if errors:
                raise errors.pop()
            create(*arguments, **options)

        monkeypatch.setattr(engine.collection._client, "create_collection", late)
        assert engine.index(DOCUMENTS, RecordingProgress(), StepClock()).indexed == len(IDS)
        assert engine.repeated_calls == 1


def test_a_file_that_is_open_elsewhere_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path / "file.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        try:
            with pytest.raises(EngineUnavailableError, match="open in another process"):
                LiteServer(tmp_path / "file.db")
        finally:
            parent.kill()


def test_the_rewrite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.engines.milvus.lite.version", lambda _: "3.0.2")
    with closing(MilvusEngine(DENSE)) as engine, pytest.raises(EngineUnavailableError, match="rewrite in Python"):
        engine.open(tmp_path, IDS)


def test_what_lite_or_milvus_lacks_is_refused() -> None:
    with pytest.raises(RejectedInputError, match="no HNSW"):
        MilvusEngine({**DENSE, "index": "HNSW"})
    with pytest.raises(RejectedInputError, match="by no idf"):
        MilvusSparseEngine({**SPARSE, "idf": True})
    with pytest.raises(RejectedInputError, match="keep cannot be set with mode=lite"):
        MilvusEngine({**DENSE, "keep": True})


def test_ivf_says_that_lite_scans(tmp_path: Path) -> None:
    with closing(build(tmp_path, DOCUMENTS, index="IVF_FLAT", nlist=4, nprobe=1)) as engine:
        everything = best(engine, 30)
        caveats = engine.caveats(30)
    assert len(everything) == 30, "nprobe=1 of 4 lists would find fewer"
    assert set(caveats.without_effect) == {"index", "nlist", "nprobe", "ef"}
    assert "scans every vector" in caveats.without_effect["index"]


def test_more_hits_than_milvus_gives_are_refused(tmp_path: Path) -> None:
    with closing(build(tmp_path, DOCUMENTS)) as engine, pytest.raises(RejectedInputError, match="at most 16,384"):
        engine.prepare(np.ones((1, 8), dtype=np.float32), LARGEST_K + 1)


def test_a_graph_keeps_at_least_k_candidates() -> None:
    """Milvus refuses a search that keeps fewer. Milvus Lite makes no graph: what is sent is looked at."""
    engine, sent = MilvusEngine({**DENSE, "url": "http://127.0.0.1:9", "index": "HNSW", "ef": 20}), []

    def search(_: str, **request: Any) -> list[object]:
        sent.append(request["search_params"]["params"])
        return [None]

    engine.collection = Collection(engine.parameters, engine.index_settings())
    engine.collection._client = SimpleNamespace(search=search)
    for k in (5, 30):
        (query,) = engine.prepare(np.ones((1, 8), dtype=np.float32), k)
        engine.retrieve(query, k)
        assert engine.searched_state(k) == sent[-1]
    assert sent == [{"ef": 20}, {"ef": 30}]


@pytest.mark.parametrize(
    ("index", "sent"),
    [
        *(("HNSW", {"ef": 30}), ("HNSW_SQ", {"ef": 30})),
        *(("IVF_FLAT", {"nprobe": 3}), ("IVF_SQ8", {"nprobe": 3}), ("IVF_PQ", {"nprobe": 3})),
        *(("DISKANN", {}), ("FLAT", {})),
    ],
)
def test_an_index_that_somebody_else_made_is_searched_with_what_its_type_takes(
    index: str, sent: dict[str, int]
) -> None:
    """Milvus Lite makes none of these: what would be sent is looked at."""
    named = {"external": True, "collection": COLLECTION, "url": "http://127.0.0.1:9"}
    engine = MilvusEngine({**DENSE, **named, "ef": 20, "nprobe": 3})
    engine.index_type = index
    assert engine.searching(30) == sent
    without = engine.caveats(30).without_effect
    assert without.keys() == {"ef", "nprobe"} - sent.keys()
    assert all(reason.endswith(f"and this is {index}") for reason in without.values())


def test_weights_below_zero_are_refused(tmp_path: Path) -> None:
    documents = Inputs(Ids.of(["a", "b"]), sparse=to_vectors([{0: 1.0}, {1: -1.0, 2: 3.0}], 4))
    with closing(MilvusSparseEngine(SPARSE)) as engine:
        engine.open(tmp_path, documents.ids)
        with pytest.raises(RejectedInputError, match="document 'b' has a weight below 0"):
            engine.index(documents, RecordingProgress(), StepClock())


VALUES = ('a"b', "a\\b", "a'b", "\\n", "{v}", "", "\t", "harness_row == 1", "x" * 5_000)


@pytest.mark.parametrize("field", ["plain", 'q"uo\\te', "harness row", "a.b[0]"])
def test_filters_take_values_and_names_as_they_are(tmp_path: Path, field: str) -> None:
    values = [*VALUES, *(["other"] * (len(IDS) - len(VALUES) - 1)), None]
    documents = Inputs(IDS, dense=DOCUMENTS.dense, metadata=pa.table({field: strings(values)}))
    with closing(build(tmp_path, documents)) as engine:
        for row, value in enumerate(VALUES):
            engine.restrict({field: value})
            assert best(engine, 30) == [row], repr(value)
        with pytest.raises(RejectedInputError, match="cannot hold the line break"):
            engine.restrict({field: "a\nb"})


@pytest.mark.parametrize(("metric", "similarity"), [("COSINE", "cosine"), ("IP", "dot"), ("L2", "l2")])
def test_the_similarity_of_an_external_index_is_read(tmp_path: Path, metric: str, similarity: str) -> None:
    write_file(tmp_path / "theirs.db", DOCUMENTS, metric=metric, texts=[f"text {row}" for row in range(30)])
    (tmp_path / "work").mkdir()
    named: Mapping[str, ParameterValue] = {"path": str(tmp_path / "theirs.db"), "collection": COLLECTION}
    with closing(MilvusEngine({**DENSE, "external": True, "similarity": "", **named})) as engine:
        handle = engine.attach(tmp_path / "work", RecordingProgress())
        assert handle.ids.to_list()[:2] == ["doc-0000", "doc-0001"], "the key is the id where none is named"
        assert handle.state["similarity"] == similarity
        hits, stored = engine.search(QUERIES, 30, StepClock()), engine.stored_documents(4)
    assert DOCUMENTS.dense is not None
    assert QUERIES.dense is not None
    products = DOCUMENTS.dense[hits.rows[:30]].astype(np.float64) @ QUERIES.dense[0].astype(np.float64)
    expected = 2 * products - 2 if similarity == "l2" else products
    np.testing.assert_allclose(hits.scores[:30], expected, atol=2e-6)
    assert (stored.text_source, stored.texts[0]) == ("the field 'text'", "text 0")
    np.testing.assert_array_equal(stored.dense, DOCUMENTS.dense[stored.rows])


@pytest.mark.parametrize("name", ["harness_row", "harness_vector", "$meta"])
def test_metadata_called_as_what_the_collection_has_itself_is_refused(name: str, tmp_path: Path) -> None:
    named = replace(DOCUMENTS, metadata=pa.table({name: ["red"] * len(DOCUMENTS)}))
    with closing(MilvusEngine(DENSE)) as engine:
        engine.open(tmp_path, named.ids)
        with pytest.raises(RejectedInputError, match=re.escape(f"has its own field '{name}'")):
            engine.index(named, RecordingProgress(), StepClock())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"collection": "none"}, r"no collection 'none' in .*/theirs\.db"),
        ({"vector": "pk"}, r"has no dense vectors 'pk'"),
        ({"similarity": "l2"}, r"has the metric COSINE, which is not similarity=l2"),
        ({"id_key": "nowhere"}, r"30 of 30 documents have no text or whole number in the field 'nowhere'"),
        ({"collection": "a%b"}, rf"no collection 'a%b' in .*/theirs\.db\n  name an existing one .*: {COLLECTION}$"),
        ({"path": "nothing.db"}, r"is not a file of Milvus Lite"),
        ({"path": __file__}, r"test_milvus_lite\.py' is not a file of Milvus Lite"),
    ],
)
def test_an_external_index_that_does_not_fit_is_refused(
    tmp_path: Path, changed: Mapping[str, ParameterValue], message: str
) -> None:
    write_file(tmp_path / "theirs.db", DOCUMENTS)
    (tmp_path / "work").mkdir()
    named = {**DENSE, "external": True, "path": str(tmp_path / "theirs.db"), "collection": COLLECTION, **changed}
    with (
        closing(MilvusEngine(named)) as engine,
        pytest.raises((RejectedInputError, EngineUnavailableError), match=message),
    ):
        engine.attach(tmp_path / "work", RecordingProgress())


def test_a_damaged_file_is_named_as_the_user_does(tmp_path: Path) -> None:
    (tmp_path / "theirs.db").write_bytes(b"SQLite format 3\0" + b"damaged" * 1000)
    (tmp_path / "work").mkdir()
    named = {**DENSE, "external": True, "path": str(tmp_path / "theirs.db"), "collection": COLLECTION}
    with (
        closing(MilvusEngine(named)) as engine,
        pytest.raises(EngineUnavailableError, match=rf"'{tmp_path}/theirs\.db' ended with exit code"),
    ):
        engine.attach(tmp_path / "work", RecordingProgress())


def test_errors_mean_what_milvus_says() -> None:
    exception, fault_of = require_milvus().MilvusException, Retrier(0).fault_of
    assert fault_of(exception(100, "collection not found")).cause is Cause.MISSING
    assert fault_of(exception(8, "rate")).cause is Cause.LIMITED
    assert fault_of(exception(1, "service not ready")).cause is Cause.BUSY
    assert fault_of(exception(2000, "segcore error")).cause is Cause.FAILED
    assert fault_of(require_milvus("pymilvus.exceptions").ParamError(1, "of no such type")).cause is Cause.CLIENT


def test_the_packages_are_part_of_the_identity() -> None:
    assert MilvusEngine.identity(DENSE) == {
        "mode": "lite",
        "pymilvus": metadata.version("pymilvus"),
        "milvus-lite": metadata.version("milvus-lite"),
    }


def test_a_server_that_is_not_there_is_named() -> None:
    parameters = {**DENSE, "url": "http://127.0.0.1:9", "timeout_s": 1}
    with pytest.raises(EngineUnavailableError, match=r"Milvus at http://127\.0\.0\.1:9 cannot be reached"):
        MilvusEngine.identity(parameters)
    finding = examine_server(find_servers()["Milvus"], "http://127.0.0.1:9")
    assert finding.state is State.FAIL
    assert finding.detail.startswith("Milvus at http://127.0.0.1:9 cannot be reached while connecting")
