"""A table of text, and how quantities are written in its cells."""

from __future__ import annotations

from dataclasses import dataclass

from harness.results.schema import TrialResult

__all__ = ["FAILED", "NOT_APPLICABLE", "Table", "figure", "milliseconds", "seconds", "size"]

NOT_APPLICABLE = "–"
FAILED = "failed"
REUSED = "†"
"""Marks a backend whose costs an earlier comparison measured."""
_MEBIBYTE = 1024**2


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table; every cell is text, the first column names the backend."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def measured_label(backend: TrialResult) -> str:
    """The label in tables of what was measured, marked where that was done by an earlier comparison."""
    return f"{backend.label} {REUSED}" if backend.reused else backend.label


def size(count: int | None) -> str:
    """Bytes in MiB."""
    return NOT_APPLICABLE if count is None else f"{count / _MEBIBYTE:,.1f} MiB"


def figure(value: float | None, form: str, unit: str = "") -> str:
    """Any quantity in the given format, with its unit."""
    return NOT_APPLICABLE if value is None else f"{value:{form}}{unit}"


def seconds(value: float | None) -> str:
    """Seconds, to the millisecond."""
    return NOT_APPLICABLE if value is None else f"{value:,.3f}"


def milliseconds(value: float | None) -> str:
    """Milliseconds, to the microsecond."""
    return NOT_APPLICABLE if value is None else f"{value:,.3f}"
