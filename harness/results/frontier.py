"""The frontier of a sweep: which values of a parameter no other value beats, in quality, latency and memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from harness.plan.sweeps import PlannedSweep
from harness.results.schema import FrontierPoint, FrontierStats, TrialResult
from harness.results.schema_base import DatasetInfo

RECALL = "recall@"
"""The name of quality if there are no judgments."""


def frontier_mask(points: Sequence[tuple[float, ...]]) -> list[bool]:
    """Return which of (quality, cost, …) no other point dominates, with equal or better quality and costs.

    One of them strictly: equal points do not dominate one another. No points: an empty list.
    """

    def dominates(point: tuple[float, ...], other: tuple[float, ...]) -> bool:
        return point[0] >= other[0] and all(mine <= theirs for mine, theirs in zip(point[1:], other[1:], strict=True))

    return [not any(other != point and dominates(other, point) for other in points) for point in points]


def frontier_stats(
    sweeps: Sequence[PlannedSweep], datasets: Iterable[DatasetInfo], trials: Sequence[TrialResult]
) -> list[FrontierStats]:
    """Return the frontier of each dataset and sweep, derived from the backends' results.

    Quality is the mean of the first metric; with the same exact result for all values, that orders them by their loss
    against it. Without judgments it is the share of the exact best k that was found. Costs are p95 and the bytes of the
    index, the latter only if all of them are known.
    """
    return [
        _frontier(sweep, dataset.name, [trial for trial in trials if trial.dataset == dataset.name])
        for dataset in datasets
        for sweep in sweeps
    ]


def _frontier(sweep: PlannedSweep, dataset: str, trials: Sequence[TrialResult]) -> FrontierStats:
    by_label = {trial.label: trial for trial in trials}
    values = {label: value for value, label in sweep.labels.items() if label in by_label}
    made = [by_label[label] for label in values]
    metric = _metric(made)
    depths = [int(depth) for trial in made if trial.parity for depth in trial.parity.overlap]
    sizes = {trial.label: trial.index.bytes for trial in made if trial.index is not None}
    points = [
        FrontierPoint(
            backend=trial.label,
            value=values[trial.label],
            quality=_quality(trial, metric),
            loss=_loss(trial, metric),
            recall=recall_of(trial, max(depths)) if depths else None,
            p50_ms=trial.milliseconds.p50 if trial.milliseconds is not None else None,
            p95_ms=trial.milliseconds.p95 if trial.milliseconds is not None else None,
            bytes=_bytes(trial, sizes),
            on_frontier=False,
        )
        for trial in made
    ]
    by_quality = _undominated(points, [point.quality for point in points])
    by_recall = _undominated(points, [point.recall for point in points])
    points = [
        point.model_copy(
            update={"on_frontier": point.value in by_quality, "on_recall_frontier": point.value in by_recall}
        )
        for point in points
    ]
    return FrontierStats(
        dataset=dataset, backend=sweep.backend, parameter=sweep.parameter, metric=metric, points=points
    )


def _undominated(points: Sequence[FrontierPoint], qualities: Sequence[float | None]) -> set[str]:
    """Return the values of the points on the frontier of some qualities, p95 and bytes; only points with both count.

    Bytes are left out if one of these points lacks them.
    """
    weighed_points = [
        (point.value, quality, point.p95_ms, point.bytes)
        for point, quality in zip(points, qualities, strict=True)
        if quality is not None and point.p95_ms is not None
    ]
    sized = all(size is not None for *_, size in weighed_points)
    weighed = [(quality, p95, float(size or 0) if sized else 0.0) for _, quality, p95, size in weighed_points]
    return {value for (value, *_), is_best in zip(weighed_points, frontier_mask(weighed), strict=True) if is_best}


def _metric(trials: Sequence[TrialResult]) -> str | None:
    names = [list(trial.metrics) for trial in trials if trial.metrics]
    if names:
        return names[0][0]
    depths = [int(depth) for trial in trials if trial.parity for depth in trial.parity.overlap]
    return f"{RECALL}{max(depths)}" if depths else None


def _quality(trial: TrialResult, metric: str | None) -> float | None:
    if metric is None:
        return None
    if metric in trial.metrics:
        return trial.metrics[metric].mean
    return recall_of(trial, int(metric.removeprefix(RECALL))) if metric.startswith(RECALL) else None


def recall_of(trial: TrialResult, depth: int) -> float | None:
    """Return the share of the exact best ``depth`` that is among the engine's, over all queries."""
    return trial.parity.overlap.get(str(depth)) if trial.parity is not None else None


def _loss(trial: TrialResult, metric: str | None) -> float | None:
    loss = trial.parity.loss.get(str(metric)) if trial.parity is not None else None
    return loss.difference if loss is not None else None


def _bytes(trial: TrialResult, sizes: Mapping[str, int | None]) -> int | None:
    """Return the size of a trial's index as it was built: one that several values search has one size."""
    if trial.index is None:
        return None
    builder = trial.index.built_by
    return sizes.get(builder, trial.index.bytes) if builder is not None else trial.index.bytes
