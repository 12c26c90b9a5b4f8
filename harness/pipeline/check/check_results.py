"""Make the results of a check: metrics, slices, every question of a trial, and the requirements that it must meet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial

import numpy as np
import numpy.typing as npt

from harness.data.golden_set import GoldenQuestion
from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Ids, Run
from harness.metrics import Metric, Scores, score
from harness.pipeline.check.answered import GoldenRun
from harness.pipeline.check.check_plan import CheckPlan
from harness.pipeline.check.id_match import ExpectedDocuments, ideal_run, plain_judgments
from harness.pipeline.check.requirements import LATENCIES, PARITY, Requirement, Sample, SliceOf, judge
from harness.results import check_schema as schema
from harness.results.schema import TrialResult
from harness.results.schema_base import MetricValue
from harness.results.snapshot import text_digest
from harness.stats import Interval, bootstrap_interval, mean_interval

_NS_PER_MS = 1e6
_MOST_DOCUMENTS = 3
_NEVER_MS = 1e9
"""A query that takes eleven days: as slow as one could have become."""
_TAIL = 0.025
"""The share of an interval of 95 % that lies beyond each of its ends."""


def _metric(scores: Scores, column: int, rows: Sequence[int], seed: int) -> MetricValue:
    """Take a mean over the questions of some ``rows``, at least one."""
    values = scores.values[rows, column]
    interval: Interval | None = mean_interval(values, seed)
    return MetricValue(
        metric=str(scores.measures[column]),
        mean=_exact_mean(values),
        min=_finite_mean(scores.low[rows, column]),
        max=_finite_mean(scores.high[rows, column]),
        ci_low=interval.low if interval is not None else None,
        ci_high=interval.high if interval is not None else None,
        n=len(values),
    )


def _exact_mean(values: Float64Array) -> float:
    """Return the mean of at least one value, its sum rounded once: the same for any order of values."""
    return math.fsum(values) / len(values)


def _finite_mean(values: Float64Array) -> float | None:
    """Return the mean of at least one value, None if a value is NaN: ties leave no range there."""
    mean = _exact_mean(values)
    return None if np.isnan(mean) else mean


def _documents(run: Run | None, position: int) -> list[str]:
    """Return the ids of the hits at one position of a run; none for the position -1."""
    return run.doc_ids.take(run.rows[run.of_query(position)]) if run is not None and position >= 0 else []


def _expectations(
    question: GoldenQuestion, expected: ExpectedDocuments, top: list[str], exact: list[str]
) -> list[schema.ExpectationResult]:
    """Describe what a question expects, with its rank among the hits and the exact reference's hits."""
    hits, exact_hits = expected.first_hits(question, top), expected.first_hits(question, exact)
    matched_by = {
        expectation.id: expected.matched_by(expectation, hits[expectation.id].doc_id)
        for expectation in question.expected
        if expectation.id in hits
    }
    return [
        schema.ExpectationResult(
            id=expectation.id,
            grade=expectation.grade,
            rank=hits[expectation.id].rank if expectation.id in hits else None,
            hit=hits[expectation.id].doc_id if expectation.id in hits else None,
            reference_rank=exact_hits[expectation.id].rank if expectation.id in exact_hits else None,
            matched_by=matched_by.get(expectation.id),
            documents=list(expected.matching_documents(expectation)[:_MOST_DOCUMENTS]),
        )
        for expectation in question.expected
    ]


def _milliseconds(answered: GoldenRun, position: int) -> float | None:
    if answered.search_ns is None or position < 0:
        return None
    samples = answered.search_ns[:, position]
    timed = samples[samples >= 0]
    return float(timed.mean()) / _NS_PER_MS if len(timed) else None


