"""The frontier of a sweep: which values of a parameter no other value beats, in quality and in latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.plan.expressions import Swept, swept
from harness.results.schema import FrontierPoint, FrontierStats, Result, TrialResult

__all__ = ["RECALL", "Frontier", "Point", "frontier_stats", "frontiers", "on_frontier", "recall_of"]

RECALL = "recall@"
"""What quality is called where there are no judgments."""


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a sweep: its backend, its quality (higher is better) and its median latency in milliseconds.

    Both are None where they were not measured; such a point is not ``best``, which says that it is on the frontier.
    """

    value: str
    backend: TrialResult
    quality: float | None
    p50_ms: float | None
    best: bool


@dataclass(frozen=True, slots=True)
class Frontier:
    """The points of one sweep in the order of its values; ``measure`` names what quality is, None where there is none.

    ``timed`` is False where no latencies were measured: there is no frontier then.
    """

    dataset: str
    sweep: Swept
    measure: str | None
    points: tuple[Point, ...]
    timed: bool

    @property
    def name(self) -> str:
        """The swept backend and parameter."""
        return f"{self.sweep.backend}, {self.sweep.parameter}"


def on_frontier(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Which of (quality, cost) no other point dominates: is at least as good and costs at most as much, one strictly.

    Equal points do not dominate one another. No points: an empty list.
    """
    return [
        not any(other != point and other[0] >= point[0] and other[1] <= point[1] for other in points)
        for point in points
    ]


def frontiers(report: Result) -> list[Frontier]:
    """Return the frontier of each dataset and ``--sweep``, derived from what the backends came to.

    Quality is the mean of the first metric; with the same exact result for all values, that puts them in the order of
    what they lose against it. Without judgments it is the share of the exact best k that was found.
    """
    given = report.plan.given.get("sweep")
    sweeps = given if isinstance(given, list) else []
    return [_frontier(swept(one), dataset.name, report) for dataset in report.datasets for one in sweeps]


def frontier_stats(report: Result) -> list[FrontierStats]:
    """The same as the report stores it."""
    return [
        FrontierStats(
            backend=one.sweep.backend,
            parameter=one.sweep.parameter,
            dataset=one.dataset,
            metric=one.measure,
            points=[_point(point, one.measure) for point in one.points],
        )
        for one in frontiers(report)
    ]


def _point(point: Point, measure: str | None) -> FrontierPoint:
    parity = point.backend.parity
    loss = parity.loss.get(str(measure)) if parity is not None else None
    return FrontierPoint(
        backend=point.backend.label,
        value=point.value,
        quality=point.quality,
        loss=loss.difference if loss is not None else None,
        p50_ms=point.p50_ms,
        on_frontier=point.best,
    )


def _frontier(sweep: Swept, dataset: str, report: Result) -> Frontier:
    trials = report.of_dataset(dataset)
    found = [(value, backend) for value in sweep.values if (backend := _backend_of(sweep, value, trials)) is not None]
    measure = _measure([backend for _, backend in found])
    measured = [(_quality(backend, measure), _p50(backend)) for _, backend in found]
    whole = [(quality, p50) for quality, p50 in measured if quality is not None and p50 is not None]
    best = {point for point, kept in zip(whole, on_frontier(whole), strict=True) if kept}
    points = tuple(
        Point(value, backend, quality, p50, (quality, p50) in best)
        for (value, backend), (quality, p50) in zip(found, measured, strict=True)
    )
    return Frontier(dataset, sweep, measure, points, any(p50 is not None for _, p50 in measured))


def _backend_of(sweep: Swept, value: str, trials: Sequence[TrialResult]) -> TrialResult | None:
    """The backend that the sweep made of a value: numbers may be written otherwise in its label."""
    begins = tuple(f"{sweep.backend}{separator}{sweep.parameter}=" for separator in ";:")
    for backend in trials:
        shown = backend.label[len(begins[0]) :]
        if backend.label.startswith(begins) and (shown == value or _number(shown) == _number(value) is not None):
            return backend
    return None


def _number(text: str) -> float | None:
    """The number, or truth value, that a parameter is given as."""
    if text.lower() in ("true", "false"):
        return float(text.lower() == "true")
    try:
        return float(text)
    except ValueError:
        return None


def _measure(backends: Sequence[TrialResult]) -> str | None:
    names = [list(backend.metrics) for backend in backends if backend.metrics]
    if names:
        return names[0][0]
    depths = [int(depth) for backend in backends if backend.parity for depth in backend.parity.overlap]
    return f"{RECALL}{max(depths)}" if depths else None


def _quality(backend: TrialResult, measure: str | None) -> float | None:
    if measure in backend.metrics:
        return backend.metrics[str(measure)].mean
    return (
        recall_of(backend, int(measure.removeprefix(RECALL)))
        if measure is not None and measure.startswith(RECALL)
        else None
    )


def recall_of(backend: TrialResult, depth: int) -> float | None:
    """The share of the exact best ``depth`` that is among the engine's, over all queries."""
    return backend.parity.overlap.get(str(depth)) if backend.parity is not None else None


def _p50(backend: TrialResult) -> float | None:
    search = backend.search
    return search.milliseconds.p50 if search is not None and search.milliseconds is not None else None
