"""Holds an engine's run against the exact result of what it claims to compute, and names the cause of differences."""

from __future__ import annotations

from harness.parity.case import Case, Hypothesis, Rescored
from harness.parity.causes import HYPOTHESES
from harness.parity.compare import UNKNOWN, compare_run, explain
from harness.parity.dense_oracle import DenseOracle, DenseRecipe
from harness.parity.oracles import Oracle, SparseOracle
from harness.parity.recipe import Recipe, make_recipe
from harness.parity.result import Level, Parity, QueryParity

__all__ = [
    "HYPOTHESES",
    "UNKNOWN",
    "Case",
    "DenseOracle",
    "DenseRecipe",
    "Hypothesis",
    "Level",
    "Oracle",
    "Parity",
    "QueryParity",
    "Recipe",
    "Rescored",
    "SparseOracle",
    "compare_run",
    "explain",
    "make_recipe",
]
