"""What became of a trial: its run, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from harness.data.types import Run
from harness.plan.plan import Trial
from harness.worker.combine import Combined
from harness.worker.failure import Failure
from harness.worker.jobs import TrialRecord
from harness.worker.process import Finished
from harness.worker.vectors import Vectors

__all__ = ["Outcome"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one trial: either a ``run`` or a ``failure``.

    With a run comes a ``record`` when an engine made it, ``combined`` when it was made of other backends' hits.

    ``measured`` is when an engine ran or failed (UTC, ISO 8601). A ``reused`` outcome was stored by an earlier
    comparison. ``notes`` are sentences for the report. ``rebuilds`` are the runs of the builds after the first.
    """

    trial: Trial
    run: Run | None = None
    record: TrialRecord | None = None
    memory: Finished | None = None
    vectors: Vectors | None = None
    combined: Combined | None = None
    failure: Failure | None = None
    measured: str | None = None
    reused: bool = False
    notes: tuple[str, ...] = ()
    rebuilds: tuple[Run, ...] = ()
