"""Texts of single fields of documents, for backends that search several fields: ``fields=title^3+text``.

``title`` and ``text`` are the fields that play these roles, whatever they are called; any other name is a field of the
documents' metadata, as filters name it. A list of texts is joined by spaces; a document without the field has an empty
text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.data.arrow import strings
from harness.data.columns import TextBatch
from harness.data.problems import Problems
from harness.data.progress import Progress
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders.base import TextSource
from harness.loaders.metadata import NESTED, values_of_field
from harness.registry.field_weights import TEXT, TITLE
from harness.store.cache import Cache
from harness.store.cache_entries import note_user
from harness.store.columns import load_table

_SCHEME = 1
_TABLE = "fields.arrow"


def prepare_field_texts(
    source: TextSource, fields: Sequence[str], *, cache: Cache, progress: Progress | None, total: int, about: str = ""
) -> pa.Table:
    """Return a string column of each of the ``fields``, with a row for each of the ``total`` documents, without nulls.

    Errors as :func:`field_table`, and DataError when the source changed. The table of a source that has a key is kept
    in the cache, ``about`` as of texts.
    """
    names = sorted(fields)
    if source.key is None:
        table = field_table(_batches(source, progress, total), names, source.label)
    else:
        key = {"scheme": _SCHEME, **source.key, "fields": names}

        def build(folder: Path) -> None:
            with (
                source.unchanged(),
                pa.OSFile(str(folder / _TABLE), "wb") as sink,
                pa.ipc.new_file(sink, _schema(names)) as writer,
            ):
                for batch in _columns(_batches(source, progress, total), names, source.label):
                    writer.write_batch(batch)

        entry = cache.get_or_build("fields", key, build, about=about)
        note_user(entry, about)
        table = load_table(entry / _TABLE)
    if table.num_rows != total:
        raise DataError(source.label, ["changed since its texts were read"], fix="try again")
    return table


def field_table(batches: Iterable[TextBatch], fields: Sequence[str], label: str) -> pa.Table:
    """Return a string column of each of the ``fields``, without nulls.

    Raises UnknownNameError for a field that no document has, UsageError for a field that is empty in all documents.
    """
    return pa.Table.from_batches(_columns(batches, fields, label), schema=_schema(fields))


def _batches(source: TextSource, progress: Progress | None, total: int) -> Iterator[TextBatch]:
    problems = Problems(source.label, source.unit)
    if progress is not None:
        progress.start(f"reading fields of {source.name}", total)
    for batch in source.read(problems, []):
        if len(batch.ids):
            yield batch
        if progress is not None:
            progress.advance(len(batch.ids))
    problems.raise_if_any()


def _columns(batches: Iterable[TextBatch], fields: Sequence[str], label: str) -> Iterator[pa.RecordBatch]:
    filled, present = Counter[str](), {TITLE: False, TEXT: True}
    for batch in batches:
        present[TITLE] |= batch.titles is not None
        columns = [_texts(batch, field) for field in fields]
        for record in batch.records or ():
            nested = record.get(NESTED)
            names = (record.keys() - batch.used - {NESTED}) | (nested.keys() if isinstance(nested, dict) else set())
            present.update(dict.fromkeys(map(str, names), True))
        for field, column in zip(fields, columns, strict=True):
            filled[field] += sum(map(bool, column))
        yield pa.record_batch([strings(column) for column in columns], schema=_schema(fields))
    names_of_fields = [name for name, is_present in present.items() if is_present]
    for field in fields:
        if filled[field]:
            continue
        if field not in names_of_fields:
            raise UnknownNameError("field of documents", field, names_of_fields, of=label)
        raise UsageError(
            f"the field '{field}' holds no text in any document of {label}",
            fix="leave it out, or name a field that holds texts",
        )


def _texts(batch: TextBatch, field: str) -> list[str]:
    if field == TEXT:
        return [text or "" for text in batch.texts]
    if field == TITLE and batch.titles is not None:
        return [title or "" for title in batch.titles]
    records: Sequence[Mapping[str, Any]] = batch.records or [{}] * len(batch.ids)
    return [" ".join(values_of_field(record, field, batch.used | {NESTED})) for record in records]


def _schema(fields: Sequence[str]) -> pa.Schema:
    return pa.schema([(field, pa.string()) for field in fields])
