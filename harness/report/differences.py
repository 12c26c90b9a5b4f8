"""The table of differences between backends, and the marks that say what they are worth."""

from __future__ import annotations

from harness.report.cells import NOT_APPLICABLE, Table
from harness.results.schema import PairedDifference, Result

__all__ = ["differences", "family_of", "legend_of_differences", "mark_of", "reference_of"]

_BETTER, _WORSE, _UNDECIDED, _EQUAL, _TIED = "▲", "▼", "~", "=", "≈"


def mark_of(row: PairedDifference) -> str:
    """What a difference is worth, in one sign that needs no colour; :func:`legend_of_differences` has the meanings."""
    if row.verdict == "same":
        return _EQUAL
    if row.within_ties:
        return _TIED
    return {"better": _BETTER, "worse": _WORSE, "undecided": _UNDECIDED}[row.verdict]


def reference_of(report: Result) -> str | None:
    """The label of the backend that all others are compared with; None where all pairs are, and without pairs."""
    reference = report.plan.resolved.get("reference")
    return reference if isinstance(reference, str) and report.differences else None


def differences(report: Result, metrics: list[str]) -> list[Table]:
    """One row a pair, one column a metric; no table without pairs."""
    if not report.differences:
        return []
    reference = reference_of(report)
    cells: dict[str, dict[str, str]] = {}
    for row in report.differences:
        name = row.b if reference is not None else f"{row.b} − {row.a}"
        cells.setdefault(name, {})[row.metric] = _cell(row)
    rows = [(name, *(found.get(metric, NOT_APPLICABLE) for metric in metrics)) for name, found in cells.items()]
    if reference is None:
        return [Table("Differences between backends", ("backends", *metrics), tuple(rows))]
    return [Table(f"Differences from {reference}", ("backend", *metrics), tuple(rows))]


def legend_of_differences(report: Result) -> list[str]:
    """What the marks of :func:`differences` mean; only those that occur."""
    reference = reference_of(report)
    than = f"than {reference}" if reference is not None else "than the one after the minus sign"
    family = f"Holm's correction for {family_of(report)}"
    meanings = {
        _BETTER: f"{_BETTER}: better {than}, p < 0.05 after {family} (paired randomisation test)",
        _WORSE: f"{_WORSE}: worse {than}, p < 0.05 after {family} (paired randomisation test)",
        _UNDECIDED: f"{_UNDECIDED}: not significant after {family}; report.json has each p and interval",
        _EQUAL: f"{_EQUAL}: equal on every query",
        _TIED: f"{_TIED}: inside what the order of tied documents can move, so no difference",
    }
    shown = {mark_of(row) for row in report.differences}
    return [meaning for mark, meaning in meanings.items() if mark in shown]


def family_of(report: Result) -> str:
    """What p-values are adjusted for, in words: a comparison in which no query differs is no part of it."""
    compared = len(report.differences)
    asked = sum(row.p is not None and row.wins + row.losses > 0 for row in report.differences)
    if asked == compared:
        return f"the {compared} comparisons of this table" if compared > 1 else "the one comparison of this table"
    return f"the {asked} of {compared} comparisons of this table in which a query differs"


def _cell(row: PairedDifference) -> str:
    mark = mark_of(row)
    return mark if mark == _EQUAL else f"{row.difference:+.4f} {mark}".replace("-", "−")
