"""How trials are carried out: in which process, how many at a time, within which limits, timed or not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from harness.errors import UsageError

__all__ = ["WARM_UP_SECONDS", "ExecutionOptions", "Isolation", "share", "size_in_bytes", "warm_up_seconds"]

WARM_UP_SECONDS = 5.0
_WARM_UP_VARIABLE = "HARNESS_WARM_UP"

_LARGEST_SIZE = 2**63 - 1
_UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


class Isolation(StrEnum):
    """Where a backend runs."""

    PROCESS = "process"
    """In a worker process of its own."""
    NONE = "none"
    """In the harness's process: for debuggers, profilers, and where processes cannot be started."""


@dataclass(frozen=True, slots=True)
class ExecutionOptions:
    """Everything about a plan that decides how it is carried out, and nothing about what comes out."""

    isolation: Isolation = Isolation.PROCESS
    timing: bool = True
    jobs: int = 1
    repeat: int = 1
    warm_up: float = WARM_UP_SECONDS
    """Seconds at most."""
    deadline_s: float | None = None
    memory_limit_bytes: int | None = None
    verify_cache: float = 0.0

    @property
    def warms_up(self) -> bool:
        """Whether queries are asked unmeasured first."""
        return self.timing and self.warm_up > 0

    def contradictions(self) -> Iterator[UsageError]:
        """What cannot be had together, one error each."""
        if self.jobs > 1 and self.timing:
            yield UsageError(
                f"--jobs {self.jobs} with timing: backends that run side by side slow one another down",
                fix="add --no-timing, or leave --jobs out",
            )
        if self.repeat > 1 and not self.timing:
            yield UsageError(
                f"--repeat {self.repeat} with --no-timing: passes are repeated for their times only",
                fix="leave one of the two out",
            )
        if self.isolation is Isolation.NONE:
            asked = {
                "--jobs": self.jobs > 1,
                "--deadline": self.deadline_s is not None,
                "--memory-limit": self.memory_limit_bytes is not None,
            }
            for option in (option for option, given in asked.items() if given):
                yield UsageError(
                    f"{option} with --isolation none: that needs workers, which the harness can watch and end",
                    fix=f"leave {option} out, or use --isolation process",
                )

    def notes(self) -> Iterator[str]:
        """What a reader of the report must know, one sentence each."""
        if not self.timing:
            yield "no times were taken (--no-timing): no warm-up, and one pass over the queries"
        if self.isolation is Isolation.NONE:
            yield (
                "the backends ran in the harness's own process (--isolation none): their memory was not measured, "
                "and their times may hold what earlier backends left in it"
            )


def warm_up_seconds(value: float | None) -> float:
    """``value``, else what HARNESS_WARM_UP says, else 5.0. Raises UsageError unless that is finite and at least 0."""
    named, text = "--warm-up", str(value)
    if value is None:
        named, text = _WARM_UP_VARIABLE, os.environ.get(_WARM_UP_VARIABLE, "") or str(WARM_UP_SECONDS)
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise UsageError(f"{named} is {text}", fix="it must be 0 seconds or more")
    return found


def share(value: float | str | None, option: str) -> float:
    """A share from 0 to 1, of ``1%`` or a number; None is 0. Raises UsageError."""
    if value is None:
        return 0.0
    text = str(value).strip()
    try:
        found = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        found = -1.0
    if not 0 < found <= 1:
        raise UsageError(f"{option} is '{value}'", fix="write a share: 1%, or 0.01")
    return found


def size_in_bytes(value: int | str | None, option: str) -> int | None:
    """Bytes, or a number with KiB, MiB or GiB (``2GiB``); None stays None.

    Raises UsageError, naming ``option``, for anything else, for sizes below one byte and for those beyond 64 bits.
    """
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMG]iB|)", str(value).strip())
    size = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if not 1 <= size <= _LARGEST_SIZE:
        raise UsageError(f"{option} is '{value}'", fix="write bytes, or a number with KiB, MiB or GiB: 512MiB, 2GiB")
    return size
