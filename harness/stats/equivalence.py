"""Are two systems the same for all that matters?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from harness.data.types import Float64Array
from harness.errors import UsageError
from harness.stats.intervals import Interval
from harness.stats.location import locate
from harness.stats.noise import NoiseFloor
from harness.stats.values import check_share, paired_differences

__all__ = ["Equivalence", "equivalence", "equivalence_of"]


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether a true difference of ``delta`` or more, up or down, is ruled out.

    ``interval`` is the 1 - 2·alpha interval of the difference by Student's t, at either end made as long as Hall's
    transformation of t has it; ``holds`` is true when it lies strictly inside ±``delta``, which is the same as ``p`` <
    alpha. ``p`` and ``interval`` are None below two queries,
    ``interval`` also for too few that all differ by the same.
    """

    delta: float
    p: float | None
    interval: Interval | None
    holds: bool


def equivalence(
    a: npt.ArrayLike, b: npt.ArrayLike, delta: float, *, alpha: float = 0.05, noise: NoiseFloor | None = None
) -> Equivalence:
    """Two one-sided paired t-tests against ±``delta`` (float64 (n,) each, same queries in the same order).

    Both t and Hall's transformation of it must reject, on either side: a loss that few queries carry is missing from
    many samples, and t alone takes too many of them for equal. ``noise`` widens the interval by what builds alone do.
    ``n`` differences that are all the same and inside ±delta have p = 2**-n. Raises UsageError for a ``delta`` that is
    not above 0, an ``alpha`` outside 0 to 0.5 and different lengths, DataError for NaN and infinity. Source:
    Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987).
    """
    if not 0.0 < delta < float("inf"):
        raise UsageError(f"delta is {delta:g}", fix="it must be above 0, in the unit of the metric")
    check_share("2·alpha", 2.0 * alpha)
    return equivalence_of(paired_differences(a, b), delta, alpha, noise)


def equivalence_of(differences: Float64Array, delta: float, alpha: float, noise: NoiseFloor | None) -> Equivalence:
    """As :func:`equivalence`, of differences that are checked."""
    where = locate(differences, noise)
    if where is None:
        return Equivalence(delta, None, None, holds=False)
    p = max(where.p_above(delta), where.p_below(-delta))
    return Equivalence(delta, p, where.interval(alpha), holds=p < alpha)
