"""The probe of filters: quality, latency and short lists of searches that few or many documents match."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from harness.data.dataset import Dataset
from harness.data.filter_sweep import SweptFilter, sweep_filters
from harness.data.filtering import FilterResult, QueryFilters
from harness.data.progress import PartOf, Progress, SilentDisplay
from harness.data.types import Qrels, Run
from harness.document.cells import BACKEND, absent, count, join_names, milliseconds, number, text, values_of
from harness.document.figures import Curve, Curves
from harness.document.model import Cell, Column, Figure, Table, Value, Verdict
from harness.errors import HarnessError, UsageError
from harness.metrics import Scores, score
from harness.parity.outcome_parity import References
from harness.parity.run_comparison import Parity
from harness.pipeline.probes.probe import (
    Probe,
    ProbedTrial,
    job_of_another_build,
    label_cell,
    latency_stats,
    run_another_build,
)
from harness.plan.plan import Plan, Trial, may_be_server
from harness.registry.lookup import load_engine
from harness.results.hit_rules import HitRules
from harness.results.schema import TrialResult
from harness.results.schema_costs import FilteredStats, FilterSweepStats
from harness.results.scored import ScoredTrial, has_terms
from harness.store.columns import save_table
from harness.store.cpu_use import OtherProcesses
from harness.wording import counted
from harness.worker.jobs import QueryGroup, TrialRecord
from harness.worker.outcome import Measurements, Outcome, checked_run

_NO_FILTER = "none"
_METADATA = "metadata.arrow"
_MAX_NAMES = 4
_ACROSS = "share of the documents that match"
_FIGURE_NOTE = (
    "Against exact filtered search. A ring marks a filter under which queries got fewer hits than from it; the line "
    "joins seeded shares, not values of metadata."
)
_ValueOf = Callable[[FilteredStats], float | None]


@dataclass(frozen=True, eq=False, slots=True)
class FilteredSearch:
    """The trial under a filter, by its name; ``record`` is None if it failed, and ``failure`` says why."""

    filter: str
    record: TrialRecord | None
    failure: str | None


@dataclass(frozen=True, eq=False, slots=True)
class FilteringRecord:
    """The trial under every filter, in the order of the sweep."""

    searches: tuple[FilteredSearch, ...]


class FilteringProbe(Probe[FilteringRecord]):
    """Build the index once more, with the attributes in it, and search it under one filter after the other."""

    name = "filtering"
    options = ("filter_sweep",)
    record = FilteringRecord
    on_index = False

    def applies_to(self, trial: Trial, plan: Plan) -> bool:
        """Return whether the plan requests filters, and the engine supports them on an index of its own."""
        return bool(plan.request.filter_sweep) and _filters(trial)

    def refuse(self, plan: Plan, dataset: Dataset) -> None:
        """Refuse a field that no document has, for example if only a few are taken: there is no value to filter by."""
        attributes = dataset.attributes
        for field in plan.request.filter_sweep.fields:
            if attributes is not None and attributes.column(field).null_count == len(dataset.corpus):
                raise UsageError(
                    f"--filter-sweep {field}: none of {counted(len(dataset.corpus), 'document')} has a value of it",
                    fix="take more documents (--max-docs), or leave the field out",
                )

    def run(self, probed: ProbedTrial, progress: Progress) -> FilteringRecord | None:
        """Search under each filter, on a single build except for engines that cannot open it again, and servers.

        A filter whose searches fail does not affect the others. None if queries are ranked among candidates.
        """
        if probed.dataset.candidates is not None:
            return None
        filters = _filters_of(probed.dataset, probed.plan)
        with TemporaryDirectory(prefix="filters-", dir=probed.work, ignore_cleanup_errors=True) as folder:
            save_table(Path(folder) / _METADATA, filters[0].filtered.metadata)
            return FilteringRecord(tuple(_searches(probed, filters, Path(folder), progress)))

    def other_processes(self, measurements: Measurements) -> Sequence[OtherProcesses]:
        """Return the other processes' use of the cores during the searches under each filter."""
        measured = self.measured(measurements)
        return [
            replace(phase, phase=f"{phase.phase}, filter {search.filter}")
            for search in (measured.searches if measured is not None else ())
            for phase in (search.record.other_processes if search.record is not None else ())
        ]

    def planned(self, plan: Plan) -> str:
        """Name the filters."""
        return "; ".join(self.levels(plan))

    def levels(self, plan: Plan) -> list[str]:
        """Name the filters; of seeded attributes with the seed."""
        return [f"filters: {words}, seed {plan.request.seed}" for words in plan.request.filter_sweep.words()]

    def failure(self, measurements: Mapping[str, object]) -> str | None:
        """Return why the first filter failed that did."""
        record = self.measured(measurements)
        failures = (search.failure for search in (record.searches if record is not None else ()))
        return next((failure for failure in failures if failure is not None), None)

    def summaries(self, scored: Sequence[ScoredTrial], dataset: Dataset, plan: Plan) -> list[Mapping[str, object]]:
        """Return the field ``filter_sweep`` of every trial; trials that claim the same scores share references."""
        swept = bool(plan.request.filter_sweep) and dataset.candidates is None
        built = {one.outcome.trial.label: one for one in scored if swept and one.outcome.record is not None}
        levels: dict[str, list[FilteredStats]] = {label: [] for label in built}
        for filtering in _filters_of(dataset, plan) if built else ():
            searches = [
                (one, search) for one in built.values() for search in self._filtered_searches(filtering.name, one)
            ]
            for label, level in _levels_of(searches, filtering.filtered, dataset, plan):
                levels[label].append(level)
        stats = {
            label: FilterSweepStats(
                filters=_filters(one.outcome.trial), levels=levels[label], recall=_recall(one.parity)
            )
            for label, one in built.items()
        }
        labels = [one.outcome.trial.label for one in scored]
        return [{"filter_sweep": stats[label]} if label in stats else {} for label in labels]

    def _filtered_searches(self, name: str, scored: ScoredTrial) -> list[FilteredSearch]:
        """Return the trial's search under a filter, if it was searched under it."""
        record = self.measured(scored.outcome.measurements)
        return [search for search in (record.searches if record is not None else ()) if search.filter == name]

    def notes(self, scored: ScoredTrial, plan: Plan) -> list[str]:
        """Return why a backend has no filtered searches, or which of them failed."""
        outcome = scored.outcome
        if not plan.request.filter_sweep or outcome.run is None:
            return []
        if outcome.record is None:
            return ["not searched under the filters of --filter-sweep: it has no index itself"]
        if not _filters(outcome.trial):
            return ["not searched under the filters of --filter-sweep: its engine, or its index, does not filter"]
        record = self.measured(outcome.measurements)
        if record is None:
            return ["not searched under the filters of --filter-sweep: its queries are ranked among candidates"]
        return [f"filter {search.filter}: {search.failure}" for search in record.searches if search.failure is not None]

    def tables(self, trials: Sequence[TrialResult], cores: int) -> list[Table]:
        """Tabulate each filter of each backend below its searches without any: no filter's values are the best."""
        depth, metric = _recall_column(trials)
        columns = [
            BACKEND,
            Column("filter", numeric=False, names=True),
            Column("matching", priority=2),
            *([Column(f"recall@{depth}")] if depth else []),
            *([Column(f"filtered {metric}", priority=3)] if metric else []),
            *([Column("− exact", priority=1), Column("evaluated", priority=5)] if metric else []),
            Column("p95 ms", timed=True),
            Column("p99 ms", priority=4),
            Column("n", priority=6),
            Column("too few"),
        ]
        rows = []
        for trial in trials:
            if trial.filter_sweep is not None and not trial.filter_sweep.filters:
                rows.append([label_cell(trial), *absent(len(columns) - 1, "does not filter")])
            rows += [[label_cell(trial), *_cells(level, depth, metric)] for level in _levels(trial, metric)]
        legend = [
            "recall: share of the exact filtered best; too few: queries that got fewer hits than from exact search"
        ]
        if metric is not None:
            legend += [
                "− exact: the metric minus its value for exact search, judged only by documents that match",
                "evaluated: queries with a relevant document that matches",
            ]
        return [Table("Search under filters, from many documents to few", columns, rows, legend)]

    def verdicts(self, trials: Sequence[TrialResult]) -> list[Verdict]:
        """Say which backend finds least of the exact filtered best and under which filter, or that all find it."""
        depth, _ = _recall_column(trials)
        lowest, failed = [], False
        for trial in trials:
            levels = trial.filter_sweep.levels if trial.filter_sweep is not None else []
            failed = failed or any(level.error is not None for level in levels)
            measured = [level for level in levels if level.recall or level.queries_with_fewer_hits]
            if measured:
                worst = min(measured, key=partial(_recall_of, depth=depth))
                lowest.append((_recall_of(worst, depth), trial, worst))
        if not lowest:
            return []
        lowest.sort(key=lambda low: low[0])
        least, trial, level = lowest[0]
        if least == (1.0, 0):
            labels = [trial.label for _, trial, _ in lowest]
            sentence = f"{join_names(labels)} {'finds' if len(labels) == 1 else 'find'} the exact filtered best {depth}"
            return [] if failed else [Verdict("good", f"{sentence} under every filter")]
        headline = f"under filters {trial.label} finds least: {_loss(trial, level, depth)}"
        further = "; ".join(
            f"{other.label}: {_loss(other, low, depth)}" for lost, other, low in lowest[1:_MAX_NAMES] if lost < (1.0, 0)
        )
        return [
            Verdict(
                "unsure" if level.queries_with_fewer_hits else "plain",
                headline,
                f"lowest of the others: {further}" if further else "",
            )
        ]

    def figures(self, trials: Sequence[TrialResult], series: Mapping[str, int]) -> list[Figure]:
        """Draw recall, and the metric's loss against exact filtered search, over the share of documents."""
        depth, metric = _recall_column(trials)
        drawn: list[tuple[str, _ValueOf]] = []
        drawn += [(f"recall@{depth}", lambda level: level.recall.get(depth))] if depth else []
        drawn += [(f"filtered {metric} − exact", _difference)] if metric is not None else []
        made = []
        for name, value_of in drawn:
            curves = [_curve(series[trial.label], trial, metric, value_of) for trial in trials]
            rows = [curve for curve in curves if curve is not None]
            if rows:
                drawing = Curves(name, _ACROSS, rows, "fewer hits than exact search", from_zero=False)
                made.append(Figure(f"{name[0].upper()}{name[1:]} under filters", drawing, _FIGURE_NOTE))
        return made

    def values(self, trial: TrialResult) -> Iterator[Value]:
        """Yield each number of each filter."""
        for level in trial.filter_sweep.levels if trial.filter_sweep is not None else ():
            numbers = level.model_dump(exclude={"filter", "metric", "error"})
            yield from values_of(trial.dataset, trial.label, f"filter.{level.filter}.", numbers)


