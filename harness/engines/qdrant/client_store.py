"""Qdrant through ``qdrant-client``: a server over REST or gRPC."""

from __future__ import annotations

import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import orjson

from harness.data.inputs import Inputs
from harness.engines.address import Address
from harness.engines.faults import Cause, FaultError, shown
from harness.engines.interface import LEFT_BEHIND, EngineInfo, Storage
from harness.engines.qdrant.address import address_of
from harness.engines.qdrant.client_config import collection_of, filter_of, fusion_of, search_parameters
from harness.engines.qdrant.connect import connect
from harness.engines.qdrant.faults import Retrier, require_client, translated
from harness.engines.qdrant.graphs import in_graphs_of_server
from harness.engines.qdrant.points import DENSE, SCROLL, TERMS, Vector, Vectors, path_of, payloads_of, points_of
from harness.engines.qdrant.segments import IndexState, Segments
from harness.engines.qdrant.settings import QdrantSettings
from harness.errors import EngineFailureError, EngineUnavailableError
from harness.registry.parameters import ParameterValue

__all__ = ["COLLECTION_FILE", "ClientStore"]

COLLECTION_FILE = "collection.json"
"""Beside the manifest: which collection of which server holds the index."""

_POLL_S = 0.1
_GONE_S = 1.5
_ANSWER_S = 2.0
"""Both are shorter than the grace that a worker is given to end: what is left must still be said."""
_ALL_DETAILS = 10
_log = logging.getLogger("harness")


