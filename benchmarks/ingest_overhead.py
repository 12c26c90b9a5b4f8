"""What the harness adds to Qdrant's own client: indexing and searching through the adapter and by a bare loop.

Both sides get the same CSR arrays, take turns in one process, and make a new shard each time. The bare loop is what a
careful user would write with `qdrant-edge-py`: upsert in batches of the same size, optimise, flush; then one query at a
time. Its searches stop at the client's list of hits; the adapter also makes arrays of them, which it reports as
transfer.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import qdrant_edge as client

from harness.adapters.qdrant import QdrantEngine
from harness.protocols import Inputs
from harness.registry import find_cards
from harness.types import Ids, SparseVectors

K = 1000


class Taken(NamedTuple):
    index_s: float
    search_s: float
    transfer_s: float
    whole_search_s: float


class Quiet:
    def start(self, phase: str, total: int | None) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass


def made(count: int, lowest: int, highest: int, seed: int) -> SparseVectors:
    """Zipf-distributed columns, as many a row as a text of that length has distinct terms."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(lowest, highest, count)
    rows = [np.unique(np.minimum(generator.zipf(1.3, length), 50_000)).astype(np.int32) for length in lengths]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    values = (generator.random(indptr[-1]) + 0.2).astype(np.float32)
    return SparseVectors(indptr, np.concatenate(rows), values, 50_001)


def through_the_harness(documents: SparseVectors, queries: SparseVectors, folder: Path) -> Taken:
    ids = Ids.of(f"d{row}" for row in range(len(documents)))
    asked = Inputs(Ids.of(f"q{row}" for row in range(len(queries))), sparse=queries)
    engine = QdrantEngine(find_cards("backends")["qdrant"].defaults)
    start = time.perf_counter()
    engine.open(folder, ids)
    engine.index(Inputs(ids, sparse=documents), Quiet(), time.perf_counter_ns)
    indexed = time.perf_counter()
    found = engine.search(asked, K, time.perf_counter_ns)
    searched = time.perf_counter()
    engine.close()
    return Taken(
        indexed - start, float(found.search_ns.sum()) / 1e9, float(found.transfer_ns.sum()) / 1e9, searched - indexed
    )


def bare(documents: SparseVectors, queries: SparseVectors, folder: Path, batch: int) -> Taken:
    vectors = client.EdgeSparseVectorParams(modifier=client.Modifier.Idf)
    start = time.perf_counter()
    config = client.EdgeConfig(sparse_vectors={"terms": vectors}, max_search_threads=1)
    shard = client.EdgeShard.create(str(folder / "shard"), config)
    for first in range(0, len(documents), batch):
        points = []
        for row in range(first, min(first + batch, len(documents))):
            indices, values = documents.row(row)
            points.append(client.Point(row, {"terms": client.SparseVector(indices.tolist(), values.tolist())}))
        shard.update(client.UpdateOperation.upsert_points(points))
    shard.optimize()
    shard.flush()
    indexed = time.perf_counter()
    inside = 0.0
    for row in range(len(queries)):
        indices, values = queries.row(row)
        nearest = client.Query.Nearest(client.SparseVector(indices.tolist(), values.tolist()), using="terms")
        request = client.QueryRequest(limit=K, query=nearest)
        asked = time.perf_counter()
        shard.query(request)
        inside += time.perf_counter() - asked
    searched = time.perf_counter()
    shard.close()
    return Taken(indexed - start, inside, 0.0, searched - indexed)


def row(what: str, harness: list[float], raw: list[float]) -> str:
    ratio = statistics.median(one / other for one, other in zip(harness, raw, strict=True))
    return f"| {what} | {statistics.median(raw):.3f} | {statistics.median(harness):.3f} | {100 * (ratio - 1):+.1f}% |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--repeat", type=int, default=9)
    given = parser.parse_args()
    documents, queries = made(given.documents, 40, 160, 1), made(given.queries, 3, 10, 2)
    batch = int(find_cards("backends")["qdrant"].defaults["batch_size"])
    harness, raw = [], []
    for _ in range(given.repeat + 1):
        with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
            harness.append(through_the_harness(documents, queries, Path(one)))
            raw.append(bare(documents, queries, Path(other), batch))
    del harness[0], raw[0]  # the first round warms the page cache and compiles the checks
    print(
        f"{given.documents:,} documents, {documents.nnz:,} postings; {given.queries:,} queries, k = {K:,}; medians of"
    )
    print(f"{given.repeat} paired rounds, seconds; the difference is the median of the rounds' ratios.\n")
    print("| phase | bare client | harness | difference |\n|---|--:|--:|--:|")
    print(row("indexing, until optimised and flushed", [t.index_s for t in harness], [t.index_s for t in raw]))
    print(row("search, time inside the client's call", [t.search_s for t in harness], [t.search_s for t in raw]))
    whole = [t.whole_search_s - t.transfer_s for t in harness]
    print(row("search, whole loop without transfer", whole, [t.whole_search_s for t in raw]))
    transfer = statistics.median(t.transfer_s for t in harness)
    print(f"\nTransfer of hits to arrays: {1000 * transfer / given.queries:.3f} ms a query.")


if __name__ == "__main__":
    main()
