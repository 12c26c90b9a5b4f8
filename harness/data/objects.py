"""Documents and queries that are objects in Python: dictionaries, lists, and tables of any library."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.columns import ColumnMap, RecordBatch, Role, text_batches
from harness.data.frames import as_table
from harness.data.problems import Problems
from harness.data.texts import TEXT_SCHEMA, ContentDigest, JoinRule, joined, note_duplicates
from harness.data.types import Ids
from harness.errors import UsageError

__all__ = ["TextColumns", "texts_of"]

_SHAPES = """one of
  {id: text} or {id: {"title": …, "text": …}}
  [{"id": …, "text": …}, …], with "title" if there are titles
  [(id, text), …] or [(id, title, text), …]
  a pandas or Polars frame, an Arrow table or a Hugging Face Dataset with such columns
Fields that are called otherwise are named: columns={"id": "key", "text": "body"}"""


class TextColumns(NamedTuple):
    """Ids and texts as columns, and the digest that names them."""

    ids: Ids
    texts: pa.ChunkedArray
    digest: str


def texts_of(value: object, subject: str, roles: Sequence[Role], named: Mapping[str, str]) -> TextColumns:
    """Return documents or queries that are an object in Python.

    Args:
        value: the object; what it may be is in the message of the error.
        subject: what it is called in messages.
        roles: what its fields are for: of an id, of a text, and perhaps of a title.
        named: role -> field where fields are called otherwise than is common; of no account for what stands at a place
            of its own, as the key of a mapping or in a tuple.

    Raises:
        UsageError: the object has none of the shapes.
        DataError: a field is missing, an id is neither text nor a whole number, or there twice; or nothing is there.
    """
    problems, lines = Problems(subject, "record"), np.empty(0, dtype=np.int64)
    records, fixed = _records(value, subject, roles)
    named = {role: field for role, field in named.items() if role not in fixed}
    batch = RecordBatch(list(range(1, len(records) + 1)), records)
    parts = []
    for texts in text_batches([batch], ColumnMap(roles, named, "columns"), problems):
        lines = np.array(texts.lines, dtype=np.int64)
        if len(texts.ids):
            parts.append(joined(texts, lines, JoinRule(), problems))
    table = pa.Table.from_batches(parts, schema=TEXT_SCHEMA)
    ids = table.column("id").combine_chunks() if parts else strings([])
    if len(ids):
        note_duplicates(ids, lines, problems)
    elif not problems.count:
        problems.add(None, "there are none")
    problems.raise_if_any()
    digest = ContentDigest()
    digest.ids.update(ids)
    for chunk in table.column("text").chunks:
        digest.texts.update(chunk)
    return TextColumns(Ids(ids), table.column("text"), digest.hexdigest())


def _records(value: object, subject: str, roles: Sequence[Role]) -> tuple[list[dict[str, Any]], set[str]]:
    """Return the records, and the roles that their places settle, so that no field has to be named."""
    id_field, text_field = roles[0].sure, roles[1].sure
    every = {role.name for role in roles}
    if isinstance(value, Mapping):
        if all(isinstance(item, str) for item in value.values()):
            return [{id_field: key, text_field: item} for key, item in value.items()], every
        if all(isinstance(item, Mapping) for item in value.values()):
            return [{**item, id_field: key} for key, item in value.items()], {roles[0].name}
        raise _unfit(value, subject)
    table = as_table(value)
    if table is not None:
        columns = [str(name) for name in (table.column_names if isinstance(table, pa.Table) else table.columns)]
        twice = sorted({name for name in columns if columns.count(name) > 1})
        if twice:
            raise UsageError(f"the {subject} have two columns '{twice[0]}'", fix="rename one")
        return _rows(table), set()
    items = list(value) if isinstance(value, Sequence | Iterator) and not isinstance(value, str | bytes) else None
    if items is not None and all(isinstance(item, Mapping) for item in items):
        return [{str(name): item[name] for name in item} for item in items], set()
    fields = {2: (id_field, text_field), 3: (id_field, "title", text_field)}
    if items is not None and all(isinstance(item, tuple | list) for item in items):
        lengths = {len(item) for item in items}
        if len(lengths) == 1 and lengths <= (fields.keys() if len(roles) > 2 else {2}):
            names = fields[lengths.pop()]
            return [dict(zip(names, item, strict=True)) for item in items], every
    raise _unfit(value, subject)


def _rows(table: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a table of any library
    """Return the rows of a table, without columns of lists and structures; the index of a frame counts if it is named.

    What is missing is None.
    """
    if isinstance(table, pa.Table):
        columns = {
            field.name: table.column(field.name).to_pylist()
            for field in table.schema
            if not pa.types.is_nested(field.type)
        }
    else:
        named = table.index.name is not None and table.index.name not in table.columns
        frame = table.reset_index() if named else table
        columns = {str(name): frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _unfit(value: object, subject: str) -> UsageError:
    kind = type(value).__name__
    items: list[object] = []
    if isinstance(value, Mapping | list | tuple):
        items = list(value.values() if isinstance(value, Mapping) else value)
    of = f" of {type(items[0]).__name__}" if items else ""
    return UsageError(f"the {subject} cannot be read from a {kind}{of}", fix=f"give {_SHAPES}")
