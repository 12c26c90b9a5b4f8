"""The whole numbers that options take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from harness.errors import UsageError

__all__ = ["LARGEST", "LARGEST_SEED", "require_whole_numbers", "unwrap_numbers"]

LARGEST = 999_999_999
"""The largest number of any option but a seed: the largest cutoff of a measure, and within 32 bits for every engine."""
LARGEST_SEED = 2**63 - 1
"""What a stored result holds as a number."""


def unwrap_numbers(request: Any) -> None:  # noqa: ANN401 - any frozen dataclass
    """Turn NumPy's numbers in the fields of a new request into Python's, which results store."""
    for field in fields(request):
        value = getattr(request, field.name)
        if isinstance(value, np.generic):
            object.__setattr__(request, field.name, value.item())


def require_whole_numbers(given: Mapping[str, object], least: int = 1, most: int = LARGEST) -> None:
    """Raise one UsageError for all options (name -> value) that are no whole numbers from ``least`` to ``most``."""
    wrong = [
        f"{name} is {value!r}" for name, value in given.items() if type(value) is not int or not least <= value <= most
    ]
    if wrong:
        subject = "it" if len(wrong) == 1 else "each"
        raise UsageError("; ".join(wrong), fix=f"{subject} must be a whole number from {least} to {most:,}")