def _filters(trial: Trial) -> bool:
    """Return whether the trial's engine filters searches of an index that the harness builds."""
    card = trial.spec.card
    return card is not None and not trial.external and load_engine(card).capabilities.filters


def _filters_of(dataset: Dataset, plan: Plan) -> list[SweptFilter]:
    return sweep_filters(plan.request.filter_sweep, len(dataset.corpus), dataset.attributes, plan.request.seed)


def _searches(
    probed: ProbedTrial, filters: Sequence[SweptFilter], folder: Path, progress: Progress
) -> Iterator[FilteredSearch]:
    """Yield the trial under each filter; an index that failed to build is built again for the next filter."""
    card = probed.trial.spec.card
    reopens = card is not None and load_engine(card).capabilities.reopens and not may_be_server(probed.trial)
    built: Path | None = None
    for position, swept in enumerate(filters, 1):
        subfolder = folder / str(position)
        filtered = QueryFilters.of_all(swept.filtered, len(probed.dataset.queries))
        among = replace(probed.dataset, filtered=filtered)
        job = job_of_another_build(probed.job, built or subfolder)
        job = replace(
            job, shared=reopens, built=built, filters=QueryGroup.all_of(filtered), metadata=folder / _METADATA
        )
        try:
            record = run_another_build(
                replace(probed, dataset=among), job, subfolder, PartOf(progress, f"filter {swept.name}")
            ).record
            built = (built or subfolder) if reopens else None
            yield FilteredSearch(swept.name, replace(record, compared=None), None)
        except HarnessError as error:
            yield FilteredSearch(swept.name, None, error.problem.splitlines()[0])
        if built != subfolder and not reopens:
            shutil.rmtree(subfolder, ignore_errors=True)


