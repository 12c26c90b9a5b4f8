"""Sparse vectors of documents that are read some rows at a time: stored vectors, or weights computed when read.

Weights of millions of documents take gigabytes; a search block by block needs only the weights of one block of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from harness.data.types import Float32Array, Int64Array, SparseVectors, offsets_of

VALUES_AT_ONCE = 1 << 20
"""Stored values that a computation over all documents reads at a time."""


class DocumentRows(Protocol):
    """Sparse vectors, one row a document; any rows can be read."""

    @property
    def indptr(self) -> Int64Array:
        """Offsets of the stored values, int64 (n + 1): a row that is read has at most that many values."""

    @property
    def dimensions(self) -> int:
        """Number of columns."""

    def __len__(self) -> int: ...

    def slice(self, start: int, stop: int) -> SparseVectors:
        """Return rows ``start`` to ``stop``."""

    def take(self, rows: npt.NDArray[Any]) -> SparseVectors:
        """Return some of the rows, in the order of ``rows``."""


WeighBlock = Callable[[SparseVectors, npt.NDArray[Any]], SparseVectors]
"""Turns a block of rows, and their row numbers (n,), into their weights; a row depends on no other row."""


@dataclass(frozen=True, eq=False)
class WeighedRows:
    """Rows of ``base`` that ``weigh`` changes each time they are read; ``dimensions`` are the result's."""

    base: DocumentRows
    weigh: WeighBlock
    dimensions: int

    @property
    def indptr(self) -> Int64Array:
        """Offsets of the stored values of ``base``, int64 (n + 1): ``weigh`` may leave some out."""
        return self.base.indptr

    def __len__(self) -> int:
        return len(self.base)

    def slice(self, start: int, stop: int) -> SparseVectors:
        """Return the weights of rows ``start`` to ``stop``."""
        blocks = row_blocks(self.indptr[start : stop + 1])
        return self._joined(
            self.weigh(self.base.slice(start + first, start + end), np.arange(start + first, start + end))
            for first, end in blocks
        )

    def take(self, rows: npt.NDArray[Any]) -> SparseVectors:
        """Return the weights of some rows, in the order of ``rows``."""
        blocks = row_blocks(offsets_of(self.indptr[rows + 1] - self.indptr[rows]))
        return self._joined(self.weigh(self.base.take(rows[first:end]), rows[first:end]) for first, end in blocks)

    def _joined(self, blocks: Iterator[SparseVectors]) -> SparseVectors:
        parts = list(blocks)
        if len(parts) == 1:
            return parts[0]
        return SparseVectors(
            offsets_of(np.concatenate([np.empty(0, dtype=np.int64), *(np.diff(part.indptr) for part in parts)])),
            np.concatenate([np.empty(0, dtype=np.int32), *(part.indices for part in parts)]),
            np.concatenate([np.empty(0, dtype=np.float32), *(part.values for part in parts)]),
            self.dimensions,
        )


def row_blocks(indptr: Int64Array, most: int = VALUES_AT_ONCE) -> list[tuple[int, int]]:
    """Cut rows into consecutive blocks of at most ``most`` stored values, and at least one row.

    Args:
        indptr: Offsets of the rows' values, int64 (n + 1), from any number on.
        most: At least 1.

    Returns:
        First row and end of each block; nothing for no rows.
    """
    bounds = [0]
    while bounds[-1] < len(indptr) - 1:
        end = int(np.searchsorted(indptr, indptr[bounds[-1]] + most, side="right")) - 1
        bounds.append(max(bounds[-1] + 1, end))
    return list(pairwise(bounds))


def blocks_of(documents: DocumentRows, most: int = VALUES_AT_ONCE) -> Iterator[tuple[int, SparseVectors]]:
    """Yield all documents in blocks, each with the number of its first row."""
    for start, stop in row_blocks(documents.indptr, most):
        yield start, documents.slice(start, stop)


def all_rows(documents: DocumentRows) -> SparseVectors:
    """Return all documents in memory."""
    return documents if isinstance(documents, SparseVectors) else documents.slice(0, len(documents))


def with_values(block: SparseVectors, values: Float32Array) -> SparseVectors:
    """Return the same rows and columns with other values, float32 (nnz,)."""
    return SparseVectors(block.indptr, block.indices, values, block.dimensions)


def values_per_row(counts: Sequence[float] | npt.NDArray[Any], block: SparseVectors) -> npt.NDArray[Any]:
    """Repeat a number of each row of a block for each of its values."""
    return np.repeat(np.asarray(counts), np.diff(block.indptr))
