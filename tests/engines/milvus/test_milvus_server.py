"""Milvus as a server: an engine's own collection, made, kept or removed; calls made again; one of somebody else's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from installed import skip_module_without

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.doctor import State
from harness.doctor.servers import examine_server, find_servers
from harness.engines.milvus.connection import open_client
from harness.engines.milvus.engine import MilvusEngine
from harness.errors import EngineUnavailableError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import random_unit_vectors

if TYPE_CHECKING:
    from milvus_server import MilvusServer

skip_module_without("pymilvus")

DEFAULTS = find_cards("backends")["milvus"].defaults
DOCUMENTS = Inputs(Ids.of(f"d{row}" for row in range(30)), dense=random_unit_vectors(1, 30, 8))
QUERIES = Inputs(Ids.of(["q0", "q1"]), dense=random_unit_vectors(2, 2, 8))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    from milvus_server import serving

    with serving(tmp_path_factory.mktemp("milvus")) as running:
        yield running


def collections(server: MilvusServer) -> list[str]:
    with closing(open_client(server.url, 20)) as client:
        return list(client.list_collections())


def best(engine: MilvusEngine) -> list[int]:
    return engine.search(QUERIES, 30, StepClock()).rows.tolist()


def test_a_collection_is_removed_when_its_engine_closes(server: MilvusServer, tmp_path: Path) -> None:
    with closing(MilvusEngine({**DEFAULTS, "url": server.url})) as engine:
        info = engine.open(tmp_path, DOCUMENTS.ids)
        report = engine.index(DOCUMENTS, RecordingProgress(), StepClock())
        assert collections(server) == [report.state["collection"]]
        found, storage = best(engine), engine.storage()
    assert (info.version, info.mode, storage.index_bytes) == (server.version, "server", None)
    assert DOCUMENTS.dense is not None
    assert QUERIES.dense is not None
    assert found == np.argsort(-(QUERIES.dense @ DOCUMENTS.dense.T), axis=1).ravel().tolist()
    assert collections(server) == []


def test_a_kept_collection_is_opened_again_and_searched_as_an_external_one(
    server: MilvusServer, tmp_path: Path
) -> None:
    own: dict[str, ParameterValue] = {**DEFAULTS, "url": server.url, "keep": True, "index": "IVF_FLAT"}
    with closing(MilvusEngine(own)) as engine:
        engine.open(tmp_path, DOCUMENTS.ids)
        name = engine.index(DOCUMENTS, RecordingProgress(), StepClock()).state["collection"]
        found = best(engine)
    with closing(MilvusEngine(own)) as engine:
        engine.open(tmp_path, DOCUMENTS.ids)
        assert best(engine) == found
    external = {**DEFAULTS, "url": server.url, "external": True, "similarity": "", "collection": str(name)}
    with closing(open_client(server.url, 20)) as client, closing(MilvusEngine(external)) as engine:
        handle = engine.attach(tmp_path / "none", RecordingProgress())
        assert (handle.info.mode, handle.state["similarity"]) == ("server, an external collection", "cosine")
        assert engine.searching(5) == {"nprobe": DEFAULTS["nprobe"]}, "lists of the user's are searched as was said"
        assert handle.ids.to_list() == DOCUMENTS.ids.to_list()
        assert best(engine) == found
        assert handle.changed is not None
        assert handle.changed() is None
        client.delete(str(name), ids=[3])
        assert handle.changed() == f"the collection '{name}' held 30 entities and now holds 29"
        client.release_collection(str(name))
        with closing(MilvusEngine(external)) as late, pytest.raises(EngineUnavailableError, match="has not loaded"):
            late.attach(tmp_path / "none", RecordingProgress())
        client.drop_collection(str(name))
    with closing(MilvusEngine(own)) as engine, pytest.raises(EngineUnavailableError, match=f"no collection '{name}'"):
        engine.open(tmp_path, DOCUMENTS.ids)


def test_calls_that_a_busy_server_refuses_are_made_again(server: MilvusServer, tmp_path: Path) -> None:
    """Documents whose first call failed are upserted, as they may be there."""
    with closing(MilvusEngine({**DEFAULTS, "url": server.url})) as engine:
        engine.open(tmp_path, DOCUMENTS.ids)
        server.busy.update(("CreateCollection", "Insert", "Search"))
        assert engine.index(DOCUMENTS, RecordingProgress(), StepClock()).indexed == len(DOCUMENTS)
        assert server.calls["Upsert"] == 1
        assert engine.search(QUERIES, 3, StepClock()).repeated_calls == 1
        assert engine.repeated_calls == 3
    assert collections(server) == []


def test_the_doctor_finds_it(server: MilvusServer) -> None:
    assert examine_server(find_servers()["Milvus"], server.url).state is State.OK
