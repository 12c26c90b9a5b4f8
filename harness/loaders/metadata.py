"""Metadata of documents: the fields of ``corpus.jsonl`` that filters name.

A field is looked up in a document's ``metadata`` object, as BEIR has it, and where that lacks it among the fields at
the top, those that hold the id and the searched text excepted. Its value is a string, a number or a boolean, kept as
text; null, an empty string, a list and an object count as no value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from harness.arrow import strings
from harness.errors import DataError, UnknownNameError, UsageError
from harness.loaders.problems import Problems
from harness.loaders.source import Source, read_lines
from harness.protocols import Progress
from harness.storage.cache import JSON, Cache
from harness.storage.columns import load_table

__all__ = ["prepare_metadata", "text_of"]

_SCHEME = 1
_TABLE = "metadata.arrow"
_BLOCK = 8192
_NESTED = "metadata"


def prepare_metadata(
    source: Source,
    member: str,
    fields: Sequence[str],
    *,
    reserved: Sequence[str],
    cache: Cache,
    progress: Progress | None = None,
    total: int | None = None,
) -> pa.Table:
    """``fields`` of every record of a JSON Lines member: one string column each, null where a record lacks it.

    Rows are the records in their order, as :func:`harness.loaders.prepared.prepare_texts` has them; faulty files are
    its business. ``reserved`` are fields at the top that are no metadata. The table is kept in the cache. Raises
    UnknownNameError for a field that no record has, UsageError for one that never holds a single value.
    """
    before = source.state(member)
    key: dict[str, JSON] = {
        "scheme": _SCHEME,
        "sha256": source.digest(member),
        "member": member,
        "fields": sorted(fields),
        "reserved": sorted(reserved),
    }

    def build(folder: Path) -> None:
        if progress is not None:
            progress.start(f"reading metadata of {member}", total)
        _build(folder / _TABLE, source, member, sorted(fields), frozenset(("_id", _NESTED, *reserved)), progress)
        if source.state(member) != before:
            raise DataError(source.label(member), ["changed while it was being read"], fix="try again")

    return load_table(cache.get_or_build("metadata", key, build) / _TABLE)


def text_of(value: object) -> str | None:
    """The text by which filters compare a value; None for what is none."""
    match value:
        case str():
            return value or None
        case bool() | int() | float():
            return orjson.dumps(value).decode()
        case _:
            return None


def _build(
    path: Path,
    source: Source,
    member: str,
    fields: Sequence[str],
    reserved: frozenset[str],
    progress: Progress | None,
) -> None:
    problems = Problems(source.label(member))
    schema = pa.schema([(field, pa.string()) for field in fields])
    known, filled = Counter[str](), Counter[str]()
    with (
        source.open(member) as stream,
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        lines = read_lines(stream, problems, [])
        while block := [orjson.loads(line.content) for line in islice(lines, _BLOCK)]:
            columns = [[_value(record, field, reserved) for record in block] for field in fields]
            for record in block:
                known.update(_names(record, reserved))
            for field, column in zip(fields, columns, strict=True):
                filled[field] += sum(value is not None for value in column)
            writer.write_batch(pa.record_batch([strings(one) for one in columns], schema=schema))
            if progress is not None:
                progress.advance(len(block))
    problems.raise_if_any()
    for field in fields:
        _require(field, known, filled[field], source.label(member))


def _require(field: str, known: Mapping[str, int], filled: int, label: str) -> None:
    if not known:
        raise UsageError(
            f"--filter {field}=…: the documents of {label} have no metadata",
            fix='metadata are further fields of a line: {"_id": …, "text": …, "metadata": {"section": "news"}}',
        )
    if field not in known:
        raise UnknownNameError("metadata field", field, known)
    if not filled:
        raise UsageError(
            f"--filter {field}=…: '{field}' never holds a string, a number or a boolean in {label}",
            fix="lists and objects cannot be filtered by: give each value a field of its own",
        )


def _value(record: Mapping[str, Any], field: str, reserved: frozenset[str]) -> str | None:
    nested = record.get(_NESTED)
    if isinstance(nested, dict) and field in nested:
        return text_of(nested[field])
    return None if field in reserved else text_of(record.get(field))


def _names(record: Mapping[str, Any], reserved: frozenset[str]) -> set[str]:
    nested = record.get(_NESTED)
    return (record.keys() - reserved) | (nested.keys() if isinstance(nested, dict) else set())
