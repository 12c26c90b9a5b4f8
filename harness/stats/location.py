"""Where the mean of the differences lies, with the queries' spread and, where builds differ, theirs.

Student's t, and what skewed differences do to it.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from harness.data.types import Float64Array
from harness.stats.intervals import Interval
from harness.stats.noise import NoiseFloor, combined
from harness.stats.skewness import hall, hall_inverse, skewness_of_mean
from harness.stats.values import ROUNDING, mean_and_spread

__all__ = ["Error", "Location", "error_of", "locate"]


class Error(NamedTuple):
    """The standard error of a mean, its degrees of freedom, and the skewness of the mean."""

    sd: float
    df: float
    skewness: float


class Location(NamedTuple):
    """A mean, the errors that it may have, and the least p that there can be.

    Each question is put to t and to Hall's transformation of it, and the more doubtful answer counts: skewness can
    excuse a difference, never make one. ``errors`` is that of the queries and, with noise, that of both together; the
    more doubtful counts there too. Differences that are all the same have no spread, hence no error of their own, but
    may all be on one side by chance: ``least`` is then what flipping signs can give at best, 2 to the minus the number
    of queries; else 0.
    """

    mean: float
    errors: tuple[Error, ...]
    least: float

    def p_above(self, bound: float) -> float:
        """One-sided p of the hypothesis that the true mean is at least ``bound``: small when it is lower."""
        if not self.errors:
            equal = math.isclose(self.mean, bound, rel_tol=ROUNDING)
            return self.least if self.mean < bound and not equal else 1.0
        from scipy import special

        ps = []
        for sd, df, skewness in self.errors:
            t = (self.mean - bound) / sd
            ps.append(float(special.stdtr(df, max(t, hall(t, skewness)))))
        return max(self.least, *ps)

    def p_below(self, bound: float) -> float:
        """One-sided p of the hypothesis that the true mean is at most ``bound``: small when it is higher."""
        return self._mirrored().p_above(-bound)

    def p_at(self, value: float) -> float:
        """Two-sided p of the hypothesis that the true mean is ``value``."""
        return min(1.0, 2.0 * min(self.p_above(value), self.p_below(value)))

    def interval(self, tail: float) -> Interval | None:
        """The values of the true mean that :meth:`p_above` and :meth:`p_below` do not reject at ``tail``, below 0.5.

        None where too few queries show the same difference for any.
        """
        if self.least >= tail:
            return None
        return Interval(-_highest(self._mirrored(), tail), _highest(self, tail))

    def _mirrored(self) -> Location:
        errors = tuple(one._replace(skewness=-one.skewness) for one in self.errors)
        return Location(-self.mean, errors, self.least)


def _highest(where: Location, tail: float) -> float:
    """The true mean of which ``p_above`` is ``tail``."""
    if not where.errors:
        return where.mean
    from scipy import special

    reaches = []
    for sd, df, skewness in where.errors:
        t = float(special.stdtrit(df, tail))
        reaches.append(-min(t, hall_inverse(t, skewness)) * sd)
    return where.mean + max(reaches)


def locate(differences: Float64Array, noise: NoiseFloor | None = None) -> Location | None:
    """Mean of float64 (n,) with its errors; None below two values, which have no spread."""
    queries = len(differences)
    if queries < 2:
        return None
    mean, spread = mean_and_spread(differences)
    own, whole = (error_of(spread, queries, floor) for floor in (None, noise))
    errors, skewness = [], 0.0
    if own is not None:
        skewness = skewness_of_mean(differences)
        errors.append(Error(own.sd, own.df, skewness))
    if noise is not None and whole is not None:
        # third cumulants add up, and that of builds is taken for 0
        share = own.sd / whole.sd if own is not None else 0.0
        errors.append(Error(whole.sd, whole.df, skewness * share**3))
    return Location(mean, tuple(errors), 0.5**queries if own is None else 0.0)


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
