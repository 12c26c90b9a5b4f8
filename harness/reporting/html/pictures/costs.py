"""What quality costs: quality against latency, and how latencies are distributed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from harness.reporting.html.pictures.axes import WIDTH, figure, linear, logarithmic, room_for, shortened
from harness.reporting.html.pictures.curves import spread_out
from harness.reporting.html.svg import Svg, group, line, marker, picture, rect, series, text

__all__ = ["Spot", "percentiles", "tradeoff"]

_HEIGHT, _LEFT, _TOP, _BOTTOM, _LEADER = 270, 46, 14, 40, 18
_ROW, _LEAST = 32, 1e-6


class Spot(NamedTuple):
    """One backend: its quality with its interval (None without), its latency in milliseconds, and its series."""

    label: str
    quality: float
    low: float | None
    high: float | None
    milliseconds: float
    series: int


def tradeoff(measure: str, percentile: str, spots: Sequence[Spot]) -> Svg:
    """Quality upwards, with its interval, latency to the right on a logarithmic axis: the best are at the top left."""
    right = WIDTH - room_for(spot.label for spot in spots) - _LEADER
    across = logarithmic(min(s.milliseconds for s in spots), max(s.milliseconds for s in spots), _LEFT, right)
    qualities = [value for spot in spots for value in (spot.low, spot.quality, spot.high) if value is not None]
    up = linear(min(qualities), max(qualities), _HEIGHT - _BOTTOM, _TOP, 4)
    nodes = []
    for tick in up.ticks:
        nodes += [
            line(_LEFT, up.at(tick), across.end, up.at(tick), "grid"),
            text(_LEFT - 8, up.at(tick) + 4, figure(tick), "tick", "end"),
        ]
    for tick in across.ticks:
        nodes += [
            line(across.at(tick), _TOP, across.at(tick), _HEIGHT - _BOTTOM, "grid"),
            text(across.at(tick), _HEIGHT - _BOTTOM + 18, figure(tick), "tick", "middle"),
        ]
    nodes += [
        text((across.start + across.end) / 2, _HEIGHT - 4, f"{percentile} latency, ms (logarithmic)", "tick", "middle"),
        text(_LEFT, _TOP - 2, measure, "tick", "start"),
    ]
    for spot, place in zip(spots, spread_out([up.at(spot.quality) for spot in spots]), strict=True):
        x, y = across.at(spot.milliseconds), up.at(spot.quality)
        nodes += [
            line(x + 8, y, across.end + 14, place, "leader"),
            text(across.end + 18, place + 4, shortened(spot.label)),
        ]
        if spot.low is not None and spot.high is not None:
            nodes.append(line(x, up.at(spot.low), x, up.at(spot.high), f"range {series(spot.series)}"))
        nodes.append(marker(x, y, spot.series, _words(spot, measure, percentile)))
    said = "; ".join(_words(spot, measure, percentile) for spot in spots)
    return picture(WIDTH, _HEIGHT, nodes, f"{measure} against {percentile} latency. {said}.")


def _words(spot: Spot, measure: str, percentile: str) -> str:
    return f"{spot.label}: {measure} {spot.quality:.4f}, {percentile} {spot.milliseconds:.3f} ms"


def percentiles(rows: Mapping[str, tuple[float, float, float, float]]) -> Svg:
    """One row a label: median, 90th, 95th and 99th percentile in milliseconds, on a logarithmic axis."""
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
    for number, (label, row) in enumerate(rows.items()):
        middle = 8 + _ROW * number + _ROW / 2
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
