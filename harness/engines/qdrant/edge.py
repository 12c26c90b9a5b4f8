"""Qdrant Edge: Qdrant's own storage and search engine inside the process, through ``qdrant-edge-py``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from harness.data.inputs import Inputs
from harness.engines.disk import allocated_bytes
from harness.engines.interface import EngineInfo, Storage
from harness.engines.qdrant.edge_config import config_of, search_parameters
from harness.engines.qdrant.graphs import in_graphs_of_files
from harness.engines.qdrant.points import DENSE, SCROLL, TERMS, Vector, Vectors, path_of, payloads_of, points_of
from harness.engines.qdrant.segments import IndexState, Segments
from harness.engines.qdrant.settings import QdrantSettings
from harness.errors import EngineFailureError, EngineUnavailableError, HarnessError
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue

__all__ = ["PACKAGE", "REBUILD", "SHARD", "EdgeStore", "edge_client", "read_segments"]

PACKAGE = "qdrant-edge-py"
SHARD = "shard"
"""The folder of the harness's own shard, below that of the index."""
_LOOKED_AT = 1000
_INDEXING_THRESHOLD_KB = 10_000
"""Of a shard whose configuration leaves it open: 9,600 kB were left alone by Qdrant Edge 0.9.0, 10,400 kB indexed."""
REBUILD = "delete the index folder and index again; if it persists, report it with this message"
_NO_ROOM = ("No space left", "StorageFull", "FileTooLarge")


