"""A server for tests with the REST calls of Elasticsearch and OpenSearch that the harness makes, and faults on request.

Documents lie in shards by their number; a query's score is the number of its words that a document has. It proves
requests, never scores. Faults are those of :mod:`faulty_http`.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from faulty_http import Act, FaultyServer, Reply, raw
from faulty_http import serve as serve_faulty

_ROUTES: tuple[tuple[str, str, str], ...] = (
    ("GET", r"/", "root"),
    ("GET", r"/_nodes/stats/jvm", "nodes"),
    ("GET", r"/_cat/indices", "list"),
    ("POST", r"/_search/scroll", "scroll"),
    ("DELETE", r"/_search/scroll", "scrolled"),
    ("GET", r"/_cat/segments/([^/]+)", "segments"),
    ("PUT", r"/([^/_][^/]*)", "create"),
    ("DELETE", r"/([^/_][^/]*)", "delete"),
    ("POST", r"/([^/]+)/_bulk", "bulk"),
    ("POST", r"/([^/]+)/_refresh", "refresh"),
    ("POST", r"/([^/]+)/_forcemerge", "merge"),
    ("POST", r"/([^/]+)/_flush", "flush"),
    ("POST", r"/([^/]+)/_search", "search"),
    ("GET", r"/([^/]+)/_count", "count"),
    ("GET", r"/([^/]+)/_settings", "settings"),
    ("GET", r"/([^/]+)/_mapping", "mapping"),
    ("GET", r"/([^/]+)/_stats/.*", "stats"),
)


def error(status: int, reason: str, **headers: str) -> Act:
    """An error answer in the form of these servers."""
    body = {"error": {"root_cause": [{"type": "x", "reason": reason}], "reason": reason}, "status": status}
    return raw(status, json.dumps(body).encode(), **headers)


@dataclass
class Stub(FaultyServer):
    """The server's state; ``requests`` are all calls but those that look for the version or statistics."""

    routes = _ROUTES

    version: Mapping[str, str] = field(default_factory=lambda: {"number": "8.19.2", "build_flavor": "default"})
    indexes: dict[str, dict[str, Any]] = field(default_factory=dict)
    documents: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    requests: list[tuple[str, str, str]] = field(default_factory=list)
    rejected: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Ids of documents that a bulk request refuses: the status, and how often."""
    lost: set[str] = field(default_factory=set)
    """Ids of documents that are acknowledged and not stored."""
    partial: Mapping[str, Any] = field(default_factory=dict)
    """Entries of a search's answer, in place of the right ones."""

    def carry_out(
        self, operation: str, name: str, request: tuple[str, str], headers: Mapping[str, str], body: bytes
    ) -> Reply:
        with self.lock:
            if operation not in ("root", "nodes", "stats", "segments", "list"):
                self.requests.append((*request, body.decode()))
            options = {key: values[0] for key, values in parse_qs(urlsplit(request[1]).query).items()}
            if operation == "create" and name in self.indexes:
                return error(400, f"index [{name}/AbCd] already exists")(lambda: Reply(None, b""))
            content = json.loads(body) if body and operation != "bulk" else None
            answer = getattr(self, f"_{operation}")(name, options, body if operation == "bulk" else content)
            return Reply(200, json.dumps(answer).encode())

    def _root(self, *_: Any) -> Any:
        return {"name": "stub", "version": self.version, "tagline": "You Know, for Search"}

    def _nodes(self, *_: Any) -> Any:
        return {"nodes": {"a": {"jvm": {"mem": {"heap_used_in_bytes": 1, "heap_max_in_bytes": 2}}}}}

    def _list(self, *_: Any) -> Any:
        return [{"index": name} for name in self.indexes]

    def _create(self, name: str, _: Any, content: Any) -> Any:
        self.indexes[name], self.documents[name] = content, {}
        return {"acknowledged": True}

    def _delete(self, name: str, *_: Any) -> Any:
        del self.indexes[name], self.documents[name]
        return {"acknowledged": True}

    def _bulk(self, name: str, _: Any, body: bytes) -> Any:
        lines = [json.loads(line) for line in body.splitlines()]
        items = []
        for action, document in zip(lines[::2], lines[1::2], strict=True):
            key = action["index"]["_id"]
            status, times = self.rejected.get(key, (201, 0))
            if times:
                self.rejected[key] = status, times - 1
                items.append({"index": {"_id": key, "status": status, "error": {"type": "t", "reason": "not now"}}})
                continue
            if key not in self.lost:
                self.documents[name][key] = document
            items.append({"index": {"_id": key, "status": 201}})
        return {"errors": any("error" in item["index"] for item in items), "items": items}

    def _refresh(self, *_: Any) -> Any:
        return {"_shards": {"failed": 0}}

    _merge = _flush = _scrolled = _refresh

    def _count(self, name: str, *_: Any) -> Any:
        return {"count": len(self.documents[name])}

    def _shards(self, name: str) -> int:
        return int(self.indexes[name]["settings"]["index"]["number_of_shards"])

    def _settings(self, name: str, *_: Any) -> Any:
        return {name: {"settings": {"index.number_of_shards": str(self._shards(name))}}}

    def _mapping(self, name: str, *_: Any) -> Any:
        return {name: {"mappings": self.indexes[name]["mappings"]}}

    def _stats(self, name: str, *_: Any) -> Any:
        merges = {"merges": {"current": 0}, "store": {"size_in_bytes": 10}, "translog": {"size_in_bytes": 1}}
        docs = {"docs": {"count": len(self.documents[name])}}
        return {"_all": {"total": merges, "primaries": docs}, "indices": {name: {"shards": {}}}}

    def _segments(self, name: str, *_: Any) -> Any:
        shards = self._shards(name)
        counts = [sum(int(key) % shards == shard for key in self.documents[name]) for shard in range(shards)]
        common = {"prirep": "p", "docs.deleted": "0", "version": "9.12.0"}
        return [{**common, "shard": str(shard), "docs.count": str(count)} for shard, count in enumerate(counts)]

    def _search(self, name: str, options: Mapping[str, str], content: Any) -> Any:
        documents, shards = self.documents[name], self._shards(name)
        if "scroll" in options:
            shard = int(options["preference"].removeprefix("_shards:"))
            hits = [{"_id": key, "_score": None} for key in documents if int(key) % shards == shard]
            return {"_scroll_id": "next", "hits": {"hits": hits}}
        query = content["query"]
        ((of_field, asked),) = query["match"].items()
        scores = {
            key: sum(word in document[of_field].split() for word in asked["query"].split())
            for key, document in documents.items()
        }
        best = sorted((key for key in scores if scores[key]), key=lambda key: (-scores[key], int(key) % shards))
        hits = [{"_id": key, "_score": float(scores[key])} for key in best[: content["size"]]]
        right = {"timed_out": False, "_shards": {"total": shards, "failed": 0}, "hits": {"hits": hits}}
        return {**right, **self.partial}

    def _scroll(self, *_: Any) -> Any:
        return {"_scroll_id": "next", "hits": {"hits": []}}


@contextlib.contextmanager
def serve(**state: Any) -> Iterator[Stub]:
    """Serve until the block ends."""
    with serve_faulty(Stub(**state)) as stub:
        yield stub
