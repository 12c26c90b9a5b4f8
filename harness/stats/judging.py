"""Judge a change: better, worse, the same or undecided; and the gate that fails on worse beyond the allowed drop.

Three questions are asked of each change, and Holm's correction is applied to each over the family of changes:

- Is there a difference? The paired test, two-sided.
- Is the loss larger than the allowed drop? One-sided t-test of the hypothesis that the true mean difference is at least
  -allowed_drop: the gate fails when that is rejected, so a change that loses exactly the allowed drop fails with a
  probability of alpha at most, and one that loses less more rarely.
- Is the difference inside ±margin? Two one-sided t-tests.

Where the differences are skewed, the last two count the more doubtful of t and its transformation by Hall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy.typing as npt

from harness.data.types import Float64Array
from harness.errors import UsageError
from harness.stats.intervals import Interval, check_share, check_size, paired_differences
from harness.stats.mean_error import MeanError, NoiseFloor, mean_error
from harness.stats.paired import PairedTest, TestName, adjust_family, compare_pairs
from harness.stats.power import detectable_difference, queries_for_equivalence, queries_needed

Verdict = Literal["better", "worse", "same", "undecided"]


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether a true difference of ``delta`` or more, up or down, is ruled out.

    ``interval`` is the 1 - 2·alpha interval of the difference by Student's t, at either end made as long as Hall's
    transformation of t has it; ``holds`` is true when it lies strictly inside ±``delta``, which is the same as ``p`` <
    alpha. ``p`` and ``interval`` are None below two queries, ``interval`` also for too few that all differ by the same.
    """

    delta: float
    p: float | None
    interval: Interval | None
    holds: bool


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a change is worse beyond the allowed drop.

    ``p`` is one-sided, of the hypothesis that the true mean difference is at least -``allowed_drop``; ``p_adjusted``
    after Holm over ``comparisons`` that are gated; the gate has ``failed`` when that is below alpha. ``bound`` is the
    largest true difference that alpha leaves, uncorrected: a change judged alone fails exactly when it lies below
    -allowed_drop. None below two queries, on which no gate fails, and for fewer than five (alpha 5 %) that all differ
    by the same. All are None without an ``allowed_drop``: then nothing is gated, and the family is smaller.
    """

    allowed_drop: float | None
    p: float | None
    p_adjusted: float | None
    bound: float | None
    failed: bool
    comparisons: int = 1


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """Per-query values before and after (float64 (n,) each, same queries in the same order), and what is asked of them.

    ``margin`` is the difference that does not matter, 0 for none; ``allowed_drop`` the loss of the mean that is
    accepted, None for no gate. ``noise`` is the spread over builds, None for deterministic engines. ``within_ties``
    says that the order of documents with equal scores accounts for all of it.
    """

    before: npt.ArrayLike
    after: npt.ArrayLike
    margin: float
    allowed_drop: float | None
    noise: NoiseFloor | None = None
    within_ties: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one change, and the figures that it rests on.

    ``p`` is that of ``paired``, or with noise the larger of it and that of a t-test which counts the builds' spread
    too; ``p_adjusted`` is corrected over ``comparisons``. ``equivalence`` is None for a margin of 0. ``detectable`` is
    the smallest difference that so many queries show with power 0.8. ``queries_needed`` is how many queries would
    decide an undecided change, with power 0.8 and if the observed difference is the true one; None where none would.
    Both use alpha divided by the size of the family, Holm's hardest step.
    """

    verdict: Verdict
    gate: Gate
    paired: PairedTest
    p: float | None
    p_adjusted: float | None
    equivalence: Equivalence | None
    equivalence_p_adjusted: float | None
    noise: NoiseFloor | None
    detectable: float | None
    queries_needed: int | None
    comparisons: int = 1


