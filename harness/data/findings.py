"""A finding: something about data or results that a reader must know, with what to do about it."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["Finding"]


class Finding(NamedTuple):
    """The outcome of one check. ``message`` gives the numbers, ``fix`` what to do, ``examples`` the first cases.

    An *error* makes a result invalid: it gets no scores. A *warning* is shown beside the scores.
    """

    check: str
    severity: Literal["error", "warning"]
    message: str
    fix: str
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line: the name of the check, what it found, the first cases, and the fix."""
        cases = f" ({'; '.join(self.examples)})" if self.examples else ""
        return f"{self.severity} ({self.check}): {self.message}{cases}; fix: {self.fix}"
