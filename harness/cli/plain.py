"""Plain text for people: lines of 100 columns, or of as many as the terminal has."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap

_WIDTH = 100
_WIDEST = 160


def terminal_width() -> int:
    """Return the columns to write in: the terminal's, 160 at most, or 100 without a terminal."""
    return min(shutil.get_terminal_size((_WIDTH, 24)).columns, _WIDEST)


def lists_in_width(message: str) -> str:
    """Return an error's message with its lists of known names in the width of the terminal, or of COLUMNS.

    Other lines stay whole, because they may hold a command to copy; so does the message without a terminal.
    """
    if not (sys.stderr.isatty() or os.environ.get("COLUMNS")):
        return message
    width = terminal_width()
    lines = (wrapped(line, "    ", "", width) if "known: " in line else [line] for line in message.split("\n"))
    return "\n".join(line for several in lines for line in several)


def wrapped(text: str, indent: str, first: str | None = None, width: int = _WIDTH) -> list[str]:
    """Break a text at spaces into lines of at most ``width`` columns: a path or an address stays whole."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
