"""Where the mean of the differences lies: Student's t with the queries' spread and, where builds differ, theirs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from harness.statistics.intervals import Interval
from harness.statistics.noise import NoiseFloor, combined
from harness.statistics.values import ROUNDING, mean_and_spread
from harness.types import Float64Array

__all__ = ["Location", "error_of", "locate"]


class Location(NamedTuple):
    """A mean, its standard error and the degrees of freedom of that, and the least p that there can be.

    Differences that are all the same have no spread, but may all be on one side by chance: ``least`` is then what
    flipping signs can give at best, 2 to the minus the number of queries; else 0.
    """

    mean: float
    error: float
    df: float
    least: float

    def p_above(self, bound: float) -> float:
        """One-sided p of the hypothesis that the true mean is at least ``bound``: small when it is lower."""
        if self.error == 0.0:
            equal = math.isclose(self.mean, bound, rel_tol=ROUNDING)
            return self.least if self.mean < bound and not equal else 1.0
        from scipy import special

        return max(self.least, float(special.stdtr(self.df, (self.mean - bound) / self.error)))

    def p_below(self, bound: float) -> float:
        """One-sided p of the hypothesis that the true mean is at most ``bound``: small when it is higher."""
        return self._replace(mean=-self.mean).p_above(-bound)

    def p_at(self, value: float) -> float:
        """Two-sided p of the hypothesis that the true mean is ``value``."""
        return min(1.0, 2.0 * min(self.p_above(value), self.p_below(value)))

    def interval(self, tail: float) -> Interval | None:
        """The interval that the true mean misses with probability ``tail`` on each side.

        None where too few queries show the same difference for any.
        """
        if self.least >= tail:
            return None
        if self.error == 0.0:
            return Interval(self.mean, self.mean)
        from scipy import special

        reach = -float(special.stdtrit(self.df, tail)) * self.error
        return Interval(self.mean - reach, self.mean + reach)


def locate(differences: Float64Array, noise: NoiseFloor | None = None) -> Location | None:
    """Mean of float64 (n,) with its error; None below two values, which have no spread."""
    if len(differences) < 2:
        return None
    mean, spread = mean_and_spread(differences)
    whole = error_of(spread, len(differences), noise)
    error, df = (0.0, math.inf) if whole is None else (whole.sd, whole.df)
    return Location(mean, error, df, 0.5 ** len(differences) if spread == 0.0 else 0.0)


def error_of(spread: float, queries: int, noise: NoiseFloor | None) -> NoiseFloor | None:
    """The error of a mean over ``queries`` differences with a standard deviation of ``spread``; None for no error.

    With noise it never has more degrees of freedom than without: Satterthwaite's sum may, for a handful of queries, and
    noise would then make a difference significant that is not.
    """
    own = (spread**2 / queries, float(queries - 1))
    if noise is None:
        return combined([own])
    whole = combined([own, (noise.sd**2, noise.df)])
    return replace(whole, df=min(whole.df, own[1])) if whole is not None and spread > 0.0 else whole
