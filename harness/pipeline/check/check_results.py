"""Make the results of a check: metrics, slices, every question of a trial, and the requirements that it must meet."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.golden_set import GoldenQuestion
from harness.data.ranking import TieRule
from harness.data.texts import text_digest
from harness.data.types import Float64Array, Ids, Run
from harness.metrics import Metric, Scores, lower_is_better, score, undecided_by_ties
from harness.pipeline.check.check_plan import CheckPlan
from harness.pipeline.check.id_match import ExpectedDocuments, ideal_run, plain_judgments
from harness.pipeline.check.requirements import LATENCIES, NO_ANSWER, PARITY, Requirement, Sample, SliceOf, judge
from harness.results import check_schema as schema
from harness.results.differences import PairedValues, common_queries, family_differences, pairs_to_compare
from harness.results.schema import PairedDifference, TrialResult
from harness.results.schema_base import MetricValue
from harness.results.scored import GoldenRun
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
    interval = mean_interval(values, seed) if len(values) > 1 else None  # a single value has no interval
    return MetricValue(
        metric=str(scores.measures[column]),
        mean=_exact_mean(values),
        min=_finite_mean(scores.low[rows, column]),
        max=_finite_mean(scores.high[rows, column]),
        ci_low=interval.low if interval is not None else None,
        ci_high=interval.high if interval is not None else None,
        n=len(values),
        if_unjudged_relevant=None if scores.if_relevant is None else _finite_mean(scores.if_relevant[rows, column]),
        **(scores.human_mean(column, rows)._asdict() if scores.human is not None else {}),
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
    question: GoldenQuestion,
    expected: ExpectedDocuments,
    top: list[str],
    exact: list[str],
    by_people: Mapping[str, Collection[str]] | None,
) -> list[schema.ExpectationResult]:
    """Describe what a question expects, with its rank among the hits and the exact reference's hits.

    ``by_people`` are expected ids by question that no model labelled, None if models labelled none.
    """
    hits, exact_hits = expected.first_hits(question, top), expected.first_hits(question, exact)
    matched_by, documents = dict[str, str | None](), dict[str, list[str]]()
    for expectation in question.expected if not expected.is_exact else ():
        documents[expectation.id] = list(expected.matching_documents(expectation)[:_MOST_DOCUMENTS])
        if expectation.id in hits:
            matched_by[expectation.id] = expected.matched_by(expectation, hits[expectation.id].doc_id)
    return [
        schema.ExpectationResult(
            id=expectation.id,
            grade=expectation.grade,
            group=expectation.group,
            rank=hits[expectation.id].rank if expectation.id in hits else None,
            hit=hits[expectation.id].doc_id if expectation.id in hits else None,
            reference_rank=exact_hits[expectation.id].rank if expectation.id in exact_hits else None,
            matched_by=matched_by.get(expectation.id),
            documents=documents.get(expectation.id, []),
            by_model=by_people is not None and expectation.id not in by_people[question.id],
        )
        for expectation in question.expected
    ]


def _first_rank(question: schema.QuestionResult) -> float:
    """Return the best rank of an expected document among the hits, else in the exact ranking; infinity if none has."""
    ranks = [expected.rank for expected in question.expected if expected.rank is not None]
    exact = [expected.reference_rank for expected in question.expected if expected.reference_rank is not None]
    return min(ranks or exact, default=math.inf)


def _milliseconds(answered: GoldenRun, position: int) -> float | None:
    if answered.search_ns is None or position < 0:
        return None
    samples = answered.search_ns[:, position]
    timed = samples[samples >= 0]
    return float(timed.mean()) / _NS_PER_MS if len(timed) else None


class _Figures(NamedTuple):
    """The place of a metric: its column in the scores of the questions that it is about."""

    scores: Scores
    column: int

    @property
    def rows(self) -> dict[str, int]:
        """Question -> its row in the scores."""
        return {name: row for row, name in enumerate(self.scores.query_ids)}


class CheckJudge:
    """Judges the answers of backends to a golden set as the plan of a check says."""

    def __init__(self, plan: CheckPlan) -> None:
        self._plan, self._golden = plan, plan.golden
        self._relevance, self._seed = plan.request.relevance, plan.request.seed

    def trial(self, answered: GoldenRun, expected: ExpectedDocuments) -> TrialResult:
        """Describe the answers of a backend; of one that failed, say why."""
        trial, figures = answered.trial, self._figures(answered)
        threshold = self._plan.request.answer_threshold
        ids = [question.id for question in self._golden]
        return trial.model_copy(
            update={
                "status": "failed" if trial.error is not None else "invalid" if answered.problems else "ok",
                "metrics": self._metrics(figures, ids),
                "slices": self._slices(figures) if figures and self._plan.slices else [],
                "questions": self._questions(answered, expected, figures),
                "no_answer": self._no_answer(answered, threshold) if threshold is not None else None,
            }
        )

    def differences(self, runs: Mapping[str, GoldenRun], reference: str | None) -> list[PairedDifference]:
        """Compare runs, by the names of their trials, with that of ``reference``, as comparisons do; None: each pair.

        All of them have scores, of the same questions, so that backends with other documents are compared too.
        """
        figures = {name: self._figures(answered) for name, answered in runs.items()}
        pairs = []
        for a, b in pairs_to_compare(list(figures), reference):
            for metric, of_a in figures[a].items():
                if (of_b := figures[b].get(metric)) is not None:
                    rows_a, rows_b = common_queries(of_a.scores, of_b.scores)
                    values = of_a.scores.values[rows_a, of_a.column], of_b.scores.values[rows_b, of_b.column]
                    tied = undecided_by_ties(of_a.scores.means()[of_a.column], of_b.scores.means()[of_b.column])
                    pairs.append(PairedValues(a, b, metric, *values, tied))
        return family_differences(None, pairs, self._seed)

    def requirements(self, answered: GoldenRun, trial: TrialResult) -> list[schema.RequirementResult]:
        """Judge every requirement on one backend, whose result :meth:`trial` returned.

        A requirement without a figure says why, and is neither passed nor failed.
        """
        ranks = {question.id: _first_rank(question) for question in trial.questions}
        return [self._result(requirement, answered, ranks) for requirement in self._plan.requirements]

    def _figures(self, answered: GoldenRun) -> dict[str, _Figures]:
        """Return the place of each metric by its displayed name; nothing for a run without scores."""
        if answered.scores is None:
            return {}
        figures = {}
        for name, metric in self._plan.metrics.items():
            scores = answered.forbidden if metric in self._plan.forbidden_metrics else answered.scores
            if scores is not None:
                figures[name] = _Figures(scores, scores.column_of(metric, self._relevance))
        return figures

    def _metrics(self, figures: Mapping[str, _Figures], ids: Sequence[str]) -> dict[str, MetricValue]:
        """Return each metric over those of the questions that it is about."""
        metrics = {}
        for name, (scores, column) in figures.items():
            rows = scores.query_ids.rows_of(Ids.of(ids))
            chosen = sorted(rows[rows >= 0].tolist())
            if chosen:
                metrics[name] = _metric(scores, column, chosen, self._seed)
        return metrics

    def _no_answer(self, answered: GoldenRun, threshold: float) -> schema.NoAnswerStats | None:
        """Return how often nothing above the threshold is returned; None for a backend that failed."""
        if answered.run is None:
            return None
        above, questions = self._above_threshold(answered), len(self._unanswerable)
        stats = schema.NoAnswerStats(
            threshold=threshold,
            questions=questions,
            without_answer=0,
            share=None,
            expecting=len(self._golden) - questions,
            expecting_without_answer=0,
        )
        if isinstance(above, str):
            return stats.model_copy(update={"reason": above})
        values = np.array([not above[name] for name in self._unanswerable], dtype=np.float64)
        interval = mean_interval(values, self._seed)
        update = {
            "without_answer": int(values.sum()),
            "share": _exact_mean(values),
            "ci_low": interval.low if interval is not None else None,
            "ci_high": interval.high if interval is not None else None,
            "answered": [name for name in self._unanswerable if above[name]],
            "expecting_without_answer": sum(
                not is_above for name, is_above in above.items() if name not in self._unanswerable
            ),
        }
        return stats.model_copy(update=update)

    @cached_property
    def _unanswerable(self) -> dict[str, None]:
        """The ids of the questions that expect nothing."""
        expecting = {question.id for question in self._golden.expecting(self._relevance)}
        return dict.fromkeys(question.id for question in self._golden if question.id not in expecting)

    def _above_threshold(self, answered: GoldenRun) -> dict[str, bool] | str:
        """Return whether each question got a hit above the threshold, or why that is not known."""
        run, threshold = answered.run, self._plan.request.answer_threshold
        if answered.problems:
            return f"did not pass preflight: {', '.join(answered.problems)}"
        if run is None or threshold is None:
            return "failed" if run is None else "has no threshold"
        if answered.no_scores:
            return answered.no_scores
        positions = run.query_ids.rows_of(Ids.of(question.id for question in self._golden)).tolist()
        return {
            question.id: position >= 0 and bool((run.scores[run.of_query(position)] > np.float32(threshold)).any())
            for question, position in zip(self._golden, positions, strict=True)
        }

    def _slices(self, figures: Mapping[str, _Figures]) -> list[schema.SliceResult]:
        slices = []
        for field in self._plan.slices:
            members: dict[str, list[str]] = {value: [] for value in self._golden.values(field)}
            for question in self._golden:
                for value in dict.fromkeys(question.fields.get(field, ())):
                    members[value].append(question.id)
            for value, ids in members.items():
                metrics = self._metrics(figures, ids)
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
        self, answered: GoldenRun, expected: ExpectedDocuments, figures: Mapping[str, _Figures]
    ) -> list[schema.QuestionResult]:
        """Describe each question: its expectation with the rank found, its hits, values and time."""
        run, exact = answered.run, answered.reference
        if run is None:
            return []
        ids = Ids.of(question.id for question in self._golden)
        positions, exact_positions = (
            table.query_ids.rows_of(ids).tolist() if table is not None else [-1] * len(self._golden)
            for table in (run, exact)
        )
        rows = {name: figure.rows for name, figure in figures.items()}
        threshold = self._plan.request.answer_threshold
        above = self._above_threshold(answered) if threshold is not None else ""
        human = self._golden.human
        by_people = None if human is None else {each.id: {one.id for one in each.expected} for each in human}
        questions = []
        for question, position, exact_position in zip(self._golden, positions, exact_positions, strict=True):
            top, values = _documents(run, position), expected.match.values
            questions.append(
                schema.QuestionResult(
                    id=question.id,
                    line=question.line,
                    question=question.question if self._plan.keep_text else None,
                    text_digest=text_digest(question.question),
                    filter=dict(question.filter) if question.filter else None,
                    expected=_expectations(question, expected, top, _documents(exact, exact_position), by_people),
                    values={
                        name: float(figure.scores.values[rows[name][question.id], figure.column])
                        for name, figure in figures.items()
                        if question.id in rows[name]
                    },
                    human={
                        name: float(value)
                        for name, (scores, column) in figures.items()
                        if scores.human is not None
                        and question.id in rows[name]
                        and not np.isnan(value := scores.human[rows[name][question.id], column])
                    },
                    forbidden=list(question.forbidden),
                    forbidden_hits=expected.forbidden_hits(question, top) if question.forbidden else [],
                    top=top,
                    top_values=[values.get(doc_id) for doc_id in top] if values else [],
                    failed=question.id in answered.unanswered,
                    above_threshold=above[question.id] if isinstance(above, dict) else None,
                    milliseconds=_milliseconds(answered, position),
                )
            )
        return questions

    def _result(
        self, requirement: Requirement, answered: GoldenRun, ranks: Mapping[str, float]
    ) -> schema.RequirementResult:
        """Judge a requirement; ``ranks`` order the questions that are equally far below their best."""
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
        if requirement.wants_best and not judged.passed and sample.ids is not None:
            sign = 1.0 if requirement.at_least else -1.0
            short = np.flatnonzero(sign * sample.values < sign * sample.best)
            nearest = [ranks.get(sample.ids[position], math.inf) for position in short.tolist()]
            worst_first = short[np.lexsort(np.array([nearest, sign * sample.values[short]]))]
            missed = [sample.ids[position] for position in worst_first.tolist()]
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
        if requirement.quantity == NO_ANSWER:
            return self._sample_without_answer(requirement, answered)
        if isinstance(requirement.quantity, str):
            share = LATENCIES[requirement.quantity]
            return _latency(answered, self._slice_mask(requirement.slice, query_ids), share, self._seed)
        scores, column = self._figures(answered)[requirement.name]
        scored = scores.query_ids.to_list()
        mask = self._slice_mask(requirement.slice, scored)
        if not mask.any():
            does = "forbids" if scores is answered.forbidden else "expects"
            return f"no question {'of the slice ' if requirement.slice is not None else ''}{does} anything"
        chosen, lower = _chosen(scored, mask), lower_is_better(requirement.name)
        return Sample(
            values=scores.values[mask, column],
            # a document that meets several expected texts makes more possible than one document for each
            best=np.zeros(len(chosen))
            if lower
            else np.maximum(self._best(requirement.quantity, chosen), scores.values[mask, column]),
            worst=np.ones(len(chosen)) if lower else np.zeros(len(chosen)),
            statistic=_exact_mean,
            interval=lambda values: mean_interval(values, self._seed),
            ids=chosen,
            low=_finite_mean(scores.low[mask, column]),
            high=_finite_mean(scores.high[mask, column]),
        )

    def _sample_without_answer(self, requirement: Requirement, answered: GoldenRun) -> Sample | str:
        above, ids = self._above_threshold(answered), list(self._unanswerable)
        if isinstance(above, str):
            return f"'{answered.label}' {above}"
        chosen = _chosen(ids, self._slice_mask(requirement.slice, ids))
        if not chosen:
            return "every question of the slice expects a document"
        values = np.array([not above[name] for name in chosen], dtype=np.float64)
        best, worst = np.ones(len(values)), np.zeros(len(values))
        return Sample(values, best, worst, _exact_mean, lambda values: mean_interval(values, self._seed), chosen)

    @cached_property
    def _ideal(self) -> Scores:
        """Scores of the best ranking that each question can have."""
        plan, relevance = self._plan, self._relevance
        metrics = [metric for metric in plan.metrics.values() if metric not in plan.forbidden_metrics]
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
