"""Exact search of documents in parts: blocks of rows here, one after another, or jobs of workers.

Scores are made of global statistics, which are in the weights already, so searching in parts changes no bit of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from harness.data import ranking
from harness.data.document_rows import DocumentRows, row_blocks
from harness.data.filtering import BoolArray
from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array, Int64Array, SparseVectors, UInt32Array, offsets_of
from harness.errors import DataError
from harness.exact import DenseIndex, LuceneIndex, SparseIndex, TopK
from harness.exact.float32_sums import Float32SumIndex
from harness.exact.postings import as_sparse
from harness.exact.topk import tie_order
from harness.store.columns import load_column
from harness.store.memory_budget import values_at_once
from harness.worker.jobs import Arithmetic, DenseSearchJob, SparseSearchJob

if TYPE_CHECKING:
    from harness.exact.field_sums import FieldSumIndex

ExactIndex: TypeAlias = "SparseIndex | LuceneIndex | Float32SumIndex | FieldSumIndex"
_TOGETHER = 1024
"""Queries between two messages of progress."""
_BYTES_A_VALUE = 24
"""Bytes of a value in a block of documents: column and weight, twice while they are computed, and the posting."""
_BYTES_A_TAKEN_VALUE = 48
"""The same in a block of rows that are not consecutive: three offsets of the value too, while it is copied."""
_BYTES_A_HIT = 80
"""Bytes of a hit while two lists are merged."""
_MERGED_HITS = 1 << 20
_WORKSPACE_BYTES = 16 << 20
"""Bytes of sums and keys while any block is searched."""
_BYTES_A_COLUMN = 32
"""Bytes of the statistics of a column."""
_PURPOSE = "the exact reference"


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
    full_index = DenseIndex.build(load_column(job.vectors)[job.start : job.stop], tie_break=job.tie_break)
    index = full_index if job.matching is None else full_index.filtered(job.matching)
    return lambda start, stop: index.retrieve(job.queries[start:stop], job.k, similarity=job.similarity)


def _sparse_search(job: SparseSearchJob) -> Callable[[int, int], TopK]:
    """Return the search of queries from one number up to another."""
    index = _index_of(job)
    return lambda start, stop: index.retrieve(job.queries.slice(start, stop), job.k)


def _index_of(job: SparseSearchJob) -> ExactIndex:
    """Return the index of the documents that a job's filter leaves."""
    index = exact_index(job.documents, job.arithmetic, job.tie_break, job.absent, job.rounded)
    return index if job.matching is None else index.filtered(job.matching)


def exact_index(
    documents: SparseVectors,
    arithmetic: Arithmetic,
    tie_break: UInt32Array,
    absent: Float32Array | None,
    rounded: Int64Array | None = None,
) -> ExactIndex:
    """Return the index of weighted documents; arguments as the fields of :class:`SparseSearchJob`."""
    match arithmetic:
        case "textbook":
            return SparseIndex.build(documents, tie_break=tie_break)
        case "lucene" if rounded is not None:
            from harness.exact.field_sums import FieldSumIndex

            return FieldSumIndex.build(documents, rounded, tie_order(tie_break, len(documents)))
        case "lucene":
            return LuceneIndex.of_weights(documents, tie_order(tie_break, len(documents)))
        case "float32":
            return Float32SumIndex.build(documents, absent)


