"""Ranked hits of a batch of queries: batches, threads, workspaces, decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.jit import kernel, read_only
from harness.data.ranking import unpack_score
from harness.data.types import Float32Array, Int32Array, Int64Array, UInt32Array, UInt64Array, offsets_of
from harness.errors import DataError, UsageError
from harness.exact.kernels import Workspace, retrieve_kernel, score_kernel
from harness.exact.postings import Postings, QueryRows, Rule, only_rows

_BATCH_KEYS = 1 << 20
_BATCH_QUERIES = 256


class TopK(NamedTuple):
    """Ranked hits of a batch of queries, best first.

    ``indptr`` int64 (Q + 1), ``rows`` int32 (H,), ``scores`` float32 (H,). A query without hits has an empty slice.
    """

    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array

    @classmethod
    def joined(cls, parts: Sequence[TopK]) -> TopK:
        """Return the hits of consecutive batches as one batch; without batches there are no hits."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            offsets_of(np.concatenate([np.empty(0, dtype=np.int64), *(np.diff(part.indptr) for part in parts)])),
            np.concatenate([np.empty(0, dtype=np.int32), *(part.rows for part in parts)]),
            np.concatenate([np.empty(0, dtype=np.float32), *(part.scores for part in parts)]),
        )


@dataclass(frozen=True, eq=False)
class Searcher:
    """Postings with everything a search needs; shared by both scoring modes.

    ``order`` int32 (n,) gives the row of each internal row, None when they are the same. Internal rows are in the order
    of ties. Workspaces are kept between calls, one for each thread that ever searched.
    """

    postings: Postings
    documents: int
    rule: Rule
    order: Int32Array | None
    _free: list[Workspace] = field(default_factory=list)

    @property
    def index_bytes(self) -> int:
        """Return the bytes of postings, column starts, largest values and tie order."""
        arrays = (*self.postings, *(() if self.order is None else (self.order,)))
        return sum(int(array.nbytes) for array in arrays)

    @cached_property
    def largest(self) -> np.float32:
        """Return the largest absolute value of all postings; 0.0 when there are none."""
        values = self.postings.values
        return np.float32(max(values.max(initial=0.0), -values.min(initial=0.0)))

    def retrieve(self, queries: QueryRows, k: int, threads: int) -> TopK:
        """Return the best ``k`` hits of every query; raises UsageError for ``k`` or ``threads`` below 1."""
        require_counts(k=k, threads=threads)
        batches = list(self._batches(queries, k, threads))
        if threads == 1 or len(batches) == 1:
            parts = [self._retrieve_batch(queries, *batch) for batch in batches]
        else:
            with ThreadPoolExecutor(max_workers=threads) as pool:
                parts = list(pool.map(lambda batch: self._retrieve_batch(queries, *batch), batches))
        return parts[0] if len(parts) == 1 else TopK.joined(parts)

    def only(self, matching: npt.NDArray[np.bool_]) -> Postings:
        """Return the postings of ``matching`` rows; raises UsageError unless that is one bool a document."""
        require_bools(matching, self.documents)
        return only_rows(self.postings, matching if self.order is None else matching[self.order])

    def score(self, queries: QueryRows, indptr: Int64Array, rows: Int32Array) -> Float32Array:
        """Score the listed documents of every query (see :meth:`SparseIndex.score`)."""
        check_lists(indptr, rows, len(queries.indptr) - 1, self.documents)
        internal = np.ascontiguousarray(rows, dtype=np.int32)
        if self.order is not None:
            internal_rows = np.empty(self.documents, dtype=np.int32)
            internal_rows[self.order] = np.arange(self.documents, dtype=np.int32)
            internal = internal_rows[internal]
        scores = np.empty(len(rows), dtype=np.float32)
        sums = np.full(self.documents, self.rule.empty, dtype=np.uint64).view(np.float64)
        lists = read_only(np.ascontiguousarray(indptr, dtype=np.int64))
        score_kernel(self.postings, queries, self.rule, lists, read_only(internal), sums, scores)
        refuse_overflow(scores, indptr, 0)
        return scores

    def _batches(self, queries: QueryRows, k: int, threads: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first query, end, width of the key table): as many queries as keep the table small."""
        count = len(queries.indptr) - 1
        columns = self.postings.columns
        totals = offsets_of(columns[queries.columns + 1] - columns[queries.columns])[queries.indptr]
        most = min(k, self.documents, int((totals[1:] - totals[:-1]).max(initial=0)))
        width = max(1, most)
        size = max(1, min(_BATCH_QUERIES, _BATCH_KEYS // width, -(-count // threads)))
        for first in range(0, count, size):
            yield first, min(first + size, count), width

    def _retrieve_batch(self, queries: QueryRows, first: int, end: int, width: int) -> TopK:
        best = np.zeros((end - first, width), dtype=np.uint64)
        counts = np.zeros(end - first, dtype=np.int64)
        terms = queries.indptr[first + 1 : end + 1] - queries.indptr[first:end]
        workspace = self._take(width, int(terms.max(initial=0)))
        retrieve_kernel(self.postings, queries, first, self.documents, self.rule, workspace, best, counts)
        self._free.append(workspace)
        best.sort(axis=1)
        indptr = offsets_of(counts)
        rows, scores = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1], dtype=np.float32)
        decode(best, indptr, rows, scores)
        refuse_overflow(scores, indptr, first)
        return TopK(indptr, rows if self.order is None else self.order[rows], scores)

    def _take(self, width: int, terms: int) -> Workspace:
        """Take a free workspace, or make a larger one."""
        try:
            workspace = self._free.pop()
        except IndexError:
            return Workspace.of(self.rule, self.documents, width, terms)
        return workspace if workspace.fits(width, terms) else Workspace.of(self.rule, self.documents, width, terms)


@kernel
def decode(best: UInt64Array, indptr: Int64Array, rows: Int32Array, scores: Float32Array) -> None:
    """Write rows and scores of the sorted keys at the ends of the rows of ``best``, the last key first."""
    width = np.uint64(best.shape[1])
    for query in range(len(indptr) - 1):
        first = np.uint64(indptr[query])
        for position in range(np.uint64(0), np.uint64(indptr[query + 1]) - first):
            key = best[query, width - np.uint64(1) - position]
            rows[first + position] = np.int32(~np.uint32(key))
            scores[first + position] = unpack_score(key)


def tie_order(tie_break: UInt32Array, documents: int) -> Int32Array:
    """Order rows by tie-breaker, the larger first; equal ones by row (int32, shape (n,))."""
    if tie_break.shape != (documents,) or tie_break.dtype != np.uint32:
        raise UsageError(
            f"tie_break has shape {tie_break.shape} and dtype {tie_break.dtype}",
            fix=f"give one uint32 for each of the {documents} documents",
        )
    return np.argsort(~tie_break, kind="stable").astype(np.int32)


def require_counts(**counts: object) -> None:
    """Raise UsageError unless all are integers of at least 1."""
    for name, count in counts.items():
        if not isinstance(count, Integral) or int(count) < 1:
            raise UsageError(f"{name} is {count}", fix=f"{name} must be a whole number, at least 1")


def require_bools(matching: npt.NDArray[np.bool_], documents: int) -> None:
    """Raise UsageError unless ``matching`` is one bool for each document."""
    if matching.shape != (documents,) or matching.dtype != np.bool_:
        raise UsageError(
            f"matching has shape {matching.shape} and dtype {matching.dtype}",
            fix=f"give one bool for each of the {documents} documents",
        )


def check_lists(indptr: Int64Array, rows: Int32Array, queries: int, documents: int) -> None:
    """Raise UsageError if ``indptr`` does not cut ``rows`` into a list for each query, or a row is not a document."""
    if len(indptr) != queries + 1 or indptr[0] != 0 or indptr[-1] != len(rows) or np.any(indptr[1:] < indptr[:-1]):
        raise UsageError(
            f"indptr of length {len(indptr)} does not cut {len(rows)} rows into {queries} lists",
            fix="give one slice of rows for each query",
        )
    if len(rows) and (rows.min() < 0 or rows.max() >= documents):
        raise UsageError("a listed row is outside the index", fix=f"rows must be from 0 to {documents - 1}")


def refuse_overflow(scores: Float32Array, indptr: Int64Array, first: int) -> None:
    """Raise DataError naming the queries, counted from ``first``, that have a hit with a score beyond float32."""
    finite = np.isfinite(scores)
    if not finite.all():
        broken = np.flatnonzero(~finite)
        queries = np.unique(np.searchsorted(indptr, broken, side="right") - 1) + first
        raise DataError("queries", [f"row {query}: a score is beyond float32" for query in queries])
