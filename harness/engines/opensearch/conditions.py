"""Clauses of filters on an index made outside the harness: the mapping decides how a field is compared."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from harness.data.field_paths import CONTAINERS, field_paths
from harness.data.filtering import Conditions, numbers_of_text
from harness.engines.external_metadata import fraction_of_text, refuse_unknown_field, shortest_number
from harness.errors import RejectedInputError

__all__ = ["MappedField", "clauses_of", "filterable_fields", "mapped_fields", "plain_value"]

_INTEGERS: Mapping[str, type[np.integer[Any]]] = {
    "byte": np.int8,
    "short": np.int16,
    "integer": np.int32,
    "long": np.int64,
    "unsigned_long": np.uint64,
}
"""Types of whole numbers, and the same of NumPy; the server rejects a query for a number outside the type's range."""
_FRACTIONS: Mapping[str, type[np.floating[Any]]] = {
    "half_float": np.float16,
    "float": np.float32,
    "double": np.float64,
    "scaled_float": np.float64,
}
"""Types of numbers with fractions, and the type of NumPy in which the server compares them."""


class MappedField(NamedTuple):
    """A field of a mapping: its path, its mapping, and whether it is inside an object of the type ``nested``."""

    name: str
    mapping: Mapping[str, Any]
    nested: bool = False

    @property
    def type(self) -> str:
        """Return the type; an object with further fields has none."""
        return str(self.mapping.get("type", "object"))


def mapped_fields(mapping: Mapping[str, Any], prefix: str = "", *, nested: bool = False) -> Iterator[MappedField]:
    """Yield all fields of a mapping, also those inside objects and of multi-fields."""
    for name, field in (mapping.get("properties") or {}).items():
        yield MappedField(prefix + name, field, nested)
        inner = {"properties": {**(field.get("properties") or {}), **(field.get("fields") or {})}}
        yield from mapped_fields(inner, f"{prefix}{name}.", nested=nested or field.get("type") == "nested")


def filterable_fields(field: str, mapping: Mapping[str, Any]) -> list[MappedField]:
    """Return the fields of an index by which a field of the metadata is compared: a text has one for its keywords.

    Raises RejectedInputError for a field that the index does not have, or cannot compare exactly.
    """
    fields = {mapped.name: mapped for mapped in mapped_fields(mapping)}
    names = [f"{prefix}{name}" for name in field_paths(field) for prefix in ("", *(f"{name}." for name in CONTAINERS))]
    present = [fields[name] for name in names if name in fields]
    if not present:
        refuse_unknown_field(field, fields)
    usable, problems = list[MappedField](), list[str]()
    for mapped in present:
        target = fields.get(str(mapped.mapping.get("path")), mapped) if mapped.type == "alias" else mapped
        inner = (fields[f"{target.name}.{name}"] for name in target.mapping.get("fields") or {})
        candidates = [target, *inner] if target.type == "text" else [target]
        reasons = [_unusable(candidate) for candidate in candidates]
        usable += [candidate for candidate, reason in zip(candidates, reasons, strict=True) if not reason][:1]
        problems += reasons[:1]
    if not usable:
        raise RejectedInputError(
            problems[0], fix="map the field as keyword, a number or boolean (or add a field of the type keyword to it)"
        )
    return usable


def _unusable(field: MappedField) -> str:
    """Return why values of a field cannot be compared exactly; "" if they can."""
    mapping = field.mapping
    if field.nested:
        return f"the field '{field.name}' is inside a nested object, by which the harness does not filter"
    if field.type == "text":
        return f"the text of the field '{field.name}' is analysed, so that its values cannot be compared"
    if field.type not in ("keyword", "boolean", *_INTEGERS, *_FRACTIONS):
        return f"the field '{field.name}' has the type {field.type}, by which the harness does not filter"
    if mapping.get("normalizer"):
        return (
            f"the field '{field.name}' changes its values ('{mapping['normalizer']}'), so that they cannot be compared"
        )
    if not mapping.get("index", True) or not mapping.get("doc_values", True):
        return f"the values of the field '{field.name}' are not indexed"
    return ""


def clauses_of(conditions: Conditions, mapping: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a clause for each field, which does not score; raises as :func:`filterable_fields`.

    Raises RejectedInputError also for a text that is too long for the index.
    """
    clauses = list[Mapping[str, Any]]()
    for field, text in conditions.items():
        terms = [_term(mapped, text) for mapped in filterable_fields(field, mapping)]
        clauses.append(terms[0] if len(terms) == 1 else {"bool": {"should": terms, "minimum_should_match": 1}})
    return clauses


def _term(field: MappedField, text: str) -> Mapping[str, Any]:
    value = _value(field, text)
    return {"match_none": {}} if value is None else {"term": {field.name: {"value": value}}}


def _value(field: MappedField, text: str) -> str | int | float | bool | None:
    """Return the value of the field's type that has this text; None if the type has no such value."""
    if field.type == "keyword":
        longest = field.mapping.get("ignore_above")
        if longest is not None and len(text) > int(longest):
            raise RejectedInputError(
                f"the field '{field.name}' ignores values of more than {longest} characters, and a filter has one of "
                f"{len(text)}",
                fix="raise ignore_above in the mapping and index again, or filter by another field",
            )
        return text
    if field.type == "boolean":
        return text == "true" if text in ("true", "false") else None
    if field.type in _INTEGERS:
        limits = np.iinfo(_INTEGERS[field.type])
        numbers = (n for n in numbers_of_text(text) if isinstance(n, int) and limits.min <= n <= limits.max)
        return next(numbers, None)
    number = fraction_of_text(text, _FRACTIONS[field.type])
    return number if number == plain_value(field, number) else None


def plain_value(field: MappedField, value: Any) -> Any:
    """Return a value as the server gives it, with fractions by their shortest text: 0.1, not 0.10000000149.

    A value of the type ``scaled_float`` is rounded as the server rounds it.
    """
    kind = _FRACTIONS.get(field.type)
    if kind is None or value is None:
        return value
    if field.type == "scaled_float":
        factor = float(field.mapping["scaling_factor"])
        scaled = value * factor
        return math.floor(scaled + 0.5) / factor if abs(scaled) < 2**63 else math.copysign(math.inf, value)
    return shortest_number(value, kind)
