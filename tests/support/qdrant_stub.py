"""A Qdrant server for tests: the documented REST answers, the scores of Qdrant's own engine, and faults on request.

Collections live in Qdrant Edge, one shard of it for every shard asked for; points are dealt to them as Qdrant deals
them, and what they find is merged by score. Faults are those of :mod:`faulty_http`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import qdrant_edge
from faulty_http import Act, FaultyServer, Reply, raw
from faulty_http import serve as serve_faulty

from harness.exact.qdrant_shards import shards_of

VERSION = "1.19.1"
_ROUTES: tuple[tuple[str, str, str], ...] = (
    ("GET", r"/", "root"),
    ("GET", r"/readyz", "ready"),
    ("GET", r"/telemetry", "telemetry"),
    ("GET", r"/collections", "list"),
    ("GET", r"/collections/([^/]+)", "info"),
    ("GET", r"/collections/([^/]+)/exists", "exists"),
    ("PUT", r"/collections/([^/]+)", "create"),
    ("PATCH", r"/collections/([^/]+)", "update"),
    ("DELETE", r"/collections/([^/]+)", "delete"),
    ("PUT", r"/collections/([^/]+)/points", "upsert"),
    ("POST", r"/collections/([^/]+)/points", "retrieve"),
    ("POST", r"/collections/([^/]+)/points/delete", "delete_points"),
    ("PUT", r"/collections/([^/]+)/index", "field_index"),
    ("POST", r"/collections/([^/]+)/points/count", "count"),
    ("POST", r"/collections/([^/]+)/points/scroll", "scroll"),
    ("POST", r"/collections/([^/]+)/points/query", "query"),
    ("POST", r"/collections/([^/]+)/points/query/batch", "query_batch"),
)


class RefusedError(Exception):
    """An error answer: its status, and Qdrant's words."""

    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text
        super().__init__(text)


def error(status: int, text: str, **headers: str) -> Act:
    """An error answer in Qdrant's form."""
    return raw(status, json.dumps({"status": {"error": text}, "time": 0.0}).encode(), **headers)


@dataclass
class Collection:
    """Shards of Qdrant Edge, and the order in which points came."""

    shards: list[Any]
    folder: Path
    vectors: Mapping[str, Any]
    dense: Mapping[str, Any]
    indexing_threshold_kb: int
    held: set[int] = field(default_factory=set)
    written: bool = False

    def flush(self) -> None:
        """Write what changed: a segment that was never written has no version."""
        if not self.written:
            for shard in self.shards:
                shard.flush()
        self.written = True


