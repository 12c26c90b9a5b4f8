"""The engines on Qdrant: sparse vectors, dense vectors, and Qdrant's own hybrid of both.

A collection is written and searched in the process (:mod:`harness.engines.qdrant.edge`) or on a server
(:mod:`harness.engines.qdrant.server`); for the engines they differ only in the allowed parameters.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Ids, Int32Array, SparseVectors
from harness.engines.base import (
    Capabilities,
    ClientEngine,
    Documents,
    EngineInfo,
    External,
    ExternalVectorIndex,
    Filterable,
    HitCollector,
    LoadedIndex,
    Storage,
)
from harness.engines.changeable import Changeable, Changes
from harness.engines.checks import require_dense, require_sparse
from harness.engines.interface import Caveats, Hits, SearchResult
from harness.engines.qdrant.collection import Collection, Point, Vector, Vectors, caveats_of
from harness.engines.qdrant.connection import ADDRESS_RULES, address_of, open_server
from harness.engines.qdrant.edge import PACKAGE, SHARD, EdgeCollection
from harness.engines.qdrant.external_index import ExternalPoints, pages, payload_paths
from harness.engines.qdrant.parameters import DENSE, LEAST_SQUARE, NEUTRAL, TERMS, QdrantSettings
from harness.engines.qdrant.server import ServerCollection
from harness.engines.remote_server import ServerKind
from harness.engines.server_collection import mode_of, new_name, saved_name
from harness.errors import EngineTimeoutError
from harness.registry.optional import versions_of
from harness.registry.parameters import ParameterValue


class PointsEngine(ClientEngine[Inputs], Filterable[Inputs], ExternalVectorIndex[Inputs], Changeable[Inputs]):
    """The base of engines on Qdrant; its subclasses differ in the vectors that a point has."""

    search_parameters = frozenset(
        {
            *("threads", "optimize_timeout_s"),
            *("url", "transport", "grpc_port", "api_key_env", "keep"),
            *("timeout_s", "retry_s", "upload_threads", "search_batch"),
            *("hnsw_ef", "exact", "rescore", "oversampling", "ignore_quantization"),
            *("fusion", "rrf_k", "candidates"),
        }
    )

    _collection: Collection
    _points: ExternalPoints
    _idf_state: Mapping[str, ParameterValue] = {}

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self._settings = QdrantSettings.of(parameters, self.capabilities.input)

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        """Return the mode and the engine's version, which a server reports; loads no engine.

        Raises EngineUnavailableError if the server does not answer.
        """
        mode = mode_of(parameters, NEUTRAL)
        if mode == "edge":
            return {"mode": mode, **versions_of(PACKAGE)}
        connection = open_server(parameters)
        connection.close()
        return {"mode": mode, "url": connection.address.url, "qdrant": connection.version}

    @classmethod
    def server_kind(cls) -> ServerKind:
        """Return the description of Qdrant's servers."""
        return ServerKind(ADDRESS_RULES, open_server)

    def require_address(self) -> None:
        """Raise EngineUnavailableError if a server is to be searched but is not named."""
        if self._settings.mode == "server":
            address_of(self._settings.server)

    def info(self) -> EngineInfo:
        """Open the collection of the folder, or prepare to make one."""
        if self._settings.mode == "edge":
            self._collection = self.use(EdgeCollection(self.folder / SHARD, self._settings))
        else:
            name = saved_name(self.folder) if self.finished else new_name(self.folder)
            self._collection = self.use(ServerCollection(name, self._settings, self.folder))
        if self.finished:
            self._collection.load()
        return self._collection.info

    def check(self, inputs: Inputs, role: str, dimensions: int | None) -> Inputs:
        """Return inputs with the vectors of points; see :func:`require_sparse` and :func:`require_dense`."""
        dense = self._settings.dense
        if self._settings.sparse is not None:
            require_sparse(inputs, role)
        if dense is not None:
            cosine = dense.similarity == "cosine"
            require_dense(inputs, role, cosine=cosine, dimensions=dimensions, least=LEAST_SQUARE)
        return inputs

    def create(self, folder: Path, documents: Documents[Inputs]) -> None:
        """Make the collection, with a keyword index for each field of the metadata."""
        sparse, dense = documents.column.sparse, documents.column.dense
        self._collection.make(None if self._settings.dense is None or dense is None else dense.shape[1])
        for field in documents.fields:
            self._collection.index_field(field, _quoted(field))
        if self._settings.sparse is not None and sparse is not None:
            with_terms = len(sparse.nonempty_rows)
            self._idf_state = {"idf_documents": with_terms, "empty_vectors": len(sparse) - with_terms}

    def build(self, folder: Path, documents: Documents[Inputs], progress: Progress) -> None:
        """Send all documents in batches; getting ready means optimising until idle, and writing to disk.

        Documents without terms are also sent, with an empty vector: Qdrant counts them as points, but its idf does not.
        """
        documents = documents.with_ids() if self._settings.server.keep else documents
        size, interval = self._settings.batch_size, self._settings.optimize_every
        if self._settings.senders > 1:
            self._send_in_bulk(documents, progress)
        else:
            for start, stop in documents.batches(size, progress):
                self._collection.upsert(_points_of(documents, start, stop), start, stop)
                if interval and start // interval != stop // interval:
                    self._collection.optimise()
        self._get_ready(progress)

    def _send_in_bulk(self, documents: Documents[Inputs], progress: Progress) -> None:
        size, pool = self._settings.batch_size, ThreadPoolExecutor(self._settings.senders, thread_name_prefix="upload")

        def send(start: int) -> int:
            stop = min(start + size, len(documents))
            self._collection.upsert(_points_of(documents, start, stop), start, stop)
            return stop - start

        try:
            for sent in as_completed([pool.submit(send, start) for start in range(0, len(documents), size)]):
                progress.advance(sent.result())
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after a failure, do not wait for calls that would retry

    def _get_ready(self, progress: Progress) -> None:
        progress.start("optimise", None)
        deadline = time.monotonic() + self._settings.optimize_timeout_s
        while self._collection.optimise():
            if time.monotonic() > deadline:
                raise EngineTimeoutError(
                    f"Qdrant was still optimising after {self._settings.optimize_timeout_s:g} s",
                    fix="raise 'optimize_timeout_s'",
                )
        self._collection.flush()

    def change(self, folder: Path, changes: Changes[Inputs], progress: Progress) -> None:
        """Delete points and upsert others, in batches; getting ready is the same as after a build.

        The optimiser removes deleted points from a segment when it has enough of them; until then Qdrant's idf counts
        them.
        """
        size, deleted = self._settings.batch_size, changes.deleted
        for start in range(0, len(deleted), size):
            part = deleted[start : start + size]
            self._collection.delete(part.tolist())
            progress.advance(len(part))
        for start, stop in changes.written.batches(size, progress):
            self._collection.upsert(_points_of(changes.written, start, stop, changes.rows), start, stop)
        self._idf_state = {}
        self._get_ready(progress)

    def load(self, folder: Path) -> LoadedIndex:
        """Count the points, and list the just sent points that are missing."""
        documents, state = self._collection.count(), {**self._collection.state(), **self._idf_state}
        stored = (np.array([point.id for point in page], dtype=np.int64) for page in pages(self._collection))
        missing = self.absent_rows(documents, lambda: stored)
        return LoadedIndex(documents, state, self._collection.dimensions, missing)

    def prepare(self, queries: Inputs, k: int) -> list[Any]:
        """Make queries in the client's form; None for a query without a vector, which is not sent."""
        make = self._collection.nearest if self._settings.fusion is None else self._collection.fused
        return [make(vectors, k) if vectors else None for vectors in _vectors_of(queries)]

    def retrieve(self, query: Any, k: int) -> list[Any]:
        """Search; Qdrant makes a list of Python hits inside its own call, which counts as search."""
        return self._collection.query(query)

    def search_prepared(self, prepared: list[Any], ids: Ids, k: int, clock: Clock) -> SearchResult:
        """Make a call per query, or a call for several: each query then gets an equal share of the call's time."""
        size = self._settings.server.search_batch
        if size == 1:
            return super().search_prepared(prepared, ids, k, clock)
        collector, collection = HitCollector(), cast("ServerCollection", self._collection)
        for start in range(0, len(ids), size):
            requests = prepared[start : start + size]
            sent = [request for request in requests if request is not None]
            first, last = ids[start], ids[start + len(requests) - 1]
            with collection.translated(lambda: f"searching for queries '{first}' to '{last}'"):  # noqa: B023 - used inside
                started = clock()
                answers = iter(collection.query_batch(sent) if sent else [])
                searched = clock()
            columns = [self.arrays(next(answers) if request is not None else []) for request in requests]
            transferred = clock() - searched
            for rows, scores in columns:
                collector.add(rows, scores, (searched - started) // len(columns), transferred // len(columns))
        return collector.result(queries_per_call=size)

    def columns(self, answer: Sequence[Any]) -> tuple[Int32Array, Float32Array]:
        """Make arrays of hits; rows of an external index follow Qdrant's order of points."""
        if self._settings.external is not None:
            return self._points.columns(answer)
        rows = np.fromiter([hit.id for hit in answer], dtype=np.int32, count=len(answer))
        return rows, np.fromiter([hit.score for hit in answer], dtype=np.float32, count=len(answer))

    def filter(self, conditions: Mapping[str, str]) -> None:
        """Filter by payload."""
        paths_of = payload_paths if self._settings.external is not None else lambda field: [_quoted(field)]
        self._collection.restrict([(paths_of(field), value) for field, value in conditions.items()])

    def size(self, folder: Path) -> Storage:
        """Return the bytes of the shard and of its write-ahead log; a server's own estimate, without a log."""
        return self._collection.storage()

    @cached_property
    def source(self) -> Path | None:  # type: ignore[override]  # it may be assigned
        """The folder of the user's shard; None for a collection on a server."""
        return self._settings.external.folder if self._settings.external is not None else None

    def open_external(self, folder: Path, progress: Progress) -> External:
        """Open a copy of the user's shard, or a server's collection with read-only calls."""
        external, changed = self._settings.external, None
        if external is None:
            raise AssertionError("an external index that the settings do not name")
        if external.folder is not None:
            self._collection = shard = self.use(EdgeCollection(folder / SHARD, self._settings))
            shard.attach(external.folder, progress)
        else:
            self._collection = collection = self.use(ServerCollection(external.collection, self._settings))
            collection.attach()
            changed = collection.changed
        self._settings = self._collection.settings
        self._points = ExternalPoints(self._collection, external, progress)
        dense = self._settings.dense
        read: Mapping[str, ParameterValue] = {} if dense is None else {"similarity": dense.similarity}
        ids = self._points.ids
        loaded = LoadedIndex(len(ids), {**read, **self._collection.state()}, self._collection.dimensions)
        points = self._points
        return External(self._collection.info, ids, loaded, folder, changed, points, points.values, metadata=points)

    def searched_state(self, k: int) -> Mapping[str, ParameterValue]:
        """Return 0 vectors in graphs if every search scans."""
        dense = self._settings.dense
        return {"vectors_in_graph": 0} if dense is not None and dense.exact else {}

    def caveats(self, k: int) -> Caveats:
        """Return parameters without effect, because no segment is optimised, compressed or searched by a graph."""
        return caveats_of(self._settings, self._collection.index_state())


class QdrantEngine(PointsEngine):
    """Sparse vectors in Qdrant, searched exactly through its inverted index, optionally with its own idf.

    Equal scores have no fixed order: in a segment that the optimiser has not processed it changes from build to build,
    and the top 3 need not be the beginning of the top 5.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=True, deterministic=False, reopens=True, keeps_k_prefix=False, filters_external=True
    )
    name = "qdrant"


class QdrantDenseEngine(PointsEngine):
    """Dense vectors in Qdrant: an HNSW graph, or a scan of all vectors.

    Segments below ``indexing_threshold_kb`` have no graph, and those below ``full_scan_threshold_kb`` are scanned even
    if they have a graph: the state's ``vectors_in_graph`` is the number of vectors found by a graph. Graphs differ from
    build to build. Scores are Qdrant's own for cosine and dot product; for ``l2`` Qdrant gives the distance ``d``, and
    the score is ``-d²``.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense", exact=False, deterministic=False, reopens=True, keeps_k_prefix=False, filters_external=True
    )
    name = "qdrant-dense"

    def columns(self, answer: Sequence[Any]) -> tuple[Int32Array, Float32Array]:
        """Return rows and scores of hits, higher being better."""
        rows, scores = super().columns(answer)
        dense = self._settings.dense
        return rows, -np.square(scores) if dense is not None and dense.similarity == "l2" else scores