def equivalence(
    a: npt.ArrayLike, b: npt.ArrayLike, delta: float, *, alpha: float = 0.05, noise: NoiseFloor | None = None
) -> Equivalence:
    """Run two one-sided paired t-tests against ±``delta`` (float64 (n,) each, same queries in the same order).

    Both t and Hall's transformation of it must reject, on either side: a loss that few queries carry is missing from
    many samples, and t alone takes too many of them for equal. ``noise`` widens the interval by what builds alone do.
    ``n`` differences that are all the same and inside ±delta have p = 2**-n. Raises UsageError for a ``delta`` that is
    not above 0, an ``alpha`` outside 0 to 0.5 and different lengths, DataError for NaN and infinity. Source:
    Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15 (1987).
    """
    if not 0.0 < delta < float("inf"):
        raise UsageError(f"delta is {delta:g}", fix="it must be above 0, in the unit of the metric")
    check_share("2·alpha", 2.0 * alpha)
    return _equivalence(mean_error(paired_differences(a, b), noise), delta, alpha)


def _equivalence(mean: MeanError | None, delta: float, alpha: float) -> Equivalence:
    if mean is None:
        return Equivalence(delta, None, None, holds=False)
    p = max(mean.p_above(delta), mean.p_below(-delta))
    return Equivalence(delta, p, mean.interval(alpha), holds=p < alpha)


def gate(
    a: npt.ArrayLike, b: npt.ArrayLike, allowed_drop: float, *, alpha: float = 0.05, noise: NoiseFloor | None = None
) -> Gate:
    """Test whether the change from ``a`` to ``b`` (float64 (n,) each, same queries in the same order) loses too much.

    One-sided paired t-test of the hypothesis that the true mean difference is at least -``allowed_drop``; the gate
    fails when both t and Hall's transformation of it, which takes skewness into account, reject it at ``alpha``. A
    change that truly loses the allowed drop therefore fails with probability alpha where differences are normal, and
    more rarely where few queries carry the loss; one that loses less fails more rarely. ``noise`` adds the spread over
    builds to the error of the mean. Raises UsageError for a drop below 0, an alpha outside 0 to 1 and different
    lengths, DataError for NaN and infinity.
    """
    check_size("allowed drop", allowed_drop)
    check_share("alpha", alpha)
    return _gate(mean_error(paired_differences(a, b), noise), allowed_drop, alpha)


def _gate(mean: MeanError | None, allowed_drop: float | None, alpha: float) -> Gate:
    if mean is None or allowed_drop is None:
        return Gate(allowed_drop, None, None, None, failed=False)
    p = mean.p_above(-allowed_drop)
    interval = mean.interval(alpha)
    return Gate(allowed_drop, p, p, interval.high if interval is not None else None, failed=p < alpha)


def judge(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    margin: float,
    allowed_drop: float | None,
    seed: int,
    noise_floor: NoiseFloor | None = None,
    test: TestName = "randomisation",
    alpha: float = 0.05,
    p_adjusted: float | None = None,
) -> Judgement:
    """Judge one change from ``a`` to ``b`` by itself; see :func:`judge_family`.

    ``p_adjusted`` replaces the p of the difference where the caller corrects over a family of its own.
    """
    measured = _measure(Change(a, b, margin, allowed_drop, noise_floor), seed, test, alpha)
    ps = measured.ps if p_adjusted is None else measured.ps._replace(difference=p_adjusted)
    return _decide(measured, alpha, 1, ps)


def judge_family(
    changes: Sequence[Change], *, seed: int, test: TestName = "randomisation", alpha: float = 0.05
) -> list[Judgement]:
    """Judge the changes of one family, say every backend on every metric, in the given order.

    The verdict is the first of these that holds:

    1. ``same``: no query differs, or ties account for the difference; the gate does not fail then.
    2. ``worse``: the gate fails, or (after 3) the difference is significant and negative.
    3. ``same``: equivalent within ±margin.
    4. ``better`` or ``worse``: the difference is significant.
    5. ``undecided``: also for no queries, and for one that differs.

    A change without any difference is no part of the family: it could never be significant, so the others need no
    correction for it. Where builds scatter, their spread enters the error of all three questions. Raises UsageError for
    a margin or a drop below 0, an ``alpha`` outside 0 to 0.5 and different lengths; UnknownNameError for another test;
    DataError for NaN.
    """
    measured = [_measure(change, seed, test, alpha) for change in changes]
    family = [change.ps for change in measured if change.paired.changed]
    adjusted = iter(_adjusted(family))
    tests = sum(ps.difference is not None for ps in family), sum(ps.drop is not None for ps in family)
    return [
        _decide(change, alpha, len(family), next(adjusted), tests)
        if change.paired.changed
        else _decide(change, alpha, len(family), change.ps)
        for change in measured
    ]


