"""One build for all backends of a plan that differ only in how the finished index is searched."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.engines.interface import Capabilities
from harness.errors import HarnessError
from harness.plan.plan import Trial, may_be_server
from harness.worker.jobs import TrialJob, TrialRecord

__all__ = ["Build", "Builds"]


@dataclass(eq=False, slots=True)
class Build:
    """An index that several trials search.

    ``folder`` is the job folder of the trial that built it, None until then; ``label`` is that trial's backend.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    folder: Path | None = None
    index_folder: str = ""
    label: str = ""

    def share(self, job: TrialJob) -> TrialJob:
        """The job of a trial that builds the index for others too, or of one that searches what is built."""
        if self.folder is None:
            return replace(job, shared=True)
        return replace(job, built=str(self.folder), index_folder=self.index_folder)

    def searched(self, job: TrialJob, folder: Path, label: str, record: TrialRecord) -> TrialRecord:
        """The record of a trial that is over, naming who built its index; a new build is kept for those that follow."""
        if job.built is not None:
            return replace(record, built_by=self.label)
        self.folder, self.index_folder, self.label = folder, job.index_folder, label
        return record


class Builds:
    """The builds of one plan that more than one of its trials can search."""

    def __init__(self, trials: tuple[Trial, ...]) -> None:
        self._left = Counter(key for trial in trials if (key := _key(trial)) is not None)
        self._shared = {key: Build() for key, count in self._left.items() if count > 1}

    @contextmanager
    def of(self, trial: Trial, capabilities: Capabilities) -> Iterator[Build | None]:
        """The build that the trial shares, held for it alone; None when it builds for itself.

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
        """The trial is over, whether it ran or not; after the last one of a build its index is removed."""
        key = _key(trial)
        self._left[key] -= 1
        build = self._shared.get(key)
        if build is not None and self._left[key] == 0:
            _drop(build)


def _key(trial: Trial) -> Hashable:
    """What the index of a trial is made of; a server's collection is gone when its trial ends, and shared by none."""
    card = trial.spec.card
    if card is None or trial.external or may_be_server(trial):
        return None
    free = set(card.scope("search"))
    return (card.name, *sorted((name, value) for name, value in trial.parameters.items() if name not in free))


def _drop(build: Build) -> None:
    if build.folder is not None:
        shutil.rmtree(build.folder, ignore_errors=True)
        build.folder = None
