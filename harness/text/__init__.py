"""Text to terms: analyzers by name, and counts of their terms."""

from __future__ import annotations

from harness.data.types import TermCounts
from harness.text.analyzers import (
    ENGLISH,
    Analyzer,
    analyzer_identity,
    analyzer_names,
    create_analyzer,
    in_words,
    preferred_analyzers,
    supported_language,
)
from harness.text.counting import count_terms, load_counts, save_counts

__all__ = [
    "ENGLISH",
    "Analyzer",
    "TermCounts",
    "analyzer_identity",
    "analyzer_names",
    "count_terms",
    "create_analyzer",
    "in_words",
    "load_counts",
    "preferred_analyzers",
    "save_counts",
    "supported_language",
]
