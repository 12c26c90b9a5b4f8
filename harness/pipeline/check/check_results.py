"""Results of a check: metrics, slices, every question of one backend, and the requirements that it is held to."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.golden_set import GoldenQuestion, GoldenSet
from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Ids, Int64Array, Run
from harness.engines.callable.answers import Asked
from harness.metrics import Measure, Scores, score
from harness.parity import Level
from harness.pipeline.check.id_match import Expected, ideal_run, plain_judgments
from harness.pipeline.check.requirements import LATENCIES, PARITY, Requirement, Sample, judge
from harness.results import check_schema as schema
from harness.results.schema import LatencyStats, SearchStats, TrialResult
from harness.results.schema_base import MetricValue
from harness.results.scored import Scored, has_terms
from harness.stats import Interval, bootstrap_interval, mean_interval
from harness.stats.timing import latency

__all__ = ["Answered", "Ideal", "Rules", "asked_search", "asked_trial", "check_trial", "requirement_results"]

_NS_PER_MS = 1e6
_NEVER_MS = 1e9
"""A query that takes eleven days: as slow as one could have become."""
_TAIL = 0.025
"""The share of an interval of 95 % that lies beyond each of its ends."""


@dataclass(frozen=True, slots=True)
class Rules:
    """By what a check judges. ``measures`` maps the name that is shown to the measure, in the order of the tables.

    ``confidence`` is true where a bound of the 95 % interval decides, and not the point estimate.
    """

    k: int
    measures: dict[str, Measure]
    requirements: tuple[Requirement, ...]
    slices: tuple[str, ...]
    ties: TieRule
    relevance: int
    confidence: bool
    seed: int
    keep_text: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Answered:
    """Answers of one backend to the questions of a golden set, with its trial.

    ``run`` holds every question, None of a backend that failed (then the trial's ``error`` says why). ``scores`` are of
    the questions that expect something. ``search_ns`` int64 (passes, questions) are times of single queries, negative
    for a question that was never sent; None where none were taken. ``exact`` bool (questions,) says which rankings are
    the exact ones up to ties, None without an exact reference. Both are in the run's order of questions. ``problems``
    name what preflight found, ``unanswered`` are the ids of questions that failed. ``reference`` is the exact
    reference's run to a depth beyond k, None without.
    """

    trial: TrialResult
    run: Run | None = None
    scores: Scores | None = None
    search_ns: Int64Array | None = None
    exact: npt.NDArray[np.bool_] | None = None
    problems: tuple[str, ...] = ()
    unanswered: frozenset[str] = frozenset()
    reference: Run | None = None

    @property
    def label(self) -> str:
        """What the result calls the backend."""
        return self.trial.label

    @classmethod
    def of(cls, assessed: Scored, trial: TrialResult, *, timed: bool) -> Answered:
        """Return the answers of a backend that was searched."""
        record, parity = assessed.outcome.record, assessed.parity
        search_ns = None
        if timed and record is not None:
            sent = has_terms(assessed.outcome.vectors, record.search_ns.shape[1])
            search_ns = np.where(sent, record.search_ns, np.int64(-1))
        exact = parity.per_query.level >= Level.TIE_EQUIVALENT if parity is not None else None
        run, scores = assessed.outcome.run, assessed.scores
        return cls(trial, run, scores, search_ns, exact, reference=assessed.reference)


def check_trial(answered: Answered, golden: GoldenSet, expected: Expected, rules: Rules) -> TrialResult:
    """Describe one backend's answers; of one that failed, say why."""
    trial, scores = answered.trial, answered.scores
    every = np.ones(len(scores.query_ids), dtype=bool) if scores is not None else None
    return trial.model_copy(
        update={
            "status": "failed" if trial.error is not None else "invalid" if answered.problems else "ok",
            "metrics": _metrics(scores, every, rules) if scores is not None and every is not None else {},
            "slices": _slices(scores, golden, rules) if scores is not None else [],
            "questions": _questions(answered, golden, expected, rules),
        }
    )


def asked_trial(dataset: str, label: str, expression: str, **facts: object) -> TrialResult:
    """Return the trial of a function or an endpoint, of which nothing is known but its answers."""
    unknown = dict.fromkeys(("measured", "error", "engine", "phases", "index", "search", "cold", "queries", "parity"))
    empty: dict[str, object] = {"encoder": {}, "closed_loop": [], "open_loop": [], "metrics": {}, "notes": []}
    named = {"dataset": dataset, "label": label, "name": expression.partition(":")[0].rpartition("=")[2]}
    values = {**unknown, **empty, **named, "reused": False, "parameters": {"against": expression}, "status": "ok"}
    return TrialResult.model_validate({**values, **facts})


def asked_search(answered: Asked, run: Run, k: int, *, timed: bool) -> SearchStats:
    """Describe how a function or an endpoint was asked."""
    times = latency(answered.search_ns[answered.search_ns >= 0]) if timed and len(answered.answers) else None
    return SearchStats(
        queries=len(answered.answers),
        queries_without_terms=0,
        k=k,
        repeats=len(answered.search_ns),
        concurrency=1,
        milliseconds=LatencyStats(**asdict(times)) if times is not None else None,
        transfer_ms=None,
        qps=None,
        first_query_ms=None,
        warm_up_queries=0,
        hits=run.hits,
        queries_without_hits=int(np.count_nonzero(np.diff(run.indptr) == 0)),
        repeated_calls=answered.repeated,
        queries_per_call=1,
    )


def _times_of(answered: Answered, chosen: npt.NDArray[np.bool_] | None) -> Int64Array | None:
    """Return the samples of single queries, in nanoseconds, of some questions of the run, all by default."""
    if answered.search_ns is None:
        return None
    samples = answered.search_ns if chosen is None else answered.search_ns[:, chosen]
    return samples[samples >= 0]


def _of_slice(golden: GoldenSet, field: str, value: str, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Tell which of the questions named by ``ids`` have a value of a field, bool (n,)."""
    there = {question.id for question in golden if value in question.fields.get(field, ())}
    return np.array([one in there for one in ids], dtype=bool)


def _metric(scores: Scores, column: int, kept: npt.NDArray[np.bool_], seed: int) -> MetricValue:
    """Take one mean over the questions that are ``kept``, of which there is at least one."""
    values = scores.values[kept, column]
    interval: Interval | None = mean_interval(values, seed)
    return MetricValue(
        metric=str(scores.measures[column]),
        mean=_exact_mean(values),
        min=_mean(scores.low[kept, column]),
        max=_mean(scores.high[kept, column]),
        ci_low=interval.low if interval is not None else None,
        ci_high=interval.high if interval is not None else None,
        n=len(values),
    )


def _exact_mean(values: Float64Array) -> float:
    """Return the mean of at least one value, its sum rounded once: the same in whatever order they come."""
    return math.fsum(values) / len(values)


def _mean(values: Float64Array) -> float | None:
    mean = _exact_mean(values)
    return None if np.isnan(mean) else mean


def _metrics(scores: Scores, kept: npt.NDArray[np.bool_], rules: Rules) -> dict[str, MetricValue]:
    if not kept.any():
        return {}
    return {
        name: _metric(scores, scores.column_of(measure, rules.relevance), kept, rules.seed)
        for name, measure in rules.measures.items()
    }


def _slices(scores: Scores, golden: GoldenSet, rules: Rules) -> list[schema.SliceResult]:
    ids = scores.query_ids.to_list()
    return [
        schema.SliceResult(
            field=field,
            value=value,
            questions=sum(value in question.fields.get(field, ()) for question in golden),
            metrics=_metrics(scores, _of_slice(golden, field, value, ids), rules),
        )
        for field in rules.slices
        for value in golden.values(field)
    ]


def _questions(answered: Answered, golden: GoldenSet, expected: Expected, rules: Rules) -> list[schema.QuestionResult]:
    run, scores = answered.run, answered.scores
    if run is None:
        return []
    places = {name: place for place, name in enumerate(run.query_ids)}
    scored = {name: place for place, name in enumerate(scores.query_ids)} if scores is not None else {}
    columns = {} if scores is None else {n: scores.column_of(m, rules.relevance) for n, m in rules.measures.items()}
    made = []
    for question in golden:
        place, row = places.get(question.id), scored.get(question.id)
        top = run.doc_ids.take(run.rows[run.of_query(place)]) if place is not None else []
        values = {} if scores is None or row is None else {n: float(scores.values[row, c]) for n, c in columns.items()}
        exact = _exact_hits(answered, question.id)
        told = _question(question, top, exact, values, expected, keep_text=rules.keep_text)
        update = {"failed": question.id in answered.unanswered, "milliseconds": _milliseconds(answered, place)}
        made.append(told.model_copy(update=update))
    return made


def _milliseconds(answered: Answered, place: int | None) -> float | None:
    if answered.search_ns is None or place is None:
        return None
    samples = answered.search_ns[:, place]
    timed = samples[samples >= 0]
    return float(timed.mean()) / _NS_PER_MS if len(timed) else None


def _exact_hits(answered: Answered, question: str) -> list[str]:
    """Return the first documents of the exact reference for a question, to a depth beyond k."""
    run = answered.reference
    place = int(run.query_ids.rows_of(Ids.of([question]).values)[0]) if run is not None else -1
    return run.doc_ids.take(run.rows[run.of_query(place)]) if run is not None and place >= 0 else []


def _question(
    question: GoldenQuestion,
    top: list[str],
    exact: list[str],
    values: dict[str, float],
    expected: Expected,
    *,
    keep_text: bool,
) -> schema.QuestionResult:
    found, exactly = expected.first_hits(question, top), expected.first_hits(question, exact)
    results = []
    for one in question.expected:
        hit = found.get(one.id)
        rank, doc_id = (hit.rank, hit.doc_id) if hit is not None else (None, None)
        reference_rank = exactly[one.id].rank if one.id in exactly else None
        results.append(
            schema.ExpectationResult(id=one.id, grade=one.grade, rank=rank, found=doc_id, reference_rank=reference_rank)
        )
    return schema.QuestionResult(
        id=question.id,
        line=question.line,
        question=question.question if keep_text else None,
        expected=results,
        values=values,
        top=top,
    )


class Ideal:
    """The best values that any ranking could reach on each question."""

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
        """Return the best value of a measure for each of some questions, float64 (n,)."""
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


def requirement_results(
    answered: Answered, golden: GoldenSet, ideal: Ideal, rules: Rules
) -> list[schema.RequirementResult]:
    """Judge every requirement on one backend; one without a figure says why, and is neither passed nor failed."""
    return [_result(requirement, answered, golden, ideal, rules) for requirement in rules.requirements]


def _result(
    requirement: Requirement, answered: Answered, golden: GoldenSet, ideal: Ideal, rules: Rules
) -> schema.RequirementResult:
    figure = _figure(requirement, answered, golden, ideal, rules)
    if isinstance(figure, str):
        return _base(requirement, answered, rules, figure)
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
    return _base(requirement, answered, rules).model_copy(
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


def _base(
    requirement: Requirement, answered: Answered, rules: Rules, reason: str | None = None
) -> schema.RequirementResult:
    """Return a requirement of which nothing is known yet."""
    return schema.RequirementResult(
        text=requirement.text,
        backend=answered.label,
        dataset=answered.trial.dataset,
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


def _figure(
    requirement: Requirement, answered: Answered, golden: GoldenSet, ideal: Ideal, rules: Rules
) -> _Figure | str:
    """Return the figure that a requirement is about, or why there is none."""
    if answered.problems:
        return f"'{answered.label}' did not pass preflight: {', '.join(answered.problems)}"
    if answered.run is None or answered.scores is None:
        return f"'{answered.label}' failed"
    if requirement.quantity == PARITY:
        return _parity(requirement, answered, golden, rules.seed)
    if isinstance(requirement.quantity, str):
        return _latency(requirement, answered, golden, rules.seed)
    return _measured(requirement, requirement.quantity, answered.scores, golden, ideal, rules)


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
    low, high = (_exact_mean(side[kept, column]) for side in (scores.low, scores.high))
    return _Figure(
        Sample(values, best, np.zeros(len(values)), _exact_mean),
        lambda sample: mean_interval(sample, rules.seed),
        chosen,
        None if np.isnan(low) else low,
        None if np.isnan(high) else high,
    )


def _parity(requirement: Requirement, answered: Answered, golden: GoldenSet, seed: int) -> _Figure | str:
    if answered.exact is None or answered.run is None:
        return f"'{answered.label}' is not held against an exact reference"
    ids = answered.run.query_ids.to_list()
    kept = _kept(requirement, golden, ids)
    values = answered.exact[kept].astype(np.float64)
    if not len(values):
        return "the slice has no question"
    chosen = [name for name, keep in zip(ids, kept.tolist(), strict=True) if keep]
    sample = Sample(values, np.ones(len(values)), np.zeros(len(values)), _exact_mean)
    return _Figure(sample, lambda one: bootstrap_interval(one, seed), chosen)


def _latency(requirement: Requirement, answered: Answered, golden: GoldenSet, seed: int) -> _Figure | str:
    if answered.run is None or answered.search_ns is None:
        return f"no times of '{answered.label}' were taken"
    ids = answered.run.query_ids.to_list()
    samples = _times_of(answered, _kept(requirement, golden, ids))
    if samples is None or not len(samples):
        return f"no times of '{answered.label}' were taken"
    share = LATENCIES[str(requirement.quantity)]
    milliseconds = samples / _NS_PER_MS
    never = np.full(len(milliseconds), _NEVER_MS)
    if share is None:
        sample = Sample(milliseconds, np.zeros(len(milliseconds)), never, _exact_mean)
        return _Figure(sample, lambda one: bootstrap_interval(one, seed), [], bounded=False)

    def percentile(values: Float64Array) -> float:
        return float(np.percentile(values, share, method="inverted_cdf"))

    sample = Sample(milliseconds, np.zeros(len(milliseconds)), never, percentile)
    return _Figure(sample, lambda one: _percentile_interval(one, share / 100), [], bounded=False)


def _percentile_interval(values: Float64Array, share: float) -> Interval | None:
    """Return the distribution-free 95 % interval of a percentile; None where too few samples bound it.

    By order statistics: the number of samples below the percentile is binomial. Source: Conover, Practical
    Nonparametric Statistics, 1999, section 3.2.
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
    return _of_slice(golden, requirement.slice.field, requirement.slice.value, ids)
