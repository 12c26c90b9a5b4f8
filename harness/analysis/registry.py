"""Analyzers by name: ``whitespace``, ``snowball-german``, ``lucene-english``.

A family's module is imported when one of its names is asked for, so that nobody without Java pays for Java. Adding a
family is one module with ``languages()`` and a class made from a language, and one row here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from harness.errors import UnknownNameError

__all__ = ["Analyzer", "analyzer_names", "create_analyzer"]


class _Family(NamedTuple):
    module: str
    analyzer: str


_FAMILIES = {
    "lucene": _Family("harness.analysis.lucene", "LuceneAnalyzer"),
    "snowball": _Family("harness.analysis.snowball", "SnowballAnalyzer"),
}


@runtime_checkable
class Analyzer(Protocol):
    """Text to terms. The same text always gives the same terms, whatever was analysed before it."""

    @property
    def name(self) -> str:
        """The name that :func:`create_analyzer` takes."""

    def analyze(self, texts: Sequence[str]) -> list[list[str]]:
        """The terms of each text, in order, repeats included; an empty list for a text without terms."""

    def describe(self) -> Mapping[str, str]:
        """Everything that decides the terms (libraries with versions, stop words): part of cache keys and reports."""


def create_analyzer(name: str) -> Analyzer:
    """The analyzer called ``name``: ``whitespace``, ``snowball-<language>`` or ``lucene-<language>``.

    Raises UnknownNameError, which suggests the nearest name, and MissingExtraError or EngineUnavailableError when a
    Lucene analyzer has no Java to run in.
    """
    if name == "whitespace":
        from harness.analysis.whitespace import WhitespaceAnalyzer

        return WhitespaceAnalyzer()
    family, _, language = name.partition("-")
    if family in _FAMILIES:
        module = importlib.import_module(_FAMILIES[family].module)
        if language in module.languages():
            analyzer: Analyzer = getattr(module, _FAMILIES[family].analyzer)(language)
            return analyzer
    raise UnknownNameError("analyzer", name, analyzer_names())


def analyzer_names() -> list[str]:
    """Every name that :func:`create_analyzer` knows, sorted, whether Java is there or not."""
    names = ["whitespace"]
    for family, (module, _) in _FAMILIES.items():
        names += [f"{family}-{language}" for language in importlib.import_module(module).languages()]
    return sorted(names)
