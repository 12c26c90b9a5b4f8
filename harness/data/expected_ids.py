"""Expected documents of a question, in every form in which golden sets list them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from harness.data.columns import abbreviated
from harness.data.frames import first_of
from harness.data.python_values import as_id, is_missing

_IDS = ("id", "_id", "doc_id", "document_id", "chunk_id", "node_id", "corpus_id")
_GRADES = ("grade", "relevance", "rel")
_FORMS = "a list of ids, or {id: grade}"


class GradedId(NamedTuple):
    """An expected id and its grade, both unchecked.

    Ids with the same ``group`` are alternatives. The group is None for an id outside all inner lists.
    """

    id: Any
    grade: Any
    group: int | None = None


def expected_grades(value: Any) -> Iterator[GradedId]:
    """Yield each expected id of a question with its grade, which is 1 by default.

    Args:
        value: One id, ``{id: grade}``, or a list. Elements of a list are ids, ``(id, grade)`` tuples, records with an
            id, or lists of alternatives in these forms; a list may be the only element of another list. None stands
            for no expectation. Values are as :func:`harness.data.python_values.plain` returns them.

    Raises:
        ValueError: The value has another form. The message continues a sentence that begins with the field's name.
    """
    if is_missing(value):
        return
    if as_id(value) is not None:
        yield GradedId(value, 1)
    elif isinstance(value, Mapping):
        name = first_of(_IDS, list(value))  # for one document, unless it is {"id": 2}, an id with its grade
        if name is not None and isinstance(value[name], str):
            yield _parse_record(value)
        else:
            yield from (GradedId(item, grade) for item, grade in value.items())
    elif isinstance(value, list | tuple):
        has_lists = any(isinstance(item, list) for item in value)
        for group, item in enumerate(_unwrapped(value) if has_lists else value):
            if isinstance(item, list):
                yield from (_parse_item(member)._replace(group=group) for member in item)
            else:
                yield _parse_item(item)
    else:
        raise ValueError(f"is {abbreviated(value)}, expected {_FORMS}")


def _unwrapped(items: Sequence[Any]) -> Sequence[Any]:
    """Return the innermost list of lists, without outer lists of one element; nothing for a list of empty lists."""
    filled = _without_empty(items)
    while len(filled) == 1 and isinstance(filled[0], list) and any(isinstance(item, list) for item in filled[0]):
        filled = _without_empty(filled[0])
    if any(isinstance(member, list) for item in filled if isinstance(item, list) for member in item):
        raise ValueError(f"is {abbreviated(items)}: lists are nested too deeply, expected lists of alternatives")
    return filled


def _without_empty(items: Sequence[Any]) -> Sequence[Any]:
    """Return a list without empty lists; raises ValueError if it has other elements next to an empty list."""
    filled = [item for item in items if item != []]
    if filled and len(filled) < len(items):
        raise ValueError(f"is {abbreviated(items)}: an inner list is empty, expected one alternative or more in each")
    return filled


def _parse_item(item: Any) -> GradedId:
    if isinstance(item, tuple) and len(item) == 2:
        return GradedId(item[0], item[1])
    return _parse_record(item) if isinstance(item, Mapping) else GradedId(item, 1)


def _parse_record(record: Mapping[Any, Any]) -> GradedId:
    name, grade = first_of(_IDS, list(record)), first_of(_GRADES, list(record))
    return GradedId(record if name is None else record[name], 1 if grade is None else record[grade])
