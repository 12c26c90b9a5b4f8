"""Where jobs run: each in a spawned worker of its own, or in the harness's own process."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from harness.data.progress import Progress
from harness.errors import EngineFailureError
from harness.plan.config import LOCAL, Isolation
from harness.plan.options import ExecutionOptions
from harness.wording import counted
from harness.worker.dispatch import run_job
from harness.worker.process import Finished, Worker

_POLL_S = 0.2
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """A cluster as a result records it: Ray's version, nodes that are alive, and the seconds that reaching it took.

    ``lost`` counts the jobs that ran again because their node was lost.
    """

    ray: str
    nodes: int
    cores: int
    gpus: int
    start_seconds: float
    lost: int = 0

    def __str__(self) -> str:
        gpus = f", {counted(self.gpus, 'GPU')}" if self.gpus else ""
        size = f"{counted(self.nodes, 'node')}, {counted(self.cores, 'core')}{gpus}"
        return f"{size} with Ray {self.ray}, reached in {self.start_seconds:.1f} s"


class Executor(Protocol):
    """Runs jobs that lie in folders (:mod:`harness.worker.jobs`)."""

    def slots(self, device: str = "cpu") -> int:
        """Return how many jobs may run at once: work that can be divided is, into so many parts.

        ``device`` is what a model is asked to run on, ``cpu``, ``cuda`` or ``auto``.
        """

    def run(self, folder: Path, progress: Progress) -> Finished:
        """Run one job to its end; its results are in ``folder``. Raises HarnessError when it failed.

        May be called from several threads when the plan says so. An exception that is raised in the thread that waits,
        KeyboardInterrupt above all, ends the job.
        """


class Workers:
    """A spawned process for each job: deadlines, memory limits and crashes concern that job alone."""

    def __init__(self, *, deadline_s: float | None = None, memory_limit_bytes: int | None = None) -> None:
        """Both limits are for one job; None sets none."""
        self._deadline_s, self._memory_limit_bytes = deadline_s, memory_limit_bytes

    def slots(self, device: str = "cpu") -> int:  # noqa: ARG002 - the protocol's
        """Return 1: a model uses all cores of this machine."""
        return 1

    def run(self, folder: Path, progress: Progress) -> Finished:
        """Run one job in a worker; raises as :meth:`harness.worker.process.Worker.run` does."""
        worker = Worker(folder, deadline_s=self._deadline_s, memory_limit_bytes=self._memory_limit_bytes)
        return worker.run(progress)


class InProcess:
    """No process but the harness's own, for debuggers and profilers.

    Nothing is enforced and no memory is measured: a crash is the harness's own, and its memory holds everything else
    too. What a job prints goes to standard error, because standard output is for results.
    """

    def slots(self, device: str = "cpu") -> int:  # noqa: ARG002 - the protocol's
        """Return 1: there is one process."""
        return 1

    def run(self, folder: Path, progress: Progress) -> Finished:
        """Run one job here and now; it cannot be called from several threads."""
        try:
            with _stdout_to_stderr():
                run_job(folder, progress, before_open=_nothing)
        except SystemExit as error:
            raise EngineFailureError(
                f"the engine asked Python to exit with {error.code!r}", fix="this is a defect of the engine"
            ) from error
        return Finished(None, None, ())


def create_executor(options: ExecutionOptions) -> Executor:
    """Return the executor that the options name."""
    if options.isolation is Isolation.NONE:
        return InProcess()
    if options.executor == LOCAL:
        return create_clients(options)
    from harness.worker.ray_executor import RayExecutor, cluster

    return RayExecutor(
        cluster(options.executor), deadline_s=options.deadline_s, memory_limit_bytes=options.memory_limit_bytes
    )


def cluster_facts(executor: str) -> ClusterFacts | None:
    """Return the cluster that ``--executor`` names, which is started or reached if need be; None for this machine."""
    if executor == LOCAL:
        return None
    from harness.worker.ray_executor import cluster

    return cluster(executor).facts


def create_clients(options: ExecutionOptions) -> Workers:
    """Return workers with the limits of the options: clients are processes even where the backend is none."""
    return Workers(deadline_s=options.deadline_s, memory_limit_bytes=options.memory_limit_bytes)


def side_by_side(work: Callable[[Item], Result], items: Sequence[Item], *, jobs: int) -> list[Result]:
    """Return ``work`` of every item, ``jobs`` of them at a time in threads, in the order of the items.

    One job runs in the calling thread. When anything is raised here, an interruption too, KeyboardInterrupt is raised
    in the threads that still work, and all of them are over before it is passed on.
    """
    if jobs == 1:
        return [work(item) for item in items]
    threads = _Threads(jobs, "trial")
    try:
        futures = [threads.submit(partial(work, item)) for item in items]
        # in short waits: the system may hand a signal to another thread, which does not end a long one in this thread
        waiting: set[Future[Result]] = set(futures)
        while waiting:
            done, waiting = wait(waiting, _POLL_S, FIRST_EXCEPTION)
            for future in done:
                future.result()
        return [future.result() for future in futures]
    finally:
        threads.end()


class Aside(Generic[Result]):
    """Work in a thread beside the caller, which is interrupted when the ``with`` block ends before it."""

    def __init__(self) -> None:
        self._threads = _Threads(1, "aside")
        self._future: Future[Result] | None = None

    def begin(self, work: Callable[[], Result]) -> None:
        """Start ``work``, once."""
        self._future = self._threads.submit(work)

    def result(self) -> Result | None:
        """Return what the work returned, when it is over; raises what it raised. None when nothing was begun."""
        return None if self._future is None else self._future.result()

    def __enter__(self) -> Aside[Result]:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.end()


class _Threads:
    """A pool of threads whose work can be interrupted."""

    def __init__(self, count: int, name: str) -> None:
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._busy: set[int] = set()

    def submit(self, work: Callable[[], Result]) -> Future[Result]:
        def run() -> Result:
            self._busy.add(threading.get_ident())
            try:
                return work()
            finally:
                self._busy.discard(threading.get_ident())

        return self._pool.submit(run)

    def end(self) -> None:
        """Wait until all threads are over; those that are not are interrupted, and again by every further Ctrl-C."""
        while True:
            for thread in tuple(self._busy):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(KeyboardInterrupt))
            try:
                self._pool.shutdown(cancel_futures=True)
            except KeyboardInterrupt:
                continue
            return


def _nothing() -> None:
    """Note no base line of memory."""


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect below Python, so that it holds for native code too."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
