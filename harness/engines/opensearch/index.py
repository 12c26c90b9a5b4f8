"""An index on a server: made, filled, made ready, searched, read and removed by calls of the REST interface.

A user's index is only read, never changed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson

from harness.engines.interface import Storage
from harness.engines.opensearch.connection import Connection, RejectedItemsError, Retrier
from harness.engines.remote_server import Cause, FaultError, ServerClient, redact
from harness.engines.server_collection import create_collection, remove_collection
from harness.errors import EngineFailureError, EngineTimeoutError, EngineUnavailableError, RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = ["METADATA", "TERMS", "ServerIndex", "field_name", "text_field"]

TERMS = "terms"
"""The field of analysed terms in the harness's own index."""
METADATA = "metadata"
_WINDOW = 10_000
"""Largest number of documents that a search may return, unless the index sets ``max_result_window``."""
_PAGE = 10_000
"""Documents per page when all are listed."""
_SCROLL = "2m"
_LINES = "application/x-ndjson"
_POLL_S = 0.1
_BUSY = (429, 503)
_MAX_EXAMPLES = 3


def field_name(name: str) -> str:
    """Return the field, below :data:`METADATA`, that holds the metadata ``name``: a dot in it makes no object."""
    return quote(name, safe=" ").replace(".", "%2E")


def text_field(name: str) -> str:
    """Return the field that holds the terms of a searched field of the documents."""
    return f"{TERMS}_{field_name(name)}"


