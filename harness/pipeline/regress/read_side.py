"""A side from wherever the user says that it is: a result folder of any verb, or a baseline file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.errors import ResultError
from harness.pipeline.regress.check_side import check_side
from harness.pipeline.regress.stored_regression import REGRESSION_NAME
from harness.results.baseline import read_baseline
from harness.results.check_schema import CheckReport
from harness.results.snapshot import ResultSnapshot, stored_snapshots
from harness.results.stored import read_any_report
from harness.store.result_folder import REPORT_NAME

__all__ = ["read_side"]


def read_side(path: Path) -> ResultSnapshot:
    """A result folder of ``compare`` or ``check``, its ``report.json``, or a baseline file.

    Raises ResultError where it is none of them, damaged, or of a newer schema.
    """
    folder = path.parent if path.name == REPORT_NAME else path
    if not folder.is_dir():
        return _only(read_baseline(folder))
    if (folder / REGRESSION_NAME).exists() and not (folder / REPORT_NAME).exists():
        raise ResultError(
            f"'{folder}' holds what `harness diff` found, and no result of its own",
            fix="name one of the two results that it compared",
        )
    report = read_any_report(folder)
    return check_side(folder, report) if isinstance(report, CheckReport) else _only(stored_snapshots(folder, report))


def _only(snapshots: Sequence[ResultSnapshot]) -> ResultSnapshot:
    """Return the snapshot of the only dataset; raises ResultError where there are several."""
    if len(snapshots) > 1:
        named = ", ".join(one.report.dataset.name for one in snapshots)
        raise ResultError(f"'{snapshots[0].source}' is of several datasets: {named}", fix="compare results of one")
    return snapshots[0]
