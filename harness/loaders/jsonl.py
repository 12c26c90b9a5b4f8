"""JSON Lines with documents or queries: one object a line, with ``_id``, ``text`` and perhaps ``title``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple

import orjson

from harness.loaders.problems import Problems
from harness.loaders.source import read_lines

__all__ = ["RecordBatch", "read_records"]

_BATCH_ROWS = 8192
_BATCH_BYTES = 8 << 20
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
    """Records of a JSON Lines file in batches of at most 8,192 records and about 8 MB.

    An id is a string or an integer (which becomes a string). ``text`` must be a string; a missing or null ``title`` is
    empty. Other fields are ignored, unless one looks like a misspelt ``title``. Faulty lines are noted in ``problems``
    and left out.
    """
    lines: list[int] = []
    ids: list[str] = []
    columns: tuple[list[str], ...] = tuple([] for _ in fields)
    held_bytes = 0
    for number, content in read_lines(stream, problems, notes):
        record = _parse(number, content, fields, problems)
        if record is None:
            continue
        lines.append(number)
        ids.append(record.id)
        for column, value in zip(columns, record.fields, strict=True):
            column.append(value)
        held_bytes += len(content)
        if len(lines) >= _BATCH_ROWS or held_bytes >= _BATCH_BYTES:
            yield RecordBatch(lines, ids, columns)
            lines, ids, columns, held_bytes = [], [], tuple([] for _ in fields), 0
    if lines:
        yield RecordBatch(lines, ids, columns)


def _parse(number: int, content: bytes, fields: tuple[str, ...], problems: Problems) -> _Record | None:
    try:
        values = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        problems.add(number, _explain(content, error))
        return None
    if type(values) is not dict:
        problems.add(number, f"a JSON object is expected, not {_show(values)}")
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


def _explain(content: bytes, error: orjson.JSONDecodeError) -> str:
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as undecodable:
        return f"not UTF-8: byte 0x{content[undecodable.start]:02x} in column {undecodable.start + 1}"
    if content.strip() == b"[":
        return "malformed JSON: one object on each line is expected, not a list of objects"
    return f"malformed JSON: {error.msg} in column {error.colno}"


def _wrong(values: dict[str, Any], field: str, expected: str) -> str:
    if field in values:
        return f"'{field}' is {_show(values[field])}, expected {expected}"
    near = _similar(tuple(values), field)
    hint = f" (did you mean to call '{near}' so?)" if near else ""
    return f"the field '{field}' is missing{hint}; there are: {', '.join(values) or 'none'}"


def _title_problem(values: dict[str, Any]) -> str | None:
    title = values.get("title")
    if title is not None:
        return f"'title' is {_show(title)}, expected a string"
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


def _show(value: object) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 40 else f"{text[:37]}…"
