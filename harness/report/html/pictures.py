"""Draw the figures of a document: each kind of drawing as one SVG, with its text alternative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from harness.document.figures import (
    Bar,
    Bars,
    Curves,
    Differences,
    Distribution,
    Drawing,
    Matrix,
    Percentiles,
    Saturation,
    Spot,
    Strips,
    Tradeoff,
)
from harness.document.model import Block, Figure
from harness.report.html.svg import (
    WIDTH,
    Axis,
    Node,
    Svg,
    circle,
    figure,
    group,
    line,
    linear,
    logarithmic,
    marker,
    path,
    picture,
    rect,
    room_for,
    series,
    short_names,
    text,
)
from harness.wording import counted

_HEIGHT, _LEFT, _TOP, _BOTTOM, _LEADER, _GAP = 270, 46, 14, 40, 18, 15
_VALUE_WIDTH, _BAR_ROW, _BAR_THICK = 56, 26, 14
_DIFFERENCES_HEIGHT, _DIFFERENCES_BOTTOM, _STEPS = 200, 34, 500
_CELL, _SHADES, _STRIP_ROW = 40, 5, 34
_BOX_ROW, _LEAST, _RING = 32, 1e-6, 9
_SHARES = np.linspace(0, 1, 101)
_Labels = Mapping[str, str] | None


def draw(drawing: Drawing, blocks: Sequence[Block], labels: _Labels = None) -> Svg:
    """Draw a figure on the axes that it shares with the others of its kind among the blocks of its section.

    ``labels`` are the document's short labels of backends, used in the picture; tips have the long ones.
    """
    peers = [block.drawing for block in blocks if isinstance(block, Figure)]
    match drawing:
        case Bars():
            return bars(drawing, [peer for peer in peers if isinstance(peer, Bars)], labels)
        case Curves():
            return curves(drawing, labels)
        case Differences():
            return differences(drawing, [peer for peer in peers if isinstance(peer, Differences)])
        case Distribution():
            return distribution(drawing, labels)
        case Matrix():
            return matrix(drawing, labels)
        case Percentiles():
            return percentiles(drawing, labels)
        case Saturation():
            return saturation(drawing, labels)
        case Strips():
            return strips(drawing, labels)
        case Tradeoff():
            return tradeoff(drawing, [peer for peer in peers if isinstance(peer, Tradeoff)], labels)


def bars(drawing: Bars, peers: Sequence[Bars] = (), labels: _Labels = None) -> Svg:
    """Draw horizontal bars from zero, each with its label, its value and a whisker over its interval.

    The axis holds the values of all ``peers``, so that figures side by side can be compared.
    """
    metric, rows = drawing.metric, drawing.rows
    tops = [max(row.value or 0.0, row.high or 0.0) for peer in (drawing, *peers) for row in peer.rows]
    names = short_names((row.label for row in rows), labels)
    axis = linear(0.0, max(tops, default=0.0) or 1.0, room_for(names.values()), WIDTH - _VALUE_WIDTH, 4)
    bottom = 8 + _BAR_ROW * len(rows)
    drawn = [_bar(row, names[row.label], axis, 8 + _BAR_ROW * number, metric) for number, row in enumerate(rows)]
    nodes = [_bar_grid(axis, bottom), *drawn]
    description = "; ".join(_bar_words(row) for row in rows)
    return picture(WIDTH, bottom + 26, nodes, f"Bars of {metric}. {description}.")


def _bar_grid(axis: Axis, bottom: float) -> Node:
    lines = [line(axis.position(tick), 4, axis.position(tick), bottom, "grid") for tick in axis.ticks]
    return group(
        [*lines, *(text(axis.position(tick), bottom + 18, figure(tick), "tick", "middle") for tick in axis.ticks)]
    )


def _bar(row: Bar, name: str, axis: Axis, top: float, metric: str) -> Node:
    middle = top + _BAR_ROW / 2
    label = text(axis.start - 10, middle + 4, name, "label", "end")
    if row.value is None:
        return group([label, text(axis.start + 6, middle + 4, "no value", "tick")])
    top, long = middle - _BAR_THICK / 2, axis.position(row.value) - axis.start
    nodes = [label, rect(axis.start, top, long, _BAR_THICK, f"bar {series(row.series)}", _bar_words(row))]
    if row.low is not None and row.high is not None:
        low, high = axis.position(row.low), axis.position(row.high)
        nodes += [
            line(low, middle, high, middle, "whisker"),
            *(line(x, middle - 4, x, middle + 4, "whisker") for x in (low, high)),
        ]
    nodes.append(text(WIDTH, middle + 4, f"{row.value:.4f}", "value", "end"))
    return group(nodes, data_backend=row.label, data_metric=metric)


def _bar_words(row: Bar) -> str:
    if row.value is None:
        return f"{row.label}: no value"
    interval = f" [{row.low:.3f}, {row.high:.3f}]" if row.low is not None and row.high is not None else ""
    return f"{row.label}: {row.value:.4f}{interval}"


def curves(drawing: Curves, labels: _Labels = None) -> Svg:
    """Draw one curve a label on a logarithmic axis: by colour, by marker, and by its name at the end."""
    rows, metric = drawing.rows, drawing.metric
    names = short_names((row.label for row in rows), labels)
    xs, values = ([point[axis] for row in rows for point in row.points] for axis in (0, 1))
    across = logarithmic(min(xs), max(xs), _LEFT, WIDTH - room_for(names.values()) - _LEADER)
    lowest, highest = (0.0, max(values) or 1.0) if drawing.from_zero else (min(values), max(values))
    up = linear(lowest, highest, _HEIGHT - _BOTTOM, _TOP, 5)
    nodes = _grid(across, up, f"{drawing.across} (logarithmic)")
    ends = spread_out([up.position(row.points[-1][1]) for row in rows])
    descriptions = []
    for row, end in zip(rows, ends, strict=True):
        points = [(across.position(x_value), up.position(value)) for x_value, value in row.points]
        nodes.append(
            path([point for axis, point in enumerate(points) if axis not in row.apart], f"curve {series(row.series)}")
        )
        words = []
        for axis, ((x, y), (x_value, value)) in enumerate(zip(points, row.points, strict=True)):
            ringed = axis in row.ringed
            words.append(f"{value:.4f} at {figure(x_value)}{f' ({drawing.ring})' if ringed else ''}")
            nodes += [circle(x, y, _RING, "knee")] if ringed else []
            nodes.append(marker(x, y, row.series, f"{row.label}: {metric} {words[-1]}"))
        nodes += _label_end(points[-1], across.end, end, names[row.label])
        descriptions.append(f"{row.label}: {', '.join(words)}")
    return picture(WIDTH, _HEIGHT, nodes, f"{metric} by {drawing.across}. {'; '.join(descriptions)}.")


def _label_end(last: tuple[float, float], right: float, position: float, name: str) -> list[Node]:
    """Lead from a curve's last point to its name, which is at ``position`` next to the right edge of the axes."""
    return [line(last[0] + 7, last[1], right + 14, position, "leader"), text(right + 18, position + 4, name)]


