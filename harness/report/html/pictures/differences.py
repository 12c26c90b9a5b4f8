"""Differences query by query, from the greatest loss to the greatest gain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.report.figures import Differences
from harness.report.html.pictures.axes import WIDTH, figure, linear
from harness.report.html.svg import Svg, group, line, path, picture, text
from harness.wording import counted

__all__ = ["differences"]

_HEIGHT, _LEFT, _TOP, _BOTTOM = 200, 48, 14, 34
_STEPS = 500


def differences(drawing: Differences, peers: Sequence[Differences] = ()) -> Svg:
    """Draw one step a query, sorted, on an axis that holds the differences of all ``peers``.

    Above 500 queries each step stands for several neighbours, by their mean; the figures in words count them all.
    """
    label, reference, metric, values = drawing.label, drawing.reference, drawing.metric, drawing.values
    ordered = np.sort(values)
    steps = ordered if len(ordered) <= _STEPS else np.array([part.mean() for part in np.array_split(ordered, _STEPS)])
    reach = max(float(np.abs(peer.values).max(initial=0.0)) for peer in (drawing, *peers)) or 1.0
    axis = linear(-reach, reach, _HEIGHT - _BOTTOM, _TOP, 4)
    zero, width = axis.at(0.0), (WIDTH - _LEFT) / max(len(steps), 1)
    nodes = []
    for tick in axis.ticks:
        nodes += [
            line(_LEFT, axis.at(tick), WIDTH, axis.at(tick), "grid"),
            text(_LEFT - 8, axis.at(tick) + 4, figure(tick), "tick", "end"),
        ]
    for kind, chosen in (("loss", steps < 0), ("gain", steps > 0)):
        at = np.flatnonzero(chosen)
        if len(at):
            corners = [(_LEFT + x * width, axis.at(float(steps[n]))) for n in at for x in (n, n + 1)]
            outline = [(corners[0][0], zero), *corners, (corners[-1][0], zero)]
            nodes.append(path(outline, kind, closed=True))

    def counts(words: Svg, filter_: str) -> Svg:
        return group([words], data_backend=label, data_reference=reference, data_metric=metric, data_queries=filter_)

    worse, better = int(np.count_nonzero(values < 0)), int(np.count_nonzero(values > 0))
    nodes += [
        line(_LEFT, zero, WIDTH, zero, "axis"),
        counts(text(_LEFT, _HEIGHT - 8, f"▼ {worse:,} worse", "value"), "regressed"),
        counts(
            text((_LEFT + WIDTH) / 2, _HEIGHT - 8, f"= {len(values) - worse - better:,} tied", "value", "middle"),
            "tied",
        ),
        counts(text(WIDTH, _HEIGHT - 8, f"▲ {better:,} better", "value", "end"), "improved"),
    ]
    said = (
        f"{metric} of {label} minus {reference} on {counted(len(values), 'query')}, sorted: {worse:,} worse, "
        f"{len(values) - worse - better:,} tied, {better:,} better; "
        f"from {ordered.min(initial=0.0):.4f} to {ordered.max(initial=0.0):.4f}."
    )
    return picture(WIDTH, _HEIGHT, nodes, said)
