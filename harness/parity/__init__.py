"""Compare an engine's run with the exact result of its scoring function, and prove the causes of differences."""

from __future__ import annotations

from harness.parity.causes import HYPOTHESES, UNKNOWN, Case, Hypothesis, RescoredRun
from harness.parity.recipes import DenseRecipe, Recipe, make_recipe
from harness.parity.references import DenseReference, Reference, SparseReference
from harness.parity.run_comparison import Level, Parity, QueryParity, compare_run, explain

__all__ = [
    "HYPOTHESES",
    "UNKNOWN",
    "Case",
    "DenseRecipe",
    "DenseReference",
    "Hypothesis",
    "Level",
    "Parity",
    "QueryParity",
    "Recipe",
    "Reference",
    "RescoredRun",
    "SparseReference",
    "compare_run",
    "explain",
    "make_recipe",
]
