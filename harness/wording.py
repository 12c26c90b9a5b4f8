"""Words that messages and reports share."""

from __future__ import annotations

import re

__all__ = ["counted", "readable", "shortened"]

_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Control characters but the line break, and those that turn the direction of text."""
_LONGEST_PIECE, _LONGEST_LINE = 160, 2000
_QUOTED = re.compile(rf"'([^'\n]{{{_LONGEST_PIECE + 1},}})'")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 question``, ``2 questions``: a number with a noun, whose plural adds an s unless it is given."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def readable(text: str) -> str:
    """Return text as a message can hold it: control characters escaped, and long quoted pieces and lines shortened.

    Line breaks stay. Ids come from files and may hold anything: 5 MB, or what moves a terminal's cursor.
    """
    text = _escaped(text)
    if len(text) <= _LONGEST_PIECE:
        return text
    text = _QUOTED.sub(lambda found: f"'{_shortened(found[1], _LONGEST_PIECE)}'", text)
    return "\n".join(_shortened(line, _LONGEST_LINE) for line in text.split("\n"))


def shortened(text: str) -> str:
    """Return text as a cell of a table can hold it: control characters escaped, and about 160 characters at most."""
    return _shortened(_escaped(text), _LONGEST_PIECE)


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _shortened(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    kept = longest // 2
    return f"{text[:kept]}…{text[-kept // 4 :]} ({len(text):,} characters)"
