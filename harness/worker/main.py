"""The worker process: ``python -m harness.worker.main MODULE …``, with the path of a job folder on standard input.

The modules are imported before the job is known, so that this goes on while the parent prepares it.
Standard output becomes a pipe of JSON lines to the parent before anything heavy is imported; what libraries print goes
to standard error, which is the job's log. How the job ended is the last message, so that a process that only went away
is no success.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import BinaryIO, NoReturn

import orjson
import psutil

from harness.errors import HarnessError
from harness.worker.descendants import guard_group
from harness.worker.dispatch import JobEvents, run_job
from harness.worker.spawn import JOB_END


@dataclass(frozen=True, slots=True)
class PipeProgress:
    """Progress as JSON lines; a message is one ``write``, so that lines of several threads stay whole."""

    pipe: BinaryIO

    def start(self, phase: str, total: int | None) -> None:
        """Tell the parent that a phase begins."""
        self.send(event="start", phase=phase, total=total)

    def advance(self, amount: int) -> None:
        """Tell the parent that ``amount`` more units are done."""
        self.send(event="advance", amount=amount)

    def memory_baseline(self) -> None:
        """Tell the parent that memory counts from here."""
        memory = psutil.Process().memory_info()
        self.send(event="memory_baseline", anonymous_bytes=int(memory.rss - getattr(memory, "shared", 0)))

    def waiting(self) -> None:
        """Tell the parent that the job waits for clients of its index."""
        self.send(event="waiting")

    def resumed(self) -> None:
        """Tell the parent that the job goes on."""
        self.send(event="resumed")

    def send(self, **message: str | int | list[str] | None) -> None:
        """Send one message to the parent."""
        self.pipe.write(orjson.dumps(message) + b"\n")
        self.pipe.flush()


def main() -> int:
    """Import, wait for a job, run it; the exit code is 0 when it ended well, and when there was none."""
    progress = PipeProgress(_take_over_stdout())
    gc.disable()  # importing leaves nothing to collect
    for module in sys.argv[1:]:
        with suppress(Exception):  # whoever needs it imports it again, and says what is wrong
            importlib.import_module(module)
    gc.freeze()  # nor does a collection in the middle of a search look through what was imported
    gc.enable()
    folder = _await_job()
    if folder is None:
        return 0
    guard_group()
    signal.signal(signal.SIGTERM, _leave)
    try:
        run_job(folder, progress, JobEvents(progress.memory_baseline, progress.waiting, progress.resumed))
    except HarnessError as error:
        # through the pipe: the disk of the job's folder may be full
        progress.send(event="failed", type=type(error).__name__, what=error.what, fix=error.fix, log=list(error.log))
        return error.exit_code
    progress.send(event="finished", peak_rss_bytes=_peak_rss_bytes())
    return 0


def _await_job() -> Path | None:
    """Return the job's folder, whose log is standard error from then on; None when the parent is gone."""
    path = b""
    while not path.endswith(JOB_END):
        received = os.read(0, 4096)  # a pipe may hand over a path in pieces
        if not received:
            return None
        path += received
    folder = Path(os.fsdecode(path.removesuffix(JOB_END)))
    # appending, so that lines of processes that the job starts do not overwrite one another
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 2)
    os.dup2(log, 1)
    os.close(log)
    return folder


def _take_over_stdout() -> BinaryIO:
    # messages keep the pipe; what a client prints, even from C, goes to standard error instead of between them
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
