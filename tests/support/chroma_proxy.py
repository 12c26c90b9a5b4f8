"""A proxy before Chroma's own server: its real answers, and faults on request (see :mod:`faulty_http`)."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from faulty_http import Act, FaultyServer, Reply, raw

_DATABASE = r"/api/v2/tenants/[^/]+/databases/[^/]+"


@dataclass
class ChromaProxy(FaultyServer):
    """``behind`` is the address of the real server; records of the ids ``losing`` never reach it.

    With ``api_key`` a request needs that in the header ``x-chroma-token``. ``made`` and ``removed`` are names of
    collections.
    """

    routes = (
        ("GET", "/api/v2/version", "version"),
        ("GET", "/api/v2/auth/identity", "identity"),
        ("GET", "/api/v2/pre-flight-checks", "limits"),
        ("GET", r"/api/v2/tenants/[^/]+", "tenant"),
        ("GET", _DATABASE, "database"),
        ("GET", f"{_DATABASE}/collections", "list"),
        ("POST", f"{_DATABASE}/collections", "create"),
        ("GET", f"{_DATABASE}/collections/([^/]+)", "find"),
        ("DELETE", f"{_DATABASE}/collections/([^/]+)", "remove"),
        ("POST", f"{_DATABASE}/collections/([^/]+)/upsert", "upsert"),
        ("POST", f"{_DATABASE}/collections/([^/]+)/get", "get"),
        ("POST", f"{_DATABASE}/collections/([^/]+)/query", "query"),
        ("GET", f"{_DATABASE}/collections/([^/]+)/count", "count"),
    )

    behind: str = ""
    api_key: str | None = None
    losing: frozenset[str] = frozenset()
    made: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    def carry_out(
        self, operation: str, name: str, request: tuple[str, str], headers: Mapping[str, str], body: bytes
    ) -> Reply:
        """What the server behind answers."""
        if self.api_key is not None and headers.get("x-chroma-token") != self.api_key:
            return _refused(headers)
        if operation == "upsert" and self.losing:
            body = _without(self.losing, body)
        host, _, port = self.behind.removeprefix("http://").partition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            connection.request(*request, body or None, {"content-type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status < 400 and operation == "create":
            self.made.append(json.loads(body)["name"])
        if answer.status < 400 and operation == "remove":
            self.removed.append(name)
        return Reply(answer.status, content, {"content-type": "application/json"})

    @property
    def left(self) -> set[str]:
        """Names of collections that were made and not removed."""
        return set(self.made) - set(self.removed)


def error(status: int, name: str, message: str, **headers: str) -> Act:
    """An error answer in Chroma's form."""
    return raw(status, orjson.dumps({"error": name, "message": message}), **headers)


def _refused(headers: Mapping[str, str]) -> Reply:
    """A refusal that repeats what it was sent, as some proxies do."""
    sent = headers.get("x-chroma-token", "nothing")
    return Reply(401, orjson.dumps({"error": "AuthError", "message": f"Forbidden: {sent}"}))


def _without(losing: frozenset[str], body: bytes) -> bytes:
    given: dict[str, Any] = json.loads(body)
    kept = [place for place, one in enumerate(given["ids"]) if one not in losing]
    return orjson.dumps(
        {
            name: [values[place] for place in kept] if isinstance(values, list) else values
            for name, values in given.items()
        }
    )
