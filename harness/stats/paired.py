"""Compare two backends on the same queries: difference, interval, paired test, effect size; Holm over several."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from harness.data.types import Float64Array
from harness.errors import DataError, UnknownNameError
from harness.stats.intervals import (
    CONFIDENCE,
    ROUNDING,
    Interval,
    bootstrap_interval,
    mean_and_spread,
    paired_differences,
)

TestName = Literal["randomisation", "t", "wilcoxon"]
PAIRED_TESTS: tuple[TestName, ...] = get_args(TestName)

_SIGN_FLIPS = 10_000


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Backend b against backend a on the same queries; ``difference`` is the mean of b - a.

    ``interval`` is the BCa bootstrap interval of the difference. ``p`` is two-sided, by ``test``; None below two
    queries. ``effect`` is Cohen's d of the differences (mean over standard deviation, n - 1), None if they do not vary.
    ``wins`` counts queries on which b is higher, of ``n``.
    """

    difference: float
    interval: Interval | None
    p: float | None
    test: TestName
    effect: float | None
    wins: int
    ties: int
    losses: int
    n: int

    @property
    def changed(self) -> bool:
        """Whether any query differs."""
        return self.wins + self.losses > 0


def compare_pairs(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    seed: int,
    *,
    test: TestName = "randomisation",
    confidence: float = CONFIDENCE,
) -> PairedTest:
    """Compare per-query values of two backends (float64 (n,) each, same queries in the same order).

    ``test`` is one of:

    - ``randomisation``: Fisher's paired randomisation of the mean. Signs of the differences are flipped in all ways if
      there are at most 10,000 of them, else in 10,000 random ways. Smucker, Allan and Carterette, CIKM 2007.
    - ``t``: Student's paired t-test of the mean.
    - ``wilcoxon``: Wilcoxon's signed-rank test, which tests whether the differences lie around 0, not their mean;
      unchanged queries are left out.

    Equal backends have p = 1, n differences that are all the same 2**(1 - n) by ``t``: as by flipped signs. Differences
    of at most 1e-12 of the largest value are rounding: ties. Raises UsageError for different lengths, UnknownNameError
    for another test, DataError for NaN and infinity.
    """
    delta = paired_differences(a, b)
    mean, spread = mean_and_spread(delta)
    return PairedTest(
        difference=mean,
        interval=bootstrap_interval(delta, seed, confidence),
        p=two_sided_p(delta, test, seed),
        test=test,
        effect=mean / spread if spread > 0.0 else None,
        wins=int(np.count_nonzero(delta > 0.0)),
        ties=int(np.count_nonzero(delta == 0.0)),
        losses=int(np.count_nonzero(delta < 0.0)),
        n=len(delta),
    )


def two_sided_p(delta: Float64Array, test: TestName, seed: int) -> float | None:
    """Return the two-sided p of the hypothesis that ``delta`` (float64 (n,)) lies around 0; None below two values.

    ``seed`` matters only to the randomisation test. Raises UnknownNameError for another test.
    """
    if test not in _TESTS:
        raise UnknownNameError("test", test, PAIRED_TESTS)
    if len(delta) < 2:
        return None
    return _TESTS[test](delta, seed) if np.any(delta) else 1.0


def _randomisation(delta: Float64Array, seed: int) -> float:
    moved = delta[delta != 0.0]
    if 2 ** len(moved) > _SIGN_FLIPS:
        return _random_flips(moved, seed)
    signs = 1.0 - 2.0 * np.unpackbits(np.arange(2 ** len(moved), dtype=">u2").view(np.uint8).reshape(-1, 2), axis=1)
    return float(np.mean(_is_as_extreme(signs[:, 16 - len(moved) :] @ moved, moved)))


