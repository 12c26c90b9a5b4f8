"""What an adapter keeps beside an index of metadata: the fields themselves where the engine stores none, else their
names: an engine that is asked for a field it does not hold finds nothing, silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson
import pyarrow as pa

from harness.data.arrow import strings
from harness.data.filtering import BoolArray, matching_rows
from harness.data.types import Ids
from harness.errors import CacheError, EngineUnavailableError, RejectedInputError
from harness.store.columns import load_table, save_table

__all__ = [
    "ID_FIELD",
    "matching_documents",
    "records_of",
    "require_fields",
    "save_fields",
    "save_metadata",
    "with_ids",
]

ID_FIELD = "harness_document_id"
"""The field that holds the ids of documents in a collection that the harness leaves on a server."""

_TABLE = "metadata.arrow"
_FIELDS = "metadata-fields.json"
_INDEX_AGAIN = "index the documents with this field as metadata"
_REBUILD = "delete the folder and index again"


def save_metadata(folder: Path, metadata: pa.Table | None) -> None:
    """Write the fields of documents into the folder of an index; None writes nothing."""
    if metadata is not None:
        save_table(folder / _TABLE, metadata)


def matching_documents(folder: Path, wanted: Mapping[str, str]) -> BoolArray:
    """Return which documents match, bool (n,), by what :func:`save_metadata` wrote.

    The fields are there: see :func:`require_fields`. Raises EngineUnavailableError for a damaged file.
    """
    try:
        return matching_rows(load_table(folder / _TABLE), wanted)
    except CacheError as error:
        raise EngineUnavailableError(error.what, fix=_REBUILD) from error


def save_fields(folder: Path, metadata: pa.Table | None) -> None:
    """Write down which fields the engine was given; None writes nothing."""
    if metadata is not None:
        (folder / _FIELDS).write_bytes(orjson.dumps(metadata.column_names))


def require_fields(folder: Path, wanted: Mapping[str, str]) -> None:
    """Refuse fields of which the index holds nothing.

    Raises:
        RejectedInputError: No document was indexed with such a field.
        EngineUnavailableError: The file that names the fields is damaged.
    """
    fields = _stored_fields(folder)
    for field in wanted:
        if field not in fields:
            raise RejectedInputError(f"the index holds no metadata field '{field}'", fix=_INDEX_AGAIN)


def _stored_fields(folder: Path) -> list[str]:
    try:
        if (folder / _TABLE).exists():
            return list(load_table(folder / _TABLE).column_names)
        path = folder / _FIELDS
        return list(orjson.loads(path.read_bytes())) if path.exists() else []
    except (CacheError, orjson.JSONDecodeError) as error:
        raise EngineUnavailableError(
            f"the fields of the index in '{folder}' cannot be read: {error}", fix=_REBUILD
        ) from error


def with_ids(metadata: pa.Table | None, ids: Ids) -> pa.Table:
    """Return the metadata with the ids of the documents: the collection can be searched as an external index then."""
    column = strings(ids.to_list())
    return pa.table({ID_FIELD: column}) if metadata is None else metadata.append_column(ID_FIELD, column)


def records_of(metadata: pa.Table, start: int, stop: int) -> list[dict[str, str]]:
    """The fields that each document of the rows ``start`` to ``stop`` has, as engines take them."""
    rows = metadata.slice(start, stop - start).to_pylist()
    return [{name: value for name, value in row.items() if value is not None} for row in rows]
