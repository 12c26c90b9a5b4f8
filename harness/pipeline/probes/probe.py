"""A probe: a further measurement of trials, with its record, its part of the result and its tables.

::

    run(trial) ─► record ─► summarise ─► fields of the trial's result ─► tables, values

:class:`Probe` has an empty default for each of its methods: a probe overrides the methods that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar, Generic, NamedTuple, TypeVar

from harness.data.dataset import Dataset
from harness.data.filtering import BoolArray
from harness.data.progress import Progress
from harness.data.types import Int64Array, Run
from harness.document.cells import text, values_of
from harness.document.model import Cell, Figure, Table, Value, Verdict
from harness.plan.capability_checks import BUILT_IN_ENGINES
from harness.plan.plan import Plan, Trial
from harness.results.schema import TrialResult
from harness.results.schema_costs import LatencyStats
from harness.results.scored import ScoredTrial
from harness.stats.timing import latency
from harness.store.cpu_use import OtherProcesses
from harness.store.record_files import load, save
from harness.worker.executor import Executor, create_clients
from harness.worker.jobs import TrialJob, TrialRecord
from harness.worker.outcome import Measurements, Outcome, checked_run, refuse_lost_documents
from harness.worker.process import FinishedProcess
from harness.worker.threads import Aside

REUSED = "†"
"""Marks a backend in tables whose outcome an earlier comparison measured."""
RecordOf = TypeVar("RecordOf", covariant=True)  # noqa: PLC0105 - a record is only ever given out


@dataclass(frozen=True, eq=False, slots=True)
class ProbedTrial:
    """A trial to be measured, whose engine has built its index and answered every query.

    Args:
        trial: The backend, with its parameters.
        plan: The request.
        dataset: Documents, queries and judgments.
        job: The job of the trial's worker: files of vectors and queries, and the location of the index.
        folder: Folder of that job, with the trial's hits; a probe's own files may lie there.
        work: Folder for files that outlast the job's, such as another index.
        executor: Runs a worker for a probe, under the limits of trials.
        shared: Whether several processes may have the index open at once.
        terms: Which queries have a term that a document has, bool (Q,).
        open_in_worker: Whether the trial's worker still has its index open, as servers' workers do.
        reopened: Whether the index was closed and opened again before it was searched.
    """

    trial: Trial
    plan: Plan
    dataset: Dataset
    job: TrialJob
    folder: Path
    work: Path
    executor: Executor
    shared: bool
    terms: BoolArray
    open_in_worker: bool = False
    reopened: bool = False

    @property
    def clients(self) -> Executor:
        """Runs several workers side by side, under the limits of trials."""
        return create_clients(self.plan.request)


class AnotherBuild(NamedTuple):
    """One more build of a trial's index: its hits and costs, and the end of its worker."""

    record: TrialRecord
    finished: FinishedProcess


class Probe(Generic[RecordOf]):
    """Measures trials, and describes the measurements.

    Attributes:
        name: Names it in stored outcomes and in the settings of a plan.
        record: Dataclass of its measurements, as :mod:`harness.store.record_files` stores it; None for a probe that
            measures nothing itself, and sums up what the worker of every trial records.
        options: Names of the fields of the request that select it; empty for a probe of every trial.
        kinds: Kinds of backends that it is for; empty for all.
        on_index: Whether it needs the trial's index, which is deleted at the end of the trial.
        fields: Names of the fields of the trial's result whose numbers are in CSV unchanged.
    """

    name: ClassVar[str]
    record: type[RecordOf] | None = None
    options: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[frozenset[str]] = frozenset()
    on_index: ClassVar[bool] = True
    fields: ClassVar[frozenset[str]] = frozenset()

    def applies_to(self, trial: Trial, plan: Plan) -> bool:
        """Return whether the plan requests it on this trial."""
        return False

    def refuse(self, plan: Plan, dataset: Dataset) -> None:
        """Raise UsageError if the plan requests an impossible measurement of this dataset, before anything runs."""

    def run(self, probed: ProbedTrial, progress: Progress) -> RecordOf | None:
        """Measure. Raises HarnessError if the whole trial is to fail with it."""
        return None

    def measured(self, measurements: Measurements) -> RecordOf | None:
        """Return its record among the records of a trial; None if there is none."""
        record = measurements.get(self.name)
        return record if self.record is not None and isinstance(record, self.record) else None

    def planned(self, plan: Plan) -> str:
        """Describe in a line what the plan requests of it; empty for nothing."""
        return ""

    def unmeasured(self, trial: Trial, plan: Plan) -> str:
        """Say why it leaves out a trial although the plan requests it; empty if it does not."""
        return ""

    def levels(self, plan: Plan) -> list[str]:
        """Name each measurement that the plan requests: a stored outcome that lacks one is not re-used."""
        return []

    def conditions(self, plan: Plan) -> Mapping[str, object]:
        """Return options that its times depend on, by name: with others, a stored outcome is of other conditions."""
        return {}

    def failure(self, measurements: Measurements) -> str | None:
        """Return why a measurement failed, in a sentence; None if none did."""
        return None

    def runs(self, outcome: Outcome, plan: Plan, dataset: Dataset) -> tuple[Run, ...]:
        """Return further runs of the trial, which are compared with the reference and scored like its own."""
        return ()

    def summarise(self, scored: ScoredTrial, dataset: Dataset, plan: Plan) -> Mapping[str, object]:
        """Return its fields of the trial's result, by name.

        A name that :class:`harness.results.schema.TrialResult` does not have is stored under ``probes``. Then the value
        is plain: texts, numbers, lists and dicts.
        """
        return {}

    def summaries(self, scored: Sequence[ScoredTrial], dataset: Dataset, plan: Plan) -> Sequence[Mapping[str, object]]:
        """Return :meth:`summarise` of every trial; to be overridden if a probe's trials share the work."""
        return [self.summarise(trial, dataset, plan) for trial in scored]

    def notes(self, scored: ScoredTrial, plan: Plan) -> list[str]:
        """Return what a reader must know of the measurement, one sentence each."""
        return []

    def tables(self, trials: Sequence[TrialResult], cores: int) -> list[Table]:
        """Return its tables over all backends of a dataset, with the number of cores; tables without rows are dropped.

        A row begins with :func:`label_cell`.
        """
        return []

    def other_processes(self, measurements: Measurements) -> Sequence[OtherProcesses]:
        """Return the other processes' use of the cores while it measured a trial, by phase."""
        return ()

    def verdicts(self, trials: Sequence[TrialResult]) -> list[Verdict]:
        """Return the lines that its measurements over all backends of a dataset add to the verdict, few or none."""
        return []

    def figures(self, trials: Sequence[TrialResult], series: Mapping[str, int]) -> list[Figure]:
        """Return its figures over all backends of a dataset; ``series`` are the numbers of their series by label."""
        return []

    def values(self, trial: TrialResult) -> Iterator[Value]:
        """Yield its numbers for CSV: by default the numbers of its :attr:`fields`."""
        yield from values_of(trial.dataset, trial.label, "", trial.model_dump(include=set(self.fields)))


