"""Everything that can go wrong between the harness and a Chroma server, with the message that a user reads.

The server is Chroma's own; a proxy before it spoils its answers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from chroma_proxy import ChromaProxy, error
from fault_cases import BRIEF, Case, failing, said, setting
from faulty_http import Act, cut_off, dead, dead_after_work, raw, serve, slow
from installed import skip_module_without

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.chroma.engine import ChromaEngine
from harness.engines.interface import IndexReport, SearchResult
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
from harness.testing.expected import random_unit_vectors

skip_module_without("chromadb")

pytestmark = pytest.mark.integration
DEFAULTS = find_cards("backends")["chroma"].defaults
QUICK: dict[str, ParameterValue] = {"retry_s": 0.5, "upsert_batch": 10}
IDS = Ids.of(f"d{row}" for row in range(60))
DOCUMENTS = Inputs(IDS, dense=random_unit_vectors(1, 60, 8))
QUERIES = Inputs(Ids.of(f"q{row}" for row in range(4)), dense=random_unit_vectors(2, 4, 8))
BEST = np.argsort(-QUERIES.dense @ DOCUMENTS.dense.T, axis=1)[:, :5]  # an ef of 60 misses none of 60 vectors


@pytest.fixture
def proxy(chroma_url: str) -> Iterator[ChromaProxy]:
    with serve(ChromaProxy(behind=chroma_url)) as serving:
        yield serving


def run(proxy: ChromaProxy, folder: Path, **changed: ParameterValue) -> tuple[IndexReport, SearchResult]:
    """Index and search, from opening to closing."""
    folder.mkdir(exist_ok=True)
    engine = ChromaEngine({**DEFAULTS, **QUICK, "url": proxy.url, **changed})
    try:
        engine.open(folder, IDS)
        return engine.index(DOCUMENTS, RecordingProgress(), StepClock()), engine.search(QUERIES, 5, StepClock())
    finally:
        engine.close()


LIMITED = error(429, "RateLimitError", "Rate limit exceeded")
CASES = [
    Case("unreachable", setting(url="http://127.0.0.1:9"), EngineUnavailableError),
    Case("401", setting(api_key="sesame"), EngineUnavailableError),
    Case("403", failing("create", error(403, "AuthError", "Forbidden")), EngineUnavailableError),
    Case("400", failing("create", error(400, "InvalidArgumentError", "no such space")), EngineFailureError),
    Case("404", failing("query", error(404, "NotFoundError", "Collection [x] is gone"), after=2), EngineFailureError),
    Case("no database", setting(), EngineFailureError, {"database": "of_nobody"}),
    Case("429", failing("upsert", LIMITED, after=3), EngineUnavailableError),
    Case(
        "429 and a pause",
        failing("upsert", error(429, "RateLimitError", "Rate limit exceeded", retry_after="30")),
        EngineUnavailableError,
    ),
    Case("429 of a proxy", failing("upsert", raw(429, b"<h1>Slow down</h1>")), EngineUnavailableError),
    Case("503", failing("query", error(503, "ChromaError", "not ready")), EngineUnavailableError),
    Case("503 of a proxy", failing("limits", raw(503, b"no backend")), EngineUnavailableError),
    Case("500", failing("upsert", error(500, "InternalError", "disk is full")), EngineFailureError),
    Case("slow upload", failing("upsert", slow(1.5), after=2), EngineTimeoutError, BRIEF),
    Case("slow search", failing("query", slow(1.5), after=2), EngineTimeoutError, BRIEF),
    Case("slow greeting", failing("version", slow(1.5)), EngineTimeoutError, BRIEF),
    Case("slow opening", failing("identity", slow(1.5)), EngineTimeoutError, BRIEF),
    Case("cut off", failing("query", cut_off), EngineUnavailableError),
    Case("malformed", failing("query", raw(200, b'{"ids": ')), EngineFailureError),
    Case("other shape", failing("query", raw(200, b'{"hits": []}')), EngineFailureError),
    Case("no JSON", failing("version", raw(200, b"<html>It works!</html>")), EngineUnavailableError),
    Case("other service", failing("version", raw(200, b'{"name": "Elasticsearch"}')), EngineUnavailableError),
    Case("other major version", failing("version", raw(200, b'"0.6.3"')), EngineUnavailableError),
    Case("dies in upload", failing("upsert", dead, after=3), EngineUnavailableError),
    Case("dies in search", failing("query", dead, after=2), EngineUnavailableError),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_what_a_user_reads(case: Case, proxy: ChromaProxy, tmp_path: Path, golden: Callable[[str], None]) -> None:
    case.arrange(proxy)
    with pytest.raises(case.kind) as caught:
        run(proxy, tmp_path, **case.changed)
    assert type(caught.value) is case.kind
    golden(said(f"{case.kind.__name__}: {caught.value}\n", proxy.url))
    assert proxy.left == set(), "the collection was left behind"


PASSING: dict[str, tuple[str, Act, dict[str, ParameterValue]]] = {
    "429 with a pause": ("upsert", error(429, "RateLimitError", "slowly", retry_after="1"), {"retry_s": 5.0}),
    "503": ("upsert", error(503, "ChromaError", "not ready"), {}),
    "dies before it stores": ("upsert", dead, {}),
    "dies after it stored": ("upsert", dead_after_work, {}),
    "dies after it created": ("create", dead_after_work, {}),
    "dies in search": ("query", dead, {}),
    "cut off": ("query", cut_off, {}),
    "slow": ("query", slow(1.5), {"timeout_s": 1, "retry_s": 5.0}),
    "busy while it counts": ("count", error(502, "ChromaError", "busy"), {}),
}


@pytest.mark.parametrize("name", PASSING)
def test_what_passes_is_tried_again_and_changes_no_answer(name: str, proxy: ChromaProxy, tmp_path: Path) -> None:
    operation, act, changed = PASSING[name]
    proxy.fail(operation, act, after=2 if operation in ("upsert", "query") else 0, times=1)
    report, found = run(proxy, tmp_path, ef_search=60, ef_construction=60, **changed)
    assert (report.indexed, report.missing_rows.tolist()) == (60, [])
    assert found.rows.tolist() == BEST.ravel().tolist()
    assert (report.state["repeated_calls"], found.repeated_calls) == ((0, 1) if operation == "query" else (1, 0))
    assert proxy.left == set()


def test_records_that_are_lost_are_named(proxy: ChromaProxy, tmp_path: Path) -> None:
    proxy.losing = frozenset({"3", "41"})
    report, _ = run(proxy, tmp_path)
    assert (report.indexed, report.missing_rows.tolist()) == (58, [3, 41])


def test_a_wrong_key_is_not_repeated_in_the_message(
    proxy: ChromaProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.api_key = "right"
    monkeypatch.setenv("MY_KEY", "wrong-and-secret")
    with pytest.raises(EngineUnavailableError) as caught:
        run(proxy, tmp_path, api_key_env="MY_KEY")
    assert said(str(caught.value), proxy.url) == (
        "Chroma at URL refused the credentials while asking for its version (401 Unauthorized: Forbidden: ***)\n"
        "  the request (API key, not encrypted) was not accepted: check MY_KEY, and its rights"
    )


def test_the_right_key_opens_and_is_stored_nowhere(
    proxy: ChromaProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy.api_key = "sesame-of-mine"
    monkeypatch.setenv("CHROMA_API_KEY", "sesame-of-mine")
    report, _ = run(proxy, tmp_path)
    assert report.state["authentication"] == "API key, not encrypted"
    assert "sesame-of-mine" not in str(report.state)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert written
    assert not any(b"sesame-of-mine" in path.read_bytes() for path in written)


def test_a_key_can_be_a_bearer_token(proxy: ChromaProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHROMA_API_KEY", "sesame-of-mine")
    run(proxy, tmp_path, api_key_header="authorization")
    assert {headers.get("authorization") for headers in proxy.headers} == {"Bearer sesame-of-mine"}


def test_a_user_name_and_a_bearer_token_do_not_go_together(
    proxy: ChromaProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHROMA_API_KEY", "sesame")
    monkeypatch.setenv("HARNESS_CHROMA_URL", proxy.url.replace("http://", "http://me:secret@"))
    with pytest.raises(RejectedInputError, match="both need the header 'authorization'"):
        run(proxy, tmp_path, url="", mode="server", api_key_header="authorization")


def test_a_collection_that_is_kept_is_named_and_can_be_opened_by_others(proxy: ChromaProxy, tmp_path: Path) -> None:
    report, found = run(proxy, tmp_path, keep=True)
    assert proxy.left == {report.state["collection"]}
    assert re.fullmatch(r"harness-[\w-]+-[0-9a-f]{8}", str(report.state["collection"]))
    engine = ChromaEngine({**DEFAULTS, **QUICK, "url": proxy.url})
    engine.open(tmp_path, IDS)
    again = engine.search(QUERIES, 5, StepClock())
    engine.close()
    assert np.array_equal(found.scores, again.scores)
    assert len(proxy.left) == 1, "whoever only opened a collection must not remove it"
    with pytest.raises(EngineUnavailableError, match="ef_search=100, not 50"):
        ChromaEngine({**DEFAULTS, **QUICK, "url": proxy.url, "ef_search": 50}).open(tmp_path, IDS)


def test_a_collection_that_was_removed_is_named_on_opening(proxy: ChromaProxy, tmp_path: Path) -> None:
    run(proxy, tmp_path)
    with pytest.raises(EngineUnavailableError, match="there is no collection 'harness-"):
        ChromaEngine({**DEFAULTS, **QUICK, "url": proxy.url}).open(tmp_path, IDS)


def test_a_collection_that_lost_records_is_not_opened(proxy: ChromaProxy, tmp_path: Path) -> None:
    proxy.losing = frozenset({"0"})
    run(proxy, tmp_path, keep=True)
    with pytest.raises(LostDocumentsError, match="59 of 60"):
        ChromaEngine({**DEFAULTS, **QUICK, "url": proxy.url}).open(tmp_path, IDS)


@pytest.mark.parametrize("act", [error(403, "AuthError", "no"), slow(3.0)], ids=["refused", "slow"])
def test_a_collection_that_cannot_be_removed_hides_nothing(
    act: Act, proxy: ChromaProxy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.fail("remove", act)
    report, _ = run(proxy, tmp_path)
    assert report.indexed == 60
    assert f"left behind: the collection '{report.state['collection']}' could not be removed" in caplog.text
