"""Plain text for people: wrapped lines and tables of at most 100 columns, or of as many as the terminal has."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import typer.core

__all__ = ["PlainCommand", "fact_lines", "folded_table", "lists_in_width", "plain_table", "terminal_width", "wrapped"]

_WIDTH = 100
_NARROW = 20
_LEAST_BESIDE = 40
"""Columns that a text needs to stand beside the rest of its row."""
_WIDEST = 160
_LABEL = 10
_TYPE = re.compile(r" <(?:str|list\[str\])>")
"""What Typer writes behind a name: a type of Python's, such as ``<list[str]>``."""


class PlainCommand(typer.core.TyperCommand):
    """A command whose help names no types of Python's, in sections for arguments and options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - Typer's own types
        """Write what each parameter is for."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                name, text = record
                kind = "" if parameter.param_type_name == "argument" else " TEXT"
                sections.setdefault(self.heading(parameter), []).append((_TYPE.sub(kind, name), text))
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)

    def heading(self, parameter: Any) -> str:  # noqa: ANN401 - Typer's own type
        """Return the section that a parameter stands in."""
        return "Arguments" if parameter.param_type_name == "argument" else "Options"


def terminal_width() -> int:
    """Return the columns to write in: those of the terminal, 160 at most, or 100 where there is none."""
    return min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDEST)


def lists_in_width(message: str) -> str:
    """Return an error's message with its lists of known names in the width of the terminal, or what COLUMNS says.

    Other lines stay whole, because they may hold a command to copy; so does all where there is no terminal.
    """
    if not (sys.stderr.isatty() or os.environ.get("COLUMNS")):
        return message
    width = terminal_width()
    lines = (wrapped(line, "    ", "", width) if "known: " in line else [line] for line in message.split("\n"))
    return "\n".join(line for several in lines for line in several)


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


def fact_lines(facts: Iterable[tuple[str, str]], width: int = _WIDTH) -> list[str]:
    """Lines of labelled texts, each text wrapped in a column of its own."""
    facts = list(facts)
    wide = max([_LABEL, *(len(label) for label, _ in facts)])
    indent = " " * (wide + 3)
    return [line for label, text in facts for line in wrapped(text, indent, first=f"  {label:<{wide}} ", width=width)]


def folded_table(header: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """As :func:`plain_table`, but texts of the last column go below their rows where there is no room beside them."""
    left = sum(max(len(row[column]) for row in (header, *rows)) + 2 for column in range(len(header) - 1))
    if width - left >= _LEAST_BESIDE:
        return plain_table(header, rows, width)
    lines = plain_table(header[:-1], [row[:-1] for row in rows], width).splitlines()
    below = [wrapped(row[-1], "    ", width=width) for row in rows]
    return "\n".join([*lines[:2], *(line for row, text in zip(lines[2:], below, strict=True) for line in (row, *text))])


def plain_table(header: Sequence[str], rows: Iterable[Sequence[str]], width: int = _WIDTH) -> str:
    """The last column is wrapped, so that a line has at most ``width`` columns."""
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header) - 1)]
    left = sum(widths) + 2 * len(widths)
    widths.append(min(max(len(row[-1]) for row in cells), max(width - left, _NARROW)))
    lines: list[str] = []
    for row in (header, ["-" * wide for wide in widths], *rows):
        first = "".join(f"{cell:<{wide}}  " for cell, wide in zip(row, widths, strict=False))[:left]
        lines += wrapped(row[-1], " " * left, first=first, width=left + widths[-1]) or [first.rstrip()]
    return "\n".join(lines)
