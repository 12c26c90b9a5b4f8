"""An endpoint of embeddings on a loopback port: it answers as OpenAI's does, and badly when it is told to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WORDS = ("cat", "garden", "light", "station", "dog", "mat", "water")


class EndpointStub:
    """``faults`` are given instead of the next answers: a status, ``(status, headers)`` or
    ``(status, headers, body)``, ``"malformed"`` …"""

    def __init__(self) -> None:
        self.faults: list[object] = []
        self.bodies: list[dict[str, object]] = []
        self.keys: list[str | None] = []
        self.url = ""

    @property
    def texts(self) -> list[str]:
        """All texts that were asked for, in order."""
        return [text for body in self.bodies for text in body["input"]]  # type: ignore[attr-defined]

    def answer(self, body: dict[str, object]) -> tuple[int, dict[str, str], bytes]:
        self.bodies.append(body)
        fault = self.faults.pop(0) if self.faults else None
        texts: list[str] = body["input"]  # type: ignore[assignment]
        data = [
            {"index": row, "embedding": [text.split().count(word) + 0.5 for word in WORDS]}
            for row, text in enumerate(texts)
        ]
        if fault == "malformed":
            return 200, {}, b'{"data": [{"index": 0'
        if fault == "too few":
            data = data[1:]
        if fault == "not a number":
            data[0]["embedding"] = [float("nan")] * len(WORDS)
        if fault == "slow":
            time.sleep(1.5)
        if isinstance(fault, tuple):
            return fault[0], fault[1], fault[2] if len(fault) > 2 else b"busy"
        if isinstance(fault, int):
            return fault, {}, b"no such thing"
        content = {"data": data[::-1], "model": body["model"], "usage": {"prompt_tokens": sum(map(len, texts))}}
        return 200, {}, json.dumps(content).encode()


@contextmanager
def serving_embeddings() -> Iterator[EndpointStub]:
    stub = EndpointStub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            stub.keys.append(self.headers.get("Authorization"))
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, headers, content = stub.answer(body) if self.path == "/v1/embeddings" else (404, {}, b"")
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(content)
            except BrokenPipeError:
                return  # the client did not wait for it

        def log_message(self, *arguments: object) -> None:
            """Nothing: pytest shows what the test says."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
