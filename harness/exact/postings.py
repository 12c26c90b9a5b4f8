"""Check input and transpose it: from rows of documents to lists of postings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.jit import inner_kernel, kernel, read_only
from harness.data.python_values import as_array
from harness.data.types import (
    Float32Array,
    Int32Array,
    Int64Array,
    SparseVectors,
    UInt32Array,
    UInt64Array,
    faulty_rows,
)
from harness.errors import DataError


class Postings(NamedTuple):
    """Documents by dimension (CSC): ``columns`` uint64 (D + 1), ``rows`` uint32 (P,), ``values`` float32 (P,).

    ``highest`` float32 (D,) is the largest value of each dimension, 0 for one without any.
    """

    columns: UInt64Array
    rows: UInt32Array
    values: Float32Array
    highest: Float32Array

    def document_frequencies(self) -> Int64Array:
        """Count the documents in each dimension (int64, shape (D,))."""
        return np.diff(self.columns).astype(np.int64)


class QueryRows(NamedTuple):
    """Queries (CSR) with their final weights: ``indptr`` int64, ``columns`` int32, ``weights`` float32."""

    indptr: Int64Array
    columns: Int32Array
    weights: Float32Array


class Rule(NamedTuple):
    """The arithmetic of contributions, and the sums that are hits."""

    lucene: bool
    mask: np.uint64
    empty: np.uint64


_DTYPES: Mapping[str, type[np.generic]] = {"indptr": np.int64, "indices": np.int32, "values": np.float32}
"""The types of the columns of sparse vectors."""


@inner_kernel
def contribution(weight: np.float32, value: np.float32, rule: Rule) -> np.float32:
    """Return the contribution of a posting to its document's sum, rounded to float32."""
    return np.float32(weight - weight / value) if rule.lucene else np.float32(weight * value)


def as_sparse(matrix: Any, source: str, first_row: int = 0) -> SparseVectors:
    """Check and convert :class:`SparseVectors` or any SciPy sparse matrix or array to float32 rows.

    SciPy input may hold any real or boolean dtype, 64-bit indices, unsorted and repeated indices (summed, as SciPy
    does). In :class:`SparseVectors` indices are ascending and unique; other input is refused. Stored zeros stay.

    Args:
        matrix: the rows.
        source: names them in errors.
        first_row: the number of the first row, in errors.

    Raises:
        DataError: names the rows with NaN, infinite values or values beyond float32, indices outside the dimensions, or
            repeated ones.
    """
    vectors = matrix if isinstance(matrix, SparseVectors) else _read_scipy(matrix, source)
    if not isinstance(vectors.dimensions, int | np.integer):
        raise DataError(source, [f"dimensions is {vectors.dimensions!r}, expected a whole number"])
    arrays = list[npt.NDArray[Any]]()
    for name, target in _DTYPES.items():
        array: Any = getattr(vectors, name)
        if not (isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype == target):
            array = _numbers(name, array, source) if name == "values" else _integers(name, array, source, target)
        arrays.append(np.ascontiguousarray(array, dtype=target))
    indptr, indices, values = arrays
    if len(indices) != len(values) or len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(values):
        raise DataError(source, ["indptr, indices and values do not belong together"])
    if np.any(indptr[1:] < indptr[:-1]):
        raise DataError(source, [f"indptr falls after row {int(np.argmax(indptr[1:] < indptr[:-1]))}"])
    checked = SparseVectors(indptr, indices, values, vectors.dimensions)
    faults = [f"row {row + first_row}: the vector {words}" for row, words in faulty_rows(checked)]
    if faults:
        raise DataError(source, faults, fix="correct these rows")
    return checked


def transpose(vectors: SparseVectors, order: Int32Array | None) -> Postings:
    """Transpose checked rows to postings: by dimension, within each by ascending internal row.

    ``order`` int32 (n,) lists the rows in internal order (None: as they come).
    """
    columns = np.zeros(vectors.dimensions + 1, dtype=np.int64)
    rows = np.empty(vectors.nnz, dtype=np.uint32)
    values = np.empty(vectors.nnz, dtype=np.float32)
    internal_order = np.arange(len(vectors), dtype=np.int32) if order is None else order
    _transpose(
        read_only(vectors.indptr),
        read_only(vectors.indices),
        read_only(vectors.values),
        read_only(internal_order),
        columns,
        rows,
        values,
    )
    return freeze(columns.view(np.uint64), rows, values)