class QdrantHybridEngine(PointsEngine):
    """Qdrant's own hybrid query: one query with two prefetches, fused by reciprocal ranks or by distributions.

    Each prefetch gives the best ``candidates`` of one vector; a query without terms has only the dense vector's
    prefetch. So a query has at most twice as many hits as candidates. Reciprocal ranks separate documents of equal
    score by their places, which have no fixed order.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="hybrid",
        filters_external=True,
        exact=False,
        deterministic=False,
        reopens=True,
        keeps_k_prefix=False,
        gaps={"test_equal_scores": "with fusion=rrf equal documents have different places, and so different scores"},
    )
    name = "qdrant-hybrid"

    def lists(self, queries: Inputs, k: int, clock: Clock) -> Mapping[str, Hits]:
        """Return the hits of each prefetch: the best ``candidates`` for a query's sparse and dense vectors."""
        if self._settings.fusion is None:
            raise AssertionError("a hybrid without a fusion")
        queries = self.check(queries, "query", self._collection.dimensions)
        depth, lists = min(self._settings.fusion.candidates, self.loaded.documents), {}
        alone = {"sparse": replace(queries, dense=None), "dense": replace(queries, sparse=None)}
        for name, column in alone.items():
            nearest = self._collection.nearest
            requests = [nearest(vectors, depth) if vectors else None for vectors in _vectors_of(column)]
            result = self.search_prepared(requests, queries.ids, depth, clock)
            lists[name] = Hits(result.indptr, result.rows, result.scores)
        return lists


