"""Builds after the first: of an engine that gives other rankings each time it builds, one build is a sample of one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.data.dataset import Dataset
from harness.data.progress import Progress
from harness.errors import HarnessError
from harness.plan.capability_checks import OWN_ADAPTERS
from harness.store.record_files import load, save
from harness.worker.builds import build_cost
from harness.worker.executor import Executor
from harness.worker.jobs import RebuildHits, TrialJob, TrialRecord
from harness.worker.outcome import checked_run, refuse_lost_documents

__all__ = ["Rebuilder", "of_build"]


def of_build(progress: Progress, number: int, builds: int) -> Progress:
    """Return a progress with ``build 2 of 3`` before each phase; unchanged where there is one build."""
    return progress if builds < 2 else _OfBuild(progress, f"build {number} of {builds}")


class _OfBuild:
    def __init__(self, progress: Progress, build: str) -> None:
        self._progress, self._build = progress, build

    def start(self, phase: str, total: int | None) -> None:
        self._progress.start(f"{self._build}: {phase}", total)

    def advance(self, amount: int) -> None:
        self._progress.advance(amount)


@dataclass(frozen=True, eq=False, slots=True)
class Rebuilder:
    """Builds and searches again, one build after the other, each in a worker and a folder of its own under ``work``."""

    executor: Executor
    dataset: Dataset
    work: Path

    def run(self, job: TrialJob, builds: int, progress: Progress, *, reopened: bool) -> tuple[RebuildHits, ...]:
        """Return builds 2 to ``builds``: the hits of every query, asked once and unmeasured, and what each build took.

        ``job`` is that of the first build; with ``reopened`` its index was closed and opened again before it was
        searched, and so are these. Raises HarnessError, naming the build, where one fails or loses documents.
        """
        return tuple(
            self._again(job, number, builds, of_build(progress, number, builds), reopened=reopened)
            for number in range(2, builds + 1)
        )

    def _again(self, job: TrialJob, number: int, builds: int, progress: Progress, *, reopened: bool) -> RebuildHits:
        folder = Path(tempfile.mkdtemp(prefix=f"build-{number}-", dir=self.work))
        index_folder = folder / job.index_folder.name
        index_folder.mkdir()
        try:
            with _named(f"build {number} of {builds}"):
                save(folder, _unmeasured(job, index_folder, reopened=reopened))
                finished = self.executor.run(folder, progress)
                record = load(folder, TrialRecord)
                refuse_lost_documents(record, self.dataset, finished.log)
                checked_run(record, self.dataset)
                return RebuildHits(*record.hits[:3], build_cost(record, finished))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _unmeasured(job: TrialJob, index_folder: Path, *, reopened: bool) -> TrialJob:
    """Return the job of a later build: nothing is timed, and of a server's collections only the first may be kept."""
    own = job.engine.startswith(OWN_ADAPTERS) and "keep" in job.parameters
    parameters = {**job.parameters, "keep": False} if own else job.parameters
    return replace(
        job,
        parameters=parameters,
        index_folder=index_folder,
        repeats=1,
        warm_up_queries=0,
        release=None,
        shared=reopened,
        built=None,
    )


@contextmanager
def _named(build: str) -> Iterator[None]:
    """Let whatever fails say in which build; the error stays of its own type, with its log."""
    try:
        yield
    except HarnessError as error:
        error.what = f"{build}: {error.what}"
        error.args = (error.what if error.fix is None else f"{error.what}\n  {error.fix}",)
        raise
