"""A collection of Milvus, on a server or in a file of Milvus Lite: building, reading and searching it.

Both speak the same protocol. :mod:`harness.engines.milvus.lite` runs the server of a file.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as AnyCollection
from functools import partial
from importlib.metadata import version
from math import inf
from pathlib import Path
from typing import Any, NamedTuple, Self

from harness.data.filtering import Conditions
from harness.data.progress import Progress
from harness.data.types import Similarity
from harness.engines.external_index import source_folder
from harness.engines.index_folder import REBUILD, allocated_bytes
from harness.engines.interface import EngineInfo, Storage
from harness.engines.milvus.conditions import DYNAMIC, ScalarField, compare, condition_on, escape
from harness.engines.milvus.connection import PACKAGE, Connection, Retrier, connect, open_client, require_milvus
from harness.engines.milvus.lite import LiteServer
from harness.engines.remote_server import Address, Cause, Fault, FaultError, ServerClient
from harness.engines.server_collection import (
    create_collection,
    new_name,
    remove_collection,
    save_name,
    saved_name,
)
from harness.errors import EngineUnavailableError
from harness.registry.parameters import ParameterValue

__all__ = ["LARGEST_K", "METRICS", "ROW", "VECTOR", "Collection", "IndexSettings", "Schema", "is_server"]

LARGEST_K = 16_384
"""The maximum number of hits of a query and of entities of a page in Milvus."""
ROW, VECTOR = "harness_row", "harness_vector"
"""Fields of a collection that the harness makes: the row of the document, and the vector that is searched."""
METRICS: Mapping[Similarity, str] = {"cosine": "COSINE", "dot": "IP", "l2": "L2"}
"""Milvus's names of the similarities."""
_LITE_FILE, _LITE_COLLECTION = "milvus.db", "harness"
_LITE_READY_S = 20.0
_DATABASE = b"SQLite format 3\0"
"""The first bytes of a Milvus Lite file."""
_PAGE = 10_000
_KILLED = "look at the last lines of the log: the server of Milvus Lite may have been killed for memory"
_LITE_REMEDIES = dict.fromkeys(Cause, "report it with this message")
_LITE_REMEDIES |= {Cause.UNREACHABLE: _KILLED, Cause.BROKEN: _KILLED}
GRAPH = "HNSW"
"""The prefix of the names of graphs: HNSW_SQ, HNSW_PQ and HNSW_PRQ keep codes."""
_STATES = ("index_type", "metric_type", "indexed_rows", "pending_index_rows")


class _LiteRetrier(Retrier):
    """Calls of Milvus Lite, repeated while it is starting: on a busy machine it listens before it is ready."""

    def fault_of(self, error: Exception) -> Fault:
        """Return the fault of an error; only a server that is not ready is worth a pause."""
        fault = super().fault_of(error)
        return fault if fault.cause is Cause.BUSY else fault._replace(pause_s=inf)


class IndexSettings(NamedTuple):
    """The index of the vector field that is searched, in Milvus's own words.

    ``metric`` is empty if it is read from an external index; ``building`` are parameters of the index.
    """

    type: str
    metric: str
    building: Mapping[str, ParameterValue]


class Schema(NamedTuple):
    """Fields of a collection: its primary key, and vectors with their kind.

    ``vectors`` maps names to ``dense``, ``sparse``, ``function`` (Milvus computes it from the field that ``made_of``
    names) or another type's own name; ``dimensions`` belong to dense vectors. ``fields`` are the other fields, the
    primary key first, and ``dynamic`` is true if entities can have further fields.
    """

    key: str
    vectors: Mapping[str, str]
    dimensions: Mapping[str, int]
    made_of: Mapping[str, str]
    fields: Mapping[str, ScalarField]
    dynamic: bool


def is_server(parameters: Mapping[str, ParameterValue]) -> bool:
    """Return whether a server is searched, not a file of Milvus Lite."""
    return str(parameters["mode"] or ("server" if parameters["url"] else "lite")) == "server"


