"""Builds of indexes: one for all backends that differ only in how it is searched, and the number of builds."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.data.progress import PartOf, Progress
from harness.engines.interface import Capabilities
from harness.errors import HarnessError
from harness.plan.plan import Plan, Trial, may_be_server
from harness.registry.cards import FIELDS
from harness.registry.lookup import load_engine
from harness.worker.jobs import TrialJob, TrialRecord


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
        """Return the job of a trial that builds the index for other trials too, or that searches an existing build."""
        if self.folder is None:
            return replace(job, shared=True)
        return replace(job, built=self.folder, index_folder=self.index_folder)

    def searched(self, job: TrialJob, folder: Path, label: str, record: TrialRecord) -> TrialRecord:
        """Return the record of a finished trial with the builder of its index; a new build is kept for later trials."""
        if job.built is not None:
            return replace(record, built_by=self.label)
        self.folder, self.index_folder, self.label = folder, job.index_folder, label
        return record


class SharedBuilds:
    """The builds of one plan that more than one of its trials can search."""

    def __init__(self, trials: tuple[Trial, ...]) -> None:
        self._keys = {trial.label: key for trial in trials if (key := _key(trial)) is not None}
        self._left = Counter(self._keys.values())
        self._shared = {key: SharedBuild() for key, count in self._left.items() if count > 1}

    @contextmanager
    def of(self, trial: Trial, capabilities: Capabilities) -> Iterator[SharedBuild | None]:
        """Return the build that the trial shares, reserved for it; None when it builds for itself.

        A build whose trial fails is dropped, because its state is unknown, and the next trial makes its own.
        """
        build = self._shared.get(self._keys.get(trial.label)) if capabilities.reopens else None
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
        key = self._keys.get(trial.label)
        self._left[key] -= 1
        build = self._shared.get(key)
        if build is not None and self._left[key] == 0:
            _drop(build)


def _key(trial: Trial) -> Hashable:
    """Return the key of a trial's index; None for a server's collection, which is deleted when its trial ends."""
    card = trial.spec.card
    if card is None or trial.external or may_be_server(trial):
        return None
    free = set(card.scope("search"))
    values = {name: value for name, value in trial.parameters.items() if name not in free}
    if values.get(FIELDS) and card.searches_fields:
        from harness.registry.field_weights import field_names

        values[FIELDS] = field_names(str(values[FIELDS]))  # weights are of the search
    return (card.name, *sorted(values.items()))


def _drop(build: SharedBuild) -> None:
    if build.folder is not None:
        shutil.rmtree(build.folder, ignore_errors=True)
        build.folder = None


def builds_of(trial: Trial, plan: Plan) -> int:
    """Return the number of indexes that the trial's result covers: the plan's number, 1 for a deterministic engine.

    0 if nothing is built: for an existing index, a stored run, a backend made of others. Raises HarnessError if the
    engine cannot be loaded.
    """
    card = trial.spec.card
    if card is None or trial.external or trial.spec.components:
        return 0
    if plan.request.rebuilds == 1 or load_engine(card).capabilities.deterministic:
        return 1
    return plan.request.rebuilds


def build_progress(progress: Progress, number: int, builds: int) -> Progress:
    """Return a progress with ``build 2 of 3`` before each phase; unchanged for a single build."""
    return progress if builds < 2 else PartOf(progress, f"build {number} of {builds}")