class CheckJudge:
    """Judges the answers of backends to a golden set as the plan of a check says."""

    def __init__(self, plan: CheckPlan) -> None:
        self._plan, self._golden = plan, plan.golden
        self._relevance, self._seed = plan.request.relevance, plan.request.seed

    def trial(self, answered: GoldenRun, expected: ExpectedDocuments) -> TrialResult:
        """Describe the answers of a backend; of one that failed, say why."""
        trial, scores, columns = answered.trial, answered.scores, dict[str, int]()
        if scores is not None:
            columns = {name: scores.column_of(metric, self._relevance) for name, metric in self._plan.metrics.items()}
        return trial.model_copy(
            update={
                "status": "failed" if trial.error is not None else "invalid" if answered.problems else "ok",
                "metrics": self._metrics(scores, columns, range(len(scores.query_ids))) if scores is not None else {},
                "slices": self._slices(scores, columns) if scores is not None else [],
                "questions": self._questions(answered, expected, columns),
            }
        )

    def requirements(self, answered: GoldenRun) -> list[schema.RequirementResult]:
        """Judge every requirement on one backend; one without a figure says why, and is neither passed nor failed."""
        return [self._result(requirement, answered) for requirement in self._plan.requirements]

    def _metrics(self, scores: Scores, columns: Mapping[str, int], rows: Sequence[int]) -> dict[str, MetricValue]:
        return {name: _metric(scores, column, rows, self._seed) for name, column in columns.items() if rows}

    def _slices(self, scores: Scores, columns: Mapping[str, int]) -> list[schema.SliceResult]:
        rows = {name: row for row, name in enumerate(scores.query_ids)}
        slices = []
        for field in self._plan.slices:
            members: dict[str, list[str]] = {value: [] for value in self._golden.values(field)}
            for question in self._golden:
                for value in dict.fromkeys(question.fields.get(field, ())):
                    members[value].append(question.id)
            for value, ids in members.items():
                metrics = self._metrics(scores, columns, sorted(rows[name] for name in ids if name in rows))
                slices.append(schema.SliceResult(field=field, value=value, questions=len(ids), metrics=metrics))
        return slices

    def _slice_mask(self, of_slice: SliceOf | None, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which of the questions named by ``ids`` are in a slice, bool (n,); None for all of them."""
        if of_slice is None:
            return np.ones(len(ids), dtype=bool)
        members = {
            question.id for question in self._golden if of_slice.value in question.fields.get(of_slice.field, ())
        }
        return np.array([name in members for name in ids], dtype=bool)

    def _questions(
        self, answered: GoldenRun, expected: ExpectedDocuments, columns: Mapping[str, int]
    ) -> list[schema.QuestionResult]:
        """Describe each question: its expectation with the rank found, its hits, values and time."""
        run, scores, exact = answered.run, answered.scores, answered.reference
        if run is None:
            return []
        ids = Ids.of(question.id for question in self._golden)
        positions, exact_positions, rows = (
            table.query_ids.rows_of(ids).tolist() if table is not None else [-1] * len(self._golden)
            for table in (run, exact, scores)
        )
        questions = []
        for question, position, exact_position, row in zip(self._golden, positions, exact_positions, rows, strict=True):
            top = _documents(run, position)
            questions.append(
                schema.QuestionResult(
                    id=question.id,
                    line=question.line,
                    question=question.question if self._plan.keep_text else None,
                    text_digest=text_digest(question.question),
                    expected=_expectations(question, expected, top, _documents(exact, exact_position)),
                    values={name: float(scores.values[row, column]) for name, column in columns.items()}
                    if scores is not None and row >= 0
                    else {},
                    top=top,
                    failed=question.id in answered.unanswered,
                    milliseconds=_milliseconds(answered, position),
                )
            )
        return questions

    def _result(self, requirement: Requirement, answered: GoldenRun) -> schema.RequirementResult:
        sample = self._sample(requirement, answered)
        result = schema.RequirementResult(
            text=requirement.text,
            backend=answered.label,
            dataset=answered.trial.dataset,
            slice=str(requirement.slice) if requirement.slice is not None else None,
            quantity=requirement.name,
            operator=requirement.operator,
            bound=requirement.bound,
            decided_by="confidence bound" if self._plan.request.confidence else "estimate",
            n=0,
            reason=sample if isinstance(sample, str) else None,
        )
        if isinstance(sample, str):
            return result

        def bound(values: Float64Array) -> float:
            ends = sample.interval(values)
            if ends is None:
                return -np.inf if requirement.at_least else np.inf
            return ends.low if requirement.at_least else ends.high

        judged, interval = (
            judge(requirement, sample, bound if self._plan.request.confidence else None),
            sample.interval(sample.values),
        )
        missed = []
        if requirement.at_least and not judged.passed and sample.ids is not None:
            short = np.flatnonzero(sample.values < sample.best)
            missed = [
                sample.ids[position] for position in short[np.argsort(sample.values[short], kind="stable")].tolist()
            ]
        return result.model_copy(
            update={
                "value": judged.value,
                "min": sample.low,
                "max": sample.high,
                "ci_low": interval.low if interval is not None else None,
                "ci_high": interval.high if interval is not None else None,
                "n": judged.n,
                "passed": judged.passed,
                "flips": judged.flips,
                "best_possible": sample.statistic(sample.best) if sample.ids is not None else None,
                "questions_below_best": missed,
            }
        )

    def _sample(self, requirement: Requirement, answered: GoldenRun) -> Sample | str:
        """Return the sample that a requirement is about, or the reason why there is none."""
        if answered.problems:
            return f"'{answered.label}' did not pass preflight: {', '.join(answered.problems)}"
        if answered.run is None or answered.scores is None:
            return f"'{answered.label}' failed"
        query_ids = answered.run.query_ids.to_list()
        if requirement.quantity == PARITY:
            return _parity(answered, query_ids, self._slice_mask(requirement.slice, query_ids), self._seed)
        if isinstance(requirement.quantity, str):
            share = LATENCIES[requirement.quantity]
            return _latency(answered, self._slice_mask(requirement.slice, query_ids), share, self._seed)
        scores, scored = answered.scores, answered.scores.query_ids.to_list()
        mask = self._slice_mask(requirement.slice, scored)
        if not mask.any():
            return f"no question {'of the slice ' if requirement.slice is not None else ''}expects anything"
        chosen, column = _chosen(scored, mask), scores.column_of(requirement.quantity, self._relevance)
        return Sample(
            values=scores.values[mask, column],
            # a document that meets several expected texts makes more possible than one document for each
            best=np.maximum(self._best(requirement.quantity, chosen), scores.values[mask, column]),
            worst=np.zeros(len(chosen)),
            statistic=_exact_mean,
            interval=lambda values: mean_interval(values, self._seed),
            ids=chosen,
            low=_finite_mean(scores.low[mask, column]),
            high=_finite_mean(scores.high[mask, column]),
        )

    @cached_property
    def _ideal(self) -> Scores:
        """Scores of the best ranking that each question can have."""
        metrics, relevance = list(self._plan.metrics.values()), self._relevance
        run, judgments = ideal_run(self._golden, self._plan.request.k), plain_judgments(self._golden)
        return score(run, judgments, metrics, ties=TieRule.ENGINE, relevance=relevance)

    def _best(self, metric: Metric, ids: Sequence[str]) -> Float64Array:
        """Return the best value of a metric that any ranking could reach on each of some questions, float64 (n,)."""
        rows, column = self._ideal.query_ids.rows_of(Ids.of(ids)), self._ideal.column_of(metric, self._relevance)
        values: Float64Array = self._ideal.values[rows, column]
        return values


def _parity(answered: GoldenRun, ids: Sequence[str], mask: npt.NDArray[np.bool_], seed: int) -> Sample | str:
    if answered.exact is None:
        return f"'{answered.label}' is not compared with an exact reference"
    values = answered.exact[mask].astype(np.float64)
    if not len(values):
        return "the slice has no question"
    best, worst = np.ones(len(values)), np.zeros(len(values))
    return Sample(values, best, worst, _exact_mean, partial(bootstrap_interval, seed=seed), _chosen(ids, mask))


def _latency(answered: GoldenRun, mask: npt.NDArray[np.bool_], share: int | None, seed: int) -> Sample | str:
    """Return the sample of a percentile of the times of single queries, or of their mean."""
    times = answered.search_ns[:, mask] if answered.search_ns is not None else np.empty(0, dtype=np.int64)
    milliseconds = times[times >= 0] / _NS_PER_MS
    if not len(milliseconds):
        return f"no times of '{answered.label}' were taken"
    none, never = np.zeros(len(milliseconds)), np.full(len(milliseconds), _NEVER_MS)
    if share is None:
        return Sample(milliseconds, none, never, _exact_mean, partial(bootstrap_interval, seed=seed))

    def percentile(values: Float64Array) -> float:
        return float(np.percentile(values, share, method="inverted_cdf"))

    return Sample(milliseconds, none, never, percentile, partial(_percentile_interval, share=share / 100))


def _percentile_interval(values: Float64Array, share: float) -> Interval | None:
    """Return the distribution-free 95 % interval of a percentile; None if too few samples bound it.

    By order statistics: the number of samples below the percentile is binomial. Source: Conover, Practical
    Nonparametric Statistics, 1999, section 3.2.
    """
    from scipy.stats import binom

    n, ordered = len(values), np.sort(values)
    low, high = int(binom.ppf(_TAIL, n, share)), int(binom.ppf(1 - _TAIL, n, share)) + 1
    if low < 1 or high > n:
        return None
    return Interval(float(ordered[low - 1]), float(ordered[high - 1]))


def _chosen(ids: Sequence[str], mask: npt.NDArray[np.bool_]) -> list[str]:
    return [name for name, keep in zip(ids, mask.tolist(), strict=True) if keep]
