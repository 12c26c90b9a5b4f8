"""What engines and encoders take: documents or queries, in columns."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from harness.data.types import Float32Array, Ids, SparseVectors

__all__ = ["Inputs"]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Documents or queries as an engine takes them: always ids, and the columns its capabilities name.

    ``texts`` is an Arrow string column, ``sparse`` CSR rows, ``dense`` a C-contiguous float32 (n, d) array.
    ``metadata`` are the fields of documents that searches will be filtered by: a table of string columns, null where a
    document lacks the field; None where nothing is filtered.
    """

    ids: Ids
    texts: pa.ChunkedArray | None = None
    sparse: SparseVectors | None = None
    dense: Float32Array | None = None
    metadata: pa.Table | None = None

    def __len__(self) -> int:
        return len(self.ids)
