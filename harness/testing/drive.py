"""What drives an engine in tests: a clock that never waits, and a progress that remembers."""

from __future__ import annotations

__all__ = ["STEP_NS", "RecordingProgress", "StepClock"]

STEP_NS = 1_000_003
"""A prime number of nanoseconds: durations taken from another clock are practically never multiples of it."""


class StepClock:
    """A clock that moves on by :data:`STEP_NS` with every reading: durations show who read it."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        """The time in nanoseconds, one step later than at the last reading."""
        self.now_ns += STEP_NS
        return self.now_ns


class RecordingProgress:
    """Keeps what an engine says about its progress: phases with their totals, and the sum of all advances."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, int | None]] = []
        self.advanced: list[int] = []

    def start(self, phase: str, total: int | None) -> None:
        """A phase begins."""
        self.phases.append((phase, total))
        self.advanced.append(0)

    def advance(self, amount: int) -> None:
        """The current phase moves on; raises IndexError when none has begun."""
        self.advanced[-1] += amount
