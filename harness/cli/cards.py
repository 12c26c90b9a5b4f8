"""The verbs ``backends`` and ``datasets``: what can be named on the command line, read from the cards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from harness.cards import BackendCard, DatasetCard, Oracle, Parameter
from harness.cli.completion import complete_backend, complete_dataset
from harness.errors import UnknownNameError
from harness.registry import find_cards

__all__ = ["CardFormat", "backends", "datasets"]

C = TypeVar("C")


class CardFormat(StrEnum):
    """How cards are printed."""

    TABLE = "table"
    JSON = "json"


CardsOption = Annotated[
    Path | None,
    typer.Option("--cards", metavar="DIR", help="A folder that holds 'backends' or 'datasets'; its cards come first."),
]
FormatOption = Annotated[CardFormat, typer.Option("--format", help="For people, or for programs.")]


def backends(
    name: Annotated[
        str | None, typer.Argument(help="Show this backend with its parameters.", autocompletion=complete_backend)
    ] = None,
    cards: CardsOption = None,
    output: FormatOption = CardFormat.TABLE,
) -> None:
    """List the backends, or show one with its parameters."""
    known = find_cards("backends", cards)
    if name is not None:
        card = _named("backend", name, known)
        typer.echo(_json(card) if output is CardFormat.JSON else _backend_page(card))
    elif output is CardFormat.JSON:
        typer.echo(_json(list(known.values())))
    else:
        rows = [(card.name, card.extra or "-", card.summary) for card in known.values()]
        typer.echo(_table(("backend", "extra", "summary"), rows))


def datasets(
    name: Annotated[str | None, typer.Argument(help="Show this dataset.", autocompletion=complete_dataset)] = None,
    cards: CardsOption = None,
    output: FormatOption = CardFormat.TABLE,
) -> None:
    """List the datasets, or show one."""
    known = find_cards("datasets", cards)
    if name is not None:
        card = _named("dataset", name, known)
        typer.echo(_json(card) if output is CardFormat.JSON else _dataset_page(card))
    elif output is CardFormat.JSON:
        typer.echo(_json(list(known.values())))
    else:
        facts = [
            (card.name, _count(card.documents), _count(card.queries), card.language, card.summary)
            for card in known.values()
        ]
        typer.echo(_table(("dataset", "documents", "queries", "language", "summary"), facts))


def _named(kind: str, name: str, known: Mapping[str, C]) -> C:
    if name not in known:
        raise UnknownNameError(kind, name, known)
    return known[name]


def _backend_page(card: BackendCard) -> str:
    facts = [
        ("engine", card.engine),
        ("install", f"pip install 'retrieval-harness[{card.extra}]'" if card.extra else "in the base install"),
        ("encoder", card.encoder),
        ("oracle", _oracle(card.oracle)),
        ("card", str(card.path)),
    ]
    lines = [f"{card.name}: {card.summary}", "", *_facts(facts)]
    if card.parameters:
        rows = [
            (parameter.name, parameter.type, _value(parameter.default), _accepted(parameter), parameter.scope,
             parameter.help)
            for parameter in card.parameters.values()
        ]  # fmt: skip
        lines += ["", _table(("parameter", "type", "default", "accepts", "changes", "meaning"), rows)]
    return "\n".join(lines)


def _dataset_page(card: DatasetCard) -> str:
    judgments = ", ".join(f"{split} {count:,}" for split, count in card.judgments.items())
    facts = [
        ("documents", _count(card.documents)),
        ("empty", _count(card.empty_documents)),
        ("queries", _count(card.queries)),
        ("judgments", judgments or "not stated"),
        ("split", f"{card.split} (default)" if card.split else "test, or the only one"),
        ("text", f" + {card.separator!r} + ".join(card.fields)),
        ("language", card.language),
        ("licence", card.licence),
        ("source", card.source),
        ("location", str(card.location)),
        ("card", str(card.path)),
    ]
    return "\n".join([f"{card.name}: {card.summary}", "", *_facts(facts)])


def _oracle(oracle: Oracle) -> str:
    if oracle.kind == "none":
        return "none"
    exceptions = [f"{name}={_value(value)}" for name, values in oracle.unless.items() for value in values]
    unless = f"; none with {', '.join(exceptions)}" if exceptions else ""
    return f"{oracle.kind}, relative tolerance {oracle.tolerance:g}{unless}"


def _accepted(parameter: Parameter) -> str:
    if parameter.choices:
        return ", ".join(_value(choice) for choice in parameter.choices)
    low, high = parameter.minimum, parameter.maximum
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    if low is not None:
        return f"at least {low:g}"
    return "any" if high is None else f"at most {high:g}"


def _value(value: object) -> str:
    """A parameter's value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return "''" if value == "" else str(value)


def _count(count: int | None) -> str:
    return "not stated" if count is None else f"{count:,}"


def _facts(facts: Iterable[tuple[str, str]]) -> list[str]:
    return [f"  {label:<10} {text}" for label, text in facts]


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def _json(cards: BackendCard | DatasetCard | Sequence[BackendCard | DatasetCard]) -> str:
    plain = [asdict(card) for card in cards] if isinstance(cards, Sequence) else asdict(cards)
    return json.dumps(plain, indent=2, default=str)
