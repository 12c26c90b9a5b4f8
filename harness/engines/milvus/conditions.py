"""Expressions of Milvus on a collection made outside the harness, and the text of their literals."""

from __future__ import annotations

import json
import re
from collections.abc import Collection as AnyCollection
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from harness.data.field_paths import CONTAINERS, field_paths, nested_paths
from harness.data.filtering import Conditions, numbers_of_text, values_of_text
from harness.engines.external_metadata import fraction_of_text, refuse_unknown_field
from harness.errors import RejectedInputError

__all__ = [
    "DYNAMIC",
    "FRACTIONS",
    "Location",
    "ScalarField",
    "compare",
    "condition_on",
    "containers_of",
    "escape",
    "find_locations",
    "locations_of",
]

DYNAMIC = "$meta"
"""The field that holds the fields which the schema does not declare."""
_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_INTEGERS, _TEXTS = ("INT8", "INT16", "INT32", "INT64"), ("VARCHAR", "STRING")
FRACTIONS: Mapping[str, type[np.floating[Any]]] = {"FLOAT": np.float32, "DOUBLE": np.float64}
"""Milvus's types of numbers with fractions, and the same of NumPy."""


class ScalarField(NamedTuple):
    """A field of a schema without vectors: Milvus's name of its ``kind``, and for an array of its ``element``."""

    kind: str
    element: str = ""


class Location(NamedTuple):
    """A location of a field: a field of the schema or :data:`DYNAMIC`, and the ``path`` inside its JSON, or no path."""

    field: str
    kind: ScalarField
    path: tuple[str, ...]

    @property
    def output_field(self) -> str:
        """Return the name by which a query returns it: of a dynamic field, unless expressions cannot hold its name."""
        return self.path[0] if self.field == DYNAMIC and _NAME.fullmatch(self.path[0]) else self.field


def compare(name: str, operator: str, value: object) -> str:
    """Spell a condition in Milvus's expressions; raises RejectedInputError for a text that they cannot hold."""
    return f"{name} {operator} {value}" if isinstance(value, int) else f'{name} {operator} "{escape(str(value))}"'


def escape(text: str) -> str:
    """Return text escaped for quotation marks.

    Milvus reads every other escape literally, and ends a text at a line break: it then returns nothing, or hits of
    another condition. Raises RejectedInputError for a line break.
    """
    if "\n" in text or "\r" in text:
        raise RejectedInputError(
            f"Milvus's expressions cannot hold the line break in {json.dumps(text)}", fix="filter by another value"
        )
    return text.replace("\\", "\\\\").replace('"', '\\"')


def containers_of(fields: Mapping[str, ScalarField], *, dynamic: bool) -> list[str]:
    """Return the names under which entities keep further fields: fields of JSON, and the usual dynamic fields."""
    of_json = [name for name, field in fields.items() if field.kind == "JSON"]
    return list(dict.fromkeys([*of_json, *(CONTAINERS if dynamic else ())]))


def find_locations(field: str, fields: Mapping[str, ScalarField], *, dynamic: bool) -> list[Location]:
    """Return the locations of a field in a collection."""
    containers = containers_of(fields, dynamic=dynamic)
    locations = dict[Location, None]()
    for name in field_paths(field, containers):
        for path in nested_paths(name):
            for steps in (path, *((container, *path) for container in containers)):
                locations |= dict.fromkeys(_locations_at(steps, fields, dynamic))
    return list(locations)


def locations_of(field: str, fields: Mapping[str, ScalarField], *, dynamic: bool) -> list[Location]:
    """Return the locations of a field in a collection; raises RejectedInputError if there is none."""
    return find_locations(field, fields, dynamic=dynamic) or refuse_unknown_field(field, fields)


def _locations_at(steps: Sequence[str], fields: Mapping[str, ScalarField], dynamic: bool) -> Iterator[Location]:
    first, *path = steps
    if first in fields:
        if not path or fields[first].kind == "JSON":
            yield Location(first, fields[first], tuple(path))
    elif dynamic:
        yield Location(DYNAMIC, ScalarField("JSON"), tuple(steps))


def condition_on(
    conditions: Conditions,
    fields: Mapping[str, ScalarField],
    key: str,
    lists: AnyCollection[str],
    *,
    dynamic: bool,
) -> str:
    """Return the expression of all conditions on a collection of these ``fields``.

    ``lists`` are the fields in which entities have lists; ``key`` is the primary key. Raises RejectedInputError for a
    field of a type that has no such condition, and for a text that an expression cannot hold.
    """
    clauses = []
    for field, text in conditions.items():
        locations = locations_of(field, fields, dynamic=dynamic)
        alternatives = [part for location in locations for part in _equal(location, text, field in lists)]
        name = compare(key, "==", _no_key(fields[key]))
        clauses.append(_join("or", alternatives) if alternatives else f"({name} and not ({name}))")
    return _join("and", [f"({clause})" for clause in clauses])


def _join(operator: str, parts: Sequence[str]) -> str:
    """Join expressions as a balanced tree: Milvus nests ``a or b or c``, and rejects deep nesting."""
    if len(parts) <= 2:
        return f" {operator} ".join(parts)
    half = len(parts) // 2
    return f"({_join(operator, parts[:half])}) {operator} ({_join(operator, parts[half:])})"


def _no_key(kind: ScalarField) -> object:
    return 0 if kind.kind in _INTEGERS else ""


def _equal(location: Location, text: str, has_lists: bool) -> Iterator[str]:
    name = location.field + "".join(f'["{escape(step)}"]' for step in location.path)
    kind, element = location.kind
    if kind == "JSON":
        for value in values_of_text(text):
            yield f"{name} == {_spelt(value)}"
        for value in dict.fromkeys((*map(_spelt, values_of_text(text)), *map(_spelt, numbers_of_text(text)))):
            if has_lists:
                yield f"json_contains({name}, {value})"
        return
    literal = _literal(location, element if kind == "ARRAY" else kind, text)
    if literal is not None:
        yield f"array_contains({name}, {literal})" if kind == "ARRAY" else f"{name} == {literal}"


def _literal(location: Location, kind: str, text: str) -> str | None:
    """Return the literal of a type for a value with this text; None if the type has no such value."""
    if kind in _TEXTS:
        return _spelt(text)
    if kind == "BOOL":
        return text if text in ("true", "false") else None
    if kind in _INTEGERS:
        limits = np.iinfo(kind.lower())
        numbers = (n for n in numbers_of_text(text) if isinstance(n, int) and limits.min <= n <= limits.max)
        return next(map(_spelt, numbers), None)
    if kind in FRACTIONS:  # Milvus compares elements of FLOAT arrays in double precision: 0.10000000149, not 0.1
        number = fraction_of_text(text, FRACTIONS[kind])
        return None if number is None else _spelt(float(FRACTIONS[kind](number)))
    raise RejectedInputError(
        f"the field '{location.field}' has the type {kind}, by which the harness does not filter",
        fix="filter by a field of texts, numbers, booleans or JSON, or by an array of them",
    )


def _spelt(value: str | float) -> str:
    if isinstance(value, str):
        return f'"{escape(value)}"'
    return str(value).lower() if isinstance(value, bool) else repr(value)
