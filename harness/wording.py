"""Words that messages and reports share."""

from __future__ import annotations

__all__ = ["counted"]


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 question``, ``2 questions``: a number with a noun, whose plural adds an s unless it is given."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"
