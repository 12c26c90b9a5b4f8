"""Curves over the depth of the ranking, such as recall@k."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from harness.report.figures import Curves
from harness.report.html.pictures.axes import WIDTH, figure, linear, logarithmic, room_for, shortened
from harness.report.html.svg import Svg, line, marker, path, picture, series, text

__all__ = ["curves", "spread_out"]

_HEIGHT, _LEFT, _TOP, _BOTTOM = 270, 40, 12, 40
_GAP, _LEADER = 15, 18


def curves(drawing: Curves) -> Svg:
    """Draw one curve a label: by colour, by marker, and by its name at the end."""
    measure, depths, rows, numbers = drawing.metric, drawing.depths, drawing.rows, drawing.series
    across = logarithmic(min(depths), max(depths), _LEFT, WIDTH - room_for(rows) - _LEADER)
    highest = max((value for values in rows.values() for value in values), default=0.0)
    up = linear(0.0, highest or 1.0, _HEIGHT - _BOTTOM, _TOP, 5)
    nodes = []
    for tick in up.ticks:
        nodes += [
            line(_LEFT, up.at(tick), across.end, up.at(tick), "grid"),
            text(_LEFT - 8, up.at(tick) + 4, figure(tick), "tick", "end"),
        ]
    nodes += [text(across.at(depth), _HEIGHT - _BOTTOM + 18, f"{depth:,}", "tick", "middle") for depth in depths]
    nodes.append(text((across.start + across.end) / 2, _HEIGHT - 4, "k (logarithmic)", "tick", "middle"))
    ends = spread_out([up.at(values[-1]) for values in rows.values()])
    for (label, values), end in zip(rows.items(), ends, strict=True):
        number = numbers[label]
        points = [(across.at(depth), up.at(value)) for depth, value in zip(depths, values, strict=True)]
        nodes.append(path(points, f"curve {series(number)}"))
        tips = [f"{label}: {measure}@{depth} {value:.4f}" for depth, value in zip(depths, values, strict=True)]
        nodes += [marker(x, y, number, tip) for (x, y), tip in zip(points, tips, strict=True)]
        nodes += [
            line(points[-1][0] + 7, points[-1][1], across.end + 14, end, "leader"),
            text(across.end + 18, end + 4, shortened(label)),
        ]
    said = "; ".join(
        f"{label}: " + ", ".join(f"{value:.3f} at {depth}" for depth, value in zip(depths, values, strict=True))
        for label, values in rows.items()
    )
    return picture(WIDTH, _HEIGHT, nodes, f"{measure} by depth. {said}.")


def spread_out(places: Sequence[float], gap: float = _GAP) -> list[float]:
    """The same places moved apart, so that labels on them do not overlap; their order stays."""
    order = sorted(range(len(places)), key=lambda at: places[at])
    moved = list(places)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + gap)
    over = (moved[order[-1]] - max(places)) / 2 if places else 0.0
    return [place - over for place in moved]
