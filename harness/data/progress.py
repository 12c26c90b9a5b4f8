"""How long work says how far it is, and the clock that times it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Clock", "Display", "Progress"]

Clock = Callable[[], int]
"""Nanoseconds from a monotonic clock; injected, so that tests do not wait."""


class Progress(Protocol):
    """Where long work says how far it is."""

    def start(self, phase: str, total: int | None) -> None:
        """Begin a phase; ``total`` is in the phase's own unit (documents, queries), None when unknown."""

    def advance(self, amount: int) -> None:
        """``amount`` more units of the current phase are done."""


class Display(Protocol):
    """Where the progress of a whole comparison is shown."""

    def section(self, label: str) -> Progress:
        """Progress of one encoding or one backend."""

    def done(self, label: str, outcome: str) -> None:
        """One backend is finished; ``outcome`` is a few words."""
