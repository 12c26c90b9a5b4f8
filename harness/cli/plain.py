"""Plain text for people: help without types of Python, and lines of 100 columns, or of as many as the terminal has."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from typing import Any

import typer.core

_WIDTH = 100
_WIDEST = 160
_TYPE = re.compile(r" <(?:str|list\[str\])>")
"""What Typer writes behind a name: a type of Python's, such as ``<list[str]>``."""


class PlainCommand(typer.core.TyperCommand):
    """A command whose help names no types of Python's, in sections for arguments and options."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
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

    def heading(self, parameter: Any) -> str:
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
    """Break a text at spaces into lines of at most ``width`` columns: a path or an address stays whole."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