def spread_out(positions: Sequence[float], gap: float = _GAP) -> list[float]:
    """Move places apart, so that labels do not overlap and none is further up than the axes; their order stays."""
    order = sorted(range(len(positions)), key=lambda number: positions[number])
    moved = list(positions)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + gap)
    over = min((moved[order[-1]] - max(positions)) / 2, moved[order[0]] - _TOP) if positions else 0.0
    return [position - over for position in moved]


def differences(drawing: Differences, peers: Sequence[Differences] = ()) -> Svg:
    """Draw one step a query, sorted, on an axis that holds the differences of all ``peers``.

    Above 500 queries each step represents several neighbours, by their mean; the figures in words count them all.
    """
    label, reference, metric, values = drawing.label, drawing.reference, drawing.metric, drawing.values
    ordered = np.sort(values)
    steps = ordered if len(ordered) <= _STEPS else np.array([part.mean() for part in np.array_split(ordered, _STEPS)])
    reach = max(float(np.abs(peer.values).max(initial=0.0)) for peer in (drawing, *peers)) or 1.0
    axis = linear(-reach, reach, _DIFFERENCES_HEIGHT - _DIFFERENCES_BOTTOM, _TOP, 4)
    zero, width = axis.position(0.0), (WIDTH - _LEFT) / max(len(steps), 1)
    nodes = _rules(axis, WIDTH)
    for kind, chosen in (("loss", steps < 0), ("gain", steps > 0)):
        positions = np.flatnonzero(chosen)
        if len(positions):
            corners = [(_LEFT + x * width, axis.position(float(steps[n]))) for n in positions for x in (n, n + 1)]
            outline = [(corners[0][0], zero), *corners, (corners[-1][0], zero)]
            nodes.append(path(outline, kind, closed=True))

    def counts(x: float, anchor: str, words: str, filter_: str) -> Svg:
        node = text(x, _DIFFERENCES_HEIGHT - 8, words, "value", anchor)
        about = {"data_reference": reference, "data_metric": metric, "data_dataset": drawing.dataset}
        return group([node], data_backend=label, data_queries=filter_, **about)

    worse, better = int(np.count_nonzero(values < 0)), int(np.count_nonzero(values > 0))
    nodes += [
        line(_LEFT, zero, WIDTH, zero, "axis"),
        counts(_LEFT, "start", f"▼ {worse:,} worse", "regressed"),
        counts((_LEFT + WIDTH) / 2, "middle", f"= {len(values) - worse - better:,} tied", "tied"),
        counts(WIDTH, "end", f"▲ {better:,} better", "improved"),
    ]
    description = (
        f"{metric} of {label} minus {reference} on {counted(len(values), 'query')}, sorted: {worse:,} worse, "
        f"{len(values) - worse - better:,} tied, {better:,} better; "
        f"from {ordered.min(initial=0.0):.4f} to {ordered.max(initial=0.0):.4f}."
    )
    return picture(WIDTH, _DIFFERENCES_HEIGHT, nodes, description)


