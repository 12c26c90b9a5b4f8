"""A pool of workers that serve several jobs one after another, for jobs without measured time or memory.

Starting a process and importing an engine takes longer than a small trial. A worker that has finished a job therefore
waits for another job that would need the same process: the same engine with the same parameters, or the same analyzer,
in the same environment and folder. It ends when a job fails, exceeds its deadline or is interrupted, and when it leaves
its process in a different state (see :mod:`harness.worker.main`); the next job then has a new process.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from harness.data.progress import Progress
from harness.errors import EngineFailureError, MachineError
from harness.registry.cards import BackendCard
from harness.registry.lookup import load_engine
from harness.registry.parameters import ParameterValue
from harness.worker.descendants import end_family, has_ended
from harness.worker.executor import Executor
from harness.worker.process import FinishedProcess, Worker
from harness.worker.spawn import WorkerProcess

_MOST_IDLE = 8


class WorkerPool:
    """Idle workers, each until a job comes that needs such a process. All end with the ``with`` block."""

    def __init__(self, *, deadline_s: float | None = None) -> None:
        """``deadline_s`` is for one job; None sets none."""
        self._deadline_s = deadline_s
        self._idle: list[tuple[Hashable, WorkerProcess]] = []
        self._lock = threading.Lock()

    def serving(self, key: Hashable) -> Executor:
        """Return an executor for jobs that need the same process."""
        return _Serving(self, key)

    def run(self, key: Hashable, folder: Path, progress: Progress) -> FinishedProcess:
        """Run one job, in an idle worker if there is one for ``key``; raises as ``Worker.run`` does."""
        process_key = (key, tuple(sorted(os.environ.items())), Path.cwd())
        job = Worker(folder, deadline_s=self._deadline_s)
        idle = self._take(process_key)
        try:
            finished, worker = job.run_pooled(idle, progress)
        except (EngineFailureError, MachineError):
            if idle is None or job.started:
                raise
            return self.run(key, folder, progress)  # it died while it was idle
        if worker is not None:
            with self._lock:
                room = len(self._idle) < _MOST_IDLE
                if room:
                    self._idle.append((process_key, worker))
            if not room:
                _end(worker)
        return finished

    def _take(self, key: Hashable) -> WorkerProcess | None:
        """Return an idle worker for a key; None if there is no such worker."""
        while True:
            with self._lock:
                suitable = next((idle for idle in self._idle if idle[0] == key), None)
                if suitable is None:
                    return None
                self._idle.remove(suitable)
            worker = suitable[1]
            if not has_ended(worker.process):
                return worker
            _end(worker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        while self._idle:
            _end(self._idle.pop()[1])


def _end(worker: WorkerProcess) -> None:
    end_family(worker.process, worker.mark, grace_s=0.0)


@dataclass(frozen=True, slots=True)
class _Serving:
    """An executor for jobs of one key."""

    pool: WorkerPool
    key: Hashable

    def slots(self, device: str = "cpu") -> int:
        """Return 1, as for workers that serve one job."""
        return 1

    def run(self, folder: Path, progress: Progress, on_waiting: Callable[[], None] | None = None) -> FinishedProcess:
        """Run one job; raises as ``Worker.run`` does. No such job waits for clients of its index."""
        return self.pool.run(self.key, folder, progress)


def engine_key(card: BackendCard, parameters: Mapping[str, ParameterValue]) -> Hashable:
    """Return the values that decide the state of an engine's process: the engine, and the parameters that it is given.

    An encoder's parameters only decide the vectors of an engine that reads vectors.
    """
    reads_vectors = set(load_engine(card).capabilities.columns) <= {"sparse", "dense"}
    encoding = set(card.scope("encoder")) if reads_vectors else set()
    return card.engine, tuple(sorted((name, value) for name, value in parameters.items() if name not in encoding))