def _random_flips(moved: Float64Array, seed: int) -> float:
    """Return the share of random sign flips, the observed ones among them, whose sum is at least as far from 0.

    ``scipy.stats.permutation_test`` does the same, and takes seconds for 10,000 queries: here the signs of eight
    queries are one random byte, and their 256 partial sums are made once.
    """
    padded = np.concatenate([moved, np.zeros(-len(moved) % 8)])
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)
    sums = np.zeros(_SIGN_FLIPS)
    rng = np.random.default_rng(seed)
    for eight in padded.reshape(-1, 8):
        sums += ((1.0 - 2.0 * bits) @ eight)[rng.integers(256, size=_SIGN_FLIPS, dtype=np.uint8)]
    return (1 + int(np.count_nonzero(_is_as_extreme(sums, moved)))) / (1 + _SIGN_FLIPS)


def _is_as_extreme(sums: Float64Array, moved: Float64Array) -> npt.NDArray[np.bool_]:
    """Return which sums are as far from 0 as the sum of ``moved``, except for the rounding of another order."""
    as_far: npt.NDArray[np.bool_] = np.abs(sums) >= abs(float(np.sum(moved))) - ROUNDING * float(np.sum(np.abs(moved)))
    return as_far


def _student(delta: Float64Array, seed: int) -> float:
    del seed
    if mean_and_spread(delta)[1] == 0.0:  # t is undefined: the smallest p that flipped signs can give
        return 0.5 ** (len(delta) - 1)
    from scipy import stats

    return float(stats.ttest_1samp(delta, 0.0).pvalue)


def _signed_ranks(delta: Float64Array, seed: int) -> float:
    del seed
    from scipy import stats

    return float(stats.wilcoxon(delta[delta != 0.0]).pvalue)


_TESTS: dict[TestName, Callable[[Float64Array, int], float]] = {
    "randomisation": _randomisation,
    "t": _student,
    "wilcoxon": _signed_ranks,
}


def holm(p_values: npt.ArrayLike) -> list[float]:
    """Adjust the p-values of one family of tests, in the given order (Holm, Scandinavian Journal of Statistics 1979).

    Own arithmetic, tested against statsmodels: its ``multipletests`` collects garbage on every call, 0.3 s in a process
    that holds a collection. No value for an empty family. Raises DataError for values that are not probabilities.
    """
    values = np.asarray(p_values, dtype=np.float64)
    wrong = np.flatnonzero(~((values >= 0.0) & (values <= 1.0)))
    if len(wrong):
        raise DataError("p-values", [f"value {position} is {values[position]}" for position in wrong.tolist()])
    order = np.argsort(values, kind="stable")
    stepped = values[order] * np.arange(len(values), 0, -1)
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return [float(value) for value in adjusted]


def adjust_family(p_values: Sequence[float | None], keys: Sequence[Hashable] | None = None) -> list[float | None]:
    """Apply :func:`holm` to the values that are not None; None stays None, and is not part of the family.

    A hypothesis that no data could reject costs the others nothing (Tarone, Biometrics 46, 1990): a change in which no
    query differs, and a test of too few queries. Values of one key are one test, which counts once: metrics that have
    the same value on every query, as Hit and Recall have where each query expects one document. Without ``keys`` every
    value is a test.
    """
    tests = list(range(len(p_values))) if keys is None else keys
    distinct = {key: p for key, p in zip(reversed(tests), reversed(p_values), strict=True) if p is not None}
    adjusted = dict(zip(distinct, holm(list(distinct.values())), strict=True))
    return [None if p is None else adjusted[key] for key, p in zip(tests, p_values, strict=True)]


def family_size(p_values: Sequence[float | None], keys: Sequence[Hashable]) -> int:
    """Return over how many tests :func:`adjust_family` corrects."""
    return len({key for key, p in zip(keys, p_values, strict=True) if p is not None})


def values_key(*values: npt.ArrayLike) -> bytes:
    """Return a key that arrays (float64 (n,) each) share if they are equal up to rounding."""
    return b"".join((np.round(np.asarray(array, dtype=np.float64), 12) + 0.0).tobytes() for array in values)