class ServerIndex(ServerClient):
    """An index by its name. On closing, an index that was created here is removed unless it is to be kept.

    ``window`` is the largest number of documents that a search of it may return.
    """

    def __init__(self, connection: Connection, parameters: Mapping[str, ParameterValue], name: str) -> None:
        self.connection, self.address, self.name = connection, connection.address, name
        self._parameters, self.retrier = parameters, Retrier(float(parameters["retry_s"]))
        self._path, self._owns = f"/{quote(name, safe='')}", False
        self.shards, self.window = int(parameters["shards"]), _WINDOW

    # The harness's own index.

    def create(self, documents: int, fields: Sequence[str], texts: Sequence[str] = (TERMS,)) -> None:
        """Make the empty index for this many documents with the metadata ``fields``; raises RejectedInputError.

        ``texts`` are the fields of analysed terms.

        Only :meth:`finish` refreshes it.
        """
        self.window = max(documents, _WINDOW)
        settings = {
            "number_of_shards": self.shards,
            "number_of_replicas": 0,
            "refresh_interval": "-1",
            "max_result_window": self.window,
            "similarity": {"default": self._similarity()},
        }
        metadata = {field_name(name): {"type": "keyword"} for name in fields}
        mappings = {
            "dynamic": False,
            "properties": {
                **{name: {"type": "text", "analyzer": "whitespace"} for name in texts},
                METADATA: {"properties": metadata},
            },
        }
        self._owns = True
        with self.translated(lambda: f"creating the index '{self.name}'"):
            body = {"settings": {"index": settings}, "mappings": mappings}
            create = partial(self.connection.call, "PUT", self._path, body)
            create_collection(self.retrier, create, lambda fault: "already exists" in fault.text)

    def _similarity(self) -> Mapping[str, ParameterValue]:
        parameters, product = self._parameters, self.connection.product
        has_legacy_name = product.legacy_from is not None and self.connection.major >= product.legacy_from
        if not (parameters["k1_plus_1"] or has_legacy_name):
            raise RejectedInputError(
                f"{product.name} {self.connection.version} always scores with k1 + 1 in the weight",
                fix="leave k1_plus_1=false out: it changes no ranking",
            )
        kind = "LegacyBM25" if has_legacy_name and parameters["k1_plus_1"] else "BM25"
        return {"type": kind, "k1": parameters["k1"], "b": parameters["b"]}

    def send(self, operations: Sequence[bytes]) -> None:
        """Send operations of the bulk interface; a repeated operation changes nothing.

        Raises FaultError, and EngineFailureError naming documents that the server refuses.
        """

        def store() -> None:
            answer = self.connection.send("POST", f"{self._path}/_bulk", b"".join(operations), _LINES)
            self._require_stored(orjson.loads(answer)["items"], len(operations))

        self.retrier.call(store)

    def _require_stored(self, items: Sequence[Mapping[str, Any]], sent: int) -> None:
        if len(items) != sent:
            raise KeyError(f"{len(items)} outcomes of {sent} documents")
        outcomes = [outcome for item in items for outcome in item.values()]
        failed = [outcome for outcome in outcomes if "error" in outcome]
        if not failed:
            return
        words = f"{failed[0]['error'].get('type')}: {failed[0]['error'].get('reason')}"
        if all(outcome["status"] in _BUSY for outcome in failed):
            raise RejectedItemsError(f"{len(failed)} of {sent} documents were rejected: {words}")
        examples = ", ".join(str(outcome["_id"]) for outcome in failed[:_MAX_EXAMPLES])
        raise EngineFailureError(
            f"{self.connection.product.name} refused {len(failed)} of {sent} documents (rows {examples} first): "
            f"{redact(words, self.address)}",
            fix="look into the server's log for why",
        )

    def finish(self) -> None:
        """Refresh, merge with ``segments=single``, and wait until no merge is running.

        Raises FaultError, EngineTimeoutError.
        """
        limit = float(self._parameters["ready_timeout_s"])
        deadline = time.monotonic() + limit
        late = EngineTimeoutError(
            f"{self.connection.product.name} was still merging after {limit:g} s", fix="raise 'ready_timeout_s'"
        )
        self._call("POST", "/_refresh")
        if self._parameters["segments"] == "single":
            try:
                self._call("POST", "/_forcemerge", timeout_s=limit, options={"max_num_segments": 1})
            except FaultError as error:
                if error.fault.cause is not Cause.SLOW:
                    raise
                raise late from error
        while self._call("GET", "/_stats/merge")["_all"]["total"]["merges"]["current"]:
            if time.monotonic() > deadline:
                raise late
            time.sleep(_POLL_S)
        self._call("POST", "/_refresh")
        self._call("POST", "/_flush")

    def find(self) -> None:
        """Look up the index and read its ``shards`` and ``window``; raises EngineUnavailableError if it is gone."""
        with self.translated(lambda: f"looking for the index '{self.name}'"):
            try:
                settings = self._call("GET", "/_settings", options={"flat_settings": "true"})
            except FaultError as error:
                if error.fault.cause is not Cause.MISSING:
                    raise
                removed = "an index that the harness made is removed when its engine closes: build it with keep=true"
                raise EngineUnavailableError(
                    f"there is no index '{self.name}' on the server at {self.address.url}",
                    fix="check 'index' and 'url'" if self._parameters["external"] else removed,
                ) from error
        if len(settings) != 1:
            raise RejectedInputError(
                f"'{self.name}' refers to {len(settings)} indexes: {', '.join(sorted(settings))}",
                fix="name one of them",
            )
        (description,) = settings.values()
        self.shards = int(description["settings"]["index.number_of_shards"])
        self.window = int(description["settings"].get("index.max_result_window", _WINDOW))

    # Searching and reading.

    def search(self, body: bytes) -> bytes:
        """Return the answer to a query as the server sent it; raises FaultError."""
        options = {"search_type": str(self._parameters["search_type"])}
        return self.retrier.call(lambda: self.connection.send("POST", f"{self._path}/_search", body, options=options))

    def count(self) -> int:
        """Return the number of documents that searches see."""
        return int(self._read("counting the documents", "/_count")["count"])

    def pages(self, shard: int, **body_fields: object) -> Iterator[list[Mapping[str, Any]]]:
        """Return the hits of all documents of a shard, page by page, in the order of Lucene's numbers.

        ``body_fields`` are further fields that each search returns.
        """
        with self.translated(lambda: f"listing the documents of shard {shard}"):
            body = {"size": min(_PAGE, self.window), "sort": ["_doc"], "_source": False, **body_fields}
            options = {"scroll": _SCROLL, "preference": f"_shards:{shard}"}
            page = self._call("POST", "/_search", body, options=options)

            def scroll(method: str, **more: str) -> Any:
                return self.connection.call(method, "/_search/scroll", {"scroll_id": page["_scroll_id"], **more})

            try:
                while hits := page["hits"]["hits"]:
                    yield hits
                    page = self.retrier.call(lambda: scroll("POST", scroll=_SCROLL))
            except BaseException:
                with suppress(FaultError):  # the server releases it by itself later
                    Retrier(0).call(lambda: scroll("DELETE"))
                raise
            self.retrier.call(lambda: scroll("DELETE"))

    def mapping(self) -> Mapping[str, Any]:
        """Return the mapping of the index."""
        (description,) = self._read("reading the mapping", "/_mapping").values()
        mapping: Mapping[str, Any] = description["mappings"]
        return mapping

    def summary(self) -> str:
        """Return the sequence numbers of all shards, as a text that changes whenever documents do."""
        stats = self._read("asking for the state of the index", "/_stats/docs", level="shards")
        (shards,) = (index["shards"] for index in stats["indices"].values())
        numbers = {
            shard: max((copy.get("seq_no", {}).get("max_seq_no", -1) for copy in copies), default=-1)
            for shard, copies in shards.items()
        }
        return str((stats["_all"]["primaries"]["docs"], sorted(numbers.items())))

    def state(self) -> Mapping[str, ParameterValue]:
        """Return the server, the index and its segments, and the number of repeated calls."""
        path, options = f"/_cat/segments{self._path}", {"format": "json", "bytes": "b"}
        with self.translated(lambda: "asking for the segments"):
            segments = self.retrier.call(lambda: self.connection.call("GET", path, options=options))
        primary = [segment for segment in segments if segment["prirep"] == "p"]
        documents = Counter[int]()
        for segment in primary:
            documents[int(segment["shard"])] += int(segment["docs.count"])
        settings: dict[str, ParameterValue] = {"kept": self._parameters["keep"]} if self._owns else {}
        return {
            "server": self.address.url,
            "authentication": self.address.authentication,
            "index": self.name,
            **settings,
            "shards": self.shards,
            "segments": len(primary),
            "documents_by_shard": " + ".join(str(documents[shard]) for shard in range(self.shards)),
            "deleted_documents": sum(int(segment["docs.deleted"]) for segment in primary),
            "lucene": ", ".join(sorted({str(segment["version"]) for segment in segments})) or "no segments",
            "repeated_calls": self.repeated,
            **self._heap(),
        }

    def _heap(self) -> Mapping[str, ParameterValue]:
        """Return the Java heaps of all nodes together; empty if the server refuses to report them."""
        try:
            stats = Retrier(0).call(lambda: self.connection.call("GET", "/_nodes/stats/jvm"))
            heaps = [node["jvm"]["mem"] for node in stats["nodes"].values()]
            used, most = (sum(int(heap[f"heap_{name}_in_bytes"]) for heap in heaps) for name in ("used", "max"))
        except (FaultError, KeyError, TypeError):
            return {}
        return {"server_heap_used_bytes": used, "server_heap_max_bytes": most}

    def storage(self) -> Storage:
        """Return the bytes of all shards, and of their write-ahead logs, as counted by the server."""
        total = self._read("asking for the size of the index", "/_stats/store,translog")["_all"]["total"]
        return Storage(int(total["store"]["size_in_bytes"]), int(total["translog"]["size_in_bytes"]))

    def close(self) -> None:
        """Remove the index if it was made here and is not kept, and close the client."""
        self.retrier.give_up()
        try:
            if self._owns and not self._parameters["keep"]:
                remove_collection(self.connection, self.name)
        finally:
            self.connection.close()

    def _call(self, method: str, path: str, body: object = None, **how: Any) -> Any:
        """Make a call below the index's path, and repeat while the fault may be transient; raises FaultError."""
        return self.retrier.call(lambda: self.connection.call(method, self._path + path, body, **how))

    def _read(self, doing: str, path: str, **options: str) -> Any:
        with self.translated(lambda: doing):
            return self._call("GET", path, options=options)
