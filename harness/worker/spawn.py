"""Start worker processes, the first one of a command before its job is known.

A worker imports its modules and then waits for the path of its job folder on standard input. A worker that is started
early does so while its parent imports and prepares, or while texts are analysed for its trial; the next job takes it,
so that no worker begins while another builds or searches. This module imports little: it runs before the rest.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

MARK_VARIABLE = "HARNESS_WORKER"
"""Set to the mark of a worker in its environment, and so in the environment of all its descendants."""
JOB_END = b"\0"
"""Ends the path of a job folder on a worker's standard input."""
LAST_JOB, MORE_JOBS = b"-", b"+"
"""One of them begins the message of a job: whether the worker ends after it."""
NEXT_JOB = b"\n"
"""Precedes the message of every job after the first: it ends the worker's guard, which reads a line."""
_MOST_EARLY = 2
_numbers = itertools.count()


class WorkerProcess(NamedTuple):
    """A started worker, and the value of MARK_VARIABLE in its environment.

    ``early_log`` holds the output of an early worker before it has a job.
    """

    process: subprocess.Popen[bytes]
    mark: str
    early_log: BinaryIO | None = None

    def keep_early_log(self, log: Path) -> None:
        """Put an ended worker's output from before it had a job at the beginning of the job's log."""
        if self.early_log is not None:
            with self.early_log as stream:
                stream.seek(0)
                early = stream.read()
            if early:
                log.write_bytes(early + log.read_bytes())


_early: list[WorkerProcess] = []
_modules: list[Sequence[str]] = []
"""Modules that workers which start early import, while a command wants them to."""


def start_worker(log: BinaryIO, modules: Sequence[str] = ()) -> WorkerProcess:
    """Start a worker that imports ``modules`` and waits; ``log`` gets its output until it has a job.

    It reports progress on its standard output.
    """
    mark = f"{os.getpid()}-{next(_numbers)}-{time.time_ns()}"
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "harness.worker.main", *modules],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        # Ctrl-C in the terminal reaches only the command, which ends the worker with every process that it started
        start_new_session=True,
        env={**os.environ, MARK_VARIABLE: mark},
    )
    return WorkerProcess(process, mark)


@contextmanager
def start_early(*modules: str) -> Iterator[None]:
    """Start a worker for the first job that is run within the block, and end it there when none was."""
    _modules.append(modules)
    start_next()
    try:
        yield
    finally:
        _modules.clear()
        while _early:
            _end(_early.pop())


def start_next() -> None:
    """Start a worker for the job after an imminent one that is not an engine's, if the command starts workers early.

    Analysing texts is such a job: the trial that waits for it comes next, and its worker imports in the meantime. At
    most two wait, for that job and for the next: jobs that run in earlier jobs' workers take none.
    """
    if _modules and len(_early) < _MOST_EARLY:
        log = cast("BinaryIO", tempfile.TemporaryFile())  # noqa: SIM115 - closed with the worker
        _early.append(start_worker(log, _modules[-1])._replace(early_log=log))


def take_worker(log: BinaryIO) -> WorkerProcess:
    """Return the worker that was started early, if it is there and alive; else start one."""
    while True:
        try:
            worker = _early.pop(0)
        except IndexError:  # none, or another thread took it
            return start_worker(log)
        if worker.process.poll() is None:
            return worker
        _end(worker)


def send_job(worker: WorkerProcess, job: Path, *, last: bool = True, first: bool = True) -> None:
    """Send a job to a worker, which is its ``first`` or ``last``; a worker that has died is noticed by its reader."""
    stdin = worker.process.stdin
    if stdin is None:
        raise AssertionError("the worker was started without a pipe")
    try:
        begin = (b"" if first else NEXT_JOB) + (LAST_JOB if last else MORE_JOBS)
        os.write(stdin.fileno(), begin + os.fsencode(job) + JOB_END)
    except BrokenPipeError:
        return


def _end(worker: WorkerProcess) -> None:
    """End a worker that has no job, and so has started nothing."""
    process = worker.process
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, worker.early_log):
        if pipe is not None:
            pipe.close()
