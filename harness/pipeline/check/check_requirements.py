"""Requirements held against subjects: the figure, what decides, and how much would have to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from harness.data.golden_set import GoldenSet
from harness.data.ranking import TieRule
from harness.data.types import Float64Array
from harness.metrics import Measure, Scores, score
from harness.pipeline.check.check_subject import Rules, exact_mean, of_slice, times_of
from harness.pipeline.check.id_match import ideal_run, plain_judgments
from harness.pipeline.check.requirements import LATENCIES, PARITY, Requirement, Sample, judge
from harness.results.check_schema import RequirementResult
from harness.results.subject import Subject
from harness.stats import Interval, bootstrap_interval, mean_interval

__all__ = ["Ideal", "requirement_results"]

_NS_PER_MS = 1e6
_NEVER_MS = 1e9
"""A query that takes eleven days: as slow as one could have become."""
_TAIL = 0.025
"""The share of an interval of 95 % that lies beyond each of its ends."""


class Ideal:
    """What a perfect retriever would reach on each question."""

    def __init__(self, golden: GoldenSet, rules: Rules) -> None:
        self._scores = score(
            ideal_run(golden, rules.k),
            plain_judgments(golden),
            list(rules.measures.values()),
            ties=TieRule.ENGINE,
            relevance=rules.relevance,
        )
        self._relevance = rules.relevance
        self._places = {name: place for place, name in enumerate(self._scores.query_ids)}

    def of(self, measure: Measure, ids: list[str]) -> Float64Array:
        """The best value of a measure for each of some questions, float64 (n,)."""
        values: Float64Array = self._scores.values[:, self._scores.column_of(measure, self._relevance)]
        return values[[self._places[name] for name in ids]]


class _Figure(NamedTuple):
    """A sample with what the report says of it beside the figure itself."""

    sample: Sample
    interval: Callable[[Float64Array], Interval | None]
    ids: list[str]
    low: float | None = None
    high: float | None = None
    bounded: bool = True


def requirement_results(subject: Subject, golden: GoldenSet, ideal: Ideal, rules: Rules) -> list[RequirementResult]:
    """Every requirement held against one subject; one that has no figure says why, and is neither passed nor failed."""
    return [_result(requirement, subject, golden, ideal, rules) for requirement in rules.requirements]


def _result(
    requirement: Requirement, subject: Subject, golden: GoldenSet, ideal: Ideal, rules: Rules
) -> RequirementResult:
    figure = _figure(requirement, subject, golden, ideal, rules)
    if isinstance(figure, str):
        return _base(requirement, subject, rules, figure)
    sample, interval = figure.sample, figure.interval(figure.sample.values)

    def bound(values: Float64Array) -> float:
        found = figure.interval(values)
        if found is None:
            return -np.inf if requirement.at_least else np.inf
        return found.low if requirement.at_least else found.high

    judged = judge(requirement, sample, bound if rules.confidence else None)
    missed = []
    if requirement.at_least and not judged.passed and figure.bounded:
        short = np.flatnonzero(sample.values < sample.best)
        missed = [figure.ids[place] for place in short[np.argsort(sample.values[short], kind="stable")].tolist()]
    return _base(requirement, subject, rules).model_copy(
        update={
            "value": judged.value,
            "min": figure.low,
            "max": figure.high,
            "ci_low": interval.low if interval is not None else None,
            "ci_high": interval.high if interval is not None else None,
            "n": judged.n,
            "passed": judged.passed,
            "flips": judged.flips,
            "best_possible": sample.statistic(sample.best) if figure.bounded else None,
            "missed": missed,
        }
    )


def _base(requirement: Requirement, subject: Subject, rules: Rules, reason: str | None = None) -> RequirementResult:
    """A requirement of which nothing is known yet."""
    return RequirementResult(
        text=requirement.text,
        subject=subject.label,
        slice=str(requirement.slice) if requirement.slice is not None else None,
        quantity=requirement.name,
        operator=requirement.operator,
        bound=requirement.bound,
        value=None,
        min=None,
        max=None,
        ci_low=None,
        ci_high=None,
        decided_by="confidence bound" if rules.confidence else "estimate",
        n=0,
        passed=None,
        flips=None,
        best_possible=None,
        missed=[],
        reason=reason,
    )


def _figure(requirement: Requirement, subject: Subject, golden: GoldenSet, ideal: Ideal, rules: Rules) -> _Figure | str:
    """What a requirement is about, or why there is none."""
    if subject.problems:
        return f"'{subject.label}' did not pass preflight: {', '.join(subject.problems)}"
    if subject.run is None or subject.scores is None:
        return f"'{subject.label}' failed"
    if requirement.quantity == PARITY:
        return _parity(requirement, subject, golden, rules.seed)
    if isinstance(requirement.quantity, str):
        return _latency(requirement, subject, golden, rules.seed)
    return _measured(requirement, requirement.quantity, subject.scores, golden, ideal, rules)


def _measured(
    requirement: Requirement, measure: Measure, scores: Scores, golden: GoldenSet, ideal: Ideal, rules: Rules
) -> _Figure | str:
    ids = scores.query_ids.to_list()
    kept = _kept(requirement, golden, ids)
    if not kept.any():
        return f"no question {'of the slice ' if requirement.slice is not None else ''}expects anything"
    column = scores.column_of(measure, rules.relevance)
    chosen = [name for name, keep in zip(ids, kept.tolist(), strict=True) if keep]
    values, best = scores.values[kept, column], ideal.of(measure, chosen)
    low, high = (exact_mean(side[kept, column]) for side in (scores.low, scores.high))
    return _Figure(
        Sample(values, best, np.zeros(len(values)), exact_mean),
        lambda sample: mean_interval(sample, rules.seed),
        chosen,
        None if np.isnan(low) else low,
        None if np.isnan(high) else high,
    )


def _parity(requirement: Requirement, subject: Subject, golden: GoldenSet, seed: int) -> _Figure | str:
    if subject.exact is None or subject.run is None:
        return f"'{subject.label}' is not held against an exact reference"
    ids = subject.run.query_ids.to_list()
    kept = _kept(requirement, golden, ids)
    values = subject.exact[kept].astype(np.float64)
    if not len(values):
        return "the slice has no question"
    chosen = [name for name, keep in zip(ids, kept.tolist(), strict=True) if keep]
    sample = Sample(values, np.ones(len(values)), np.zeros(len(values)), exact_mean)
    return _Figure(sample, lambda one: bootstrap_interval(one, seed), chosen)


def _latency(requirement: Requirement, subject: Subject, golden: GoldenSet, seed: int) -> _Figure | str:
    if subject.run is None or subject.search_ns is None:
        return f"no times of '{subject.label}' were taken"
    ids = subject.run.query_ids.to_list()
    samples = times_of(subject, _kept(requirement, golden, ids))
    if samples is None or not len(samples):
        return f"no times of '{subject.label}' were taken"
    share = LATENCIES[str(requirement.quantity)]
    milliseconds = samples / _NS_PER_MS
    never = np.full(len(milliseconds), _NEVER_MS)
    if share is None:
        sample = Sample(milliseconds, np.zeros(len(milliseconds)), never, exact_mean)
        return _Figure(sample, lambda one: bootstrap_interval(one, seed), [], bounded=False)

    def percentile(values: Float64Array) -> float:
        return float(np.percentile(values, share, method="inverted_cdf"))

    sample = Sample(milliseconds, np.zeros(len(milliseconds)), never, percentile)
    return _Figure(sample, lambda one: _percentile_interval(one, share / 100), [], bounded=False)


def _percentile_interval(values: Float64Array, share: float) -> Interval | None:
    """Distribution-free 95 % interval of a percentile, by order statistics; None where too few samples bound it.

    The number of samples below the percentile is binomial. Source: Conover, Practical Nonparametric Statistics, 1999,
    section 3.2.
    """
    from scipy.stats import binom

    n, ordered = len(values), np.sort(values)
    low, high = int(binom.ppf(_TAIL, n, share)), int(binom.ppf(1 - _TAIL, n, share)) + 1
    if low < 1 or high > n:
        return None
    return Interval(float(ordered[low - 1]), float(ordered[high - 1]))


def _kept(requirement: Requirement, golden: GoldenSet, ids: list[str]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    if requirement.slice is None:
        return np.ones(len(ids), dtype=bool)
    return of_slice(golden, requirement.slice.field, requirement.slice.value, ids)
