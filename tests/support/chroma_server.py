"""Chroma's own server, as ``chroma run`` starts it but without importing the client, on a free port of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path

_PATIENCE_S = 60.0
_POLL_S = 0.05


def free_port() -> int:
    """A port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ChromaServer:
    """A process that serves ``folder``; it can be killed, and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and wait until it answers."""
        arguments = ["chroma", "run", "--path", str(self.folder), "--host", "127.0.0.1", "--port", str(self.port)]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", f"import chromadb_rust_bindings; chromadb_rust_bindings.cli({arguments})"],
                stdout=log,
                stderr=log,
                env={**os.environ, "ANONYMIZED_TELEMETRY": "FALSE"},
            )
        deadline = time.monotonic() + _PATIENCE_S
        while not self._answers():
            assert self.process.poll() is None, f"chroma run ended with {self.process.returncode}"
            assert time.monotonic() < deadline, f"chroma run did not answer within {_PATIENCE_S:g} s"
            time.sleep(_POLL_S)

    def _answers(self) -> bool:
        try:
            with contextlib.closing(HTTPConnection("127.0.0.1", self.port, timeout=5)) as connection:
                connection.request("GET", "/api/v2/heartbeat")
                return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it if it runs, whatever state it is in."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[ChromaServer]:
    """A server on ``folder`` until the block ends."""
    server = ChromaServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()
