"""Parameters of backends, as declared by a card or by the encoder that it names."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, cast

from harness.registry.strict_toml import Table, read_document

ParameterValue = str | int | float | bool
ParameterType = Literal["float", "int", "str", "bool", "fields"]
Scope = Literal["encoder", "engine", "search"]
Affects = Literal["hits", "times", "nothing"]

BY_DATASET = ("query_prompt", "document_prompt", "query_prompt_name", "document_prompt_name", "instruction")
"""Parameters that may be given for one dataset of several: ``query_prompt@DATASET=…``."""
NO_PROMPT = "none"
"""The value of a prompt's parameter that puts nothing before texts, even if the model declares or needs a prompt."""
_TYPES: Mapping[str, type] = {"float": float, "int": int, "str": str, "bool": bool, "fields": str}
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_OF_A_VARIABLE = "_env"
"""Ending of parameters whose values name environment variables. A key may be given there by mistake."""
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_BEYOND = 2**63
_OF_ENCODERS = Path(__file__).parent.parent / "encoders" / "parameters.toml"
_OF_ENGINES = Path(__file__).parent.parent / "engines" / "parameters.toml"
_OF_MODELS = "models"
"""The table shared by encoders that run a model."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a backend: type, default, bounds and effect.

    ``scope`` is ``encoder`` when the parameter changes terms or vectors, ``search`` when it changes only how a finished
    index is searched, ``engine`` for all other parameters. Bounds are inclusive. ``choices`` is empty when any value of
    the type is allowed. ``pattern`` is a regular expression that a whole string must match; ``help`` then explains it.
    ``affects`` is the largest effect of another value on a trial's outcome: ``hits``, else ``times`` (or memory, or
    leftovers), else ``nothing``. ``aliases`` are other accepted names. A string whose ``name`` ends in ``_env`` names
    an environment variable, in capitals: another value may be the key itself, and no error repeats it.
    """

    name: str
    type: ParameterType
    default: ParameterValue
    help: str
    scope: Scope
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[ParameterValue, ...] = ()
    pattern: str | None = None
    affects: Affects = "hits"
    aliases: tuple[str, ...] = ()

    def parse(self, text: str) -> ParameterValue:
        """Return the value that ``text`` spells; raises ValueError with the accepted values."""
        if self.type in ("str", "fields"):
            return self.check(text)
        if self.type == "bool":
            if text.lower() not in ("true", "false"):
                raise ValueError(f"'{text}' is not true or false")
            return self.check(text.lower() == "true")
        try:
            return self.check(int(text) if self.type == "int" else float(text))
        except OverflowError as error:
            raise ValueError(f"'{text}' is too large") from error
        except ValueError as error:
            if str(error).startswith(("could not convert", "invalid literal")):
                raise ValueError(f"'{text}' is not {'an integer' if self.type == 'int' else 'a number'}") from error
            raise

    def takes(self, value: object) -> bool:
        """Return whether :meth:`check` accepts ``value``."""
        try:
            self.check(value)
        except ValueError:
            return False
        return True

    def check(self, value: object) -> ParameterValue:
        """Return ``value`` if its type, bounds and choices are right (an int may be a float); else raise ValueError."""
        of_variable = self.type == "str" and self.name.endswith(_OF_A_VARIABLE)
        if of_variable and not (isinstance(value, str) and _VARIABLE.fullmatch(value)):
            raise ValueError(
                "it wants the name of an environment variable, of capitals, digits and '_', and never the key "
                "itself; the value is not repeated here"
            )
        if self.type == "float" and type(value) is int:
            value = float(value)
        if type(value) is not _TYPES[self.type]:
            raise ValueError(f"{value!r} is not of type {self.type}")
        checked = cast("ParameterValue", value)
        if self.choices and checked not in self.choices:
            choices = ", ".join("''" if choice == "" else str(choice) for choice in self.choices)
            raise ValueError(f"{value!r} is not one of {choices}")
        if self.pattern is not None and not re.fullmatch(self.pattern, str(checked)):
            raise ValueError(f"{value!r} is not of the form {self.pattern}: {self.help}")
        if isinstance(checked, (int, float)) and not isinstance(checked, bool):
            if not math.isfinite(checked):
                raise ValueError(f"{value!r} is not finite")
            if isinstance(checked, int) and not -_BEYOND <= checked < _BEYOND:
                raise ValueError(f"{value!r} is beyond 64 bits")
            if self.minimum is not None and self.minimum == self.maximum != checked:
                raise ValueError(f"{value!r} is not {self.minimum:g}, the only value: {self.help}")
            if self.minimum is not None and checked < self.minimum:
                raise ValueError(f"{value!r} is below {self.minimum:g}")
            if self.maximum is not None and checked > self.maximum:
                raise ValueError(f"{value!r} is above {self.maximum:g}")
        return checked


