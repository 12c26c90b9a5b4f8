"""Tuned figures: the combination of a sweep that some queries choose, on the queries that did not choose it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from harness.data.dataset import Dataset
from harness.data.types import Float64Array, Ids, Int64Array
from harness.errors import UsageError
from harness.metrics import Metric, QuerySet, Scores, Summary, lower_is_better, undecided_by_ties
from harness.metrics.scores import added_in_order
from harness.plan.plan import Plan, Tuning
from harness.plan.sweeps import TunedBackend
from harness.results.differences import PairedValues, family_differences
from harness.results.schema import TunedMeans, TuningChoice, TuningStats
from harness.results.scored import ScoredTrial
from harness.stats.held_out import (
    LEAST_QUERIES,
    BoolArray,
    choose,
    count_groups,
    randomise_choices,
    split_queries,
    tune,
)
from harness.stats.intervals import Interval
from harness.stats.paired import PairedTest, compare_pairs
from harness.wording import counted

HALVES = 2


class _Gain(NamedTuple):
    """The values of the default and of what was chosen on the reporting queries, and their test."""

    pair: PairedValues
    test: PairedTest


class _TuningResult(NamedTuple):
    """What is stored of a tuned backend, without its difference, and the gain; None if nothing was chosen."""

    stats: TuningStats
    gain: _Gain | None = None


class _CommonValues(NamedTuple):
    """The values of candidates, the default first, on the queries that each of them has a value for.

    ``values``, ``low`` and ``high``, the range that ties allow, are float64 (C, Q). ``queries`` are in the byte order
    of their ids, in which means are added up.
    """

    metric: Metric
    values: Float64Array
    low: Float64Array
    high: Float64Array
    queries: list[str]


def refuse_few_queries(tuning: Tuning, plan: Plan, dataset: Dataset) -> None:
    """Refuse a dataset with too few judged queries to choose by some of them and report on others.

    Raises UsageError.
    """
    qrels = dataset.qrels
    if qrels is None:
        raise UsageError(
            f"--tune {tuning.metric}: '{dataset.name}' has no judgments to choose by", fix="leave --tune out"
        )
    level = plan.request.relevance if plan.queries is QuerySet.RELEVANT else -np.inf
    owners = np.repeat(np.arange(len(qrels.query_ids)), np.diff(qrels.indptr))
    counted_ids = qrels.query_ids.take(np.unique(owners[qrels.grades >= level]))
    _require_enough(tuning, dataset.name, count_groups([*_texts(dataset, counted_ids)]))


def _require_enough(tuning: Tuning, dataset: str, queries: int) -> None:
    """Raise UsageError if fewer different queries count than a split needs."""
    needed = max(HALVES * LEAST_QUERIES, tuning.folds or 0)
    if queries < needed:
        count = counted(queries, "different query that counts", "different queries that count")
        split = f"{tuning.folds} folds" if tuning.folds is not None else "two halves"
        raise UsageError(
            f"--tune {tuning.metric} needs at least {needed} queries for {split}: '{dataset}' has {count}",
            fix="tune on more judged queries, or leave --tune out: a choice by so few is chance",
        )


def tuning_stats(tuning: Tuning, plan: Plan, dataset: Dataset, scored: Sequence[ScoredTrial]) -> list[TuningStats]:
    """Choose among the combinations of each swept backend, and compare the choice with the default on other queries.

    No backend is searched again: the queries of ``scored`` are split. p-values are adjusted by Holm over the backends.
    """
    scores = {trial.outcome.trial.label: trial.scores for trial in scored if trial.scores is not None}
    tuned = [_tuned(backend, tuning, plan, dataset, scores) for backend in tuning.backends]
    gains = [one.gain for one in tuned if one.gain is not None]
    rows = iter(
        family_differences(
            dataset.name, [gain.pair for gain in gains], plan.request.seed, [gain.test for gain in gains]
        )
    )
    # of folds, the values alone do not say what could be shown
    unknown = {} if tuning.folds is None else {"detectable": None}
    return [
        one.stats
        if one.gain is None
        else one.stats.model_copy(update={"difference": next(rows).model_copy(update=unknown)})
        for one in tuned
    ]


def _tuned(
    backend: TunedBackend, tuning: Tuning, plan: Plan, dataset: Dataset, scores: Mapping[str, Scores]
) -> _TuningResult:
    """Return the choice among a backend's combinations, and its gain."""
    candidates = [label for label in backend.candidates if label in scores]
    stats = TuningStats(
        dataset=dataset.name,
        backend=backend.backend,
        metric=str(tuning.metric),
        cross_validated=tuning.folds is not None,
        candidates=candidates,
        notes=_notes(backend, candidates),
    )
    if backend.default not in candidates or len(candidates) < 2:
        return _TuningResult(stats)
    common = _common_values([scores[label] for label in candidates], tuning.metric, plan.request.relevance)
    texts = _texts(dataset, common.queries)
    stats = stats.model_copy(update={"metric": str(common.metric)})
    try:
        _require_enough(tuning, dataset.name, count_groups(texts))
    except UsageError as error:  # only known now: candidates answer different queries
        return _TuningResult(stats.model_copy(update={"notes": [*stats.notes, error.problem]}))
    sign, cross_validate = -1.0 if lower_is_better(str(common.metric)) else 1.0, tuning.folds is not None
    part_of = split_queries(common.queries, texts, tuning.folds or HALVES, plan.request.seed)
    choices = tune(sign * common.values, part_of, cross_validate=cross_validate)
    chosen = np.zeros(len(part_of), dtype=np.int64)
    for choice in choices:
        chosen[choice.reporting] = choice.candidate
    reporting = np.any([choice.reporting for choice in choices], axis=0)
    means = [_summary(common, candidate, reporting) for candidate in (np.zeros_like(chosen), chosen)]
    columns = np.flatnonzero(reporting)
    values = common.values[0, columns], common.values[chosen[columns], columns]
    pair = PairedValues(backend.default, stats.name, str(common.metric), *values, undecided_by_ties(*means))
    test = compare_pairs(*values, plan.request.seed)
    if cross_validate and test.changed:
        p, ends = randomise_choices(sign * (common.values - common.values[0]), part_of, plan.request.seed)
        test = replace(test, p=p, interval=Interval(*sorted(sign * end for end in ends)))
    update = {
        "chosen": candidates[choose(sign * common.values) if cross_validate else choices[0].candidate],
        "choices": [
            TuningChoice(
                chosen=candidates[choice.candidate],
                choosing=_means(common, choice.candidate, choice.choosing),
                reporting=_means(common, choice.candidate, choice.reporting),
            )
            for choice in choices
        ],
        "reported": TunedMeans(queries=len(columns), default=means[0].value, chosen=means[1].value),
    }
    return _TuningResult(stats.model_copy(update=update), _Gain(pair, test))


