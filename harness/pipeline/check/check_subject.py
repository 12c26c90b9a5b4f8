"""A subject's part of the report of ``harness check``: metrics, slices, and what became of every question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.data.golden_set import GoldenQuestion, GoldenSet
from harness.data.ranking import TieRule
from harness.data.types import Float64Array, Int64Array
from harness.metrics import Measure, Scores
from harness.pipeline.check.id_match import Expected
from harness.pipeline.check.requirements import Requirement
from harness.results import check_schema as schema
from harness.results.schema_base import MetricValue
from harness.results.schema_costs import LatencyStats
from harness.results.subject import Subject
from harness.stats import Interval, mean_interval
from harness.stats.timing import latency

__all__ = ["Rules", "check_subject", "exact_mean", "metric", "of_slice", "times_of"]

_NS_PER_MS = 1e6


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


def check_subject(subject: Subject, golden: GoldenSet, expected: Expected, rules: Rules) -> schema.CheckSubject:
    """What a report says of one subject; of one that failed, why."""
    scores = subject.scores
    every = np.ones(len(scores.query_ids), dtype=bool) if scores is not None else None
    samples = times_of(subject, None)
    return schema.CheckSubject(
        label=subject.label,
        backend=subject.backend,
        corpus=subject.corpus,
        status="failed" if subject.error is not None else "invalid" if subject.problems else "ok",
        error=subject.error,
        engine=subject.engine,
        parameters=dict(subject.parameters),
        milliseconds=_latency(samples) if samples is not None and len(samples) else None,
        parity=subject.parity,
        metrics=_metrics(scores, every, rules) if scores is not None and every is not None else {},
        slices=_slices(scores, golden, rules) if scores is not None else [],
        questions=_questions(subject, golden, expected, rules),
        deterministic=subject.deterministic,
        notes=list(subject.notes),
    )


def times_of(subject: Subject, chosen: npt.NDArray[np.bool_] | None) -> Int64Array | None:
    """The samples of single queries, in nanoseconds, of some questions of the run (all by default); None without."""
    if subject.search_ns is None:
        return None
    samples = subject.search_ns if chosen is None else subject.search_ns[:, chosen]
    return samples[samples >= 0]


def of_slice(golden: GoldenSet, field: str, value: str, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Which of the questions named by ``ids`` have a value of a field, bool (n,)."""
    there = {question.id for question in golden if value in question.fields.get(field, ())}
    return np.array([one in there for one in ids], dtype=bool)


def metric(scores: Scores, column: int, kept: npt.NDArray[np.bool_], seed: int) -> MetricValue:
    """One mean over the questions that are ``kept``, of which there is at least one."""
    values = scores.values[kept, column]
    interval: Interval | None = mean_interval(values, seed)
    return MetricValue(
        metric=str(scores.measures[column]),
        mean=exact_mean(values),
        min=_mean(scores.low[kept, column]),
        max=_mean(scores.high[kept, column]),
        ci_low=interval.low if interval is not None else None,
        ci_high=interval.high if interval is not None else None,
        n=len(values),
    )


def exact_mean(values: Float64Array) -> float:
    """The mean of at least one value, its sum rounded once: the same to the last digit in whatever order they come."""
    return math.fsum(values) / len(values)


def _mean(values: Float64Array) -> float | None:
    mean = exact_mean(values)
    return None if np.isnan(mean) else mean


def _metrics(scores: Scores, kept: npt.NDArray[np.bool_], rules: Rules) -> dict[str, MetricValue]:
    if not kept.any():
        return {}
    return {
        name: metric(scores, scores.column_of(measure, rules.relevance), kept, rules.seed)
        for name, measure in rules.measures.items()
    }


def _slices(scores: Scores, golden: GoldenSet, rules: Rules) -> list[schema.SliceResult]:
    ids = scores.query_ids.to_list()
    return [
        schema.SliceResult(
            field=field,
            value=value,
            questions=sum(value in question.fields.get(field, ()) for question in golden),
            metrics=_metrics(scores, of_slice(golden, field, value, ids), rules),
        )
        for field in rules.slices
        for value in golden.values(field)
    ]


def _latency(samples: Int64Array) -> LatencyStats:
    measured = latency(samples)
    return LatencyStats(
        p50=measured.p50, p90=measured.p90, p95=measured.p95, p99=measured.p99, mean=measured.mean, n=measured.n
    )


def _questions(subject: Subject, golden: GoldenSet, expected: Expected, rules: Rules) -> list[schema.QuestionResult]:
    run, scores = subject.run, subject.scores
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
        told = _question(question, top, values, expected, keep_text=rules.keep_text)
        update = {"failed": question.id in subject.unanswered, "milliseconds": _milliseconds(subject, place)}
        made.append(told.model_copy(update=update))
    return made


def _milliseconds(subject: Subject, place: int | None) -> float | None:
    if subject.search_ns is None or place is None:
        return None
    samples = subject.search_ns[:, place]
    timed = samples[samples >= 0]
    return float(timed.mean()) / _NS_PER_MS if len(timed) else None


def _question(
    question: GoldenQuestion, top: list[str], values: dict[str, float], expected: Expected, *, keep_text: bool
) -> schema.QuestionResult:
    found = expected.first_hits(question, top)
    results = []
    for one in question.expected:
        hit = found.get(one.id)
        rank, doc_id = (hit.rank, hit.doc_id) if hit is not None else (None, None)
        results.append(schema.ExpectationResult(id=one.id, grade=one.grade, rank=rank, found=doc_id))
    return schema.QuestionResult(
        id=question.id,
        line=question.line,
        question=question.question if keep_text else None,
        expected=results,
        values=values,
        top=top,
    )
