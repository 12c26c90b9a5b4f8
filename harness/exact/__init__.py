"""Exact sparse and dense search: the reference that every engine is compared with, also usable as a library."""

from __future__ import annotations

from harness.exact.dense import DenseIndex, compile_dense_kernels
from harness.exact.encoding import encode_documents, encode_queries
from harness.exact.index import SparseIndex, compile_kernels
from harness.exact.lucene import LuceneIndex
from harness.exact.storage import EncodedDocuments, load_encoded, save_encoded
from harness.exact.topk import TopK
from harness.exact.weights import bm25_idf, document_frequencies

__all__ = [
    "DenseIndex",
    "EncodedDocuments",
    "LuceneIndex",
    "SparseIndex",
    "TopK",
    "bm25_idf",
    "compile_dense_kernels",
    "compile_kernels",
    "document_frequencies",
    "encode_documents",
    "encode_queries",
    "load_encoded",
    "save_encoded",
]
