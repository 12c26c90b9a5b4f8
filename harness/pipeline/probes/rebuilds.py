"""The probe of rebuilds: of an engine that gives other rankings each time it builds, one build is a sample of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from harness.data import ranking
from harness.data.dataset import Dataset
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, Int64Array, Run
from harness.document.cells import BACKEND, count, number, size, text, values_of
from harness.document.model import Cell, Column, Table, Value
from harness.errors import HarnessError
from harness.metrics import Scores
from harness.metrics.spread import pairwise_overlap, spread
from harness.pipeline.probes.probe import Probe, ProbedTrial, job_of_another_build, run_another_build
from harness.plan.plan import Plan, Trial
from harness.results.schema import SpreadStats, SpreadValue, TrialResult
from harness.results.schema_costs import BuildStats
from harness.results.scored import ScoredTrial
from harness.store.cpu_use import OtherProcesses
from harness.worker.builds import build_progress, builds_of
from harness.worker.jobs import TrialRecord
from harness.worker.outcome import Measurements, Outcome
from harness.worker.process import FinishedProcess

_NS_PER_S = 1e9
_COSTS = ("seconds", "ready_seconds", "documents_per_second", "bytes", "log_bytes")
"""Costs that have a spread. Peaks of memory are not among them: the first build's worker searches more than others'."""
_SPREAD_LEGEND = [
    "spread: over builds of the same documents, sd: sample standard deviation; other figures are the first build's"
]
_RANKINGS_LEGEND = [
    "identical@n: share of queries with the same documents at the same first n ranks in every build",
    "overlap@n of builds: share of common documents, mean over all pairs of them",
]
_COST_ROWS: Mapping[str, tuple[str, Callable[[float], Cell]]] = {
    "documents_per_second": ("docs/s", lambda value: number(value, ",.0f")),
    "bytes": ("index", size),
}
"""The costs that have a row in the table, as *Index* names and shows them; the others are in CSV and JSON."""


class BuildCost(NamedTuple):
    """Cost of a build: nanoseconds, documents, and bytes; None if these are not known.

    The peaks are of the worker that indexed and then sent every query once.
    """

    index_ns: int
    ready_ns: int
    indexed: int
    index_bytes: int | None
    log_bytes: int
    peak_rss_bytes: int | None
    peak_anonymous_bytes: int | None


@dataclass(frozen=True, eq=False, slots=True)
class RebuildHits:
    """Hits of one more build, in the engine's own order: ``indptr`` int64 (Q + 1), ``rows`` and ``scores`` (H,).

    Rows are the dataset's, as in the first build. ``cost`` is the cost of building it, ``other_processes`` the other
    processes' use of the cores during that time.
    """

    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array
    cost: BuildCost
    other_processes: tuple[OtherProcesses, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class RebuildRecord:
    """The builds after the first, in their order."""

    builds: tuple[RebuildHits, ...]


class RebuildProbe(Probe[RebuildRecord]):
    """Build and search again, one build after the other, and report the spread over the builds."""

    name = "rebuilds"
    options = ("rebuilds",)
    record = RebuildRecord
    on_index = False

    def applies_to(self, trial: Trial, plan: Plan) -> bool:
        """Return whether the plan requests several builds, and the engine's builds differ."""
        return builds_of(trial, plan) > 1

    def run(self, probed: ProbedTrial, progress: Progress) -> RebuildRecord:
        """Make every further build in its own worker and folder; its queries are sent once and not timed.

        Raises HarnessError, naming the build, if a build fails or loses documents.
        """
        builds = builds_of(probed.trial, probed.plan)
        return RebuildRecord(
            tuple(
                _built(probed, number, builds, build_progress(progress, number, builds))
                for number in range(2, builds + 1)
            )
        )

    def other_processes(self, measurements: Measurements) -> Sequence[OtherProcesses]:
        """Return the other processes' use of the cores during each build and its searches."""
        measured = self.measured(measurements)
        builds = measured.builds if measured is not None else ()
        return [
            replace(phase, phase=f"{phase.phase}, build {number}")
            for number, build in enumerate(builds, start=2)
            for phase in build.other_processes
        ]

    def runs(self, outcome: Outcome, plan: Plan, dataset: Dataset) -> tuple[Run, ...]:
        """Return the run of each build after the first, as many as the plan requests."""
        record = self.measured(outcome.measurements)
        builds = record.builds[: builds_of(outcome.trial, plan) - 1] if record is not None else ()
        queries, documents = dataset.queries.ids, dataset.corpus.ids
        return tuple(Run(queries, documents, hits.indptr, hits.rows, hits.scores) for hits in builds)

    def summarise(self, scored: ScoredTrial, dataset: Dataset, plan: Plan) -> Mapping[str, object]:
        """Return the field ``spread``; without times of the builds unless the plan took them."""
        record = self.measured(scored.outcome.measurements)
        return {"spread": _spread_stats(scored, record, timed=plan.request.timing) if record is not None else None}

    def notes(self, scored: ScoredTrial, plan: Plan) -> list[str]:
        """Return why a backend has no spread if the plan requests several builds."""
        outcome, builds = scored.outcome, plan.request.rebuilds
        if builds == 1 or outcome.run is None or outcome.rebuilds:
            return []
        if outcome.combined is not None:
            return [f"no spread over {builds} builds: it is made of the first build of each backend that it names"]
        if outcome.answers is not None:
            return [f"no spread over {builds} builds: its own code answers, and nothing is built"]
        if outcome.record is None:
            return [f"no spread over {builds} builds: its run was read from a file"]
        if builds_of(outcome.trial, plan) == 0:
            return [f"no spread over {builds} builds: its index was there before, and is not built again"]
        return [f"built once, not {builds} times: its engine declares that every build gives the same rankings"]

    def tables(self, trials: Sequence[TrialResult], cores: int) -> list[Table]:
        """Tabulate metrics and agreement with the reference over all builds, and the share of unchanging rankings."""
        measured = [(trial, trial.spread) for trial in trials if trial.spread is not None]
        builds = max((spread.builds for _, spread in measured), default=0)
        depths = sorted({int(depth) for _, spread in measured for depth in spread.pairwise_overlap})
        rows = [
            Column(f"{name if priority == 0 else ''}@{depth}")
            for name in ("identical", "overlap")
            for priority, depth in enumerate(depths)
        ]
        columns = [
            BACKEND,
            Column("figure", numeric=False),
            *(Column(name, timed=True) for name in ("mean", "sd", "min", "max")),
        ]
        figures = [row for trial, spread in measured for row in _spread_rows(trial, spread)]
        rankings = [[text(trial.label), *_stability(spread, depths)] for trial, spread in measured]
        against = f"Rankings of {builds} builds compared with each other"
        return [
            Table(f"Spread over {builds} builds", columns, figures, _SPREAD_LEGEND),
            Table(against, [BACKEND, Column("queries"), *rows], rankings, _RANKINGS_LEGEND),
        ]

    def values(self, trial: TrialResult) -> Iterator[Value]:
        """Yield means over several builds, with the lowest and the highest of them as bounds, then each build."""
        if trial.spread is None:
            return
        dataset, label, builds = trial.dataset, trial.label, trial.spread.builds
        overlaps = {f"reference_overlap.{depth}": value for depth, value in trial.spread.reference_overlap.items()}
        for name, figure in {**trial.spread.metrics, **overlaps, **trial.spread.costs}.items():
            yield Value(dataset, label, f"spread.{name}", figure.mean, figure.min, figure.max, builds)
            yield Value(dataset, label, f"spread.{name}.sd", figure.sd, n=builds)
        rankings = trial.spread.model_dump(include={"identical", "identical_share", "pairwise_overlap"})
        yield from values_of(dataset, label, "spread.", rankings | {"n": trial.spread.queries})
        for build in trial.spread.build_stats:
            prefix = f"spread.build.{build.build}."
            yield from values_of(dataset, label, prefix, build.model_dump(exclude={"build"}))


