"""Qdrant Edge: Qdrant's own storage and search engine inside the process, through ``qdrant-edge-py``.

A user's shard is searched in a copy, because opening it writes to its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from harness.data.progress import Progress
from harness.engines.external_index import foreign_index_errors
from harness.engines.index_folder import allocated_bytes
from harness.engines.interface import EngineInfo, Storage
from harness.engines.qdrant.collection import Collection, IndexState, Point, Segments, Vector
from harness.engines.qdrant.external_index import DenseSchema, VectorSchemas, choose_vectors
from harness.engines.qdrant.parameters import DENSE, DISTANCES, TERMS, FusionSettings, QdrantSettings, member
from harness.errors import EngineFailureError, EngineUnavailableError, HarnessError
from harness.registry.optional import require
from harness.registry.parameters import ParameterValue
from harness.store.disk import copy_folder

PACKAGE = "qdrant-edge-py"
SHARD = "shard"
"""The folder of the harness's own shard, or of a copy, below the index's folder."""
_CONFIG = "edge_config.json"
_SAMPLE = 1000
_INDEXING_THRESHOLD_KB = 10_000
"""Default of a shard without this setting: Qdrant Edge 0.9.0 did not index 9,600 kB, but indexed 10,400 kB."""
_NO_ROOM = ("No space left", "StorageFull", "FileTooLarge")
_REBUILD = "delete the index folder and index again; if it persists, report it with this message"
_LEFT_ALONE = "the shard is left as it was: see whether this version of Qdrant Edge can read it"


class EdgeCollection(Collection):
    """A shard in a folder."""

    def __init__(self, folder: Path, settings: QdrantSettings) -> None:
        client = require("qdrant_edge", extra="qdrant", feature="backend qdrant")
        super().__init__(client, settings, EngineInfo("Qdrant Edge", version(PACKAGE), "embedded"))
        self._folder, self._measured = folder, folder
        self._shard: Any = None

    def make(self, dimensions: int | None) -> None:
        """Make the empty shard, for dense vectors of ``dimensions``; raises EngineUnavailableError."""
        with _edge_errors(lambda: f"creating a shard in '{self._folder}'", EngineUnavailableError):
            config = _config(self.types, self.settings, dimensions)
            self._shard = self.types.EdgeShard.create(str(self._folder), config)
        self.dimensions = dimensions

    def load(self) -> None:
        """Open the shard; except for searches, the settings must be the same as when it was made.

        The engine would accept another datatype or modifier here, and leave the vectors unchanged.
        """
        with _edge_errors(lambda: f"opening the shard in '{self._folder}'", EngineUnavailableError):
            self.dimensions = _dimensions(self._folder) if self.settings.dense is not None else None
            config = _config(self.types, self.settings, self.dimensions)
            self._shard = self.types.EdgeShard.load(str(self._folder), config)
            if self.settings.dense is not None:
                self._require_vectors()

    def attach(self, source: Path, progress: Progress) -> None:
        """Copy the shard in ``source`` and open the copy.

        Raises EngineUnavailableError for a folder that is not a shard, and as :func:`choose_vectors`.
        """
        chosen = choose_vectors(_schemas(source), self.settings, f"the shard in '{source}'")
        self._folder.mkdir()
        copy_folder(source, self._folder, progress)
        path = self._folder / _CONFIG
        if path.exists():  # not in every shard
            config = {**_read_config(path), "max_search_threads": self.settings.threads or None}
            path.write_text(json.dumps(config), encoding="utf-8")
        opening = _edge_errors(lambda: f"opening a copy of the shard in '{source}'", EngineUnavailableError)
        with foreign_index_errors(_REBUILD, _LEFT_ALONE), opening:
            self._shard = self.types.EdgeShard.load(str(self._folder))
        self.names, self.dimensions, self.settings = chosen
        self._measured = source
        self.info = replace(self.info, mode="embedded, a copy of an external shard")

    def _require_vectors(self) -> None:
        """Refuse a shard with unreadable vectors: Edge opens it, and searches without them."""
        points = self.count()
        sample = np.unique(np.linspace(0, max(points - 1, 0), num=min(points, _SAMPLE), dtype=np.int64)).tolist()
        records = self._shard.retrieve(sample, False, True)
        lost = sum(DENSE not in (record.vector or {}) for record in records)
        if lost:
            raise EngineUnavailableError(
                f"the shard in '{self._folder}' is damaged: {lost} of {len(sample)} points that were looked at "
                "have lost their vectors",
                fix=_REBUILD,
            )

    def index_field(self, field: str, path: str) -> None:
        """Keep a keyword index of a field; graphs made later get links for filtered searches."""
        with _edge_errors(lambda: f"indexing the field '{field}'"):
            keyword = self.types.PayloadSchemaType.Keyword
            self._shard.update(self.types.UpdateOperation.create_field_index(path, keyword))

    def upsert(self, points: Iterable[Point], start: int, stop: int) -> None:
        """Store points, which are documents ``start`` to ``stop``."""
        point, sparse = self.types.Point, self.types.SparseVector  # an additional call per document would be noticeable
        batch = [
            point(
                row,
                {name: sparse(*vector) if isinstance(vector, tuple) else vector for name, vector in vectors.items()},
                payload,
            )
            for row, vectors, payload in points
        ]
        with _edge_errors(lambda: f"storing documents {start} to {stop - 1}"):
            self._shard.update(self.types.UpdateOperation.upsert_points(batch))

    def delete(self, rows: Sequence[int]) -> None:
        """Delete the points of these numbers."""
        with _edge_errors(lambda: f"deleting {len(rows)} documents"):
            self._shard.update(self.types.UpdateOperation.delete_points(list(rows)))

    def optimise(self) -> bool:
        """Run the due optimisers; return False if there was nothing to do."""
        with _edge_errors(lambda: "optimising the segments"):
            return bool(self._shard.optimize())

    def flush(self) -> None:
        """Write everything to disk."""
        with _edge_errors(lambda: "writing the shard to disk"):
            self._shard.flush()

    def count(self) -> int:
        """Return the number of points, by the engine's exact count."""
        with _edge_errors(lambda: "counting the points"):
            return int(self._shard.count(self.types.CountRequest(exact=True)))

    def scroll(self, offset: Any, limit: int, keys: Sequence[str], vectors: Sequence[str]) -> tuple[list[Any], Any]:
        """Return a page of points, each with the payload under ``keys`` and these ``vectors``, and the next offset."""
        with _edge_errors(lambda: "listing the points"):
            request = self.types.ScrollRequest(
                offset=offset,
                limit=limit,
                with_payload=list(keys) or False,
                with_vector=list(vectors) or False,
            )
            records, following = self._shard.scroll(request)
        return records, following

    def read(self, ids: Sequence[Hashable]) -> list[Any]:
        """Return the points of these ids, with their whole payload and the vectors searched."""
        with _edge_errors(lambda: "reading some points"):
            return list(self._shard.retrieve(list(ids), True, list(self.names.values())))

    @property
    def _range(self) -> Any:
        return self.types.RangeFloat

    def _matched(self, value: str | int) -> Any:
        """Return a boolean as NumPy's: the client takes Python's for the number 1 or 0 (seen with 0.9.0)."""
        return np.bool_(value) if isinstance(value, bool) else value

    def _nearest_to(self, name: str, vector: Vector) -> Mapping[str, Any]:
        return {"query": self.types.Query.Nearest(self._vector(vector), using=self.names[name])}

    def _fusion(self, fusion: FusionSettings, searches: list[Any]) -> Mapping[str, Any]:
        kinds = self.types.Fusion
        return {"prefetches": searches, "query": kinds.Rrf(fusion.rrf_k) if fusion.fusion == "rrf" else kinds.Dbsf()}

    def query(self, request: Any) -> list[Any]:
        """Return the hits of a query, best first, each with ``id`` and ``score``."""
        hits: list[Any] = self._shard.query(request)
        return hits

    def translated(self, doing: Callable[[], str]) -> AbstractContextManager[None]:
        """Return the context in which to call :meth:`query`."""
        return _edge_errors(doing)

    def state(self) -> Mapping[str, ParameterValue]:
        """Return the engine's account of its index: segments, kinds of index, indexed vectors, datatype in effect."""
        with _edge_errors(lambda: "asking for the state of the shard"):
            info = self._shard.info()
        in_graphs = {} if self.settings.dense is None else {"vectors_in_graph": self._points_in_graphs()}
        return {
            "points": int(info.points_count),
            "indexed_vectors": int(info.indexed_vectors_count),
            "segments": int(info.segments_count),
            **self._segments().state(),
            **in_graphs,
        }

    def index_state(self) -> IndexState:
        """Return how the shard now keeps its vectors."""
        in_graphs, path, threshold = (
            self._points_in_graphs() if self.settings.dense else None,
            self._folder / _CONFIG,
            None,
        )
        if path.exists():  # not in every user's shard
            set_to = _read_config(path).get("optimizers", {}).get("indexing_threshold")
            threshold = _INDEXING_THRESHOLD_KB if set_to is None else int(set_to)
        return IndexState(self.count(), self._segments(), in_graphs, threshold)

    def _segments(self) -> Segments:
        filled = [segment["config"] for segment in read_segments(self._folder) if segment.get("version") is not None]
        return Segments.of(filled, self.names, self.settings)

    def _points_in_graphs(self) -> int:
        """Count the vectors in graphs that searches use, which differs from Qdrant's ``indexed_vectors``.

        An optimised segment has a graph, but is scanned if it holds fewer vectors than fit into
        ``full_scan_threshold``.
        """
        name = self.names[DENSE]
        index = f"vector_index-{name}" if name else "vector_index"
        try:
            segments = (self._folder / "segments").iterdir()
            files = [segment / index / "hnsw_config.json" for segment in segments]
            graphs = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.exists()]
            return sum(
                int(graph["indexed_vector_count"])
                for graph in graphs
                if graph["m"] > 0 and graph["indexed_vector_count"] >= graph["full_scan_threshold"]
            )
        except (OSError, ValueError, KeyError) as error:
            raise EngineFailureError(
                f"the graphs of '{self._folder}' cannot be read: {error!r}", fix=_REBUILD
            ) from error

    def storage(self) -> Storage:
        """Return allocated bytes: the engine preallocates, so apparent sizes are several times as large."""
        log = allocated_bytes(self._measured / "wal")
        return Storage(allocated_bytes(self._measured) - log, log)

    def close(self) -> None:
        """Release the shard and its lock."""
        shard, self._shard = self._shard, None
        if shard is not None:
            with _edge_errors(lambda: "closing the shard"):
                shard.close()


