"""Exact sparse search: the inner product of query and document, with or without IDF."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from harness.data.jit import read_only
from harness.data.types import Float32Array, Int32Array, Int64Array, SparseVectors, UInt32Array
from harness.errors import DataError, UsageError
from harness.exact.postings import Postings, QueryRows, Rule, as_sparse, transpose
from harness.exact.storage import StoredIndex, load_index, save_index
from harness.exact.topk import Searcher, TopK, tie_order
from harness.exact.weights import bm25_idf

_RULE = Rule(lucene=False, mask=np.uint64(0x7FFFFFFFFFFFFFFF), empty=np.uint64(0))
_LARGEST = 2.0**127
"""A contribution below this is finite in float32, however it is rounded."""


@dataclass(frozen=True, eq=False, slots=True)
class SparseIndex:
    """Exact top-k over sparse document vectors.

    The arithmetic: a query weight is multiplied by the IDF of its dimension in float32 (as Qdrant does), the product
    by the document's value in float32; these contributions are added in float64 in ascending order of dimension and
    the sum is rounded once to float32. BM25 weights span few enough binary digits for the float64 sum to be exact.

    A document is a hit if its score is not zero: negative scores are hits; documents that share no dimension with the
    query are not, nor (as in Qdrant) documents whose contributions cancel exactly or are all zero. Hits are ordered by
    score descending, then by ``tie_break`` descending, or by row ascending if there is no ``tie_break``.
    """

    _searcher: Searcher
    _idf: Float32Array | None

    @classmethod
    def build(
        cls,
        documents: Any,
        *,
        idf: Literal["bm25"] | Float32Array | None = None,
        tie_break: UInt32Array | None = None,
    ) -> SparseIndex:
        """Build an index of ``documents``: SparseVectors, or any SciPy sparse matrix (n, dimensions) of any real dtype.

        ``idf`` multiplies query weights: ``"bm25"`` takes :func:`bm25_idf` over the rows with at least one stored
        value (stored zeros count, in N and in df, as in Qdrant), an array float32 (dimensions,) is taken as it is,
        None means 1. ``tie_break`` uint32 (n,): of equal scores the larger comes first, then the lower row.
        Repeated indices of a SciPy row are summed. Raises DataError naming the rows with NaN, infinite values or
        values beyond float32; UsageError for arrays of a wrong shape.
        """
        vectors = as_sparse(documents, "documents")
        order = None if tie_break is None else tie_order(tie_break, len(vectors))
        postings = transpose(vectors, order)
        if isinstance(idf, str):
            if idf != "bm25":
                raise UsageError(f"idf is '{idf}'", fix="idf must be 'bm25', None or a float32 array")
            df = postings.document_frequencies()
            idf = bm25_idf(df, len(vectors.nonempty_rows))
        elif idf is not None:
            idf = _checked_idf(idf, vectors.dimensions)
        return cls(Searcher(postings, len(vectors), _RULE, order), idf)

    def __len__(self) -> int:
        return self._searcher.documents

    @property
    def dimensions(self) -> int:
        """Return the number of dimensions (terms)."""
        return len(self._searcher.postings.columns) - 1

    @property
    def postings(self) -> int:
        """Return the number of stored values."""
        return len(self._searcher.postings.values)

    @property
    def lists(self) -> Postings:
        """Return the postings of each dimension."""
        return self._searcher.postings

    def count_documents_with_terms(self) -> int:
        """Count the documents with at least one stored value, as BM25's IDF counts them."""
        present = np.zeros(len(self), dtype=bool)
        present[self._searcher.postings.rows] = True
        return int(np.count_nonzero(present))

    @property
    def idf(self) -> Float32Array | None:
        """Return the factor of each dimension's query weight (float32, shape (dimensions,)), None when IDF is off."""
        return self._idf

    @property
    def index_bytes(self) -> int:
        """Return the bytes of postings (8 each), column starts, IDF and tie order; not of workspaces."""
        return self._searcher.index_bytes + (0 if self._idf is None else self._idf.nbytes)

    def retrieve(self, queries: Any, k: int, threads: int = 1) -> TopK:
        """Return the best ``k`` documents of every query, best first; fewer if fewer are hits.

        ``queries``: SparseVectors or any SciPy sparse matrix (Q, dimensions). Memory beyond the result: for
        each thread 1.5 MiB, 32 bytes for each of ``k``, and a key table of at most 8 MiB (or ``k`` keys). The result
        does not depend on ``threads``. Raises UsageError for ``k`` or ``threads`` below 1 or another number of
        dimensions, DataError for weights that are NaN or infinite and for scores beyond float32, naming the query rows.
        """
        return self._searcher.retrieve(self._weighted(queries), k, threads)

    def filtered(self, matching: npt.NDArray[np.bool_]) -> SparseIndex:
        """Return an index of only the documents which are ``matching``, bool (n,): the filter precedes the best k.

        Row numbers, the IDF and every score remain those of the full index; in addition it holds the postings of the
        matching documents. :meth:`score` knows only these, and gives 0.0 for other documents. Raises UsageError for an
        array of another shape or dtype.
        """
        searcher = self._searcher
        postings = searcher.only(matching)
        return SparseIndex(Searcher(postings, searcher.documents, _RULE, searcher.order), self._idf)

    def score(self, queries: Any, indptr: Int64Array, rows: Int32Array) -> Float32Array:
        """Return the exact scores of listed documents (float32, shape of ``rows``), 0.0 if no dimension is shared.

        ``indptr`` int64 (Q + 1) cuts ``rows`` int32 (H,) into one list a query, in any order, repeats allowed.
        Raises UsageError for rows outside the index or an ``indptr`` that does not fit, and as :meth:`retrieve`.
        """
        return self._searcher.score(self._weighted(queries), indptr, rows)

    def save(self, folder: Path | str) -> None:
        """Write the index into ``folder`` (made when missing): ``.npy`` files and a JSON header, nothing pickled."""
        save_index(Path(folder), StoredIndex(self._searcher.postings, len(self), self._searcher.order, self._idf))

    @classmethod
    def load(cls, folder: Path | str, *, verify: bool = True) -> SparseIndex:
        """Memory-map an index that :meth:`save` wrote.

        ``verify`` reads everything once to compare checksums. Raises CacheError for a missing or damaged file,
        DataError for a folder that holds something else or a newer format.
        """
        stored = load_index(Path(folder), verify=verify)
        return cls(Searcher(stored.postings, stored.documents, _RULE, stored.order), stored.idf)

    def _weighted(self, queries: Any) -> QueryRows:
        vectors = as_sparse(queries, "queries")
        check_dimensions(vectors, self.dimensions)
        weights = vectors.values
        if self._idf is not None:
            with np.errstate(over="ignore"):
                weights = weights * self._idf[vectors.indices]
        rows = QueryRows(read_only(vectors.indptr), read_only(vectors.indices), read_only(weights))
        largest = self._searcher.largest
        if float(np.abs(rows.weights).max(initial=0.0)) * float(largest) >= _LARGEST:
            _refuse_overflow(rows, self._searcher.postings, largest)
        return rows


