"""How sure a mean or a difference is: bootstrap intervals, a paired randomisation test, Holm's correction.

SciPy and statsmodels compute; this module only fixes which variant, which seed, and what happens at the edges.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.types import Float64Array

__all__ = ["Interval", "PairedTest", "bootstrap_interval", "compare_pairs", "holm"]

CONFIDENCE = 0.95
RESAMPLES = 2_000
SIGN_FLIPS = 10_000


class Interval(NamedTuple):
    """A confidence interval; both ends are equal when the values do not vary."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PairedTest:
    """System b against system a on the same queries; ``difference`` is the mean of b - a.

    ``p`` is two-sided. ``effect`` is Cohen's d of the differences (mean over standard deviation, n - 1), None when they
    do not vary. ``wins`` counts queries on which b is higher.
    """

    difference: float
    interval: Interval | None
    p: float | None
    effect: float | None
    wins: int
    ties: int
    losses: int


def bootstrap_interval(values: Float64Array, seed: int) -> Interval | None:
    """95 % BCa bootstrap interval of the mean of ``values`` (float64 (n,)); None below two values.

    2,000 resamples, seeded: the same values give the same interval. Source: Efron, Better Bootstrap Confidence
    Intervals, JASA 82 (1987), as ``scipy.stats.bootstrap`` has it.
    """
    if len(values) < 2:
        return None
    if np.ptp(values) == 0.0:
        return Interval(float(values[0]), float(values[0]))
    from scipy import stats  # a second to import, and often not needed

    with warnings.catch_warnings():
        # a jackknife without spread leaves BCa undefined; SciPy warns and gives NaN, which is handled below
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        result = stats.bootstrap(
            (values,),
            np.mean,
            confidence_level=CONFIDENCE,
            n_resamples=RESAMPLES,
            method="BCa",
            vectorized=True,
            batch=max(1, 4_000_000 // len(values)),
            rng=np.random.default_rng(seed),
        )
    low, high = float(result.confidence_interval.low), float(result.confidence_interval.high)
    return None if np.isnan(low) or np.isnan(high) else Interval(low, high)


def compare_pairs(a: Float64Array, b: Float64Array, seed: int) -> PairedTest:
    """Compare per-query values of two systems (float64 (n,) each, same queries in the same order).

    The test is Fisher's paired randomisation: signs of the differences are flipped, all ways when there are at most
    10,000 of them, else 10,000 random ones. Source: Smucker, Allan and Carterette, CIKM 2007.
    """
    delta = b - a
    moved = delta[delta != 0.0]
    p: float | None = None
    if len(delta) >= 2:
        p = 1.0
        if len(moved) >= 2:  # with one, both signs give the same size
            from scipy import stats

            tested = stats.permutation_test(
                (moved,),
                np.sum,
                permutation_type="samples",
                vectorized=True,
                n_resamples=SIGN_FLIPS,
                batch=max(1, 4_000_000 // len(moved)),
                rng=np.random.default_rng(seed),
            )
            p = min(1.0, float(tested.pvalue))
    spread = float(np.std(delta, ddof=1)) if len(delta) >= 2 else 0.0
    return PairedTest(
        difference=float(np.mean(delta)) if len(delta) else 0.0,
        interval=bootstrap_interval(delta, seed),
        p=p,
        effect=float(np.mean(delta)) / spread if spread > 0.0 else None,
        wins=int(np.count_nonzero(delta > 0.0)),
        ties=int(np.count_nonzero(delta == 0.0)),
        losses=int(np.count_nonzero(delta < 0.0)),
    )


def holm(p_values: npt.ArrayLike) -> list[float]:
    """Adjusted p-values of one family of tests, in the given order (Holm, Scandinavian Journal of Statistics 1979)."""
    values = np.asarray(p_values, dtype=np.float64)
    if len(values) < 2:
        return [float(value) for value in values]
    from statsmodels.stats.multitest import multipletests

    adjusted = multipletests(values, method="holm")[1]
    return [float(value) for value in adjusted]
