"""What is wrong with one input file, collected line by line and reported at once."""

from __future__ import annotations

from harness.errors import DataError

__all__ = ["Problems"]

_KEPT = 20


class Problems:
    """The problems of one file: the first twenty are kept, all are counted, so that a wrong file costs no memory."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.count = 0
        self._kept: list[str] = []

    def add(self, line: int | None, text: str) -> None:
        """Note a problem on ``line`` (counted from 1; None for the whole file)."""
        self.count += 1
        if len(self._kept) < _KEPT:
            self._kept.append(text if line is None else f"line {line}: {text}")

    def raise_if_any(self, fix: str | None = None) -> None:
        """Raise one DataError with everything noted, if anything was."""
        if self.count:
            raise DataError(self.source, self._kept, fix=fix, count=self.count)
