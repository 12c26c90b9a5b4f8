"""A server over gRPC: real channels and messages, the same results and the same kinds of failure as over REST."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from faulty_http import Act, dead, slow
from installed import skip_module_without
from qdrant_stub import Stub, error, serve

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.interface import EngineInfo, IndexReport, SearchResult
from harness.engines.qdrant.engine import QdrantEngine
from harness.errors import EngineFailureError, EngineTimeoutError, EngineUnavailableError, HarnessError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import to_vectors

skip_module_without("qdrant_client")

pytestmark = pytest.mark.integration
DEFAULTS = find_cards("backends")["qdrant"].defaults
IDS = Ids.of(f"d{row}" for row in range(60))
DOCUMENTS = Inputs(IDS, sparse=to_vectors([{row % 7: 1.0, 7 + row % 5: 2.0} for row in range(60)], 12))
QUERIES = Inputs(Ids.of(f"q{row}" for row in range(4)), sparse=to_vectors([{row: 1.0, 8: 1.0} for row in range(4)], 12))


class Ports(NamedTuple):
    stub: Stub
    grpc: int


@pytest.fixture
def ports() -> Iterator[Ports]:
    from qdrant_grpc_stub import serve_grpc  # which imports the client

    with serve() as stub, serve_grpc(stub) as port:
        yield Ports(stub, port)


def run(ports: Ports, folder: Path, **changed: ParameterValue) -> tuple[EngineInfo, IndexReport, SearchResult]:
    folder.mkdir(exist_ok=True)
    given = {"url": ports.stub.url, "grpc_port": ports.grpc, "retry_s": 0.5, "batch_size": 10, "upload_threads": 1}
    engine = QdrantEngine({**DEFAULTS, **given, **changed})
    try:
        info = engine.open(folder, IDS)
        report = engine.index(DOCUMENTS, RecordingProgress(), StepClock())
        return info, report, engine.search(QUERIES, 5, StepClock())
    finally:
        engine.close()


def test_grpc_is_preferred_and_gives_the_results_of_rest(ports: Ports, tmp_path: Path) -> None:
    info, report, found = run(ports, tmp_path / "grpc", shards=2)
    assert (info.mode, report.state["transport"], report.indexed) == ("server, grpc", "grpc", 60)
    assert not any("user-agent" in sent and "httpx" in sent["user-agent"] for sent in ports.stub.headers)
    over_rest = run(ports, tmp_path / "rest", shards=2, transport="rest")
    assert over_rest[0].mode == "server, rest"
    assert np.array_equal(found.scores, over_rest[2].scores)
    assert ports.stub.collections == {}


@pytest.mark.parametrize("search_batch", [1, 3])
def test_filters_are_those_of_rest(ports: Ports, tmp_path: Path, search_batch: int) -> None:
    kinds = pa.table({"a.b": pa.array([("x", "y", None)[row % 3] for row in range(60)], pa.string())})
    found = []
    for transport in ("grpc", "rest"):
        given = {"url": ports.stub.url, "grpc_port": ports.grpc, "transport": transport, "search_batch": search_batch}
        (tmp_path / transport).mkdir()
        with closing(QdrantEngine({**DEFAULTS, **given})) as engine:
            engine.open(tmp_path / transport, IDS)
            engine.index(replace(DOCUMENTS, metadata=kinds), RecordingProgress(), StepClock())
            engine.restrict({"a.b": "y"})
            found.append(engine.search(QUERIES, 60, StepClock()))
    assert len(found[0].rows) > 0
    assert set((found[0].rows % 3).tolist()) == {1}
    assert np.array_equal(found[0].scores, found[1].scores)


def test_several_queries_in_one_call(ports: Ports, tmp_path: Path) -> None:
    alone, together = run(ports, tmp_path / "one")[2], run(ports, tmp_path / "many", search_batch=3)[2]
    assert np.array_equal(alone.scores, together.scores)
    assert ports.stub.calls["query_batch"] == 2


def test_without_grpc_rest_is_taken(ports: Ports, tmp_path: Path) -> None:
    info, _, _ = run(ports, tmp_path, grpc_port=9)
    assert info.mode == "server, rest"


def test_grpc_that_was_asked_for_and_is_not_there(ports: Ports, tmp_path: Path) -> None:
    with pytest.raises(
        EngineUnavailableError, match=r"cannot be reached while asking for its version over gRPC, port 9"
    ):
        run(ports, tmp_path, grpc_port=9, transport="grpc")


def test_lost_points_are_named(ports: Ports, tmp_path: Path) -> None:
    ports.stub.losing = frozenset({3, 41})
    assert run(ports, tmp_path)[1].missing_rows.tolist() == [3, 41]


def test_a_key_is_sent(ports: Ports, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ports.stub.api_key = "sesame"
    with pytest.raises(EngineUnavailableError, match=r"refused the credentials .*gRPC UNAUTHENTICATED: Must provide"):
        run(ports, tmp_path / "without")
    monkeypatch.setenv("QDRANT_API_KEY", "sesame")
    assert run(ports, tmp_path / "with")[1].indexed == 60


@pytest.mark.parametrize(
    ("operation", "act", "kind", "message"),
    [
        (
            "upsert",
            error(400, "Wrong input"),
            EngineFailureError,
            "refused .*ts 20 to 29.*INVALID_ARGUMENT: Wrong",
        ),
        (
            "upsert",
            error(429, "Slowly"),
            EngineUnavailableError,
            "limits the rate .*RESOURCE_EXHAUSTED: Slowly, . ",
        ),
        (
            "query",
            error(503, "Starting"),
            EngineUnavailableError,
            "cannot be reached .*'q2' .*UNAVAILABLE: Starting, ",
        ),
        ("query", error(404, "No collection"), EngineFailureError, "does not have .*NOT_FOUND: No collection"),
        ("query", error(500, "Panicked"), EngineFailureError, "reported an internal error .*INTERNAL: Panicked"),
        ("query", dead, EngineUnavailableError, "cannot be reached .*Socket closed, . tries"),
        ("query", slow(2.0), EngineTimeoutError, "gave no answer in time .*DEADLINE_EXCEEDED"),
    ],
)
def test_failures(
    operation: str, act: Act, kind: type[HarnessError], message: str, ports: Ports, tmp_path: Path
) -> None:
    ports.stub.fail(operation, act, after=2)
    with pytest.raises(kind, match=message):
        run(ports, tmp_path, timeout_s=1)
    assert ports.stub.collections == {}


def test_a_pause_that_the_server_asks_for_is_kept_to(ports: Ports, tmp_path: Path) -> None:
    ports.stub.fail("upsert", error(429, "Slowly", retry_after="1"), times=1)
    _, report, _ = run(ports, tmp_path, retry_s=5.0)
    assert (report.indexed, report.state["repeated_calls"]) == (60, 1)


@pytest.mark.parametrize("transport", ["grpc", "rest"])
def test_a_failing_replica_of_a_cluster_is_waited_for(transport: str, ports: Ports, tmp_path: Path) -> None:
    words = "Service internal error: Some replica of shard 2 failed to apply operation with error: timeout"
    for operation in ("upsert", "query"):
        ports.stub.fail(operation, error(500, words), times=1)
    _, report, found = run(ports, tmp_path, transport=transport, retry_s=5.0)
    assert (report.indexed, report.state["repeated_calls"], found.repeated_calls) == (60, 1, 1)
