"""A hub of models on a loopback port: what its client asks for to fetch a folder, and a record of that."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubStub:
    """One model, ``name``, of the files in ``folder``; ``fetched`` are the names of those that were asked for.

    ``commit`` is what its main branch holds.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.commit = name, folder, COMMIT
        self.fetched: list[str] = []
        self.url = ""

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        files = {one.relative_to(self.folder).as_posix(): one for one in self.folder.rglob("*") if one.is_file()}
        if path.startswith(f"/api/models/{self.name}/tree/"):
            listed = [
                {"type": "file", "path": name, "size": one.stat().st_size, "oid": "0"} for name, one in files.items()
            ]
            return 200, {}, json.dumps(listed).encode()
        if path == f"/api/models/{self.name}" or path.startswith(f"/api/models/{self.name}/revision/"):
            siblings = [{"rfilename": name} for name in sorted(files)]
            return 200, {}, json.dumps({"id": self.name, "sha": self.commit, "siblings": siblings}).encode()
        prefix = f"/{self.name}/resolve/{self.commit}/"
        if path.startswith(prefix) and path.removeprefix(prefix) in files:
            content = files[path.removeprefix(prefix)].read_bytes()
            etag = f'"{hashlib.sha1(content, usedforsecurity=False).hexdigest()}"'
            return 200, {"ETag": etag, "X-Repo-Commit": self.commit}, content
        return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"


def use(stub: HubStub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hub's client ask this stub, which is serving, and keep what it fetches in ``cache``."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "ENDPOINT", stub.url)
    template = f"{stub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@contextmanager
def serving(stub: HubStub) -> Iterator[HubStub]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(body=True)

        def do_HEAD(self) -> None:
            self._send(body=False)

        def _send(self, *, body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            status, headers, content = stub.answer(path)
            if body and "/resolve/" in path:
                stub.fetched.append(path.rpartition(f"{stub.commit}/")[2])
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            """Nothing: pytest shows what the test says."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
