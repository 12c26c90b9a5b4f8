"""Fields of documents by name: nested in records, mappings or objects, with or without the name of their container."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

CONTAINERS = ("metadata", "meta", "payload")
"""Names under which records and frameworks keep further fields of a document."""


def text_of(value: object) -> str | None:
    """Return the text by which a value is compared: as JSON writes numbers and booleans.

    None for values of other types, and for numbers that JSON does not have.
    """
    match value:
        case str():
            return str.__str__(value) or None
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return orjson.dumps(float(value)).decode() if math.isfinite(value) else None
        case _:
            return None


def field_paths(name: str, containers: Sequence[str] = CONTAINERS) -> list[str]:
    """Return the names by which a field may be stored: ``metadata.source`` is also ``source``."""
    container, dot, rest = name.partition(".")
    return [name, rest] if dot and rest and container in containers else [name]


def nested_paths(name: str) -> list[tuple[str, ...]]:
    """Return the ways in which a name with dots leads into objects, from one step to as many as it has parts.

    Only the last step may hold dots: ``a.b.c``, then ``a``, ``b.c``, then ``a``, ``b``, ``c``.
    """
    parts = name.split(".")
    return [(*parts[:depth], ".".join(parts[depth:])) for depth in range(len(parts))]


def field_of(document: object, name: str) -> Any:
    """Return a field of a document, None if it has none.

    ``name`` is a field, or a path of fields with dots. ``metadata.source`` is found in a field of that name, in
    ``metadata``, and as ``source`` in a document whose fields are not nested; ``source`` is found in ``metadata`` too.
    """
    return next(occurrences(document, name), None)


def values_of(document: object, name: str, containers: Sequence[str] = CONTAINERS) -> Iterator[Any]:
    """Yield the values of a field of a document: of a list, each element.

    ``name`` is as in :func:`field_of`. A field that occurs both at the top and in one of the ``containers`` has the
    values of both.
    """
    for value in occurrences(document, name, containers):
        if isinstance(value, list | tuple):
            yield from value
        else:
            yield value


def occurrences(document: object, name: str, containers: Sequence[str] = CONTAINERS) -> Iterator[Any]:
    """Yield the values of a field of a document as :func:`values_of` does, but a list as one value."""
    for path in field_paths(name, containers):
        for container in _containers(document, containers):
            value = _follow_path(container, path)
            if value is not None:
                yield value


def field_names(records: Iterable[Mapping[str, Any]]) -> dict[str, None]:
    """Return the fields of records that have a single value, as paths with dots for nested fields, in their order."""
    return {path: None for record in records for path, _ in _fields(record)}


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


def qualified(field: str, names: Iterable[str]) -> list[str]:
    """Return names of fields with the container that ``field`` begins with, as it may name them; none without one."""
    container, dot, _ = field.partition(".")
    return [f"{container}.{name}" for name in names] if dot and container in CONTAINERS else []


def fields_having(record: Mapping[str, Any], values: Collection[str]) -> list[str]:
    """Return the fields of a record, paths with dots if they are nested, that hold one of the ``values``."""
    return [path for path, value in _fields(record) if value in values]


def _fields(record: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each single value of a record."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _fields(value, f"{before}{name}.")
        elif (text := text_of(value)) is not None:
            yield f"{before}{name}", text


def _containers(document: object, names: Sequence[str]) -> Iterator[object]:
    yield document
    for name in names:
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
    if isinstance(document, str | bytes | int | float | list | tuple):  # their attributes are methods
        return None
    return document.get(name) if isinstance(document, Mapping) else getattr(document, name, None)