def only_rows(postings: Postings, mask: npt.NDArray[np.bool_]) -> Postings:
    """Return the postings of some internal rows, ``mask`` bool (n,), with the same numbers and order."""
    chosen = mask[postings.rows]
    before = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(chosen, dtype=np.uint64)])
    return freeze(before[postings.columns], postings.rows[chosen], postings.values[chosen])


def freeze(columns: UInt64Array, rows: UInt32Array, values: Float32Array) -> Postings:
    """Make postings of read-only views, with the largest value of each dimension."""
    highest = np.zeros(len(columns) - 1, dtype=np.float32)
    _find_highest(read_only(columns), read_only(values), highest)
    return Postings(read_only(columns), read_only(rows), read_only(values), read_only(highest))


def _numbers(name: str, array: npt.NDArray[Any], source: str) -> npt.NDArray[Any]:
    """Return an array; raises DataError unless it is one of real numbers (n,)."""
    array = as_array(array)
    if array.ndim != 1 or array.dtype.kind not in "fiub":
        raise DataError(source, [f"{name} is of shape {array.shape} and dtype {array.dtype}, expected numbers (n,)"])
    return array


def _integers(name: str, array: npt.NDArray[Any], source: str, target: type[np.generic]) -> npt.NDArray[Any]:
    """Return an array; raises DataError unless it consists of integers (n,) that the target type holds."""
    array = _numbers(name, array, source)
    if array.dtype.kind not in "iu":
        raise DataError(source, [f"{name} is of dtype {array.dtype}, expected whole numbers"])
    highest = int(np.iinfo(np.dtype(target)).max)
    if len(array) and (int(array.max()) > highest or int(array.min()) < -highest):
        raise DataError(source, [f"{name} holds numbers beyond {highest:,}"])
    return array


def _read_scipy(matrix: Any, source: str) -> SparseVectors:
    from scipy.sparse import csr_array, issparse

    if not issparse(matrix):
        raise DataError(source, [f"expected SparseVectors or a SciPy sparse matrix, not {type(matrix).__name__}"])
    if matrix.ndim != 2:
        raise DataError(source, [f"expected two axes, not {matrix.ndim}"])
    if matrix.dtype.kind not in "fiub":
        raise DataError(source, [f"values of dtype {matrix.dtype} are not real numbers"])
    if matrix.format in ("csr", "csc", "bsr"):
        for name in ("indptr", "indices"):
            _integers(name, getattr(matrix, name), source, np.int64)
        try:
            matrix.check_format(full_check=True)
        except ValueError as error:  # such a matrix ends the process with a segmentation fault when it is converted
            raise DataError(source, [f"its arrays do not belong together: {error}"]) from error
        if np.any(matrix.indptr[1:] < matrix.indptr[:-1]):  # not checked above if its last number is 0
            raise DataError(source, ["its arrays do not belong together: indptr decreases"])
    csr = matrix.tocsr()
    if not csr.has_canonical_format:
        csr = csr_array(csr, copy=True)
        csr.sum_duplicates()
    if max(csr.shape) > np.iinfo(np.int32).max:
        raise DataError(source, [f"shape {csr.shape} does not fit 32-bit row and column numbers"])
    with np.errstate(over="ignore"):  # an overflow becomes infinite and is refused with its row
        values = csr.data.astype(np.float32, copy=False)
    return SparseVectors(
        csr.indptr.astype(np.int64, copy=False), csr.indices.astype(np.int32, copy=False), values, int(csr.shape[1])
    )


@kernel
def _find_highest(columns: UInt64Array, values: Float32Array, highest: Float32Array) -> None:
    for column in range(len(highest)):
        start, stop = columns[column], columns[column + 1]
        if start < stop:
            most = values[start]
            for posting in range(start, stop):
                most = max(most, values[posting])
            highest[column] = most


@kernel
def _transpose(
    indptr: Int64Array,
    indices: Int32Array,
    values: Float32Array,
    order: Int32Array,
    columns: Int64Array,
    rows: UInt32Array,
    out_values: Float32Array,
) -> None:
    """Sort by counting; ``columns`` int64 (D + 1) starts as zeros and ends as the start of each column."""
    for position in range(len(indices)):
        columns[indices[position] + 1] += 1
    for column in range(1, len(columns)):
        columns[column] += columns[column - 1]
    for internal in range(len(order)):
        for position in range(indptr[order[internal]], indptr[order[internal] + 1]):
            target = columns[indices[position]]
            rows[target] = internal
            out_values[target] = values[position]
            columns[indices[position]] = target + 1
    for column in range(len(columns) - 1, 0, -1):
        columns[column] = columns[column - 1]
    columns[0] = 0
