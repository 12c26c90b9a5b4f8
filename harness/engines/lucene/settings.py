"""The Lucene backend's parameters, checked and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from harness.engines.external_index import source_folder
from harness.errors import UnknownNameError, UsageError
from harness.registry.parameters import ParameterValue
from harness.text.analyzers import ENGLISH
from harness.text.lucene import languages

__all__ = ["Axiomatic", "ExternalLucene", "LuceneSettings", "Rm3"]

_PREFIX = "lucene-"


@dataclass(frozen=True, slots=True)
class Rm3:
    """Relevance feedback by RM3: Anserini's three numbers."""

    terms: int
    documents: int
    original_weight: float


@dataclass(frozen=True, slots=True)
class Axiomatic:
    """Axiomatic semantic matching (AX), deterministic: Anserini's R, N, beta, number of terms and seed."""

    documents: int
    times: int
    beta: float
    terms: int
    seed: int


@dataclass(frozen=True, slots=True)
class ExternalLucene:
    """The user's own index, and the stored field in which it keeps the documents' ids."""

    folder: Path
    id_field: str


@dataclass(frozen=True, slots=True)
class LuceneSettings:
    """How to index and to score. ``rm3`` and ``axiomatic`` are None when switched off; at most one is on.

    ``field`` holds the text; it can be another than Anserini's in an ``existing`` index, None where one is built.
    """

    language: str
    k1: float
    b: float
    model: str
    mu: float
    rm3: Rm3 | None
    axiomatic: Axiomatic | None
    segments: str
    ram_buffer_mb: float
    heap: str
    jar: str | None
    field: str
    external: ExternalLucene | None

    @property
    def feedback(self) -> bool:
        """True when the first ranking feeds a second query, which needs stored term vectors."""
        return self.rm3 is not None or self.axiomatic is not None

    @property
    def of_index(self) -> dict[str, ParameterValue]:
        """What changes the index, as opposed to the search in it."""
        return {
            "analyzer": _PREFIX + self.language,
            "segments": self.segments,
            "ram_buffer_mb": self.ram_buffer_mb,
            "term_vectors": self.feedback,
        }

    @classmethod
    def of(cls, parameters: Mapping[str, ParameterValue]) -> LuceneSettings:
        """From the card's complete parameters; raises UsageError for those that do not go together."""
        if parameters["rm3"] and parameters["axiom"]:
            raise UsageError("lucene: rm3 and axiom exclude each other", fix="name the backend twice, once with each")
        return cls(
            language=_language(str(parameters["analyzer"])),
            k1=cast("float", parameters["k1"]),
            b=cast("float", parameters["b"]),
            model=str(parameters["model"]),
            mu=cast("float", parameters["mu"]),
            rm3=_rm3(parameters) if parameters["rm3"] else None,
            axiomatic=_axiomatic(parameters) if parameters["axiom"] else None,
            segments=str(parameters["segments"]),
            ram_buffer_mb=cast("float", parameters["ram_buffer_mb"]),
            heap=str(parameters["heap"]),
            jar=str(parameters["jar"]) or None,
            field=str(parameters["field"]),
            external=_external(parameters) if parameters["existing"] else None,
        )


def _language(analyzer: str) -> str:
    """The language of an analyzer; English for ``auto``, which stands only where no dataset's language decided."""
    if analyzer == "auto":
        return ENGLISH
    language = analyzer.removeprefix(_PREFIX)
    if not analyzer.startswith(_PREFIX):
        raise UsageError(
            f"lucene: the analyzer '{analyzer}' is not one of Lucene's",
            fix=f"Lucene analyses by itself: {_PREFIX}<language>, {_PREFIX}english for example",
        )
    if language not in languages():
        raise UnknownNameError("analyzer", analyzer, [_PREFIX + one for one in languages()])
    return language


def _external(parameters: Mapping[str, ParameterValue]) -> ExternalLucene:
    return ExternalLucene(source_folder(parameters), str(parameters["id_field"]))


def _rm3(parameters: Mapping[str, ParameterValue]) -> Rm3:
    return Rm3(
        terms=cast("int", parameters["rm3_fb_terms"]),
        documents=cast("int", parameters["rm3_fb_docs"]),
        original_weight=cast("float", parameters["rm3_original_query_weight"]),
    )


def _axiomatic(parameters: Mapping[str, ParameterValue]) -> Axiomatic:
    return Axiomatic(
        documents=cast("int", parameters["axiom_r"]),
        times=cast("int", parameters["axiom_n"]),
        beta=cast("float", parameters["axiom_beta"]),
        terms=cast("int", parameters["axiom_top"]),
        seed=cast("int", parameters["axiom_seed"]),
    )
