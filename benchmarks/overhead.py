"""What the harness adds to a client library: indexing and searching through it, and by a bare loop.

Both sides get the same input and live in one process. Indexes are built in turn, a new one each time; queries are asked
in turn, 32 by each side, so that what else the machine does meets both. Who begins changes every time. CPU time is
measured unless --clock says otherwise: of the process, and for Lucene of the thread that searches. The harness's side
is what a trial runs: the adapter, and the loop that cuts queries into calls and checks the answers. The bare side is
what a careful user would write with the client library:

edge    qdrant-edge-py: upsert in batches of the same size, optimise, flush; then one query at a time
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
from typing import NamedTuple

import numpy as np
from bare_clients import Asked, BareChroma, BareClient, BareEdge, BareLucene, Side, Work

from harness.data.inputs import Inputs
from harness.data.progress import Clock
from harness.data.types import Ids, SparseVectors
from harness.engines.chroma.engine import ChromaEngine
from harness.engines.interface import EngineInterface
from harness.engines.lucene.bm25 import LuceneEngine
from harness.engines.qdrant.engine import QdrantEngine
from harness.loaders import load_dataset
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.worker.trial import search_all

CALL = 32


class Quiet:
    def start(self, phase: str, total: int | None) -> None:
        pass

    def advance(self, amount: int) -> None:
        pass


class Harness:
    """Through an adapter, as a trial does it."""

    def __init__(self, kind: Callable[[dict[str, ParameterValue]], EngineInterface], *, arrays: bool) -> None:
        self.kind, self.arrays = kind, arrays

    def index(self, work: Work, folder: Path) -> None:
        self.work, self.engine = work, self.kind(work.parameters)
        self.engine.open(folder, work.documents.ids)
        self.engine.index(work.documents, Quiet(), work.clock)

    def ask(self, start: int, stop: int) -> Asked:
        work = self.work
        begun = work.clock()
        queries = work.queries.slice(start, stop)
        found = search_all(self.engine, queries, len(work.documents), work.k, Quiet(), work.clock)
        whole, transfer = work.clock() - begun, int(found.transfer_ns.sum())
        return Asked(int(found.search_ns.sum()), whole if self.arrays else whole - transfer, transfer)

    def close(self) -> None:
        self.engine.close()


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
