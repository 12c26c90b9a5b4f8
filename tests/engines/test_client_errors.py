"""Errors of a client's own code are never worded as answers of the server, nor odd answers as the client's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from faulty_http import raw, serve
from weaviate_stub import WeaviateStub

from harness.engines import weaviate
from harness.engines.http_server import HttpServer, as_json
from harness.engines.opensearch.connection import Retrier
from harness.engines.remote_server import Cause, FaultError
from harness.errors import EngineFailureError


@pytest.fixture
def stub() -> Iterator[WeaviateStub]:
    with serve(WeaviateStub()) as served:
        yield served


def cause_of(call: Callable[[], Any]) -> Cause:
    with pytest.raises(FaultError) as raised:
        Retrier(0.0).call(call)
    return raised.value.fault.cause


def test_a_request_that_cannot_be_made_is_the_clients(stub: WeaviateStub) -> None:
    """Also after an answer to an earlier call, in the same thread."""
    with closing(HttpServer(stub.url, {}, 2.0)) as server:
        Retrier(0.0).call(lambda: server.call("GET", "/v1/meta"))
        assert cause_of(lambda: server.call("POST", "/v1/schema", {"class": object()})) is Cause.CLIENT
        server._client.headers["x-odd"] = "two\nlines"
        assert cause_of(lambda: server.call("GET", "/v1/meta")) is Cause.CLIENT
    with closing(HttpServer("gopher://localhost", {}, 2.0)) as unknown:
        assert cause_of(lambda: unknown.call("GET", "/")) is Cause.CLIENT


@pytest.mark.parametrize("read", [lambda answer: answer["hits"], lambda answer: answer + 1, lambda answer: int("one")])
def test_an_answer_of_another_form_is_the_servers(stub: WeaviateStub, read: Callable[[Any], Any]) -> None:
    with closing(HttpServer(stub.url, {}, 2.0)) as server:
        assert cause_of(lambda: read(server.call("GET", "/v1/meta"))) is Cause.UNREADABLE


def test_an_answer_that_is_no_json_is_the_servers(stub: WeaviateStub) -> None:
    stub.fail("meta", raw(200, b"<html>"))
    with closing(HttpServer(stub.url, {}, 2.0)) as server:
        assert cause_of(lambda: server.call("GET", "/v1/meta")) is Cause.UNREADABLE


def test_the_message_blames_neither_server_nor_proxy(stub: WeaviateStub) -> None:
    parameters = {"url": stub.url, "api_key_env": "WEAVIATE_API_KEY", "timeout_s": 2.0, "retry_s": 0.0}
    with closing(weaviate.Server(parameters)) as server, pytest.raises(EngineFailureError) as raised:
        server.ask("storing documents 0 to 2", "POST", "/v1/batch/objects", {"objects": {1, 2}})
    assert raised.value.problem == (
        f"Weaviate at {stub.url} sent no answer, because its client failed while storing documents 0 to 2 "
        "(TypeError: Type is not JSON serializable: set)"
    )
    assert "proxy" not in str(raised.value)


@pytest.mark.parametrize(
    "vectors",
    [
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.repeat(np.arange(6, dtype=np.float32), 2)[::2].reshape(2, 3),
    ],
)
def test_arrays_of_any_layout_are_sent(vectors: Any) -> None:
    class Mapped(np.ndarray):
        """As ``numpy.memmap`` is one."""

    for sent in (vectors, vectors.view(Mapped), list(vectors.view(Mapped))):
        assert as_json({"vectors": sent}) == b'{"vectors":[[0.0,1.0,2.0],[3.0,4.0,5.0]]}'
