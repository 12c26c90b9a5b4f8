"""Weaviate against a stub of its protocol: the contract suite, and what a user reads when calls fail.

This proves requests and the reading of answers, never parity with a Weaviate.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import ClassVar

import pytest
from engine_faults import FaultsOfAServer
from faulty_http import dead, dead_after_work, raw, serve
from weaviate_stub import WeaviateStub

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.doctor.servers import examine_server, find_servers, left_collections, remove_collections
from harness.engines.weaviate import URL_VARIABLE, WeaviateEngine
from harness.errors import BackendError, EngineFailureError, EngineUnavailableError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import EngineContract, RecordingProgress, StepClock
from harness.testing.expected import random_unit_vectors
from harness.testing.inputs import DenseContract
from harness.testing.suite import Base

DEFAULTS = find_cards("backends")["weaviate"].defaults
IDS = Ids.of(f"d{row}" for row in range(30))
DOCUMENTS = Inputs(IDS, dense=random_unit_vectors(1, 30, 8))
QUERIES = Inputs(Ids.of(["q0", "q1"]), dense=random_unit_vectors(2, 2, 8))


class Weaviate(FaultsOfAServer, Base):
    stub = True
    engine = WeaviateEngine
    card = "weaviate"
    parameters: ClassVar[Mapping[str, ParameterValue]] = {"retry_s": 0.0, "keep": True}
    tolerance = 1e-6

    @pytest.fixture(autouse=True)
    def _named(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        with serve(WeaviateStub()) as stub:
            monkeypatch.setenv(URL_VARIABLE, stub.url)
            yield


@pytest.mark.contract
class TestWeaviate(Weaviate, EngineContract):
    """With its default settings."""


@pytest.mark.contract
class TestWeaviateL2(Weaviate, DenseContract):
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**Weaviate.parameters, "similarity": "l2", "index": "flat"}
    similarity = "l2"
    test_a_graph_is_searched = None  # a gap of the engine, whatever the similarity


@pytest.mark.contract
class TestWeaviateInnerProduct(Weaviate, DenseContract):
    parameters: ClassVar[Mapping[str, ParameterValue]] = {**Weaviate.parameters, "similarity": "dot"}
    similarity = "dot"
    test_a_graph_is_searched = None


@pytest.fixture
def stub() -> Iterator[WeaviateStub]:
    with serve(WeaviateStub()) as served:
        yield served


def searched(stub: WeaviateStub, folder: Path, **parameters: ParameterValue) -> WeaviateEngine:
    with closing(
        WeaviateEngine({**DEFAULTS, "url": stub.url, "retry_s": 2.0, "insert_batch": 10, **parameters})
    ) as engine:
        engine.open(folder, IDS)
        report = engine.index(DOCUMENTS, RecordingProgress(), StepClock())
        assert (report.indexed, len(report.missing_rows)) == (30 - len(stub.lose), len(stub.lose))
        assert len(engine.search(QUERIES, 5, StepClock()).rows) == 10
        return engine


def test_the_collection_is_made_as_the_parameters_say_and_removed(stub: WeaviateStub, tmp_path: Path) -> None:
    searched(stub, tmp_path, keep=True, ef=50)
    (body,) = stub.classes.values()
    assert (body["vectorizer"], body["vectorIndexType"]) == ("none", "hnsw")
    assert body["vectorIndexConfig"] == {"distance": "cosine", "efConstruction": 128, "maxConnections": 32, "ef": 50}
    (tmp_path / "other").mkdir()
    searched(stub, tmp_path / "other")
    assert list(stub.classes.values()) == [body], "what is not kept is removed"


@pytest.mark.parametrize("operation", ["insert", "graphql"])
def test_calls_that_may_pass_are_repeated(stub: WeaviateStub, tmp_path: Path, operation: str) -> None:
    stub.fail(operation, dead_after_work, after=1, times=1)
    assert searched(stub, tmp_path).repeated_calls == 1


def test_a_server_that_is_still_indexing_is_waited_for(stub: WeaviateStub, tmp_path: Path) -> None:
    stub.queue = 3
    searched(stub, tmp_path)
    assert stub.queue == 0


def test_a_document_that_is_lost_is_named(stub: WeaviateStub, tmp_path: Path) -> None:
    stub.lose = {"00000000-0000-0000-0000-000000000008"}
    with closing(WeaviateEngine({**DEFAULTS, "url": stub.url})) as engine:
        engine.open(tmp_path, IDS)
        assert engine.index(DOCUMENTS, RecordingProgress(), StepClock()).missing_rows.tolist() == [7]


def test_a_document_that_is_refused_is_named(stub: WeaviateStub, tmp_path: Path) -> None:
    stub.refuse = {"00000000-0000-0000-0000-00000000000c"}
    with pytest.raises(EngineFailureError, match="Weaviate refused document 'd11': no such vector"):
        searched(stub, tmp_path)


@pytest.mark.parametrize(
    ("operation", "act", "kind", "message"),
    [
        ("meta", dead, EngineUnavailableError, "asking for its version"),
        ("meta", raw(200, b'{"hello": 1}'), EngineUnavailableError, "is not Weaviate"),
        ("create", raw(401, b""), EngineUnavailableError, "WEAVIATE_API_KEY"),
        ("create", raw(422, b'{"error": [{"message": "bad name"}]}'), EngineFailureError, "422 .* Entity: bad name"),
        ("graphql", raw(200, b'{"errors": [{"message": "no memory"}]}'), EngineFailureError, "no memory"),
        ("graphql", raw(200, b"<html>"), EngineFailureError, "an answer that is not Weaviate's"),
    ],
)
def test_what_the_server_says_is_passed_on(
    stub: WeaviateStub, tmp_path: Path, operation: str, act: object, kind: type[BackendError], message: str
) -> None:
    stub.fail(operation, act)
    with pytest.raises(kind, match=message):
        searched(stub, tmp_path, retry_s=0.0)


def test_a_key_goes_into_the_header_and_nowhere_else(
    stub: WeaviateStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEAVIATE_API_KEY", "a-secret")
    searched(stub, tmp_path)
    assert {headers["authorization"] for headers in stub.headers} == {"Bearer a-secret"}
    assert "a-secret" not in "".join(path.read_text() for path in tmp_path.iterdir())


def test_the_doctor_finds_and_removes_what_was_left(stub: WeaviateStub, tmp_path: Path) -> None:
    searched(stub, tmp_path, keep=True)
    stub.classes["Article"] = {"class": "Article"}
    (left,) = left_collections(find_servers()["Weaviate"], stub.url)
    assert examine_server(find_servers()["Weaviate"], stub.url).detail.endswith(f"1 of them made by harness: {left}")
    remove_collections(find_servers()["Weaviate"], stub.url, [left])
    assert list(stub.classes) == ["Article"]