class ClientStore:
    """One collection. Points are numbered by row; a sparse vector may be empty.

    A store that created its collection removes it when it is closed, unless it is to be kept; one that found it leaves
    it alone.
    """

    def __init__(
        self,
        client: Any,  # noqa: ANN401 - the client is imported late
        collection: str,
        settings: QdrantSettings,
        *,
        info: EngineInfo,
        address: Address,
        described: Mapping[str, ParameterValue] | None = None,
        folder: Path | None = None,
    ) -> None:
        """``described`` is what is known of the way to the server; ``folder`` is the index's, where it has one."""
        self.info, self.collection = info, collection
        self._client, self.settings, self._address, self._folder = client, settings, address, folder
        self._described, self._owns = dict(described or {}), False
        self._names = {TERMS: TERMS, DENSE: DENSE}
        self.dimensions: int | None = None
        self._filter: Any = None
        self._models = require_client("qdrant_client.models")
        self._parameters = None if settings.dense is None else search_parameters(self._models, settings.dense)
        self._retrier = Retrier(settings.server.retry_s)

    @classmethod
    def create(cls, folder: Path, settings: QdrantSettings) -> ClientStore:
        """The way to a new collection, named after ``folder``; raises what :func:`connect` raises. See :meth:`make`."""
        key = re.sub(r"[^A-Za-z0-9_-]", "", folder.name)[:40]
        return cls._connected(folder, settings, f"harness-{key}-{secrets.token_hex(4)}")

    @classmethod
    def load(cls, folder: Path, settings: QdrantSettings) -> ClientStore:
        """The collection that ``folder`` names; raises EngineUnavailableError when it is gone or cannot be told."""
        store = cls._connected(folder, settings, _read(folder))
        try:
            if not store.exists():
                raise EngineUnavailableError(
                    f"the collection '{store.collection}' of the index in '{folder}' does not exist any more",
                    fix="it is removed when the engine that made it closes: build it with keep=true, or index again",
                )
            store.dimensions = store.found_dimensions() if settings.dense is not None else None
        except BaseException:
            store.close()
            raise
        return store

    @classmethod
    def _connected(cls, folder: Path, settings: QdrantSettings, collection: str) -> Self:
        address = address_of(settings.server)
        found = connect(address, settings.server)
        described: dict[str, ParameterValue] = {
            "server": address.url,
            "transport": found.transport,
            "authentication": address.authentication,
        }
        info = EngineInfo("Qdrant", found.version, f"server, {found.transport}", found.doubt)
        return cls(found.client, collection, settings, info=info, address=address, described=described, folder=folder)

    def make(self, dimensions: int | None) -> None:
        """Make the empty collection; an answer that was lost on the way does not matter."""
        if self._folder is not None:
            _write(self._folder, self.collection)
        self._owns = True
        self.dimensions = dimensions
        with self.translated(lambda: f"creating the collection '{self.collection}'"):
            collection = collection_of(self._models, self.settings, dimensions)
            try:
                self._call(lambda: self._client.create_collection(self.collection, **collection))
            except FaultError as error:
                # the name is random: what exists was made by a try whose answer was lost
                if error.fault.cause is not Cause.CONFLICT or error.tries == 1:
                    raise

    def found_dimensions(self) -> int:
        """Of the dense vectors in the collection, by its configuration."""
        with self.translated(lambda: f"looking at the collection '{self.collection}'"):
            config = self._call(lambda: self._client.get_collection(self.collection)).config
        return int(config.params.vectors[DENSE].size)

    def exists(self) -> bool:
        """Whether the collection is there."""
        with self.translated(lambda: f"looking for the collection '{self.collection}'"):
            return bool(self._call(lambda: self._client.collection_exists(self.collection)))

    def index_fields(self, fields: Sequence[str]) -> None:
        """Keep an index of keywords of these fields."""
        keyword = self._models.PayloadSchemaType.KEYWORD
        for field in fields:
            with self.translated(lambda: f"indexing the field '{field}'"):  # noqa: B023 - used inside
                self._call(
                    lambda: self._client.create_payload_index(
                        self.collection,
                        path_of(field),  # noqa: B023 - called at once
                        field_schema=keyword,
                        wait=True,
                    )
                )

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Answer with points whose payload has these values."""
        self._filter = filter_of(self._models, wanted)

    def upsert(self, documents: Inputs, start: int, stop: int) -> None:
        """Store rows ``start`` to ``stop`` as points of those numbers, with their metadata as payload; several threads
        may do so at once.
        """
        point, payloads = self._models.PointStruct, payloads_of(documents, start, stop)
        points = [
            point(id=row, vector={name: self._of_client(vector) for name, vector in vectors.items()}, payload=payload)
            for (row, vectors), payload in zip(points_of(documents, start, stop), payloads, strict=True)
        ]
        with self.translated(lambda: f"storing documents {start} to {stop - 1}"):
            self._call(lambda: self._client.upsert(self.collection, points, wait=True))

    def _of_client(self, vector: Vector) -> Any:  # noqa: ANN401 - the client is imported late
        if isinstance(vector, tuple):
            return self._models.SparseVector(indices=vector[0], values=vector[1])
        return vector

    def optimise(self) -> bool:
        """Wait a moment when the server's optimiser is at work; False when it is idle."""
        with self.translated(lambda: "waiting for the optimiser"):
            info = self._call(lambda: self._client.get_collection(self.collection))
        status, queue = str(getattr(info.status, "value", info.status)), getattr(info, "update_queue", None)
        if status == "red":
            said = shown(str(info.optimizer_status), self._address)
            raise EngineFailureError(
                f"the collection '{self.collection}' is in state red: {said}",
                fix="the server's log says what its optimiser failed at",
            )
        if status == "green" and not (queue is not None and (queue.length or queue.deferred_points)):
            return False
        if status == "grey":  # the optimiser waits for an update since the server was started again
            with self.translated(lambda: "waking the optimiser"):
                self._call(
                    lambda: self._client.update_collection(
                        self.collection, optimizers_config=self._models.OptimizersConfigDiff()
                    )
                )
        time.sleep(_POLL_S)
        return True

    def flush(self) -> None:
        """Nothing to do: a server writes by its own schedule."""

    def count(self) -> int:
        """Number of points, by an exact count."""
        with self.translated(lambda: "counting the points"):
            return int(self._call(lambda: self._client.count(self.collection, exact=True)).count)

    def rows(self) -> Iterator[int]:
        """Row numbers of all points, page by page."""
        offset: Any = None
        while True:
            with self.translated(lambda: "listing the points"):
                page, offset = self._call(lambda: self._scroll(offset))  # noqa: B023 - called before offset changes
            yield from (int(record.id) for record in page)
            if offset is None:
                return

    def _scroll(self, offset: Any) -> Any:  # noqa: ANN401 - the client's own types
        return self._client.scroll(self.collection, limit=SCROLL, offset=offset, with_payload=False, with_vectors=False)

    def request(self, vectors: Vectors, k: int) -> Any:  # noqa: ANN401
        """A query in the client's own form: for the nearest points to its only vector."""
        ((name, vector),) = vectors.items()
        return self._models.QueryRequest(
            query=self._of_client(vector),
            using=self._names[name],
            filter=self._filter,
            params=self._parameters if name == DENSE else None,
            limit=k,
            with_payload=False,
            with_vector=False,
        )

    def fused(self, vectors: Vectors, k: int) -> Any:  # noqa: ANN401
        """A query in the client's own form: for the fusion of the nearest points to each of its vectors."""
        models, fusion = self._models, self.settings.fusion
        if fusion is None:
            raise AssertionError("a fusion without its settings")
        prefetch = [
            models.Prefetch(
                query=self._of_client(vector),
                using=self._names[name],
                params=self._parameters if name == DENSE else None,
                limit=fusion.candidates,
                filter=self._filter,
            )
            for name, vector in vectors.items()
        ]
        method = fusion_of(models, fusion)
        return models.QueryRequest(prefetch=prefetch, query=method, limit=k, with_payload=False, with_vector=False)

    def query(self, request: Any) -> list[Any]:  # noqa: ANN401
        """Hits of a query, best first, each with ``id`` and ``score``; raises FaultError."""
        answer = self._call(
            lambda: self._client.query_points(
                self.collection,
                query=request.query,
                using=request.using,
                prefetch=request.prefetch,
                query_filter=request.filter,
                search_params=request.params,
                limit=request.limit,
                with_payload=False,
                with_vectors=False,
            )
        )
        hits: list[Any] = answer.points
        return hits

    def query_batch(self, requests: Sequence[Any]) -> list[list[Any]]:
        """Hits of several queries in one call; raises FaultError."""
        answers = self._call(lambda: self._client.query_batch_points(self.collection, requests))
        return [answer.points for answer in answers]

    @property
    def repeated(self) -> int:
        """Calls that were made again so far."""
        return self._retrier.repeated

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """The context in which to call :meth:`query`."""
        return translated(self._address, doing)

    def state(self) -> Mapping[str, ParameterValue]:
        """Where the index is and what the server says of it; how often a call had to be made again."""
        with self.translated(lambda: "asking for the state of the collection"):
            info = self._call(lambda: self._client.get_collection(self.collection))
        server = self.settings.server
        return {
            **self._described,
            "collection": self.collection,
            "kept": server.keep,
            "shards": server.shards,
            "replicas": server.replicas,
            "repeated_calls": self.repeated,
            "points": int(info.points_count or 0),
            "indexed_vectors": int(info.indexed_vectors_count or 0),
            "segments": int(info.segments_count),
            **self._told(info),
        }

    def _told(self, info: Any) -> Mapping[str, ParameterValue]:  # noqa: ANN401 - of the client
        """What the server's telemetry adds."""
        state = self._index_state(info)
        told = dict(state.segments.state()) if state.segments is not None else {}
        return told if state.in_graphs is None else {**told, "vectors_in_graph": state.in_graphs}

    def index_state(self) -> IndexState:
        """How the collection keeps its vectors now, as far as the server tells."""
        with self.translated(lambda: "asking for the state of the collection"):
            info = self._call(lambda: self._client.get_collection(self.collection))
        return self._index_state(info)

    def _index_state(self, info: Any) -> IndexState:  # noqa: ANN401 - of the client
        points, dense = int(info.points_count or 0), self.settings.dense
        threshold = info.config.optimizer_config.indexing_threshold
        shards = self._shards_told()
        told = [one for shard in shards for one in shard.get("segments") or []] if shards is not None else None
        in_graphs = None
        if dense is not None and self.dimensions is not None:
            indexed = min(int(info.indexed_vectors_count or 0), points)
            in_graphs = in_graphs_of_server(indexed, told or None, dense, self.dimensions, self._names[DENSE])
        return IndexState(points, self._segments(told), in_graphs, None if threshold is None else int(threshold))

    def _segments(self, told: list[Mapping[str, Any]] | None) -> Segments | None:
        """The segments of a server's telemetry that hold points; None where it does not describe them."""
        if not told:
            return None
        try:
            filled = [one["config"] for one in told if one["info"]["num_points"]]
            return Segments.of(filled, self._names, self.settings)
        except (KeyError, TypeError):
            return None

    def storage(self) -> Storage:
        """The server's own estimate of its vectors' bytes; no log.

        A server tells nothing about its disk, and its estimate only where its telemetry may be read and every shard is
        its own: else the bytes are None.
        """
        shards = self._shards_told()
        try:
            return Storage(sum(int(shard["vectors_size_bytes"]) for shard in shards) if shards else None, 0)
        except (KeyError, TypeError, ValueError):
            return Storage(None, 0)

    def _shards_told(self) -> list[Mapping[str, Any]] | None:
        """What the server's telemetry says of each shard; None where it does not, or not of all of them."""
        request = self._client.http.client.request
        try:
            answer = Retrier(0).call(
                lambda: request(type_=dict, method="GET", url="/telemetry", params={"details_level": _ALL_DETAILS})
            )
            held = answer["result"]["collections"]["collections"]
            (shards,) = (one["shards"] for one in held if one["id"] == self.collection)
            return [{**shard["local"]} for shard in shards]
        except (FaultError, KeyError, TypeError, ValueError):
            return None

    def close(self) -> None:
        """Remove the collection when it is this store's to remove, and let go of the client."""
        self._retrier.give_up()
        try:
            if self._owns and not self.settings.server.keep:
                self._remove()
        finally:
            self._client.close()

    def _remove(self) -> None:
        """Called after failures too: what fails here must not hide them, and nobody waits for a server that hangs."""
        faults: list[str] = []

        def remove() -> None:
            try:
                Retrier(_GONE_S).call(lambda: self._client.delete_collection(self.collection))
            except FaultError as error:
                faults.append(shown(str(error), self._address))

        removing = threading.Thread(target=remove, daemon=True)
        removing.start()
        removing.join(_ANSWER_S)
        if removing.is_alive():
            faults.append(f"no answer within {_ANSWER_S:g} s")
        if faults:
            _log.warning(
                "%sthe collection '%s' could not be removed: %s; 'harness doctor%s --remove-left-collections' does it",
                *(LEFT_BEHIND, self.collection, " ".join(faults)),
                f" --url {self._address.url}",
            )

    def _call(self, operation: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the client returns
        return self._retrier.call(operation)


def _write(folder: Path, collection: str) -> None:
    (folder / COLLECTION_FILE).write_bytes(orjson.dumps({"collection": collection}))


def _read(folder: Path) -> str:
    path = folder / COLLECTION_FILE
    try:
        return str(orjson.loads(path.read_bytes())["collection"])
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise EngineUnavailableError(
            f"'{path}' does not say which collection holds the index: {error}", fix="delete the folder and index again"
        ) from error
