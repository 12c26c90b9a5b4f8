"""Searched fields and their weights, as a backend's ``fields`` parameter names them: ``title^3+text``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

TITLE, TEXT = "title", "text"
"""The fields that every dataset may have; any other name is a field of the documents' metadata."""
_NUMBER = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(e-?[0-9]+)?", re.ASCII)
_LEAST, _MOST = 1e-6, 1e6
_EXAMPLE = "fields=title^3+text, for example"


class FieldWeight(NamedTuple):
    """A searched field: its name, and the number by which its score is multiplied."""

    name: str
    weight: float

    def __str__(self) -> str:
        return self.name if self.weight == 1.0 else f"{self.name}^{self.weight:.9g}"


def parse_fields(text: str) -> tuple[FieldWeight, ...]:
    """Return the fields of ``title^3+text`` in their order; none for an empty text, which means title and text as one.

    A field without a weight has the weight 1. Raises ValueError for an empty or repeated name, and for a weight that is
    not a number from 0.000001 to 1,000,000.
    """
    fields = [_read_field(part.strip(), text) for part in text.split("+")] if text.strip() else []
    names = [field.name for field in fields]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ValueError(f"'{text}' names the field '{repeated}' twice: give it one weight, {_EXAMPLE}")
    return tuple(fields)


def _read_field(part: str, text: str) -> FieldWeight:
    name, caret, weight_text = (piece.strip() for piece in part.partition("^"))
    if not name:
        raise ValueError(f"'{text}' has a field without a name: {_EXAMPLE}")
    if not caret:
        return FieldWeight(name, 1.0)
    if weight_text.startswith("-") and _NUMBER.fullmatch(weight_text[1:]):
        raise ValueError(f"the weight of '{name}' is {weight_text}, and engines refuse weights below 0: {_EXAMPLE}")
    if not _NUMBER.fullmatch(weight_text.lower()):
        raise ValueError(f"the weight of '{name}' is '{weight_text}', which is not a number: {_EXAMPLE}")
    weight = float(weight_text)
    if weight == 0.0:
        raise ValueError(f"the weight of '{name}' is 0: leave the field out, or give it a weight above 0")
    if not _LEAST <= weight <= _MOST:
        raise ValueError(f"the weight of '{name}' is {weight_text}: give a number from 0.000001 to 1,000,000")
    return FieldWeight(name, weight)


def fields_of(parameters: Mapping[str, object]) -> tuple[FieldWeight, ...]:
    """Return the searched fields of a backend's ``parameters``; none without the parameter ``fields``."""
    return parse_fields(str(parameters.get("fields", "")))


def format_fields(fields: tuple[FieldWeight, ...]) -> str:
    """Return the text that :func:`parse_fields` reads, without spaces and without weights of 1."""
    return "+".join(map(str, fields))


def field_names(text: str) -> str:
    """Return the same fields without weights, which is all that an index depends on."""
    return "+".join(field.name for field in parse_fields(text))
