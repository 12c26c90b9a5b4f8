"""Normalised cumulative gain: how much of the gain that k documents can have is among the first k, in any order."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["ncg"]

Grades = npt.NDArray[np.integer[Any]]


def ncg(grades: Grades, ideal: Grades, k: int | None = None, *, power: float = 1.0) -> float:
    """Return the share of the reachable gain that the first k documents have.

    Sum of grade^power of the first k documents / the same sum of the k best ones.
    """
    return float((grades**power).sum() / (ideal[:k] ** power).sum())