def matrix(drawing: Matrix, labels: _Labels = None) -> Svg:
    """Draw shares as cells with their numbers; columns are numbered like the rows."""
    name, rows, shares = drawing.name, drawing.labels, drawing.shares
    names = short_names(rows, labels)
    left = room_for(names.values()) + 18
    cell = min((WIDTH - left) / max(len(rows), 1), 96)
    nodes = [text(left + cell * (number + 0.5), 16, str(number + 1), "tick", "middle") for number in range(len(rows))]
    for row, label in enumerate(rows):
        top = 24 + _CELL * row
        nodes.append(text(left - 10, top + _CELL / 2 + 4, f"{names[label]}  {row + 1}", "label", "end"))
        for column, share in enumerate(shares[row].tolist()):
            shade = min(int(share * _SHADES), _SHADES - 1)
            tip = f"{label} and {rows[column]}: {share:.4f}"
            nodes.append(rect(left + cell * column + 1, top + 1, cell - 2, _CELL - 2, f"cell h{shade}", tip))
            digits = 4 if cell > 60 else 3
            written = "1" if share == 1 else f"{min(share, 1 - 10**-digits):.{digits}f}"[1:]
            center = left + cell * (column + 0.5)
            nodes.append(text(center, top + _CELL / 2 + 4, written, f"on-cell h{shade}", "middle"))
    description = "; ".join(
        f"{rows[a]} and {rows[b]} {shares[a, b]:.4f}" for a in range(len(rows)) for b in range(a + 1, len(rows))
    )
    return picture(WIDTH, 28 + _CELL * len(rows), nodes, f"{name} of each two rankings, from 0 to 1. {description}.")


def strips(drawing: Strips, labels: _Labels = None) -> Svg:
    """Draw one strip a label, divided by counts; each part has a pattern, and its sign and count if they fit."""
    name, parts, rows, signs = drawing.name, drawing.parts, drawing.rows, drawing.signs
    nodes, names = [], short_names(rows, labels)
    left = room_for(names.values())
    span = WIDTH - left
    for number, (label, counts) in enumerate(rows.items()):
        top, x, total = 6 + _STRIP_ROW * number, left, max(sum(counts), 1)
        shapes = [text(left - 10, top + 17, names[label], "label", "end")]
        for row_number, count in enumerate(counts):
            width = span * count / total
            if count:
                tip = f"{label}: {parts[row_number]} {count:,} of {total:,}"
                shapes.append(rect(x, top, max(width - 1, 1.5), 24, f"part p{row_number}", tip))
            if width > 44:
                shapes.append(
                    text(x + width / 2, top + 17, f"{signs[row_number]} {count:,}", f"on-part p{row_number}", "middle")
                )
            x += width
        nodes.append(group(shapes))
    description = "; ".join(
        f"{label}: " + ", ".join(f"{count:,} {part}" for part, count in zip(parts, counts, strict=True) if count)
        for label, counts in rows.items()
    )
    return picture(WIDTH, 10 + _STRIP_ROW * len(rows), nodes, f"{name}. {description}.")


