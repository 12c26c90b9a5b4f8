"""A shard's folder that the user already has: a copy of it is searched, because opening one writes to its files."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.data.progress import Progress
from harness.engines.external_index import theirs
from harness.engines.interface import EngineInfo
from harness.engines.qdrant.edge import REBUILD, SHARD, EdgeStore, edge_client, read_segments
from harness.engines.qdrant.found import Found, FoundDense, choose
from harness.engines.qdrant.points import SCROLL, SCROLL_VECTORS, StoredPoint
from harness.engines.qdrant.settings import QdrantSettings
from harness.errors import EngineUnavailableError
from harness.store.disk import copy_folder

__all__ = ["ExternalShard"]

_NEWER = "the shard is left as it was: see whether this version of Qdrant Edge can read it"


class ExternalShard(EdgeStore):
    """What a store needs to be searched, and to be read; made by :meth:`attach`."""

    @classmethod
    def attach(cls, source: Path, folder: Path, settings: QdrantSettings, progress: Progress) -> ExternalShard:
        """A copy below ``folder`` of the shard in ``source``.

        Raises EngineUnavailableError for a folder that is no shard, and what :func:`choose` raises.
        """
        client, copy = edge_client(), folder / SHARD
        chosen = choose(_vectors_of(source), settings, f"the shard in '{source}'")
        copy.mkdir()
        copy_folder(source, copy, progress)
        _limit_threads(copy, settings.threads)
        store = cls(client, copy, chosen.settings)
        doing = store.translated(lambda: f"opening a copy of the shard in '{source}'", EngineUnavailableError)
        with theirs(REBUILD, _NEWER), doing:
            store._shard = client.EdgeShard.load(str(copy))
        store._names, store._measured, store.dimensions = dict(chosen.names), source, chosen.dimensions
        store.info = EngineInfo(store.info.name, store.info.version, "embedded, a copy of an external shard")
        return store

    def points(self, *, key: str | None, vectors: bool) -> Iterator[list[StoredPoint]]:
        """All points page by page, each with what is asked for of it."""
        offset, size = None, SCROLL_VECTORS if vectors else SCROLL
        while True:
            with self.translated(lambda: "listing the points"):
                request = self._client.ScrollRequest(
                    offset=offset,
                    limit=size,
                    with_payload=[key] if key is not None else False,
                    with_vector=list(self._names.values()) if vectors else False,
                )
                page, offset = self._shard.scroll(request)
            yield [StoredPoint.of(record, self._names) for record in page]
            if offset is None:
                return

    def retrieve(self, ids: Sequence[Hashable]) -> list[StoredPoint]:
        """The points of these ids, with their whole payload and the vectors searched."""
        with self.translated(lambda: "reading some points"):
            found = self._shard.retrieve(list(ids), True, list(self._names.values()))
        return [StoredPoint.of(record, self._names) for record in found]


def _vectors_of(shard: Path) -> Found:
    """The vectors of a shard from the files of its segments."""
    fix = "name the folder of one shard, which holds 'segments'"
    try:
        segments = [segment["config"] for segment in read_segments(shard)]
        found = _found(segments)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise EngineUnavailableError(f"the segments of '{shard}' cannot be read: {error!r}", fix=fix) from error
    if not segments:
        raise EngineUnavailableError(f"'{shard}' is not a shard of Qdrant: it has no segments", fix=fix)
    return found


def _found(segments: Sequence[Mapping[str, Any]]) -> Found:
    sparse: dict[str, bool] = {}
    dense: dict[str, FoundDense] = {}
    for segment in segments:
        for name, held in (segment.get("sparse_vector_data") or {}).items():
            sparse[name] = held.get("modifier") == "idf"
        for name, held in segment["vector_data"].items():
            graph = held["index"].get("options") or {}  # a segment without a graph has none
            dense[name] = FoundDense(
                distance=str(held["distance"]),
                dimensions=int(held["size"]),
                datatype=str(held.get("datatype") or "float32"),
                several=held.get("multivector_config") is not None,
                m=int(graph.get("m", 0)),
                full_scan_threshold_kb=int(graph.get("full_scan_threshold", 0)),
            )
    return Found(sparse, dense)


def _limit_threads(shard: Path, threads: int) -> None:
    """Search with as many threads as asked for, where the shard keeps its configuration in a file of its own."""
    path = shard / "edge_config.json"
    if path.exists():
        config = json.loads(path.read_text(encoding="utf-8"))
        config["max_search_threads"] = threads or None
        path.write_text(json.dumps(config), encoding="utf-8")
