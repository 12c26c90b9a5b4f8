"""What users of Qdrant have: shards and collections with names and ids of their own."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import qdrant_edge

from harness.protocols import Inputs
from harness.types import SparseVectors

BY_UUID = [str(uuid.UUID(int=(row * 7919) % 10007)) for row in range(10007)]


def write_shard(
    folder: Path,
    documents: Inputs,
    *,
    idf: bool = True,
    point_ids: Sequence[Any] = BY_UUID,
    more: Mapping[str, Any] | None = None,
    payload: bool = True,
) -> None:
    """A shard with the vector ``words`` and the ids under ``docno``; ``more`` are further vectors by name."""
    modifier = qdrant_edge.Modifier.Idf if idf else None
    names = ("words", *(more or {}))
    vectors = {name: qdrant_edge.EdgeSparseVectorParams(modifier=modifier) for name in names}
    shard = qdrant_edge.EdgeShard.create(str(folder), qdrant_edge.EdgeConfig(sparse_vectors=vectors))
    points = [
        qdrant_edge.Point(
            point_ids[row],
            {"words": qdrant_edge.SparseVector(*_row(documents.sparse, row)), **(more or {})},
            {"docno": one} if payload else {},
        )
        for row, one in enumerate(documents.ids)
    ]
    shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    shard.flush()
    shard.close()


def write_collection(url: str, name: str, documents: Inputs, *, idf: bool = True, shards: int = 1) -> None:
    """The same on a server, points numbered by row."""
    from qdrant_client import QdrantClient, models

    client = QdrantClient(url=url)
    modifier = models.Modifier.IDF if idf else None
    vectors = {"words": models.SparseVectorParams(modifier=modifier)}
    client.create_collection(name, vectors_config={}, sparse_vectors_config=vectors, shard_number=shards)
    points = []
    for row, one in enumerate(documents.ids):
        indices, values = _row(documents.sparse, row)
        vector = models.SparseVector(indices=indices, values=values)
        points.append(models.PointStruct(id=row, vector={"words": vector}, payload={"docno": one}))
    client.upsert(name, points, wait=True)
    client.close()


def _row(vectors: SparseVectors | None, row: int) -> tuple[list[int], list[float]]:
    assert vectors is not None
    indices, values = vectors.row(row)
    return indices.tolist(), values.tolist()