def tradeoff(drawing: Tradeoff, peers: Sequence[Tradeoff] = (), labels: _Labels = None) -> Svg:
    """Draw quality upwards, with its interval, and the cost to the right, logarithmic: the best are at the top left.

    A line joins the frontier. The axis of the quality holds all ``peers``.
    """
    metric, spots = drawing.metric, drawing.spots
    names = short_names((spot.label for spot in spots), labels)
    right = WIDTH - room_for(names.values()) - _LEADER
    across = logarithmic(min(s.cost for s in spots), max(s.cost for s in spots), _LEFT, right)
    drawn = [spot for peer in (drawing, *peers) for spot in peer.spots]
    qualities = [value for spot in drawn for value in (spot.low, spot.quality, spot.high) if value is not None]
    up = linear(min(qualities), max(qualities), _HEIGHT - _BOTTOM, _TOP, 4)
    nodes = _grid(across, up, f"{drawing.cost}, {drawing.unit} (logarithmic)")
    nodes.append(text(_LEFT, _TOP - 2, metric, "tick", "start"))
    corners: list[tuple[float, float]] = []
    for spot in drawing.frontier:
        x, y = across.position(spot.cost), up.position(spot.quality)
        corners += [(x, corners[-1][1]), (x, y)] if corners else [(x, y)]
    nodes.append(path([*corners, (across.end, corners[-1][1])], "frontier"))
    for spot, label_y in zip(spots, spread_out([up.position(spot.quality) for spot in spots]), strict=True):
        x, y = across.position(spot.cost), up.position(spot.quality)
        nodes += _label_end((x, y), across.end, label_y, names[spot.label])
        if spot.low is not None and spot.high is not None:
            nodes.append(line(x, up.position(spot.low), x, up.position(spot.high), f"range {series(spot.series)}"))
        nodes.append(marker(x, y, spot.series, _spot_words(spot, drawing)))
    description = "; ".join(_spot_words(spot, drawing) for spot in spots)
    best = ", ".join(spot.label for spot in drawing.frontier)
    return picture(WIDTH, _HEIGHT, nodes, f"{metric} against {drawing.cost}. {description}. On the frontier: {best}.")


def _spot_words(spot: Spot, drawing: Tradeoff) -> str:
    return f"{spot.label}: {drawing.metric} {spot.quality:.4f}, {drawing.cost} {spot.cost:,.3f} {drawing.unit}"


def saturation(drawing: Saturation, labels: _Labels = None) -> Svg:
    """Draw throughput to the right and the 99th percentile upwards, both logarithmic.

    A ring marks each knee; values beyond it have a dashed line and pale markers.
    """
    rows = drawing.rows
    points = [point for row in rows for point in row.points]
    names = short_names((row.label for row in rows), labels)
    right = WIDTH - room_for(names.values()) - _LEADER
    across = logarithmic(min(x for x, _ in points), max(x for x, _ in points), _LEFT, right)
    up = logarithmic(min(y for _, y in points), max(y for _, y in points), _HEIGHT - _BOTTOM, _TOP)
    nodes = _grid(across, up, "answered a second (logarithmic)")
    nodes.append(text(_LEFT, _TOP - 2, "p99, ms (logarithmic)", "tick", "start"))
    ends = spread_out([up.position(row.points[-1][1]) for row in rows])
    descriptions = []
    for row, end in zip(rows, ends, strict=True):
        coordinates = [(across.position(x), up.position(y)) for x, y in row.points]
        sustained = 0 if row.knee is None else row.knee + 1
        parts = {"": coordinates[:sustained], " beyond": coordinates[max(0, sustained - 1) :]}
        nodes += [path(part, f"curve{kind} {series(row.series)}") for kind, part in parts.items() if len(part) > 1]
        for number, ((x, y), point) in enumerate(zip(coordinates, row.points, strict=True)):
            nodes += [circle(x, y, _RING, "knee")] if number == row.knee else []
            beyond = number >= sustained
            tip = f"{row.label}: {_rate_words(point)}{', beyond the knee' if beyond else ''}"
            spot = marker(x, y, row.series, tip)
            nodes.append(group([spot], class_="beyond") if beyond else spot)
        nodes += _label_end(coordinates[-1], across.end, end, names[row.label])
        knee = f"knee at {_rate_words(row.points[row.knee])}" if row.knee is not None else "no knee"
        descriptions.append(f"{row.label}: {knee}; {', '.join(map(_rate_words, row.points))}")
    return picture(WIDTH, _HEIGHT, nodes, f"Throughput against p99. {'; '.join(descriptions)}.")


def _rate_words(point: tuple[float, float]) -> str:
    return f"{point[0]:,.1f}/s, p99 {point[1]:,.3f} ms"


