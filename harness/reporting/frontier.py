"""The frontier of a sweep: which values of a parameter no other value beats, in quality and in latency."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.planning.sweep import Swept, swept
from harness.reporting.cells import FAILED, NOT_APPLICABLE, Table, figure, milliseconds
from harness.reporting.parity_tables import loss_cell
from harness.results.schema import BackendResult, Report

__all__ = ["Frontier", "Point", "frontier_notes", "frontier_tables", "frontiers", "legend_of_frontier", "on_frontier"]

_MARK = "●"
_RECALL = "recall@"


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a sweep: its backend, its quality (higher is better) and its median latency in milliseconds.

    Both are None where they were not measured; such a point is not ``best``, which says that it is on the frontier.
    """

    value: str
    backend: BackendResult
    quality: float | None
    p50_ms: float | None
    best: bool


@dataclass(frozen=True, slots=True)
class Frontier:
    """The points of one sweep in the order of its values; ``measure`` names what quality is, None where there is none.

    ``timed`` is False where no latencies were measured: there is no frontier then.
    """

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


def frontiers(report: Report) -> list[Frontier]:
    """One for each ``--sweep`` of the comparison, derived from what its backends came to.

    Quality is the mean of the first metric; with the same exact result for all values, that puts them in the order of
    what they lose against it. Without judgments it is the share of the exact best k that was found.
    """
    given = report.plan.given.get("sweep")
    sweeps = given if isinstance(given, list) else []
    return [_frontier(swept(one), report) for one in sweeps]


def _frontier(sweep: Swept, report: Report) -> Frontier:
    found = [(value, backend) for value in sweep.values if (backend := _backend_of(sweep, value, report)) is not None]
    measure = _measure([backend for _, backend in found])
    measured = [(_quality(backend, measure), _p50(backend)) for _, backend in found]
    whole = [(quality, p50) for quality, p50 in measured if quality is not None and p50 is not None]
    best = {point for point, kept in zip(whole, on_frontier(whole), strict=True) if kept}
    points = tuple(
        Point(value, backend, quality, p50, (quality, p50) in best)
        for (value, backend), (quality, p50) in zip(found, measured, strict=True)
    )
    return Frontier(sweep, measure, points, any(p50 is not None for _, p50 in measured))


def _backend_of(sweep: Swept, value: str, report: Report) -> BackendResult | None:
    """The backend that the sweep made of a value: numbers may be written otherwise in its label."""
    for backend in report.backends:
        named, equals, shown = backend.label.rpartition("=")
        place = max(named.rfind(";"), named.rfind(":"))
        same = (named[:place], named[place + 1 :]) == (sweep.backend, sweep.parameter)
        if equals and same and (shown == value or _number(shown) == _number(value) is not None):
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


def _measure(backends: Sequence[BackendResult]) -> str | None:
    names = [list(backend.metrics) for backend in backends if backend.metrics]
    if names:
        return names[0][0]
    depths = [int(depth) for backend in backends if backend.parity for depth in backend.parity.overlap]
    return f"{_RECALL}{max(depths)}" if depths else None


def _quality(backend: BackendResult, measure: str | None) -> float | None:
    if measure in backend.metrics:
        return backend.metrics[str(measure)].mean
    return (
        _recall(backend, int(measure.removeprefix(_RECALL)))
        if measure is not None and measure.startswith(_RECALL)
        else None
    )


def _recall(backend: BackendResult, depth: int) -> float | None:
    """The share of the exact best ``depth`` that is among the engine's, over all queries."""
    return backend.parity.overlap.get(str(depth)) if backend.parity is not None else None


def _p50(backend: BackendResult) -> float | None:
    search = backend.search
    return search.milliseconds.p50 if search is not None and search.milliseconds is not None else None


def frontier_tables(report: Report) -> list[Table]:
    """One table for each sweep that was timed."""
    return [_table(one) for one in frontiers(report) if one.timed and one.measure is not None]


def _table(frontier: Frontier) -> Table:
    backends, measure = [point.backend for point in frontier.points], str(frontier.measure)
    depths = sorted({int(depth) for one in backends if one.parity for depth in one.parity.overlap})
    judged = any(one.metrics for one in backends)
    lossy = judged and any(one.parity and one.parity.loss for one in backends)
    columns = (
        frontier.sweep.parameter,
        *([measure] if judged else []),
        *(["loss"] if lossy else []),
        *(f"{_RECALL}{depth}" for depth in depths),
        *("p50 ms", "p95 ms", "queries/s", "frontier"),
    )
    rows = tuple(_row(point, measure, depths, judged=judged, lossy=lossy) for point in frontier.points)
    return Table(f"Frontier of {frontier.name}", columns, rows)


def _row(point: Point, measure: str, depths: Sequence[int], *, judged: bool, lossy: bool) -> tuple[str, ...]:
    backend = point.backend
    if backend.status == "failed":
        width = judged + lossy + len(depths) + 3
        return (point.value, FAILED, *([NOT_APPLICABLE] * width))
    loss = backend.parity.loss.get(measure) if backend.parity is not None else None
    times = backend.search.milliseconds if backend.search is not None else None
    return (
        point.value,
        *([figure(point.quality, ".4f")] if judged else []),
        *([loss_cell(loss)] if lossy else []),
        *(figure(_recall(backend, depth), ".4f") for depth in depths),
        milliseconds(times.p50 if times is not None else None),
        milliseconds(times.p95 if times is not None else None),
        figure(backend.search.qps if backend.search is not None else None, ",.0f"),
        _MARK if point.best else "",
    )


def frontier_notes(report: Report) -> list[str]:
    """Why a sweep has no frontier."""
    lines = []
    for one in frontiers(report):
        if not one.timed:
            lines.append(f"no frontier of {one.name}: no latencies were measured")
        elif one.measure is None:
            lines.append(f"no frontier of {one.name}: there are neither judgments nor an exact result")
    return lines


def legend_of_frontier(report: Report) -> list[str]:
    """What the mark means, where it occurs."""
    shown = [one for one in frontiers(report) if any(point.best for point in one.points)]
    measures = dict.fromkeys(str(one.measure) for one in shown)
    if not shown:
        return []
    return [f"{_MARK} on the frontier: no other value has at least its {' or '.join(measures)} and at most its p50"]
