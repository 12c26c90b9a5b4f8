"""The probe of rebuilds: of an engine that gives other rankings each time it builds, one build is a sample of one.

:class:`Rebuilder` builds and searches again; :class:`RebuildProbe` says how far the builds lie apart.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from harness.data import ranking
from harness.data.dataset import Dataset
from harness.data.progress import Progress
from harness.data.types import Run
from harness.errors import HarnessError
from harness.metrics import Scores
from harness.metrics.spread import Spread, pairwise_overlap, spread
from harness.plan.capability_checks import OWN_ADAPTERS
from harness.plan.plan import Plan
from harness.results import schema
from harness.results.scored import Scored
from harness.store.record_files import load, save
from harness.worker.builds import build_cost, builds_of
from harness.worker.executor import Executor
from harness.worker.jobs import BuildCost, RebuildHits, TrialJob, TrialRecord
from harness.worker.outcome import checked_run, refuse_lost_documents

__all__ = ["RebuildProbe", "Rebuilder", "of_build"]

_NS_PER_S = 1e9
_COSTS = ("seconds", "ready_seconds", "documents_per_second", "bytes", "log_bytes")
"""Costs that have a spread. Peaks of memory are not among them: the first build's worker searches more than others'."""


def of_build(progress: Progress, number: int, builds: int) -> Progress:
    """Return a progress with ``build 2 of 3`` before each phase; unchanged where there is one build."""
    return progress if builds < 2 else _OfBuild(progress, f"build {number} of {builds}")


class _OfBuild:
    def __init__(self, progress: Progress, build: str) -> None:
        self._progress, self._build = progress, build

    def start(self, phase: str, total: int | None) -> None:
        self._progress.start(f"{self._build}: {phase}", total)

    def advance(self, amount: int) -> None:
        self._progress.advance(amount)


@dataclass(frozen=True, eq=False, slots=True)
class Rebuilder:
    """Builds and searches again, one build after the other, each in a worker and a folder of its own under ``work``."""

    executor: Executor
    dataset: Dataset
    work: Path

    def run(self, job: TrialJob, builds: int, progress: Progress, *, reopened: bool) -> tuple[RebuildHits, ...]:
        """Return builds 2 to ``builds``: the hits of every query, asked once and unmeasured, and what each build took.

        ``job`` is that of the first build; with ``reopened`` its index was closed and opened again before it was
        searched, and so are these. Raises HarnessError, naming the build, where one fails or loses documents.
        """
        return tuple(
            self._again(job, number, builds, of_build(progress, number, builds), reopened=reopened)
            for number in range(2, builds + 1)
        )

    def _again(self, job: TrialJob, number: int, builds: int, progress: Progress, *, reopened: bool) -> RebuildHits:
        folder = Path(tempfile.mkdtemp(prefix=f"build-{number}-", dir=self.work))
        index_folder = folder / job.index_folder.name
        index_folder.mkdir()
        try:
            with _named(f"build {number} of {builds}"):
                save(folder, _unmeasured(job, index_folder, reopened=reopened))
                finished = self.executor.run(folder, progress)
                record = load(folder, TrialRecord)
                refuse_lost_documents(record, self.dataset, finished.log)
                checked_run(record, self.dataset)
                return RebuildHits(*record.hits[:3], build_cost(record, finished))
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _unmeasured(job: TrialJob, index_folder: Path, *, reopened: bool) -> TrialJob:
    """Return the job of a later build: nothing is timed, and of a server's collections only the first may be kept."""
    own = job.engine.startswith(OWN_ADAPTERS) and "keep" in job.parameters
    parameters = {**job.parameters, "keep": False} if own else job.parameters
    return replace(
        job,
        parameters=parameters,
        index_folder=index_folder,
        repeats=1,
        warm_up_queries=0,
        release=None,
        shared=reopened,
        built=None,
    )


@contextmanager
def _named(build: str) -> Iterator[None]:
    """Let whatever fails say in which build; the error stays of its own type, with its log."""
    try:
        yield
    except HarnessError as error:
        error.what = f"{build}: {error.what}"
        error.args = (error.what if error.fix is None else f"{error.what}\n  {error.fix}",)
        raise