def percentiles(drawing: Percentiles, labels: _Labels = None) -> Svg:
    """Draw one row a label: its percentiles on a logarithmic axis."""
    rows, numbers = drawing.rows, drawing.series
    values = [max(value, _LEAST) for row in rows.values() for value in row]
    names = short_names(rows, labels)
    axis = logarithmic(min(values), max(values), room_for(names.values()), WIDTH - 12)
    bottom = 12 + _BOX_ROW * len(rows)
    nodes = [_bar_grid(axis, bottom)]
    nodes.append(text((axis.start + axis.end) / 2, bottom + 32, "ms (logarithmic)", "tick", "middle"))
    for row_number, (label, row) in enumerate(rows.items()):
        number, middle = numbers[label], 8 + _BOX_ROW * row_number + _BOX_ROW / 2
        p50, p90, p95, p99 = (axis.position(max(value, _LEAST)) for value in row)
        tip = f"{label}: p50 {row[0]:.3f}, p90 {row[1]:.3f}, p95 {row[2]:.3f}, p99 {row[3]:.3f} ms"
        shapes = [
            text(axis.start - 10, middle + 4, names[label], "label", "end"),
            line(p50, middle, p99, middle, f"range {series(number)}"),
            rect(p50, middle - 6, max(p95 - p50, 1), 12, f"bar faint {series(number)}", tip),
            line(p90, middle - 6, p90, middle + 6, "whisker"),
            line(p99, middle - 5, p99, middle + 5, "whisker"),
            marker(p50, middle, number, tip),
        ]
        nodes.append(group(shapes))
    description = "; ".join(
        f"{label}: p50 {a:.3f}, p90 {b:.3f}, p95 {c:.3f}, p99 {d:.3f} ms" for label, (a, b, c, d) in rows.items()
    )
    return picture(WIDTH, bottom + 38, nodes, f"Latencies. {description}.")


def distribution(drawing: Distribution, labels: _Labels = None) -> Svg:
    """Draw the cumulative share of all samples by time taken.

    The curve of each label has its marker at the median and at the 95th percentile.
    """
    rows, numbers = drawing.rows, drawing.series
    lowest, highest = min(row.min() for row in rows.values()), max(row.max() for row in rows.values())
    lowest, highest = max(float(lowest), _LEAST), max(float(highest), _LEAST)
    names = short_names(rows, labels)
    across = logarithmic(lowest, highest, _LEFT, WIDTH - room_for(names.values()) - _LEADER)
    up = linear(0.0, 1.0, _HEIGHT - _BOTTOM, _TOP, 4)
    nodes = _grid(across, up, "ms (logarithmic)")
    descriptions = []
    for row_number, (label, row) in enumerate(rows.items()):
        number, label_y = numbers[label], _TOP + 8 + 18 * row_number
        levels = np.quantile(row, _SHARES)
        points = [
            (across.position(float(ms)), up.position(float(share))) for ms, share in zip(levels, _SHARES, strict=True)
        ]
        p50, p95, p99 = (float(np.quantile(row, share)) for share in (0.5, 0.95, 0.99))
        words = f"{label}: p50 {p50:.3f}, p95 {p95:.3f}, p99 {p99:.3f} ms of {counted(len(row), 'sample')}"
        nodes.append(path(points, f"curve {series(number)}"))
        nodes += [marker(across.position(ms), up.position(y), number, words) for ms, y in ((p50, 0.5), (p95, 0.95))]
        nodes += [marker(across.end + 6, label_y, number), text(across.end + 18, label_y + 4, names[label])]
        descriptions.append(words)
    return picture(WIDTH, _HEIGHT, nodes, f"Share of samples that took at most this long. {'; '.join(descriptions)}.")


def _rules(up: Axis, right: float) -> list[Node]:
    """Draw a line across, as far as ``right``, and a number for each tick of a vertical axis."""
    nodes = []
    for tick in up.ticks:
        y = up.position(tick)
        nodes += [line(_LEFT, y, right, y, "grid"), text(_LEFT - 8, y + 4, figure(tick), "tick", "end")]
    return nodes


def _grid(across: Axis, up: Axis, below: str) -> list[Node]:
    nodes = _rules(up, across.end)
    for tick in across.ticks:
        x = across.position(tick)
        nodes += [line(x, _TOP, x, up.start, "grid"), text(x, up.start + 18, figure(tick), "tick", "middle")]
    return [*nodes, text((across.start + across.end) / 2, _HEIGHT - 4, below, "tick", "middle")]
