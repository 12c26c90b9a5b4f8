"""Engines that break what they declare of several clients."""

from __future__ import annotations

import fcntl
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

from contract_fakes import FakeSparse, FakeText
from contract_kills import breaks

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.engines.interface import EngineInfo
from harness.errors import EngineUnavailableError
from harness.testing import ExpectedScores


@breaks("test_shares_its_index_where_declared")
class LocksItsIndex(FakeText):
    lock: IO[str] | None = None

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        self.lock = (folder.parent / f"{folder.name}.lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EngineUnavailableError("another process has this index open", fix="close it") from error
        return super().open(folder, ids)

    def close(self) -> None:
        if self.lock is not None:
            self.lock.close()
        super().close()


@breaks("test_shares_its_index_where_declared")
class SpoilsItForTheOthers(FakeText):
    """Whoever opens the index marks it, and answers otherwise once somebody else has."""

    marks = 0

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        info = super().open(folder, ids)
        (folder.parent / f"{folder.name}-{time.perf_counter_ns()}.mark").touch()
        self.marks = self._count(folder)
        return info

    def score(self, queries: Inputs) -> ExpectedScores:
        expected = super().score(queries)
        if self._count(self.opened()) == self.marks:
            return expected
        return expected._replace(scores=[2 * scores for scores in expected.scores])

    @staticmethod
    def _count(folder: Path) -> int:
        return len(list(folder.parent.glob(f"{folder.name}-*.mark")))


@breaks("test_a_copy_answers_the_same")
class RemembersItsFolder(FakeSparse):
    def save(self, folder: Path) -> None:
        super().save(folder)
        (folder / "home").write_text(str(folder))

    def load(self, folder: Path) -> None:
        if (folder / "home").read_text() != str(folder):
            raise EngineUnavailableError("the index was moved", fix="move it back")
        super().load(folder)


@breaks("test_threads_get_the_same_answers_where_declared")
class KeepsOneQueryForAllThreads(FakeText):
    capabilities = replace(FakeText.capabilities, shares_index=False)

    def score(self, queries: Inputs) -> ExpectedScores:
        self.asked = queries
        time.sleep(0.001)
        return super().score(self.asked)
