"""Executors, which run jobs: each in a spawned worker, here or on a cluster, or in the harness's own process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from harness.data.progress import Progress
from harness.errors import EngineFailureError
from harness.plan.config import LOCAL, Isolation, RunOptions
from harness.worker.dispatch import JobEvents, run_job
from harness.worker.process import FinishedProcess, Worker
from harness.worker.ray_executor import ClusterFacts, RayExecutor, cluster


class Executor(Protocol):
    """Runs jobs that lie in folders (:mod:`harness.worker.jobs`)."""

    def slots(self, device: str = "cpu") -> int:
        """Return how many jobs may run at once: divisible work is divided into this many parts.

        ``device`` is the requested device of a model, ``cpu``, ``cuda`` or ``auto``.
        """

    def run(self, folder: Path, progress: Progress, on_waiting: Callable[[], None] | None = None) -> FinishedProcess:
        """Run one job to its end; its results are in ``folder``. Raises HarnessError when it failed.

        ``on_waiting`` is called, and returns at once, when a trial keeps a server's index open for clients.
        May be called from several threads when the plan says so. An exception that is raised in the thread that waits,
        KeyboardInterrupt above all, ends the job.
        """


class Workers:
    """A spawned process for each job: deadlines, memory limits and crashes affect only that job."""

    def __init__(self, *, deadline_s: float | None = None, memory_limit_bytes: int | None = None) -> None:
        """Both limits are for one job; None sets none."""
        self._deadline_s, self._memory_limit_bytes = deadline_s, memory_limit_bytes

    def slots(self, device: str = "cpu") -> int:
        """Return 1: a model uses all cores of this machine."""
        return 1

    def run(self, folder: Path, progress: Progress, on_waiting: Callable[[], None] | None = None) -> FinishedProcess:
        """Run one job in a worker; raises as :meth:`harness.worker.process.Worker.run` does."""
        worker = Worker(folder, deadline_s=self._deadline_s, memory_limit_bytes=self._memory_limit_bytes)
        return worker.run(progress, on_waiting)


class InProcess:
    """No process but the harness's own, for debuggers and profilers.

    Nothing is enforced and no memory is measured: a crash is the harness's own, and its memory holds other data too. A
    job's output goes to standard error, because standard output is for results.
    """

    def slots(self, device: str = "cpu") -> int:
        """Return 1: there is one process."""
        return 1

    def run(self, folder: Path, progress: Progress, on_waiting: Callable[[], None] | None = None) -> FinishedProcess:
        """Run one job here and now; it cannot be called from several threads."""
        events = JobEvents() if on_waiting is None else JobEvents(waiting=on_waiting)
        try:
            with _stdout_to_stderr():
                run_job(folder, progress, events)
        except SystemExit as error:
            raise EngineFailureError(
                f"the engine called Python's exit with {error.code!r}", fix="this is a defect of the engine"
            ) from error
        return FinishedProcess(None, None, ())


def create_executor(options: RunOptions) -> Executor:
    """Return the executor that the options name."""
    if options.isolation is Isolation.NONE:
        return InProcess()
    if options.executor == LOCAL:
        return create_clients(options)
    return RayExecutor(cluster(options.executor), deadline_s=options.deadline, memory_limit_bytes=options.memory_limit)


def reach_cluster(executor: str) -> ClusterFacts | None:
    """Reach the cluster that ``--executor`` names for a run, starting it if need be; None for this machine."""
    if executor == LOCAL:
        return None
    reached = cluster(executor)
    reached.begin_run()
    return reached.facts


def cluster_facts(executor: str) -> ClusterFacts | None:
    """Return the cluster that a run was on, with its losses; None for this machine."""
    return None if executor == LOCAL else cluster(executor).facts


def create_clients(options: RunOptions) -> Workers:
    """Return workers with the limits of the options: clients are processes even if the backend is not."""
    return Workers(deadline_s=options.deadline, memory_limit_bytes=options.memory_limit)


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Redirect below Python, so that it holds for native code too."""
    sys.stdout.flush()
    saved_stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(saved_stdout, 1)
        os.close(saved_stdout)
