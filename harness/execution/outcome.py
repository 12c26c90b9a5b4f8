"""What became of a trial: its run, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass

from harness.execution.combine import Combined
from harness.execution.failure import Failure
from harness.execution.jobs import TrialRecord
from harness.execution.process import Finished
from harness.execution.vectors import Vectors
from harness.planning.plan import Trial
from harness.types import Run

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