def _levels_of(
    searches: Sequence[tuple[ScoredTrial, FilteredSearch]], filtered: FilterResult, dataset: Dataset, plan: Plan
) -> Iterator[tuple[str, FilteredStats]]:
    """Yield labels of trials, and their hits under a filter compared with the exact filtered search, both scored."""
    among = replace(dataset, filtered=QueryFilters.of_all(filtered, len(dataset.queries)))
    deep = HitRules.of(dataset).deepened(plan)
    outcomes = [
        replace(
            scored.outcome,
            run=checked_run(search.record, among) if search.record is not None else None,
            record=search.record,
            rebuilds=(),
            measurements={},
            combined=None,
        )
        for scored, search in searches
    ]
    references = References(outcomes, deep, among, SilentDisplay(), deeper=deep.request.k)
    for outcome, (_, search) in zip(outcomes, searches, strict=True):
        yield outcome.trial.label, _level(search, outcome, references, filtered, dataset, plan)


def _level(
    search: FilteredSearch,
    outcome: Outcome,
    references: References,
    filtered: FilterResult,
    dataset: Dataset,
    plan: Plan,
) -> FilteredStats:
    matching, documents = len(filtered), len(dataset.corpus)
    record = search.record
    if record is None or outcome.run is None:
        return FilteredStats(
            filter=search.filter, matching=matching, selectivity=matching / documents, error=search.failure
        )
    rules = HitRules.of(dataset)
    compared = references.compare(outcome, explained=False)
    exact = (compared.exact or compared.deeper) if compared is not None else None
    run = rules.filter_hits(outcome.run, plan.request.k)
    exact = rules.filter_hits(exact, plan.request.k) if exact is not None else None
    scores, best = _scores(run, filtered, dataset, plan), _scores(exact, filtered, dataset, plan)
    lengths, terms = np.diff(run.indptr), has_terms(outcome.vectors, len(dataset.queries))
    possible = np.diff(exact.indptr) if exact is not None else np.full(len(lengths), min(plan.request.k, matching))
    return FilteredStats(
        filter=search.filter,
        matching=matching,
        selectivity=matching / documents,
        recall=_recall(compared.parity if compared is not None else None),
        metric=str(plan.measures[0]) if scores is not None else None,
        quality=scores.means()[0].value if scores is not None else None,
        exact=best.means()[0].value if best is not None else None,
        evaluated=len(scores.query_ids) if scores is not None else 0,
        queries_with_fewer_hits=int(np.count_nonzero(lengths < possible)),
        milliseconds=latency_stats(record.search_ns[:, terms]) if plan.request.timing else None,
    )


