"""What quality costs: quality against latency, and how latencies are distributed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.report.figures import Distribution, Percentiles, Spot, Tradeoff
from harness.report.html.pictures.axes import WIDTH, Axis, figure, linear, logarithmic, room_for, shortened
from harness.report.html.pictures.curves import spread_out
from harness.report.html.svg import Node, Svg, group, line, marker, path, picture, rect, series, text
from harness.wording import counted

__all__ = ["distribution", "percentiles", "tradeoff"]

_HEIGHT, _LEFT, _TOP, _BOTTOM, _LEADER = 270, 46, 14, 40, 18
_ROW, _LEAST = 32, 1e-6
_SHARES = np.linspace(0, 1, 101)


def tradeoff(drawing: Tradeoff, peers: Sequence[Tradeoff] = ()) -> Svg:
    """Draw quality upwards, with its interval, and the cost to the right, logarithmic: the best are at the top left.

    A line joins the frontier. The axis of the quality holds all ``peers``.
    """
    metric, spots = drawing.metric, drawing.spots
    right = WIDTH - room_for(spot.label for spot in spots) - _LEADER
    across = logarithmic(min(s.cost for s in spots), max(s.cost for s in spots), _LEFT, right)
    drawn = [spot for peer in (drawing, *peers) for spot in peer.spots]
    qualities = [value for spot in drawn for value in (spot.low, spot.quality, spot.high) if value is not None]
    up = linear(min(qualities), max(qualities), _HEIGHT - _BOTTOM, _TOP, 4)
    nodes = _grid(across, up, f"{drawing.cost}, {drawing.unit} (logarithmic)")
    nodes.append(text(_LEFT, _TOP - 2, metric, "tick", "start"))
    corners: list[tuple[float, float]] = []
    for spot in drawing.frontier:
        x, y = across.at(spot.cost), up.at(spot.quality)
        corners += [(x, corners[-1][1]), (x, y)] if corners else [(x, y)]
    nodes.append(path([*corners, (across.end, corners[-1][1])], "frontier"))
    for spot, place in zip(spots, spread_out([up.at(spot.quality) for spot in spots]), strict=True):
        x, y = across.at(spot.cost), up.at(spot.quality)
        nodes += [
            line(x + 8, y, across.end + 14, place, "leader"),
            text(across.end + 18, place + 4, shortened(spot.label)),
        ]
        if spot.low is not None and spot.high is not None:
            nodes.append(line(x, up.at(spot.low), x, up.at(spot.high), f"range {series(spot.series)}"))
        nodes.append(marker(x, y, spot.series, _words(spot, drawing)))
    said = "; ".join(_words(spot, drawing) for spot in spots)
    best = ", ".join(spot.label for spot in drawing.frontier)
    return picture(WIDTH, _HEIGHT, nodes, f"{metric} against {drawing.cost}. {said}. On the frontier: {best}.")


def _words(spot: Spot, drawing: Tradeoff) -> str:
    return f"{spot.label}: {drawing.metric} {spot.quality:.4f}, {drawing.cost} {spot.cost:,.3f} {drawing.unit}"


def percentiles(drawing: Percentiles) -> Svg:
    """Draw one row a label: its percentiles on a logarithmic axis."""
    rows, numbers = drawing.rows, drawing.series
    values = [max(value, _LEAST) for row in rows.values() for value in row]
    axis = logarithmic(min(values), max(values), room_for(rows), WIDTH - 12)
    bottom = 12 + _ROW * len(rows)
    nodes = []
    for tick in axis.ticks:
        nodes += [
            line(axis.at(tick), 4, axis.at(tick), bottom, "grid"),
            text(axis.at(tick), bottom + 16, figure(tick), "tick", "middle"),
        ]
    nodes.append(text((axis.start + axis.end) / 2, bottom + 32, "ms (logarithmic)", "tick", "middle"))
    for at, (label, row) in enumerate(rows.items()):
        number, middle = numbers[label], 8 + _ROW * at + _ROW / 2
        p50, p90, p95, p99 = (axis.at(max(value, _LEAST)) for value in row)
        tip = f"{label}: p50 {row[0]:.3f}, p90 {row[1]:.3f}, p95 {row[2]:.3f}, p99 {row[3]:.3f} ms"
        shapes = [
            text(axis.start - 10, middle + 4, shortened(label), "label", "end"),
            line(p50, middle, p99, middle, f"range {series(number)}"),
            rect(p50, middle - 6, max(p95 - p50, 1), 12, f"bar faint {series(number)}", tip),
            line(p90, middle - 6, p90, middle + 6, "whisker"),
            line(p99, middle - 5, p99, middle + 5, "whisker"),
            marker(p50, middle, number, tip),
        ]
        nodes.append(group(shapes))
    said = "; ".join(
        f"{label}: p50 {a:.3f}, p90 {b:.3f}, p95 {c:.3f}, p99 {d:.3f} ms" for label, (a, b, c, d) in rows.items()
    )
    return picture(WIDTH, bottom + 38, nodes, f"Latencies. {said}.")


def distribution(drawing: Distribution) -> Svg:
    """Draw the share of all samples that took at most so long.

    The curve of each label has its marker at the median and at the 95th percentile.
    """
    rows, numbers = drawing.rows, drawing.series
    lowest, highest = min(row.min() for row in rows.values()), max(row.max() for row in rows.values())
    across = logarithmic(
        max(float(lowest), _LEAST), max(float(highest), _LEAST), _LEFT, WIDTH - room_for(rows) - _LEADER
    )
    up = linear(0.0, 1.0, _HEIGHT - _BOTTOM, _TOP, 4)
    nodes = _grid(across, up, "ms (logarithmic)")
    said = []
    for at, (label, row) in enumerate(rows.items()):
        number, place = numbers[label], _TOP + 8 + 18 * at
        levels = np.quantile(row, _SHARES)
        points = [(across.at(float(ms)), up.at(float(share))) for ms, share in zip(levels, _SHARES, strict=True)]
        p50, p95, p99 = (float(np.quantile(row, share)) for share in (0.5, 0.95, 0.99))
        words = f"{label}: p50 {p50:.3f}, p95 {p95:.3f}, p99 {p99:.3f} ms of {counted(len(row), 'sample')}"
        nodes.append(path(points, f"curve {series(number)}"))
        nodes += [marker(across.at(ms), up.at(y), number, words) for ms, y in ((p50, 0.5), (p95, 0.95))]
        nodes += [marker(across.end + 12, place, number), text(across.end + 24, place + 4, shortened(label))]
        said.append(words)
    return picture(WIDTH, _HEIGHT, nodes, f"Share of samples that took at most so long. {'; '.join(said)}.")


def _grid(across: Axis, up: Axis, below: str) -> list[Node]:
    nodes = []
    for tick in up.ticks:
        y = up.at(tick)
        nodes += [line(_LEFT, y, across.end, y, "grid"), text(_LEFT - 8, y + 4, figure(tick), "tick", "end")]
    for tick in across.ticks:
        x = across.at(tick)
        nodes += [line(x, _TOP, x, up.start, "grid"), text(x, up.start + 18, figure(tick), "tick", "middle")]
    return [*nodes, text((across.start + across.end) / 2, _HEIGHT - 4, below, "tick", "middle")]
