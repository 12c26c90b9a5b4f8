"""Exact dense search: cosine, dot product, and negative squared distance."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.data.jit import read_only
from harness.data.ranking import unpack_keys
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, Similarity, UInt32Array
from harness.errors import DataError, UsageError
from harness.exact.dense.estimates import Rule, estimates_for, rule_for, scaling_of
from harness.exact.dense.on_device import choose_device, keys_on_device
from harness.exact.dense.scores import CODES, L2, Pair, exact_keys, vector_lengths
from harness.exact.dense.search import Blocks, Job, best_keys
from harness.exact.storage import damaged, load_optional, open_header, save_optional, writing
from harness.exact.topk import TopK, check_lists, decode, refuse_overflow, require_bools, require_counts, tie_order
from harness.store.columns import load_column, save_column

_LAST = np.uint32(0xFFFFFFFF)
_TOGETHER = 1024
_ROWS_PER_BLOCK = 4096
_KIND = "dense"


class DenseIndex:
    """Exact top-k over dense document vectors.

    The arithmetic: products of float32 values, which are exact in float64, added in float64 in one fixed order (see
    :mod:`harness.exact.dense.scores`). ``dot`` is that sum; ``cosine`` divides it by the product of both lengths, which
    are square roots of such sums; ``l2`` is the negative sum of squared differences. The result is rounded once to
    float32. So neither chunks nor threads nor BLAS nor the device change a bit: BLAS only finds the documents that may
    be among the best, by a bound on its error, and these documents are scored exactly.

    Every document is a hit of every query. Hits are ordered by score descending, then by ``tie_break`` descending, or
    by row ascending if there is no ``tie_break``.
    """

    def __init__(
        self, documents: Float32Array, lengths: Float64Array, order: Int32Array | None, dimensions: int | None = None
    ) -> None:
        self._documents = read_only(documents)
        self._dimensions = documents.shape[1] if dimensions is None else dimensions
        self._lengths = read_only(lengths)
        self._order = order
        by_ties = np.arange(len(documents), dtype=np.int32) if order is None else np.asarray(order)
        positions = np.empty(len(documents), dtype=np.uint32)
        positions[by_ties] = np.arange(len(documents), dtype=np.uint32)
        self._by_ties: Int32Array = read_only(by_ties)
        self._tie_break: UInt32Array = read_only(_LAST - positions)
        self._scaling = scaling_of(lengths)
        self._longest = float(lengths.max(initial=0.0))
        self._rules: dict[int, Rule] = {}

    @classmethod
    def build(
        cls,
        documents: Any,
        *,
        tie_break: UInt32Array | None = None,
    ) -> DenseIndex:
        """Build an index of ``documents``, an array (n, d) of any real dtype; C-contiguous float32 is not copied.

        A memory-mapped array stays on disk. ``tie_break`` uint32 (n,): of equal scores the larger comes first, then the
        lower row. Raises DataError naming the rows with NaN, infinite values or values beyond float32; UsageError for
        arrays of a wrong shape.
        """
        vectors = _as_dense(documents, "documents")
        order = None if tie_break is None else tie_order(tie_break, len(vectors))
        return cls(vectors, vector_lengths(vectors, vectors.shape[1]), order)

    def __len__(self) -> int:
        return len(self._documents)

    @property
    def dimensions(self) -> int:
        """Return the number of dimensions that count."""
        return self._dimensions

    @property
    def vectors(self) -> Float32Array:
        """Return the document vectors, float32 (n, dimensions), read-only."""
        return self._documents[:, : self._dimensions]

    @property
    def index_bytes(self) -> int:
        """Return the bytes of the vectors, their lengths, and the order of ties."""
        arrays = (self._documents, self._lengths, self._tie_break, *(() if self._order is None else (self._order,)))
        return sum(int(array.nbytes) for array in arrays)

    def truncated(self, dimensions: int) -> DenseIndex:
        """Return an index over the first ``dimensions`` dimensions of the same vectors, which are not copied.

        Under cosine, the lengths of the truncated vectors are computed again. Queries must be truncated too:
        ``queries[:, :dimensions]``. Raises UsageError outside 1 to :attr:`dimensions`.
        """
        if not 1 <= dimensions <= self._dimensions:
            raise UsageError(
                f"vectors of {self._dimensions} dimensions cannot be cut to {dimensions}",
                fix=f"take a number from 1 to {self._dimensions}",
            )
        return DenseIndex(self._documents, vector_lengths(self._documents, dimensions), self._order, dimensions)

    def filtered(self, matching: npt.NDArray[np.bool_]) -> FilteredDenseIndex:
        """Return an index of only the documents which are ``matching``, bool (n,): the filter precedes the best k.

        It copies their vectors. Raises UsageError for an array of another shape or dtype.
        """
        require_bools(matching, len(self))
        rows = np.flatnonzero(matching).astype(np.int32)
        order = None
        if self._order is not None:
            positions = np.cumsum(matching, dtype=np.int32) - np.int32(1)
            order = positions[self._order[matching[self._order]]]
        vectors = np.ascontiguousarray(self._documents[rows])
        return FilteredDenseIndex(DenseIndex(vectors, self._lengths[rows], order, self._dimensions), rows)

    def retrieve(
        self,
        queries: Any,
        k: int,
        threads: int = 1,
        *,
        similarity: Similarity = "cosine",
        blocks: Blocks | None = None,
        device: str = "cpu",
    ) -> TopK:
        """Return the best ``k`` documents of every query, best first; all of them if there are fewer.

        ``queries``: an array (Q, dimensions), or (dimensions,) for a single query, of any real dtype. Memory beyond the
        result and the queries: for each thread the products of one block, and 16 MiB of keys (or ``1.5 k + 256`` of 8
        bytes for one query); the keys of the hits of 1,024 queries. ``device`` is ``cpu``, ``cuda`` (which copies the
        documents to the GPU in every call), or ``auto``: a GPU if one is available and PyTorch is installed. The result
        does not depend on ``threads``, ``blocks`` or ``device``.

        Raises UsageError for ``k`` or ``threads`` below 1, another number of dimensions, an unknown similarity, or a
        device that is not there; DataError for values that are NaN or infinite, zero vectors under cosine, and hits
        with scores beyond float32, naming the rows.
        """
        require_counts(k=k, threads=threads)
        pair = self._pair(queries, similarity)
        job = Job(pair, estimates_for(pair, self._rule(pair)), self._scaling)
        gpu = choose_device(device)
        count, width = len(pair.queries), min(k, len(self))
        indptr = np.arange(count + 1, dtype=np.int64) * width
        top = TopK(indptr, np.empty(count * width, dtype=np.int32), np.empty(count * width, dtype=np.float32))
        device_keys = keys_on_device(job, k, gpu) if gpu is not None else None
        for first in range(0, count, _TOGETHER):
            part = slice(first, min(first + _TOGETHER, count))
            if device_keys is None:
                keys = best_keys(job, part, k, threads, blocks if blocks is not None else Blocks())
            else:
                keys = device_keys[part]
            hits = slice(part.start * width, part.stop * width)
            decode(keys, indptr[: len(keys) + 1], top.rows[hits], top.scores[hits])
            top.rows[hits] = self._by_ties[top.rows[hits]]
        refuse_overflow(top.scores, indptr, 0)
        return top

    def score(
        self,
        queries: Any,
        indptr: Int64Array,
        rows: Int32Array,
        *,
        similarity: Similarity = "cosine",
    ) -> Float32Array:
        """Return the exact scores of listed documents (float32, shape of ``rows``).

        ``indptr`` int64 (Q + 1) cuts ``rows`` int32 (H,) into one list a query, in any order, repeats allowed.
        Raises UsageError for rows outside the index or an ``indptr`` that does not fit, and as :meth:`retrieve`.
        """
        pair = self._pair(queries, similarity)
        check_lists(indptr, rows, len(pair.queries), len(self))
        keys = np.empty(len(rows), dtype=np.uint64)
        lists = read_only(np.ascontiguousarray(indptr, dtype=np.int64))
        exact_keys(pair, lists, read_only(np.ascontiguousarray(rows, dtype=np.int32)), keys)
        scores, _ = unpack_keys(keys)
        refuse_overflow(scores, indptr, 0)
        return scores

    def save(self, folder: Path | str) -> None:
        """Write the index into ``folder`` (made when missing): ``.npy`` files and a JSON header, nothing pickled."""
        folder, vectors = Path(folder), np.ascontiguousarray(self.vectors)
        with writing(folder, _KIND, {"documents": vectors.shape[0], "dimensions": vectors.shape[1]}):
            save_column(folder / "vectors.npy", vectors)
            save_column(folder / "lengths.npy", self._lengths)
            save_optional(folder, order=self._order)

    @classmethod
    def load(cls, folder: Path | str, *, verify: bool = True) -> DenseIndex:
        """Memory-map an index that :meth:`save` wrote.

        ``verify`` reads everything once to compare checksums. Raises CacheError for a missing or damaged file,
        DataError for a folder that holds something else or a newer format.
        """
        folder = Path(folder)
        header = open_header(folder, _KIND, verify=verify)
        vectors, lengths = load_column(folder / "vectors.npy"), load_column(folder / "lengths.npy")
        order = load_optional(folder, "order", header)
        count, dimensions = header["counts"]["documents"], header["counts"]["dimensions"]
        kinds = (vectors.dtype.str, lengths.dtype.str, "<i4" if order is None else order.dtype.str)
        shapes = (vectors.shape, lengths.shape, (count,) if order is None else order.shape)
        if kinds != ("<f4", "<f8", "<i4") or shapes != ((count, dimensions), (count,), (count,)):
            raise damaged(
                folder, f"arrays of shape {shapes}, the header says {count} documents of {dimensions} dimensions"
            )
        if order is not None and not np.array_equal(np.sort(order), np.arange(count)):
            raise damaged(folder, "the order of ties is none")
        return cls(vectors, lengths, order)

    def _pair(self, queries: Any, similarity: Similarity) -> Pair:
        if similarity not in CODES:
            raise UsageError(f"similarity is '{similarity}'", fix=f"choose one of {', '.join(CODES)}")
        vectors = _as_dense(queries, "queries")
        if vectors.shape[1] != self._dimensions:
            raise UsageError(
                f"queries have {vectors.shape[1]} dimensions, the index {self._dimensions}",
                fix="encode queries and documents with the same model, and cut both to the same dimensions",
            )
        lengths = vector_lengths(vectors, self._dimensions)
        if similarity == "cosine":
            _refuse_zero(self._lengths, "documents")
            _refuse_zero(lengths, "queries")
        return Pair(
            self._documents,
            read_only(vectors),
            self._lengths,
            read_only(lengths),
            self._tie_break,
            np.uint64(self._dimensions),
            CODES[similarity],
        )

    def _rule(self, pair: Pair) -> Rule:
        """Return the rule of estimates, cached unless a query is longer than every document (which matters to l2)."""
        unit = (
            max(self._longest, float(pair.query_lengths.max(initial=0.0))) if pair.similarity == L2 else self._longest
        )
        if unit > self._longest:
            return rule_for(pair.similarity, self._lengths, self._scaling, unit)
        if pair.similarity not in self._rules:
            self._rules[pair.similarity] = rule_for(pair.similarity, self._lengths, self._scaling, unit)
        return self._rules[pair.similarity]


class FilteredDenseIndex:
    """Some documents of a :class:`DenseIndex`, under the row numbers that they have there; rows int32, ascending."""

    def __init__(self, index: DenseIndex, rows: Int32Array) -> None:
        self._index, self._rows = index, rows

    def retrieve(
        self,
        queries: Any,
        k: int,
        threads: int = 1,
        *,
        similarity: Similarity = "cosine",
        device: str = "cpu",
    ) -> TopK:
        """Return the best ``k`` of these documents; see :meth:`DenseIndex.retrieve`."""
        top = self._index.retrieve(queries, k, threads, similarity=similarity, device=device)
        return TopK(top.indptr, self._rows[top.rows], top.scores)


def _as_dense(vectors: Any, source: str) -> Float32Array:
    """Return C-contiguous float32 (n, d), the same array if it is that already; a single query is a row.

    Raises UsageError for another shape, no dimensions or values that are not numbers; DataError naming rows (of
    ``source``) with NaN, infinite values or values beyond float32.
    """
    try:
        values = np.atleast_2d(vectors) if source == "queries" else np.asarray(vectors)
    except ValueError as error:
        raise UsageError(f"{source} are not an array: {error}", fix="give vectors of one length") from error
    if values.ndim != 2 or not values.shape[1] or values.dtype.kind not in "fiub":
        raise UsageError(
            f"{source} are an array of {values.dtype} of shape {values.shape}",
            fix="give real numbers in the shape (number of vectors, dimensions)",
        )
    with np.errstate(over="ignore"):
        array: Float32Array = np.ascontiguousarray(values, dtype=np.float32)
    broken: list[int] = []
    for start in range(0, len(array), _ROWS_PER_BLOCK):
        finite = np.isfinite(array[start : start + _ROWS_PER_BLOCK]).all(axis=1)
        broken += (np.flatnonzero(~finite) + start).tolist()
    if broken:
        raise DataError(source, [f"row {row}: NaN, infinite or beyond float32" for row in broken])
    return array


def _refuse_zero(lengths: Float64Array, source: str) -> None:
    """Raise DataError naming the rows that are zero: they have no direction, and so no cosine with anything."""
    zero = np.flatnonzero(lengths == 0.0)
    if len(zero):
        raise DataError(source, [f"row {row}: a zero vector has no cosine" for row in zero.tolist()])


@cache
def compile_dense_kernels() -> None:
    """Compile the kernels of dense search once a process; see :func:`harness.exact.compile_kernels`."""
    index = DenseIndex.build(np.ones((2, 1), dtype=np.float32), tie_break=np.array([0, 1], dtype=np.uint32))
    top = index.retrieve(np.ones((1, 1)), 1)
    index.score(np.ones((1, 1)), top.indptr, top.rows)
