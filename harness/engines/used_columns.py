"""Vectors over a huge number of dimensions (hashed terms) as vectors over the columns that documents use."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from harness.data.types import Int32Array, SparseVectors
from harness.store.columns import load_column

__all__ = ["UsedColumns"]

_FILE = "columns.npy"


class UsedColumns:
    """The columns that documents use, in ascending order, so that sums keep their order of terms."""

    def __init__(self, columns: Int32Array) -> None:
        self._columns = columns

    @classmethod
    def of(cls, documents: SparseVectors) -> UsedColumns | None:
        """The used columns, or None where they are not far fewer than the dimensions: an index is then as small."""
        if documents.dimensions <= 2 * documents.nnz + 1_000_000:
            return None
        return cls(np.unique(documents.indices))

    def narrow(self, vectors: SparseVectors) -> SparseVectors:
        """The same vectors over the used columns; values in other columns are dropped, as no document has them."""
        places = np.searchsorted(self._columns, vectors.indices)
        known = np.zeros(len(places), dtype=bool)
        inside = places < len(self._columns)
        known[inside] = self._columns[places[inside]] == vectors.indices[inside]
        kept = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(known)])
        return SparseVectors(
            kept[vectors.indptr], places[known].astype(np.int32), vectors.values[known], max(1, len(self._columns))
        )

    def save(self, folder: Path) -> None:
        """Write the table into an existing folder."""
        np.save(folder / _FILE, self._columns, allow_pickle=False)

    @classmethod
    def load(cls, folder: Path) -> UsedColumns | None:
        """What :meth:`save` wrote, None when there is none; raises CacheError when it is damaged."""
        path = folder / _FILE
        return cls(load_column(path)) if path.exists() else None