def read_segments(shard: Path) -> list[dict[str, Any]]:
    """Read the descriptions of a shard's segments from their files; raises OSError and ValueError."""
    files = sorted((shard / "segments").glob("*/segment.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def _dimensions(shard: Path) -> int:
    try:
        return int(read_segments(shard)[0]["config"]["vector_data"][DENSE]["size"])
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise EngineUnavailableError(f"the segments of '{shard}' cannot be read: {error!r}", fix=_REBUILD) from error


def _schemas(shard: Path) -> VectorSchemas:
    """Read the vectors of a user's shard from the files of its segments."""
    fix = "name the folder of one shard, which holds 'segments'"
    sparse: dict[str, bool] = {}
    dense: dict[str, DenseSchema] = {}
    try:
        segments = [segment["config"] for segment in read_segments(shard)]
        for segment in segments:
            for name, vector in (segment.get("sparse_vector_data") or {}).items():
                sparse[name] = vector.get("modifier") == "idf"
            for name, vector in segment["vector_data"].items():
                graph = vector["index"].get("options") or {}  # a segment without a graph has no such setting
                dense[name] = DenseSchema(
                    distance=str(vector["distance"]),
                    dimensions=int(vector["size"]),
                    datatype=str(vector.get("datatype") or "float32"),
                    several=vector.get("multivector_config") is not None,
                    m=int(graph.get("m", 0)),
                    full_scan_threshold_kb=int(graph.get("full_scan_threshold", 0)),
                )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineUnavailableError(f"the segments of '{shard}' cannot be read: {error!r}", fix=fix) from error
    if not segments:
        raise EngineUnavailableError(f"'{shard}' is not a shard of Qdrant: it has no segments", fix=fix)
    return VectorSchemas(sparse, dense)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineUnavailableError(f"the shard's configuration '{path}' is damaged: {error}", fix=_REBUILD) from error
    return config


def _config(client: ModuleType, settings: QdrantSettings, dimensions: int | None) -> Any:
    """Return Edge's configuration of a shard; ``dimensions`` belong to the dense vectors, None without these."""
    dense, sparse, vectors, sparse_vectors = settings.dense, settings.sparse, None, None
    if dense is not None and dimensions is not None:
        vectors = client.EdgeVectorParams(
            size=dimensions,
            distance=getattr(client.Distance, DISTANCES[dense.similarity]),
            on_disk=dense.on_disk,
            datatype=member(client.VectorStorageDatatype, dense.datatype),
            quantization_config=dense.quantisation and dense.quantisation.config(client),
            hnsw_config=client.HnswIndexConfig(**dense.graph),
        )
    if sparse is not None:
        sparse_vectors = client.EdgeSparseVectorParams(
            modifier=client.Modifier.Idf if sparse.idf else None,
            datatype=member(client.VectorStorageDatatype, sparse.datatype),
            on_disk=sparse.on_disk,
            full_scan_threshold=sparse.full_scan_threshold,
        )
    return client.EdgeConfig(
        vectors=vectors and {DENSE: vectors},
        sparse_vectors=sparse_vectors and {TERMS: sparse_vectors},
        optimizers=client.EdgeOptimizersConfig(**settings.optimisers),
        max_search_threads=settings.threads or None,
        wal_enabled=settings.wal,
    )


@contextmanager
def _edge_errors(doing: Callable[[], str], kind: type[HarnessError] = EngineFailureError) -> Iterator[None]:
    """Turn errors of Qdrant Edge into ``kind``.

    Its engine errors are bare ``Exception`` objects, a panic of the Rust code is a ``BaseException`` of a module that
    cannot be imported, and wrong arguments are ValueError or OverflowError. Everything else passes.
    """
    try:
        yield
    except BaseException as error:
        panic = type(error).__module__ == "pyo3_runtime"
        if not (panic or type(error) is Exception or isinstance(error, ValueError | OverflowError)):
            raise
        message, fix = str(error), _REBUILD
        if "WAL" in message and "WouldBlock" in message:
            fix = "another process or engine has this index open: close it first"
        elif any(sign in message for sign in _NO_ROOM):
            fix = "free disk space, or raise the limit on file sizes, then index again: the log alone reserves 64 MB"
        raise kind(f"Qdrant Edge failed while {doing()}: {message}", fix=fix) from error