@dataclass(frozen=True, slots=True)
class FieldsParameter(Parameter):
    """A parameter of the type ``fields``: a text such as ``title^3+text``, "" for title and text as one."""

    def check(self, value: object) -> ParameterValue:
        """Return the text in its only spelling; raises ValueError for anything else."""
        checked = Parameter.check(self, value)
        if checked:
            from harness.registry.field_weights import format_fields, parse_fields

            checked = format_fields(parse_fields(str(checked)))
        return checked


@cache
def encoder_parameters(encoder: str) -> Mapping[str, Parameter]:
    """Return the parameters of every card with ``encoder``, declared or not; empty for ``none`` or unknown encoders."""
    values, parts = read_document(_OF_ENCODERS).values, encoder.split("+")
    contents = {name: content for part in parts for name, content in values.get(part, {}).items()}
    if not {"dense", "splade"}.isdisjoint(parts):
        contents |= values[_OF_MODELS]
    return declared(contents, "encoder", _OF_ENCODERS)


@cache
def shared_parameters() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return the tables of parameters that several engines share, as written, by the names for ``use``."""
    return MappingProxyType(read_document(_OF_ENGINES).values)


def declared(fields: Mapping[str, Any], scope: Scope, path: Path) -> Mapping[str, Parameter]:
    """Read the parameters that tables of a file of the package declare, by name, all of one scope."""
    table = Table({name: {"scope": scope, **content} for name, content in fields.items()})
    parameters = {name: read_parameter(name, sub) for name, sub in table.tables().items()}
    table.raise_problems(path)
    return MappingProxyType(parameters)


def read_parameter(name: str, table: Table) -> Parameter:
    """Read the parameter that a card's ``table`` declares; its problems are noted there."""
    kind = table.choice("type", tuple(_TYPES))
    default = table.values.get("default")
    declared_class = FieldsParameter if kind == "fields" else Parameter
    parameter = declared_class(
        name=name,
        type=cast("ParameterType", kind if kind in _TYPES else "str"),
        default=cast("ParameterValue", "" if default is None else default),
        help=table.required("help", str),
        scope=cast("Scope", table.choice("scope", ("encoder", "engine", "search"))),
        minimum=table.optional("minimum", float),
        maximum=table.optional("maximum", float),
        choices=tuple(cast("list[ParameterValue]", table.optional("choices", list) or [])),
        pattern=_pattern(name, kind, table),
        affects=cast("Affects", table.choice("affects", ("hits", "times", "nothing"), "hits")),
        aliases=table.strings("aliases") or (),
    )
    if not _KEY.fullmatch(name):
        table.problem(f"parameter '{name}': small letters, digits and '_' only")
    table.optional("default", _TYPES.get(kind, str))
    if default is None:
        table.problem(f"parameter '{name}' has no default")
    elif kind in _TYPES:
        values = (default, *parameter.choices)
        check_values(table, parameter, values)
        if kind == "float":  # default = 1 means 1.0
            default, *choices = (float(value) if type(value) is int else value for value in values)
            parameter = replace(parameter, default=default, choices=tuple(choices))
    table.close()
    return parameter


def _pattern(name: str, kind: str, table: Table) -> str | None:
    pattern = table.optional("pattern", str)
    if pattern is None:
        return None
    if kind != "str":
        table.problem(f"parameter '{name}': 'pattern' is for parameters of type str")
        return None
    try:
        re.compile(pattern)
    except re.error as error:
        table.problem(f"parameter '{name}': 'pattern' is not a regular expression: {error}")
        return None
    return pattern


def check_values(table: Table, parameter: Parameter, values: tuple[Any, ...]) -> None:
    """Note values of ``values`` that the parameter cannot have."""
    for value in values:
        try:
            parameter.check(float(value) if parameter.type == "float" and type(value) is int else value)
        except ValueError as error:
            table.problem(f"parameter '{parameter.name}': {error}")
