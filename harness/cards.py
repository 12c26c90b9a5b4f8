"""Cards: one strict TOML file per backend and per dataset. They are the registry; there is no second list.

The fields are described in ``docs/reference/cards.md``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from harness.strict_toml import Table, read_document

if TYPE_CHECKING:  # protocols brings numpy; cards are read by commands that answer without it
    from harness.protocols import ParameterValue

__all__ = ["BackendCard", "DatasetCard", "Oracle", "Parameter", "read_backend_card", "read_dataset_card"]

ParameterType = Literal["float", "int", "str", "bool"]
Scope = Literal["encoder", "engine"]
OracleKind = Literal["sparse", "lucene", "none"]

_TYPES: Mapping[str, type] = {"float": float, "int": int, "str": str, "bool": bool}
_ENCODERS = ("bm25", "none")
_OF_BM25: Mapping[str, ParameterType] = {"analyzer": "str", "k1": "float", "b": "float"}
_FIELDS = ("title", "text")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
_KEY = re.compile(r"[a-z][a-z0-9_]*")
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a backend: type, default, bounds and what it changes.

    ``scope`` is ``encoder`` when the parameter changes terms or vectors, ``engine`` for everything else. Bounds are
    inclusive. ``choices`` is empty when any value of the type may stand. ``pattern`` is a regular expression that the
    whole of a string must match; ``help`` then says what it means.
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

    def parse(self, text: str) -> ParameterValue:
        """The value that ``text`` spells; raises ValueError saying what would be accepted."""
        if self.type == "str":
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

    def check(self, value: object) -> ParameterValue:
        """``value`` when its type, bounds and choices are right (an int may stand for a float); else ValueError."""
        if self.type == "float" and type(value) is int:
            value = float(value)
        if type(value) is not _TYPES[self.type]:
            raise ValueError(f"{value!r} is not of type {self.type}")
        checked = cast("ParameterValue", value)
        if self.choices and checked not in self.choices:
            raise ValueError(f"{value!r} is not one of {', '.join(map(str, self.choices))}")
        if self.pattern is not None and not re.fullmatch(self.pattern, str(checked)):
            raise ValueError(f"{value!r} is not of the form {self.pattern}: {self.help}")
        if isinstance(checked, (int, float)) and not isinstance(checked, bool):
            if not math.isfinite(checked):
                raise ValueError(f"{value!r} is not finite")
            if self.minimum is not None and checked < self.minimum:
                raise ValueError(f"{value!r} is below {self.minimum:g}")
            if self.maximum is not None and checked > self.maximum:
                raise ValueError(f"{value!r} is above {self.maximum:g}")
        return checked


@dataclass(frozen=True, slots=True)
class Oracle:
    """The exact result that a backend is held against.

    ``tolerance`` is relative; 0 means that only exact ties may be exchanged. ``unless`` maps a parameter to the values
    under which there is no oracle.
    """

    kind: OracleKind
    tolerance: float = 0.0
    unless: Mapping[str, tuple[ParameterValue, ...]] = field(default_factory=dict)

    def applies(self, parameters: Mapping[str, ParameterValue]) -> bool:
        """Whether there is an oracle under these complete parameters."""
        return self.kind != "none" and not any(parameters[name] in values for name, values in self.unless.items())


@dataclass(frozen=True, slots=True)
class BackendCard:
    """A named, complete retrieval set-up: engine, encoder, oracle and parameters.

    ``digest`` is the SHA-256 of the card's file.
    """

    name: str
    summary: str
    engine: str
    extra: str | None
    encoder: str
    oracle: Oracle
    parameters: Mapping[str, Parameter]
    path: Path
    digest: str

    @property
    def defaults(self) -> dict[str, ParameterValue]:
        """Every parameter's default."""
        return {name: parameter.default for name, parameter in self.parameters.items()}

    def scope(self, scope: Scope) -> tuple[str, ...]:
        """Names of the parameters of one scope, in the card's order."""
        return tuple(name for name, parameter in self.parameters.items() if parameter.scope == scope)


@dataclass(frozen=True, slots=True)
class DatasetCard:
    """A named collection: where it lies, how title and text are joined, whose it is, and facts checked on loading.

    ``location`` is absolute. ``split`` is None when the loader's rule decides. ``fields`` and ``separator`` are the
    join rule. ``documents``, ``empty_documents`` and ``queries`` are None when the card does not state them;
    ``judgments`` maps a split to its count, ``sha256`` a file's name inside the collection to its digest.
    ``judgments_of_unknown_documents`` maps a split to how many of its judgments name documents that the corpus lacks:
    without it they are an error. ``digest`` is the SHA-256 of the card's file.
    """

    name: str
    summary: str
    location: Path
    split: str | None
    language: str
    licence: str
    source: str
    fields: tuple[str, ...]
    separator: str
    documents: int | None
    empty_documents: int | None
    queries: int | None
    judgments: Mapping[str, int]
    judgments_of_unknown_documents: Mapping[str, int]
    sha256: Mapping[str, str]
    path: Path
    digest: str


def read_backend_card(path: Path) -> BackendCard:
    """Read one backend card; raises CardError with every problem of the file."""
    document = read_document(path)
    table = Table(document.values)
    parameters = {name: _parameter(name, sub) for name, sub in table.table("parameters").tables().items()}
    card = BackendCard(
        name=_name(table, path),
        summary=table.required("summary", str),
        engine=table.required("engine", str),
        extra=table.optional("extra", str),
        encoder=table.choice("encoder", _ENCODERS),
        oracle=_oracle(table.table("oracle"), parameters),
        parameters=parameters,
        path=path,
        digest=document.digest,
    )
    if card.engine and not _TARGET.fullmatch(card.engine):
        table.problem(f"'engine' is '{card.engine}', expected 'package.module:ClassName'")
    _check_encoder(table, card)
    table.close()
    table.raise_problems(path)
    return card


