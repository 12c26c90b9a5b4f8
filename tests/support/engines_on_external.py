"""Engines that change the user's index, and then fail in one way each."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from harness.data.progress import Clock
from harness.data.types import Ids
from harness.engines.csr import CsrEngine
from harness.engines.interface import SearchResult


class WritesAndRaises(CsrEngine):
    """Adds a file to the index, and raises what no engine should let through."""

    def search_prepared(self, prepared: list[Any], ids: Ids, k: int, clock: Clock) -> SearchResult:
        Path(str(self.source), "mine.txt").write_text("I was here")
        raise KeyError("inner detail")


class WritesAndIsKilled(CsrEngine):
    """Adds a file to the index, and dies."""

    def search_prepared(self, prepared: list[Any], ids: Ids, k: int, clock: Clock) -> SearchResult:
        Path(str(self.source), "mine.txt").write_text("I was here")
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("unreachable")


class WritesAndExits(CsrEngine):
    """Adds a file to the index, and asks Python to exit."""

    def search_prepared(self, prepared: list[Any], ids: Ids, k: int, clock: Clock) -> SearchResult:
        Path(str(self.source), "mine.txt").write_text("I was here")
        raise SystemExit(0)
