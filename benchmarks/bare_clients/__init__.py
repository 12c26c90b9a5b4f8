"""What a careful user would write with each client library alone: the bare sides that `overhead.py` compares with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from harness.data.inputs import Inputs
from harness.data.progress import Clock
from harness.data.types import SparseVectors
from harness.engines.base import Documents
from harness.engines.lucene.bm25 import LuceneEngine
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress


class Asked(NamedTuple):
    """Nanoseconds of some queries: inside the client's search call, and in the whole loop without ``transfer_ns``."""

    inside_ns: int
    whole_ns: int
    transfer_ns: int = 0


class Side(Protocol):
    def index(self, work: Work, folder: Path) -> None: ...

    def ask(self, start: int, stop: int) -> Asked: ...

    def close(self) -> None: ...


class Work(NamedTuple):
    documents: Inputs
    queries: Inputs
    k: int
    parameters: dict[str, ParameterValue]
    clock: Clock

    @property
    def vectors(self) -> tuple[SparseVectors, SparseVectors]:
        assert self.documents.sparse is not None
        assert self.queries.sparse is not None
        return self.documents.sparse, self.queries.sparse


class BareEdge:
    """qdrant-edge-py alone."""

    def index(self, work: Work, folder: Path) -> None:
        import qdrant_edge as client

        self.work, self.client = work, client
        documents, batch = work.vectors[0], int(work.parameters["batch_size"])
        vectors = client.EdgeSparseVectorParams(modifier=client.Modifier.Idf)
        config = client.EdgeConfig(sparse_vectors={"terms": vectors}, max_search_threads=1)
        (folder / "shard").mkdir()
        self.shard = client.EdgeShard.create(str(folder / "shard"), config)
        for first in range(0, len(documents), batch):
            points = []
            for row in range(first, min(first + batch, len(documents))):
                indices, values = documents.row(row)
                points.append(client.Point(row, {"terms": client.SparseVector(indices.tolist(), values.tolist())}))
            self.shard.update(client.UpdateOperation.upsert_points(points))
        self.shard.optimize()
        self.shard.flush()

    def ask(self, start: int, stop: int) -> Asked:
        client, queries, clock = self.client, self.work.vectors[1], self.work.clock
        begun, inside = clock(), 0
        for row in range(start, stop):
            indices, values = queries.row(row)
            nearest = client.Query.Nearest(client.SparseVector(indices.tolist(), values.tolist()), using="terms")
            request = client.QueryRequest(limit=self.work.k, query=nearest)
            asked = clock()
            self.shard.query(request)
            inside += clock() - asked
        return Asked(inside, clock() - begun)

    def close(self) -> None:
        self.shard.close()


class BareClient:
    """qdrant-client alone, over HTTP."""

    def index(self, work: Work, folder: Path) -> None:
        from qdrant_client import QdrantClient, models

        self.work, self.models = work, models
        documents, batch = work.vectors[0], int(work.parameters["batch_size"])
        self.client = QdrantClient(url=str(work.parameters["url"]))
        params = models.SparseVectorParams(modifier=models.Modifier.IDF)
        self.client.create_collection("c", vectors_config={}, sparse_vectors_config={"terms": params})
        for first in range(0, len(documents), batch):
            points = []
            for row in range(first, min(first + batch, len(documents))):
                indices, values = documents.row(row)
                vector = models.SparseVector(indices=indices.tolist(), values=values.tolist())
                points.append(models.PointStruct(id=row, vector={"terms": vector}))
            self.client.upsert("c", points, wait=True)

    def ask(self, start: int, stop: int) -> Asked:
        queries, k, clock = self.work.vectors[1], self.work.k, self.work.clock
        begun, inside = clock(), 0
        for row in range(start, stop):
            indices, values = queries.row(row)
            query = self.models.SparseVector(indices=indices.tolist(), values=values.tolist())
            asked = clock()
            self.client.query_points("c", query=query, using="terms", limit=k, with_payload=False)
            inside += clock() - asked
        return Asked(inside, clock() - begun)

    def close(self) -> None:
        self.client.delete_collection("c")
        self.client.close()


class BareChroma:
    """chromadb alone, in the process."""

    def index(self, work: Work, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        documents, batch = work.documents.dense, int(work.parameters["upsert_batch"])
        assert documents is not None
        self.work, settings = work, Settings(anonymized_telemetry=False)
        self.client = chromadb.PersistentClient(path=str(folder / "chroma"), settings=settings)
        hnsw = {"space": "cosine"}
        self.made = self.client.create_collection("vectors", embedding_function=None, configuration={"hnsw": hnsw})
        for first in range(0, len(documents), batch):
            last = min(first + batch, len(documents))
            self.made.upsert(ids=[str(row) for row in range(first, last)], embeddings=documents[first:last])

    def ask(self, start: int, stop: int) -> Asked:
        queries, k, clock = self.work.queries.dense, self.work.k, self.work.clock
        assert queries is not None
        begun, inside = clock(), 0
        for row in range(start, stop):
            asked = clock()
            self.made.query(query_embeddings=queries[row : row + 1], n_results=k, include=["distances"])
            inside += clock() - asked
        return Asked(inside, clock() - begun)

    def close(self) -> None:
        self.client.close()


class BareLucene:
    """Lucene through pyjnius: the hooks of the engine, without what the base class does around them."""

    def index(self, work: Work, folder: Path) -> None:
        texts = work.documents.texts
        assert texts is not None
        self.work, self.engine = work, LuceneEngine(work.parameters)
        self.engine.info()
        vars(self.engine)["ids"] = work.documents.ids  # what opening it does
        progress = RecordingProgress()
        progress.start("index", len(texts))
        self.engine.build(folder, Documents(work.documents.ids, texts, None), progress)
        self.engine.load(folder)

    def ask(self, start: int, stop: int) -> Asked:
        texts = self.work.queries.texts
        assert texts is not None
        clock = self.work.clock
        begun, inside, found = clock(), 0, []
        for query in self.engine.prepare(texts.slice(start, stop - start), self.work.k):
            asked = clock()
            top_docs = self.engine.retrieve(query, self.work.k)
            inside += clock() - asked
            found.append(self.engine.columns(top_docs))
        return Asked(inside, clock() - begun)

    def close(self) -> None:
        self.engine.close()
