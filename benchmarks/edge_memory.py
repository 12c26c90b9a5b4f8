"""Measure the memory of indexing sparse vectors in Qdrant Edge, through the harness and by a bare loop.

The collection is made: each document has the given number of terms, drawn from a vocabulary whose frequencies fall by
Zipf's law. Vectors lie in files and are memory-mapped, as a trial's are. Each side runs in a process of its own, whose
resident and anonymous memory is read from outside every 50 ms, because Qdrant Edge holds Python's lock while it works.
``bare`` makes the same points and keeps nothing else; every other side is a backend on Qdrant with its parameters.

    python benchmarks/edge_memory.py --documents 300000 --terms 60 bare qdrant 'qdrant:optimize_every=50000'
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from harness.data.inputs import Inputs
from harness.data.types import Ids, SparseVectors
from harness.plan.backend_spec import parse_backends
from harness.store.columns import load_sparse, save_sparse

BARE = "bare"
BATCH = 1000
COLUMNS = "documents"
PAUSE_S = 0.05
KIB_PER_MIB = 1024


class Memory(NamedTuple):
    """Memory of a process in KiB."""

    resident: int
    anonymous: int


class Printed:
    """Progress whose phases whoever measures can read."""

    def start(self, phase: str, total: int | None) -> None:
        print(phase, flush=True)

    def advance(self, amount: int) -> None:
        pass


def made_vectors(documents: int, terms: int, vocabulary: int) -> SparseVectors:
    """Return vectors of a few terms fewer than ``terms`` each: a term that was drawn twice occurs once."""
    random = np.random.default_rng(1)
    cumulated = np.cumsum(1 / np.arange(1, vocabulary + 1))
    draws = (np.searchsorted(cumulated, random.random(terms) * cumulated[-1]) for _ in range(documents))
    rows = [np.unique(terms_drawn).astype(np.int32) for terms_drawn in draws]
    indptr = np.zeros(documents + 1, dtype=np.int64)
    np.cumsum([len(row) for row in rows], out=indptr[1:])
    values = random.random(int(indptr[-1]), dtype=np.float32) + np.float32(0.1)
    return SparseVectors(indptr, np.concatenate(rows), values, vocabulary)


def index_with_harness(vectors: SparseVectors, folder: Path, backend: str) -> None:
    """Index as a trial does."""
    from harness.engines.qdrant.engine import QdrantEngine

    (spec,) = parse_backends(backend)
    engine = QdrantEngine(spec.parameters)
    documents = Inputs(Ids.of(f"d{row}" for row in range(len(vectors))), sparse=vectors)
    engine.open(folder, documents.ids)
    engine.index(documents, Printed(), time.perf_counter_ns)
    engine.close()


def index_bare(vectors: SparseVectors, folder: Path) -> None:
    """Index as a careful user of the client library would."""
    import qdrant_edge

    sparse = {"terms": qdrant_edge.EdgeSparseVectorParams(modifier=qdrant_edge.Modifier.Idf)}
    shard = qdrant_edge.EdgeShard.create(str(folder), qdrant_edge.EdgeConfig(sparse_vectors=sparse))
    progress = Printed()
    progress.start("index", len(vectors))
    for start in range(0, len(vectors), BATCH):
        bounds = vectors.indptr[start : start + BATCH + 1].tolist()
        points = []
        for row, (a, b) in enumerate(pairwise(bounds), start):
            vector = qdrant_edge.SparseVector(vectors.indices[a:b].tolist(), vectors.values[a:b].tolist())
            points.append(qdrant_edge.Point(row, {"terms": vector}))
        shard.update(qdrant_edge.UpdateOperation.upsert_points(points))
    progress.start("optimise", None)
    while shard.optimize():
        pass
    shard.flush()
    shard.close()


def memory_of(process: int) -> Memory:
    """Return the memory that a process has now; nothing when it has ended."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    lines = (re.search(rf"{name}:\s+(\d+)", status) for name in ("VmRSS", "RssAnon"))
    return Memory(*(int(line[1]) if line else 0 for line in lines))


def measure(side: str, columns: Path) -> None:
    """Run one side, and print its peaks by phase."""
    with tempfile.TemporaryDirectory() as folder:
        phases, index = Path(folder) / "phases", Path(folder) / "index"
        index.mkdir()
        command = [sys.executable, __file__, "--columns", str(columns), "--folder", str(index), side]
        started, peaks = time.perf_counter(), dict[str, Memory]()
        with phases.open("w", encoding="utf-8") as output:
            child = subprocess.Popen(command, stdout=output)
        while child.poll() is None:
            phase = ["start", *phases.read_text(encoding="utf-8").split()][-1]
            peaks[phase] = Memory(*map(max, memory_of(child.pid), peaks.get(phase, Memory(0, 0))))
            time.sleep(PAUSE_S)
        seconds = time.perf_counter() - started
    if child.returncode:
        raise SystemExit(child.returncode)
    for phase, peak in peaks.items():
        resident, anonymous = (number // KIB_PER_MIB for number in peak)
        print(f"{side:30} {phase:9} resident {resident:6,} MiB, anonymous {anonymous:6,} MiB")
    print(f"{side:30} {seconds:.0f} s", flush=True)


def main() -> None:
    """Make the collection, then measure each side in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sides", nargs="*", default=[BARE, "qdrant"])
    parser.add_argument("--documents", type=int, default=300_000)
    parser.add_argument("--terms", type=int, default=60)
    parser.add_argument("--vocabulary", type=int, default=500_000)
    for name in ("--columns", "--folder"):
        parser.add_argument(name, type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.columns:
        vectors = load_sparse(given.columns, COLUMNS)
        (side,) = given.sides
        if side == BARE:
            index_bare(vectors, given.folder)
        else:
            index_with_harness(vectors, given.folder, side)
        return
    with tempfile.TemporaryDirectory() as columns:
        vectors = made_vectors(given.documents, given.terms, given.vocabulary)
        print(f"{len(vectors):,} documents, {vectors.nnz:,} weights, {vectors.nnz * 8 / 2**20:,.0f} MiB", flush=True)
        save_sparse(Path(columns), COLUMNS, vectors)
        del vectors
        for side in given.sides:
            measure(side, Path(columns))


if __name__ == "__main__":
    main()
