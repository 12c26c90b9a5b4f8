"""Engines that behave, and engines that fail in one way each, for tests of whatever drives engines."""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import psutil

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids, SparseVectors
from harness.engines.interface import (
    Capabilities,
    EngineInfo,
    EngineInterface,
    IndexReport,
    ScoreTree,
    ScoreTrees,
    SearchResult,
    Storage,
)
from harness.errors import EngineFailureError, EngineUnavailableError
from harness.registry.parameters import ParameterValue
from harness.worker.spawn import MARK_VARIABLE


class BruteForce(EngineInterface):
    """Every document scored against every query; ties by row."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=True, deterministic=True, reopens=False, keeps_k_prefix=True
    )

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        self.parameters = parameters
        self.documents: SparseVectors | None = None
        self.closed = 0

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        assert folder.is_dir()
        assert len(ids)
        return EngineInfo("brute force", "1", "in process")

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        progress.start("index", len(documents))
        started = clock()
        self.documents = documents.sparse
        progress.advance(len(documents))
        missing = self._missing(documents)
        return IndexReport(
            len(documents), len(documents) - len(missing), missing, clock() - started, 0, {"segments": 1}
        )

    def _missing(self, documents: Inputs) -> np.ndarray:
        return np.zeros(0, dtype=np.int32)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        assert self.documents is not None
        assert queries.sparse is not None
        dense = self.documents.to_scipy().toarray()
        rows, scores, search_ns, lengths = [], [], [], [0]
        for query in queries.sparse.to_scipy().toarray():
            started = clock()
            total = (dense @ query).astype(np.float32)
            best = np.lexsort((np.arange(len(total)), -total))
            best = best[total[best] > 0][:k]
            rows.append(best.astype(np.int32))
            scores.append(total[best])
            lengths.append(len(best))
            search_ns.append(clock() - started)
        times = np.array(search_ns, dtype=np.int64)
        indptr = np.cumsum(lengths, dtype=np.int64)
        return SearchResult(indptr, np.concatenate(rows), np.concatenate(scores), times, np.zeros_like(times))

    def storage(self) -> Storage:
        return Storage(1, 0)

    def close(self) -> None:
        self.closed += 1


BUILDS_MADE = "BUILDS_MADE"
"""Names a file to which :class:`MissesMore` adds a line, its folder, for each index that it builds."""


class MissesMore(BruteForce):
    """Build number n misses the best n - 1 documents of each query, as a poor graph may; build 4 finds nothing."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=False, deterministic=False, reopens=False, keeps_k_prefix=True
    )
    build = 0

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        self.folder = folder
        assert not list(folder.iterdir())
        return super().open(folder, ids)

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        made = Path(os.environ[BUILDS_MADE])
        with made.open("a", encoding="utf-8") as lines:
            lines.write(f"{self.folder}\n")
        self.build = len(made.read_text(encoding="utf-8").splitlines())
        return super().index(documents, progress, clock)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        whole = super().search(queries, 3, clock)
        lengths = np.diff(whole.indptr)
        place = np.arange(len(whole.rows)) - np.repeat(whole.indptr[:-1], lengths)
        kept = place >= self.build - 1
        indptr = np.concatenate([[0], np.cumsum(np.maximum(lengths - (self.build - 1), 0))]).astype(np.int64)
        return whole._replace(indptr=indptr, rows=whole.rows[kept], scores=whole.scores[kept])


class LosesDocumentsLater(MissesMore):
    """From the second build on it does not hold row 1, and says so."""

    def _missing(self, documents: Inputs) -> np.ndarray:
        return np.array([1] if self.build > 1 else [], dtype=np.int32)


class StumblesLater(MissesMore):
    """Reports an error of its own in every build after the first."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        if self.build > 1:
            raise EngineFailureError("the graph is broken", fix="mend it")
        return super().search(queries, k, clock)


class ForgetsItsFilter(BruteForce):
    """Returns only what matches in its first build, and everything in the others."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="sparse", exact=True, deterministic=False, reopens=False, keeps_k_prefix=True, filters=True
    )

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        assert documents.metadata is not None
        self.metadata = documents.metadata
        return super().index(documents, progress, clock)

    def restrict(self, wanted: Mapping[str, str]) -> None:
        assert self.documents is not None
        made = Path(os.environ[BUILDS_MADE])
        if made.exists():
            return
        made.touch()
        matching = np.ones(self.metadata.num_rows, dtype=bool)
        for field, value in wanted.items():
            matching &= np.array([found == value for found in self.metadata.column(field).to_pylist()])
        vectors = self.documents.to_scipy().copy()
        vectors.data *= np.repeat(matching, np.diff(vectors.indptr))
        self.documents = SparseVectors.from_scipy(vectors)