def _built(probed: ProbedTrial, number: int, builds: int, progress: Progress) -> RebuildHits:
    with (
        TemporaryDirectory(prefix=f"build-{number}-", dir=probed.work, ignore_cleanup_errors=True) as name,
        _name_build(f"build {number} of {builds}"),
    ):
        job = job_of_another_build(probed.job, Path(name))
        job = replace(job, repeats=1, warm_up_queries=0, shared=probed.reopened)
        record, finished = run_another_build(probed, job, Path(name), progress)
        return RebuildHits(*record.hits[:3], _build_cost(record, finished), record.other_processes)


@contextmanager
def _name_build(build: str) -> Iterator[None]:
    """Let any error say in which build it occurred; the error keeps its type and its log."""
    try:
        yield
    except HarnessError as error:
        error.problem = f"{build}: {error.problem}"
        error.args = (error.problem if error.fix is None else f"{error.problem}\n  {error.fix}",)
        raise


def _spread_stats(scored: ScoredTrial, measured: RebuildRecord, *, timed: bool) -> SpreadStats | None:
    """Return the spread over all builds of a backend, including the first; None if there is at most one build."""
    outcome, rebuilds = scored.outcome, scored.rebuilds
    if outcome.run is None or outcome.record is None or not rebuilds:
        return None
    runs = [outcome.run, *(build.run for build in rebuilds)]
    k, queries = outcome.record.k, len(outcome.run.query_ids)
    depths = sorted(scored.parity.overlap if scored.parity is not None else {min(10, k), k})  # the depths of parity
    each = _each(scored, outcome.record, measured, timed=timed)
    same = {
        str(depth): int(np.count_nonzero(ranking.same_rankings([ranking.cut(run, depth) for run in runs])))
        for depth in depths
    }
    return SpreadStats(
        builds=len(runs),
        queries=queries,
        identical=same,
        identical_share={depth: count / queries for depth, count in same.items()},
        pairwise_overlap={str(depth): pairwise_overlap(runs, depth) for depth in depths},
        reference_overlap=_reference_overlap(scored),
        metrics=_metrics(scored),
        costs=_costs(each),
        build_stats=each,
    )


