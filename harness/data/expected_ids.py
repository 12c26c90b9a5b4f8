"""Documents that a question expects, in the shapes in which golden sets list them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.data.columns import abbreviated
from harness.data.frames import first_of
from harness.data.python_values import as_id, is_missing

EXPECTED = ("expected_relevant_doc_ids", "expected", "relevant_doc_ids", "expected_doc_ids", "expected_ids")
"""Names of the field of a golden set that holds the expected ids."""
_IDS = ("id", "_id", "doc_id", "document_id", "chunk_id", "node_id", "corpus_id")
_GRADES = ("grade", "relevance", "rel")
_FORMS = "a list of ids, or {id: grade}"


def expected_grades(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each id that a question expects, unchecked, and its grade, 1 unless there is one.

    Args:
        value: one id, ``{id: grade}``, or a list of ids, of ``(id, grade)`` tuples or of records with an id; a list in
            which one such list is nested; None for nothing. As :func:`harness.data.python_values.plain` returns it.

    Raises:
        ValueError: The value is none of these, in words that follow the name of the field.
    """
    if is_missing(value):
        return
    if as_id(value) is not None:
        yield value, 1
    elif isinstance(value, Mapping):
        name = first_of(_IDS, list(value))  # for one document, unless it is {"id": 2}, an id with its grade
        yield from [_parse_record(value)] if name is not None and isinstance(value[name], str) else value.items()
    elif isinstance(value, list | tuple):
        yield from map(_parse_item, _ungrouped(value))
    else:
        raise ValueError(f"is {abbreviated(value)}, expected {_FORMS}")


def _ungrouped(items: list[Any] | tuple[Any, ...]) -> list[Any] | tuple[Any, ...]:
    """Return a list of ids; of a single nested list its ids."""
    filled = [item for item in items if item != []]
    if not any(isinstance(item, list) for item in filled):
        return filled
    if len(filled) == 1:
        return _ungrouped(filled[0])
    raise ValueError(f"is {abbreviated(items)}: several groups of documents are not supported yet, expected {_FORMS}")


def _parse_item(item: Any) -> tuple[Any, Any]:
    if isinstance(item, tuple) and len(item) == 2:
        return item[0], item[1]
    return _parse_record(item) if isinstance(item, Mapping) else (item, 1)


def _parse_record(record: Mapping[Any, Any]) -> tuple[Any, Any]:
    name, grade = first_of(_IDS, list(record)), first_of(_GRADES, list(record))
    return (record if name is None else record[name]), (1 if grade is None else record[grade])