class EdgeStore:
    """One shard in one folder. Points are numbered by row; a sparse vector may be empty."""

    repeated = 0

    def __init__(self, client: ModuleType, folder: Path, settings: QdrantSettings) -> None:
        self._client, self._folder, self.settings = client, folder, settings
        self._shard: Any = None
        self._filter: Any = None
        self._names, self._measured = {TERMS: TERMS, DENSE: DENSE}, folder
        self._parameters = None if settings.dense is None else search_parameters(client, settings.dense)
        self.dimensions: int | None = None
        self.info = EngineInfo("Qdrant Edge", version(PACKAGE), "embedded")

    @classmethod
    def create(cls, folder: Path, settings: QdrantSettings) -> EdgeStore:
        """The place of a new shard below ``folder``; see :meth:`make`."""
        return cls(edge_client(), folder / SHARD, settings)

    def make(self, dimensions: int | None) -> None:
        """A new, empty shard; raises EngineUnavailableError."""
        with _translated(lambda: f"creating a shard in '{self._folder}'", EngineUnavailableError):
            config = config_of(self._client, self.settings, dimensions)
            self._shard = self._client.EdgeShard.create(str(self._folder), config)
        self.dimensions = dimensions

    @classmethod
    def load(cls, folder: Path, settings: QdrantSettings) -> EdgeStore:
        """The shard below ``folder``; ``settings`` must be those it was created with, those of searches excepted.

        The engine would take another datatype or modifier here, and keep the vectors as they are.
        """
        client, folder = edge_client(), folder / SHARD
        store = cls(client, folder, settings)
        with _translated(lambda: f"opening the shard in '{folder}'", EngineUnavailableError):
            store.dimensions = _dimensions(folder) if settings.dense is not None else None
            store._shard = client.EdgeShard.load(str(folder), config_of(client, settings, store.dimensions))
            if settings.dense is not None:
                store._require_vectors()
        return store

    def _require_vectors(self) -> None:
        """Refuse a shard of which some vectors cannot be read: Edge opens it, and searches without them."""
        points = self.count()
        sample = np.unique(np.linspace(0, max(points - 1, 0), num=min(points, _LOOKED_AT), dtype=np.int64)).tolist()
        lost = [one.id for one in self._shard.retrieve(sample, False, True) if DENSE not in (one.vector or {})]
        if lost:
            raise EngineUnavailableError(
                f"the shard in '{self._folder}' is damaged: {len(lost)} of {len(sample)} points that were looked at "
                "have lost their vectors",
                fix=REBUILD,
            )

    def index_fields(self, fields: Sequence[str]) -> None:
        """Keep an index of keywords of these fields; graphs that are made later get links for filtered searches."""
        keyword = self._client.PayloadSchemaType.Keyword
        for field in fields:
            with _translated(lambda: f"indexing the field '{field}'"):  # noqa: B023 - used inside
                self._shard.update(self._client.UpdateOperation.create_field_index(path_of(field), keyword))

    def restrict(self, wanted: Mapping[str, str]) -> None:
        """Answer with points whose payload has these values."""
        match, condition = self._client.MatchValue, self._client.FieldCondition
        must = [condition(key=path_of(field), match=match(value)) for field, value in wanted.items()]
        self._filter = self._client.Filter(must=must) if must else None

    def upsert(self, documents: Inputs, start: int, stop: int) -> None:
        """Store rows ``start`` to ``stop`` as points of those numbers, with their metadata as payload."""
        point, payloads = self._client.Point, payloads_of(documents, start, stop)
        points = [
            point(row, {name: self._of_client(vector) for name, vector in vectors.items()}, payload)
            for (row, vectors), payload in zip(points_of(documents, start, stop), payloads, strict=True)
        ]
        with _translated(lambda: f"storing documents {start} to {stop - 1}"):
            self._shard.update(self._client.UpdateOperation.upsert_points(points))

    def _of_client(self, vector: Vector) -> Any:  # noqa: ANN401 - the client is untyped
        return self._client.SparseVector(*vector) if isinstance(vector, tuple) else vector

    def optimise(self) -> bool:
        """Run the optimisers that are due; False when there was nothing to do."""
        with _translated(lambda: "optimising the segments"):
            return bool(self._shard.optimize())

    def flush(self) -> None:
        """Bring everything to disk."""
        with _translated(lambda: "writing the shard to disk"):
            self._shard.flush()

    def count(self) -> int:
        """Number of points, by the engine's exact count."""
        with _translated(lambda: "counting the points"):
            return int(self._shard.count(self._client.CountRequest(exact=True)))

    def rows(self) -> Iterator[int]:
        """Row numbers of all points, page by page."""
        offset = None
        while True:
            with _translated(lambda: "listing the points"):
                request = self._client.ScrollRequest(offset=offset, limit=SCROLL, with_payload=False, with_vector=False)
                page, offset = self._shard.scroll(request)
            yield from (int(record.id) for record in page)
            if offset is None:
                return

    def request(self, vectors: Vectors, k: int) -> Any:  # noqa: ANN401
        """A query in the client's own form: for the nearest points to its only vector."""
        ((name, vector),) = vectors.items()
        return self._client.QueryRequest(
            limit=k,
            query=self._client.Query.Nearest(self._of_client(vector), using=self._names[name]),
            filter=self._filter,
            params=self._parameters if name == DENSE else None,
            with_payload=False,
            with_vector=False,
        )

    def fused(self, vectors: Vectors, k: int) -> Any:  # noqa: ANN401
        """A query in the client's own form: for the fusion of the nearest points to each of its vectors."""
        client, fusion = self._client, self.settings.fusion
        if fusion is None:
            raise AssertionError("a fusion without its settings")
        prefetches = [
            client.Prefetch(
                fusion.candidates,
                query=client.Query.Nearest(self._of_client(vector), using=self._names[name]),
                filter=self._filter,
                params=self._parameters if name == DENSE else None,
            )
            for name, vector in vectors.items()
        ]
        method = client.Fusion.Rrf(fusion.rrf_k) if fusion.method == "rrf" else client.Fusion.Dbsf()
        return client.QueryRequest(limit=k, query=method, prefetches=prefetches, with_payload=False, with_vector=False)

    def query(self, request: Any) -> list[Any]:  # noqa: ANN401
        """Hits of a query, best first, each with ``id`` and ``score``; errors are the caller's to translate."""
        hits: list[Any] = self._shard.query(request)
        return hits

    @staticmethod
    def translated(doing: Callable[[], str], kind: type[HarnessError] = EngineFailureError) -> Any:  # noqa: ANN401
        """The context in which to call :meth:`query`; what the client raises becomes ``kind``."""
        return _translated(doing, kind)

    def state(self) -> Mapping[str, ParameterValue]:
        """The engine's account of its index: segments, their kinds of index, vectors indexed, datatype in effect."""
        with _translated(lambda: "asking for the state of the shard"):
            info = self._shard.info()
        in_graphs = {} if self.settings.dense is None else {"vectors_in_graph": self._in_graphs()}
        return {
            "points": int(info.points_count),
            "indexed_vectors": int(info.indexed_vectors_count),
            "segments": int(info.segments_count),
            **self._segments().state(),
            **in_graphs,
        }

    def _segments(self) -> Segments:
        filled = [one["config"] for one in read_segments(self._folder) if one.get("version") is not None]
        return Segments.of(filled, self._names, self.settings)

    def _in_graphs(self) -> int:
        try:
            return in_graphs_of_files(self._folder, self._names[DENSE])
        except (OSError, ValueError, KeyError) as error:
            raise EngineFailureError(
                f"the graphs of '{self._folder}' cannot be read: {error!r}", fix=REBUILD
            ) from error

    def index_state(self) -> IndexState:
        """How the shard keeps its vectors now."""
        in_graphs = self._in_graphs() if self.settings.dense is not None else None
        return IndexState(self.count(), self._segments(), in_graphs, self._indexing_threshold_kb())

    def _indexing_threshold_kb(self) -> int | None:
        """From the shard's own configuration; None for a shard that keeps none."""
        path = self._folder / "edge_config.json"
        if not path.exists():
            return None
        told = json.loads(path.read_text(encoding="utf-8")).get("optimizers", {}).get("indexing_threshold")
        return _INDEXING_THRESHOLD_KB if told is None else int(told)

    def storage(self) -> Storage:
        """Allocated bytes: the engine preallocates, so apparent sizes are several times as large."""
        log = allocated_bytes(self._measured / "wal")
        return Storage(allocated_bytes(self._measured) - log, log)

    def close(self) -> None:
        """Release the shard and its lock."""
        shard, self._shard = self._shard, None
        if shard is not None:
            with _translated(lambda: "closing the shard"):
                shard.close()


