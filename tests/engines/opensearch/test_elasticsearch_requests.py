"""Faults and credentials that real servers do not show on request: what a stub of their protocol does with them.

Real servers are in ``test_opensearch_server.py`` and ``test_elasticsearch_server.py``.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faulty_http
import httpx
import pyarrow as pa
import pytest
from opensearch_stub import Stub, error, serve

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.http_server import transport_fault
from harness.engines.interface import IndexReport
from harness.engines.opensearch.conditions import MappedField, clauses_of, plain_value
from harness.engines.opensearch.engine import ElasticsearchEngine, OpenSearchEngine
from harness.engines.remote_server import Cause
from harness.errors import (
    BackendError,
    EngineFailureError,
    EngineTimeoutError,
    EngineUnavailableError,
)
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress, StepClock

CARDS = find_cards("backends")
IDS = Ids.of(["d1", "d2", "d3"])
DOCUMENTS = Inputs(IDS, terms=pa.chunked_array([["cat cat mat", "dog", "cat"]]))
QUERIES = Inputs(Ids.of(["q1", "q2"]), terms=pa.chunked_array([["cat mat mat", ""]]))


@contextmanager
def opened(stub: Stub, folder: Path, **parameters: ParameterValue) -> Iterator[ElasticsearchEngine]:
    engine = ElasticsearchEngine({**CARDS["elasticsearch"].defaults, "url": stub.url, "retry_s": 5.0, **parameters})
    folder.mkdir(exist_ok=True)
    try:
        engine.open(folder, IDS)
        yield engine
    finally:
        engine.close()


def index(engine: ElasticsearchEngine, documents: Inputs = DOCUMENTS) -> IndexReport:
    return engine.index(documents, RecordingProgress(), StepClock())


def index_and_search(engine: ElasticsearchEngine) -> None:
    index(engine)
    engine.search(QUERIES, 5, StepClock())


def index_of(stub: Stub) -> str:
    (name,) = stub.indexes
    return name


def test_documents_are_sent_in_batches_and_queries_without_terms_are_not(tmp_path: Path) -> None:
    with serve() as stub, opened(stub, tmp_path / "index", batch_size=2) as engine:
        index_and_search(engine)
        sent = [body for _, path, body in stub.requests if path.endswith("_bulk")]
        searches = [body for _, path, body in stub.requests if "_search?search_type" in path]
    assert [len(body.splitlines()) for body in sent] == [4, 2]
    assert sent[1] == '{"index":{"_id":"2"}}\n{"terms":"cat"}\n'
    assert [json.loads(body)["query"] for body in searches] == [{"match": {"terms": {"query": "cat mat mat"}}}]


def test_an_index_that_cannot_be_removed_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serve() as stub, caplog.at_level(logging.WARNING, "harness"):
        with opened(stub, tmp_path / "index") as engine:
            index(engine)
            stub.fail("delete", error(500, "no"))
        assert f"left behind: the index '{index_of(stub)}' could not be removed" in caplog.text


@pytest.mark.parametrize(
    ("variable", "value", "sent"),
    [
        ("ELASTICSEARCH_API_KEY", "c2VjcmV0OnRva2Vu", "ApiKey c2VjcmV0OnRva2Vu"),
        ("HARNESS_ELASTICSEARCH_URL", "http://someone:pass-word@127.0.0.1", "Basic c29tZW9uZTpwYXNzLXdvcmQ="),
    ],
)
def test_credentials_are_sent_and_never_shown(
    variable: str, value: str, sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve() as stub:
        named: dict[str, ParameterValue] = {}
        if value.startswith("http"):
            value, named = f"{value}:{stub.url.rpartition(':')[2]}", {"url": ""}
        monkeypatch.setenv(variable, value)
        stub.fail("root", error(401, f"what is {value} {sent}?"), after=1)
        with opened(stub, tmp_path / "index", **named):
            assert stub.headers[0]["authorization"] == sent
        with pytest.raises(EngineUnavailableError) as raised, opened(stub, tmp_path / "other", **named):
            pass
    said = f"{raised.value.problem} {raised.value.fix}"
    assert "refused the credentials" in said
    assert not any(secret in said for secret in ("pass-word", sent.partition(" ")[2]))


@pytest.mark.parametrize("status", [429, 503])
def test_documents_that_a_busy_server_rejects_are_sent_again(status: int, tmp_path: Path) -> None:
    with serve(rejected={"1": (status, 2)}) as stub, opened(stub, tmp_path / "index") as engine:
        assert index(engine).indexed == len(IDS)
        assert (stub.calls["bulk"], engine.repeated_calls) == (3, 2)


def test_a_document_that_is_acknowledged_and_not_stored_is_missed(tmp_path: Path) -> None:
    with serve(lost={"1"}) as stub, opened(stub, tmp_path / "index") as engine:
        report = index(engine)
    assert (report.indexed, report.missing_rows.tolist()) == (2, [1])


def test_a_scroll_is_deleted_when_one_of_its_pages_fails(tmp_path: Path) -> None:
    """Servers have room for some hundred, and keep each for minutes."""
    with serve(lost={"1"}) as stub, opened(stub, tmp_path / "index") as engine:
        stub.fail("scroll", error(500, "no such page"))
        stub.fail("scrolled", error(500, "not now"), after=1)
        with pytest.raises(EngineFailureError, match="no such page"):
            index(engine)
        assert stub.calls["scrolled"] == 1
        with pytest.raises(EngineFailureError, match="no such page"):
            list(engine._index.pages(0))
        assert stub.calls["scrolled"] == 2


def _later(stub: Stub) -> None:
    stub.fail("search", error(503, "wait"))


def _garbled(stub: Stub) -> None:
    stub.fail("count", faulty_http.raw(200, b"<html>"))


@pytest.mark.parametrize(
    ("fault", "kind", "says"),
    [
        (_later, EngineUnavailableError, "is not ready while searching for query 'q1'.*tries in"),
        (_garbled, EngineFailureError, "an answer that is not Elasticsearch's while counting the documents"),
    ],
)
def test_faults_say_what_was_done(
    fault: Callable[[Stub], None], kind: type[BackendError], says: str, tmp_path: Path
) -> None:
    with serve() as stub, opened(stub, tmp_path / "index", retry_s=0.5) as engine:
        fault(stub)
        with pytest.raises(kind, match=says):
            index_and_search(engine)


@pytest.mark.parametrize("act", [faulty_http.dead, faulty_http.dead_after_work, faulty_http.cut_off])
def test_calls_that_were_cut_off_are_made_again(act: Any, tmp_path: Path) -> None:
    with serve() as stub:
        for operation in ("create", "bulk", "search", "refresh"):
            stub.fail(operation, act, times=1)
        with opened(stub, tmp_path / "index") as engine:
            assert index(engine).indexed == len(IDS)
            assert engine.search(QUERIES, 5, StepClock()).rows.tolist() == [0, 2]
            assert engine.repeated_calls == 4


def test_a_slow_server_times_out(tmp_path: Path) -> None:
    with serve() as stub, opened(stub, tmp_path / "index", timeout_s=1, retry_s=0.0) as engine:
        stub.fail("bulk", faulty_http.slow(1.5))
        with pytest.raises(EngineTimeoutError, match="gave no answer in time while indexing"):
            index(engine)


@pytest.mark.parametrize(
    ("partial", "says"),
    [
        ({"_shards": {"total": 3, "failed": 1}}, "without 1 of its 3 shards"),
        ({"timed_out": True}, "without 0 of its 1 shards, in time"),
    ],
)
def test_an_answer_of_some_shards_only_is_no_answer(partial: Mapping[str, Any], says: str, tmp_path: Path) -> None:
    with serve(partial=partial) as stub, opened(stub, tmp_path / "index") as engine:
        index(engine)
        with pytest.raises(EngineFailureError, match=says):
            engine.search(QUERIES, 5, StepClock())


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ({"number": "6.8.0"}, "Elasticsearch 6.8.0 at .* is not known"),
        ({"number": "new"}, "is not Elasticsearch"),
    ],
)
def test_another_server_is_refused(version: Mapping[str, str], says: str, tmp_path: Path) -> None:
    with (
        serve(version=version) as stub,
        pytest.raises(EngineUnavailableError, match=says),
        opened(stub, tmp_path / "index"),
    ):
        pass


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (faulty_http.raw(200, b"<html>It works!</html>"), r"JSONDecodeError"),
        (faulty_http.raw(404, b"<h1>Not found</h1>"), r"404 Not Found: <h1>Not found</h1>"),
        (faulty_http.raw(302, b""), r"302 Found"),
        (faulty_http.raw(501, b""), None),
    ],
)
def test_another_service_is_not_called_elasticsearch(answer: Any, says: str | None, tmp_path: Path) -> None:
    with serve() as stub:
        stub.fail("root", answer)
        with pytest.raises(BackendError) as raised, opened(stub, tmp_path / "index"):
            pass
    if says is None:  # a fault of a server that may well be Elasticsearch
        assert "Elasticsearch at http" in raised.value.problem
    else:
        assert isinstance(raised.value, EngineUnavailableError)
        assert re.search(rf"the server at http\S+ is not Elasticsearch \({says}", raised.value.problem)
        assert raised.value.fix == "check that 'url' names Elasticsearch and that no proxy changes its answers"


def test_a_server_that_encrypts_or_does_not_is_named_with_the_other_scheme(tmp_path: Path) -> None:
    with serve() as stub:
        url = stub.url.replace("http:", "https:")
        with pytest.raises(EngineUnavailableError, match="makes no encrypted connection") as plain:
            ElasticsearchEngine({**CARDS["elasticsearch"].defaults, "url": url}).open(tmp_path, IDS)
        stub.fail("root", faulty_http.dead)
        with pytest.raises(EngineUnavailableError, match="broke the connection") as broken:
            ElasticsearchEngine({**CARDS["elasticsearch"].defaults, "url": stub.url}).open(tmp_path, IDS)
    assert "write http:// in 'url'" in str(plain.value.fix)
    assert "write https:// in 'url'" in str(broken.value.fix)


def test_a_certificate_that_is_not_trusted_is_named() -> None:
    error = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed certificate")
    assert transport_fault(error) == (Cause.UNTRUSTED, str(error), None)


def test_no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_ELASTICSEARCH_URL", raising=False)
    with pytest.raises(EngineUnavailableError, match="no Elasticsearch server is named"):
        ElasticsearchEngine(CARDS["elasticsearch"].defaults).open(tmp_path, IDS)
    with pytest.raises(EngineUnavailableError, match="cannot be reached"):
        ElasticsearchEngine({**CARDS["elasticsearch"].defaults, "url": "http://127.0.0.1:9"}).open(tmp_path, IDS)


@pytest.mark.parametrize(("k1_plus_1", "kind"), [(True, "LegacyBM25"), (False, "BM25")])
def test_opensearch_3_has_both_similarities(k1_plus_1: bool, kind: str, tmp_path: Path) -> None:
    parameters = {**CARDS["opensearch"].defaults, "k1_plus_1": k1_plus_1}
    with serve(version={"number": "3.1.0", "distribution": "opensearch"}) as stub:
        engine = OpenSearchEngine({**parameters, "url": stub.url})
        engine.open(tmp_path, IDS)
        try:
            index(engine)
            made = json.loads(stub.requests[0][2])
        finally:
            engine.close()
    assert made["settings"]["index"]["similarity"]["default"]["type"] == kind


@pytest.mark.parametrize(
    ("kind", "inside", "outside"),
    [
        ("byte", {"127": 127, "-128": -128, "3.0": 3}, ("128", "-129", "1.5")),
        ("short", {"32767": 32767}, ("32768", "-32769")),
        ("integer", {"2147483647": 2**31 - 1}, ("2147483648", "1e+20")),
        ("long", {"-9223372036854775808": -(2**63)}, ("9223372036854775808",)),
        ("unsigned_long", {"18446744073709551615": 2**64 - 1, "0": 0}, ("18446744073709551616", "-1")),
        ("half_float", {"0.1": 0.1, "2000": 2000}, ("70000", "0.10001", "1e+300")),
        ("float", {"0.1": 0.1, "1e+38": 1e38}, ("1e+39", "0.10000000149011612")),
        ("double", {"1e+300": 1e300}, ("words",)),
        ("scaled_float", {"0.3": 0.3, "-0.1": -0.1, "3": 3}, ("0.31", "1e+300", "-1e+308")),
    ],
)
def test_a_filter_asks_only_for_numbers_of_the_type_of_its_field(
    kind: str, inside: Mapping[str, float], outside: tuple[str, ...]
) -> None:
    """Servers reject other numbers, or round them to one that documents have."""
    field = {"type": kind, **({"scaling_factor": 10} if kind == "scaled_float" else {})}
    mapping = {"properties": {"number": field}}
    for text, number in inside.items():
        assert clauses_of({"number": text}, mapping) == [{"term": {"number": {"value": number}}}]
    for text in outside:
        assert clauses_of({"number": text}, mapping) == [{"match_none": {}}]


def test_scaled_numbers_are_compared_as_the_server_rounds_them() -> None:
    field = MappedField("price", {"type": "scaled_float", "scaling_factor": 100})
    returned = [3 * 0.1, 0.29, -0.125, 12]
    assert [plain_value(field, value) for value in returned] == [0.3, 0.29, -0.12, 12]
