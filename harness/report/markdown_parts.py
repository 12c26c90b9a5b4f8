"""Pieces of Markdown that show data as it is, whatever is in it: nothing is formatted, mentioned or run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from harness.report.cells import Table

__all__ = [
    "COMMENT_BYTES",
    "SUMMARY_BYTES",
    "Document",
    "code",
    "comment_marker",
    "details",
    "fenced",
    "markdown_table",
    "plain",
]

COMMENT_BYTES = 65_000
"""GitHub takes comments of less than 65,536 characters."""
SUMMARY_BYTES = 1_000_000
"""GitHub takes summaries of a step of at most 1 MiB, over everything that the step wrote."""
_RUN = re.compile("`+")
_MARK_UP = re.compile(r"[^\w %@.,:()/=-]|(?<!\w)@")
"""What could format something, or mention somebody: ``Hit@5`` does not."""


def comment_marker(verb: str, name: str) -> str:
    """The comment of HTML that a verb's Markdown begins with, by which an earlier comment is found and replaced."""
    plain_name = re.sub("-{2,}", "-", re.sub(r"[^\w.-]+", "_", name))  # two dashes would end the comment
    return f"<!-- harness {verb}: {plain_name} -->"


def code(text: str) -> str:
    """``text`` as code on one line: in it no mark-up counts, and nobody is mentioned."""
    line = " ".join(text.split())
    fence = "`" * (max((len(run) for run in _RUN.findall(line)), default=0) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def plain(text: str) -> str:
    """``text`` as it is where nothing in it is mark-up, else as code."""
    return code(text) if _MARK_UP.search(text) else text


def fenced(text: str) -> str:
    """``text`` as a block of code, in a fence that it does not hold itself."""
    fence = "`" * max(3, max((len(run) for run in _RUN.findall(text)), default=0) + 1)
    return f"{fence}text\n{text}\n{fence}"


def details(summary: str, *blocks: str) -> str:
    """Blocks of Markdown behind a line that opens them; the line is data."""
    head = f"<details><summary><code>{escape(' '.join(summary.split()))}</code></summary>"
    return "\n\n".join([head, *blocks, "</details>"])


def markdown_table(table: Table, data: Sequence[str]) -> str:
    """A table with its title, if any; the columns named in ``data``, and the first, hold data and stand at the left."""
    held = [place == 0 or column in data for place, column in enumerate(table.columns)]
    ruler = "|".join("---" if left else "--:" for left in held)
    lines = [
        *([f"#### {plain(table.title)}", ""] if table.title else []),
        f"| {' | '.join(_cell(plain(one)) for one in table.columns)} |",
        f"|{ruler}|",
    ]
    for row in table.rows:
        cells = (code(cell) if left else cell for left, cell in zip(held, row, strict=True))
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines)


def _cell(text: str) -> str:
    """A bar ends a cell, even inside code."""
    return text.replace("|", "\\|")


class Document:
    """Blocks of Markdown of at most so many bytes of UTF-8; what does not fit is counted and said."""

    _RESERVED = 200

    def __init__(self, limit: int) -> None:
        self._left = limit - self._RESERVED
        self._blocks: list[str] = []
        self._dropped = 0

    def add(self, block: str) -> None:
        """Append a block, unless it is too long for what is left."""
        size = len(block.encode()) + 2
        if size > self._left:
            self._dropped += 1
        else:
            self._left -= size
            self._blocks.append(block)

    def text(self) -> str:
        """The whole document."""
        blocks = list(self._blocks)
        if self._dropped:
            parts = "1 part does" if self._dropped == 1 else f"{self._dropped} parts do"
            blocks.append(f"{parts} not fit here: everything is in the result's `report.json`.")
        return "\n\n".join(blocks) + "\n"