class Collection(ServerClient):
    """A collection. Errors are translated, except in :meth:`search`, where translation would take time.

    ``searching`` are parameters of each search, in Milvus's own words.
    """

    def __init__(self, parameters: Mapping[str, ParameterValue], index: IndexSettings) -> None:
        self.parameters, self._settings, self._on_server = parameters, index, is_server(parameters)
        self.name, self.field, self.key, self._metric = _LITE_COLLECTION, VECTOR, ROW, index.metric
        self.searching: Mapping[str, ParameterValue] = {}
        self.retrier = Retrier(float(parameters["retry_s"])) if self._on_server else _LiteRetrier(_LITE_READY_S)
        self._limit = float(parameters["optimize_timeout_s"])
        self._client: Any = None
        self._server: Connection | None = None
        self._lite: LiteServer | None = None
        self._version, self._filter, self._owns = "", "", False
        self._folder: Path | None = None
        self._counted: int | None = None
        self.address = _lite_address("")

    @property
    def info(self) -> EngineInfo:
        """Return the running engine, once it is open."""
        external = ", an external collection" if self._counted is not None else ""
        if self._lite is None:
            return EngineInfo("Milvus", self._version, f"server{external}")
        return EngineInfo("Milvus Lite", self._version, f"embedded, in a separate process{external}")

    def create(self, folder: Path) -> Self:
        """Start on an empty ``folder``; :meth:`define` makes the collection."""
        if self._on_server:
            self.name = new_name(folder).replace("-", "_")
            save_name(folder, self.name)
        self._open(folder / _LITE_FILE)
        self._owns = True
        return self

    def load(self, folder: Path) -> Self:
        """Open the collection of :meth:`create`; raises EngineUnavailableError if it is gone."""
        if self._on_server:
            self.name = saved_name(folder)
        elif not (folder / _LITE_FILE).is_file():
            raise EngineUnavailableError(f"the index in '{folder}' has no file of Milvus Lite", fix=REBUILD)
        self._open(folder / _LITE_FILE)
        self._require("a collection that the harness made is removed when its engine closes: build it with keep=true")
        made = self.index()
        if any(name in made and made[name] != str(value) for name, value in self._settings.building.items()):
            # made with other weights of terms, which belong to the index, not to the entities
            self._ask("releasing it", "release_collection", timeout=self._limit)
            self._ask("dropping its index", "drop_index", VECTOR, timeout=self._limit)
            self._make_index()
        self.make_ready()
        return self

    def attach(self, folder: Path, progress: Progress) -> Self:
        """Open the user's collection that the parameters name; for a Milvus Lite file, a copy below ``folder``.

        Raises EngineUnavailableError if it does not exist, or if the server has not loaded it.
        """
        self.name = str(self.parameters["collection"])
        if self.parameters["path"]:
            source = source_folder(self.parameters)
            progress.start("copy", None)
            try:
                if not (source.is_file() and _is_database(source)):
                    raise EngineUnavailableError(
                        f"'{source}' is not a file of Milvus Lite", fix="name the file: path=….db"
                    )
                shutil.copyfile(source, folder / _LITE_FILE)
            except OSError as error:
                raise EngineUnavailableError(
                    f"'{source}' cannot be copied: {error}", fix="make it readable, and see that the disk is not full"
                ) from error
        self._open(folder / _LITE_FILE, str(source_folder(self.parameters)))
        self._require("")
        if self._lite is not None:
            self.make_ready()
        elif "Loaded" not in str(self._ask("looking at the collection", "get_load_state")["state"]):
            raise EngineUnavailableError(
                f"the server has not loaded the collection '{self.name}'",
                fix="load it (MilvusClient.load_collection): the harness changes nothing of it",
            )
        self._counted = self.count()
        return self

    def _open(self, file: Path, database: str = "") -> None:
        """Open the file or the server; messages call the file by the name that the user ``database``."""
        if self._on_server:
            self._server = connect(self.parameters)
            self._client, self._version, self.address = self._server.client, self._server.version, self._server.address
            return
        require_milvus()
        self._lite, self._folder, self.address = (
            LiteServer(file, database),
            file.parent,
            _lite_address(database or str(file)),
        )
        self._version = self._lite.version
        uri, timeout_s = self._lite.address, float(self.parameters["timeout_s"])
        self._client = Retrier(0).ask(self.address, "connecting", lambda: open_client(uri, timeout_s))

    def _require(self, fix: str) -> None:
        """Raise EngineUnavailableError without the collection; with ``fix`` "", list the existing collections."""
        with self.translated(lambda: f"looking for the collection ('{self.name}')"):
            try:
                if self.retrier.call(lambda: self._client.has_collection(self.name, retry_times=0)):
                    return
            except FaultError as error:
                if error.fault.cause is not Cause.REFUSED:  # no collection has a name that Milvus refuses
                    raise
        with self.translated(lambda: "listing the collections"):
            names = sorted(self.retrier.call(lambda: self._client.list_collections(retry_times=0)))
        advice = f"name an existing one (collection=): {', '.join(names) or 'there is none'}"
        lost = REBUILD if self._lite is not None and self.name == _LITE_COLLECTION else ""
        raise EngineUnavailableError(
            f"there is no collection '{self.name}' in {self.address.url}", fix=lost or fix or advice
        )

    def define(self, fields: Callable[[Any, Any], None]) -> None:
        """Make the empty collection: ``fields`` adds the searched fields to a schema, with the client's types."""
        types = require_milvus()
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=True)
        schema.add_field(ROW, types.DataType.INT64, is_primary=True)
        fields(schema, types)

        options = {"schema": schema, "consistency_level": "Strong", "retry_times": 0}
        create = partial(self._client.create_collection, self.name, **options)
        with self.translated(lambda: "creating the collection"):
            create_collection(self.retrier, create, lambda _: self._client.has_collection(self.name, retry_times=0))

    def insert(
        self,
        rows: Sequence[int],
        values: Sequence[Any],
        field: str,
        records: Sequence[Mapping[str, str]],
        *,
        replacing: bool = False,
    ) -> None:
        """Store documents: ``values`` of ``field`` and the fields of ``records``; some exist if ``replacing``."""
        entities = [
            {**record, ROW: row, field: value} for row, record, value in zip(rows, records, values, strict=True)
        ]
        tries = iter([] if replacing else [self._client.insert])

        def send() -> None:
            # a row inserted again would exist twice: a call whose answer was lost is repeated as an upsert
            next(tries, self._client.upsert)(self.name, entities, retry_times=0)

        self.retrier.ask(self.address, f"storing documents {rows[0]} to {rows[-1]} ('{self.name}')", send)

    def delete(self, rows: Sequence[int]) -> None:
        """Delete documents."""
        self._ask("deleting documents", "delete", ids=list(rows))

    def finish(self) -> None:
        """Flush, make the index and load it; raises BackendError if it takes too long."""
        self.flush()
        self._make_index()
        self.make_ready()

    def flush(self) -> None:
        """Flush all entities."""
        self._ask("flushing", "flush", timeout=self._limit)

    def _make_index(self) -> None:
        index, described = self._settings, self._client.prepare_index_params()
        described.add_index(VECTOR, index_type=index.type, metric_type=index.metric, params=dict(index.building))
        # to wait for it, the client would sleep for half a second first; Milvus Lite answers when it is made
        self._ask("making the index", "create_index", described, timeout=self._limit, sync=self._on_server)

    def make_ready(self) -> None:
        """Load the collection."""
        self._ask("loading the collection", "load_collection", timeout=self._limit)

    def count(self) -> int:
        """Return the number of entities, by a query that sees all writes."""
        answer = self._query("counting the entities", "", ["count(*)"])
        return int(answer[0]["count(*)"])

    def pages(self, *fields: str, size: int = _PAGE) -> Iterator[list[Mapping[str, Any]]]:
        """Yield all entities by ascending primary key, ``size`` at a time, with the key and the ``fields``."""
        schema = self.schema()
        condition = compare(self.key, ">=", "" if schema.fields[schema.key].kind == "VARCHAR" else -(2**63))
        while page := self._query("listing the entities", condition, [self.key, *fields], limit=size):
            yield page
            condition = compare(self.key, ">", page[-1][self.key])

    def entities(self, keys: Sequence[Any], *fields: str) -> list[Mapping[str, Any]]:
        """Return the entities of these primary keys, with the key and the ``fields``, or without any with all."""
        condition = " or ".join(compare(self.key, "==", key) for key in keys)
        return self._query("reading some entities", condition, [self.key, *(fields or ["*"])])

    def _query(self, doing: str, condition: str, fields: list[str], **more: int) -> list[Mapping[str, Any]]:
        options = {"filter": condition, "output_fields": fields, "consistency_level": "Strong"}
        return list(self._ask(doing, "query", **options, **more))

    def schema(self) -> Schema:
        """Return the fields of the collection."""
        description = self._ask("describing it", "describe_collection")
        types = require_milvus().DataType
        kinds = {types.FLOAT_VECTOR: "dense", types.SPARSE_FLOAT_VECTOR: "sparse"}
        vectors, dimensions = dict[str, str](), dict[str, int]()
        key, fields = "", dict[str, ScalarField]()
        for field in description["fields"]:
            name, kind = str(field["name"]), types(field["type"])
            if field.get("is_primary"):
                key, fields = name, {name: ScalarField(kind.name), **fields}
            elif "VECTOR" in kind.name:
                vectors[name] = "function" if field.get("is_function_output") else kinds.get(kind, kind.name)
                dimensions |= {name: int(field["params"]["dim"])} if "dim" in field["params"] else {}
            else:
                element = field.get("element_type")
                fields[name] = ScalarField(kind.name, types(element).name if element else "")
        made_of = {
            str(made): str(function["input_field_names"][0])
            for function in description.get("functions", ())
            for made in function["output_field_names"]
        }
        analysed = [str(field["name"]) for field in description["fields"] if field["params"].get("enable_analyzer")]
        if len(analysed) == 1:  # Milvus Lite lists no functions
            made_of = {name: analysed[0] for name, its_kind in vectors.items() if its_kind == "function"} | made_of
        dynamic = bool(description["enable_dynamic_field"])
        return Schema(key, vectors, dimensions, made_of, fields, dynamic)

    def index(self) -> Mapping[str, Any]:
        """Return Milvus's description of the searched field's index; empty without an index."""
        for name in self._ask("listing its indexes", "list_indexes", self.field):
            index: Mapping[str, Any] | None = self._ask("describing its index", "describe_index", name)
            if index and index.get("field_name") == self.field:
                return index
        return {}

    def choose(self, field: str, key: str, metric: str) -> None:
        """Search this field of an external collection, whose primary key is ``key``, by this metric."""
        self.field, self.key, self._metric = field, key, metric

    def restrict(self, conditions: Conditions, lists: AnyCollection[str] = ()) -> None:
        """Answer with entities whose metadata have these values; without values, with all entities.

        ``lists`` are the fields in which entities of an external collection have lists.
        """
        if self._counted is not None:
            schema = self.schema()
            self._filter = condition_on(conditions, schema.fields, schema.key, lists, dynamic=schema.dynamic)
            return
        self._filter = " and ".join(
            compare(f'{DYNAMIC}["{escape(name)}"]', "==", value) for name, value in conditions.items()
        )

    def search(self, query: Any, k: int) -> Any:
        """Return the ``k`` nearest entities: hits with ``ids`` and ``distances``; raises FaultError."""
        parameters = {"metric_type": self._metric, "params": dict(self.searching)}
        answer = self.retrier.call(
            lambda: self._client.search(
                self.name,
                data=[query],
                anns_field=self.field,
                limit=k,
                filter=self._filter,
                search_params=parameters,
                consistency_level="Strong",
                retry_times=0,
            )
        )
        return answer[0]

    def state(self) -> Mapping[str, ParameterValue]:
        """Return Milvus's description of its index and, for a server's collection, of its segments."""
        index = self.index()
        settings: dict[str, ParameterValue] = {name: index[name] for name in _STATES if name in index}
        settings |= {name: str(index[name]) for name in self._settings.building if name in index}
        if self._lite is not None:  # it does not count rows of an index
            left = {name: value for name, value in settings.items() if not name.endswith("_rows")}
            return {**left, "vectors_in_graph": 0, PACKAGE: version(PACKAGE), **self.memory()}
        segments = self._ask("listing its segments", "list_loaded_segments")
        in_graph = int(settings.get("indexed_rows", 0)) if str(index.get("index_type")).startswith(GRAPH) else 0
        return {
            "server": self.address.url,
            "authentication": self.address.authentication,
            "collection": self.name,
            **({} if self._counted is not None else {"kept": self.parameters["keep"]}),
            "repeated_calls": self.repeated,
            **settings,
            "segments": len(segments),
            "vectors_in_graph": in_graph,
            PACKAGE: version(PACKAGE),
        }

    def memory(self) -> Mapping[str, ParameterValue]:
        """Return the memory of Milvus Lite's process, which is separate from the worker; empty for a server."""
        memory_bytes = None if self._lite is None else self._lite.memory_bytes()
        return {} if memory_bytes is None else {"server_memory_bytes": memory_bytes}

    def changed(self) -> str | None:
        """Return a note if an external collection's number of entities has changed, else None."""
        now = self.count()
        if now == self._counted:
            return None
        return f"the collection '{self.name}' held {self._counted:,} entities and now holds {now:,}"

    def storage(self) -> Storage:
        """Return the allocated bytes of the file; a server does not report its disk usage."""
        return Storage(None if self._folder is None else allocated_bytes(self._folder), 0)

    def close(self) -> None:
        """Remove the collection unless it is kept, and close the client and the server of a file."""
        self.retrier.give_up()
        client, self._client = self._client, None
        try:
            if self._server is not None and self._owns and not self.parameters["keep"]:
                remove_collection(self._server, self.name)
        finally:
            if client is not None:
                client.close()
            if self._lite is not None:
                self._lite.stop()

    def _ask(self, doing: str, method: str, *arguments: object, **options: Any) -> Any:
        """Return the answer of the client's ``method`` about the collection, with translated errors."""
        options = options if "timeout" in options else {**options, "retry_times": 0}
        with self.translated(lambda: f"{doing} ('{self.name}')"):
            return self.retrier.call(lambda: getattr(self._client, method)(self.name, *arguments, **options))


def _is_database(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.read(len(_DATABASE)) == _DATABASE


def _lite_address(file: str) -> Address:
    return Address(engine="Milvus Lite", url=file, port=0, key_variable="", remedies=_LITE_REMEDIES)
