"""A chat endpoint for tests: OpenAI's wire format on a loopback port, grades by shared words, and faults on request."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

KEY = "sk-of-the-tests"


@dataclass
class Fault:
    """One answer that is none: a status, headers, a body (None: the right one), and a wait before it."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content: str | None = None
    wait_s: float = 0.0


@dataclass
class ChatServer:
    """``faults`` are used up, one a call; ``asked`` are the bodies of all calls, ``keys`` what authorised them."""

    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


def grade(prompt: str) -> int:
    """How many words query and passage share, up to 3."""
    query, _, passage = prompt.partition("\n\nPassage: ")
    words = set(re.findall(r"\w+", query.removeprefix("Query: ").lower()))
    return min(3, len(words & set(re.findall(r"\w+", passage.lower()))))


@contextlib.contextmanager
def chat_server(*faults: Fault, content_of: Callable[[str], str] | None = None) -> Iterator[ChatServer]:
    """A server that lives as long as the block; ``content_of`` makes its answer to the last message of a call.

    Its path is its own: ports are used again, and the cache keeps answers by URL.
    """
    state, path = ChatServer(faults=list(faults)), f"/{secrets.token_hex(4)}/v1"

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append(asked)
            state.keys.append(self.headers.get("Authorization"))
            fault = state.faults.pop(0) if state.faults else Fault()
            time.sleep(fault.wait_s)
            content = fault.content
            if content is None:
                prompt = asked["messages"][-1]["content"]
                content = json.dumps({"grade": grade(prompt)}) if content_of is None else content_of(prompt)
            message = {"role": "assistant", "content": content}
            body = json.dumps({"choices": [{"index": 0, "message": message}], "usage": {"total_tokens": 9}}).encode()
            if self.path != f"{path}/chat/completions":
                fault = Fault(404, body=b"no such path")
            self._send(fault, body if fault.body is None else fault.body)

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
    state.url = f"http://127.0.0.1:{server.server_address[1]}{path}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
