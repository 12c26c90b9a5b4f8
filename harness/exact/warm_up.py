"""Compile the kernels before anything is timed."""

from __future__ import annotations

import numpy as np

from harness.data.types import SparseVectors
from harness.exact.dense import DenseIndex
from harness.exact.index import SparseIndex


def compile_kernels() -> None:
    """Compile the kernels of building and searching, or load them from Numba's cache on disk.

    Takes some seconds once per installation, and half a second from then on.
    """
    document = SparseVectors(np.array([0, 1]), np.array([0], dtype=np.int32), np.array([1], dtype=np.float32), 1)
    SparseIndex.build(document, idf="bm25", tie_break=np.array([0], dtype=np.uint32)).retrieve(document, 1)


def compile_dense_kernels() -> None:
    """Compile the kernels of dense search; see :func:`compile_kernels`."""
    index = DenseIndex.build(np.ones((2, 1), dtype=np.float32), tie_break=np.array([0, 1], dtype=np.uint32))
    top = index.retrieve(np.ones((1, 1)), 1)
    index.score(np.ones((1, 1)), top.indptr, top.rows)
