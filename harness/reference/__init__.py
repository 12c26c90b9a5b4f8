"""Exact sparse and dense search: the reference that every engine is held against, and a library of its own."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from harness.reference.dense import DenseIndex
from harness.reference.encoding import encode_documents, encode_queries
from harness.reference.idf import bm25_idf, document_frequencies
from harness.reference.index import SparseIndex
from harness.reference.lucene import LuceneIndex
from harness.reference.storage import Encoded, load_encoded, save_encoded
from harness.reference.topk import TopK
from harness.reference.warm_up import compile_dense_kernels, compile_kernels

if TYPE_CHECKING:
    from harness.reference.evaluation import Evaluation, evaluate

__all__ = [
    "DenseIndex",
    "Encoded",
    "Evaluation",
    "LuceneIndex",
    "SparseIndex",
    "TopK",
    "bm25_idf",
    "compile_dense_kernels",
    "compile_kernels",
    "document_frequencies",
    "encode_documents",
    "encode_queries",
    "evaluate",
    "load_encoded",
    "save_encoded",
]


def __getattr__(name: str) -> object:
    # The one call that also scores stands above the measures, which stand beside this package: found on use.
    if name not in ("Evaluation", "evaluate"):
        raise AttributeError(f"module 'harness.reference' has no attribute '{name}'")
    return getattr(importlib.import_module(f"{__name__}.evaluation"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), "Evaluation", "evaluate"])
