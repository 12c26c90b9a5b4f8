"""The gate: is a change worse beyond the allowed drop?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy.typing as npt

from harness.data.types import Float64Array
from harness.stats.location import locate
from harness.stats.noise import NoiseFloor
from harness.stats.values import check_share, check_size, paired_differences

__all__ = ["Gate", "gate", "gate_of"]


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a change is worse beyond the allowed drop.

    ``p`` is one-sided, of the hypothesis that the true mean difference is at least -``allowed_drop``; ``p_adjusted``
    after Holm over the family; the gate has ``failed`` when that is below alpha. ``bound`` is the largest true
    difference that alpha leaves, uncorrected: a change judged alone fails exactly when it lies below -allowed_drop.
    None below two queries, on which no gate fails, and for fewer than five (alpha 5 %) that all differ by the same. All
    are None without an ``allowed_drop``: then nothing is gated, and the family is smaller.
    """

    allowed_drop: float | None
    p: float | None
    p_adjusted: float | None
    bound: float | None
    failed: bool


def gate(
    a: npt.ArrayLike, b: npt.ArrayLike, allowed_drop: float, *, alpha: float = 0.05, noise: NoiseFloor | None = None
) -> Gate:
    """The gate of one change from ``a`` to ``b`` (float64 (n,) each, same queries in the same order).

    One-sided paired t-test of the hypothesis that the true mean difference is at least -``allowed_drop``; the gate
    fails when both t and Hall's transformation of it, which takes skewness into account, reject it at ``alpha``. A
    change that truly loses the allowed drop therefore fails with probability alpha where differences are normal, and
    more rarely where few queries carry the loss; one that loses less fails more rarely. ``noise`` adds the spread over
    builds to the error of the mean. Raises UsageError for a drop below 0, an alpha outside 0 to 1 and different
    lengths, DataError for NaN and infinity.
    """
    check_size("allowed drop", allowed_drop)
    check_share("alpha", alpha)
    return gate_of(paired_differences(a, b), allowed_drop, alpha, noise)


def gate_of(differences: Float64Array, allowed_drop: float | None, alpha: float, noise: NoiseFloor | None) -> Gate:
    """As :func:`gate`, of differences that are checked; without an ``allowed_drop`` nothing is gated."""
    where = locate(differences, noise)
    if where is None or allowed_drop is None:
        return Gate(allowed_drop, None, None, None, failed=False)
    p = where.p_above(-allowed_drop)
    interval = where.interval(alpha)
    return Gate(allowed_drop, p, p, interval.high if interval is not None else None, failed=p < alpha)
