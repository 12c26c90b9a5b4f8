"""Engines that say in which process they run, and leave something behind there or fail in it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from engines_for_tests import BruteForce

from harness.data.types import Ids
from harness.engines.interface import EngineInfo
from harness.errors import EngineFailureError

BAD = "bad"
"""The id of a document with which :class:`Raises`, :class:`Killed` and :class:`Hangs` fail."""
STATE_LEFT = {
    "environment": lambda: os.environ.__setitem__("LEFT_BY_A_TRIAL", "1"),
    "current folder": lambda: os.chdir("/"),
    "import path": lambda: sys.path.append("/nowhere"),
    "thread": lambda: threading.Thread(target=time.sleep, args=[600], daemon=True).start(),
    "process": lambda: subprocess.Popen(["sleep", "600"]),
    "process of another session": lambda: subprocess.Popen(["sleep", "600"], start_new_session=True),
    "signal handler": lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    "standard output": lambda: setattr(sys, "stdout", sys.stderr),
    "memory": lambda: _left.append(np.ones(600_000_000, np.uint8)),
}
_left: list[np.ndarray] = []


class SaysItsProcess(BruteForce):
    """Prints the number of its process, and warns."""

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        sys.stderr.write(f"process {os.getpid()}\n")
        warnings.warn("an old format", UserWarning, stacklevel=1)
        self.ids = ids
        return super().open(folder, ids)

    def close(self) -> None:
        super().close()
        if left := self.parameters.get("left"):
            STATE_LEFT[str(left)]()


class SeedsRandomNumbers(SaysItsProcess):
    """Prints numbers of both generators, which it then seeds as every trial does."""

    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        sys.stderr.write(f"drawn {random.random()}\ndrawn {np.random.random()}\n")
        random.seed(0)
        np.random.seed(0)
        return super().open(folder, ids)


class Raises(SaysItsProcess):
    def open(self, folder: Path, ids: Ids) -> EngineInfo:
        info = super().open(folder, ids)
        if BAD in ids.to_list():
            self.fail()
        return info

    def fail(self) -> None:
        raise EngineFailureError("the index is broken", fix="build it again")


class Killed(Raises):
    def fail(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Crashes(Raises):
    def fail(self) -> None:
        os.kill(os.getpid(), signal.SIGSEGV)


class Hangs(Raises):
    def fail(self) -> None:
        time.sleep(600)
