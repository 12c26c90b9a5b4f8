"""GitHub's API for tests: comments of pull requests, and artifacts of runs, on a loopback port."""

from __future__ import annotations

import contextlib
import http.server
import io
import json
import re
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "us/shop"
BOT = "github-actions[bot]"
_FORBIDDEN = {"message": "Resource not accessible by integration"}


@dataclass
class GithubServer:
    """``comments`` by pull request, ``artifacts`` as the API describes them, with their zip under ``zip``.

    ``writable`` is whether the token may write; ``token`` the only one that is taken. ``failures`` are statuses of the
    next answers, in place of them; ``calls`` are the methods and paths of all calls. ``garbled``, if it is set, is the
    answer to every call.
    """

    url: str = ""
    token: str = "token of the run"
    writable: bool = True
    garbled: bytes | None = None
    comments: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    artifacts: list[dict[str, Any]] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def comment(self, number: int, body: str, login: str = BOT) -> None:
        comments = self.comments.setdefault(number, [])
        user = {"login": login, "type": "Bot" if login.endswith("[bot]") else "User"}
        comments.append({"id": 1000 * number + len(comments), "body": body, "user": user})

    def upload(self, name: str, files: dict[str, bytes], branch: str, commit: str, **changes: Any) -> None:
        """An artifact that a run on a branch of the repository uploaded; ``fork`` is the run's other repository."""
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as members:
            for file, content in files.items():
                members.writestr(file, content)
        number = len(self.artifacts) + 1
        run = {
            "head_branch": branch,
            "head_sha": commit,
            "repository_id": 1,
            "head_repository_id": changes.pop("fork", 1),
        }
        entry = {"id": number, "name": name, "expired": False, "created_at": f"2026-01-01T00:00:{number:02}Z"}
        self.artifacts.append({**entry, "workflow_run": run, "zip": archive.getvalue(), **changes})


def _answer(state: GithubServer, method: str, url: str, body: Any) -> tuple[int, Any]:
    parts, query = urlsplit(url), parse_qs(urlsplit(url).query)
    path = parts.path.removeprefix(f"/repos/{REPOSITORY}")
    page, size = (int(query.get(name, [default])[0]) for name, default in (("page", "1"), ("per_page", "30")))
    window = slice((page - 1) * size, page * size)
    if match := re.fullmatch(r"/issues/(\d+)/comments", path):
        if method == "GET":
            return 200, state.comments.get(int(match[1]), [])[window]
        if not state.writable:
            return 403, _FORBIDDEN
        state.comment(int(match[1]), body["body"])
        return 201, {}
    if match := re.fullmatch(r"/issues/comments/(\d+)", path):
        if not state.writable:
            return 403, _FORBIDDEN
        (comment,) = (one for of in state.comments.values() for one in of if one["id"] == int(match[1]))
        comment["body"] = body["body"]
        return 200, {}
    if path == "/actions/artifacts":
        same = [one for one in reversed(state.artifacts) if one["name"] == query["name"][0]]
        return 200, {"artifacts": [{k: v for k, v in one.items() if k != "zip"} for one in same][window]}
    if match := re.fullmatch(r"/actions/artifacts/(\d+)/zip", path):
        return 200, next(one["zip"] for one in state.artifacts if one["id"] == int(match[1]))
    return (403 if path == "/user" else 404), _FORBIDDEN


@contextlib.contextmanager
def github_server() -> Iterator[GithubServer]:
    """A server that lives as long as the block."""
    state = GithubServer()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            content = json.loads(self.rfile.read(length)) if length else None
            state.calls.append(f"{self.command} {urlsplit(self.path).path}")
            if self.headers.get("Authorization") != f"Bearer {state.token}":
                status, answer = 401, {"message": f"Bad credentials {self.headers.get('Authorization')}"}
            elif state.failures:
                status, answer = state.failures.pop(0), {"message": "fault"}
            else:
                status, answer = _answer(state, self.command, self.path, content)
            if state.garbled is not None:
                status, answer = 200, state.garbled
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = _serve

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
