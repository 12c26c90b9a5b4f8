"""Exact sparse search: the reference that every engine is held against, and a library of its own."""

from __future__ import annotations

from harness.reference.idf import bm25_idf, document_frequencies
from harness.reference.index import SparseIndex
from harness.reference.lucene import LuceneIndex
from harness.reference.storage import Encoded, load_encoded, save_encoded
from harness.reference.topk import TopK

__all__ = [
    "Encoded",
    "LuceneIndex",
    "SparseIndex",
    "TopK",
    "bm25_idf",
    "document_frequencies",
    "load_encoded",
    "save_encoded",
]
