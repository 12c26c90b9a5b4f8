"""Progress of long work, and the clock that times it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Protocol

Clock = Callable[[], int]
"""Nanoseconds from a monotonic clock; injected, so that tests do not wait."""


class Progress(Protocol):
    """Shows the progress of long work."""

    def start(self, phase: str, total: int | None) -> None:
        """Begin a phase; ``total`` is in the phase's own unit (documents, queries), None when unknown."""

    def advance(self, amount: int) -> None:
        """Count ``amount`` more units of the current phase as done."""


class Display(Protocol):
    """Shows the progress of a whole comparison."""

    def section(self, label: str) -> Progress:
        """Return the progress of one encoding or one backend."""

    def done(self, label: str, outcome: str) -> None:
        """Show that one backend is finished; ``outcome`` is a few words."""


class DisplayOfPart:
    """A display of one part of a whole, such as a dataset, whose lines bear the part's name."""

    def __init__(self, display: Display, part: str) -> None:
        self._display, self._part = display, part

    def section(self, label: str) -> Progress:
        """Return the progress of one encoding or one backend of this part."""
        return self._display.section(f"{self._part} · {label}")

    def done(self, label: str, outcome: str) -> None:
        """Show that one backend is finished with this part."""
        self._display.done(f"{self._part} · {label}", outcome)


class RenamedDisplay:
    """A display that shows backends under other names."""

    def __init__(self, display: Display, names: Mapping[str, str]) -> None:
        """Show each label of ``names`` as its value, and any other label unchanged."""
        self._display, self._names = display, names

    def section(self, label: str) -> Progress:
        """Return the progress of one encoding or one backend."""
        return self._display.section(self._names.get(label, label))

    def done(self, label: str, outcome: str) -> None:
        """Show that one backend is finished."""
        self._display.done(self._names.get(label, label), outcome)


class CombinedProgress:
    """Progress of jobs that do parts of the same work, shown as one job's; any thread may call it."""

    def __init__(self, progress: Progress, phase: str, total: int) -> None:
        """Begin ``phase``, of ``total`` units in all jobs together."""
        self._progress, self._lock = progress, threading.Lock()
        progress.start(phase, total)

    def start(self, phase: str, total: int | None) -> None:
        """Show nothing: each job has its own phases."""

    def advance(self, amount: int) -> None:
        """Count ``amount`` more units as done."""
        with self._lock:
            self._progress.advance(amount)


class PartOf:
    """Progress of one part of longer work: its phases bear the part's name."""

    def __init__(self, progress: Progress, part: str) -> None:
        self._progress, self._part = progress, part

    def start(self, phase: str, total: int | None) -> None:
        """Begin a phase of the part."""
        self._progress.start(f"{self._part}: {phase}", total)

    def advance(self, amount: int) -> None:
        """Count ``amount`` more units as done."""
        self._progress.advance(amount)


class SilentDisplay:
    """No progress at all: the default of the Python interface."""

    def section(self, label: str) -> SilentDisplay:
        """Return itself: it takes every phase and shows none."""
        return self

    def start(self, phase: str, total: int | None) -> None:
        """Show nothing."""

    def advance(self, amount: int) -> None:
        """Show nothing."""

    def done(self, label: str, outcome: str) -> None:
        """Show nothing."""
