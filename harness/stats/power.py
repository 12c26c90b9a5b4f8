"""Compute the difference that N queries can show, and the number of queries that would show a difference.

Power of Student's t by the non-central t distribution, with the observed spread of the differences taken as the true
spread, and the differences as normal. Source: Cohen, Statistical Power Analysis for the Behavioral Sciences, 2nd
edition (1988), chapter 2.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable

import numpy.typing as npt

from harness.errors import UsageError
from harness.stats.intervals import check_share, finite, mean_and_spread
from harness.stats.mean_error import NoiseFloor, error_of

_MOST_QUERIES = 10_000_000


def detectable_difference(
    differences: npt.ArrayLike, *, power: float = 0.8, alpha: float = 0.05, noise: NoiseFloor | None = None
) -> float | None:
    """Return the smallest true mean difference that a two-sided t-test at ``alpha`` shows with probability ``power``.

    ``differences`` is float64 (n,), query by query. None below two queries and if the differences do not vary.
    Raises UsageError for shares outside 0 to 1 and a power not above alpha, DataError for NaN and infinity.
    """
    values = finite(differences, "differences")
    _check(power, alpha)
    _, spread = mean_and_spread(values)
    error = error_of(spread, len(values), noise) if len(values) >= 2 else None
    if error is None:
        return None
    from scipy import optimize

    def missing(size: float) -> float:
        return _power(size, error.df, alpha) - power

    upper = 1.0
    while missing(upper) < 0.0:
        upper *= 2.0
    return float(optimize.brentq(missing, 0.0, upper, xtol=1e-10)) * error.sd


def queries_needed(
    differences: npt.ArrayLike,
    effect_difference: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    noise: NoiseFloor | None = None,
) -> int | None:
    """Return how many queries like these show a true mean of ``effect_difference`` with probability ``power``.

    By a two-sided t-test at ``alpha``. None below two queries, for a difference of 0, if the differences do not vary,
    and if 10 million queries are not enough: more queries do not help if builds scatter too much. Raises as
    :func:`detectable_difference`.
    """
    values = finite(differences, "differences")
    _check(power, alpha)
    _, spread = mean_and_spread(values)
    if spread == 0.0 or effect_difference == 0.0:
        return None

    def reached(queries: int) -> bool:
        error = error_of(spread, queries, noise)
        return error is not None and _power(abs(effect_difference) / error.sd, error.df, alpha) >= power

    return _smallest(reached)


def queries_for_equivalence(
    differences: npt.ArrayLike,
    delta: float,
    *,
    power: float = 0.8,
    alpha: float = 0.05,
    noise: NoiseFloor | None = None,
) -> int | None:
    """Return how many queries like these show equivalence within ±``delta`` if their mean is the true one.

    None as :func:`queries_needed`, and if the mean lies outside ±delta. The power of the two one-sided tests is taken
    as the sum of both less 1, which is exact for large n. Raises as :func:`detectable_difference`.
    """
    values = finite(differences, "differences")
    _check(power, alpha)
    mean, spread = mean_and_spread(values)
    if spread == 0.0 or abs(mean) >= delta:
        return None
    from scipy import stats

    def reached(queries: int) -> bool:
        error = error_of(spread, queries, noise)
        if error is None:
            return False
        critical = stats.t.isf(alpha, error.df)
        sides = [stats.nct.sf(critical, error.df, (delta + sign * mean) / error.sd) for sign in (1.0, -1.0)]
        return math.fsum(sides) - 1.0 >= power

    return _smallest(reached)


def _power(size: float, df: float, alpha: float) -> float:
    """Return the power of a two-sided t-test for a true mean of ``size`` standard errors."""
    from scipy import stats

    critical = stats.t.isf(alpha / 2.0, df)
    # the other tail by symmetry: SciPy's distribution function is NaN that far out
    return float(stats.nct.sf(critical, df, size) + stats.nct.sf(critical, df, -size))


def _smallest(reached: Callable[[int], bool]) -> int | None:
    """Return the smallest number of queries, at least 2, for which ``reached`` is true; it stays true beyond."""
    low, high = 1, 2
    while not reached(high):
        low, high = high, 2 * high
        if high > _MOST_QUERIES:
            return None
    return low + 1 + bisect_left(range(low + 1, high), True, key=reached)


def _check(power: float, alpha: float) -> None:
    check_share("power", power)
    check_share("alpha", alpha)
    if power <= alpha:
        raise UsageError(f"power {power:g} at alpha {alpha:g}", fix="ask for a power above alpha, 0.8 say")
