"""Qdrant through ``qdrant-client``: a collection on a server, reached over REST or gRPC.

A user's collection is only read, never changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from harness.engines.interface import EngineInfo, Storage
from harness.engines.qdrant.collection import Collection, IndexState, Point, Segments, Vector
from harness.engines.qdrant.connection import Retrier, address_of, connect, require_client
from harness.engines.qdrant.external_index import DenseSchema, VectorSchemas, choose_vectors
from harness.engines.qdrant.parameters import (
    DENSE,
    DISTANCES,
    QDRANT_RRF_K,
    TERMS,
    DenseSettings,
    FusionSettings,
    QdrantSettings,
)
from harness.engines.remote_server import FaultError, ServerClient, redact
from harness.engines.server_collection import create_collection, remove_collection, save_name
from harness.errors import EngineFailureError, EngineUnavailableError
from harness.registry.parameters import ParameterValue

_POLL_S = 0.1
_ALL_DETAILS = 10
_BYTES_PER_KB = 1024
_BYTES_OF = {"float32": 4, "float16": 2, "uint8": 1}
T = TypeVar("T")


class ServerCollection(ServerClient, Collection):
    """A collection on a server; if it was made here and is not to be kept, closing removes it."""

    def __init__(self, name: str, settings: QdrantSettings, folder: Path | None = None) -> None:
        """Connect to the server of ``settings``; raises as :func:`connect`.

        ``folder`` is the index's folder; None for a user's collection.
        """
        self.name, self.address, self._folder = name, address_of(settings.server), folder
        self._server = connection = connect(self.address, settings.server)
        info = EngineInfo("Qdrant", connection.version, f"server, {connection.transport}", connection.doubt)
        super().__init__(require_client("qdrant_client.models"), settings, info)
        self._client, self._transport = connection.client, connection.transport
        self.retrier = connection.retrier
        self._shards, self._owns = settings.server.shards, False
        self._content: tuple[int, str] | None = None

    def load(self) -> None:
        """Look up the collection of :meth:`make` again; raises EngineUnavailableError if it is gone."""
        if not self._exists():
            raise EngineUnavailableError(
                f"the collection '{self.name}' of the index in '{self._folder}' does not exist any more",
                fix="it is removed when the engine that made it closes: build it with keep=true, or index again",
            )
        if self.settings.dense is not None:
            self.dimensions = int(self._look().config.params.vectors[DENSE].size)

    def attach(self) -> None:
        """Open a user's collection, and record its state.

        Raises EngineUnavailableError if there is no collection of that name, and as :func:`choose_vectors`.
        """
        if not self._exists():
            raise EngineUnavailableError(
                f"there is no collection '{self.name}' on the server", fix="name an existing one: collection="
            )
        config = self._look().config
        schemas = _schemas(config, self.types.Modifier.IDF)
        chosen = choose_vectors(schemas, self.settings, f"the collection '{self.name}'")
        self.names, self.dimensions, self.settings = chosen
        self.info = replace(self.info, mode=f"{self.info.mode}, an external collection")
        self._shards = int(config.params.shard_number or 1)
        self._content = self._summary()

    def make(self, dimensions: int | None) -> None:
        """Make the empty collection, for dense vectors of ``dimensions``; a lost answer does not matter."""
        if self._folder is not None:
            save_name(self._folder, self.name)
        self._owns, self.dimensions = True, dimensions
        with self.translated(lambda: f"creating the collection '{self.name}'"):
            config = _config(self.types, self.settings, dimensions)
            create_collection(self.retrier, lambda: self._client.create_collection(self.name, **config))

    def _exists(self) -> bool:
        return bool(
            self._call(f"looking for the collection '{self.name}'", partial(self._client.collection_exists, self.name))
        )

    def index_field(self, field: str, path: str) -> None:
        """Keep a keyword index of a field."""
        keyword = self.types.PayloadSchemaType.KEYWORD
        make = partial(self._client.create_payload_index, self.name, path, field_schema=keyword, wait=True)
        self._call(f"indexing the field '{field}'", make)

    def upsert(self, points: Iterable[Point], start: int, stop: int) -> None:
        """Store points, which are documents ``start`` to ``stop``; several threads may do so at once."""
        batch = [
            self.types.PointStruct(
                id=row, vector={name: self._vector(vector) for name, vector in vectors.items()}, payload=payload
            )
            for row, vectors, payload in points
        ]
        doing = f"storing documents {start} to {stop - 1}"
        self._call(doing, lambda: self._client.upsert(self.name, batch, wait=True))

    def delete(self, rows: Sequence[int]) -> None:
        """Delete the points of these numbers."""
        points = self.types.PointIdsList(points=list(rows))
        self._call(f"deleting {len(rows)} documents", lambda: self._client.delete(self.name, points, wait=True))

    def optimise(self) -> bool:
        """Wait a moment if the server's optimiser is working; return False if it is idle."""
        info = self._look("waiting for the optimiser")
        status, queue = str(getattr(info.status, "value", info.status)), getattr(info, "update_queue", None)
        if status == "red":
            reason = redact(str(info.optimizer_status), self.address)
            raise EngineFailureError(
                f"the collection '{self.name}' is in state red: {reason}",
                fix="the server's log shows why its optimiser failed",
            )
        if status == "green" and not (queue is not None and (queue.length or queue.deferred_points)):
            return False
        if status == "grey":  # since the server's restart, the optimiser waits for an update
            nothing = self.types.OptimizersConfigDiff()
            wake = partial(self._client.update_collection, self.name, optimizers_config=nothing)
            self._call("waking the optimiser", wake)
        time.sleep(_POLL_S)
        return True

    def flush(self) -> None:
        """Do nothing: a server writes on its own schedule."""

    def count(self) -> int:
        """Return the number of points, by an exact count."""
        return int(self._call("counting the points", lambda: self._client.count(self.name, exact=True)).count)

    def scroll(self, offset: Any, limit: int, keys: Sequence[str], vectors: Sequence[str]) -> tuple[list[Any], Any]:
        """Return a page of points, each with the payload under ``keys`` and these ``vectors``, and the next offset."""
        page = partial(
            self._client.scroll,
            self.name,
            limit=limit,
            offset=offset,
            with_payload=list(keys) or False,
            with_vectors=list(vectors) or False,
        )
        records, following = self._call("listing the points", page)
        return records, following

    def read(self, ids: Sequence[Hashable]) -> list[Any]:
        """Return the points of these ids, with their whole payload and the vectors searched."""
        names = list(self.names.values())
        read = partial(self._client.retrieve, self.name, ids, with_payload=True, with_vectors=names)
        return list(self._call("reading some points", read))

    @property
    def _range(self) -> Any:
        return self.types.Range

    def _nearest_to(self, name: str, vector: Vector) -> Mapping[str, Any]:
        return {"query": self._vector(vector), "using": self.names[name]}

    def _fusion(self, fusion: FusionSettings, searches: list[Any]) -> Mapping[str, Any]:
        types = self.types
        if fusion.fusion == "rrf" and fusion.rrf_k != QDRANT_RRF_K:
            return {"prefetch": searches, "query": types.RrfQuery(rrf=types.Rrf(k=fusion.rrf_k))}
        # servers before 1.16 have no such constant, so Qdrant's own value is left out
        return {"prefetch": searches, "query": types.FusionQuery(fusion=types.Fusion(fusion.fusion))}

    def query(self, request: Any) -> list[Any]:
        """Return the hits of a query, best first, each with ``id`` and ``score``; raises FaultError."""
        answer = self.retrier.call(
            lambda: self._client.query_points(
                self.name,
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
        """Return the hits of several queries, sent in one call; raises FaultError."""
        answers = self.retrier.call(lambda: self._client.query_batch_points(self.name, requests))
        return [answer.points for answer in answers]

    def state(self) -> Mapping[str, ParameterValue]:
        """Return the index's location, the server's account of it, and the number of repeated calls."""
        info, server = self._look("asking for the state of the collection"), self.settings.server
        state = self.index_state(info)
        settings = {"kept": server.keep, "shards": self._shards, "replicas": server.replicas}
        return {
            "server": self.address.url,
            "transport": self._transport,
            "authentication": self.address.authentication,
            "collection": self.name,
            **(settings if self._content is None else {"shards": self._shards}),
            "repeated_calls": self.repeated,
            "points": int(info.points_count or 0),
            "indexed_vectors": int(info.indexed_vectors_count or 0),
            "segments": int(info.segments_count),
            **(state.segments.state() if state.segments is not None else {}),
            **({} if state.in_graphs is None else {"vectors_in_graph": state.in_graphs}),
        }

    def index_state(self, info: Any = None) -> IndexState:
        """Return how the collection keeps its vectors, as far as the server reports it; ``info`` is the client's."""
        info = info or self._look("asking for the state of the collection")
        points, dense = int(info.points_count or 0), self.settings.dense
        threshold = info.config.optimizer_config.indexing_threshold
        shards = self._telemetry() or []
        segments = [segment for shard in shards for segment in shard.get("segments") or []]
        in_graphs = None
        if dense is not None and self.dimensions is not None:
            indexed = min(int(info.indexed_vectors_count or 0), points)
            in_graphs = self._points_in_graphs(dense, self.dimensions, indexed, segments)
        try:
            filled = [segment["config"] for segment in segments if segment["info"]["num_points"]]
            described = Segments.of(filled, self.names, self.settings) if segments else None
        except (KeyError, TypeError):  # the server describes them differently
            described = None
        return IndexState(points, described, in_graphs, None if threshold is None else int(threshold))

    def _points_in_graphs(
        self, dense: DenseSettings, dimensions: int, indexed: int, telemetry: Sequence[Mapping[str, Any]]
    ) -> int | None:
        """Count the vectors in graphs that searches use; ``indexed`` is the server's count of vectors with an index.

        An optimised segment has a graph, but is scanned if it holds fewer vectors than fit into the full scan
        threshold. The result is None if the server does not report it, unless there are too few vectors for any graph.
        """
        threshold = dense.full_scan_threshold_kb * _BYTES_PER_KB // (dimensions * _BYTES_OF[dense.datatype])
        if dense.m == 0 or indexed < threshold or indexed == 0:
            return 0
        if not telemetry:
            return None
        vectors = [segment["info"]["vector_data"][self.names[DENSE]] for segment in telemetry]
        counts = [int(vector["num_indexed_vectors"]) for vector in vectors]
        return sum(count for count in counts if count >= threshold)

    def storage(self) -> Storage:
        """Return the server's own estimate of its vectors' bytes, without a log.

        A server does not report its disk usage, and reports its estimate only if its telemetry may be read and every
        shard is its own: otherwise the bytes are None.
        """
        shards = self._telemetry()
        try:
            return Storage(sum(int(shard["vectors_size_bytes"]) for shard in shards) if shards else None, 0)
        except (KeyError, TypeError, ValueError):
            return Storage(None, 0)

    def _telemetry(self) -> list[Mapping[str, Any]] | None:
        """Return the server's telemetry of each shard; None if any shard is missing from it."""
        request = self._client.http.client.request
        try:
            answer = Retrier(0).call(
                lambda: request(type_=dict, method="GET", url="/telemetry", params={"details_level": _ALL_DETAILS})
            )
            collections = answer["result"]["collections"]["collections"]
            (shards,) = (collection["shards"] for collection in collections if collection["id"] == self.name)
            return [{**shard["local"]} for shard in shards]
        except (FaultError, KeyError, TypeError, ValueError):
            return None

    def changed(self) -> str | None:
        """Return the change in the number of points or the configuration since :meth:`attach`, or else None."""
        if self._content is None:
            raise AssertionError("only an external collection can change")
        (points, config), (points_now, config_now) = self._content, self._summary()
        if points != points_now:
            return f"the collection '{self.name}' held {points:,} points and now holds {points_now:,}"
        return None if config == config_now else f"the configuration of the collection '{self.name}'"

    def _summary(self) -> tuple[int, str]:
        """Return the number of points and the configuration, which show a change without reading everything."""
        return self.count(), str(self._look().config.model_dump_json())

    def close(self) -> None:
        """Remove the collection if it was made here and is not kept, and close the client."""
        self.retrier.give_up()
        try:
            if self._owns and not self.settings.server.keep:
                remove_collection(self._server, self.name)
        finally:
            self._server.close()

    def _look(self, doing: str = "") -> Any:
        doing = doing or f"looking at the collection '{self.name}'"
        return self._call(doing, lambda: self._client.get_collection(self.name))

    def _call(self, doing: str, operation: Callable[[], T]) -> T:
        return self.retrier.ask(self.address, doing, operation)


def _schemas(config: Any, idf: Any) -> VectorSchemas:
    """Read the vectors of a collection; a vector's own graph parameters override its collection's."""
    vectors = config.params.vectors or {}
    dense, graphs = dict[str, DenseSchema](), config.hnsw_config
    # a collection's vector may have no name
    for name, vector in (vectors if isinstance(vectors, dict) else {"": vectors}).items():
        graph = vector.hnsw_config
        m = graph.m if graph is not None and graph.m is not None else graphs.m
        threshold = graph.full_scan_threshold if graph is not None else None
        dense[name] = DenseSchema(
            distance=str(vector.distance.value),
            dimensions=int(vector.size),
            datatype=str(vector.datatype.value) if vector.datatype is not None else "float32",
            several=vector.multivector_config is not None,
            m=int(m),
            full_scan_threshold_kb=int(graphs.full_scan_threshold if threshold is None else threshold),
        )
    sparse = {name: vector.modifier == idf for name, vector in (config.params.sparse_vectors or {}).items()}
    return VectorSchemas(sparse, dense)


def _config(models: Any, settings: QdrantSettings, dimensions: int | None) -> dict[str, Any]:
    """Return the arguments of ``create_collection``; ``dimensions`` belong to the dense vectors, None without these."""
    dense, sparse, vectors, sparse_vectors = settings.dense, settings.sparse, {}, {}
    if dense is not None:
        quantisation, kind = None, dense.quantisation and dense.quantisation.kind
        if dense.quantisation and kind:
            wrapper = getattr(models, f"{kind.capitalize()}Quantization")
            quantisation = wrapper(**{kind: dense.quantisation.config(models)})
        vectors[DENSE] = models.VectorParams(
            size=dimensions,
            distance=models.Distance(DISTANCES[dense.similarity]),
            on_disk=dense.on_disk,
            datatype=models.Datatype(dense.datatype),
            quantization_config=quantisation,
            hnsw_config=models.HnswConfigDiff(**dense.graph),
        )
    if sparse is not None:
        index = models.SparseIndexParams(
            full_scan_threshold=sparse.full_scan_threshold,
            on_disk=sparse.on_disk,
            datatype=models.Datatype(sparse.datatype),
        )
        modifier = models.Modifier.IDF if sparse.idf else None
        sparse_vectors[TERMS] = models.SparseVectorParams(index=index, modifier=modifier)
    return {
        "vectors_config": vectors,
        "sparse_vectors_config": sparse_vectors or None,
        "optimizers_config": models.OptimizersConfigDiff(**settings.optimisers),
        "shard_number": settings.server.shards,
        "replication_factor": settings.server.replicas,
    }
