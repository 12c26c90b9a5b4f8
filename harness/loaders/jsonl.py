"""JSON Lines with documents or queries: one object a line, with ``_id``, ``text`` and perhaps ``title``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

import orjson

from harness.loaders.problems import Problems
from harness.loaders.source import Block, is_blank, note_blank, read_blocks

__all__ = ["RecordBatch", "explain_malformed", "read_records", "shown"]

_ALIASES: Mapping[str, tuple[str, ...]] = {
    "_id": ("id", "docid", "doc_id", "document_id", "qid", "query_id", "pid", "docno"),
    "text": ("contents", "content", "body", "passage", "query", "question"),
    "title": ("headline", "heading"),
}
_NEAR = 0.8


class RecordBatch(NamedTuple):
    """Some consecutive records: the line of each, its id, and one list of values per wanted field."""

    lines: list[int]
    ids: list[str]
    fields: tuple[list[str], ...]


class _Record(NamedTuple):
    id: str
    fields: tuple[str, ...]


def read_records(
    stream: BinaryIO, fields: tuple[str, ...], problems: Problems, notes: list[str]
) -> Iterator[RecordBatch]:
    """Records of a JSON Lines file in batches of at most 8,192 records and about 4 MB.

    An id is a string or an integer (which becomes a string). ``text`` must be a string; a missing or null ``title`` is
    empty. Other fields are ignored, unless one looks like a misspelt ``title``. Faulty lines are noted in ``problems``
    and left out; blank lines are counted in ``notes``.
    """
    blank = 0
    for block in read_blocks(stream, problems, notes):
        batch = _read_plain(block, fields)
        if batch is None:
            batch = _read_careful(block, fields, problems)
            blank += sum(map(is_blank, block.lines))
        if batch.lines:
            yield batch
    note_blank(blank, notes)


def _read_plain(block: Block, fields: tuple[str, ...]) -> RecordBatch | None:
    """The records of a block in which every line is an object that has an id and all fields, all strings; else None.

    Three times as fast as :func:`_read_careful`, which says what is wrong with the others.
    """
    try:
        records = list(map(orjson.loads, block.lines))
        ids = [record["_id"] for record in records]
        columns = tuple([record[field] for record in records] for field in fields)
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return None
    if any(set(map(type, values)) != {str} for values in (ids, *columns)):
        return None
    return RecordBatch(list(range(block.first, block.first + len(ids))), ids, columns)


def _read_careful(block: Block, fields: tuple[str, ...], problems: Problems) -> RecordBatch:
    batch = RecordBatch([], [], tuple([] for _ in fields))
    for number, content in enumerate(block.lines, block.first):
        record = None if is_blank(content) else _parse(number, content, fields, problems)
        if record is not None:
            batch.lines.append(number)
            batch.ids.append(record.id)
            for column, value in zip(batch.fields, record.fields, strict=True):
                column.append(value)
    return batch


def _parse(number: int, content: bytes, fields: tuple[str, ...], problems: Problems) -> _Record | None:
    try:
        values = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        problems.add(number, explain_malformed(content, error))
        return None
    if type(values) is not dict:
        problems.add(number, f"a JSON object is expected, not {shown(values)}")
        return None
    record_id = values.get("_id")
    if type(record_id) is not str:
        if type(record_id) is not int:
            problems.add(number, _wrong(values, "_id", "a string or an integer"))
            return None
        record_id = str(record_id)
    found: list[str] = []
    for field in fields:
        value = values.get(field)
        if type(value) is not str:
            problem = _title_problem(values) if field == "title" else _wrong(values, field, "a string")
            if problem is not None:
                problems.add(number, problem)
                return None
            value = ""
        found.append(value)
    return _Record(record_id, tuple(found))


def explain_malformed(content: bytes, error: orjson.JSONDecodeError) -> str:
    """Why a line is no JSON object, in words, with the column."""
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        return f"not UTF-8: byte 0x{content[undecodable.start]:02x} in column {undecodable.start + 1}"
    if content.strip() == b"[":
        return "malformed JSON: one object on each line is expected, not a list of objects"
    return f"malformed JSON: {error.msg} in column {error.colno}"


def _wrong(values: dict[str, Any], field: str, expected: str) -> str:
    if field in values:
        return f"'{field}' is {shown(values[field])}, expected {expected}"
    near = _similar(tuple(values), field)
    hint = f"; rename '{near}' to '{field}'?" if near else ""
    return f"the field '{field}' is missing (there are: {', '.join(values) or 'none'}){hint}"


def _title_problem(values: dict[str, Any]) -> str | None:
    title = values.get("title")
    if title is not None:
        return f"'title' is {shown(title)}, expected a string"
    near = None if "title" in values else _misspelt_title(tuple(values))
    return f"'{near}' looks like a misspelt 'title'" if near else None


@lru_cache(maxsize=256)
def _similar(keys: tuple[str, ...], field: str) -> str | None:
    aliases = [key for key in keys if key.lower().strip("_") in (field.strip("_"), *_ALIASES[field])]
    near = aliases or difflib.get_close_matches(field, keys, n=1, cutoff=0.6)
    return near[0] if near else None


@lru_cache(maxsize=256)
def _misspelt_title(keys: tuple[str, ...]) -> str | None:
    near = difflib.get_close_matches("title", {key.lower() for key in keys}, n=1, cutoff=_NEAR)
    return next((key for key in keys if near and key.lower() == near[0]), None)


def shown(value: object) -> str:
    """A value of a JSON line as a message quotes it, at most 40 characters."""
    text = orjson.dumps(value).decode()
    return text if len(text) <= 40 else f"{text[:37]}…"
