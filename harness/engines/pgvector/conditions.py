"""Conditions of SQL on a table made outside the harness: a field is a column, or leads into a column of JSON."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from harness.data.field_paths import field_paths, nested_paths
from harness.data.filtering import Conditions, numbers_of_text, values_of_text
from harness.engines.external_metadata import refuse_unknown_field
from harness.engines.pgvector.session import quoted, require_psycopg

__all__ = [
    "JSON_TYPES",
    "BoundValues",
    "Location",
    "condition_on",
    "find_locations",
    "is_text",
    "json_of",
    "locations_of",
]

JSON_TYPES = ("json", "jsonb")
_INTEGERS = ("smallint", "integer", "bigint")
_NOTHING = "FALSE"
_TEXT = re.compile(r"text|character varying(\(\d+\))?")
_PADDED = re.compile(r"bpchar|character(\(\d+\))?")
"""Types of texts that PostgreSQL compares without the blanks at their end."""


class Location(NamedTuple):
    """A location of a field: a ``column`` with its type ``kind``, and the ``path`` inside its JSON, or no path."""

    column: str
    kind: str
    path: tuple[str, ...]


class BoundValues:
    """Values of a statement, and their placeholders, numbered from ``first``."""

    def __init__(self, first: int) -> None:
        self.values: list[object] = []
        self._first = first

    def bind(self, value: object) -> str:
        """Add a value; return its placeholder."""
        self.values.append(value)
        return f"${self._first + len(self.values) - 1}"


def find_locations(field: str, columns: Mapping[str, str]) -> list[Location]:
    """Return the locations of a field in a table of these ``columns`` (name to type)."""
    of_json = [name for name, kind in columns.items() if kind in JSON_TYPES]
    locations = dict[Location, None]()
    for name in field_paths(field, of_json):
        for column, *path in nested_paths(name):
            if column in columns and (not path or column in of_json):
                locations[Location(column, columns[column], tuple(path))] = None
        locations |= dict.fromkeys(
            Location(column, columns[column], path) for column in of_json for path in nested_paths(name)
        )
    return list(locations)


def locations_of(field: str, columns: Mapping[str, str]) -> list[Location]:
    """Return the locations of a field in a table; raises RejectedInputError if there is none."""
    return find_locations(field, columns) or refuse_unknown_field(field, columns)


def is_text(kind: str) -> bool:
    """Return whether a type is one of texts; an array of texts is not."""
    return bool(_TEXT.fullmatch(kind) or _PADDED.fullmatch(kind))


def json_of(location: Location) -> str:
    """Return the expression that reads a column as JSON; texts without the blanks that fill up ``char``."""
    column, element = quoted(location.column), location.kind.removesuffix("[]")
    if not _PADDED.fullmatch(element):
        return f"to_jsonb({column})"
    return f"to_jsonb({column}::text[])" if element != location.kind else f"to_jsonb({column}::text)"


def condition_on(
    conditions: Conditions, columns: Mapping[str, str], lists: Collection[str], bound: BoundValues
) -> list[str]:
    """Return a condition for each field; the values are added to ``bound``.

    Columns of texts, whole numbers, booleans and ``text[]`` are compared as such, so that their indexes can serve;
    JSON by containment; other columns as the JSON that PostgreSQL makes of them. ``lists`` are the fields in which
    documents have lists.
    """
    return [
        "("
        + " OR ".join(_equal(location, text, bound, field in lists) for location in locations_of(field, columns))
        + ")"
        for field, text in conditions.items()
    ]


def _equal(location: Location, text: str, bound: BoundValues, has_lists: bool) -> str:
    column, kind = quoted(location.column), location.kind
    if "\0" in text:  # PostgreSQL has no such text
        return _NOTHING
    if _PADDED.fullmatch(kind) and text.endswith(" "):  # it would equal the text without the blank
        return _NOTHING
    if is_text(kind):
        return f"{column} = {bound.bind(text)}"
    if kind == "text[]":
        return f"({column} @> ARRAY[{bound.bind(text)}]::text[] AND array_ndims({column}) = 1)"
    if kind in _INTEGERS:
        number = next((number for number in numbers_of_text(text) if isinstance(number, int)), None)
        return _NOTHING if number is None else f"{column} = {bound.bind(number)}"
    if kind == "boolean":
        return f"{column} = {bound.bind(text == 'true')}" if text in ("true", "false") else _NOTHING
    contents = [_nested(location.path, value) for value in values_of_text(text)]
    if has_lists and location.path:
        contents += [_nested(location.path, [value]) for value in values_of_text(text)]
    to_json = require_psycopg("psycopg.types.json").Jsonb
    return " OR ".join(f"{json_of(location)} @> {bound.bind(to_json(content))}" for content in contents)


def _nested(path: Sequence[str], value: object) -> object:
    for step in reversed(path):
        value = {step: value}
    return value
