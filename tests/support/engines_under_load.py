"""Engines that open their index again, for tests of what is measured on it: good ones, and one for each mishap."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO, ClassVar

import numpy as np
from engines_for_tests import BruteForce

from harness.data.inputs import Inputs
from harness.data.progress import Clock, Progress
from harness.data.types import Ids
from harness.engines.interface import Capabilities, EngineInfo, IndexReport, SearchResult, Storage
from harness.errors import EngineFailureError, EngineUnavailableError
from harness.registry.parameters import ParameterValue
from harness.store.columns import load_sparse, save_sparse


class Shared(BruteForce):
    """Any number of processes may have its index open, and any number of threads may search."""

    capabilities: ClassVar[Capabilities] = replace(
        BruteForce.capabilities, reopens=True, shares_index=True, threads=True
    )
    mode: ClassVar[str] = "in process"

    def __init__(self, parameters: Mapping[str, ParameterValue]) -> None:
        super().__init__(parameters)
        self.folder = Path()
        self.reopened = False

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        self.folder, self.reopened = folder, (folder / "documents.json").exists()
        if self.reopened:
            self.documents = load_sparse(folder, "documents")
        return EngineInfo("kept", "1", self.mode)

    def index(self, documents: Inputs, progress: Progress, clock: Clock) -> IndexReport:
        report = super().index(documents, progress, clock)
        assert documents.sparse is not None
        save_sparse(self.folder, "documents", documents.sparse)
        (self.folder / "documents.json").touch()
        return report


class Slow(Shared):
    """Takes 20 ms a call, so that a single client gets 50 queries a second at most."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        time.sleep(0.02)
        found = super().search(queries, k, clock)
        return found._replace(search_ns=found.search_ns + 20_000_000)


class Locked(Shared):
    """One process at a time, as Qdrant Edge."""

    capabilities: ClassVar[Capabilities] = replace(Shared.capabilities, shares_index=False, threads=False)
    lock: IO[str] | None = None

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        self.lock = (folder / "lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EngineUnavailableError("another process has this index open", fix="close it") from error
        return super().open(folder, ids)

    def close(self) -> None:
        if self.lock is not None:
            self.lock.close()


class SecondClientDies(Locked):
    """Killed as the second client of a measurement, which is the first to get a copy."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        if "copy-1" in self.folder.parts:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().search(queries, k, clock)


class NeverReopens(Shared):
    """Says that it opens its index again, and cannot."""

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        info = super().open(folder, ids)
        if self.reopened:
            raise EngineUnavailableError("the index is gone", fix="index again")
        return info


class FailsUnderLoad(Shared):
    """One query fails whenever a client asks it."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        if self.reopened and "q2" in list(queries.ids):
            raise EngineFailureError("searching query 'q2' failed")
        return super().search(queries, k, clock)


class AnswersDifferQueryByQuery(Locked):
    """Two clients get wrong rows, each for another query."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        found = super().search(queries, k, clock)
        wrong = "q4" if "copy-1" in self.folder.parts else "q1"
        rows = found.rows.copy()
        for place, name in enumerate(queries.ids):
            if self.reopened and name == wrong:
                here = slice(int(found.indptr[place]), int(found.indptr[place + 1]))
                rows[here] += 1
        return found._replace(rows=rows)


class AnswersOtherwise(Shared):
    """Clients get the hits of every query in the reverse order."""

    def search(self, queries: Inputs, k: int, clock: Clock) -> SearchResult:
        found = super().search(queries, k, clock)
        if not self.reopened:
            return found
        rows = [found.rows[start:stop][::-1] for start, stop in zip(found.indptr[:-1], found.indptr[1:], strict=True)]
        return found._replace(rows=np.concatenate(rows))


class Server(Locked):
    """Reached from outside: whoever built the index takes it away when it closes."""

    mode: ClassVar[str] = "server, made for tests"

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        return Shared.open(self, folder, ids)

    def close(self) -> None:
        if not self.reopened:
            (self.folder / "documents.json").unlink(missing_ok=True)


class DiesWhileHeld(Server):
    """Killed a second after its index was finished."""

    def storage(self) -> Storage:
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGKILL)).start()
        return super().storage()


class NeverCloses(Server):
    """Hangs when it should close."""

    def close(self) -> None:
        if not self.reopened:
            time.sleep(3600)


class GrowsWhileHeld(Server):
    """Takes ever more memory once its index is finished, 16 MiB at a time, up to 4 GiB."""

    def storage(self) -> Storage:
        threading.Thread(target=_grow, daemon=True).start()
        return super().storage()


def _grow() -> None:
    eaten = []
    for _ in range(256):
        eaten.append(np.ones(16 * 1024**2, dtype=np.uint8))
        time.sleep(0.01)
