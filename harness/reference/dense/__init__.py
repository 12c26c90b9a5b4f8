"""Exact dense search, a library of its own."""

from __future__ import annotations

from harness.reference.dense.index import DenseIndex, FilteredDenseIndex
from harness.reference.dense.scores import vector_lengths
from harness.reference.dense.search import Blocks

__all__ = ["Blocks", "DenseIndex", "FilteredDenseIndex", "vector_lengths"]