class DenseBruteForce(BruteForce):
    """The same over dense vectors, by their dot product; what has no positive score is no hit."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="dense", exact=True, deterministic=True, reopens=False, keeps_k_prefix=True
    )

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        assert documents.dense is not None
        report = super().index(documents, progress, clock)
        self.documents = SparseVectors.from_scipy(documents.dense)
        return report

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        assert queries.dense is not None
        return super().search(replace(queries, sparse=SparseVectors.from_scipy(queries.dense)), k, clock)


class ByLength(BruteForce):
    """Reads texts by itself: every document is found, the longest first, whatever was asked."""

    capabilities: ClassVar[Capabilities] = Capabilities(
        input="text", exact=True, deterministic=True, reopens=False, keeps_k_prefix=True
    )

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        assert documents.texts is not None
        assert documents.sparse is None
        self.lengths = np.array([len(text) for text in documents.texts.to_pylist()], dtype=np.float32)
        return super().index(documents, progress, clock)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        count = len(queries)
        best = np.argsort(-self.lengths, kind="stable")[:k].astype(np.int32)
        times = np.ones(count, dtype=np.int64)
        indptr = np.arange(count + 1, dtype=np.int64) * len(best)
        return SearchResult(indptr, np.tile(best, count), np.tile(self.lengths[best], count), times, times)


class LosesDocuments(BruteForce):
    """Does not hold row 1, and says so."""

    def _missing(self, documents: Inputs) -> np.ndarray:
        return np.array([1], dtype=np.int32)


class Unavailable(BruteForce):
    """Cannot start."""

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        raise EngineUnavailableError("the engine is not there", fix="start it")


class Segfaults(BruteForce):
    """Dies while indexing."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        ctypes.string_at(0)
        raise AssertionError("unreachable")


class IsKilled(BruteForce):
    """Dies as the system's out-of-memory killer would end it."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


class Hangs(BruteForce):
    """Never finishes indexing."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        print("about to hang", flush=True)
        time.sleep(600)
        raise AssertionError("unreachable")


class HangsDeaf(BruteForce):
    """Never finishes indexing, and takes no notice of being asked to end."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        print("about to hang", flush=True)
        time.sleep(600)
        raise AssertionError("unreachable")


class HoldsTheLock(BruteForce):
    """Native code that never returns and never releases the interpreter's lock: no Python code runs any more."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        print("about to hang", flush=True)
        ctypes.PyDLL(None).sleep(600)
        raise AssertionError("unreachable")


class EatsMemory(BruteForce):
    """Takes ever more memory, 16 MiB at a time, and holds the GiB that it has at last."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        eaten = []
        for _ in range(64):
            eaten.append(np.ones(16 * 1024**2, dtype=np.uint8))
            time.sleep(0.01)
        time.sleep(600)
        raise AssertionError("nobody stopped it")


class ChildEatsMemory(BruteForce):
    """Takes none itself: a process that it starts takes 600 MiB."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        program = "import time; eaten = b'x' * (600 * 1024**2); time.sleep(600)"
        with subprocess.Popen([sys.executable, "-c", program], start_new_session=True):
            time.sleep(600)
        raise AssertionError("nobody stopped it")


class StartsAServer(BruteForce):
    """Takes little itself: a server that it starts when it opens takes 120 MiB, as a child of its own."""

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        program = "import time; held = b'x' * (120 * 1024**2); print('up', flush=True); time.sleep(600)"
        command = ["/bin/sh", "-c", f'{sys.executable} -c "{program}" & wait']
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.server.stdout is not None
        self.server.stdout.readline()
        return super().open(folder, ids)

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        time.sleep(0.5)  # both hold their memory for a while, as a busy machine looks at it late
        return super().index(documents, progress, clock)


class SharesMemory(BruteForce):
    """Takes 300 MiB, and for a second three forked processes hold the same pages."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        self.taken = np.ones(300 * 1024**2, dtype=np.uint8)
        children = []
        for _ in range(3):
            children.append(os.fork())
            if children[-1] == 0:
                time.sleep(1)
                os._exit(0)
        for child in children:
            os.waitpid(child, 0)
        return super().index(documents, progress, clock)


class Leaves(BruteForce):
    """Ends its process as if all was well."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        os._exit(0)


