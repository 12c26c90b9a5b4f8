"""Golden sets in JSON lines, extended by documents that answer a question as well."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from harness.data.golden_fields import GoldenColumns
from harness.data.golden_set import line_id
from harness.data.problems import Finding, Problems
from harness.errors import DataError, UsageError

_BOM = "\ufeff"
_BLANK = f"{_BOM} \t\r"
_BEFORE_NAME = re.compile(rf"[{_BLANK}{{,]*")
_BEFORE_VALUE = re.compile(rf"[{_BLANK}:]*")


class ExtendedGolden(NamedTuple):
    """The lines of an extended golden set, and how many ``documents`` were added to how many ``questions``.

    ``findings`` are warnings about the labels.
    """

    content: bytes
    questions: int
    documents: int
    findings: Sequence[Finding] = ()


def extend_golden(
    path: Path,
    columns: Mapping[str, str],
    added: Mapping[str, Mapping[str, int]],
    shared_roles: Set[str] = frozenset(),
) -> ExtendedGolden:
    """Return the lines of a golden set whose questions also expect the ``added`` documents, by question, with grades.

    Only the expected ids of these questions are rewritten; all other bytes stay unchanged. A list of ids becomes
    an object of grades if a grade is not 1; a document joins the only list of alternatives. Raises UsageError for a
    file in another format, DataError for malformed lines and expectations that cannot be extended.
    """
    if path.suffix.lower() not in (".jsonl", ".ndjson") or not path.is_file():
        raise UsageError(f"'{path}' is not a file of JSON lines, which alone can be extended", fix="edit it yourself")
    problems, lines = Problems(str(path)), []
    golden_columns, questions, documents = GoldenColumns(columns, shared_roles=shared_roles), 0, 0
    for number, line in enumerate(_text(path).split("\n"), 1):
        lines.append(line)
        record = _record(line.removeprefix(_BOM), number, problems) if line.strip(_BLANK) else None
        fields = golden_columns.fields_of(record, number, problems) if record is not None else None
        if record is None or fields is None:
            continue
        name = str(record[fields.id]) if fields.id in record and record[fields.id] is not None else line_id(number)
        present = record.get(fields.expected or "") or []
        new = {document: grade for document, grade in added.get(name, {}).items() if document not in _ids(present)}
        if not new:
            continue
        if fields.expected is None or fields.expected not in record:
            problems.add(number, f"question '{name}' has no field of expected ids that can be extended")
            continue
        extended = _extended(present, new)
        if extended is None:
            problems.add(number, f"question '{name}' has several lists of alternatives, or other values than ids")
            continue
        lines[-1] = _replace_value(line, fields.expected, extended)
        questions, documents = questions + 1, documents + len(new)
    problems.raise_if_any(fix="write expected ids as a list, or as {id: grade}")
    return ExtendedGolden("\n".join(lines).encode(), questions, documents)


def _text(path: Path) -> str:
    """Return the text with its byte order mark; raises DataError if it is not UTF-8."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise DataError(str(path), ["it is not UTF-8"], fix="save it as UTF-8, and check again") from error


def _record(line: str, number: int, problems: Problems) -> dict[str, Any] | None:
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        problems.add(number, f"not JSON: {error}")
        return None
    if not isinstance(record, dict):
        problems.add(number, "not an object")
        return None
    return record


def _replace_value(line: str, field: str, value: object) -> str:
    """Return a line, a JSON object, with another value of one of its fields; the last counts if it is there twice."""
    decoder, span, position = json.JSONDecoder(), (0, 0), _BEFORE_NAME.match(line).end()  # type: ignore[union-attr]
    while not line.startswith("}", position):
        name, position = decoder.raw_decode(line, position)
        start = _BEFORE_VALUE.match(line, position).end()  # type: ignore[union-attr]
        _, position = decoder.raw_decode(line, start)
        span = (start, position) if name == field else span
        position = _BEFORE_NAME.match(line, position).end()  # type: ignore[union-attr]
    return f"{line[: span[0]]}{json.dumps(value, ensure_ascii=False)}{line[span[1] :]}"


def _ids(expected: object) -> set[str]:
    """Return all ids of an expectation."""
    if isinstance(expected, dict):
        return set(expected)
    if isinstance(expected, list):
        return {name for item in expected for name in _ids(item)}
    return {str(expected)}


def _extended(expected: object, new: Mapping[str, int]) -> object:
    """Return an expectation with further documents; None if it has another shape."""
    if isinstance(expected, dict):
        return {**expected, **new}
    ids = [expected] if isinstance(expected, str | int) else expected
    if not isinstance(ids, list):
        return None
    if len(ids) == 1 and isinstance(ids[0], list):
        return [[*ids[0], *new]] if all(grade == 1 for grade in new.values()) else None
    if not all(isinstance(item, str | int) for item in ids):
        return None
    if all(grade == 1 for grade in new.values()):
        return [*ids, *new]
    return {**dict.fromkeys(map(str, ids), 1), **new}
