"""Analyzers by name: ``whitespace``, ``snowball-german``, ``lucene-english``.

A family's module is imported when one of its names is asked for, so that nobody without Java pays for Java. Adding a
family is one module with ``languages()``, ``identity()`` and a class made from a language, and one row here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from harness.data.types import SparseVectors
from harness.errors import UnknownNameError

__all__ = [
    "Analyzer",
    "CountingAnalyzer",
    "TermCounter",
    "Texts",
    "analyzer_identity",
    "analyzer_names",
    "create_analyzer",
]


class _Family(NamedTuple):
    module: str
    analyzer: str
    in_jvm: bool


_FAMILIES = {
    "lucene": _Family("harness.text.lucene", "LuceneAnalyzer", in_jvm=True),
    "snowball": _Family("harness.text.snowball", "SnowballAnalyzer", in_jvm=False),
}


Texts: TypeAlias = Sequence[str] | pa.ChunkedArray


class TermCounter(Protocol):
    """Counts the terms of batches of texts, each under a number of its own."""

    def add(self, texts: Texts) -> SparseVectors:
        """Counts of one batch: columns are the numbers of terms, each once in a row, in no order."""

    def vocabulary(self) -> list[str]:
        """The terms so far in the order of their numbers."""


@runtime_checkable
class Analyzer(Protocol):
    """Text to terms. The same text always gives the same terms, whatever was analysed before it."""

    @property
    def name(self) -> str:
        """The name that :func:`create_analyzer` takes."""

    def analyze(self, texts: Sequence[str]) -> list[list[str]]:
        """The terms of each text, in order, repeats included; an empty list for a text without terms."""

    def describe(self) -> Mapping[str, str]:
        """Everything that decides the terms: libraries with versions, stop words."""


@runtime_checkable
class CountingAnalyzer(Analyzer, Protocol):
    """An analyzer that counts terms by itself, faster than they can be handed over."""

    def counter(self) -> TermCounter:
        """A counter without any terms yet."""


def create_analyzer(name: str, *, heap: str | None = None, jar: str | None = None) -> Analyzer:
    """The analyzer called ``name``: ``whitespace``, ``snowball-<language>`` or ``lucene-<language>``.

    ``heap`` and ``jar`` as in :func:`harness.java.jvm.start`; analyzers outside a JVM have no use for them. Raises
    UnknownNameError, which suggests the nearest name, and MissingExtraError or EngineUnavailableError when a Lucene
    analyzer has no Java to run in.
    """
    if name == "whitespace":
        from harness.text.whitespace import WhitespaceAnalyzer

        return WhitespaceAnalyzer()
    family, module, language = _found(name)
    make = getattr(module, family.analyzer)
    analyzer: Analyzer = make(language, heap=heap, jar=jar) if family.in_jvm else make(language)
    return analyzer


def analyzer_identity(name: str, *, jar: str | None = None) -> Mapping[str, str]:
    """What decides the terms of the analyzer called ``name``, found without starting a JVM: for cache keys.

    Raises as :func:`create_analyzer` does, except that Java itself is not asked for.
    """
    if name == "whitespace":
        return {}
    family, module, language = _found(name)
    identity: Mapping[str, str] = module.identity(language, jar=jar) if family.in_jvm else module.identity(language)
    return identity


def analyzer_names() -> list[str]:
    """Every name that :func:`create_analyzer` knows, sorted, whether Java is there or not."""
    names = ["whitespace"]
    for name, family in _FAMILIES.items():
        names += [f"{name}-{language}" for language in importlib.import_module(family.module).languages()]
    return sorted(names)


def _found(name: str) -> tuple[_Family, ModuleType, str]:
    prefix, _, language = name.partition("-")
    if prefix in _FAMILIES:
        module = importlib.import_module(_FAMILIES[prefix].module)
        if language in module.languages():
            return _FAMILIES[prefix], module, language
    raise UnknownNameError("analyzer", name, analyzer_names())
