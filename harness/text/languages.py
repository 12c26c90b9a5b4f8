"""The analyzer that each language has, for codes and names as :mod:`harness.data.languages` knows them.

Lucene's analyzers are preferred, because they are those of Anserini's published figures; Snowball's need no Java.
"""

from __future__ import annotations

from collections.abc import Collection

from harness.data.languages import language_name, primary_code

__all__ = ["ENGLISH", "in_words", "known_language", "preferred_analyzers"]

ENGLISH = "english"
"""What text is taken for where nothing says its language."""
_UNDETERMINED = frozenset({"", "mis", "mul", "und", "zxx"})
"""ISO 639-2's codes for several languages, none and unknown ones."""
_ANALYSED_AS = {"Bokmål": "Norwegian", "Nynorsk": "Norwegian"}


def known_language(code: str | None) -> str | None:
    """Return ``code``, or None where it names no single language: for ``mul``, ``und`` and an empty one too."""
    return None if code is None or primary_code(code) in _UNDETERMINED else code


def in_words(code: str) -> str:
    """Return a language for messages: ``Korean (ko)``, or the code alone."""
    name = language_name(code)
    return f"'{code}'" if name is None else f"{name} ({code})"


def preferred_analyzers(code: str, names: Collection[str]) -> list[str]:
    """Return those of the analyzers ``names`` that are for a language, Lucene's first; none for an unknown code."""
    name = language_name(code) or ""
    language = _ANALYSED_AS.get(name, name).lower()
    return [name for family in ("lucene", "snowball") if (name := f"{family}-{language}") in names]
