"""Weaviate, a server: dense vectors over REST, and searches in GraphQL.

The tests run against a stub of its protocol, which proves the requests and the reading of answers, not the answers of a
real Weaviate. Parity was measured by hand, on Weaviate 1.40.0-dev in November 2026.
"""

from __future__ import annotations

import json
import os
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import orjson

from harness.data.progress import Progress
from harness.data.types import Float32Array, Float64Array, Int32Array
from harness.engines.base import ClientEngine, Documents, Filterable, LoadedIndex
from harness.engines.http_server import HttpRetrier, HttpServer, as_json
from harness.engines.index_folder import field_columns, saved_fields
from harness.engines.interface import Capabilities, EngineInfo, Storage
from harness.engines.remote_server import (
    Address,
    AddressRules,
    Cause,
    Fault,
    FaultError,
    ServerConnection,
    ServerKind,
    read_address,
)
from harness.engines.server_collection import new_name, remove_collection, save_name, saved_name
from harness.errors import EngineFailureError, EngineTimeoutError, EngineUnavailableError
from harness.registry.parameters import ParameterValue

__all__ = ["URL_VARIABLE", "Server", "WeaviateEngine"]

URL_VARIABLE = "HARNESS_WEAVIATE_URL"
ADDRESS_RULES = AddressRules(
    *("Weaviate", 8080, URL_VARIABLE, "WEAVIATE_API_KEY", "'insert_batch'"),
    {Cause.UNREADABLE: "check that 'url' names Weaviate's REST port and that no proxy changes its answers"},
    "--weaviate-url",
)
_DISTANCES = {"cosine": "cosine", "dot": "dot", "l2": "l2-squared"}
_UNTESTED = "tests run against a stub of its protocol; parity was measured by hand on 1.40.0-dev in November 2026"
_PAGE = 1_000
_POLL_S = 0.1


