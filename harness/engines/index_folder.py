"""Files that the base class keeps in an index's folder: the manifest of a finished build, and metadata to filter by.

The manifest is written last: an index without it was interrupted. It is compared when the index is opened again: an
index of other parameters or documents would answer without an error. Metadata are kept next to the index of an engine
that stores none; for other engines only their names are kept: given an unknown field, an engine finds nothing, without
an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa

from harness.data.filtering import BoolArray, matching_rows
from harness.data.types import Ids, Int32Array
from harness.errors import CacheError, EngineUnavailableError, RejectedInputError
from harness.registry.parameters import ParameterValue
from harness.store import disk
from harness.store.columns import load_table, save_table

MANIFEST = "harness-index.json"
ID_FIELD = "harness_document_id"
"""The field that holds the ids of documents in a collection that the harness leaves on a server."""
REBUILD = "delete the folder and index again"
"""Remedy for an index of the harness that cannot be used."""
_FORMAT = 2
_TABLE = "metadata.arrow"
_FIELDS = "metadata-fields.json"


def allocated_bytes(folder: Path) -> int:
    """Return the bytes of the blocks that the files in ``folder`` take on disk, without the harness's manifest."""
    return disk.allocated_bytes(folder, leave_out=MANIFEST)


def write_manifest(
    folder: Path,
    engine: str,
    parameters: Mapping[str, ParameterValue],
    ids: Ids,
    *,
    indexed: int,
    deleted: Int32Array | None = None,
) -> None:
    """Write the manifest of a finished index through a temporary name, so that it is complete or missing.

    ``indexed`` is the engine's own count of its documents; ``deleted`` are rows of documents that were deleted since
    the build.
    """
    content = {"format": _FORMAT, "engine": engine, "parameters": dict(parameters), "documents": len(ids)}
    content |= {"ids_sha256": _digest(ids), "indexed": indexed}
    if deleted is not None and len(deleted):
        content["deleted"] = deleted.tolist()
    temporary = folder / f"{MANIFEST}.tmp"
    temporary.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS))
    temporary.replace(folder / MANIFEST)


def check_manifest(
    folder: Path, engine: str, parameters: Mapping[str, ParameterValue], ids: Ids, *, free: Iterable[str] = ()
) -> int | None:
    """Return the number of documents that the index in ``folder`` held when it was finished; None if it is empty.

    Args:
        folder: Folder with an index of exactly this engine and these documents, or empty.
        engine: The engine's name.
        parameters: Parameters with which the index must have been built.
        ids: Ids of the documents, in the order of their rows.
        free: Names of parameters that may differ because they do not change the index.

    Raises:
        EngineUnavailableError: The build was interrupted, or the manifest is damaged.
        RejectedInputError: It is a different index.
    """
    path = folder / MANIFEST
    if not path.exists():
        if any(folder.iterdir()):
            raise EngineUnavailableError(f"'{folder}' holds an index that was never finished", fix=REBUILD)
        return None
    try:
        stored = orjson.loads(path.read_bytes())
        built_with: dict[str, ParameterValue] = dict(stored["parameters"])
        kind, content = (stored["format"], stored["engine"]), (stored["documents"], stored["ids_sha256"])
        indexed = int(stored["indexed"])
    except (KeyError, TypeError, ValueError) as error:
        raise EngineUnavailableError(f"'{path}' is damaged: {error}", fix=REBUILD) from error
    if kind != (_FORMAT, engine):
        raise RejectedInputError(f"'{folder}' holds an index of '{kind[1]}', format {kind[0]}", fix=REBUILD)
    if content != (len(ids), _digest(ids)):
        raise RejectedInputError(
            f"'{folder}' holds an index of {content[0]} other documents, not of these {len(ids)}", fix=REBUILD
        )
    other = [
        f"{name}: built with {built_with.get(name)!r}, asked for {parameters.get(name)!r}"
        for name in sorted({*built_with, *parameters} - set(free))
        if built_with.get(name) != parameters.get(name)
    ]
    if other:
        raise RejectedInputError(f"'{folder}' holds an index with other parameters ({'; '.join(other)})", fix=REBUILD)
    return indexed


def deleted_rows(folder: Path) -> Int32Array:
    """Return the deleted rows in the manifest of a finished index (int32, ascending)."""
    stored = orjson.loads((folder / MANIFEST).read_bytes())
    return np.array(stored.get("deleted", []), dtype=np.int32)


def _digest(ids: Ids) -> str:
    digest = hashlib.sha256()
    for doc_id in ids.to_list():
        text = doc_id.encode()
        digest.update(len(text).to_bytes(8, "little"))
        digest.update(text)
    return digest.hexdigest()


def save_metadata(folder: Path, metadata: pa.Table, *, values: bool = True) -> None:
    """Write the fields of documents, or only their names, into the folder of an index."""
    if values:
        save_table(folder / _TABLE, metadata)
    else:
        (folder / _FIELDS).write_bytes(orjson.dumps(metadata.column_names))


def matching_documents(folder: Path, conditions: Mapping[str, str]) -> BoolArray:
    """Return which documents match, bool (n,), from the file of :func:`save_metadata`.

    The fields must exist: see :func:`require_fields`. Raises EngineUnavailableError for a damaged file.
    """
    try:
        return matching_rows(load_table(folder / _TABLE), conditions)
    except CacheError as error:
        raise EngineUnavailableError(error.problem, fix=REBUILD) from error


def saved_fields(folder: Path) -> list[str]:
    """Return the names of the index's fields, in their order.

    Raises EngineUnavailableError if the file that names them is damaged.
    """
    try:
        if (folder / _TABLE).exists():
            return list(load_table(folder / _TABLE).column_names)
        return list(orjson.loads((folder / _FIELDS).read_bytes())) if (folder / _FIELDS).exists() else []
    except (CacheError, orjson.JSONDecodeError) as error:
        problem = f"the fields of the index in '{folder}' cannot be read: {error}"
        raise EngineUnavailableError(problem, fix=REBUILD) from error


def field_columns(names: Iterable[str]) -> dict[str, str]:
    """Return a plain column name for each field: its own may contain a dot, or differ from another's only by case."""
    return {name: f"field_{number}" for number, name in enumerate(names)}


def require_fields(folder: Path, conditions: Mapping[str, str]) -> None:
    """Refuse fields that no document was indexed with; raises RejectedInputError, or as :func:`saved_fields`."""
    fields = saved_fields(folder)
    for field in conditions:
        if field not in fields:
            raise RejectedInputError(
                f"the index holds no metadata field '{field}'", fix="index the documents with this field as metadata"
            )
