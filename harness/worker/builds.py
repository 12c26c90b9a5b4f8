"""Builds of indexes: one for all backends that differ only in how it is searched, and further ones as samples.

An engine that gives other rankings each time it builds is sampled: one build of it is a sample of one.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.data.dataset import Dataset
from harness.data.progress import Progress
from harness.data.types import Run
from harness.engines.interface import Capabilities
from harness.errors import HarnessError
from harness.plan.capability_checks import OWN_ADAPTERS
from harness.plan.plan import Plan, Trial, may_be_server
from harness.registry.lookup import load_engine
from harness.store.records import load, save
from harness.worker.executor import Executor
from harness.worker.jobs import BuildCost, RebuildHits, TrialJob, TrialRecord
from harness.worker.outcome import checked_run, refuse_lost_documents
from harness.worker.process import Finished

__all__ = ["Rebuilder", "SharedBuild", "SharedBuilds", "build_cost", "builds_of", "of_build", "rebuilt_runs"]


@dataclass(eq=False, slots=True)
class SharedBuild:
    """An index that several trials search.

    ``folder`` is the job folder of the trial that built it, None until then; ``label`` is that trial's backend.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    folder: Path | None = None
    index_folder: Path = Path()
    label: str = ""

    def share(self, job: TrialJob) -> TrialJob:
        """Return the job of a trial that builds the index for others too, or that searches what is built."""
        if self.folder is None:
            return replace(job, shared=True)
        return replace(job, built=self.folder, index_folder=self.index_folder)

    def searched(self, job: TrialJob, folder: Path, label: str, record: TrialRecord) -> TrialRecord:
        """Return the record of a finished trial with who built its index; a new build is kept for later trials."""
        if job.built is not None:
            return replace(record, built_by=self.label)
        self.folder, self.index_folder, self.label = folder, job.index_folder, label
        return record


class SharedBuilds:
    """The builds of one plan that more than one of its trials can search."""

    def __init__(self, trials: tuple[Trial, ...]) -> None:
        self._left = Counter(key for trial in trials if (key := _key(trial)) is not None)
        self._shared = {key: SharedBuild() for key, count in self._left.items() if count > 1}

    @contextmanager
    def of(self, trial: Trial, capabilities: Capabilities) -> Iterator[SharedBuild | None]:
        """Give the build that the trial shares, held for it alone; None when it builds for itself.

        A build whose trial fails is dropped, and the next trial makes its own: nobody knows in what state it is.
        """
        build = self._shared.get(_key(trial)) if capabilities.reopens else None
        if build is None:
            yield None
            return
        with build.lock:
            try:
                yield build
            except HarnessError:
                _drop(build)
                raise

    def release(self, trial: Trial) -> None:
        """End a trial, whether it ran or not; after the last trial of a build its index is removed."""
        key = _key(trial)
        self._left[key] -= 1
        build = self._shared.get(key)
        if build is not None and self._left[key] == 0:
            _drop(build)


def _key(trial: Trial) -> Hashable:
    """Return what a trial's index is made of; None for a server's collection, which is gone when its trial ends."""
    card = trial.spec.card
    if card is None or trial.external or may_be_server(trial):
        return None
    free = set(card.scope("search"))
    return (card.name, *sorted((name, value) for name, value in trial.parameters.items() if name not in free))


def _drop(build: SharedBuild) -> None:
    if build.folder is not None:
        shutil.rmtree(build.folder, ignore_errors=True)
        build.folder = None


def builds_of(trial: Trial, plan: Plan) -> int:
    """Return how many indexes the trial's result is made of: those of the plan, 1 for a deterministic engine.

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
    """Return the runs of all builds after the first; an index that was there before has none."""
    queries, documents = dataset.queries.ids, dataset.corpus.ids
    return tuple(Run(queries, documents, hits.indptr, hits.rows, hits.scores) for hits in record.rebuilds)


def build_cost(record: TrialRecord, memory: Finished | None) -> BuildCost:
    """Return what the build of a trial took.

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