@dataclass(frozen=True, eq=False, slots=True)
class SparseSearch:
    """A search of all documents, read some rows at a time; fields as in :class:`SparseSearchJob`."""

    documents: DocumentRows
    queries: SparseVectors
    arithmetic: Arithmetic
    tie_break: UInt32Array
    k: int
    matching: BoolArray | None = None
    absent: Float32Array | None = None
    rounded: Int64Array | None = None

    def of_rows(self, start: int, stop: int) -> SparseSearchJob:
        """Return the same search, only of the documents from ``start`` to ``stop``."""
        return SparseSearchJob(
            documents=self.documents.slice(start, stop),
            queries=self.queries,
            arithmetic=self.arithmetic,
            tie_break=self.tie_break[start:stop],
            k=self.k,
            matching=None if self.matching is None else self.matching[start:stop],
            absent=self.absent,
            rounded=self.rounded,
        )

    @property
    def least_bytes(self) -> int:
        """Bytes that the search takes in addition to the block of documents, even for a small block."""
        hits = min(self.k, len(self.documents)) * len(self.queries)
        of_columns = _BYTES_A_COLUMN * self.documents.dimensions
        return _WORKSPACE_BYTES + of_columns + 24 * hits + _BYTES_A_HIT * min(hits, _MERGED_HITS)

    def blocks(self) -> list[tuple[int, int]]:
        """Return first row and end of each block that is searched here; raises MemoryLimitError for no room."""
        most = values_at_once(_BYTES_A_VALUE, _PURPOSE, reserved_bytes=self.least_bytes)
        return row_blocks(self.documents.indptr, most)

    def retrieve(self, blocks: Sequence[tuple[int, int]], threads: int = 1) -> TopK:
        """Return the best ``k`` documents of every query, found in one block after another.

        Raises as the index does; errors name rows of all documents.
        """
        count = len(self.queries)
        best = TopK(np.zeros(count + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))
        for start, stop in blocks:
            job = self.of_rows(start, stop)
            try:
                top = _index_of(job).retrieve(job.queries, job.k, threads)
            except DataError:
                as_sparse(job.documents, "documents", start)  # names the rows of all documents
                raise
            best = merged([best, top], [0, start], self.tie_break, self.k)
        return best

    def score(self, indptr: Int64Array, rows: Int32Array) -> Float32Array:
        """Return the exact scores of listed documents (float32 (H,)), reading no others; see `SparseIndex.score`."""
        distinct = np.unique(rows)
        offsets = offsets_of(self.documents.indptr[distinct + 1] - self.documents.indptr[distinct])
        reserved = _WORKSPACE_BYTES + _BYTES_A_COLUMN * self.documents.dimensions + 32 * len(rows)
        most = values_at_once(_BYTES_A_TAKEN_VALUE, _PURPOSE, reserved_bytes=reserved)
        scores = np.empty(len(rows), dtype=np.float32)
        for first, end in row_blocks(offsets, most):
            block = distinct[first:end]
            hits = np.flatnonzero((rows >= block[0]) & (rows <= block[-1]))
            documents = self.documents.take(block)
            index = exact_index(documents, self.arithmetic, self.tie_break[block], self.absent, self.rounded)
            positions = np.searchsorted(block, rows[hits]).astype(np.int32)
            scores[hits] = index.score(self.queries, np.searchsorted(hits, indptr), positions)
        return scores


def merged(parts: Sequence[TopK], starts: Sequence[int], tie_break: UInt32Array, k: int) -> TopK:
    """Return the best ``k`` of the hits of all parts, whose rows begin at ``starts``; ties by rows of all documents."""
    count = len(parts[0].indptr) - 1
    hits = sum(part.indptr for part in parts)
    tops = []
    for first, end in row_blocks(np.asarray(hits), _MERGED_HITS):
        cuts = [slice(int(part.indptr[first]), int(part.indptr[end])) for part in parts]
        lengths = [np.diff(part.indptr[first : end + 1]) for part in parts]
        queries = np.concatenate([np.repeat(np.arange(end - first, dtype=np.uint32), each) for each in lengths])
        rows = np.concatenate(
            [part.rows[cut] + np.int32(start) for part, cut, start in zip(parts, cuts, starts, strict=True)]
        )
        scores = np.concatenate([part.scores[cut] for part, cut in zip(parts, cuts, strict=True)])
        best = ranking.best(queries, scores, tie_break[rows], k)
        indptr = np.searchsorted(queries[best], np.arange(end - first + 1)).astype(np.int64)
        tops.append(TopK(indptr, rows[best], scores[best]))
    return TopK.joined(tops) if tops else TopK(np.zeros(count + 1, np.int64), parts[0].rows, parts[0].scores)
