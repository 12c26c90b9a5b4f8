"""The stored schema in words, read off its models: every field, its type, and what it means."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator

from pydantic import BaseModel, JsonValue

from harness.results.baseline import SCHEMA_VERSION as BASELINE_VERSION
from harness.results.baseline import Baseline
from harness.results.schema import SCHEMA_VERSION, Result

__all__ = ["describe_schema"]

_COLUMN = 46


def describe_schema() -> str:
    """One line a field of each stored JSON file, nested as it is there."""
    files: tuple[tuple[str, int, type[BaseModel]], ...] = (
        ("report.json", SCHEMA_VERSION, Result),
        ("a baseline", BASELINE_VERSION, Baseline),
    )
    parts = ["\n".join([f"{name}, schema {version}", "", *_lines(model, 0), ""]) for name, version, model in files]
    return "\n".join(parts)


def _lines(model: type[BaseModel], depth: int) -> Iterator[str]:
    for name, field in model.model_fields.items():
        shown = f"{'  ' * depth}{field.alias or name}"
        inner = _inner_model(field.annotation)
        kind = _name(field.annotation)
        meaning = field.description or (_first_line(inner) if inner is not None else "")
        yield f"{f'{shown}: {kind}':<{_COLUMN}} {meaning}".rstrip()
        if inner is not None and inner is not Result:  # a baseline holds one, which stands above
            yield from _lines(inner, depth + 1)


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in typing.get_args(annotation):
        found = _inner_model(argument)
        if found is not None:
            return found
    return None


def _name(annotation: object) -> str:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is type(None):
        return "null"
    if annotation is JsonValue:
        return "any JSON"
    if isinstance(annotation, type) and origin is None:
        return "object" if issubclass(annotation, BaseModel) else _JSON_NAMES[annotation]
    if origin is typing.Annotated:
        return _name(arguments[0])
    if origin is typing.Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin is list:
        return f"list of {_name(arguments[0])}"
    if origin is dict:
        return f"map to {_name(arguments[1])}"
    if origin in (typing.Union, types.UnionType):
        names = list(dict.fromkeys(_name(argument) for argument in arguments))
        scalars = [name for name in names if name in _SCALARS]
        return " | ".join(names if len(scalars) < len(_SCALARS) else ["scalar", *(set(names) - _SCALARS)])
    raise TypeError(f"a field of the report has a type that has no name in JSON: {annotation}")


_SCALARS = {"string", "integer", "number", "boolean", "null"}
_JSON_NAMES: dict[type, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}
