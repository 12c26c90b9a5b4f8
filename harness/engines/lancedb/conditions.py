"""Conditions of LanceDB's SQL on a table made outside the harness: a field is a column, or leads into a struct."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.field_paths import field_paths, nested_paths
from harness.data.filtering import Conditions, numbers_of_text
from harness.engines.external_metadata import fraction_of_text, refuse_unknown_field, shortest_number
from harness.errors import RejectedInputError

__all__ = ["condition_on", "containers_of", "find_locations", "locations_of", "plain_value", "require_readable"]

_NOTHING = "FALSE"


class Location(NamedTuple):
    """A location of a field in a table: its steps from a column inwards, and its type."""

    path: tuple[str, ...]
    kind: pa.DataType


def containers_of(schema: pa.Schema) -> list[str]:
    """Return the columns that hold further fields."""
    return [field.name for field in schema if pa.types.is_struct(field.type)]


def find_locations(field: str, schema: pa.Schema) -> list[Location]:
    """Return the locations of a field in a table."""
    containers, locations = containers_of(schema), list[Location]()
    for name in field_paths(field, containers):
        for path in nested_paths(name):
            for steps in (path, *((container, *path) for container in containers)):
                kind = _type_at(schema, steps)
                if kind is not None and Location(steps, kind) not in locations:
                    locations.append(Location(steps, kind))
    return locations


def locations_of(field: str, schema: pa.Schema) -> list[Location]:
    """Return the locations of a field in a table.

    Raises RejectedInputError if there is none, and for a column that LanceDB cannot read.
    """
    nested = [f"{name}.{inner.name}" for name in containers_of(schema) for inner in schema.field(name).type]
    locations = find_locations(field, schema) or refuse_unknown_field(field, [*schema.names, *nested])
    for location in locations:
        require_readable(location.path[0])
    return locations


def require_readable(column: str) -> None:
    """Raise RejectedInputError for a column that LanceDB cannot read: with a backtick in its name."""
    if "`" in column:
        raise RejectedInputError(
            f"the column '{column}' has a backtick in its name, and LanceDB cannot read such columns",
            fix="rename the column, or use another one",
        )


def _type_at(schema: pa.Schema, path: Sequence[str]) -> pa.DataType | None:
    fields: Mapping[str, pa.DataType] = {field.name: field.type for field in schema}
    for step in path[:-1]:
        kind = fields.get(step)
        fields = {field.name: field.type for field in kind} if kind is not None and pa.types.is_struct(kind) else {}
    return fields.get(path[-1])


def condition_on(conditions: Conditions, schema: pa.Schema) -> str:
    """Return the SQL of all conditions; raises RejectedInputError for a column whose type has no such condition."""
    clauses = (
        " OR ".join(_equal(location, text) for location in locations_of(field, schema))
        for field, text in conditions.items()
    )
    return " AND ".join(f"({clause})" for clause in clauses)


def _equal(location: Location, text: str) -> str:
    name = ".".join("`" + step.replace("`", "``") + "`" for step in location.path)
    kind = location.kind
    if pa.types.is_struct(kind):  # its fields have values, it has none
        return _NOTHING
    if _is_list(kind):
        literal = _literal(location, kind.value_type, text)
        return _NOTHING if literal is None else f"array_has({name}, {literal})"
    literal = _literal(location, kind, text)
    return _NOTHING if literal is None else f"{name} = {literal}"


def _literal(location: Location, kind: Any, text: str) -> str | None:
    """Return the literal of a type for a value with this text; None if the type has no such value."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return "'" + text.replace("'", "''") + "'"
    if pa.types.is_boolean(kind):
        return text if text in ("true", "false") else None
    numbers = numbers_of_text(text)
    if pa.types.is_integer(kind):
        limits = np.iinfo(kind.to_pandas_dtype())
        return next((str(n) for n in numbers if isinstance(n, int) and limits.min <= n <= limits.max), None)
    if pa.types.is_float64(kind) or pa.types.is_float32(kind):
        number = fraction_of_text(text, kind.to_pandas_dtype())
        return None if number is None else f"CAST({number!r} AS {'FLOAT' if pa.types.is_float32(kind) else 'DOUBLE'})"
    raise RejectedInputError(
        f"'{'.'.join(location.path)}' is a column of the type {location.kind}, by which the harness does not filter",
        fix="filter by a column of texts, numbers or booleans, or of lists of them",
    )


def plain_value(value: Any, kind: Any) -> Any:
    """Return a value as Arrow gives it, with numbers of float32 by their shortest text: 0.1, not 0.10000000149."""
    if value is None:
        return None
    if pa.types.is_float32(kind):
        return shortest_number(value, np.float32)
    if pa.types.is_struct(kind):
        return {field.name: plain_value(value[field.name], field.type) for field in kind}
    return [plain_value(element, kind.value_type) for element in value] if _is_list(kind) else value


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))
