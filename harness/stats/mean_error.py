"""The error of a mean difference: the queries' spread, its skewness, and how far builds move the mean.

Student's t assumes normal differences. If a few queries carry the whole loss, a sample without those queries has a
smaller loss and also a smaller spread: t is off by a term of order 1/√n, which Hall's transformation removes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.types import Float64Array
from harness.errors import UsageError
from harness.stats.intervals import ROUNDING, Interval, finite, mean_and_spread


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """The spread of a difference of two means that is caused only by builds.

    ``sd`` is the standard deviation of the difference between one build of each side, ``df`` its degrees of freedom.
    """

    sd: float
    df: float

    def size(self, alpha: float = 0.05) -> float:
        """Return the difference that two builds of equal quality exceed, in one direction, with probability alpha."""
        if self.sd == 0.0:
            return 0.0
        from scipy import stats

        return float(stats.t.isf(alpha, self.df)) * self.sd


def noise_floor(before: npt.ArrayLike, after: npt.ArrayLike) -> NoiseFloor | None:
    """Return the noise floor from the means of every build of each side; a side with one build is deterministic.

    ``before`` and ``after`` hold one mean for each build, of the same metric on the same queries. The variances of the
    two sides are added, with the degrees of freedom of Satterthwaite (Biometrics Bulletin 2, 1946). None if no build
    differs from another: then there is no noise. Raises UsageError for a side without builds, DataError for NaN.
    """
    return sum_of_variances([_variance(finite(before, "before")), _variance(finite(after, "after"))])


def _variance(means: Float64Array) -> tuple[float, float]:
    if len(means) == 0:
        raise UsageError("a noise floor of no builds", fix="give the mean of each build, at least one per side")
    if len(means) == 1 or np.ptp(means) == 0.0:
        return 0.0, 1.0
    return float(np.var(means, ddof=1)), float(len(means) - 1)


def sum_of_variances(parts: Sequence[tuple[float, float]]) -> NoiseFloor | None:
    """Add independent variances, each with its degrees of freedom; None if all of them are 0."""
    total = math.fsum(variance for variance, _ in parts)
    if total == 0.0:
        return None
    weight = math.fsum((variance / total) ** 2 / df for variance, df in parts if variance > 0.0)
    return NoiseFloor(math.sqrt(total), 1.0 / weight)


class MeanError(NamedTuple):
    """A mean, its standard error with degrees of freedom and skewness, and the least possible p.

    Each hypothesis is tested by Student's t and by Hall's transformation of it, and the more doubtful p counts:
    skewness can excuse a difference, never make one. ``balance`` is the value around which the third moment of the
    differences vanishes. Around a bound on the far side of it they are skewed the other way, so their skewness does not
    excuse their distance from that bound: if six of seven questions lose their document, the seventh skews the
    differences, and the questions have still lost. ``error`` is None for differences that are all equal: they have no
    spread, but may all be on one side by chance. ``least`` is the smallest p that flipping signs can give, 2 to the
    minus the number of queries, and no p is smaller.
    """

    mean: float
    error: NoiseFloor | None
    skewness: float
    least: float
    balance: float

    def p_above(self, bound: float) -> float:
        """Return the one-sided p of the hypothesis that the true mean is at least ``bound``: small when it is lower."""
        if self.error is None:
            equal = math.isclose(self.mean, bound, rel_tol=ROUNDING)
            return self.least if self.mean < bound and not equal else 1.0
        from scipy import special

        t = (self.mean - bound) / self.error.sd
        doubtful = max(t, hall(t, self.skewness)) if bound < self.balance else t
        return max(self.least, float(special.stdtr(self.error.df, doubtful)))

    def p_below(self, bound: float) -> float:
        """Return the one-sided p of the hypothesis that the true mean is at most ``bound``: small when it is higher."""
        return self._mirrored().p_above(-bound)

    def p_value(self, value: float) -> float:
        """Return the two-sided p of the hypothesis that the true mean is ``value``."""
        return min(1.0, 2.0 * min(self.p_above(value), self.p_below(value)))

    def interval(self, tail: float) -> Interval | None:
        """Return the true means that :meth:`p_above` and :meth:`p_below` do not reject at ``tail``, below 0.5.

        None if there are too few queries for any.
        """
        if self.least >= tail:
            return None
        return Interval(-self._mirrored().highest(tail), self.highest(tail))

    def _mirrored(self) -> MeanError:
        return self._replace(mean=-self.mean, skewness=-self.skewness, balance=-self.balance)

    def highest(self, tail: float) -> float:
        """Return the highest true mean for which :meth:`p_above` is not below ``tail``."""
        if self.error is None:
            return self.mean
        from scipy import special

        t = float(special.stdtrit(self.error.df, tail))
        by_t, by_hall = (self.mean - bound * self.error.sd for bound in (t, hall_inverse(t, self.skewness)))
        return max(by_t, min(by_hall, self.balance))


def mean_error(differences: Float64Array, noise: NoiseFloor | None = None) -> MeanError | None:
    """Return the mean of float64 (n,) with its error; None below two values, which have no spread.

    ``noise`` adds the variance over builds to the variance over queries. Third cumulants add up too, and the builds' is
    taken to be 0, so the skewness of the mean shrinks by the cube of the queries' share of the error.
    """
    queries = len(differences)
    if queries < 2:
        return None
    mean, spread = mean_and_spread(differences)
    error = error_of(spread, queries, noise)
    least = 0.5**queries
    if spread == 0.0 or error is None:
        return MeanError(mean, error, 0.0, least, mean)
    share = spread / math.sqrt(queries) / error.sd
    return MeanError(mean, error, skewness_of_mean(differences) * share**3, least, balance_of(differences))


def error_of(spread: float, queries: int, noise: NoiseFloor | None) -> NoiseFloor | None:
    """Return the error of a mean over ``queries`` differences with a standard deviation of ``spread``.

    None for no error: differences that do not vary, and builds that do not differ.
    """
    builds = [(noise.sd**2, noise.df)] if noise is not None else []
    return sum_of_variances([(spread**2 / queries, float(queries - 1)), *builds])


def skewness_of_mean(values: Float64Array) -> float:
    """Return s/√n of float64 (n,) that vary, with the sample's skewness s as far as chance does not explain it.

    The square of s is 6/n in n normal values, by chance, and as much is taken off: s·max(0, 1 - 6/(n·s²)). So normal
    values are hardly corrected at all, and fewer than five never: their skewness cannot be that large.
    """
    n = len(values)
    centred = values - np.mean(values)
    skewness = float(np.mean(centred**3)) / float(np.mean(centred**2)) ** 1.5
    excess = skewness * skewness - 6.0 / n
    return excess / (skewness * math.sqrt(n)) if excess > 0.0 else 0.0


def balance_of(values: Float64Array) -> float:
    """Return the b for which the mean of (v - b)³ is 0, of float64 (n,) that vary.

    There is one, because that mean falls as b rises: the root of x³ + 3vx + k with x = mean - b, the variance v and the
    third central moment k, by Cardano's formula.
    """
    mean = float(np.mean(values))
    centred = values - mean
    variance, third = float(np.mean(centred**2)), float(np.mean(centred**3))
    root = math.cbrt(abs(third) / 2.0 + math.sqrt(third * third / 4.0 + variance**3))
    return mean + math.copysign(root - variance / root, third)


def hall(t: float, skewness: float) -> float:
    """Return t + gt²/3 + g²t³/27 + g/6 for a mean of ``skewness`` g: Student's t again, up to terms of order 1/n.

    The value never falls while t rises. Source: Hall, On the Removal of Skewness by Transformation, Journal of the
    Royal Statistical Society B 54 (1992), the cubic transformation; g is the skewness of the values over √n.
    """
    return t + skewness * t * t / 3.0 + skewness**2 * t**3 / 27.0 + skewness / 6.0


def hall_inverse(u: float, skewness: float) -> float:
    """Return the t that :func:`hall` transforms into ``u``."""
    rest = u - skewness / 6.0
    root = math.cbrt(1.0 + skewness * rest)
    return 3.0 * rest / (root * root + root + 1.0)  # 3·(root - 1)/g, without its cancellation
