"""The frontier of a sweep: which values of a parameter no other value beats, in quality and in latency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.plan.expressions import Swept, swept
from harness.results.schema import DatasetInfo, FrontierPoint, FrontierStats, PlanRecord, TrialResult

__all__ = ["RECALL", "frontier_stats", "on_frontier", "recall_of"]

RECALL = "recall@"
"""What quality is called where there are no judgments."""


def on_frontier(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Tell which of (quality, cost) no other point dominates: is at least as good and costs at most as much.

    One of the two strictly: equal points do not dominate one another. No points: an empty list.
    """
    return [
        not any(other != point and other[0] >= point[0] and other[1] <= point[1] for other in points)
        for point in points
    ]


def frontier_stats(
    plan: PlanRecord, datasets: Iterable[DatasetInfo], trials: Sequence[TrialResult]
) -> list[FrontierStats]:
    """Return the frontier of each dataset and ``--sweep`` of a plan, derived from what the backends came to.

    Quality is the mean of the first metric; with the same exact result for all values, that puts them in the order of
    what they lose against it. Without judgments it is the share of the exact best k that was found.
    """
    sweeps = plan.given.get("sweep")
    return [
        _frontier(swept(sweep), dataset.name, [trial for trial in trials if trial.dataset == dataset.name])
        for dataset in datasets
        for sweep in (sweeps if isinstance(sweeps, list) else [])
    ]


def _frontier(sweep: Swept, dataset: str, trials: Sequence[TrialResult]) -> FrontierStats:
    made = [trial for value in sweep.values if (trial := _trial_of(sweep, value, trials)) is not None]
    metric = _metric(made)
    measured = [(_quality(trial, metric), _p50(trial)) for trial in made]
    whole = [(quality, p50) for quality, p50 in measured if quality is not None and p50 is not None]
    best = {point for point, kept in zip(whole, on_frontier(whole), strict=True) if kept}
    points = [
        FrontierPoint(
            backend=trial.label,
            value=trial.label[len(_before_value(sweep)) :],
            quality=quality,
            loss=_loss(trial, metric),
            p50_ms=p50,
            on_frontier=(quality, p50) in best,
        )
        for trial, (quality, p50) in zip(made, measured, strict=True)
    ]
    return FrontierStats(
        dataset=dataset, backend=sweep.backend, parameter=sweep.parameter, metric=metric, points=points
    )


def _trial_of(sweep: Swept, value: str, trials: Sequence[TrialResult]) -> TrialResult | None:
    """Return the trial that the sweep made of a value: numbers may be written otherwise in its label."""
    begins = tuple(_before_value(sweep, separator) for separator in ";:")
    for trial in trials:
        shown = trial.label[len(begins[0]) :]
        if trial.label.startswith(begins) and (shown == value or _number(shown) == _number(value) is not None):
            return trial
    return None


def _before_value(sweep: Swept, separator: str = ";") -> str:
    """Return how the labels of a sweep's trials begin."""
    return f"{sweep.backend}{separator}{sweep.parameter}="


def _number(text: str) -> float | None:
    """Return the number, or truth value, that a parameter is written as; None for anything else."""
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        return float(text)
    except ValueError:
        return None


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


def _p50(trial: TrialResult) -> float | None:
    search = trial.search
    return search.milliseconds.p50 if search is not None and search.milliseconds is not None else None
