"""Everything that can go wrong between the harness and a Qdrant server, one test each, with the message a user sees."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import fault_cases
import numpy as np
import pytest
from fault_cases import BRIEF, Case, failing, setting
from faulty_http import cut_off, dead, dead_after_work, raw, slow
from installed import skip_module_without
from qdrant_stub import Stub, error, serve

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.interface import IndexReport, SearchResult
from harness.engines.qdrant.engine import QdrantEngine
from harness.errors import (
    EngineFailureError,
    EngineTimeoutError,
    EngineUnavailableError,
    LostDocumentsError,
    RejectedInputError,
)
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock
from harness.testing.expected import to_vectors

skip_module_without("qdrant_client")

pytestmark = pytest.mark.integration
DEFAULTS = find_cards("backends")["qdrant"].defaults
QUICK: dict[str, ParameterValue] = {"transport": "rest", "retry_s": 0.5, "batch_size": 10, "upload_threads": 1}
IDS = Ids.of(f"d{row}" for row in range(60))
DOCUMENTS = Inputs(IDS, sparse=to_vectors([{row % 7: 1.0, 7 + row % 5: 2.0} for row in range(60)], 12))
QUERIES = Inputs(Ids.of(f"q{row}" for row in range(4)), sparse=to_vectors([{row: 1.0, 8: 1.0} for row in range(4)], 12))


@pytest.fixture
def stub() -> Iterator[Stub]:
    with serve() as serving:
        yield serving


def run(stub: Stub, folder: Path, **changed: ParameterValue) -> tuple[IndexReport, SearchResult]:
    """Index and search, from opening to closing."""
    folder.mkdir(exist_ok=True)
    engine = QdrantEngine({**DEFAULTS, **QUICK, "url": stub.url, **changed})
    try:
        engine.open(folder, IDS)
        return engine.index(DOCUMENTS, RecordingProgress(), StepClock()), engine.search(QUERIES, 5, StepClock())
    finally:
        engine.close()


def said(message: str, stub: Stub) -> str:
    """A message without what differs from run to run, and without the client's version."""
    client = version("qdrant-client")
    message = fault_cases.said(message, stub.url).replace(f"qdrant-client {client}", "qdrant-client VERSION")
    return message.replace(f"Qdrant {client.rpartition('.')[0]},", "Qdrant MINOR,")


