"""The whole numbers that options take."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import UsageError

__all__ = ["LARGEST", "LARGEST_SEED", "require_whole_numbers"]

LARGEST = 999_999_999
"""The largest number of any option but a seed: the largest cutoff of a measure, and within 32 bits for every engine."""
LARGEST_SEED = 2**63 - 1
"""What a stored result holds as a number."""


def require_whole_numbers(given: Mapping[str, int], least: int = 1, most: int = LARGEST) -> None:
    """Raise one UsageError for all options (name -> value) outside ``least`` to ``most``."""
    wrong = [f"{name} is {value}" for name, value in given.items() if not least <= value <= most]
    if wrong:
        subject = "it" if len(wrong) == 1 else "each"
        raise UsageError("; ".join(wrong), fix=f"{subject} must be from {least} to {most:,}")
