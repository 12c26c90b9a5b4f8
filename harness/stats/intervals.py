"""Per-query values, checked once, and confidence intervals of their mean."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.types import Float64Array
from harness.errors import DataError, UsageError

CONFIDENCE = 0.95
RESAMPLES = 2_000
ROUNDING = 1e-12
"""Differences up to this share of the largest value count as rounding."""
_BATCH = 4_000_000


class Interval(NamedTuple):
    """A confidence interval; both ends are equal when the values do not vary."""

    low: float
    high: float


def bootstrap_interval(values: npt.ArrayLike, seed: int, confidence: float = CONFIDENCE) -> Interval | None:
    """Return the BCa bootstrap interval of the mean of ``values`` (float64 (n,)); None below two values.

    2,000 resamples, seeded: the same values give the same interval. Also None if BCa is undefined, because a
    resample's mean never lies on one side of the sample's. Raises DataError for NaN and infinity, UsageError for a
    ``confidence`` outside 0 to 1. Source: Efron, Better Bootstrap Confidence Intervals, JASA 82 (1987), as in
    ``scipy.stats.bootstrap``.
    """
    check_share("confidence", confidence)
    sample = finite(values)
    if len(sample) < 2:
        return None
    mean, spread = mean_and_spread(sample)
    if spread == 0.0:
        return Interval(mean, mean)
    means = _means_of_resamples(sample, np.random.default_rng(seed))
    levels = _levels(sample, means, confidence)
    if np.isnan(levels).any():
        return None
    low, high = np.quantile(means, levels)
    return Interval(float(low), float(high))


def mean_interval(values: npt.ArrayLike, seed: int, confidence: float = CONFIDENCE) -> Interval | None:
    """Return the interval of the mean of a metric, whose ``values`` (float64 (n,)) lie between 0 and 1.

    None below two values. The BCa bootstrap of :func:`bootstrap_interval`, unless that is too narrow. If every value is
    0 or 1 the interval is exact: with n hits in n questions, a share of hits of 0.025**(1/n) is still possible, at 95
    %. If all values are the same and neither 0 nor 1, a share d of other values stays unseen with probability (1 -
    d)**n, and the interval reaches as far as d = 1 - 0.025**(1/n) could move the mean. Raises as
    :func:`bootstrap_interval`.
    Source: Clopper and Pearson, Biometrika 26 (1934).
    """
    check_share("confidence", confidence)
    sample = finite(values)
    if len(sample) < 2:
        return None
    if np.all((sample == 0.0) | (sample == 1.0)):
        return _exact_share(int(np.count_nonzero(sample)), len(sample), (1.0 - confidence) / 2.0)
    mean, spread = mean_and_spread(sample)
    if spread > 0.0:
        return bootstrap_interval(sample, seed, confidence)
    unseen = 1.0 - ((1.0 - confidence) / 2.0) ** (1.0 / len(sample))
    return Interval(mean * (1.0 - unseen), mean + unseen * max(0.0, 1.0 - mean))


def _exact_share(hits: int, n: int, tail: float) -> Interval:
    from scipy.special import betaincinv

    low = float(betaincinv(hits, n - hits + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, n - hits, 1.0 - tail)) if hits < n else 1.0
    return Interval(low, high)


def _means_of_resamples(sample: Float64Array, rng: np.random.Generator) -> Float64Array:
    """Return float64 (2000,), drawn in batches, so that memory is bounded."""
    size = max(1, _BATCH // len(sample))
    sizes = (min(size, RESAMPLES - start) for start in range(0, RESAMPLES, size))
    return np.concatenate([sample[rng.integers(0, len(sample), (rows, len(sample)))].mean(axis=1) for rows in sizes])


def _levels(sample: Float64Array, means: Float64Array, confidence: float) -> Float64Array:
    """Return the two quantiles of the resamples' means that bound the interval; NaN if they are not defined.

    The effect of leaving out one value on a mean is known without a loop, which is why this is not
    ``scipy.stats.bootstrap``: its time and memory grow with the square of the queries, and importing it takes half a
    second.
    """
    from statistics import NormalDist  # as exact as SciPy's, which takes a tenth of a second to import

    normal = NormalDist()
    below = np.count_nonzero(means < sample.mean()) + np.count_nonzero(means <= sample.mean())
    influence = sample - sample.mean()
    acceleration = np.sum(influence**3) / np.sum(influence**2) ** 1.5 / 6.0
    if not 0 < below < 2 * len(means):  # all on the same side of the sample's mean: there is no bias to correct by
        return np.full(2, np.nan)
    bias = normal.inv_cdf(below / (2 * len(means)))
    reach = bias + np.array([1.0, -1.0]) * normal.inv_cdf((1.0 - confidence) / 2.0)
    return np.array([normal.cdf(quantile) for quantile in bias + reach / (1.0 - acceleration * reach)])


def finite(values: npt.ArrayLike, name: str = "values") -> Float64Array:
    """Return ``values`` as float64 (n,).

    Raises DataError for NaN and infinity, with their positions; UsageError for values that are not numbers and other
    shapes.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:  # ValueError of texts, and of lists of different lengths
        fix = "give numbers, one per query; of mappings [values[query] for query in queries], on both sides"
        raise UsageError(f"{name} are not numbers (but {type(values).__name__}): {error}", fix=fix) from error
    if array.ndim != 1:
        raise UsageError(f"{name} has {array.ndim} dimensions", fix="give one value per query: one dimension")
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        problems = [f"value {position} is {array[position]}" for position in bad.tolist()]
        raise DataError(name, problems, fix="leave out the queries that could not be scored, on both sides")
    return array


def paired_differences(a: npt.ArrayLike, b: npt.ArrayLike) -> Float64Array:
    """Return ``b - a`` query by query, float64 (n,), with exactly 0 for differences that are only rounding.

    A difference counts as rounding up to 1e-12 of the largest value: the same ranking, scored by two versions of a
    summation, is not a change. Raises UsageError for arrays of different lengths, and as :func:`finite`.
    """
    first, second = finite(a, "a"), finite(b, "b")
    if len(first) != len(second):
        raise UsageError(
            f"a has {len(first)} values, b has {len(second)}", fix="give both sides of the same queries, in one order"
        )
    return _without_rounding(second - first, np.max(np.abs([first, second]), initial=0.0))


def _without_rounding(differences: Float64Array, scale: float) -> Float64Array:
    """Return ``differences`` with 0 in place of every value of at most 1e-12 of ``scale``."""
    return np.where(np.abs(differences) <= ROUNDING * scale, 0.0, differences)


def mean_and_spread(values: Float64Array) -> tuple[float, float]:
    """Return mean and standard deviation (n - 1) of float64 (n,); 0 if there are too few values.

    The standard deviation of values that differ only by rounding (1e-12 of the largest) is exactly 0.
    """
    if len(values) < 2 or not np.any(_without_rounding(values - values[0], np.max(np.abs(values)))):
        return (float(values[0]) if len(values) else 0.0), 0.0
    return float(np.mean(values)), float(np.std(values, ddof=1))


def check_share(name: str, value: float) -> None:
    """Raise UsageError unless ``value`` lies strictly between 0 and 1."""
    if not 0.0 < value < 1.0:
        raise UsageError(f"{name} is {value:g}", fix="it must lie between 0 and 1")


def check_size(name: str, value: float) -> None:
    """Raise UsageError unless ``value`` is finite and 0 or more."""
    if not 0.0 <= value < float("inf"):
        raise UsageError(f"the {name} is {value:g}", fix="it must be 0 or more, in the unit of the metric")
