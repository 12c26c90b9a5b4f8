"""Metadata of documents: the fields of their records that filters name.

A field is looked up in a document's ``metadata`` object, as BEIR has it, and if that lacks it among the fields at the
top, except the id and the searched text; a path with dots, such as ``metadata.source``, leads into nested objects. Its
value is a string, a number or a boolean, kept as text, or a list of them; null, an empty string and an object count as
no value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.data.arrow import as_numpy, numbers, strings, take_or_null
from harness.data.field_paths import field_holding, field_of, qualified, text_of
from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders.base import TextSource
from harness.store.cache import Cache
from harness.store.cache_entries import note_user
from harness.store.columns import load_table

_SCHEME = 3
_TABLE = "metadata.arrow"
NESTED = "metadata"
"""The object of a record that holds its metadata."""


def prepare_metadata(
    source: TextSource, fields: Sequence[str], *, cache: Cache, progress: Progress | None, total: int, about: str = ""
) -> pa.Table:
    """Return ``fields`` of every document: one column of texts each, null if a document lacks it, or of lists of texts.

    Rows are the ``total`` documents in their order, as :func:`harness.loaders.prepared.prepare_texts` has them; faulty
    files are its business. The table of a source that has a key is kept in the cache, ``about`` as of texts. Raises
    UnknownNameError for a field that no document has, UsageError for a field that never holds a single value, DataError
    when the source changed.
    """
    field_names = sorted(fields)
    if source.key is None:
        table = pa.Table.from_batches(_batches(source, field_names, progress, total), schema=_schema(field_names))
    else:
        key = {"scheme": _SCHEME, **source.key, "fields": field_names}

        def build(folder: Path) -> None:
            file = str(folder / _TABLE)
            with (
                source.unchanged(),
                pa.OSFile(file, "wb") as sink,
                pa.ipc.new_file(sink, _schema(field_names)) as writer,
            ):
                for batch in _batches(source, field_names, progress, total):
                    writer.write_batch(batch)

        entry = cache.get_or_build("metadata", key, build, about=about)
        note_user(entry, about)
        table = load_table(entry / _TABLE)
    if table.num_rows != total:
        raise DataError(source.label, ["changed since its texts were read"], fix="try again")
    return pa.table({name: _without_lists(table.column(name)) for name in table.column_names})


def single_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of lists as a column of texts, null for a list of none or several; a column of texts itself."""
    if not pa.types.is_list(column.type):
        return column
    return pa.chunked_array([_single_values(chunk) for chunk in column.chunks], pa.string())


def _single_values(lists: pa.ListArray) -> pa.StringArray:
    texts, lengths = pc.list_flatten(lists), as_numpy(pc.list_value_length(lists), null=0)
    is_single = lengths == 1
    if is_single.all():
        return texts
    firsts = np.cumsum(lengths, dtype=np.int64) - lengths
    return take_or_null(texts, np.where(is_single, firsts, -1))


def require_single_values(metadata: pa.Table, label: str) -> pa.Table:
    """Return metadata without lists; raises UsageError for a field that never has a single value."""
    columns = {name: single_values(metadata.column(name)) for name in metadata.column_names}
    for name, column in columns.items():
        if metadata.num_rows and column.null_count == metadata.num_rows:
            raise UsageError(
                f"'{name}' holds only lists of several values in {label}", fix="name a field that has single values"
            )
    return pa.table(columns)


def _without_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of lists as a column of texts if no list has several."""
    longest = pc.max(pc.list_value_length(column)).as_py()
    return column if (longest or 0) > 1 else single_values(column)


def metadata_holding(source: TextSource, values: Collection[str]) -> str | None:
    """Return a field of the documents' metadata that holds all of the ``values``; None if no field does."""
    batches = source.read(Problems(source.label, source.unit), [])
    fields_of_each = (
        {name: value for name, value in record.items() if name not in batch.used}
        for batch in batches
        for record in batch.records or ()
    )
    return field_holding(fields_of_each, values)


def _schema(fields: Sequence[str]) -> pa.Schema:
    return pa.schema([(field, pa.list_(pa.string())) for field in fields])


def _batches(
    source: TextSource, fields: Sequence[str], progress: Progress | None, total: int
) -> Iterator[pa.RecordBatch]:
    problems = Problems(source.label, source.unit)
    present, filled = Counter[str](), Counter[str]()
    dotted = [field for field in fields if "." in field]
    if progress is not None:
        progress.start(f"reading metadata of {source.name}", total)
    for batch in source.read(problems, []):
        records: Sequence[Mapping[str, Any]] = batch.records or [{}] * len(batch.ids)
        reserved = batch.used | {NESTED}
        columns = [[values_of_field(record, field, reserved) for record in records] for field in fields]
        for record in records:
            nested = record.get(NESTED)
            present.update((record.keys() - reserved) | (nested.keys() if isinstance(nested, dict) else set()))
            present.update(field for field in dotted if field_of(record, field) is not None)
        for field, column in zip(fields, columns, strict=True):
            filled[field] += sum(map(len, column))
        yield pa.record_batch([_lists(values) for values in columns], schema=_schema(fields))
        if progress is not None:
            progress.advance(len(batch.ids))
    problems.raise_if_any()
    for field in fields:
        _require(field, present, filled[field], source.label)


def _require(field: str, present: Mapping[str, int], filled: int, label: str) -> None:
    if filled:
        return
    if not present:
        raise UsageError(
            f"no filter by '{field}': the documents of {label} have no metadata",
            fix='metadata are further fields of a line: {"_id": …, "text": …, "metadata": {"section": "news"}}',
        )
    if field not in present:
        raise UnknownNameError("metadata field", field, present, aliases=qualified(field, present))
    raise UsageError(
        f"no filter by '{field}': it never holds a string, a number or a boolean, or a list of them, in {label}",
        fix="objects cannot be used in filters: name a field inside, as field.inner",
    )


def _lists(values: Sequence[Sequence[str]]) -> pa.ListArray:
    ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
    return pa.ListArray.from_arrays(numbers(ends), strings(text for texts in values for text in texts))


def values_of_field(record: Mapping[str, Any], field: str, reserved: frozenset[str]) -> list[str]:
    """Return the texts of a field's values, each once."""
    value = _value(record, field, reserved)
    elements = value if isinstance(value, list | tuple) else (value,)
    return list(dict.fromkeys(text for text in map(text_of, elements) if text is not None))


def _value(record: Mapping[str, Any], field: str, reserved: frozenset[str]) -> Any:
    nested = record.get(NESTED)
    if isinstance(nested, dict) and field in nested:
        return nested[field]
    if field in reserved:
        return None
    return field_of(record, field) if "." in field and field not in record else record.get(field)
