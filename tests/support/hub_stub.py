"""A hub on a loopback port, of one model or of data sets: what its client asks for, and a record of that."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import pytest

_REVISION = re.compile(r"/api/datasets/(?P<name>[^/]+/[^/]+)(?:/revision/(?P<revision>.+))?")
_FILE = re.compile(r"/datasets/(?P<name>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)")
_LARGE = (".parquet", ".gz", ".jsonl")
"""Endings of files that the hub keeps apart from Git, and names by their SHA-256."""
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class HubStub:
    """One model, ``name``, of the files in ``folder``; ``fetched`` are the names of those that were asked for.

    ``commit`` is what its main branch holds.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder, self.commit = name, folder, COMMIT
        self.fetched: list[str] = []
        self.cuts: dict[str, list[int]] = {}
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


class DatasetHub:
    """Data sets in the folders ``root/ORG/NAME``; ``fetched`` are the names of files whose content was asked for.

    ``refused`` maps a repository to the status and the error code of every answer about it. ``cuts`` maps a file's name
    to the number of bytes after which the connection is cut, one for each answer to come. ``forged`` maps a name to
    other bytes that are sent than those of which size and checksum are told.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.commit = root, ""
        self.refused: dict[str, tuple[int, str]] = {}
        self.cuts: dict[str, list[int]] = {}
        self.forged: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.ranges: list[str] = []
        self.url = ""

    def commit_of(self, name: str) -> str:
        """Return what the main branch of a repository is: it changes with every byte."""
        files = _files(self.root / name)
        content = b"".join(path.encode() + b"\0" + one.read_bytes() for path, one in sorted(files.items()))
        return hashlib.sha1(content, usedforsecurity=False).hexdigest()

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        asked = _REVISION.fullmatch(path) or _FILE.fullmatch(path)
        if asked is None or not (self.root / asked["name"]).is_dir():
            return 404, {"X-Error-Code": "RepoNotFound"}, b"{}"
        name = asked["name"]
        if name in self.refused:
            status, code = self.refused[name]
            return status, {"X-Error-Code": code}, b"{}"
        commit, files = self.commit_of(name), _files(self.root / name)
        if asked["revision"] not in (None, "main", commit):
            return 404, {"X-Error-Code": "RevisionNotFound"}, b"{}"
        if asked.re is _REVISION:
            siblings = [{"rfilename": one} for one in sorted(files)]
            return 200, {}, json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode()
        if asked["file"] not in files:
            return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, b"{}"
        content = files[asked["file"]].read_bytes()
        if asked["file"].endswith(_LARGE):
            etag = hashlib.sha256(content).hexdigest()
        else:
            etag = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
        headers = {"ETag": f'"{etag}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        return 200, headers, self.forged.get(asked["file"], content)


def _files(folder: Path) -> dict[str, Path]:
    return {one.relative_to(folder).as_posix(): one for one in folder.rglob("*") if one.is_file()}


def use(stub: HubStub | DatasetHub, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the hub's client ask this stub, which is serving, and keep what it fetches in ``cache``."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(constants, "ENDPOINT", stub.url)
    template = f"{stub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


Hub = TypeVar("Hub", HubStub, DatasetHub)


@contextmanager
def serving(stub: Hub) -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(body=True)

        def do_HEAD(self) -> None:
            self._send(body=False)

        def _send(self, *, body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            status, headers, content = stub.answer(path)
            name = path.partition("/resolve/")[2].partition("/")[2]
            if body and name:
                stub.fetched.append(name)
            asked = self.headers.get("Range", "")
            if body and asked and status == 200 and isinstance(stub, DatasetHub):
                stub.ranges.append(asked)
                first = int(asked.removeprefix("bytes=").partition("-")[0])
                headers["Content-Range"] = f"bytes {first}-{len(content) - 1}/{len(content)}"
                status, content = 206, content[first:]
            cut = stub.cuts.get(name) if body else None
            sent = content[: cut.pop(0)] if cut else content
            self.send_response(status)
            for header, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(header, value)
            self.end_headers()
            if body:
                self.wfile.write(sent)
                self.close_connection = True

        def log_message(self, *arguments: object) -> None:
            """Nothing: pytest shows what the test says."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    stub.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