def _each(scored: ScoredTrial, record: TrialRecord, measured: RebuildRecord, *, timed: bool) -> list[BuildStats]:
    rebuilds = measured.builds[: len(scored.rebuilds)]  # a stored outcome may have more than the plan requests
    first = (
        _build_cost(record, scored.outcome.memory),
        scored.scores,
        scored.parity.overlap if scored.parity is not None else {},
    )
    builds = [(hits.cost, build.scores, build.overlap) for hits, build in zip(rebuilds, scored.rebuilds, strict=True)]
    return [_build(number, *parts, timed=timed) for number, parts in enumerate([first, *builds], start=1)]


def _build(
    number: int, cost: BuildCost, scores: Scores | None, overlap: Mapping[int, float], *, timed: bool
) -> BuildStats:
    seconds = cost.index_ns / _NS_PER_S
    means = scores.means() if scores is not None and len(scores.query_ids) else []
    return BuildStats(
        build=number,
        seconds=seconds if timed else None,
        ready_seconds=cost.ready_ns / _NS_PER_S if timed else None,
        documents_per_second=cost.indexed / seconds if timed and seconds > 0 else None,
        bytes=cost.index_bytes,
        log_bytes=cost.log_bytes,
        peak_rss_bytes=cost.peak_rss_bytes,
        peak_anonymous_bytes=cost.peak_anonymous_bytes,
        metrics={str(summary.measure): summary.value for summary in means},
        reference_overlap={str(depth): share for depth, share in overlap.items()},
    )


def _costs(each: Sequence[BuildStats]) -> dict[str, SpreadValue]:
    values = {name: [getattr(build, name) for build in each] for name in _COSTS}
    return {name: _spread(costs) for name, costs in values.items() if None not in costs}


def _reference_overlap(scored: ScoredTrial) -> dict[str, SpreadValue]:
    if scored.parity is None:
        return {}
    return {
        str(depth): _spread([first, *(build.overlap[depth] for build in scored.rebuilds)])
        for depth, first in scored.parity.overlap.items()
    }


def _metrics(scored: ScoredTrial) -> dict[str, SpreadValue]:
    scores = [scored.scores, *(build.scores for build in scored.rebuilds)]
    means = [build.means() for build in scores if build is not None and len(build.query_ids)]
    if len(means) < len(scores):  # no judgments, or a build without a query that could be evaluated
        return {}
    return {
        str(summaries[0].measure): _spread([summary.value for summary in summaries])
        for summaries in zip(*means, strict=True)
    }


def _spread(values: Sequence[float]) -> SpreadValue:
    figure = spread(values)
    return SpreadValue(mean=figure.mean, sd=figure.sd, min=figure.low, max=figure.high)


def _build_cost(record: TrialRecord, memory: FinishedProcess | None) -> BuildCost:
    """Return the costs of the build of a trial.

    Without the peaks if another trial built its index: ``memory`` is then of a worker that only searched.
    """
    seen = memory if record.built_by is None else None
    return BuildCost(
        index_ns=record.index.index_ns,
        ready_ns=record.index.ready_ns,
        indexed=record.index.indexed,
        index_bytes=record.storage.index_bytes,
        log_bytes=record.storage.log_bytes,
        peak_rss_bytes=seen.peak_rss_bytes if seen is not None else None,
        peak_anonymous_bytes=seen.peak_anonymous_bytes if seen is not None else None,
    )


def _spread_rows(trial: TrialResult, spread: SpreadStats) -> Iterator[list[Cell]]:
    dense = trial.parity is not None and trial.parity.reference == "dense"
    kind = "recall" if dense else "overlap with the reference"
    for name, value in spread.metrics.items():
        yield _spread_row(trial, name, value)
    for depth, value in spread.reference_overlap.items():
        yield _spread_row(trial, f"{kind}@{depth}", value)
    for name, (title, format_value) in _COST_ROWS.items():
        if name in spread.costs:
            yield _spread_row(trial, title, spread.costs[name], format_value)


def _spread_row(
    trial: TrialResult, figure: str, value: SpreadValue, format_value: Callable[[float], Cell] = number
) -> list[Cell]:
    return [text(trial.label), text(figure), *map(format_value, (value.mean, value.sd, value.min, value.max))]


def _stability(spread: SpreadStats, depths: Sequence[int]) -> list[Cell]:
    names = [str(depth) for depth in depths]
    return [
        count(spread.queries),
        *(number(spread.identical_share.get(name), ".1%") for name in names),
        *(number(spread.pairwise_overlap.get(name)) for name in names),
    ]
