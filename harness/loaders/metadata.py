"""Metadata of documents: the fields of their records that filters name.

A field is looked up in a document's ``metadata`` object, as BEIR has it, and if that lacks it among the fields at the
top, except the id and the searched text; a path with dots, such as ``metadata.source``, leads into nested objects. Its
value is a string, a number or a boolean, kept as text; null, an empty string, a list and an object count as no value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.data.arrow import strings
from harness.data.field_paths import field_holding, field_of, text_of
from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders.base import TextSource
from harness.store.cache import Cache
from harness.store.cache_entries import note_user
from harness.store.columns import load_table

_SCHEME = 2
_TABLE = "metadata.arrow"
_NESTED = "metadata"


def prepare_metadata(
    source: TextSource, fields: Sequence[str], *, cache: Cache, progress: Progress | None, total: int, about: str = ""
) -> pa.Table:
    """Return ``fields`` of every document: one string column each, null if a document lacks it.

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
    return table


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
    return pa.schema([(field, pa.string()) for field in fields])


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
        reserved = batch.used | {_NESTED}
        columns = [[_value(record, field, reserved) for record in records] for field in fields]
        for record in records:
            nested = record.get(_NESTED)
            present.update((record.keys() - reserved) | (nested.keys() if isinstance(nested, dict) else set()))
            present.update(field for field in dotted if field_of(record, field) is not None)
        for field, column in zip(fields, columns, strict=True):
            filled[field] += sum(value is not None for value in column)
        yield pa.record_batch([strings(values) for values in columns], schema=_schema(fields))
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
        raise UnknownNameError("metadata field", field, present)
    raise UsageError(
        f"no filter by '{field}': it never holds a string, a number or a boolean in {label}",
        fix="lists and objects cannot be used in filters: give each value its own field",
    )


def _value(record: Mapping[str, Any], field: str, reserved: frozenset[str]) -> str | None:
    nested = record.get(_NESTED)
    if isinstance(nested, dict) and field in nested:
        return text_of(nested[field])
    if field in reserved:
        return None
    return text_of(field_of(record, field) if "." in field and field not in record else record.get(field))
