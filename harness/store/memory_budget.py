"""Memory for blockwise computations in the command's own process: within ``--memory-limit`` if it is set.

Blocks change no bit of a result, only how much of it is in memory at once.
"""

from __future__ import annotations

from typing import Self

import psutil

from harness.errors import MemoryLimitError

_MOST_BYTES = 384 << 20
"""A block takes no more even without a limit: larger blocks gain nothing."""
_LEAST_BYTES = 1 << 20
_MEBIBYTE = 1 << 20
_budgets: list[MemoryBudget] = []
"""Budgets of the runs of this process that are in progress."""


class MemoryBudget:
    """Anonymous memory that a run may add to this process's memory at the time the budget is made.

    Blocks stay within the budget during each ``with`` block.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._base_bytes = anonymous_bytes()

    def __enter__(self) -> Self:
        _budgets.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _budgets.remove(self)

    def require(self, least_bytes: int, purpose: str) -> int:
        """Return the bytes that are left; raises MemoryLimitError for less than the least."""
        used = max(0, anonymous_bytes() - self._base_bytes)
        if self.limit_bytes - used < least_bytes:
            needed = -(-(used + least_bytes) // _MEBIBYTE)
            raise MemoryLimitError(
                f"{purpose} needs {needed:,} MiB in the command's own process, more than the "
                f"{self.limit_bytes // _MEBIBYTE:,} MiB it was given",
                fix="give it more with --memory-limit",
            )
        return self.limit_bytes - used


def anonymous_bytes() -> int:
    """Return the memory of this process that is not mapped from files; all resident memory if unknown."""
    memory = psutil.Process().memory_info()
    return int(memory.rss - getattr(memory, "shared", 0))


def values_at_once(bytes_each: int, purpose: str, *, reserved_bytes: int = 0) -> int:
    """Return the number of values to compute at a time, if each takes ``bytes_each``.

    Args:
        bytes_each: Bytes of one value, with everything derived from it.
        purpose: The computation, as the subject of an error.
        reserved_bytes: Bytes that the computation takes in addition, for any size of its blocks.

    Raises:
        MemoryLimitError: The budget leaves no room for a block of 1 MiB.
    """
    rooms = [budget.require(reserved_bytes + _LEAST_BYTES, purpose) for budget in _budgets]
    return min([_MOST_BYTES, *(room - reserved_bytes for room in rooms)]) // bytes_each
