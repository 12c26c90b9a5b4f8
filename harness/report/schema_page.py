"""The stored schema in words, read off its models: every field, its type, and its meaning."""

from __future__ import annotations

import textwrap
import types
import typing

from pydantic import BaseModel, JsonValue

from harness.results.baseline import SCHEMA_VERSION as BASELINE_VERSION
from harness.results.baseline import Baseline
from harness.results.schema import SCHEMA_VERSION, Result

_COLUMN, _WIDTH = 46, 120


def describe_schema() -> str:
    """Return the fields of each stored JSON file, nested as in the file; a repeated record is listed once."""
    files: tuple[tuple[str, int, type[BaseModel]], ...] = (
        ("report.json", SCHEMA_VERSION, Result),
        ("a baseline", BASELINE_VERSION, Baseline),
    )
    described: dict[type[BaseModel], str] = {Result: "report.json"}
    parts = [f"{name}, schema {version}\n\n{_tree(model, described, ())}" for name, version, model in files]
    return "\n".join(parts)


def _tree(model: type[BaseModel], described: dict[type[BaseModel], str], path: tuple[str, ...]) -> str:
    """Return a line for each field, and a single line for neighbours that differ only in their types."""
    lines: list[str] = []
    plain: list[str] = []
    indent = "  " * len(path)

    def end_plain() -> None:
        lines.extend(textwrap.wrap(", ".join(plain), _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  "))
        plain.clear()

    for name, field in model.model_fields.items():
        heading = f"{field.alias or name}: {_name(field.annotation)}"
        inner = _inner_model(field.annotation)
        meaning = field.description or (_first_line(inner) if inner is not None else "")
        if inner is None and not meaning:
            plain.append(heading)
            continue
        end_plain()
        field_path = (*path, field.alias or name)
        reference = f"fields as in {described[inner]}" if inner is not None and inner in described else ""
        sentences = [field.description or "", reference] if reference else [meaning]
        lines.append(f"{f'{indent}{heading}':<{_COLUMN}} {'; '.join(filter(None, sentences))}".rstrip())
        if inner is not None and not reference:
            described[inner] = ".".join(field_path)
            lines += _tree(inner, described, field_path).splitlines()
    end_plain()
    return "\n".join([*lines, ""])


def _first_line(model: type[BaseModel]) -> str:
    return (model.__doc__ or "").strip().splitlines()[0]


def _inner_model(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in typing.get_args(annotation):
        model = _inner_model(argument)
        if model is not None:
            return model
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