class Exits(BruteForce):
    """Asks Python to exit."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        raise SystemExit(0)


class PrintsGarbage(BruteForce):
    """Writes to standard output from Python and below it."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        print('{"event": "garbage"}\n{')
        os.write(1, b"\xff\x00 no JSON at all\n")
        return super().search(queries, k, clock)


class SaysWhatIsNoNumber(BruteForce):
    """Has NaN, infinity and a number of NumPy's in the state of its index."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        return replace(
            super().index(documents, progress, clock),
            state={"mean": np.nan, "largest": np.inf, "segments": np.int64(1)},
        )


class LeavesProcesses(BruteForce):
    """Starts three processes that would run for ten minutes: a child, a forked one, and one in a session of its own.

    The forked one holds whatever pipes the worker had.
    """

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        forked = os.fork()
        if forked == 0:
            time.sleep(600)
            os._exit(0)
        children = [subprocess.Popen(command), subprocess.Popen(command, start_new_session=True)]
        numbers = [forked, *(child.pid for child in children)]
        (folder / "started").write_text(" ".join(map(str, numbers)))
        (folder / "mark").write_text(os.environ[MARK_VARIABLE])
        return super().open(folder, ids)


class NotesWorkers(BruteForce):
    """Notes, in the file that NOTED_WORKERS names, which other children its parent has while it works."""

    def _note(self) -> None:
        children = psutil.Process(os.getppid()).children()
        others = [str(child.pid) for child in children if child.pid != os.getpid()]
        with Path(os.environ["NOTED_WORKERS"]).open("a") as noted:
            noted.write(f"{os.getpid()}: {' '.join(others)}\n")

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        self._note()
        return super().index(documents, progress, clock)

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        self._note()
        return super().search(queries, k, clock)


class LeavesProcessesAndCrashes(LeavesProcesses):
    """As its parent class, and dies."""

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        os.kill(os.getpid(), signal.SIGSEGV)
        raise AssertionError("unreachable")


class Stumbles(BruteForce):
    """Raises an exception that no engine should let through."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        print("about to stumble")
        raise KeyError("inner detail")


class CannotSayWhatItIs(BruteForce):
    """Raises when it is asked for its versions."""

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        raise ValueError("no version to be found")


class NeverSaysWhatItIs(BruteForce):
    """Hangs when it is asked for its versions."""

    @classmethod
    def identity(cls, parameters: Mapping[str, ParameterValue]) -> Mapping[str, str]:
        time.sleep(600)
        raise AssertionError("unreachable")


class Lingers(BruteForce):
    """Leaves a thread behind that never ends."""

    def close(self) -> None:
        threading.Thread(target=time.sleep, args=(600,)).start()


class ExplainsItself(BruteForce):
    """Explains scores in its own words."""

    def explain(self, query: Inputs, rows: np.ndarray) -> ScoreTrees:
        def tree(row: int) -> ScoreTree:
            return ScoreTree(1.5, "found by looking", (ScoreTree(float(row), "row"),))

        return ScoreTrees(tuple(map(tree, rows.tolist())))


class StumblesOverScores(BruteForce):
    """Raises an exception when it is to explain scores."""

    def explain(self, query: Inputs, rows: np.ndarray) -> ScoreTrees:
        raise EngineFailureError("it forgot how it scores", fix="ask another engine")


class ExplainsByNaN(BruteForce):
    """Explains every score as no number."""

    def explain(self, query: Inputs, rows: np.ndarray) -> ScoreTrees:
        return ScoreTrees(tuple(ScoreTree(float("nan"), "none") for _ in rows))


class TossesCoins(BruteForce):
    """Ranks documents of even rows first for a share of the queries, ``luck``, and of odd rows for all others.

    Which queries these are depends on ``toss`` too: of equal shares none is better than another, except by chance.
    """

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        if float(self.parameters["luck"]) > 1.0:
            raise EngineFailureError("no share is above 1")
        hits = super().search(queries, k, clock)
        rows = hits.rows.copy()
        scores = hits.scores.copy()
        for query, (start, stop) in enumerate(pairwise(hits.indptr.tolist())):
            coin = random.Random(f"{self.parameters['toss']} {query}").random()
            even = coin < float(self.parameters["luck"])
            rows[start:stop] = sorted(rows[start:stop].tolist(), key=lambda row: (row % 2 == 0) != even)
            scores[start:stop] = np.arange(stop - start, 0, -1)
        return hits._replace(rows=rows, scores=scores)
