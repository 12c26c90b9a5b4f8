"""An HTTP server for tests whose answers fail on request: the wrong status, late, cut off, or none at all.

A fault belongs to one operation (``upsert``, ``query`` …), begins after some calls of it, and lasts for some more or
for ever. What is answered otherwise, and which requests are which operation, is the subclass's to say.
"""

from __future__ import annotations

import contextlib
import http.server
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, TypeVar


class Reply(NamedTuple):
    """What is sent: ``cut`` bytes of the body are left out, and None for a status means that nothing is sent."""

    status: int | None
    body: bytes
    headers: Mapping[str, str] = {}
    cut: int = 0


Act = Callable[[Callable[[], Reply]], Reply]
"""What a fault does with a call, given how to carry it out."""


@dataclass
class Fault:
    """``act`` for ``times`` calls of ``operation``, or all later ones (None), once ``after`` calls were answered."""

    operation: str
    act: Act
    after: int = 0
    times: int | None = None


def raw(status: int, body: bytes, **headers: str) -> Act:
    """Any answer; ``_`` in the name of a header stands for a hyphen."""
    return lambda _: Reply(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


def slow(seconds: float) -> Act:
    """The right answer, too late."""

    def act(carry_out: Callable[[], Reply]) -> Reply:
        time.sleep(seconds)
        return carry_out()

    return act


def cut_off(carry_out: Callable[[], Reply]) -> Reply:
    """The first half of the right answer."""
    reply = carry_out()
    return reply._replace(cut=(len(reply.body) + 1) // 2)


def dead(_: Callable[[], Reply]) -> Reply:
    """The connection is reset, and nothing was done."""
    return Reply(None, b"")


def dead_after_work(carry_out: Callable[[], Reply]) -> Reply:
    """The work is done, and the connection is reset before the answer."""
    carry_out()
    return Reply(None, b"")


@dataclass
class FaultyServer:
    """``url`` is where it listens; ``calls`` counts the operations that were asked for."""

    routes: ClassVar[tuple[tuple[str, str, str], ...]]
    """Method, pattern of the whole path, operation; the pattern's first group names what is meant."""

    url: str = ""
    faults: list[Fault] = field(default_factory=list)
    calls: Counter[str] = field(default_factory=Counter)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)

    def fail(self, operation: str, act: Act, *, after: int = 0, times: int | None = None) -> None:
        """Add a fault."""
        self.faults.append(Fault(operation, act, after, times))

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The reply to one request, faults included."""
        operation, name = self._route(method, path.partition("?")[0])
        with self.lock:
            self.headers.append(headers)
            self.calls[operation] += 1
            number = self.calls[operation]

        def carry_out() -> Reply:
            return self.carry_out(operation, name, (method, path), headers, body)

        for fault in self.faults:
            last = None if fault.times is None else fault.after + fault.times
            if fault.operation == operation and number > fault.after and (last is None or number <= last):
                return fault.act(carry_out)
        return carry_out()

    def _route(self, method: str, path: str) -> tuple[str, str]:
        for wanted, pattern, operation in self.routes:
            match = re.fullmatch(pattern, path)
            if wanted == method and match:
                return operation, match[1] if match.groups() else ""
        raise AssertionError(f"the client asked for {method} {path}, which this server does not know")

    def carry_out(
        self, operation: str, name: str, request: tuple[str, str], headers: Mapping[str, str], body: bytes
    ) -> Reply:
        """The right answer; ``request`` is the method and the path."""
        raise NotImplementedError

    def closed(self) -> None:
        """Called when nothing is served any more."""


S = TypeVar("S", bound=FaultyServer)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body, in a packet of its own, would wait 40 ms
    state: FaultyServer

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        reply = self.state.answer(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        if reply.status is None:
            # a reset instead of an orderly end: closing without lingering
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(reply.status)
        for name, value in {**reply.headers, "content-length": str(len(reply.body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body[: len(reply.body) - reply.cut])
        self.close_connection = self.close_connection or bool(reply.cut)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or a connection that a fault closed, is no news."""


@contextlib.contextmanager
def serve(state: S) -> Iterator[S]:
    """Serve on a free port of this machine until the block ends."""
    handler = type("Handler", (_Handler,), {"state": state})
    with _Server(("127.0.0.1", 0), handler) as server:
        state.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
            state.closed()
