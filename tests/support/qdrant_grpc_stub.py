"""The gRPC side of the stub: requests become those of its REST side, faults included, and answers come back."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from qdrant_client import grpc as messages
from qdrant_stub import Stub

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    503: grpc.StatusCode.UNAVAILABLE,
}


class _Servicer:
    def __init__(self, stub: Stub) -> None:
        self._stub = stub

    def _ask(self, context: Any, method: str, path: str, body: Any = None) -> Any:
        headers = {item.key: item.value for item in context.invocation_metadata()}
        reply = self._stub.answer(method, path, headers, b"" if body is None else json.dumps(body).encode())
        if reply.status is None:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        if reply.status != 200:
            context.set_trailing_metadata([(name.lower(), value) for name, value in reply.headers.items()])
            try:
                words = json.loads(reply.body)["status"]["error"]
            except ValueError:
                words = reply.body.decode()
            context.abort(_CODES[reply.status], words)
        answer = json.loads(reply.body)
        return answer.get("result", answer)


class _Root(_Servicer, messages.QdrantServicer):
    def HealthCheck(self, request: Any, context: Any) -> Any:
        told = self._ask(context, "GET", "/")
        return messages.HealthCheckReply(title=told["title"], version=told["version"])


class _Collections(_Servicer, messages.CollectionsServicer):
    def Create(self, request: Any, context: Any) -> Any:
        vectors = request.sparse_vectors_config.map["terms"]
        idf = {"modifier": "idf"} if vectors.modifier == messages.Modifier.Idf else {}
        body = {"sparse_vectors": {"terms": idf}, "shard_number": request.shard_number}
        made = self._ask(context, "PUT", f"/collections/{request.collection_name}", body)
        return messages.CollectionOperationResponse(result=made)

    def Get(self, request: Any, context: Any) -> Any:
        told = self._ask(context, "GET", f"/collections/{request.collection_name}")
        status = getattr(messages.CollectionStatus, told["status"].capitalize())
        counts = {name: told[name] for name in ("points_count", "indexed_vectors_count", "segments_count")}
        info = messages.CollectionInfo(status=status, optimizer_status=messages.OptimizerStatus(ok=True), **counts)
        info.config.params.sparse_vectors_config.map["terms"].index.on_disk = False
        optimiser, graph = info.config.optimizer_config, info.config.hnsw_config
        optimiser.deleted_threshold, optimiser.vacuum_min_vector_number = 0.2, 1000
        optimiser.default_segment_number, optimiser.flush_interval_sec = 0, 5
        info.config.wal_config.wal_capacity_mb, info.config.wal_config.wal_segments_ahead = 32, 0
        graph.m, graph.ef_construct, graph.full_scan_threshold = 16, 100, 10_000
        return messages.GetCollectionInfoResponse(result=info)

    def Delete(self, request: Any, context: Any) -> Any:
        gone = self._ask(context, "DELETE", f"/collections/{request.collection_name}")
        return messages.CollectionOperationResponse(result=gone)

    def CollectionExists(self, request: Any, context: Any) -> Any:
        there = self._ask(context, "GET", f"/collections/{request.collection_name}/exists")["exists"]
        return messages.CollectionExistsResponse(result=messages.CollectionExists(exists=there))


class _Points(_Servicer, messages.PointsServicer):
    def Upsert(self, request: Any, context: Any) -> Any:
        points = [
            {
                "id": point.id.num,
                "vector": {"terms": _vector(point.vectors.vectors.vectors["terms"])},
                "payload": {name: value.string_value for name, value in point.payload.items()},
            }
            for point in request.points
        ]
        self._ask(context, "PUT", f"/collections/{request.collection_name}/points", {"points": points})
        done = messages.UpdateResult(operation_id=1, status=messages.UpdateStatus.Completed)
        return messages.PointsOperationResponse(result=done)

    def Delete(self, request: Any, context: Any) -> Any:
        body = {"points": [point.num for point in request.points.points.ids]}
        self._ask(context, "POST", f"/collections/{request.collection_name}/points/delete", body)
        done = messages.UpdateResult(operation_id=1, status=messages.UpdateStatus.Completed)
        return messages.PointsOperationResponse(result=done)

    def CreateFieldIndex(self, request: Any, context: Any) -> Any:
        assert request.field_type == messages.FieldType.FieldTypeKeyword
        body = {"field_name": request.field_name, "field_schema": "keyword"}
        self._ask(context, "PUT", f"/collections/{request.collection_name}/index", body)
        done = messages.UpdateResult(operation_id=1, status=messages.UpdateStatus.Completed)
        return messages.PointsOperationResponse(result=done)

    def Count(self, request: Any, context: Any) -> Any:
        told = self._ask(context, "POST", f"/collections/{request.collection_name}/points/count", {})
        return messages.CountResponse(result=messages.CountResult(count=told["count"]))

    def Scroll(self, request: Any, context: Any) -> Any:
        body = {"limit": request.limit, "offset": request.offset.num}
        told = self._ask(context, "POST", f"/collections/{request.collection_name}/points/scroll", body)
        held = [messages.RetrievedPoint(id=messages.PointId(num=point["id"])) for point in told["points"]]
        after = told["next_page_offset"]
        more = {} if after is None else {"next_page_offset": messages.PointId(num=after)}
        return messages.ScrollResponse(result=held, **more)

    def Query(self, request: Any, context: Any) -> Any:
        path = f"/collections/{request.collection_name}/points/query"
        return messages.QueryResponse(result=_hits(self._ask(context, "POST", path, _asked(request))))

    def QueryBatch(self, request: Any, context: Any) -> Any:
        path = f"/collections/{request.collection_name}/points/query/batch"
        searches = [_asked(one) for one in request.query_points]
        told = self._ask(context, "POST", path, {"searches": searches})
        return messages.QueryBatchResponse(result=[messages.BatchResult(result=_hits(one)) for one in told])


def _vector(vector: Any) -> Any:
    if vector.HasField("sparse"):
        return {"indices": list(vector.sparse.indices), "values": list(vector.sparse.values)}
    return {"indices": list(vector.indices.data), "values": list(vector.data)}


def _asked(request: Any) -> Any:
    sparse = request.query.nearest.sparse
    query = {"indices": list(sparse.indices), "values": list(sparse.values)}
    must = [{"key": one.field.key, "match": {"value": one.field.match.keyword}} for one in request.filter.must]
    return {"query": query, "using": request.using, "limit": request.limit, "filter": {"must": must}}


def _hits(told: Any) -> list[Any]:
    return [
        messages.ScoredPoint(id=messages.PointId(num=hit["id"]), score=hit["score"], version=0)
        for hit in told["points"]
    ]


@contextlib.contextmanager
def serve_grpc(stub: Stub) -> Iterator[int]:
    """Serve ``stub`` over gRPC, too; yields the port."""
    server = grpc.server(ThreadPoolExecutor(4))
    messages.add_QdrantServicer_to_server(_Root(stub), server)
    messages.add_CollectionsServicer_to_server(_Collections(stub), server)
    messages.add_PointsServicer_to_server(_Points(stub), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait()
