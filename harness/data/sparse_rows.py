"""What is wrong with rows of sparse vectors: engines and exact search would take them, and answer wrongly."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.data.types import SparseVectors

__all__ = ["faulty_rows"]

_ROWS_AT_ONCE = 4096


def faulty_rows(vectors: SparseVectors) -> Iterator[tuple[int, str]]:
    """Return each row with a value that is not finite or with columns that repeat, fall or lie outside the dimensions.

    Returns:
        The row's number and what its first such value or column is, in words that follow "the vector".
    """
    for first in range(0, len(vectors), _ROWS_AT_ONCE):
        indptr = vectors.indptr[first : first + _ROWS_AT_ONCE + 1]
        part = slice(int(indptr[0]), int(indptr[-1]))
        indices, begins = vectors.indices[part], np.zeros(part.stop - part.start + 1, dtype=np.bool_)
        begins[indptr - indptr[0]] = True
        faults = {
            "has a value that is NaN or infinite": ~np.isfinite(vectors.values[part]),
            f"has a column number below 0 or beyond its {vectors.dimensions} dimensions": (
                (indices < 0) | (indices >= vectors.dimensions)
            ),
            "has column numbers that repeat or fall": (np.diff(indices, prepend=-1) <= 0) & ~begins[:-1],
        }
        places = np.flatnonzero(np.logical_or.reduce(list(faults.values())))
        rows, firsts = np.unique(np.searchsorted(indptr, places + part.start, side="right") - 1, return_index=True)
        for row, place in zip(rows.tolist(), places[firsts].tolist(), strict=True):
            yield first + row, next(words for words, fault in faults.items() if fault[place])
