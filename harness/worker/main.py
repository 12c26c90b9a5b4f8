"""The worker process: ``python -m harness.worker.main MODULE …``, with the paths of job folders on standard input.

The modules are imported before the job is known, so that this goes on while the parent prepares it. Standard output
becomes a pipe of JSON lines to the parent before anything heavy is imported; libraries' output goes to standard error,
which is the job's log. The job's outcome is the last message, so that a process that merely ended does not count as a
success. A worker for several jobs still ends when a job fails, leaves the process in a different state, or leaves much
memory in use.
"""

from __future__ import annotations

import gc
import importlib
import os
import random
import signal
import socket
import sys
import threading
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import BinaryIO, NamedTuple, NoReturn

import numpy as np
import orjson
import psutil

from harness.errors import HarnessError
from harness.worker.descendants import guard_group
from harness.worker.dispatch import JobEvents, run_job
from harness.worker.spawn import JOB_END, MORE_JOBS

_MOST_GROWTH_BYTES = 512 * 1024**2
"""Resident memory beyond that before its first job with which a worker still serves another."""


@dataclass(frozen=True, slots=True)
class PipeProgress:
    """Progress as JSON lines; a message is one ``write``, so that lines of several threads stay whole."""

    pipe: BinaryIO

    def start(self, phase: str, total: int | None) -> None:
        """Report to the parent that a phase begins."""
        self.send(event="start", phase=phase, total=total)

    def advance(self, amount: int) -> None:
        """Report to the parent that ``amount`` more units are done."""
        self.send(event="advance", amount=amount)

    def memory_baseline(self) -> None:
        """Report to the parent that memory counts from here."""
        memory = psutil.Process().memory_info()
        self.send(event="memory_baseline", anonymous_bytes=int(memory.rss - getattr(memory, "shared", 0)))

    def waiting(self) -> None:
        """Report to the parent that the job waits for clients of its index."""
        self.send(event="waiting")

    def resumed(self) -> None:
        """Report to the parent that the job continues."""
        self.send(event="resumed")

    def send(self, **message: str | int | list[str] | None) -> None:
        """Send one message to the parent."""
        self.pipe.write(orjson.dumps(message) + b"\n")
        self.pipe.flush()


def main() -> int:
    """Import, wait for jobs, run them; the exit code is 0 if all ended well, and if there was none."""
    progress = PipeProgress(_take_over_stdout())
    gc.disable()  # importing leaves nothing to collect
    for module in sys.argv[1:]:
        with suppress(Exception):  # the code that needs it imports it again, and reports the error
            importlib.import_module(module)
    gc.freeze()  # nor does a collection in the middle of a search look through the imported objects
    gc.enable()
    signal.signal(signal.SIGTERM, _leave)
    most_bytes = psutil.Process().memory_info().rss + _MOST_GROWTH_BYTES
    while (job := _await_job()) is not None:
        guard = guard_group()
        random.seed()  # from the system, as in a new process
        np.random.seed()
        state = None if job.last else _ProcessState.read()
        try:
            with warnings.catch_warnings():  # a warning that is shown once is shown in each job's log
                events = JobEvents(progress.memory_baseline, progress.waiting, progress.resumed)
                run_job(job.folder, progress, events)
        except HarnessError as error:
            # through the pipe: the disk of the job's folder may be full
            log = list(error.log)
            progress.send(event="failed", type=type(error).__name__, problem=error.problem, fix=error.fix, log=log)
            return error.exit_code
        stays = state is not None and _ProcessState.read() == state and _free_memory() <= most_bytes
        progress.send(event="finished", peak_rss_bytes=_peak_rss_bytes(), stays=stays)
        if not stays or guard.wait() != 0:
            return 0
    return 0


class _Job(NamedTuple):
    """A job as it was sent: its folder, and whether the worker ends after it."""

    folder: Path
    last: bool


class _ProcessState(NamedTuple):
    """State of the process that a later job would inherit; equal before and after a job that leaves none behind."""

    environment: dict[str, str]
    folder: str | None
    path: list[str]
    threads: frozenset[threading.Thread]
    streams: tuple[object, ...]
    signals: tuple[object, ...]
    timeout: float | None

    @classmethod
    def read(cls) -> _ProcessState:
        """Read the state as it is now."""
        return cls(
            dict(os.environ),
            _current_folder(),
            list(sys.path),
            frozenset(threading.enumerate()),
            (sys.stdout, sys.stderr),
            tuple(signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)),
            socket.getdefaulttimeout(),
        )


def _current_folder() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - compared, and never opened
    except FileNotFoundError:
        return None


def _free_memory() -> int:
    """Free the memory of a job's objects; return the resident bytes that are left."""
    gc.collect()
    gc.freeze()
    return int(psutil.Process().memory_info().rss)


def _await_job() -> _Job | None:
    """Return the next job, whose log is standard error from then on; None when the parent is gone."""
    message = b""
    while not message.endswith(JOB_END):
        received = os.read(0, 4096)  # a pipe may hand over a path in pieces
        if not received:
            return None
        message += received
    kind, path = message[:1], message[1:].removesuffix(JOB_END)
    folder = Path(os.fsdecode(path))
    sys.stdout.flush()
    sys.stderr.flush()
    # appending, so that lines of processes that the job starts do not overwrite one another
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    os.dup2(log, 1)
    os.close(log)
    return _Job(folder, last=kind != MORE_JOBS)


def _take_over_stdout() -> BinaryIO:
    # messages keep the pipe; a client's output, even from C, goes to standard error instead of between them
    pipe = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(pipe, "wb")


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _peak_rss_bytes() -> int:
    """Return this process's own peak: ``ru_maxrss`` would hold the parent's too, which a started program inherits."""
    status = Path("/proc/self/status")
    if status.exists():
        high_water = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(high_water.split()[1]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak) if sys.platform == "darwin" else int(peak) * 1024


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    # at once: a client's leftover threads and exit handlers must not hold the result back
    os._exit(code)