class _Retrier(HttpRetrier):
    """Calls that are repeated while the fault may be transient."""

    def words_of(self, answer: httpx.Response) -> str:
        """Return Weaviate's own words, if any, or else the body's beginning."""
        try:
            return "; ".join(str(error["message"]) for error in orjson.loads(answer.content)["error"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return answer.text


def address_of(parameters: Mapping[str, ParameterValue]) -> Address:
    """Return the server that ``url`` names, or ``HARNESS_WEAVIATE_URL``; raises as :func:`read_address`."""
    return read_address(ADDRESS_RULES, str(parameters["url"]), str(parameters["api_key_env"]), os.environ)


class Server(HttpServer, ServerConnection):
    """A Weaviate server that answered; several threads may use it."""

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        """Connect to the server at ``url``, or at the address in ``HARNESS_WEAVIATE_URL``.

        Raises:
            EngineUnavailableError: Nothing answers, or another service does.
            RejectedInputError: The address contains secrets.
        """
        self.address = address_of(parameters)
        self.retrier, headers = _Retrier(float(parameters["retry_s"])), dict(self.address.headers)
        if self.address.api_key is not None:
            headers["authorization"] = f"Bearer {self.address.api_key}"
        super().__init__(self.address.url, headers, float(parameters["timeout_s"]))
        try:
            meta = _Retrier(0).identify(self.address, lambda: self.call("GET", "/v1/meta"))
            self.version = str(meta.get("version", "")) if isinstance(meta, dict) else ""
            if not re.match(r"\d+\.\d+", self.version):
                raise EngineUnavailableError(f"the server at {self.address.url} is not Weaviate", fix="correct 'url'")
        except BaseException:
            self.close()
            raise

    def ask(self, doing: str, method: str, path: str, body: object = None, **options: str | int) -> Any:
        """Make a call, repeat it after transient faults, and translate its errors; see :meth:`HttpServer.call`."""
        return self.retrier.ask(self.address, doing, lambda: self.call(method, path, body, options=options))

    def query(self, graphql: str) -> Any:
        """Answer a query in GraphQL with its ``data``; raises FaultError, even for an error inside the answer."""
        answer = self.retrier.call(lambda: self.call("POST", "/v1/graphql", {"query": graphql}))
        if answer.get("errors"):
            words = "; ".join(str(error.get("message")) for error in answer["errors"])
            raise FaultError(Fault(Cause.REFUSED, words), 1, 0.0)
        return answer["data"]

    def list_names(self) -> list[str]:
        """Return the names of all collections."""
        return [str(collection["class"]) for collection in self.call("GET", "/v1/schema")["classes"]]

    def remove(self, name: str) -> None:
        """Remove a collection."""
        self.call("DELETE", f"/v1/schema/{name}")

    def close(self) -> None:
        """Close the connections."""
        self.retrier.give_up()
        super().close()


class WeaviateEngine(ClientEngine[Float32Array], Filterable[Float32Array]):
    """Dense vectors in Weaviate's HNSW graph, or scanned (``index=flat``).

    An object's id is its row as a UUID. Metadata are text properties that Weaviate does not split: it trims them, so
    they are stored in quotation marks.
    """

    name = "weaviate"
    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense",
        exact=False,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        shares_index=True,
        threads=True,
        gaps={"test_a_graph_is_searched": "the stub of its protocol that it is tested against makes no graph"},
    )
    no_changes = "Weaviate can delete and replace objects, and the harness does not do it yet"
    search_parameters = frozenset({"url", "api_key_env", "keep", "timeout_s", "retry_s", "optimize_timeout_s"})

    _server: Server
    _collection = ""
    _filter_clause = ""

    def require_address(self) -> None:
        """Raise EngineUnavailableError if no server is named."""
        address_of(self.parameters)

    @classmethod
    def server_kind(cls) -> ServerKind:
        """Return the description of Weaviate's servers."""
        return ServerKind(ADDRESS_RULES, Server)

    def info(self) -> EngineInfo:
        """Connect, and find the collection of the folder, if any."""
        self._server = self.use(Server(self.parameters))
        if self.finished:
            self._collection = saved_name(self.folder)
            self._server.ask("looking for the collection", "GET", f"/v1/schema/{self._collection}")
        return EngineInfo("Weaviate", self._server.version, "server", _UNTESTED)

    def create(self, folder: Path, documents: Documents[Float32Array]) -> None:
        """Make the empty collection, with a property for each field of the metadata."""
        self._collection = re.sub(r"[^A-Za-z0-9_]", "_", new_name(folder)).capitalize()
        save_name(folder, self._collection)
        if not self.parameters["keep"]:
            self.resources.callback(remove_collection, self._server, self._collection)
        parameters = self.parameters
        index: dict[str, ParameterValue] = {"distance": _DISTANCES[str(parameters["similarity"])]}
        if parameters["index"] == "hnsw":
            renamed = {"efConstruction": "ef_construction", "maxConnections": "max_connections", "ef": "ef"}
            index |= {name: parameters[parameter] for name, parameter in renamed.items()}
        text_property = {
            "dataType": ["text"],
            "tokenization": "field",
            "indexFilterable": True,
            "indexSearchable": False,
        }
        body = {
            "class": self._collection,
            "vectorizer": "none",
            "vectorIndexType": parameters["index"],
            "vectorIndexConfig": index,
            "properties": [{"name": name, **text_property} for name in field_columns(documents.fields).values()],
        }
        self._server.ask("creating the collection", "POST", "/v1/schema", body)

    def build(self, folder: Path, documents: Documents[Float32Array], progress: Progress) -> None:
        """Send all documents in batches; getting ready means waiting until every vector is in the index."""
        properties = field_columns(documents.fields)
        for start, stop in documents.batches(int(self.parameters["insert_batch"]), progress):
            objects = [
                {
                    "class": self._collection,
                    "id": _id_of(row),
                    "vector": documents.column[row],
                    "properties": {properties[field]: _quoted(value) for field, value in record.items()},
                }
                for row, record in enumerate(documents.records(start, stop), start)
            ]
            doing = f"storing documents {start} to {stop - 1}"
            answers = self._server.ask(doing, "POST", "/v1/batch/objects", {"objects": objects})
            for row, answer in enumerate(answers, start):
                errors = (answer.get("result") or {}).get("errors") or {}
                if errors:
                    words = "; ".join(str(error.get("message")) for error in errors.get("error", []))
                    raise EngineFailureError(f"Weaviate refused document '{documents.ids[row]}': {words}")
        progress.start("index", None)
        self._await_idle()

    def _await_idle(self) -> None:
        deadline = time.monotonic() + float(self.parameters["optimize_timeout_s"])
        while any(shard.get("vectorQueueLength") for shard in self._shards()):
            if time.monotonic() > deadline:
                raise EngineTimeoutError(
                    f"Weaviate was still indexing after {self.parameters['optimize_timeout_s']:g} s",
                    fix="raise 'optimize_timeout_s'",
                )
            time.sleep(_POLL_S)

    def _shards(self) -> list[Mapping[str, Any]]:
        answer = self._server.ask("asking for its state", "GET", "/v1/nodes", output="verbose")
        shards = [shard for node in answer["nodes"] for shard in node.get("shards") or []]
        return [shard for shard in shards if shard.get("class") == self._collection]

    def load(self, folder: Path) -> LoadedIndex:
        """Count the objects, and list the just sent objects that are missing."""
        with self._server.translated(lambda: "counting the objects"):
            answer = self._server.query(f"{{Aggregate{{{self._collection}{{meta{{count}}}}}}}}")
        documents = int(answer["Aggregate"][self._collection][0]["meta"]["count"])
        missing = self.absent_rows(documents, self._stored_rows)
        index = str(self.parameters["index"])
        state: dict[str, ParameterValue] = {
            "server": self._server.address.url,
            "authentication": self._server.address.authentication,
            "collection": self._collection,
            "kept": self.parameters["keep"],
            "repeated_calls": self._server.repeated,
            "index": index,
            "shards": len(self._shards()),
            "vectors_in_graph": documents if index == "hnsw" else 0,
        }
        return LoadedIndex(documents, state, self._dimensions(), missing)

    def _dimensions(self) -> int | None:
        options: dict[str, str | int] = {"class": self._collection, "limit": 1, "include": "vector"}
        objects = self._server.ask("reading an object", "GET", "/v1/objects", **options)["objects"]
        return len(objects[0]["vector"]) if objects else None

    def _stored_rows(self) -> Iterator[list[int]]:
        last = ""
        while True:
            options: dict[str, str | int] = {"class": self._collection, "limit": _PAGE, "after": last}
            page = self._server.ask("listing the objects", "GET", "/v1/objects", **options)["objects"]
            if not page:
                return
            yield [_row_of(entry["id"]) for entry in page]
            last = page[-1]["id"]

    def prepare(self, queries: Float32Array, k: int) -> list[str]:
        """Spell each query in GraphQL."""
        texts = (as_json(query).decode() for query in queries)
        return [
            f"{{Get{{{self._collection}(nearVector:{{vector:{text}}} limit:{k}{self._filter_clause})"
            "{_additional{id distance}}}}"
            for text in texts
        ]

    def retrieve(self, query: str, k: int) -> Sequence[Mapping[str, Any]]:
        """Query Weaviate."""
        answer: Sequence[Mapping[str, Any]] = self._server.query(query)["Get"][self._collection]
        return answer

    def columns(self, answer: Sequence[Mapping[str, Any]]) -> tuple[Int32Array, Float64Array]:
        """Return the rows of ids, and the scores from distances."""
        hits = [hit["_additional"] for hit in answer]
        rows = np.array([_row_of(hit["id"]) for hit in hits], dtype=np.int32)
        distances = np.array([hit["distance"] for hit in hits], dtype=np.float64)
        return rows, (1.0 if self.parameters["similarity"] == "cosine" else 0.0) - distances

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Filter by properties."""
        columns = field_columns(saved_fields(self.folder))
        spelt = {columns[field]: json.dumps(_quoted(value), ensure_ascii=False) for field, value in conditions.items()}
        operands = [
            f'{{operator:Equal path:["{property_name}"] valueText:{value}}}' for property_name, value in spelt.items()
        ]
        if len(operands) > 1:
            self._filter_clause = f" where:{{operator:And operands:[{','.join(operands)}]}}"
        else:
            self._filter_clause = f" where:{operands[0]}" if operands else ""

    def size(self, folder: Path) -> Storage:
        """Return unknown bytes: a server does not report its disk usage."""
        return Storage(None, 0)


def _id_of(row: int) -> str:
    """Return a row as a UUID, never zero, which is not a valid UUID."""
    return str(uuid.UUID(int=row + 1))


def _row_of(name: str) -> int:
    return uuid.UUID(name).int - 1


def _quoted(value: str) -> str:
    return f'"{value}"'
