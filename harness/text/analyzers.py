"""Analyzers by name: ``whitespace``, ``snowball-german``, ``lucene-english``; and the names for each language.

A family's module is imported when one of its names is used, so that users without Java do not need Java. Adding a
family is one module with ``languages()``, ``identity()`` and a class made from a language, and one row here.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from harness.data.languages import language_name, primary_code
from harness.data.types import SparseVectors
from harness.errors import UnknownNameError

ENGLISH = "english"
"""The language of text if none is stated."""
_UNDETERMINED = frozenset({"", "mis", "mul", "und", "zxx"})
"""ISO 639-2's codes for several languages, none and unknown ones."""
_ANALYSED_AS = {"Bokmål": "Norwegian", "Nynorsk": "Norwegian"}
_WHITESPACE = "whitespace"


class _Family(NamedTuple):
    module: str
    analyzer: str
    in_jvm: bool


_FAMILIES = {
    "lucene": _Family("harness.text.lucene_analyzer", "LuceneAnalyzer", in_jvm=True),
    "snowball": _Family("harness.text.snowball", "SnowballAnalyzer", in_jvm=False),
}
"""Lucene comes first: Anserini's published figures use its analyzers. Snowball's need no Java."""

Texts: TypeAlias = Sequence[str] | pa.ChunkedArray


class TermCounter(Protocol):
    """Counts the terms of batches of texts, each term under its own number."""

    def add(self, texts: Texts) -> SparseVectors:
        """Count a batch: columns are the numbers of terms, each once in a row, in no order."""

    def vocabulary(self) -> list[str]:
        """Return the terms so far in the order of their numbers."""


@runtime_checkable
class Analyzer(Protocol):
    """Text to terms. The same text always gives the same terms, independent of texts analysed before it."""

    @property
    def name(self) -> str:
        """The name that :func:`create_analyzer` takes."""

    def analyze(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the terms of each text, in order, repeats included; an empty list for a text without terms."""


@runtime_checkable
class CountingAnalyzer(Analyzer, Protocol):
    """An analyzer that counts terms itself, faster than it could pass them on."""

    def counter(self) -> TermCounter:
        """Return a counter without any terms yet."""


class WhitespaceAnalyzer:
    """Splits at Unicode white space and changes nothing: for pre-tokenised text and for examples."""

    name = _WHITESPACE

    def analyze(self, texts: Sequence[str]) -> list[list[str]]:
        """Split each text at white space."""
        return [text.split() for text in texts]


def create_analyzer(name: str, *, heap: str | None = None, jar: str | None = None) -> Analyzer:
    """Create the analyzer called ``name``: ``whitespace``, ``snowball-<language>`` or ``lucene-<language>``.

    ``heap`` and ``jar`` as in :func:`harness.java.jvm.start`; analyzers outside a JVM ignore them.

    Raises:
        UnknownNameError: There is no such analyzer; the nearest name is suggested.
        MissingExtraError, EngineUnavailableError: A Lucene analyzer has no Java to run in.
    """
    if name == _WHITESPACE:
        return WhitespaceAnalyzer()
    family, module, language = _lookup(name)
    make = getattr(module, family.analyzer)
    analyzer: Analyzer = make(language, heap=heap, jar=jar) if family.in_jvm else make(language)
    return analyzer


def analyzer_identity(name: str, *, jar: str | None = None) -> Mapping[str, str]:
    """Return the values that decide the terms of the analyzer called ``name``, for cache keys; starts no JVM.

    Raises as :func:`create_analyzer` does, except for a missing Java.
    """
    if name == _WHITESPACE:
        return {}
    family, module, language = _lookup(name)
    identity: Mapping[str, str] = module.identity(language, jar=jar) if family.in_jvm else module.identity(language)
    return identity


@cache
def analyzer_names() -> tuple[str, ...]:
    """Return every name that :func:`create_analyzer` knows, sorted, whether Java is there or not."""
    names = [_WHITESPACE]
    for name, family in _FAMILIES.items():
        names += [f"{name}-{language}" for language in importlib.import_module(family.module).languages()]
    return tuple(sorted(names))


def _lookup(name: str) -> tuple[_Family, ModuleType, str]:
    prefix, _, language = name.partition("-")
    if prefix in _FAMILIES:
        module = importlib.import_module(_FAMILIES[prefix].module)
        if language in module.languages():
            return _FAMILIES[prefix], module, language
    raise UnknownNameError("analyzer", name, analyzer_names())


def supported_language(code: str | None) -> str | None:
    """Return ``code``, or None if it does not name a single language: also for ``mul``, ``und`` and an empty code."""
    return None if code is None or primary_code(code) in _UNDETERMINED else code


def in_words(code: str) -> str:
    """Return a language for messages: ``Korean (ko)``, or only the code."""
    name = language_name(code)
    return f"'{code}'" if name is None else f"{name} ({code})"


def preferred_analyzers(code: str, names: Collection[str]) -> list[str]:
    """Return the analyzers among ``names`` that are for a language, Lucene's first; empty for an unknown code."""
    name = language_name(code) or ""
    language = _ANALYSED_AS.get(name, name).lower()
    return [name for family in _FAMILIES if (name := f"{family}-{language}") in names]