class _Ps(NamedTuple):
    difference: float | None
    drop: float | None
    equivalence: float | None


class _Measured(NamedTuple):
    change: Change
    differences: Float64Array
    paired: PairedTest
    gate: Gate
    equivalence: Equivalence | None
    ps: _Ps


def _measure(change: Change, seed: int, test: TestName, alpha: float) -> _Measured:
    check_size("margin", change.margin)
    if change.allowed_drop is not None:
        check_size("allowed drop", change.allowed_drop)
    check_share("2·alpha", 2.0 * alpha)
    differences = paired_differences(change.before, change.after)
    paired = compare_pairs(change.before, change.after, seed, test=test)
    mean = mean_error(differences, change.noise)
    p = paired.p
    if p is not None and mean is not None and change.noise is not None:
        p = max(p, mean.p_at(0.0))
    equal = _equivalence(mean, change.margin, alpha) if change.margin > 0.0 else None
    gate = _gate(mean, change.allowed_drop, alpha)
    return _Measured(change, differences, paired, gate, equal, _Ps(p, gate.p, equal.p if equal is not None else None))


def _adjusted(family: Sequence[_Ps]) -> list[_Ps]:
    """Apply Holm to each question, over the changes that have a p there."""
    columns = [adjust_family(column) for column in zip(*family, strict=True)]
    return [_Ps(*row) for row in zip(*columns, strict=True)]


def _decide(measured: _Measured, alpha: float, family: int, ps: _Ps, tests: tuple[int, int] = (1, 1)) -> Judgement:
    """Decide one change; ``tests`` are over how many the difference and the drop are corrected."""
    failed = ps.drop is not None and ps.drop < alpha and not measured.change.within_ties
    gate = replace(measured.gate, p_adjusted=ps.drop, failed=failed, comparisons=tests[1])
    verdict = _verdict(measured, ps, alpha, gate)
    strict, noise = alpha / max(1, family), measured.change.noise
    return Judgement(
        verdict=verdict,
        gate=gate,
        paired=measured.paired,
        p=measured.ps.difference,
        p_adjusted=ps.difference,
        equivalence=measured.equivalence,
        equivalence_p_adjusted=ps.equivalence,
        noise=noise,
        detectable=detectable_difference(measured.differences, alpha=strict, noise=noise),
        queries_needed=_queries_needed(measured, strict) if verdict == "undecided" else None,
        comparisons=tests[0],
    )


def _verdict(measured: _Measured, ps: _Ps, alpha: float, gate: Gate) -> Verdict:
    if len(measured.differences) and (measured.change.within_ties or not measured.paired.changed):
        return "same"
    if gate.failed:
        return "worse"
    if ps.equivalence is not None and ps.equivalence < alpha:
        return "same"
    if ps.difference is not None and ps.difference < alpha:
        return "better" if measured.paired.difference > 0.0 else "worse"
    return "undecided"


def _queries_needed(measured: _Measured, alpha: float) -> int | None:
    """Return the fewest queries, and more than there are, that show the difference or that it does not matter."""
    change, values = measured.change, measured.differences
    numbers = [queries_needed(values, measured.paired.difference, alpha=alpha, noise=change.noise)]
    if change.margin > 0.0:
        numbers.append(queries_for_equivalence(values, change.margin, alpha=alpha, noise=change.noise))
    known = [number for number in numbers if number is not None]
    return max(min(known), len(values) + 1) if known else None
