"""How far a mean moves when nothing but the build changes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.data.types import Float64Array
from harness.errors import UsageError
from harness.stats.values import finite

__all__ = ["NoiseFloor", "noise_floor"]


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The spread of a difference of two means that comes from builds alone.

    ``sd`` is the standard deviation of the difference between one build of each side, ``df`` its degrees of freedom.
    """

    sd: float
    df: float

    def size(self, alpha: float = 0.05) -> float:
        """The difference that two builds of equal quality exceed, in one direction, with probability ``alpha``."""
        if self.sd == 0.0:
            return 0.0
        from scipy import stats

        return float(stats.t.isf(alpha, self.df)) * self.sd


def noise_floor(before: npt.ArrayLike, after: npt.ArrayLike) -> NoiseFloor | None:
    """The noise floor from the means of every build of each side; a side with one build is deterministic.

    ``before`` and ``after`` hold one mean a build, of the same metric on the same queries. The variances of the two
    sides are added, with the degrees of freedom of Satterthwaite (Biometrics Bulletin 2, 1946). None where no build
    differs from another: then there is no noise. Raises UsageError for a side without builds, DataError for NaN.
    """
    parts = [_variance(finite(before, "before")), _variance(finite(after, "after"))]
    return combined(parts)


def combined(parts: Sequence[tuple[float, float]]) -> NoiseFloor | None:
    """Independent variances, each with its degrees of freedom, added up; None where all of them are 0."""
    total = math.fsum(variance for variance, _ in parts)
    if total == 0.0:
        return None
    weight = math.fsum((variance / total) ** 2 / df for variance, df in parts if variance > 0.0)
    return NoiseFloor(math.sqrt(total), 1.0 / weight)


def _variance(means: Float64Array) -> tuple[float, float]:
    if len(means) == 0:
        raise UsageError("a noise floor of no builds", fix="give the mean of each build, at least one a side")
    if len(means) == 1 or np.ptp(means) == 0.0:
        return 0.0, 1.0
    return float(np.var(means, ddof=1)), float(len(means) - 1)