def _recall(parity: Parity | None) -> dict[str, float]:
    return {str(depth): share for depth, share in parity.recall.items()} if parity is not None else {}


def _scores(run: Run | None, filtered: FilterResult, dataset: Dataset, plan: Plan) -> Scores | None:
    """Score a run by the first metric and the judgments of documents that match; None if no query has any."""
    if run is None or dataset.qrels is None or not plan.measures:
        return None
    qrels = _matching_qrels(dataset.qrels, filtered, dataset)
    scores = score(
        run,
        qrels,
        plan.measures[:1],
        ties=plan.ties,
        queries=plan.queries,
        relevance=plan.request.relevance,
        unjudged=True,
    )
    return scores if len(scores.query_ids) else None


def _matching_qrels(qrels: Qrels, filtered: FilterResult, dataset: Dataset) -> Qrels:
    """Return the judgments of documents that match."""
    rows = dataset.corpus.ids.rows_of(qrels.doc_ids)
    is_matching = ((rows >= 0) & filtered.matching[rows])[qrels.rows]
    before = np.concatenate([[0], np.cumsum(is_matching)])
    return Qrels(
        qrels.query_ids,
        qrels.doc_ids,
        before[qrels.indptr].astype(np.int64),
        qrels.rows[is_matching],
        qrels.grades[is_matching],
    )


