"""One tool's export of judgments, and the steps that exports share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from harness.data.frames import described
from harness.data.judgments import unrated_note
from harness.data.python_values import is_missing
from harness.errors import DataError

Graded = dict[Any, dict[Any, Any]]
"""``{query id: {document id: grade}}``."""
_SUBJECT = "judgments"


class Export(NamedTuple):
    """The shape of an export.

    Attributes:
        used_by: who writes it.
        example: the shape in short.
        query_id: what becomes the query's id, for the reference page.
        keys: an object of this shape has one of them.
        matches: whether an object with such a key has the shape.
        judgments: its judgments; gets the object, the field of query ids that the user named (None without a name), and
            a list for notes about accepted oddities. Raises DataError for content that fits no reading, or several.
    """

    used_by: str
    example: str
    query_id: str
    keys: frozenset[str]
    matches: Callable[[Mapping[Any, Any]], bool]
    judgments: Callable[[Any, str | None, list[str]], Graded]


class Rating(NamedTuple):
    """One judgment: its position in words, its query, its document and its grade, None for a document not yet rated."""

    position: str
    query: Any
    document: Any
    grade: Any


def grouped(ratings: Iterable[Rating], notes: list[str]) -> Graded:
    """Return ratings by query; those without a grade are left out and counted in ``notes``.

    Raises DataError for a document that has two grades under a query.
    """
    graded: Graded = {}
    problems, unrated = list[str](), 0
    for position, query, document, grade in ratings:
        if is_missing(grade) or grade == "":
            unrated += 1
            continue
        before = graded.setdefault(query, {}).setdefault(document, grade)
        if before != grade:
            problems.append(
                f"{position}: document {document!r} has the grades {before} and {grade} for query {query!r}"
            )
    if problems:
        raise DataError(_SUBJECT, problems, fix="keep one grade of each document")
    if unrated:
        notes.append(unrated_note(unrated))
    return graded


def objects_under(value: Any, key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the position in words and the content of each object in the list under ``key``.

    Raises DataError for anything else there.
    """
    items = value.get(key)
    if not isinstance(items, list | tuple):
        raise DataError(_SUBJECT, [f"'{key}' is {described(items)}, expected a list"])
    for number, item in enumerate(items, 1):
        if not isinstance(item, Mapping):
            raise DataError(_SUBJECT, [f"{key} {number} is {described(item)}, expected an object"])
        yield f"{key} {number}", item


def require_field(position: str, item: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field; raises DataError if the object lacks it."""
    if name not in item:
        raise DataError(_SUBJECT, [f"{position} has no '{name}' (there are: {', '.join(map(str, item)) or 'none'})"])
    return item[name]
