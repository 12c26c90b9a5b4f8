"""Chroma's own server, as ``chroma run`` starts it, on a free port of this machine."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from harness.plain_url import uses_tls

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
        beside = Path(sys.executable).with_name("chroma")
        command = [str(beside) if beside.exists() else str(shutil.which("chroma")), "run"]
        with (self.folder.parent / f"{self.folder.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--path", str(self.folder), "--host", "127.0.0.1", "--port", str(self.port)],
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
            return httpx.get(f"{self.url}/api/v2/heartbeat", timeout=5, verify=uses_tls(self.url)).is_success
        except httpx.TransportError:
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