class RebuildProbe:
    """Sum up how far the builds of a trial lie apart."""

    def summarise(self, scored: Scored, plan: Plan) -> Mapping[str, object]:
        """Return the field ``spread``."""
        return {"spread": _spread_stats(scored, timed=plan.execution.timing)}

    def notes(self, scored: Scored, plan: Plan) -> list[str]:
        """Return why a backend has no spread where the plan asks for several builds."""
        outcome, builds = scored.outcome, plan.request.rebuilds
        if builds == 1 or outcome.run is None or outcome.rebuilds:
            return []
        if outcome.combined is not None:
            return [f"no spread over {builds} builds: it is made of the first build of each backend that it names"]
        if outcome.record is None:
            return [f"no spread over {builds} builds: its run was read from a file"]
        if builds_of(outcome.trial, plan) == 0:
            return [f"no spread over {builds} builds: its index was there before, and is not built again"]
        return [f"built once, not {builds} times: its engine declares that every build gives the same rankings"]


def _spread_stats(scored: Scored, *, timed: bool) -> schema.SpreadStats | None:
    """Return the spread over all builds of one backend, the first among them; None where there is one build or none.

    Without times of the builds unless the plan took them (``timed``).
    """
    outcome, rebuilds = scored.outcome, scored.rebuilds
    if outcome.run is None or outcome.record is None or not rebuilds:
        return None
    runs = [outcome.run, *(build.run for build in rebuilds)]
    depths, queries = _depths(scored, outcome.record.k), len(outcome.run.query_ids)
    each = _each(scored, outcome.record, timed=timed)
    same = {str(depth): _identical(runs, depth) for depth in depths}
    return schema.SpreadStats(
        builds=len(runs),
        queries=queries,
        identical=same,
        identical_share={depth: count / queries for depth, count in same.items()},
        pairwise_overlap={str(depth): pairwise_overlap(runs, depth) for depth in depths},
        reference_overlap=_reference_overlap(scored),
        metrics=_metrics(scored),
        costs=_costs(each),
        each=each,
    )


def _each(scored: Scored, record: TrialRecord, *, timed: bool) -> list[schema.BuildStats]:
    costs = [build_cost(record, scored.outcome.memory), *(hits.cost for hits in record.rebuilds)]
    overlaps = [
        scored.parity.overlap if scored.parity is not None else {},
        *(build.overlap for build in scored.rebuilds),
    ]
    scores = [scored.scores, *(build.scores for build in scored.rebuilds)]
    return [
        _build(number, *parts, timed=timed)
        for number, parts in enumerate(zip(costs, scores, overlaps, strict=True), start=1)
    ]


def _build(
    number: int, cost: BuildCost, scores: Scores | None, overlap: Mapping[int, float], *, timed: bool
) -> schema.BuildStats:
    seconds = cost.index_ns / _NS_PER_S
    means = scores.means() if scores is not None and len(scores.query_ids) else []
    return schema.BuildStats(
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


def _costs(each: Sequence[schema.BuildStats]) -> dict[str, schema.SpreadValue]:
    spreads = {}
    for name in _COSTS:
        values = [getattr(build, name) for build in each]
        if None not in values:
            spreads[name] = _value(spread(values))
    return spreads


def _identical(runs: Sequence[Run], depth: int) -> int:
    return int(np.count_nonzero(ranking.same_rankings([ranking.cut(run, depth) for run in runs])))


def _depths(scored: Scored, k: int) -> list[int]:
    """Return the depths of parity, so that the two can stand side by side."""
    return sorted(scored.parity.overlap if scored.parity is not None else {min(10, k), k})


def _reference_overlap(scored: Scored) -> dict[str, schema.SpreadValue]:
    if scored.parity is None:
        return {}
    return {
        str(depth): _value(spread([first, *(build.overlap[depth] for build in scored.rebuilds)]))
        for depth, first in scored.parity.overlap.items()
    }


def _metrics(scored: Scored) -> dict[str, schema.SpreadValue]:
    scores = [scored.scores, *(build.scores for build in scored.rebuilds)]
    means = [build.means() for build in scores if build is not None and len(build.query_ids)]
    if len(means) < len(scores):  # no judgments, or a build without a query that could be evaluated
        return {}
    return {
        str(summaries[0].measure): _value(spread([summary.value for summary in summaries]))
        for summaries in zip(*means, strict=True)
    }


def _value(figure: Spread) -> schema.SpreadValue:
    return schema.SpreadValue(mean=figure.mean, sd=figure.sd, min=figure.low, max=figure.high)