def label_cell(trial: TrialResult) -> Cell:
    """Return the label, marked if an earlier comparison measured the backend."""
    return text(trial.label, REUSED if trial.reused else "")


def latency_stats(samples_ns: Int64Array) -> LatencyStats | None:
    """Return percentiles of nanoseconds as a result stores them; None without samples."""
    return LatencyStats(**asdict(latency(samples_ns))) if samples_ns.size else None


def job_of_another_build(job: TrialJob, folder: Path) -> TrialJob:
    """Return the job of one more build after the trial's, with an index in ``folder``.

    Of a server's collections only the first may be kept.
    """
    index_folder = folder / job.index_folder.name
    index_folder.mkdir(parents=True, exist_ok=True)
    keeps_index = job.engine.startswith(BUILT_IN_ENGINES) and "keep" in job.parameters
    parameters = {**job.parameters, "keep": False} if keeps_index else job.parameters
    return replace(job, parameters=parameters, index_folder=index_folder, release=None, built=None)


def run_another_build(probed: ProbedTrial, job: TrialJob, folder: Path, progress: Progress) -> AnotherBuild:
    """Run a job of :func:`job_of_another_build` in ``folder``, and return its result.

    Raises HarnessError if it fails, loses documents, or has hits that make no run.
    """
    folder.mkdir(exist_ok=True)
    save(folder, job)
    finished = probed.executor.run(folder, progress)
    record = load(folder, TrialRecord)
    refuse_lost_documents(record, probed.dataset, finished.log)
    checked_run(record, probed.dataset)
    return AnotherBuild(record, finished)


def run_probes(probes: Sequence[Probe[object]], probed: ProbedTrial, progress: Progress) -> dict[str, object]:
    """Return the measurements of each of some probes on a trial, by its name."""
    records = {probe.name: probe.run(probed, progress) for probe in probes}
    return {name: record for name, record in records.items() if record is not None}


class OpenIndexProbing:
    """Measuring while a trial waits with its index open, which ends the waiting.

    A server drops the index when its engine closes, so probes come before; other engines close first. Measuring goes
    on in a thread, so that the executor keeps watching the trial. Leaving the ``with`` block ends measurements that
    still run: their index is gone.
    """

    def __init__(self, measure: Callable[[], dict[str, object]], release: Path | None) -> None:
        """Call ``measure``, then write ``release``, the file that the trial waits for."""
        self._run, self._release = measure, release
        self._aside: Aside[dict[str, object]] = Aside()

    def begin(self) -> None:
        """Begin to measure; return at once."""
        self._aside.begin(self._measure)

    def measurements(self) -> dict[str, object] | None:
        """Return the measurements, None if the trial did not wait; raises what measuring raised."""
        return self._aside.result()

    def _measure(self) -> dict[str, object]:
        try:
            return self._run()
        finally:
            if self._release is not None:
                self._release.touch()

    def __enter__(self) -> OpenIndexProbing:
        return self

    def __exit__(self, *_: object) -> None:
        self._aside.__exit__()
