"""Services with a /rerank on a loopback port, in all dialects: strict about requests, and with faults on request."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chat_stub import Fault

KEY = "rk-of-the-tests"
REQUIRED: Mapping[str, set[str]] = {
    "/v2/rerank": {"model", "query", "documents"},
    "/jina/v1/rerank": {"model", "query", "documents"},
    "/voyage/v1/rerank": {"model", "query", "documents"},
    "/tei/rerank": {"query", "texts"},
    "/vllm/rerank": {"query", "documents"},
}
"""Path of each dialect, and the fields that its requests must have."""
OPTIONAL: Mapping[str, set[str]] = {
    "/v2/rerank": {"top_n", "max_tokens_per_doc"},
    "/jina/v1/rerank": {"top_n", "return_documents"},
    "/voyage/v1/rerank": {"top_k", "truncation", "return_documents"},
    "/tei/rerank": {"raw_scores", "truncate", "return_text"},
    "/vllm/rerank": {"model", "top_n"},
}


@dataclass
class RerankServer:
    """``faults`` are used up, one a call; ``bodies`` are of all calls, with their ``paths`` and ``keys``.

    More than ``most`` documents in a call are refused with the status ``refusal``, as TEI does. ``answer`` replaces the
    results of every call. ``busy`` is the highest number of calls at the same time, each of which takes ``wait_s``.
    """

    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    most: int = 1000
    refusal: int = 422
    answer: Any = None
    wait_s: float = 0.0
    busy: int = 0
    running: int = 0


def score(query: str, document: str) -> float:
    """Return the share of a document's words that the query has."""
    words = re.findall(r"\w+", document.lower())
    asked = set(re.findall(r"\w+", query.lower()))
    return sum(word in asked for word in words) / max(len(words), 1)


def answer(path: str, body: Mapping[str, Any]) -> Any:
    """Return the answer of the dialect of a path, the best document first."""
    documents = body.get("texts", body.get("documents"))
    scores = sorted(((score(body["query"], text), index) for index, text in enumerate(documents)), reverse=True)
    if path == "/tei/rerank":
        return [{"index": index, "score": value} for value, index in scores]
    results = [{"index": index, "relevance_score": value} for value, index in scores]
    if path == "/v2/rerank":
        return {"id": "1", "results": results[: body["top_n"]], "meta": {"billed_units": {"search_units": 1}}}
    if path == "/voyage/v1/rerank":
        data = results[: body["top_k"]]
        return {"object": "list", "data": data, "model": body["model"], "usage": {"total_tokens": 7}}
    usage = {"total_tokens": 7}
    return {"model": body.get("model", "m"), "results": results[: body["top_n"]], "usage": usage}


@contextlib.contextmanager
def rerank_server(*faults: Fault, **settings: Any) -> Iterator[RerankServer]:
    """A server that lives as long as the block."""
    state, lock = RerankServer(faults=list(faults), **settings), threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                state.bodies.append(body)
                state.paths.append(self.path)
                state.keys.append(self.headers.get("Authorization"))
                fault = state.faults.pop(0) if state.faults else Fault()
                state.running += 1
                state.busy = max(state.busy, state.running)
            time.sleep(state.wait_s + fault.wait_s)
            if fault.status == 200 and fault.body is None:
                fault = self._answer(body)
            with lock:
                state.running -= 1
            self._send(fault, fault.body or b"")

        def _answer(self, body: Mapping[str, Any]) -> Fault:
            required = REQUIRED.get(self.path)
            if required is None:
                return Fault(404, body=b'{"message": "no such path"}')
            if not required <= {*body} <= required | OPTIONAL[self.path]:
                fields = ", ".join(sorted({*body} ^ required))
                return Fault(422, body=json.dumps({"detail": f"fields: {fields}"}).encode())
            documents = body.get("texts", body.get("documents"))
            if len(documents) > state.most:
                message = f"batch size {len(documents)} > maximum allowed batch size {state.most}"
                return Fault(state.refusal, body=json.dumps({"error": message, "error_type": "Validation"}).encode())
            content = state.answer if state.answer is not None else answer(self.path, body)
            return Fault(body=json.dumps(content).encode())

        def _send(self, fault: Fault, body: bytes) -> None:
            with contextlib.suppress(ConnectionError):  # a client that did not wait
                self.send_response(fault.status)
                for name, value in {**fault.headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests keep standard error for what they test."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
