"""Fields of documents by name: nested in records, mappings or objects, with or without the name of their container."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import orjson

CONTAINERS = ("metadata", "meta", "payload")
"""Names under which records and frameworks keep further fields of a document."""


def text_of(value: object) -> str | None:
    """Return the text by which a value is compared: as JSON writes numbers and booleans; None for other types."""
    match value:
        case str():
            return str.__str__(value) or None
        case bool() | int() | float():
            return orjson.dumps(value).decode()
        case _:
            return None


def field_paths(name: str) -> list[str]:
    """Return the names by which a field may be stored: ``metadata.source`` is also ``source``."""
    container, dot, rest = name.partition(".")
    return [name, rest] if dot and rest and container in CONTAINERS else [name]


def field_of(document: object, name: str) -> Any:
    """Return a field of a document, None if it has none.

    ``name`` is a field, or a path of fields with dots. ``metadata.source`` is found in a field of that name, in
    ``metadata``, and as ``source`` in a document whose fields are not nested; ``source`` is found in ``metadata`` too.
    """
    for path in field_paths(name):
        for container in _containers(document):
            value = _follow_path(container, path)
            if value is not None:
                return value
    return None


def field_holding(records: Iterable[Mapping[str, Any]], values: Collection[str]) -> str | None:
    """Return the first field of records, a path with dots if it is nested, that holds all of the ``values``."""
    left: dict[str, set[str]] = {}
    for record in records:
        for path, value in _fields(record):
            if value in values:
                of_field = left.setdefault(path, set(values))
                of_field.discard(value)
                if not of_field:
                    return path
    return None


def _fields(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each single value of a record."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{before}{name}.")
        elif (text := text_of(value)) is not None:
            yield f"{before}{name}", text


def _containers(document: object) -> Iterator[object]:
    yield document
    for name in CONTAINERS:
        container = _member(document, name)
        if isinstance(container, Mapping):
            yield container


def _follow_path(document: object, path: str) -> Any:
    value = _member(document, path)
    name, dot, rest = path.partition(".")
    if value is None and dot:
        inner = _member(document, name)
        return None if inner is None else _follow_path(inner, rest)
    return value


def _member(document: object, name: str) -> Any:
    return document.get(name) if isinstance(document, Mapping) else getattr(document, name, None)
