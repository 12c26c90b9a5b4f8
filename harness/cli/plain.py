"""Plain text for people: wrapped lines and tables of at most 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

__all__ = ["plain_table", "wrapped"]

_WIDTH = 100
_NARROW = 20


def wrapped(text: str, indent: str, first: str | None = None, width: int = _WIDTH) -> list[str]:
    """Lines of at most ``width`` columns, where there is a space to break at: a path or an address stays whole."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def plain_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The last column is wrapped, so that a line has at most 100 columns."""
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header) - 1)]
    left = sum(widths) + 2 * len(widths)
    widths.append(min(max(len(row[-1]) for row in cells), max(_WIDTH - left, _NARROW)))
    lines: list[str] = []
    for row in (header, ["-" * width for width in widths], *rows):
        first = "".join(f"{cell:<{width}}  " for cell, width in zip(row, widths, strict=False))[:left]
        lines += wrapped(row[-1], " " * left, first=first, width=left + widths[-1]) or [first.rstrip()]
    return "\n".join(lines)
