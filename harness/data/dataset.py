"""A dataset: documents, queries and judgments, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.filtering import Filtered
from harness.types import Corpus, Qrels, Queries

__all__ = ["Dataset", "DatasetFiles", "IdenticalIds"]

IdenticalIds = Literal["keep", "drop"]
"""Whether a hit that has its query's id counts, or is left out before scoring."""


@dataclass(frozen=True, slots=True)
class DatasetFiles:
    """What is said of a dataset beside its name: files of its parts, and names of their fields by role."""

    queries: Path | None = None
    qrels: Path | None = None
    columns: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Everything that a comparison reads: documents, queries, judgments, and where they come from.

    ``qrels`` is None for a collection without judgments: engines can still be held against their references.
    ``provenance`` is flat text for the report (source, licence, split, join rule, language). ``filtered`` are the
    documents that searches may return, None for all of them. ``identical_ids`` is None where nothing says what the
    collection's rule is.
    """

    name: str
    corpus: Corpus
    queries: Queries
    qrels: Qrels | None
    provenance: dict[str, str] = field(default_factory=dict)
    filtered: Filtered | None = None
    identical_ids: IdenticalIds | None = None
