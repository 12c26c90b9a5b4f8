"""Problems of one input file, collected line by line and reported at once; and findings, the outcomes of checks."""

from __future__ import annotations

from bisect import insort
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from harness.errors import DataError
from harness.wording import counted

_MAX_EXAMPLES = 20


@dataclass(eq=False, slots=True)
class Problems:
    """The problems of one file, in the order of its lines, whichever check found them and when.

    The first twenty are kept and all are counted, so that a wrong file costs no memory. ``unit`` is the counted unit:
    lines, rows, documents.
    """

    source: str
    unit: str = "line"
    count: int = field(default=0, init=False)
    _examples: list[tuple[int, int, str]] = field(default_factory=list, init=False)
    _again: Counter[str] = field(default_factory=Counter, init=False)

    def add(self, line: int | None, text: str) -> None:
        """Note a problem on ``line`` (or row …, counted from 1; None for the whole file, which comes first)."""
        self.count += 1
        insort(self._examples, (line or 0, self.count, text))
        del self._examples[_MAX_EXAMPLES:]

    def add_once(self, line: int | None, text: str) -> None:
        """Note a problem that many lines may share: the first line is named, and the others are counted."""
        if text not in self._again:
            self.add(line, text)
        self._again[text] += 1

    def location(self, number: int) -> str:
        """Return a position in the file as text: ``on line 3``, ``in row 3``."""
        return f"{'on' if self.unit == 'line' else 'in'} {self.unit} {number}"

    def raise_if_any(self, fix: str | None = None, because: str | None = None) -> None:
        """Raise one DataError with everything noted, if anything was; ``because`` explains most of it at once."""
        if self.count:
            lines = [self._format(line, text) for line, _, text in self._examples]
            raise DataError(self.source, lines, fix=fix, count=self.count, because=because)

    def _format(self, line: int, text: str) -> str:
        placed = f"{self.unit} {line}: {text}" if line else text
        repetitions = self._again[text] - 1
        return f"{placed}, and so for {counted(repetitions, self.unit)} more" if repetitions > 0 else placed


class Finding(NamedTuple):
    """The outcome of one check. ``message`` gives the numbers, ``fix`` the remedy, ``examples`` the first cases.

    An *error* makes a result invalid: it gets no scores. A *warning* is shown next to the scores.
    """

    check: str
    severity: Literal["error", "warning"]
    message: str
    fix: str
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return one line: the name of the check, its finding, the first cases, and the fix."""
        cases = f" ({'; '.join(self.examples)})" if self.examples else ""
        return f"{self.severity} ({self.check}): {self.message}{cases}; fix: {self.fix}"