def check_dimensions(queries: SparseVectors, dimensions: int) -> None:
    """Refuse queries over another number of dimensions: their columns would mean other terms."""
    if queries.dimensions != dimensions:
        raise UsageError(
            f"queries have {queries.dimensions} dimensions, the index {dimensions}",
            fix="encode queries and documents over the same vocabulary",
        )


def _checked_idf(idf: Float32Array, dimensions: int) -> Float32Array:
    if idf.shape != (dimensions,):
        raise UsageError(f"idf has shape {idf.shape}", fix=f"give one float32 for each of {dimensions} dimensions")
    array = np.ascontiguousarray(idf, dtype=np.float32)
    broken = np.flatnonzero(~np.isfinite(array))
    if len(broken):
        raise DataError("idf", [f"dimension {position}: NaN or infinite" for position in broken])
    return array


def _refuse_overflow(queries: QueryRows, postings: Postings, largest: np.float32) -> None:
    """Refuse queries with infinite contributions, which could cancel to NaN."""
    with np.errstate(over="ignore", invalid="ignore"):
        suspects = np.flatnonzero(~np.isfinite(np.abs(queries.weights) * largest))
        broken = []
        for position in suspects:
            column = queries.columns[position]
            values = postings.values[int(postings.columns[column]) : int(postings.columns[column + 1])]
            if not np.isfinite(queries.weights[position] * values).all() or not np.isfinite(queries.weights[position]):
                broken.append(int(np.searchsorted(queries.indptr, position, side="right")) - 1)
    if broken:
        raise DataError("queries", [f"row {row}: a contribution is beyond float32" for row in sorted(set(broken))])


@cache
def compile_kernels() -> None:
    """Compile the kernels of building and searching, or load them from Numba's cache on disk, once a process.

    Takes some seconds once per installation, and half a second from then on.
    """
    document = SparseVectors(np.array([0, 1]), np.array([0], dtype=np.int32), np.array([1], dtype=np.float32), 1)
    SparseIndex.build(document, idf="bm25", tie_break=np.array([0], dtype=np.uint32)).retrieve(document, 1)
