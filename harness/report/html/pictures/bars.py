"""Means as bars with their intervals, one panel a metric."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.figures import Bar, Bars
from harness.report.html.pictures.axes import WIDTH, Axis, figure, linear, room_for, shortened
from harness.report.html.svg import Node, Svg, group, line, picture, rect, series, text

__all__ = ["bars"]

_VALUES, _ROW, _THICK = 56, 26, 14


def bars(drawing: Bars, peers: Sequence[Bars] = ()) -> Svg:
    """Draw horizontal bars from zero, each with its label, its value and a whisker over its interval.

    The axis holds the values of all ``peers``, so that figures side by side can be compared.
    """
    metric, rows = drawing.metric, drawing.rows
    tops = [max(row.value or 0.0, row.high or 0.0) for peer in (drawing, *peers) for row in peer.rows]
    axis = linear(0.0, max(tops, default=0.0) or 1.0, room_for(row.label for row in rows), WIDTH - _VALUES, 4)
    bottom = 8 + _ROW * len(rows)
    nodes = [_grid(axis, bottom), *(_bar(row, axis, 8 + _ROW * at, metric) for at, row in enumerate(rows))]
    said = "; ".join(_words(row) for row in rows)
    return picture(WIDTH, bottom + 26, nodes, f"Bars of {metric}. {said}.")


def _grid(axis: Axis, bottom: float) -> Node:
    lines = [line(axis.at(tick), 4, axis.at(tick), bottom, "grid") for tick in axis.ticks]
    return group([*lines, *(text(axis.at(tick), bottom + 18, figure(tick), "tick", "middle") for tick in axis.ticks)])


def _bar(row: Bar, axis: Axis, top: float, metric: str) -> Node:
    middle = top + _ROW / 2
    label = text(axis.start - 10, middle + 4, shortened(row.label), "label", "end")
    if row.value is None:
        return group([label, text(axis.start + 6, middle + 4, "no value", "tick")])
    nodes = [
        label,
        rect(
            axis.start,
            middle - _THICK / 2,
            axis.at(row.value) - axis.start,
            _THICK,
            f"bar {series(row.series)}",
            _words(row),
        ),
    ]
    if row.low is not None and row.high is not None:
        low, high = axis.at(row.low), axis.at(row.high)
        nodes += [
            line(low, middle, high, middle, "whisker"),
            *(line(x, middle - 4, x, middle + 4, "whisker") for x in (low, high)),
        ]
    return group(
        [*nodes, text(WIDTH, middle + 4, f"{row.value:.4f}", "value", "end")],
        data_backend=row.label,
        data_metric=metric,
    )


def _words(row: Bar) -> str:
    if row.value is None:
        return f"{row.label}: no value"
    interval = f" [{row.low:.3f}, {row.high:.3f}]" if row.low is not None and row.high is not None else ""
    return f"{row.label}: {row.value:.4f}{interval}"