@dataclass
class Stub(FaultyServer):
    """The server's state."""

    routes = _ROUTES

    version: str = VERSION
    title: str = "qdrant - vector search engine"
    api_key: str | None = None
    status: str = "green"
    losing: frozenset[int] = frozenset()
    collections: dict[str, Collection] = field(default_factory=dict)
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="qdrant-stub-")))

    def carry_out(
        self, operation: str, name: str, request: tuple[str, str], headers: Mapping[str, str], body: bytes
    ) -> Reply:
        """The right answer, from Qdrant's engine."""
        if self.api_key is not None and headers.get("api-key") is None and operation != "ready":
            return Reply(401, b"Must provide an API key or an Authorization bearer token")
        if self.api_key is not None and headers.get("api-key") != self.api_key and operation != "ready":
            return Reply(401, f"Invalid API key {headers['api-key']}".encode())
        try:
            with self.lock:
                result = getattr(self, f"_{operation}")(name, json.loads(body) if body else {})
        except RefusedError as refused:
            content = {"status": {"error": refused.text}, "time": 0.0}
            return Reply(refused.status, json.dumps(content).encode())
        except Exception:  # noqa: BLE001 - a defect of this file is told to the test
            return Reply(500, traceback.format_exc().encode())
        plain = operation in ("root", "ready")
        content = result if plain else {"result": result, "status": "ok", "time": 0.0001}
        return Reply(200, json.dumps(content).encode(), {"content-type": "application/json"})

    def closed(self) -> None:
        """Remove what was stored."""
        for name in list(self.collections):
            self._delete(name, {})
        shutil.rmtree(self.folder)

    def _root(self, _name: str, _body: Any) -> Any:
        return {"title": self.title, "version": self.version, "commit": "0" * 40}

    def _ready(self, _name: str, _body: Any) -> Any:
        return "all shards are ready"

    def _list(self, _name: str, _body: Any) -> Any:
        return {"collections": [{"name": name} for name in self.collections]}

    def _telemetry(self, _name: str, _body: Any) -> Any:
        for held in self.collections.values():
            held.flush()
        told = [
            {"id": name, "shards": [_local(number, one, held) for number, one in enumerate(held.shards)]}
            for name, held in self.collections.items()
        ]
        return {"id": "stub", "collections": {"number_of_collections": len(told), "collections": told}}

    def _exists(self, name: str, _body: Any) -> Any:
        return {"exists": name in self.collections}

    def _create(self, name: str, body: Any) -> Any:
        if name in self.collections:
            raise RefusedError(409, f"Wrong input: Collection `{name}` already exists!")
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        idf = {"idf": qdrant_edge.Modifier.Idf, None: None}
        sparse_vectors = {
            vector: qdrant_edge.EdgeSparseVectorParams(
                modifier=idf[sparse.get("modifier")], datatype=_datatype((sparse.get("index") or {}).get("datatype"))
            )
            for vector, sparse in (body.get("sparse_vectors") or {}).items()
        }
        vectors = _named(body.get("vectors") or {})
        wanted = body.get("optimizers_config") or {}
        config = qdrant_edge.EdgeConfig(
            vectors={vector: _dense(one) for vector, one in vectors.items()},
            sparse_vectors=sparse_vectors,
            optimizers=qdrant_edge.EdgeOptimizersConfig(indexing_threshold=wanted.get("indexing_threshold")),
            wal_enabled=False,
            max_search_threads=1,
        )
        shards = [
            qdrant_edge.EdgeShard.create(str(folder / str(number)), config)
            for number in range(body.get("shard_number") or 1)
        ]
        threshold = wanted.get("indexing_threshold")
        self.collections[name] = Collection(
            shards, folder, body.get("sparse_vectors") or {}, vectors, 10_000 if threshold is None else threshold
        )
        return True

    def _update(self, name: str, _body: Any) -> Any:
        self._held(name)
        self.status = "green"
        return True

    def _delete(self, name: str, _body: Any) -> Any:
        held = self.collections.pop(name, None)
        if held is not None:
            for shard in held.shards:
                shard.close()
            shutil.rmtree(held.folder)
        return held is not None

    def _info(self, name: str, _body: Any) -> Any:
        held = self._held(name)
        for shard in held.shards if held.dense else ():
            while shard.optimize():
                held.written = False
        told = [shard.info() for shard in held.shards]
        vectors = {"vectors": held.dense.get("", held.dense), "sparse_vectors": held.vectors}
        empty = {"params": {**vectors, "shard_number": len(held.shards)}}
        optimisers = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0}
        optimisers |= {"flush_interval_sec": 5, "indexing_threshold": held.indexing_threshold_kb}
        config = {**empty, "optimizer_config": optimisers}
        return {
            "status": self.status,
            "optimizer_status": {"error": "disk is broken"} if self.status == "red" else "ok",
            "indexed_vectors_count": sum(one.indexed_vectors_count for one in told),
            "points_count": len(held.held),
            "segments_count": sum(one.segments_count for one in told),
            "config": {**config, "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}},
            "payload_schema": {},
        }

    def _upsert(self, name: str, body: Any) -> Any:
        held = self._held(name)
        held.written = False
        kept = [point for point in body["points"] if point["id"] not in self.losing]
        where = shards_of(max((point["id"] for point in kept), default=0) + 1, len(held.shards))
        for number, shard in enumerate(held.shards):
            points = [
                qdrant_edge.Point(
                    one["id"],
                    {name: _vector(vector) for name, vector in one["vector"].items()},
                    one.get("payload") or {},
                )
                for one in kept
                if where[one["id"]] == number
            ]
            if points:
                shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
        held.held.update(point["id"] for point in kept)
        return {"operation_id": self.calls["upsert"], "status": "completed"}

    def _delete_points(self, name: str, body: Any) -> Any:
        held = self._held(name)
        held.written = False
        for shard in held.shards:
            shard.update(qdrant_edge.UpdateOperation.delete_points(body["points"]))
        held.held.difference_update(body["points"])
        return {"operation_id": self.calls["delete_points"], "status": "completed"}

    def _field_index(self, name: str, body: Any) -> Any:
        schema = {"keyword": qdrant_edge.PayloadSchemaType.Keyword}[body["field_schema"]]
        held = self._held(name)
        held.written = False
        for shard in held.shards:
            shard.update(qdrant_edge.UpdateOperation.create_field_index(body["field_name"], schema))
        return {"operation_id": 0, "status": "completed"}

    def _count(self, name: str, _body: Any) -> Any:
        held = self._held(name)
        return {"count": sum(shard.count(qdrant_edge.CountRequest(exact=True)) for shard in held.shards)}

    def _scroll(self, name: str, body: Any) -> Any:
        held, limit = self._held(name), body["limit"]
        page = [one for one in sorted(held.held) if one >= (body.get("offset") or 0)]
        after = page[limit] if len(page) > limit else None
        asked = body.get("with_payload") or False, body.get("with_vector") or False
        found = [one for shard in held.shards for one in shard.retrieve(page[:limit], *asked)] if any(asked) else []
        told = {one.id: {"payload": one.payload, "vector": _vectors(one)} for one in found}
        return {"points": [{"id": one, **told.get(one, {})} for one in page[:limit]], "next_page_offset": after}

    def _retrieve(self, name: str, body: Any) -> Any:
        asked = body.get("with_payload") or False, body.get("with_vector") or False
        found = [one for shard in self._held(name).shards for one in shard.retrieve(body["ids"], *asked)]
        return [{"id": one.id, "payload": one.payload, "vector": _vectors(one)} for one in found]

    def _query(self, name: str, body: Any) -> Any:
        asked, held = body["query"], self._held(name)
        if body.get("prefetch"):
            return self._fused(held, body)
        nearest = asked.get("nearest", asked) if isinstance(asked, dict) else asked
        query = qdrant_edge.Query.Nearest(_vector(nearest), using=body.get("using") or "")
        request = qdrant_edge.QueryRequest(
            limit=body["limit"],
            query=query,
            filter=_filter(body.get("filter")),
            params=_parameters(body),
            with_payload=bool(body.get("with_payload")),
            with_vector=False,
        )
        hits = [hit for shard in held.shards for hit in shard.query(request)]
        near_first = held.dense.get(body.get("using") or "", {}).get("distance") == "Euclid"
        best = sorted(hits, key=lambda hit: hit.score if near_first else -hit.score)[: body["limit"]]
        points = [{"id": hit.id, "version": 0, "score": hit.score, "payload": hit.payload} for hit in best]
        return {"points": points}

    def _fused(self, held: Collection, body: Any) -> Any:
        """As Qdrant's own engine fuses, which several shards would take more for."""
        (shard,) = held.shards
        prefetches = [
            qdrant_edge.Prefetch(
                one["limit"],
                query=qdrant_edge.Query.Nearest(
                    _vector(
                        one["query"].get("nearest", one["query"]) if isinstance(one["query"], dict) else one["query"]
                    ),
                    using=one["using"],
                ),
                filter=_filter(one.get("filter")),
                params=_parameters(one),
            )
            for one in body["prefetch"]
        ]
        rrf = body["query"].get("rrf", {"k": 2} if body["query"].get("fusion") == "rrf" else None)
        method = qdrant_edge.Fusion.Dbsf() if rrf is None else qdrant_edge.Fusion.Rrf(rrf["k"])
        request = qdrant_edge.QueryRequest(
            limit=body["limit"], query=method, prefetches=prefetches, with_payload=False, with_vector=False
        )
        return {"points": [{"id": hit.id, "version": 0, "score": hit.score} for hit in shard.query(request)]}

    def _query_batch(self, name: str, body: Any) -> Any:
        return [self._query(name, search) for search in body["searches"]]

    def _held(self, name: str) -> Collection:
        if name not in self.collections:
            raise RefusedError(404, f"Not found: Collection `{name}` doesn't exist!")
        return self.collections[name]


def _local(number: int, shard: Any, held: Collection) -> Any:
    size = 8 * int(shard.info().points_count) + 1
    local = {"vectors_size_bytes": size, "segments": _segments(shard, held, held.folder / str(number))}
    return {"id": number, "local": local, "remote": [], "replicate_states": {}}


def _segments(shard: Any, held: Collection, folder: Path) -> list[Any]:
    """As the shard's own files describe them; all dense vectors with an index are in the largest one."""
    told = shard.info()
    indexed = told.indexed_vectors_count - (told.points_count if held.vectors else 0)
    files = [json.loads(file.read_text()) for file in folder.glob("segments/*/segment.json")]
    filled = [one["config"] for one in files if one.get("version") is not None]
    counts = {"num_vectors": told.points_count, "num_indexed_vectors": indexed}
    return [
        {"info": {"num_points": told.points_count, "vector_data": dict.fromkeys(held.dense, counts)}, "config": config}
        for config in filled
    ]


def _vector(vector: Any) -> Any:
    if isinstance(vector, list):
        return vector
    return qdrant_edge.SparseVector(vector["indices"], vector["values"])


def _dense(wanted: Mapping[str, Any]) -> Any:
    graph = wanted.get("hnsw_config") or {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
    return qdrant_edge.EdgeVectorParams(
        size=wanted["size"],
        distance=getattr(qdrant_edge.Distance, wanted["distance"]),
        hnsw_config=qdrant_edge.HnswIndexConfig(graph["m"], graph["ef_construct"], graph["full_scan_threshold"]),
        quantization_config=_scalar((wanted.get("quantization_config") or {}).get("scalar")),
    )


def _scalar(wanted: Mapping[str, Any] | None) -> Any:
    return qdrant_edge.ScalarQuantizationConfig(qdrant_edge.ScalarType.Int8) if wanted is not None else None


def _datatype(wanted: str | None) -> Any:
    return getattr(qdrant_edge.VectorStorageDatatype, wanted.capitalize()) if wanted is not None else None


def _parameters(body: Mapping[str, Any]) -> Any:
    params = body.get("params") or {}
    return qdrant_edge.SearchParams(hnsw_ef=params.get("hnsw_ef"), exact=params.get("exact") or False)


def _filter(wanted: Mapping[str, Any] | None) -> Any:
    conditions = [
        qdrant_edge.FieldCondition(key=one["key"], match=qdrant_edge.MatchValue(one["match"]["value"]))
        for one in (wanted or {}).get("must") or []
    ]
    return qdrant_edge.Filter(must=conditions) if conditions else None


def _vectors(record: Any) -> Any:
    held = record.vector or {}
    if isinstance(held, list):
        return held
    return {
        name: one if isinstance(one, list) else {"indices": list(one.indices), "values": list(one.values)}
        for name, one in held.items()
    }


def _named(vectors: Mapping[str, Any]) -> Mapping[str, Any]:
    """Dense vectors by name, the empty one where a collection has one without."""
    return {"": vectors} if "size" in vectors else vectors


@contextlib.contextmanager
def serve(stub: Stub | None = None) -> Iterator[Stub]:
    """Serve on a free port of this machine until the block ends."""
    with serve_faulty(Stub() if stub is None else stub) as serving:
        yield serving
