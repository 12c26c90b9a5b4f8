"""The frontier of a sweep as a table, with what its mark means."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.cells import FAILED, NOT_APPLICABLE, Table, figure, milliseconds
from harness.report.parity_tables import loss_cell
from harness.results.frontier import RECALL, Frontier, Point, frontiers, recall_of
from harness.results.schema import Result

__all__ = ["frontier_notes", "frontier_tables", "legend_of_frontier"]

_MARK = "●"


def frontier_tables(report: Result) -> list[Table]:
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
        *(f"{RECALL}{depth}" for depth in depths),
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
        *(figure(recall_of(backend, depth), ".4f") for depth in depths),
        milliseconds(times.p50 if times is not None else None),
        milliseconds(times.p95 if times is not None else None),
        figure(backend.search.qps if backend.search is not None else None, ",.0f"),
        _MARK if point.best else "",
    )


def frontier_notes(report: Result) -> list[str]:
    """Why a sweep has no frontier."""
    lines = []
    for one in frontiers(report):
        if not one.timed:
            lines.append(f"no frontier of {one.name}: no latencies were measured")
        elif one.measure is None:
            lines.append(f"no frontier of {one.name}: there are neither judgments nor an exact result")
    return lines


def legend_of_frontier(report: Result) -> list[str]:
    """What the mark means, where it occurs."""
    shown = [one for one in frontiers(report) if any(point.best for point in one.points)]
    measures = dict.fromkeys(str(one.measure) for one in shown)
    if not shown:
        return []
    return [f"{_MARK} on the frontier: no other value has at least its {' or '.join(measures)} and at most its p50"]
