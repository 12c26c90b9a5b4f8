"""Shares: how far each two rankings overlap, and how the queries of each divide into levels."""

from __future__ import annotations

from harness.report.figures import Matrix, Strips
from harness.report.html.pictures.axes import WIDTH, room_for, shortened
from harness.report.html.svg import Svg, group, picture, rect, text

__all__ = ["matrix", "strips"]

_CELL, _ROW = 40, 34
_SHADES = 5


def matrix(drawing: Matrix) -> Svg:
    """Draw shares as cells with their numbers; columns are numbered like the rows."""
    name, labels, shares = drawing.name, drawing.labels, drawing.shares
    left = room_for(labels) + 18
    cell = min((WIDTH - left) / max(len(labels), 1), 96)
    nodes = [text(left + cell * (at + 0.5), 16, str(at + 1), "tick", "middle") for at in range(len(labels))]
    for row, label in enumerate(labels):
        top = 24 + _CELL * row
        nodes.append(text(left - 10, top + _CELL / 2 + 4, f"{shortened(label)}  {row + 1}", "label", "end"))
        for column, share in enumerate(shares[row].tolist()):
            shade = min(int(share * _SHADES), _SHADES - 1)
            tip = f"{label} and {labels[column]}: {share:.4f}"
            nodes.append(rect(left + cell * column + 1, top + 1, cell - 2, _CELL - 2, f"cell h{shade}", tip))
            written = (
                "1" if share == 1 else f"{min(share, 0.9999 if cell > 60 else 0.999):.{4 if cell > 60 else 3}f}"[1:]
            )
            nodes.append(
                text(left + cell * (column + 0.5), top + _CELL / 2 + 4, written, f"on-cell h{shade}", "middle")
            )
    said = "; ".join(
        f"{labels[a]} and {labels[b]} {shares[a, b]:.4f}" for a in range(len(labels)) for b in range(a + 1, len(labels))
    )
    return picture(WIDTH, 28 + _CELL * len(labels), nodes, f"{name} of each two rankings, from 0 to 1. {said}.")


def strips(drawing: Strips) -> Svg:
    """Draw one strip a label, divided by counts; each part has a pattern, and its sign and count where they fit."""
    name, parts, rows, signs = drawing.name, drawing.parts, drawing.rows, drawing.signs
    nodes = []
    left = room_for(rows)
    span = WIDTH - left
    for number, (label, counts) in enumerate(rows.items()):
        top, x, total = 6 + _ROW * number, left, max(sum(counts), 1)
        shapes = [text(left - 10, top + 17, shortened(label), "label", "end")]
        for at, count in enumerate(counts):
            width = span * count / total
            if count:
                shapes.append(
                    rect(x, top, max(width - 1, 1.5), 24, f"part p{at}", f"{label}: {parts[at]} {count:,} of {total:,}")
                )
            if width > 44:
                shapes.append(text(x + width / 2, top + 17, f"{signs[at]} {count:,}", f"on-part p{at}", "middle"))
            x += width
        nodes.append(group(shapes))
    said = "; ".join(
        f"{label}: " + ", ".join(f"{count:,} {part}" for part, count in zip(parts, counts, strict=True) if count)
        for label, counts in rows.items()
    )
    return picture(WIDTH, 10 + _ROW * len(rows), nodes, f"{name}. {said}.")
