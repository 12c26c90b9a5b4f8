"""The parameters of the lucene backend that a card cannot check by itself; the other engines have none."""

from __future__ import annotations

from collections.abc import Mapping

from harness.errors import UnknownNameError, UsageError
from harness.registry.parameters import ParameterValue
from harness.text.analyzers import ENGLISH
from harness.text.lucene_analyzer import languages

_PREFIX = "lucene-"


def language_of(parameters: Mapping[str, ParameterValue]) -> str:
    """Return the language of the analyzer; English for ``auto``, which stands only where no dataset's decided.

    Raises:
        UsageError: It is no analyzer of Lucene's.
        UnknownNameError: There is no such language.
    """
    analyzer = str(parameters["analyzer"])
    if analyzer == "auto":
        return ENGLISH
    language = analyzer.removeprefix(_PREFIX)
    if not analyzer.startswith(_PREFIX):
        raise UsageError(
            f"lucene: the analyzer '{analyzer}' is not one of Lucene's",
            fix=f"Lucene analyses by itself: {_PREFIX}<language>, {_PREFIX}english for example",
        )
    if language not in languages():
        raise UnknownNameError("analyzer", analyzer, [_PREFIX + name for name in languages()])
    return language


def has_feedback(parameters: Mapping[str, ParameterValue]) -> bool:
    """Return whether the first ranking feeds a second query, which needs stored term vectors."""
    return bool(parameters["rm3"] or parameters["axiom"])


def require_one_feedback(parameters: Mapping[str, ParameterValue]) -> None:
    """Refuse two kinds of feedback at once; raises UsageError."""
    if parameters["rm3"] and parameters["axiom"]:
        raise UsageError("lucene: rm3 and axiom exclude each other", fix="name the backend twice, once with each")


def index_parameters(parameters: Mapping[str, ParameterValue]) -> dict[str, ParameterValue]:
    """Return what changes the index, as opposed to the search in it."""
    return {
        "analyzer": _PREFIX + language_of(parameters),
        "segments": parameters["segments"],
        "ram_buffer_mb": parameters["ram_buffer_mb"],
        "term_vectors": has_feedback(parameters),
    }
