"""Exact dense search."""

from __future__ import annotations

from harness.exact.dense.index import DenseIndex, FilteredDenseIndex, compile_dense_kernels
from harness.exact.dense.scores import vector_lengths
from harness.exact.dense.search import Blocks

__all__ = ["Blocks", "DenseIndex", "FilteredDenseIndex", "compile_dense_kernels", "vector_lengths"]
