"""A stub of Weaviate's REST and GraphQL interface, as far as it is asked: exact search, and faults on request."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
from faulty_http import FaultyServer, Reply

_OPERAND = re.compile(r'operator:Equal path:\[("(?:[^"\\]|\\.)*")\] valueText:("(?:[^"\\]|\\.)*")')
_SEARCH = re.compile(
    r"\{Get\{(\w+)\(nearVector:\{vector:(\[[^\]]*\])\} limit:(\d+)(.*)\)\{_additional\{id distance\}\}\}\}", re.DOTALL
)


@dataclass
class WeaviateStub(FaultyServer):
    """``classes`` are the bodies that made collections, ``objects`` what each holds; ids are lost, or refused."""

    routes = (
        ("GET", "/v1/meta", "meta"),
        ("POST", "/v1/schema", "create"),
        ("GET", "/v1/schema", "schema"),
        ("GET", r"/v1/schema/(\w+)", "find"),
        ("DELETE", r"/v1/schema/(\w+)", "remove"),
        ("POST", "/v1/batch/objects", "insert"),
        ("GET", "/v1/objects", "list"),
        ("GET", "/v1/nodes", "nodes"),
        ("POST", "/v1/graphql", "graphql"),
    )
    classes: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    lose: set[str] = field(default_factory=set)
    refuse: set[str] = field(default_factory=set)
    queue: int = 0

    def carry_out(self, operation: str, name: str, request: tuple[str, str], headers: Any, body: bytes) -> Reply:
        options = {key: values[0] for key, values in parse_qs(urlsplit(request[1]).query).items()}
        answer = getattr(self, operation)(name, json.loads(body) if body else options)
        status = answer.pop("status", 200) if isinstance(answer, dict) else 200
        return Reply(status, json.dumps(answer).encode(), {"content-type": "application/json"})

    def meta(self, name: str, body: Any) -> Any:
        return {"version": "1.30.0", "modules": {}}

    def create(self, name: str, body: Any) -> Any:
        assert re.fullmatch(r"[A-Z][A-Za-z0-9_]*", body["class"])
        if body["class"] in self.classes:
            return {"status": 422, "error": [{"message": "class name already exists"}]}
        self.classes[body["class"]], self.objects[body["class"]] = body, {}
        return body

    def schema(self, name: str, body: Any) -> Any:
        return {"classes": list(self.classes.values())}

    def find(self, name: str, body: Any) -> Any:
        return self.classes.get(name, {"status": 404})

    def remove(self, name: str, body: Any) -> Any:
        self.classes.pop(name, None)
        self.objects.pop(name, None)
        return {}

    def insert(self, name: str, body: Any) -> Any:
        for entry in body["objects"]:
            if entry["id"] not in self.lose | self.refuse:
                self.objects[entry["class"]][entry["id"]] = entry
        refused = {"errors": {"error": [{"message": "no such vector"}]}, "status": "FAILED"}
        return [
            {"result": refused if entry["id"] in self.refuse else {"status": "SUCCESS"}} for entry in body["objects"]
        ]

    def list(self, name: str, body: Any) -> Any:
        held = self.objects[body["class"]]
        after = sorted(key for key in held if key > body.get("after", ""))
        return {"objects": [held[key] for key in after[: int(body["limit"])]]}

    def nodes(self, name: str, body: Any) -> Any:
        assert body == {"output": "verbose"}
        waiting, self.queue = self.queue, max(0, self.queue - 1)
        shards = [
            {"class": name, "objectCount": len(self.objects[name]), "vectorQueueLength": waiting}
            for name in self.classes
        ]
        return {"nodes": [{"name": "node1", "shards": shards}]}

    def graphql(self, name: str, body: Any) -> Any:
        counting = re.fullmatch(r"\{Aggregate\{(\w+)\{meta\{count\}\}\}\}", body["query"])
        if counting:
            return {"data": {"Aggregate": {counting[1]: [{"meta": {"count": len(self.objects[counting[1]])}}]}}}
        search = _SEARCH.fullmatch(body["query"])
        if search is None:
            return {"data": None, "errors": [{"message": f"Syntax Error: {body['query'][:50]}"}]}
        return {
            "data": {"Get": {search[1]: self._nearest(search[1], json.loads(search[2]), int(search[3]), search[4])}}
        }

    def _nearest(self, name: str, vector: Any, k: int, where: str) -> Any:
        wanted = {json.loads(path): json.loads(value) for path, value in _OPERAND.findall(where)}
        assert bool(wanted) == ("where" in where)
        kept = [
            entry
            for entry in self.objects[name].values()
            if all(entry["properties"].get(path, "").strip() == value.strip() for path, value in wanted.items())
        ]
        vectors = np.array([entry["vector"] for entry in kept], dtype=np.float64).reshape(len(kept), -1)
        query, kind = np.array(vector, dtype=np.float64), self.classes[name]["vectorIndexConfig"]["distance"]
        if not kept:
            return []
        if kind == "cosine":
            distances = 1 - vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
        else:
            distances = -(vectors @ query) if kind == "dot" else np.square(vectors - query).sum(axis=1)
        order = np.argsort(distances, kind="stable")[:k]
        return [
            {"_additional": {"id": kept[n]["id"], "distance": float(np.float32(distances[n]))}} for n in order.tolist()
        ]
