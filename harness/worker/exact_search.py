"""Run jobs of exact search: find the best of some rows of a corpus.

Scores are made of global statistics, which are in the weights already, so searching in parts changes no bit of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, Int64Array, SparseVectors, UInt32Array
from harness.exact import DenseIndex, LuceneIndex, SparseIndex, TopK
from harness.exact.float32_sums import Float32SumIndex
from harness.exact.topk import tie_order
from harness.store.columns import load_column
from harness.worker.jobs import Arithmetic, DenseSearchJob, SparseSearchJob

ExactIndex = SparseIndex | LuceneIndex | Float32SumIndex
_TOGETHER = 1024
"""Queries between two messages of progress."""


def search(job: SparseSearchJob | DenseSearchJob, progress: Progress) -> TopK:
    """Run a job, whose unit of progress is a query; raises as the index of its kind."""
    progress.start("exact search", len(job.queries))
    retrieve = _dense_search(job) if isinstance(job, DenseSearchJob) else _sparse_search(job)
    tops = []
    for start in range(0, len(job.queries), _TOGETHER):
        stop = min(start + _TOGETHER, len(job.queries))
        tops.append(retrieve(start, stop))
        progress.advance(stop - start)
    return TopK.joined(tops)


def _dense_search(job: DenseSearchJob) -> Callable[[int, int], TopK]:
    """Return the search of queries from one number up to another."""
    whole = DenseIndex.build(load_column(job.vectors)[job.start : job.stop], tie_break=job.tie_break)
    index = whole if job.matching is None else whole.filtered(job.matching)
    return lambda start, stop: index.retrieve(job.queries[start:stop], job.k, similarity=job.similarity)


def _sparse_search(job: SparseSearchJob) -> Callable[[int, int], TopK]:
    """Return the search of queries from one number up to another."""
    whole = exact_index(job.documents, job.arithmetic, job.tie_break, job.absent)
    index = whole if job.matching is None else whole.filtered(job.matching)
    return lambda start, stop: index.retrieve(job.queries.slice(start, stop), job.k)


def exact_index(
    documents: SparseVectors, arithmetic: Arithmetic, tie_break: UInt32Array, absent: Float32Array | None
) -> ExactIndex:
    """Return the index of weighted documents; arguments as the fields of :class:`SparseSearchJob`."""
    match arithmetic:
        case "textbook":
            return SparseIndex.build(documents, tie_break=tie_break)
        case "lucene":
            return LuceneIndex.of_weights(documents, tie_order(tie_break, len(documents)))
        case "float32":
            return Float32SumIndex.build(documents, absent)


def score_rows(job: SparseSearchJob, indptr: Int64Array, rows: Int32Array) -> Float32Array:
    """Return the exact scores of listed documents (float32 (H,)), reading no others; see :meth:`SparseIndex.score`."""
    distinct, places = np.unique(rows, return_inverse=True)
    index = exact_index(job.documents.take(distinct), job.arithmetic, job.tie_break[distinct], job.absent)
    return index.score(job.queries, indptr, places.astype(np.int32))
