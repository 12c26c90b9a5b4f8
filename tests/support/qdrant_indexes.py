"""What users of Qdrant have: shards and collections with names and ids of their own."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import qdrant_edge

from harness.data.inputs import Inputs
from harness.data.types import SparseVectors

BY_UUID = [str(uuid.UUID(int=(row * 7919) % 10007)) for row in range(10007)]


DENSE = {"cosine": "Cosine", "dot": "Dot", "l2": "Euclid"}


def _docno(one: str) -> dict[str, Any]:
    return {"docno": one}


def write_shard(
    folder: Path,
    documents: Inputs,
    *,
    idf: bool = True,
    similarity: str = "cosine",
    point_ids: Sequence[Any] = BY_UUID,
    more: Mapping[str, Any] | None = None,
    payload: Callable[[str], dict[str, Any]] | None = _docno,
    dense_name: str = "meaning",
    graph: bool = False,
    **of_dense: Any,
) -> None:
    """A shard with the vectors ``words`` and ``meaning``, those of them that the documents have, and what ``payload``
    makes of each id (the id under ``docno``; nothing for None).

    ``more`` are further sparse vectors by name, ``of_dense`` is told to Qdrant of the dense one.
    """
    modifier = qdrant_edge.Modifier.Idf if idf else None
    names = (*(["words"] if documents.sparse is not None else []), *(more or {}))
    sparse = {name: qdrant_edge.EdgeSparseVectorParams(modifier=modifier) for name in names}
    dense = {}
    if documents.dense is not None:
        distance = getattr(qdrant_edge.Distance, DENSE[similarity])
        size = documents.dense.shape[1]
        dense[dense_name] = qdrant_edge.EdgeVectorParams(size=size, distance=distance, **of_dense)
    optimisers = qdrant_edge.EdgeOptimizersConfig(indexing_threshold=1 if graph else None)
    config = qdrant_edge.EdgeConfig(vectors=dense, sparse_vectors=sparse, optimizers=optimisers)
    shard = qdrant_edge.EdgeShard.create(str(folder), config)
    points = [
        qdrant_edge.Point(
            point_ids[row],
            {**_of_edge(documents, row, dense_name), **(more or {})},
            payload(one) if payload is not None else {},
        )
        for row, one in enumerate(documents.ids)
    ]
    shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    while graph and shard.optimize():
        pass
    shard.flush()
    shard.close()


def write_collection(
    url: str,
    name: str,
    documents: Inputs,
    *,
    idf: bool = True,
    shards: int = 1,
    similarity: str = "cosine",
    dense_name: str = "meaning",
    **of_dense: Any,
) -> None:
    """The same on a server, points numbered by row; a vector whose name is empty is the collection's unnamed one."""
    from qdrant_client import QdrantClient, models

    # it asks in a thread that a stub may not outlive, and would read certificates
    client = QdrantClient(url=url, check_compatibility=False, verify=False)
    modifier = models.Modifier.IDF if idf else None
    sparse = {"words": models.SparseVectorParams(modifier=modifier)} if documents.sparse is not None else None
    dense: Any = {}
    if documents.dense is not None:
        size, distance = documents.dense.shape[1], models.Distance(DENSE[similarity])
        held = models.VectorParams(size=size, distance=distance, **of_dense)
        dense = {dense_name: held} if dense_name else held
    client.create_collection(name, vectors_config=dense, sparse_vectors_config=sparse, shard_number=shards)
    points = []
    for row, one in enumerate(documents.ids):
        vectors: dict[str, Any] = {}
        if documents.sparse is not None:
            indices, values = _row(documents.sparse, row)
            vectors["words"] = models.SparseVector(indices=indices, values=values)
        if documents.dense is not None:
            vectors[dense_name] = documents.dense[row].tolist()
        points.append(models.PointStruct(id=row, vector=vectors, payload={"docno": one}))
    client.upsert(name, points, wait=True)
    client.close()


def _of_edge(documents: Inputs, row: int, dense_name: str) -> dict[str, Any]:
    vectors: dict[str, Any] = {}
    if documents.sparse is not None:
        vectors["words"] = qdrant_edge.SparseVector(*_row(documents.sparse, row))
    if documents.dense is not None:
        vectors[dense_name] = documents.dense[row].tolist()
    return vectors


def _row(vectors: SparseVectors, row: int) -> tuple[list[int], list[float]]:
    indices, values = vectors.row(row)
    return indices.tolist(), values.tolist()