def _check_encoder(table: Table, card: BackendCard) -> None:
    """Refuse what would fail only in a run: an encoder without its parameters, an oracle without vectors."""
    if card.encoder == "none" and card.oracle.kind != "none":
        table.problem(
            f"'oracle.kind' is '{card.oracle.kind}', but without an encoder there is nothing to compute it from"
        )
    if card.encoder != "bm25":
        return
    for name, kind in _OF_BM25.items():
        parameter = card.parameters.get(name)
        if parameter is None or parameter.type != kind:
            table.problem(f"encoder 'bm25' needs the parameter '{name}' of type {kind}: [parameters.{name}]")


def read_dataset_card(path: Path) -> DatasetCard:
    """Read one dataset card; raises CardError with every problem of the file."""
    document = read_document(path)
    table = Table(document.values)
    table.choice("format", ("beir",))
    text, facts = table.table("text"), table.table("facts")
    card = DatasetCard(
        name=_name(table, path),
        summary=table.required("summary", str),
        location=(path.parent / table.required("path", str)).absolute(),
        split=table.optional("split", str),
        language=table.required("language", str),
        licence=table.required("licence", str),
        source=table.required("source", str),
        fields=_fields(text),
        separator=" " if (separator := text.optional("separator", str)) is None else separator,
        documents=facts.optional("documents", int),
        empty_documents=facts.optional("empty_documents", int),
        queries=facts.optional("queries", int),
        judgments=_counts(facts.table("judgments")),
        judgments_of_unknown_documents=_counts(facts.table("judgments_of_unknown_documents")),
        sha256=_digests(table.table("sha256")),
        path=path,
        digest=document.digest,
    )
    for part in (table, text, facts):
        part.close()
    table.raise_problems(path)
    return card


def _name(table: Table, path: Path) -> str:
    name = table.required("name", str)
    if name and not _NAME.fullmatch(name):
        table.problem(f"'name' is '{name}': small letters, digits, '.', '_' and '-' only")
    elif name and name != path.stem:
        table.problem(f"'name' is '{name}', but the file is called '{path.name}': they must agree")
    return name


def _parameter(name: str, table: Table) -> Parameter:
    kind = table.choice("type", tuple(_TYPES))
    bounds = {key: table.optional(key, float) for key in ("minimum", "maximum")}
    default = table.values.get("default")
    parameter = Parameter(
        name=name,
        type=cast("ParameterType", kind if kind in _TYPES else "str"),
        default=cast("ParameterValue", "" if default is None else default),
        help=table.required("help", str),
        scope=cast("Scope", table.choice("scope", ("encoder", "engine"))),
        minimum=bounds["minimum"],
        maximum=bounds["maximum"],
        choices=tuple(cast("list[ParameterValue]", table.optional("choices", list) or [])),
        pattern=_pattern(name, kind, table),
    )
    if not _KEY.fullmatch(name):
        table.problem(f"parameter '{name}': small letters, digits and '_' only")
    table.optional("default", _TYPES.get(kind, str))
    if default is None:
        table.problem(f"parameter '{name}' has no default")
    elif kind in _TYPES:
        _check_values(table, parameter, (default, *parameter.choices))
        if kind == "float":
            parameter = _with_float_values(parameter)
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


def _check_values(table: Table, parameter: Parameter, values: tuple[Any, ...]) -> None:
    for value in values:
        try:
            parameter.check(float(value) if parameter.type == "float" and type(value) is int else value)
        except ValueError as error:
            table.problem(f"parameter '{parameter.name}': {error}")


def _with_float_values(parameter: Parameter) -> Parameter:
    """``default = 1`` on a float parameter means 1.0; wrong values were reported before."""

    def as_float(value: ParameterValue) -> ParameterValue:
        return float(value) if type(value) is int else value

    return replace(parameter, default=as_float(parameter.default), choices=tuple(map(as_float, parameter.choices)))


def _oracle(table: Table, parameters: Mapping[str, Parameter]) -> Oracle:
    kind = table.choice("kind", ("sparse", "lucene", "none"))
    tolerance = table.optional("tolerance", float) or 0.0
    if not 0 <= tolerance < 1:
        table.problem(f"'oracle.tolerance' is {tolerance!r}, expected a relative number from 0 up to 1")
    unless: dict[str, tuple[ParameterValue, ...]] = {}
    conditions = table.table("unless")
    for name in conditions.values:
        values = conditions.optional(name, list) or []
        unless[name] = tuple(values)
        if name not in parameters:
            table.problem(f"'oracle.unless.{name}' is not a parameter of this card")
        else:
            _check_values(table, parameters[name], tuple(values))
    table.close()
    return Oracle(cast("OracleKind", kind), tolerance, unless)


def _fields(table: Table) -> tuple[str, ...]:
    fields = table.strings("fields")
    if fields is None:
        return _FIELDS
    if not fields or len(set(fields)) != len(fields) or not set(fields) <= set(_FIELDS):
        table.problem(f"'text.fields' is {list(fields)!r}, expected one or both of 'title' and 'text', each once")
    return fields


def _counts(table: Table) -> Mapping[str, int]:
    return {split: table.required(split, int) for split in table.values}


def _digests(table: Table) -> Mapping[str, str]:
    digests = {member: table.required(member, str) for member in table.values}
    for member, digest in digests.items():
        if not _SHA256.fullmatch(digest):
            table.problem(f"'sha256.{member}' is not a SHA-256 in 64 small hexadecimal digits")
    return digests