def _recall_column(trials: Sequence[TrialResult]) -> tuple[str, str | None]:
    """Return the depth of the displayed recall, "" for none, and the metric, None if there is none."""
    levels = [level for trial in trials if trial.filter_sweep is not None for level in trial.filter_sweep.levels]
    depth = min((depth for level in levels for depth in level.recall), key=int, default="")
    return depth, next((level.metric for level in levels if level.metric), None)


def _levels(trial: TrialResult, metric: str | None) -> list[FilteredStats]:
    """Return the trial's searches without a filter and under each; none if it was not swept, or does not filter."""
    sweep = trial.filter_sweep
    return [_unfiltered(trial, sweep, metric), *sweep.levels] if sweep is not None and sweep.filters else []


def _curve(number: int, trial: TrialResult, metric: str | None, value_of: _ValueOf) -> Curve | None:
    """Return a trial's values by the share of matching documents, the points with too few hits ringed.

    The line joins seeded shares: metadata values match by meaning, and many match about the same number of documents.
    """
    points = sorted(
        (level.selectivity, value, level.queries_with_fewer_hits > 0, "=" in level.filter)
        for level in _levels(trial, metric)
        if level.selectivity > 0 and (value := value_of(level)) is not None
    )
    ringed, apart = (frozenset(position for position, point in enumerate(points) if point[flag]) for flag in (2, 3))
    return Curve(trial.label, [point[:2] for point in points], number, ringed, apart) if points else None


def _recall_of(level: FilteredStats, depth: str) -> tuple[float, int]:
    """Return the sort key of levels, the lowest recall first: recall, then missing hits."""
    return level.recall.get(depth, 1.0), -level.queries_with_fewer_hits


def _loss(trial: TrialResult, level: FilteredStats, depth: str) -> str:
    """Return recall under a filter, how many documents match it, and how many queries get too few hits."""
    recalls = [f"recall@{depth} {level.recall[depth]:.4f}"] if depth in level.recall else []
    queries = f" of {trial.parity.queries:,}" if trial.parity is not None else ""
    short = (
        [f"too few hits on {level.queries_with_fewer_hits:,}{queries} queries"] if level.queries_with_fewer_hits else []
    )
    return f"{', '.join([*recalls, *short])} if {100 * level.selectivity:.2g} % match"


def _difference(level: FilteredStats) -> float | None:
    return None if level.quality is None or level.exact is None else level.quality - level.exact


def _unfiltered(trial: TrialResult, sweep: FilterSweepStats, metric: str | None) -> FilteredStats:
    """Return the trial's searches without a filter as another level."""
    value = trial.metrics.get(metric) if metric is not None else None
    loss = trial.parity.loss.get(metric) if trial.parity is not None and metric is not None else None
    documents = trial.index.documents_indexed if trial.index is not None else 0
    exact = value.mean - loss.difference if value is not None and loss is not None else None
    if trial.parity is not None and trial.parity.different == 0:
        exact = value.mean if value is not None else None
    return FilteredStats(
        filter=_NO_FILTER,
        matching=documents,
        selectivity=1.0,
        recall=sweep.recall,
        metric=metric,
        quality=value.mean if value is not None else None,
        exact=exact,
        evaluated=value.n if value is not None else 0,
        milliseconds=trial.milliseconds,
    )


def _cells(level: FilteredStats, depth: str, metric: str | None) -> list[Cell]:
    times = level.milliseconds
    quality = [number(level.quality), number(_difference(level)), count(level.evaluated)] if metric else []
    return [
        text(level.filter),
        count(level.matching),
        *([number(level.recall.get(depth))] if depth else []),
        *quality,
        milliseconds(times.p95 if times is not None else None),
        milliseconds(times.p99 if times is not None else None),
        count(times.n if times is not None else None),
        text("failed")
        if level.error is not None
        else count(level.queries_with_fewer_hits if level.filter != _NO_FILTER else None),
    ]
