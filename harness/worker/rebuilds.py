"""Builds after the first: of an engine that gives other rankings each time it builds, one build is a sample of one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.data import ranking
from harness.data.dataset import Dataset
from harness.data.progress import Progress
from harness.data.types import Run
from harness.errors import HarnessError
from harness.plan.plan import Plan, Trial
from harness.registry.lookup import load_engine
from harness.worker.checks import OWN_ADAPTERS, refuse_lost_documents, refuse_unmatched
from harness.worker.executor import Executor
from harness.worker.jobs import TrialJob, TrialRecord, read_trial, write_job
from harness.worker.process import Finished
from harness.worker.rebuild_files import BuildCost, RebuildHits

__all__ = ["Rebuilder", "build_cost", "builds_of", "of_build", "rebuilt_runs"]


def builds_of(trial: Trial, plan: Plan) -> int:
    """How many indexes the trial's result is made of: those that the plan asks for, 1 for a deterministic engine.

    0 where nothing is built: an index that was there before, a stored run, a backend that is made of others. Raises
    HarnessError where the engine cannot be loaded.
    """
    card = trial.spec.card
    if card is None or trial.external or trial.spec.components:
        return 0
    if plan.request.rebuilds == 1 or load_engine(card).capabilities.deterministic:
        return 1
    return plan.request.rebuilds


def rebuilt_runs(record: TrialRecord, dataset: Dataset) -> tuple[Run, ...]:
    """The runs of all builds after the first; an index that was there before has none."""
    return tuple(_run(hits, dataset) for hits in record.rebuilds)


def build_cost(record: TrialRecord, memory: Finished | None) -> BuildCost:
    """What the build of a trial took.

    Without the peaks where another trial built its index: ``memory`` is of a worker that only searched then.
    """
    seen = memory if record.built_by is None else None
    return BuildCost(
        index_ns=record.index.index_ns,
        ready_ns=record.index.ready_ns,
        indexed=record.index.indexed,
        index_bytes=record.storage.index_bytes,
        log_bytes=record.storage.log_bytes,
        peak_rss_bytes=seen.peak_rss_bytes if seen is not None else None,
        peak_anonymous_bytes=seen.peak_anonymous_bytes if seen is not None else None,
    )


def of_build(progress: Progress, number: int, builds: int) -> Progress:
    """``progress`` with ``build 2 of 3`` before each phase; as it is where there is one build."""
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
        """Builds 2 to ``builds``, with the hits of every query, asked once and unmeasured, and what each build took.

        ``job`` is that of the first build; with ``reopened`` its index was closed and opened again before it was
        searched, and so are these. Raises HarnessError, naming the build, where one fails or loses documents.
        """
        return tuple(
            self._again(job, number, builds, of_build(progress, number, builds), reopened=reopened)
            for number in range(2, builds + 1)
        )

    def _again(self, job: TrialJob, number: int, builds: int, progress: Progress, *, reopened: bool) -> RebuildHits:
        folder = Path(tempfile.mkdtemp(prefix=f"build-{number}-", dir=self.work))
        index_folder = folder / Path(job.index_folder).name
        index_folder.mkdir()
        try:
            with _named(f"build {number} of {builds}"):
                write_job(folder, _unmeasured(job, index_folder, reopened=reopened))
                finished = self.executor.run(folder, progress)
                record = read_trial(folder)
                refuse_lost_documents(record, self.dataset, finished.log)
                hits = RebuildHits(
                    record.hits.indptr, record.hits.rows, record.hits.scores, build_cost(record, finished)
                )
                run = _run(hits, self.dataset)
                ranking.check(run)
                refuse_unmatched(run, self.dataset)
                return hits
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _unmeasured(job: TrialJob, index_folder: Path, *, reopened: bool) -> TrialJob:
    """The job of a later build: its latencies are nobody's; of a server's collections only the first may be kept."""
    own = job.engine.startswith(OWN_ADAPTERS) and "keep" in job.parameters
    parameters = {**job.parameters, "keep": False} if own else job.parameters
    return replace(
        job,
        parameters=parameters,
        index_folder=str(index_folder),
        repeats=1,
        warm_up_queries=0,
        release=None,
        shared=reopened,
        built=None,
    )


def _run(hits: RebuildHits, dataset: Dataset) -> Run:
    return Run(dataset.queries.ids, dataset.corpus.ids, hits.indptr, hits.rows, hits.scores)


@contextmanager
def _named(build: str) -> Iterator[None]:
    """Whatever fails says in which build; the error stays of its own type, with its log."""
    try:
        yield
    except HarnessError as error:
        error.what = f"{build}: {error.what}"
        error.args = (error.what if error.fix is None else f"{error.what}\n  {error.fix}",)
        raise
