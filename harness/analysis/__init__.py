"""Text to terms: analyzers by name, and the counting of what they leave."""

from __future__ import annotations

from harness.analysis.counting import count_terms, load_counts, save_counts
from harness.analysis.registry import Analyzer, analyzer_identity, analyzer_names, create_analyzer
from harness.analysis.terms import TermCounts

__all__ = [
    "Analyzer",
    "TermCounts",
    "analyzer_identity",
    "analyzer_names",
    "count_terms",
    "create_analyzer",
    "load_counts",
    "save_counts",
]
