"""Bootstrap interval of a mean."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.statistics.values import check_share, finite, mean_and_spread

__all__ = ["CONFIDENCE", "Interval", "bootstrap_interval"]

CONFIDENCE = 0.95
RESAMPLES = 2_000
_BATCH = 4_000_000


class Interval(NamedTuple):
    """A confidence interval; both ends are equal when the values do not vary."""

    low: float
    high: float


def bootstrap_interval(values: npt.ArrayLike, seed: int, confidence: float = CONFIDENCE) -> Interval | None:
    """BCa bootstrap interval of the mean of ``values`` (float64 (n,)); None below two values.

    2,000 resamples, seeded: the same values give the same interval. Also None where BCa is undefined, because a
    resample's mean never lies on one side of the sample's. Raises DataError for NaN and infinity, UsageError for a
    ``confidence`` outside 0 to 1. Source: Efron, Better Bootstrap Confidence Intervals, JASA 82 (1987), as
    ``scipy.stats.bootstrap`` has it.
    """
    check_share("confidence", confidence)
    sample = finite(values)
    if len(sample) < 2:
        return None
    mean, spread = mean_and_spread(sample)
    if spread == 0.0:
        return Interval(mean, mean)
    from scipy import stats  # a second to import, and often not needed

    with warnings.catch_warnings():
        # a jackknife without spread leaves BCa undefined; SciPy warns and gives NaN, which is handled below
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        result = stats.bootstrap(
            (sample,),
            np.mean,
            confidence_level=confidence,
            n_resamples=RESAMPLES,
            method="BCa",
            vectorized=True,
            batch=max(1, _BATCH // len(sample)),
            rng=np.random.default_rng(seed),
        )
    low, high = float(result.confidence_interval.low), float(result.confidence_interval.high)
    return None if np.isnan(low) or np.isnan(high) else Interval(low, high)
