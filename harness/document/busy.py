"""State next to every time that the machine was busy when it was taken."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.document.model import Table
from harness.results.schema import TrialResult
from harness.results.schema_costs import OtherProcessesInfo

BUSY = "‡"
"""The mark of rows whose times were taken while other processes used the machine."""


def busy_mark(trials: Sequence[TrialResult]) -> str:
    """Return the mark if the machine was busy while any of these was timed; else nothing."""
    return BUSY if any(trial.busy_phases for trial in trials) else ""


def with_busy_marks(table: Table, trials: Sequence[TrialResult]) -> Table:
    """Return a table with the rows of backends marked that were timed on a busy machine, if it has any times.

    None of its times is the best then, and its legend says how busy the machine was.
    """
    busy = {trial.label for trial in trials if trial.busy_phases}
    if not any(column.timed for column in table.columns) or busy.isdisjoint(row[0].text for row in table.rows):
        return table
    rows = [
        [replace(row[0], mark=f"{row[0].mark}{BUSY}"), *row[1:]] if row[0].text in busy else row for row in table.rows
    ]
    return with_busy_legend(replace(table, rows=rows), trials)


def with_busy_legend(table: Table, trials: Sequence[TrialResult]) -> Table:
    """Return a table in whose marked rows these were timed: none of its times is the best, and the legend says why."""
    columns = [replace(column, best=None) if column.timed else column for column in table.columns]
    return replace(table, columns=columns, legend=[*table.legend, f"{BUSY}: {busy_sentence(trials)}"])


def busy_sentence(trials: Sequence[TrialResult]) -> str:
    """Return how busy the machine was while these were timed; empty if it was quiet."""
    phases = [phase for trial in trials for phase in trial.busy_phases]
    if not phases:
        return ""
    names = ", ".join(dict.fromkeys(trial.label for trial in trials if trial.busy_phases))
    return f"the machine was busy while {names} {'was' if ',' not in names else 'were'} timed: {_most(phases)}"


def _most(phases: Sequence[OtherProcessesInfo]) -> str:
    """Return the largest use by other processes, or the load if only the load is known."""
    measured = [phase for phase in phases if phase.used_cores is not None and phase.used_cores > 0]
    if measured:
        worst = max(measured, key=lambda phase: (phase.used_cores or 0.0) / phase.cores)
        return f"other processes used up to {worst.used_cores:.1f} of {worst.cores} cores ({worst.phase})"
    worst = max(phases, key=lambda phase: phase.load_before or 0.0)
    return f"a load of {worst.load_before:.1f} on {worst.cores} cores before {worst.phase}"