def read_segments(shard: Path) -> list[dict[str, Any]]:
    """What the files of a shard's segments say of them; raises OSError and ValueError."""
    files = sorted((shard / "segments").glob("*/segment.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _dimensions(shard: Path) -> int:
    """Of a shard's dense vectors, which its segments know; raises EngineUnavailableError."""
    try:
        return int(read_segments(shard)[0]["config"]["vector_data"][DENSE]["size"])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise EngineUnavailableError(f"the segments of '{shard}' cannot be read: {error!r}", fix=REBUILD) from error


def edge_client() -> ModuleType:
    """The client library; raises EngineUnavailableError where it is not installed."""
    return require("qdrant_edge", extra="qdrant", feature="backend qdrant")


@contextmanager
def _translated(doing: Callable[[], str], kind: type[HarnessError] = EngineFailureError) -> Iterator[None]:
    """Turn what the client raises into ``kind``.

    Its engine errors are bare ``Exception`` objects, a panic of the Rust code is a ``BaseException`` of a module that
    cannot be imported, and wrong arguments are ValueError or OverflowError. Everything else passes.
    """
    try:
        yield
    except BaseException as error:
        if not _is_the_clients(error):
            raise
        raise kind(f"Qdrant Edge failed while {doing()}: {error}", fix=_remedy(str(error))) from error


def _is_the_clients(error: BaseException) -> bool:
    panic = type(error).__module__ == "pyo3_runtime"
    return panic or type(error) is Exception or isinstance(error, ValueError | OverflowError)


def _remedy(message: str) -> str:
    if "WAL" in message and "WouldBlock" in message:
        return "another process or engine has this index open: close it first"
    if any(sign in message for sign in _NO_ROOM):
        return "free disk space, or raise the limit on file sizes, then index again: the log alone reserves 64 MB"
    return REBUILD
