"""What the harness adds to a client library: indexing and searching through it, and by a bare loop.

Both sides get the same input and live in one process. Indexes are built in turn, a new one each time; queries are asked
in turn, 32 by each side, so that what else the machine does meets both. Who begins changes every time. CPU time is
measured unless --clock says otherwise: of the process, and for Lucene of the thread that searches. The harness's side
is what a trial runs: the adapter, and the loop that cuts queries into calls and checks the answers. The bare side is
what a careful user would write with the client library:

edge    qdrant-edge-py: upsert in batches of the same size, optimise, flush; then one query at a time
local   qdrant-client in its local mode: the same
rest    qdrant-client over HTTP, to the tests' stub of a server, which runs in a process of its own
chroma  chromadb's PersistentClient: upsert in batches of the same size; then one query at a time
lucene  Lucene through pyjnius, by the calls that were found to be fastest; queries are built 32 at once

Bare searches in Qdrant and Chroma stop at the client's lists of hits, and so do the harness's here: making arrays of
them is reported as transfer, and given apart. The harness leaves the end of Chroma's graph in its log here
(flush=false), as the bare client does. For Lucene both sides make arrays, since nothing less can be used from Python.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from harness.adapters.chroma import ChromaEngine
from harness.adapters.lucene import LuceneEngine
from harness.adapters.lucene_index import IndexBuilder, is_blank
from harness.adapters.lucene_search import OpenIndex
from harness.adapters.lucene_settings import LuceneSettings
from harness.adapters.qdrant import QdrantEngine
from harness.analysis.lucene import LuceneAnalyzer
from harness.execution.trial import part_of, search_all
from harness.loaders import load_dataset
from harness.protocols import Clock, Engine, Inputs, ParameterValue
from harness.registry import find_cards
from harness.types import Ids, SparseVectors

CALL = 32


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


class Quiet:
    def start(self, phase: str, total: int | None) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass


class Harness:
    """Through an adapter, as a trial does it."""

    def __init__(self, kind: Callable[[dict[str, ParameterValue]], Engine], *, arrays: bool) -> None:
        self.kind, self.arrays = kind, arrays

    def index(self, work: Work, folder: Path) -> None:
        self.work, self.engine = work, self.kind(work.parameters)
        self.engine.open(folder, work.documents.ids)
        self.engine.index(work.documents, Quiet(), work.clock)

    def ask(self, start: int, stop: int) -> Asked:
        work = self.work
        begun = work.clock()
        queries = part_of(work.queries, start, stop)
        found = search_all(self.engine, queries, len(work.documents), work.k, Quiet(), work.clock)
        whole, transfer = work.clock() - begun, int(found.transfer_ns.sum())
        return Asked(int(found.search_ns.sum()), whole if self.arrays else whole - transfer, transfer)

    def close(self) -> None:
        self.engine.close()


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
    """qdrant-client alone: in its local mode, or over HTTP where the parameters name a server."""

    def index(self, work: Work, folder: Path) -> None:
        from qdrant_client import QdrantClient, models

        self.work, self.models = work, models
        documents, batch = work.vectors[0], int(work.parameters["batch_size"])
        where = {"url": work.parameters["url"]} if work.parameters["url"] else {"path": str(folder / "local")}
        self.client = QdrantClient(**where)
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
    """Lucene through pyjnius alone."""

    def index(self, work: Work, folder: Path) -> None:
        settings, texts = LuceneSettings.of(work.parameters), work.documents.texts
        assert texts is not None
        analyzer = LuceneAnalyzer(settings.language, heap=settings.heap, jar=settings.jar)
        with IndexBuilder.writing(analyzer, settings, folder) as builder:
            for first in range(0, len(texts), 1024):
                names = work.documents.ids.values.slice(first, 1024).to_pylist()
                pairs = list(zip(names, texts.slice(first, 1024).to_pylist(), strict=True))
                kept = [pair for pair in pairs if not is_blank(pair[1])]
                builder.add([one for one, _ in kept], [text for _, text in kept])
            builder.finish()
        self.work, self.opened = work, OpenIndex(analyzer, settings, folder)
        self.rows = self.opened.rows(work.documents.ids)

    def ask(self, start: int, stop: int) -> Asked:
        texts = self.work.queries.texts
        assert texts is not None
        clock = self.work.clock
        begun, inside, found = clock(), 0, []
        for query in self.opened.queries(texts.slice(start, stop - start).to_pylist()):
            asked = clock()
            top_docs = self.opened.searcher.search(query, self.work.k)
            inside += clock() - asked
            hits = self.opened.hits.read(top_docs)
            found.append((self.rows[hits.documents], hits.scores))
        return Asked(inside, clock() - begun)

    def close(self) -> None:
        self.opened.close()


def made(count: int, lowest: int, highest: int, seed: int) -> SparseVectors:
    """Zipf-distributed columns, as many a row as a text of that length has distinct terms."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(lowest, highest, count)
    rows = [np.unique(np.minimum(generator.zipf(1.3, length), 50_000)).astype(np.int32) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    values = (generator.random(indptr[-1]) + 0.2).astype(np.float32)
    return SparseVectors(indptr, np.concatenate(rows), values, 50_001)


def sparse_work(documents: int, queries: int, k: int, clock: Clock, **changed: ParameterValue) -> Work:
    given, asked = made(documents, 40, 160, 1), made(queries, 3, 10, 2)
    return Work(
        Inputs(Ids.of(f"d{row}" for row in range(documents)), sparse=given),
        Inputs(Ids.of(f"q{row}" for row in range(queries)), sparse=asked),
        k,
        {**find_cards("backends")["qdrant"].defaults, **changed},
        clock,
    )


def dense_work(documents: int, queries: int, k: int, clock: Clock) -> Work:
    """Random directions of 128 dimensions."""
    given, asked = (np.random.default_rng(seed).standard_normal((n, 128)) for seed, n in ((1, documents), (2, queries)))
    return Work(
        Inputs(Ids.of(f"d{row}" for row in range(documents)), dense=given.astype(np.float32)),
        Inputs(Ids.of(f"q{row}" for row in range(queries)), dense=asked.astype(np.float32)),
        k,
        {**find_cards("backends")["chroma"].defaults, "flush": False},
        clock,
    )


@cache
def stub() -> str:
    """The address of a stub of Qdrant's server, started in a process that ends with this one."""
    support = Path(__file__).resolve().parents[1] / "tests" / "support"
    code = "import sys, qdrant_stub\nwith qdrant_stub.serve() as stub:\n print(stub.url, flush=True)\n sys.stdin.read()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(support), os.environ.get("PYTHONPATH", "")])}
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert server.stdout is not None
    return server.stdout.readline().strip()


def text_work(dataset: str, queries: int, k: int, clock: Clock) -> Work:
    """The collection's documents, and its queries as often as it takes."""
    loaded = load_dataset(dataset)
    chosen = np.arange(queries) % len(loaded.queries)
    ids = Ids.of(f"q{place}" for place in range(queries))
    return Work(
        Inputs(loaded.corpus.ids, texts=loaded.corpus.texts),
        Inputs(ids, texts=loaded.queries.texts.take(chosen)),
        k,
        dict(find_cards("backends")["lucene"].defaults),
        clock,
    )


class Subject(NamedTuple):
    title: str
    work: Callable[[argparse.Namespace, Clock], Work]
    harness: Callable[[], Side]
    bare: Callable[[], Side]
    cpu_clock: Clock
    warm_up_rounds: int


SUBJECTS = {
    "edge": Subject(
        "Qdrant Edge",
        lambda given, clock: sparse_work(given.documents, given.queries, given.k, clock),
        lambda: Harness(QdrantEngine, arrays=False),
        BareEdge,
        time.process_time_ns,
        1,
    ),
    "local": Subject(
        "qdrant-client, local mode",
        lambda given, clock: sparse_work(given.documents // 20, given.queries // 5, given.k, clock, mode="local"),
        lambda: Harness(QdrantEngine, arrays=False),
        BareClient,
        time.process_time_ns,
        1,
    ),
    "rest": Subject(
        "qdrant-client, over HTTP",
        lambda given, clock: sparse_work(
            given.documents // 4, given.queries, given.k, clock, url=stub(), transport="rest", upload_threads=1
        ),
        lambda: Harness(QdrantEngine, arrays=False),
        BareClient,
        time.process_time_ns,
        1,
    ),
    "chroma": Subject(
        "Chroma",
        lambda given, clock: dense_work(given.documents // 4, given.queries // 2, given.k, clock),
        lambda: Harness(ChromaEngine, arrays=False),
        BareChroma,
        time.process_time_ns,
        1,
    ),
    "lucene": Subject(
        "Lucene",
        lambda given, clock: text_work(given.dataset, given.queries, given.k, clock),
        lambda: Harness(LuceneEngine, arrays=True),
        BareLucene,
        time.thread_time_ns,  # the JVM compiles and collects in threads of its own
        4,
    ),
}


class Round(NamedTuple):
    """Nanoseconds of indexing, and of each call, of one side."""

    index_ns: int
    calls: list[Asked]


@contextmanager
def both(subject: Subject) -> Iterator[tuple[list[Side], list[Path]]]:
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        sides = [subject.harness(), subject.bare()]
        yield sides, [Path(one), Path(other)]
        for side in sides:
            side.close()


def play(subject: Subject, work: Work, turn: int) -> list[Round]:
    """One round: the harness's side, and the bare one."""
    with both(subject) as (sides, folders):
        index_ns = [0, 0]
        for number in (0, 1) if turn % 2 else (1, 0):
            begun = work.clock()
            sides[number].index(work, folders[number])
            index_ns[number] = work.clock() - begun
        calls: list[list[Asked]] = [[], []]
        for place, start in enumerate(range(0, len(work.queries), CALL)):
            for number in (0, 1) if place % 2 else (1, 0):
                calls[number].append(sides[number].ask(start, min(start + CALL, len(work.queries))))
        return [Round(index_ns[number], calls[number]) for number in (0, 1)]


def row(what: str, harness: list[int], bare: list[int]) -> str:
    changes = [100 * (one / other - 1) for one, other in zip(harness, bare, strict=True)]
    low, middle, high = statistics.quantiles(changes, n=4)
    cells = f"{statistics.median(bare) / 1e6:,.2f} | {statistics.median(harness) / 1e6:,.2f}"
    return f"| {what} | {cells} | {middle:+.1f}% | {low:+.1f} to {high:+.1f}% | {len(changes)} |"


def report(subject: Subject, work: Work, rounds: list[list[Round]]) -> None:
    size = f"{len(work.documents):,} documents, {len(work.queries):,} queries, k = {work.k:,}, {len(rounds)} rounds"
    print(f"\n{subject.title}: {size}\n")
    print("| phase, ms | bare client | harness | difference | middle half | pairs |")
    print("|---|--:|--:|--:|--:|--:|")
    harness, bare = ([one[number] for one in rounds] for number in (0, 1))
    print(row("indexing until searchable", [r.index_ns for r in harness], [r.index_ns for r in bare]))
    ours, theirs = ([*itertools.chain(*(r.calls for r in side))] for side in (harness, bare))
    print(row(f"search, {CALL} queries, inside the client", [c.inside_ns for c in ours], [c.inside_ns for c in theirs]))
    print(row(f"search, {CALL} queries, whole loop", [c.whole_ns for c in ours], [c.whole_ns for c in theirs]))
    transfer = statistics.median(call.transfer_ns for call in ours)
    print(f"\nTransfer of hits to arrays: {transfer / CALL / 1e6:.3f} ms a query.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", choices=SUBJECTS, nargs="+", default=list(SUBJECTS))
    parser.add_argument("--documents", type=int, default=20_000, help="made documents, for Qdrant and Chroma")
    parser.add_argument("--queries", type=int, default=960)
    parser.add_argument("--dataset", default="cacm", help="a dataset's name or path, for Lucene")
    parser.add_argument("--k", type=int, default=1000, help="hits per query")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--clock", choices=("cpu", "wall"), default="cpu", help="CPU time: for a busy machine")
    given = parser.parse_args()
    for name in given.engine:
        subject = SUBJECTS[name]
        work = subject.work(given, time.perf_counter_ns if given.clock == "wall" else subject.cpu_clock)
        rounds = [play(subject, work, turn) for turn in range(given.repeat + subject.warm_up_rounds)]
        report(subject, work, rounds[subject.warm_up_rounds :])


if __name__ == "__main__":
    main()
