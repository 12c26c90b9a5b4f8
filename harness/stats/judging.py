"""Better, worse, the same or undecided; and the gate that fails on worse beyond the allowed drop.

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
from harness.stats.equivalence import Equivalence, equivalence_of
from harness.stats.family import holm_of_asked
from harness.stats.gating import Gate, gate_of
from harness.stats.location import locate
from harness.stats.noise import NoiseFloor
from harness.stats.paired import PairedTest, TestName, compare_pairs
from harness.stats.power import detectable_difference, queries_for_equivalence, queries_needed
from harness.stats.values import check_share, check_size, paired_differences

__all__ = ["Change", "Judgement", "Verdict", "judge", "judge_family"]

Verdict = Literal["better", "worse", "same", "undecided"]


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
    """What is known of one change.

    ``p`` is that of ``paired``, or with noise the larger of it and that of a t-test which counts the builds' spread
    too. ``equivalence`` is None for a margin of 0. ``detectable`` is the smallest difference that so many queries show
    with power 0.8. ``queries_needed`` is how many queries would decide an undecided change, with power 0.8 and if the
    observed difference is the true one; None where none would. Both use alpha divided by the size of the family,
    Holm's hardest step.
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
    change = Change(a, b, margin, allowed_drop, noise_floor)
    found = _measure(change, seed, test, alpha)
    return _decide(found, alpha, 1, found.ps if p_adjusted is None else found.ps._replace(difference=p_adjusted))


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
    correction for it. Where builds scatter, their spread enters the error of all three
    questions; it can excuse a difference, never make one. Raises UsageError for a margin or a drop below 0, an
    ``alpha`` outside 0 to 0.5 and different lengths; UnknownNameError for another test; DataError for NaN.
    """
    found = [_measure(change, seed, test, alpha) for change in changes]
    changed = [one for one in found if one.paired.changed]
    adjusted = iter(_adjusted([one.ps for one in changed]))
    return [_decide(one, alpha, len(changed), next(adjusted) if one.paired.changed else one.ps) for one in found]


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
    where = locate(differences, change.noise)
    p = paired.p
    if p is not None and where is not None and change.noise is not None:
        p = max(p, where.p_at(0.0))
    equal = equivalence_of(differences, change.margin, alpha, change.noise) if change.margin > 0.0 else None
    gate = gate_of(differences, change.allowed_drop, alpha, change.noise)
    return _Measured(change, differences, paired, gate, equal, _Ps(p, gate.p, equal.p if equal is not None else None))


def _adjusted(family: Sequence[_Ps]) -> list[_Ps]:
    """Holm for each question, over the changes that have a p there."""
    columns = [holm_of_asked(column) for column in zip(*family, strict=True)]
    return [_Ps(*row) for row in zip(*columns, strict=True)]


def _decide(found: _Measured, alpha: float, family: int, ps: _Ps) -> Judgement:
    failed = ps.drop is not None and ps.drop < alpha and not found.change.within_ties
    gate = replace(found.gate, p_adjusted=ps.drop, failed=failed)
    verdict = _verdict(found, ps, alpha, gate)
    strict, noise = alpha / max(1, family), found.change.noise
    return Judgement(
        verdict=verdict,
        gate=gate,
        paired=found.paired,
        p=found.ps.difference,
        p_adjusted=ps.difference,
        equivalence=found.equivalence,
        equivalence_p_adjusted=ps.equivalence,
        noise=noise,
        detectable=detectable_difference(found.differences, alpha=strict, noise=noise),
        queries_needed=_queries(found, strict) if verdict == "undecided" else None,
    )


def _verdict(found: _Measured, ps: _Ps, alpha: float, gate: Gate) -> Verdict:
    if len(found.differences) and (found.change.within_ties or not found.paired.changed):
        return "same"
    if gate.failed:
        return "worse"
    if ps.equivalence is not None and ps.equivalence < alpha:
        return "same"
    if ps.difference is not None and ps.difference < alpha:
        return "better" if found.paired.difference > 0.0 else "worse"
    return "undecided"


def _queries(found: _Measured, alpha: float) -> int | None:
    """The fewest queries, and more than there are, that show the observed difference or that it does not matter."""
    change, values = found.change, found.differences
    numbers = [queries_needed(values, found.paired.difference, alpha=alpha, noise=change.noise)]
    if change.margin > 0.0:
        numbers.append(queries_for_equivalence(values, change.margin, alpha=alpha, noise=change.noise))
    known = [number for number in numbers if number is not None]
    return max(min(known), len(values) + 1) if known else None