GONE = error(404, "Not found: Collection `x` doesn't exist!")
LIMIT = "Rate limiting exceeded"
DATE = "Sat, 21 Nov 2026 10:00:00 GMT"
CASES = [
    Case("unreachable", setting(url="http://127.0.0.1:9"), EngineUnavailableError),
    Case("401", setting(api_key="sesame"), EngineUnavailableError),
    Case("403", failing("create", error(403, "Global manage access is required")), EngineUnavailableError),
    Case("400", failing("create", error(400, "Wrong input: shard_number is too large")), EngineFailureError),
    Case("404", failing("query", GONE, after=2), EngineFailureError),
    Case("429", failing("upsert", error(429, LIMIT), after=3), EngineUnavailableError),
    Case("429 and a pause", failing("upsert", error(429, LIMIT, retry_after="30")), EngineUnavailableError),
    Case("429 and a date", failing("upsert", error(429, LIMIT, retry_after=DATE)), EngineUnavailableError),
    Case("503", failing("query", error(503, "Service is starting")), EngineUnavailableError),
    Case("500", failing("upsert", error(500, "No space left on device")), EngineFailureError),
    Case("slow upload", failing("upsert", slow(1.5), after=2), EngineTimeoutError, BRIEF),
    Case("slow search", failing("query", slow(1.5), after=2), EngineTimeoutError, BRIEF),
    Case("cut off", failing("query", cut_off), EngineUnavailableError),
    Case("malformed", failing("query", raw(200, b'{"result": ')), EngineFailureError),
    Case("other shape", failing("query", raw(200, b'{"hits": []}')), EngineFailureError),
    Case("no JSON", failing("root", raw(200, b"<html>It works!</html>")), EngineUnavailableError),
    Case("other service", setting(title="Elasticsearch"), EngineUnavailableError),
    Case("other major version", setting(version="2.0.0"), EngineUnavailableError),
    Case("too old", setting(version="1.9.7"), EngineUnavailableError),
    Case("no version", setting(version="latest"), EngineUnavailableError),
    Case("dies in upload", failing("upsert", dead, after=3), EngineUnavailableError),
    Case("dies in search", failing("query", dead, after=2), EngineUnavailableError),
    Case("dies in a batch", failing("query_batch", dead, after=1), EngineUnavailableError, {"search_batch": 2}),
    Case("never idle", setting(status="yellow"), EngineTimeoutError, {"optimize_timeout_s": 0.05}),
    Case("red", setting(status="red"), EngineFailureError),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_what_a_user_reads(case: Case, stub: Stub, tmp_path: Path, golden: Callable[[str], None]) -> None:
    case.arrange(stub)
    with pytest.raises(case.kind) as caught:
        run(stub, tmp_path, **case.changed)
    assert type(caught.value) is case.kind
    golden(said(f"{case.kind.__name__}: {caught.value}\n", stub))
    assert stub.collections == {}, "the collection was left behind"


def test_several_threads_report_the_first_failure_and_stop(stub: Stub, tmp_path: Path) -> None:
    stub.fail("upsert", error(400, "Wrong input"), after=1)
    with pytest.raises(EngineFailureError, match="refused the request while storing documents"):
        run(stub, tmp_path, upload_threads=3, batch_size=1)
    assert stub.calls["upsert"] < 60
    assert stub.collections == {}


PASSING = {
    "429 with a pause": ("upsert", error(429, LIMIT, retry_after="1"), {"retry_s": 5.0}),
    "503": ("upsert", error(503, "Service is starting"), {}),
    "dies before it stores": ("upsert", dead, {}),
    "dies after it stored": ("upsert", dead_after_work, {}),
    "dies after it created": ("create", dead_after_work, {}),
    "dies in search": ("query", dead, {}),
    "cut off": ("query", cut_off, {}),
    "slow": ("query", slow(1.5), {"timeout_s": 1, "retry_s": 5.0}),
    "busy while it is asked how it is": ("info", error(503, "busy"), {}),
    "busy while it counts": ("count", error(502, "busy"), {}),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_tried_again_and_changes_no_answer(name: str, stub: Stub, tmp_path: Path) -> None:
    operation, act, changed = PASSING[name]
    _, expected = run(stub, tmp_path / "undisturbed")
    stub.fail(operation, act, after=stub.calls[operation] + (2 if operation in ("upsert", "query") else 0), times=1)
    report, found = run(stub, tmp_path / "disturbed", **changed)
    assert (report.indexed, report.missing_rows.tolist()) == (60, [])
    assert np.array_equal(found.scores, expected.scores)
    assert (report.state["repeated_calls"], found.repeated_calls) == ((0, 1) if operation == "query" else (1, 0))
    assert stub.collections == {}


def test_points_that_are_lost_are_named(stub: Stub, tmp_path: Path) -> None:
    stub.losing = frozenset({3, 41})
    report, _ = run(stub, tmp_path)
    assert (report.indexed, report.missing_rows.tolist()) == (58, [3, 41])


def test_a_grey_collection_is_woken(stub: Stub, tmp_path: Path) -> None:
    stub.status = "grey"
    run(stub, tmp_path)
    assert stub.calls["update"] == 1


def test_a_wrong_key_is_not_repeated_in_the_message(
    stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stub.api_key = "right"
    monkeypatch.setenv("MY_KEY", "wrong-and-secret")
    with pytest.raises(EngineUnavailableError) as caught:
        run(stub, tmp_path, api_key_env="MY_KEY")
    assert said(str(caught.value), stub) == (
        "Qdrant at URL refused the credentials while asking for its version (401 Unauthorized: Invalid API key ***)\n"
        "  the request (API key, not encrypted) was not accepted: check MY_KEY, and its rights"
    )


def test_the_right_key_opens(stub: Stub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub.api_key = "right"
    monkeypatch.setenv("QDRANT_API_KEY", "right")
    report, _ = run(stub, tmp_path)
    assert report.state["authentication"] == "API key, not encrypted"


def test_a_distant_minor_version_is_a_remark(stub: Stub, tmp_path: Path) -> None:
    stub.version = "1.12.4"
    engine = QdrantEngine({**DEFAULTS, **QUICK, "url": stub.url})
    info = engine.open(tmp_path, IDS)
    engine.close()
    assert info.note.endswith("is made for servers at most one minor version away, this is 1.12.4")


def test_a_collection_that_is_kept_is_named_and_can_be_opened_by_others(stub: Stub, tmp_path: Path) -> None:
    report, found = run(stub, tmp_path, keep=True)
    assert list(stub.collections) == [report.state["collection"]]
    assert re.fullmatch(r"harness-[\w-]+-[0-9a-f]{8}", str(report.state["collection"]))
    engine = QdrantEngine({**DEFAULTS, **QUICK, "url": stub.url})
    engine.open(tmp_path, IDS)
    again = engine.search(QUERIES, 5, StepClock())
    engine.close()
    assert np.array_equal(found.scores, again.scores)
    assert len(stub.collections) == 1, "whoever only opened a collection must not remove it"


def test_a_second_client_searches_while_the_first_holds_the_collection(stub: Stub, tmp_path: Path) -> None:
    parameters = {**DEFAULTS, **QUICK, "url": stub.url}
    first, second = QdrantEngine(parameters), QdrantEngine(parameters)
    first.open(tmp_path, IDS)
    first.index(DOCUMENTS, RecordingProgress(), StepClock())
    second.open(tmp_path, IDS)
    assert len(second.search(QUERIES, 5, StepClock()).rows) == 20
    second.close()
    assert len(first.search(QUERIES, 5, StepClock()).rows) == 20
    first.close()
    assert stub.collections == {}


def test_a_collection_that_was_removed_is_named_on_opening(stub: Stub, tmp_path: Path) -> None:
    run(stub, tmp_path)
    with pytest.raises(EngineUnavailableError, match=r"harness-.* does not exist any more"):
        QdrantEngine({**DEFAULTS, **QUICK, "url": stub.url}).open(tmp_path, IDS)


def test_a_collection_that_lost_points_is_not_opened(stub: Stub, tmp_path: Path) -> None:
    stub.losing = frozenset({0})
    run(stub, tmp_path, keep=True)
    with pytest.raises(LostDocumentsError, match="59 of 60"):
        QdrantEngine({**DEFAULTS, **QUICK, "url": stub.url}).open(tmp_path, IDS)


def test_a_collection_that_cannot_be_removed_hides_nothing(
    stub: Stub, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stub.fail("delete", error(403, "no"))
    report, _ = run(stub, tmp_path)
    assert report.indexed == 60
    assert "could not be removed: 403 Forbidden: no" in caplog.text


def test_bytes_are_the_servers_estimate_or_unknown(stub: Stub, tmp_path: Path) -> None:
    (tmp_path / "told").mkdir()
    for number, expected in enumerate([8 * 60 + 1, None]):
        folder = tmp_path / str(number)
        folder.mkdir()
        engine = QdrantEngine({**DEFAULTS, **QUICK, "url": stub.url})
        engine.open(folder, IDS)
        engine.index(DOCUMENTS, RecordingProgress(), StepClock())
        assert engine.storage() == (expected, 0)
        engine.close()
        stub.fail("telemetry", error(403, "no"))


def test_the_embedded_mode_takes_no_url(stub: Stub, tmp_path: Path) -> None:
    with pytest.raises(RejectedInputError, match="url cannot be set with mode=edge"):
        run(stub, tmp_path, mode="edge")