def _notes(backend: TunedBackend, candidates: Sequence[str]) -> list[str]:
    """Return notes on the candidates of a backend: the first ones are those that have scores."""
    missing = [label for label in backend.candidates if label not in candidates]
    notes = []
    if backend.stands_in:
        notes.append(f"{backend.backend} needs a swept parameter: its first combination counts as the default")
    if missing:
        notes.append(f"not among the combinations, because they have no scores: {', '.join(missing)}")
    if backend.default in missing:
        notes.append("nothing is chosen without the default")
    elif len(candidates) < 2:
        notes.append("nothing is chosen: only the default has scores")
    return notes


def _texts(dataset: Dataset, queries: Sequence[str]) -> list[str]:
    """Return the texts of queries; a query without a text is like no other."""
    texts = dict(zip(dataset.queries.ids, dataset.queries.texts.to_pylist(), strict=True))
    return [str(texts.get(query, query)) for query in queries]


def _common_values(scores: Sequence[Scores], metric: Metric, relevance: float) -> _CommonValues:
    """Return the values of all candidates on their common queries."""
    queries = sorted(set.intersection(*(set(one.query_ids) for one in scores)))
    ids = Ids.of(queries)
    column = scores[0].column_of(metric, relevance)
    rows = [one.query_ids.rows_of(ids) for one in scores]

    def of_candidates(tables: Sequence[Float64Array]) -> Float64Array:
        return np.array([table[row, column] for table, row in zip(tables, rows, strict=True)])

    return _CommonValues(
        scores[0].measures[column],
        of_candidates([one.values for one in scores]),
        of_candidates([one.low for one in scores]),
        of_candidates([one.high for one in scores]),
        queries,
    )


def _summary(common: _CommonValues, candidates: int | Int64Array, queries: BoolArray) -> Summary:
    """Return the mean of a candidate over some queries, or of each query's own, and the means that ties allow."""
    columns = np.flatnonzero(queries)
    rows = np.broadcast_to(candidates, queries.shape)[columns]
    means = (added_in_order(table[rows, columns]) / len(columns) for table in (common.values, common.low, common.high))
    return Summary(common.metric, *means)


def _means(common: _CommonValues, candidate: int, queries: BoolArray) -> TunedMeans:
    return TunedMeans(
        queries=int(np.count_nonzero(queries)),
        default=_summary(common, 0, queries).value,
        chosen=_summary(common, candidate, queries).value,
    )
