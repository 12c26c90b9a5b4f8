"""Input of engines and encoders: documents or queries, in columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from harness.data.arrow import numbers, take_rows
from harness.data.types import Float32Array, Ids, Int32Array, SparseVectors


def records_of(columns: Mapping[str, pa.ChunkedArray]) -> pa.ChunkedArray:
    """Return columns of equal length as one column of records (Arrow structs), with a field for each name."""
    fields = pa.struct([(name, column.type) for name, column in columns.items()])
    batches = pa.table(dict(columns)).to_batches()
    chunks = [pa.StructArray.from_arrays(batch.columns, fields=list(fields)) for batch in batches]
    return pa.chunked_array(chunks, type=fields)


def columns_of(column: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """Return the columns of records by field; a column of strings by the name "", as documents of one text have it."""
    if not pa.types.is_struct(column.type):
        return {"": column}
    return {field.name: values for field, values in zip(column.type, column.flatten(), strict=True)}


@dataclass(frozen=True, slots=True)
class Inputs:
    """Documents or queries as an engine takes them: always ids, and the columns its capabilities name.

    ``texts`` is an Arrow string column, ``terms`` another one, of analysed terms (:mod:`harness.text.term_texts`); of
    documents with several fields both are columns of records, with a string for each field (:func:`records_of`).
    ``sparse`` are CSR rows, ``dense`` is a C-contiguous float32 (n, d) array. ``metadata`` are the fields of documents
    that searches will be filtered by: a table of string columns, null if a document lacks the field; None without
    filters.
    """

    ids: Ids
    texts: pa.ChunkedArray | None = None
    sparse: SparseVectors | None = None
    dense: Float32Array | None = None
    metadata: pa.Table | None = None
    terms: pa.ChunkedArray | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def slice(self, start: int, stop: int) -> Inputs:
        """Return rows ``start`` to ``stop`` without their metadata, nothing copied."""
        stop = min(stop, len(self))
        return Inputs(
            Ids(self.ids.values.slice(start, stop - start)),
            self.texts.slice(start, stop - start) if self.texts is not None else None,
            self.sparse.slice(start, stop) if self.sparse is not None else None,
            self.dense[start:stop] if self.dense is not None else None,
            terms=self.terms.slice(start, stop - start) if self.terms is not None else None,
        )

    def take(self, rows: Int32Array) -> Inputs:
        """Return the given rows without their metadata, in the order of ``rows``."""
        return Inputs(
            Ids(self.ids.values.take(numbers(rows))),
            take_rows(self.texts, rows) if self.texts is not None else None,
            self.sparse.take(rows) if self.sparse is not None else None,
            self.dense[rows] if self.dense is not None else None,
            terms=take_rows(self.terms, rows) if self.terms is not None else None,
        )
