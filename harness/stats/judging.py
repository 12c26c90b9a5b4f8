"""Judge a change: better, worse, the same or undecided; and the gate that fails on worse beyond the allowed drop.

Each change is judged by three questions, and Holm's correction is applied to each over the family of changes:

- Is there a difference? The paired test, two-sided.
- Is the loss larger than the allowed drop? One-sided t-test of the hypothesis that the true mean difference is at least
  -allowed_drop: the gate fails when that is rejected, so a change that loses exactly the allowed drop fails with a
  probability of alpha at most, and a change that loses less more rarely.
- Is the difference inside ±margin? Two one-sided t-tests.

If the differences are skewed, the last two count the more doubtful of t and its transformation by Hall. A gate that
would have passed even if every query had lost everything was not judged.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from harness.data.types import Float64Array
from harness.errors import UnknownNameError, UsageError
from harness.stats.intervals import ROUNDING, Interval, check_share, check_size, paired_differences
from harness.stats.mean_error import MeanError, NoiseFloor, mean_error
from harness.stats.paired import PairedTest, TestName, adjust_family, compare_pairs, family_size, values_key
from harness.stats.power import detectable_difference, queries_for_equivalence, queries_needed

Verdict = Literal["better", "worse", "same", "undecided"]
GateRule = Literal["test", "tolerance"]
GATE_RULES: tuple[GateRule, ...] = get_args(GateRule)
GateState = Literal["passed", "failed", "not judged"]


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Whether a true difference of ``delta`` or more, up or down, is ruled out.

    ``interval`` is the 1 - 2·alpha interval of the difference by Student's t, extended at either end to Hall's
    transformation of t; ``holds`` is true if it lies strictly inside ±``delta``, which is the same as ``p`` < alpha.
    ``p`` and ``interval`` are None below two queries, ``interval`` also for too few that all differ by the same.
    """

    delta: float
    p: float | None
    interval: Interval | None
    holds: bool


class TotalLoss(NamedTuple):
    """The p of a gate if every query had lost everything, in all that is gated: its later values all 0.

    ``p_adjusted`` is corrected over ``comparisons``. Both p are None below two queries, and if the earlier values
    are 0 already.
    """

    p: float | None
    p_adjusted: float | None
    comparisons: int = 1


