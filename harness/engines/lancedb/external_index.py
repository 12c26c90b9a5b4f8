"""A LanceDB table made outside the harness: its ids, and whether its vectors are the expected ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from harness.data.progress import Progress
from harness.data.types import Float32Array, Int32Array
from harness.engines.external_index import (
    DocumentSample,
    ExternalRows,
    choose_columns,
    ids_or_values,
    source_folder,
    unique_ids,
)
from harness.engines.external_metadata import ExternalMetadata
from harness.engines.lancedb.conditions import (
    containers_of,
    find_locations,
    locations_of,
    plain_value,
    require_readable,
)
from harness.engines.lancedb.table import ROW_ID, RowIds, describe_index, open_table
from harness.errors import RejectedInputError
from harness.registry.parameters import ParameterValue

__all__ = ["ExternalTable"]

_PAGE = 1000
_IDS = ("id", "doc_id", "_id")
"""Columns searched for ids if none is named: the first is LangChain's."""
_LANCE_DEFAULT = "l2"
"""LanceDB's default distance, if neither the query nor an index has a distance."""


class ExternalTable(ExternalRows, ExternalMetadata):
    """The rows of a table, in the order in which LanceDB lists them.

    Attributes:
        database: Folder that the user's program connects to. name: Name of the table. table: LanceDB's table. column:
            Column of the vectors that are searched. similarity: Similarity of the index; without an index, the
            parameter's or LanceDB's default.
        row_ids: LanceDB's ids of the rows.
        ids: Ids of the documents.
        values: Values of the named column if several rows share some; ids are then LanceDB's.
    """

    values: pa.StringArray | None = None

    def __init__(self, parameters: Mapping[str, ParameterValue], progress: Progress) -> None:
        """Read all ids.

        Raises:
            EngineUnavailableError: The table does not exist.
            RejectedInputError: It has no such column, rows with missing or repeated ids, or an index for another
                similarity.
        """
        progress.start("attach", None)
        self.database, self.name = source_folder(parameters), str(parameters["table"])
        self.table = open_table(self.database, self.name)
        self._source = source = f"the table '{self.name}'"
        schema = self.table.schema
        self.containers = containers_of(schema)
        vectors = [field.name for field in schema if _is_vector(field.type)]
        plain = [field.name for field in schema if _is_plain(field.type)]
        texts = [name for name in plain if pa.types.is_string(schema.field(name).type)]
        columns = choose_columns(
            source, parameters, vectors, plain, texts, _IDS, lambda field: bool(find_locations(field, schema))
        )
        self.column, self._id_column, self._text_column = columns
        for name in columns:
            require_readable(name)
        self.half = pa.types.is_float16(schema.field(self.column).type.value_type)
        self.similarity = self._similarity_of(str(parameters["similarity"]))
        self.stored_as = "direction" if self.similarity == "cosine" else "bits"
        requested = str(parameters["id_column"])
        id_table = self._read([self._id_column] if self._id_column else [])
        self.row_ids = RowIds(id_table[ROW_ID].to_numpy())
        id_source = f"value in the column '{self._id_column or requested}'"
        if self._id_column:
            names = [None if value is None else str(value) for value in id_table[self._id_column].to_pylist()]
        else:
            names = self._names_inside(requested, len(id_table))
        if requested:
            self.ids, self.values = ids_or_values(names, id_source, id_table[ROW_ID].to_pylist())
        else:
            self.ids = unique_ids(names, id_source)

    def _names_inside(self, field: str, rows: int) -> list[str | None]:
        """Return the ids in a field inside a column, by row."""
        names: list[str | None] = [None] * rows
        for page_rows, records in self.metadata([field]):
            for row, record in zip(page_rows.tolist(), records, strict=True):
                names[row] = self.id_in(record, field)
        return names

    def _similarity_of(self, requested: str) -> str:
        index = describe_index(self.table, self.column)
        if index is None or not index.metric:
            return requested or _LANCE_DEFAULT
        metric = index.metric
        if requested not in ("", metric):
            raise RejectedInputError(
                f"the index '{index.name}' of {self._source} is for {metric}, and LanceDB scans without it for "
                f"similarity={requested}",
                fix=f"give similarity={metric}, or leave it out",
            )
        if metric not in ("cosine", "dot", "l2"):
            raise RejectedInputError(
                f"the index '{index.name}' of {self._source} is for the distance {metric}, which is not known here",
                fix="known are cosine, dot and l2",
            )
        return metric

    def _read(self, columns: Sequence[str]) -> pa.Table:
        return self.table.search().select(list(columns)).with_row_id(True).to_arrow()

    def metadata(self, fields: Sequence[str]) -> Iterator[tuple[Int32Array, Sequence[Mapping[str, Any]]]]:
        """Yield the columns that hold these fields; raises RejectedInputError for an unknown field."""
        schema = self.table.schema
        columns = list(dict.fromkeys(location.path[0] for field in fields for location in locations_of(field, schema)))
        for page in self.table.search().select(columns).with_row_id(True).to_batches(_PAGE):
            values = ([plain_value(value, page[name].type) for value in page[name].to_pylist()] for name in columns)
            records = [dict(zip(columns, row, strict=True)) for row in zip(*values, strict=True)]
            yield self.row_ids.rows(pa.Table.from_batches([page])), records

    def pages(self) -> Iterator[tuple[Int32Array, Float32Array]]:
        """Yield the vectors of all rows that have a vector."""
        for page in self.table.search().select([self.column]).with_row_id(True).to_batches(_PAGE):
            stored, present = _vectors(page.column(self.column))
            yield self.row_ids.rows(pa.Table.from_batches([page]))[present], stored[present]

    def sample(self, rows: Int32Array) -> DocumentSample:
        """Read rows that have a vector."""
        columns = [self.column, *([self._text_column] if self._text_column else [])]
        page = self.table.take_offsets(rows.tolist()).select(columns).with_row_id().to_arrow()
        stored, present = _vectors(page[self.column].combine_chunks())
        texts = {}
        if self._text_column:
            values = page[self._text_column].to_pylist()
            texts[f"the column '{self._text_column}'"] = [values[row] for row in np.flatnonzero(present).tolist()]
        return DocumentSample(self.row_ids.rows(page)[present], stored[present], texts)


def _is_vector(kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type))


def _is_plain(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_integer(kind))


def _vectors(column: Any) -> tuple[Float32Array, np.ndarray]:
    """Return vectors float32 (n, d), zeros for missing vectors, and which rows have a vector (bool)."""
    present = np.asarray(column.is_valid())
    width = column.type.list_size
    vectors = np.zeros((len(column), width), dtype=np.float32)
    vectors[present] = column.drop_null().flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return vectors, present
