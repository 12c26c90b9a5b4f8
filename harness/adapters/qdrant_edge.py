"""Qdrant Edge: Qdrant's own storage and search engine inside the process, through ``qdrant-edge-py``."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.adapters.qdrant_settings import QdrantSettings
from harness.errors import EngineFailureError, EngineUnavailableError, HarnessError
from harness.optional import require
from harness.protocols import EngineInfo, ParameterValue, Storage
from harness.types import SparseVectors

__all__ = ["EdgeStore"]

_VECTOR = "terms"
_SCROLL = 10_000
_NO_ROOM = ("No space left", "StorageFull", "FileTooLarge")
_BLOCK_BYTES = 512  # the unit of st_blocks, whatever the file system's own blocks are


class EdgeStore:
    """One shard in one folder. Points are numbered by row; each has one sparse vector, empty ones included."""

    def __init__(self, client: ModuleType, shard: Any, folder: Path) -> None:  # noqa: ANN401 - the client is untyped
        self._client, self._shard, self._folder = client, shard, folder

    @classmethod
    def create(cls, folder: Path, settings: QdrantSettings) -> EdgeStore:
        """A new, empty shard in ``folder``; raises EngineUnavailableError."""
        client = _client()
        with _translated(lambda: f"creating a shard in '{folder}'", EngineUnavailableError):
            return cls(client, client.EdgeShard.create(str(folder), _config(client, settings)), folder)

    @classmethod
    def load(cls, folder: Path, settings: QdrantSettings) -> EdgeStore:
        """The shard that ``folder`` holds; ``settings`` must be those it was created with, threads excepted.

        The engine would take another datatype or modifier here, and keep the vectors as they are.
        """
        client = _client()
        with _translated(lambda: f"opening the shard in '{folder}'", EngineUnavailableError):
            return cls(client, client.EdgeShard.load(str(folder), _config(client, settings)), folder)

    @staticmethod
    def engine_info() -> EngineInfo:
        """Name and version of the engine."""
        _client()
        return EngineInfo("Qdrant Edge", version("qdrant-edge-py"), "embedded")

    def upsert(self, vectors: SparseVectors, start: int, stop: int) -> None:
        """Store rows ``start`` to ``stop`` as points of those numbers."""
        # One conversion to lists a batch: slicing lists is several times faster than slicing arrays row by row.
        low, high = int(vectors.indptr[start]), int(vectors.indptr[stop])
        bounds = (vectors.indptr[start : stop + 1] - low).tolist()
        indices, values = vectors.indices[low:high].tolist(), vectors.values[low:high].tolist()
        point, sparse = self._client.Point, self._client.SparseVector
        points = [
            point(row, {_VECTOR: sparse(indices[a:b], values[a:b])})
            for row, a, b in zip(range(start, stop), bounds, bounds[1:], strict=False)
        ]
        with _translated(lambda: f"storing documents {start} to {stop - 1}"):
            self._shard.update(self._client.UpdateOperation.upsert_points(points))

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
                request = self._client.ScrollRequest(
                    offset=offset, limit=_SCROLL, with_payload=False, with_vector=False
                )
                page, offset = self._shard.scroll(request)
            yield from (int(record.id) for record in page)
            if offset is None:
                return

    def request(self, indices: Sequence[int], values: Sequence[float], k: int) -> Any:  # noqa: ANN401
        """A query in the client's own form."""
        nearest = self._client.Query.Nearest(self._client.SparseVector(indices, values), using=_VECTOR)
        return self._client.QueryRequest(limit=k, query=nearest, with_payload=False, with_vector=False)

    def query(self, request: Any) -> list[Any]:  # noqa: ANN401
        """Hits of a query, best first, each with ``id`` and ``score``; errors are the caller's to translate."""
        hits: list[Any] = self._shard.query(request)
        return hits

    @staticmethod
    def translated(doing: Callable[[], str]) -> Any:  # noqa: ANN401
        """The context in which to call :meth:`query`."""
        return _translated(doing)

    def state(self) -> Mapping[str, ParameterValue]:
        """The engine's account of its index: segments, their kinds of index, vectors indexed, datatype in effect."""
        with _translated(lambda: "asking for the state of the shard"):
            info = self._shard.info()
        filled = [segment for segment in self._segments() if segment.get("version") is not None]
        indexes = [segment["config"]["sparse_vector_data"][_VECTOR]["index"] for segment in filled]
        kinds = Counter(str(index["index_type"]) for index in indexes)
        # A mutable index keeps float32 whatever the datatype asked for; only an optimised segment stores it.
        datatypes = {_stored_datatype(index) for index in indexes}
        return {
            "points": int(info.points_count),
            "indexed_vectors": int(info.indexed_vectors_count),
            "segments": int(info.segments_count),
            "filled_segments": len(filled),
            "index_types": ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items())),
            "datatype_in_effect": ", ".join(sorted(datatypes)),
        }

    def _segments(self) -> list[dict[str, Any]]:
        files = sorted((self._folder / "segments").glob("*/segment.json"))
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def storage(self) -> Storage:
        """Allocated bytes: the engine preallocates, so apparent sizes are several times as large."""
        log_folder = self._folder / "wal"
        sizes = {path: path.stat().st_blocks * _BLOCK_BYTES for path in self._folder.rglob("*") if path.is_file()}
        log = sum(size for path, size in sizes.items() if path.is_relative_to(log_folder))
        return Storage(sum(sizes.values()) - log, log)

    def close(self) -> None:
        """Release the shard and its lock."""
        with _translated(lambda: "closing the shard"):
            self._shard.close()


def _stored_datatype(index: Mapping[str, Any]) -> str:
    return "float32" if index["index_type"] == "MutableRam" else str(index.get("datatype") or "float32")


def _client() -> ModuleType:
    return require("qdrant_edge", extra="qdrant", feature="backend qdrant")


def _datatypes(client: ModuleType) -> Mapping[str, Any]:
    kinds = client.VectorStorageDatatype
    return {"float32": kinds.Float32, "float16": kinds.Float16, "uint8": kinds.Uint8}


def _config(client: ModuleType, settings: QdrantSettings) -> Any:  # noqa: ANN401 - the client is untyped
    vectors = client.EdgeSparseVectorParams(
        modifier=client.Modifier.Idf if settings.idf else None,
        datatype=_datatypes(client)[settings.datatype],
        on_disk=settings.on_disk,
        full_scan_threshold=settings.full_scan_threshold,
    )
    optimisers = client.EdgeOptimizersConfig(
        default_segment_number=settings.default_segment_number,
        max_segment_size=settings.max_segment_size_kb,
        indexing_threshold=settings.indexing_threshold_kb,
    )
    return client.EdgeConfig(
        sparse_vectors={_VECTOR: vectors},
        optimizers=optimisers,
        max_search_threads=settings.threads or None,
        wal_enabled=settings.wal,
    )


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
    return "delete the index folder and index again; if it persists, report it with this message"