@dataclass(frozen=True, slots=True)
class Gate:
    """Whether a change is worse beyond the allowed drop.

    ``p`` is one-sided, for the hypothesis that the true mean difference is at least -``allowed_drop``; ``p_adjusted``
    is corrected by Holm over ``comparisons`` that are gated. By the rule ``test`` the gate has ``failed`` if
    ``p_adjusted`` is below alpha, by ``tolerance`` if the mean of the differences lies below -allowed_drop. ``bound``
    is the largest true difference that alpha leaves, uncorrected: a change judged on its own fails exactly if ``bound``
    lies below -allowed_drop. None for too few queries to fail: fewer than five for an alpha of 5 %. All are None
    without an ``allowed_drop``: then nothing is gated, and the family is smaller.

    A gate was ``judged`` when it failed, or would have failed after the ``total_loss``.
    """

    allowed_drop: float | None
    p: float | None
    p_adjusted: float | None
    bound: float | None
    failed: bool
    comparisons: int = 1
    rule: GateRule = "test"
    judged: bool = True
    total_loss: TotalLoss | None = None

    @property
    def state(self) -> GateState | None:
        """The outcome in a word; None if nothing is gated."""
        if self.allowed_drop is None:
            return None
        return "failed" if self.failed else "passed" if self.judged else "not judged"


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """Per-query values before and after (float64 (n,) each, same queries in the same order), and the rules to judge by.

    ``margin`` is the difference that does not matter, 0 for none; ``allowed_drop`` the loss of the mean that is
    accepted, None for no gate; ``rule`` says how the gate decides. ``noise`` is the spread over builds, None for
    deterministic engines. ``within_ties`` says that the order of documents with equal scores accounts for all of it.
    Changes of one ``backend`` (anything that names it, with its dataset) that have the same values are one comparison
    of a family; None makes each its own.
    """

    before: npt.ArrayLike
    after: npt.ArrayLike
    margin: float
    allowed_drop: float | None
    noise: NoiseFloor | None = None
    within_ties: bool = False
    rule: GateRule = "test"
    backend: Hashable = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict on one change, and the figures that it rests on.

    ``p`` is the p of ``paired``, or with noise the larger of it and the p of a t-test that also counts the builds'
    spread; ``p_adjusted`` is corrected over ``comparisons``. ``equivalence`` is None for a margin of 0. ``detectable``
    is the smallest difference that this many queries show with power 0.8. ``queries_needed`` is the number of queries
    that would decide an undecided change, with power 0.8 and if the observed difference is the true difference; None if
    no number would. Both use alpha divided by the size of the family, Holm's hardest step.
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
    many samples, and t alone takes too many of them for equal. ``noise`` widens the interval by the spread of builds.
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
    fails if both t and Hall's transformation of it, which takes skewness into account, reject it at ``alpha``. A change
    that truly loses the allowed drop therefore fails with probability alpha if differences are normal, and more rarely
    if few queries carry the loss; a change that loses less fails more rarely. ``noise`` adds the spread over builds to
    the error of the mean. Raises UsageError for a drop below 0, an alpha outside 0 to 1 and different lengths,
    DataError for NaN and infinity.
    """
    check_size("allowed drop", allowed_drop)
    check_share("alpha", alpha)
    change = Change(a, b, 0.0, allowed_drop, noise)
    differences = paired_differences(a, b)
    mean, lost = mean_error(differences, noise), _total_loss(change)
    p = _p_of_drop(change, mean)
    return _gate(
        change,
        _Measurement(mean, float(np.mean(differences)) if len(differences) else 0.0, p, TotalLoss(lost, lost)),
        alpha,
        p_adjusted=p,
        significant=p is not None and p < alpha,
    )


class _Measurement(NamedTuple):
    """The figures by which a gate decides: the error of the mean difference, the difference, and both p."""

    mean: MeanError | None
    difference: float
    p: float | None
    total_loss: TotalLoss


def _gate(
    change: Change,
    measured: _Measurement,
    alpha: float,
    *,
    p_adjusted: float | None,
    significant: bool,
    comparisons: int = 1,
) -> Gate:
    """Make the gate of a change; ``significant`` says whether the test finds a loss beyond the allowed drop."""
    if change.allowed_drop is None:
        return Gate(None, None, None, None, failed=False)
    lost = measured.total_loss.p_adjusted
    failed, could_fail = significant, lost is not None and lost < alpha
    if change.rule == "tolerance":
        before = np.asarray(change.before, dtype=np.float64)
        failed = _is_beyond(measured.difference, change.allowed_drop)
        could_fail = len(before) > 0 and _is_beyond(-float(np.mean(np.maximum(before, 0.0))), change.allowed_drop)
    interval = measured.mean.interval(alpha) if measured.mean is not None else None
    return Gate(
        allowed_drop=change.allowed_drop,
        p=measured.p,
        p_adjusted=p_adjusted,
        bound=interval.high if interval is not None else None,
        failed=failed,
        comparisons=comparisons,
        rule=change.rule,
        judged=failed or could_fail,
        total_loss=measured.total_loss,
    )


def _p_of_drop(change: Change, mean: MeanError | None) -> float | None:
    return mean.p_above(-change.allowed_drop) if mean is not None and change.allowed_drop is not None else None


def _total_loss(change: Change) -> float | None:
    """Return the p of the gate if all of ``before`` had been lost; None without a gate, or anything to lose."""
    before = np.asarray(change.before, dtype=np.float64)
    lost = paired_differences(before, np.minimum(before, 0.0))
    return _p_of_drop(change, mean_error(lost, change.noise)) if np.any(lost) else None


def _is_beyond(mean: float, allowed_drop: float) -> bool:
    """Return whether a mean difference is a loss of more than the allowed drop, and not only by rounding."""
    return mean < -allowed_drop and not math.isclose(mean, -allowed_drop, rel_tol=ROUNDING, abs_tol=ROUNDING)


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

    ``p_adjusted`` replaces the p of the difference if the caller corrects over another family.
    """
    measured = _measure(Change(a, b, margin, allowed_drop, noise_floor), seed, test, alpha)
    ps = measured.ps if p_adjusted is None else measured.ps._replace(difference=p_adjusted)
    return _decide(measured, alpha, _Family(1, 1, 1), ps, measured.ps.total_loss)


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

    A gate by the rule ``tolerance`` decides only by the mean, and leaves the verdict to the test. A change without any
    difference is not part of the family: it could never be significant, so the others need no correction for it. A
    change with the same values as another change of the same backend counts once. If builds scatter, their spread
    enters the error of all three questions. Raises UsageError for a margin or a drop below 0, an ``alpha`` outside 0 to
    0.5 and different lengths; UnknownNameError for another test; DataError for NaN.
    """
    measured = [_measure(change, seed, test, alpha) for change in changes]
    keys = [_keys(position, change) for position, change in enumerate(changes)]
    moved = [one.ps if one.paired.changed else _Ps(None, None, None, one.ps.total_loss) for one in measured]
    columns = list(zip(moved, keys, strict=True))
    adjusted, sizes = [], []
    for name in _Ps._fields:
        ps, of_column = [getattr(one, name) for one, _ in columns], [getattr(key, name) for _, key in columns]
        adjusted.append(adjust_family(ps, of_column))
        sizes.append(family_size(ps, of_column))
    family = _Family(sizes[0], sizes[1], sizes[3])
    return [
        _decide(one, alpha, family, ps if one.paired.changed else one.ps, ps.total_loss)
        for one, ps in zip(measured, (_Ps(*row) for row in zip(*adjusted, strict=True)), strict=True)
    ]


class _Ps(NamedTuple):
    """The p of each hypothesis about a change; None if it is not tested."""

    difference: float | None
    drop: float | None
    equivalence: float | None
    total_loss: float | None


class _Keys(NamedTuple):
    """The same names for the same hypotheses about the same values."""

    difference: Hashable
    drop: Hashable
    equivalence: Hashable
    total_loss: Hashable


class _Family(NamedTuple):
    """Over how many comparisons p is corrected: of the difference, of the gate, and of the total loss."""

    difference: int
    drop: int
    total_loss: int


def _keys(position: int, change: Change) -> _Keys:
    if change.backend is None:
        return _Keys(position, position, position, position)
    before = change.backend, values_key(change.before), change.noise
    both = *before, values_key(change.after)
    return _Keys(both, (both, change.allowed_drop), (both, change.margin), (before, change.allowed_drop))


class _MeasuredChange(NamedTuple):
    change: Change
    differences: Float64Array
    paired: PairedTest
    mean: MeanError | None
    equivalence: Equivalence | None
    ps: _Ps


def _measure(change: Change, seed: int, test: TestName, alpha: float) -> _MeasuredChange:
    check_size("margin", change.margin)
    if change.allowed_drop is not None:
        check_size("allowed drop", change.allowed_drop)
    if change.rule not in GATE_RULES:
        raise UnknownNameError("rule of a gate", change.rule, GATE_RULES)
    check_share("2·alpha", 2.0 * alpha)
    differences = paired_differences(change.before, change.after)
    paired = compare_pairs(change.before, change.after, seed, test=test)
    mean = mean_error(differences, change.noise)
    p = paired.p
    if p is not None and mean is not None and change.noise is not None:
        p = max(p, mean.p_value(0.0))
    equal = _equivalence(mean, change.margin, alpha) if change.margin > 0.0 else None
    ps = _Ps(p, _p_of_drop(change, mean), equal.p if equal is not None else None, _total_loss(change))
    return _MeasuredChange(change, differences, paired, mean, equal, ps)


def _decide(measured: _MeasuredChange, alpha: float, family: _Family, ps: _Ps, total_loss: float | None) -> Judgement:
    """Decide one change by its corrected ``ps``; ``total_loss`` is corrected too."""
    significant = ps.drop is not None and ps.drop < alpha and not measured.change.within_ties
    lost = TotalLoss(measured.ps.total_loss, total_loss, family.total_loss)
    gate = _gate(
        measured.change,
        _Measurement(measured.mean, measured.paired.difference, measured.ps.drop, lost),
        alpha,
        p_adjusted=ps.drop,
        significant=significant,
        comparisons=family.drop if measured.paired.changed else 1,
    )
    verdict = _verdict(measured, ps, alpha, significant)
    strict, noise = alpha / max(1, family.difference), measured.change.noise
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
        comparisons=family.difference if measured.paired.changed else 1,
    )


def _verdict(measured: _MeasuredChange, ps: _Ps, alpha: float, significant: bool) -> Verdict:
    if len(measured.differences) and (measured.change.within_ties or not measured.paired.changed):
        return "same"
    if significant:
        return "worse"
    if ps.equivalence is not None and ps.equivalence < alpha:
        return "same"
    if ps.difference is not None and ps.difference < alpha:
        return "better" if measured.paired.difference > 0.0 else "worse"
    return "undecided"


def _queries_needed(measured: _MeasuredChange, alpha: float) -> int | None:
    """Return the fewest queries, and more than there are, that show the difference or that it does not matter."""
    change, values = measured.change, measured.differences
    numbers = [queries_needed(values, measured.paired.difference, alpha=alpha, noise=change.noise)]
    if change.margin > 0.0:
        numbers.append(queries_for_equivalence(values, change.margin, alpha=alpha, noise=change.noise))
    counts = [number for number in numbers if number is not None]
    return max(min(counts), len(values) + 1) if counts else None
