"""Text to terms: analyzers by name, and the counting of what they leave."""

from __future__ import annotations

from harness.data.terms import TermCounts
from harness.text.counting import count_terms, load_counts, save_counts
from harness.text.languages import ENGLISH, in_words, known_language, preferred_analyzers
from harness.text.registry import Analyzer, analyzer_identity, analyzer_names, create_analyzer

__all__ = [
    "ENGLISH",
    "Analyzer",
    "TermCounts",
    "analyzer_identity",
    "analyzer_names",
    "count_terms",
    "create_analyzer",
    "in_words",
    "known_language",
    "load_counts",
    "preferred_analyzers",
    "save_counts",
]
