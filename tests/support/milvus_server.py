"""A server of Milvus: that of Milvus Lite behind a proxy, which answers the two calls that Lite does not know.

Everything else is Lite's own answer: it is Milvus's engine, on one file, without HNSW, lists, segments or credentials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from pymilvus.grpc_gen import milvus_pb2

from harness.engines.milvus.lite import LiteServer

_PREFIX = "/milvus.proto.milvus.MilvusService/"
_WAIT_S = 30.0


class MilvusServer(grpc.GenericRpcHandler):
    """``calls`` counts the calls by name; the next ``busy[name]`` calls of a name are refused, as of a busy server."""

    def __init__(self, behind: grpc.Channel) -> None:
        self._behind, self.url, self.version = behind, "", "v2.5.1-lite"
        self.calls, self.busy = Counter[str](), Counter[str]()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        """Handle every method, all of which take and give one message, as bytes."""
        method = str(handler_call_details.method)
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._answer(method, request, context))

    def _answer(self, method: str, request: bytes, context: Any) -> bytes:
        name = method.removeprefix(_PREFIX)
        self.calls[name] += 1
        if self.busy[name]:
            self.busy[name] -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "too many requests")
        if name == "GetVersion":
            return milvus_pb2.GetVersionResponse(version=self.version).SerializeToString()
        if name == "GetQuerySegmentInfo":
            return milvus_pb2.GetQuerySegmentInfoResponse().SerializeToString()
        try:
            answer: bytes = self._behind.unary_unary(method)(request, timeout=_WAIT_S)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
        return answer


@contextmanager
def serving(folder: Path) -> Iterator[MilvusServer]:
    """A server on a file in ``folder`` until the block ends."""
    lite = LiteServer(folder / "server.db")
    try:
        with grpc.insecure_channel(lite.address) as channel, ThreadPoolExecutor(8) as threads:
            server, milvus = grpc.server(threads), MilvusServer(channel)
            server.add_generic_rpc_handlers([milvus])
            milvus.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
            server.start()
            yield milvus
            server.stop(None).wait()
    finally:
        lite.stop()