def _quoted(field: str) -> str:
    """Return the name of a payload's field as a path: in quotes, so that it is not split at a dot or bracket."""
    return f'"{field}"'


def _points_of(
    documents: Documents[Inputs], start: int, stop: int, numbers: Int32Array | None = None
) -> Iterator[Point]:
    """Make points of the rows ``start`` to ``stop``, with a vector, even if empty, for each column of ``documents``.

    ``numbers`` are the points' numbers; None numbers them by row. Each batch is converted to lists at once: slicing
    lists is several times faster than slicing arrays row by row.
    """
    inputs, columns = documents.column, dict[str, Iterator[Vector]]()
    if inputs.sparse is not None:
        columns[TERMS] = _sparse_rows(inputs.sparse, start, stop)
    if inputs.dense is not None:
        columns[DENSE] = iter(inputs.dense[start:stop].tolist())
    rows = range(start, stop) if numbers is None else numbers[start:stop].tolist()
    for row, payload, *vectors in zip(rows, documents.records(start, stop), *columns.values(), strict=True):
        yield Point(row, dict(zip(columns, vectors, strict=True)), payload or None)


def _sparse_rows(vectors: SparseVectors, start: int, stop: int) -> Iterator[Vector]:
    low, high = int(vectors.indptr[start]), int(vectors.indptr[stop])
    bounds = (vectors.indptr[start : stop + 1] - low).tolist()
    indices, values = vectors.indices[low:high].tolist(), vectors.values[low:high].tolist()
    for a, b in pairwise(bounds):
        yield indices[a:b], values[a:b]


def _vectors_of(queries: Inputs) -> Iterator[Vectors]:
    """Yield the vectors of each query, without an empty sparse vector."""
    for query in range(len(queries)):
        vectors: dict[str, Vector] = {}
        if queries.sparse is not None:
            indices, values = queries.sparse.row(query)
            if len(indices):
                vectors[TERMS] = indices.tolist(), values.tolist()
        if queries.dense is not None:
            vectors[DENSE] = queries.dense[query].tolist()
        yield vectors
