"""The verb ``backends``: what ranks documents and can be named on the command line, read from the cards."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.completion import complete_backend
from harness.cli.plain import fact_lines, folded_table, terminal_width, wrapped
from harness.errors import BackendError, CardError, UnknownNameError
from harness.plan.config import RunOptions
from harness.plan.option_fields import option_fields
from harness.plan.stages import Stage, fusions, rerankers
from harness.registry.cards import BackendCard, Parameter, ReferenceRule
from harness.registry.lookup import find_cards, load_engine

__all__ = ["CardFormat", "CardsOption", "FormatOption", "backends"]


class CardFormat(StrEnum):
    """How cards and entries of the cache are printed."""

    TABLE = "table"
    JSON = "json"


CardsOption = Annotated[
    Path | None, typer.Option("--cards", metavar="DIR", help=option_fields(RunOptions)["cards"].option.help)
]
FormatOption = Annotated[CardFormat, typer.Option("--format", help="For people, or for programs.")]


def backends(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="BACKEND", help="Show this backend with its parameters.", autocompletion=complete_backend
        ),
    ] = None,
    cards: CardsOption = None,
    output: FormatOption = CardFormat.TABLE,
) -> None:
    """List the backends, and what a backend can be made of others by; or show one with its parameters."""
    known = find_cards("backends", cards)
    stages = {**fusions(), **rerankers()}
    if name in stages and name not in known:
        typer.echo(_json(stages[name]) if output is CardFormat.JSON else _stage_page(stages[name]))
        return
    if name is not None:
        if name not in known:
            raise UnknownNameError("backend", name, known)
        typer.echo(_json(known[name]) if output is CardFormat.JSON else _backend_page(known[name]))
    elif output is CardFormat.JSON:
        typer.echo(_json(list(known.values())))
    else:
        rows = [(card.name, card.extra or "-", card.summary) for card in known.values()]
        typer.echo(folded_table(("backend", "extra", "summary"), rows, terminal_width()))
        forms = [
            *((f"{one}:A+B", fusions()[one]) for one in fusions()),
            *((f"A|{one}", rerankers()[one]) for one in rerankers()),
        ]
        typer.echo(
            "\n"
            + folded_table(
                ("made of others", "summary"), [(form, stage.summary) for form, stage in forms], terminal_width()
            )
        )


def _backend_page(card: BackendCard) -> str:
    facts = [
        ("engine", card.engine),
        ("install", f"pip install 'retrieval-harness[{card.extra}]'" if card.extra else "in the base install"),
        ("encoder", card.encoder),
        ("reference", _reference(card.reference)),
        ("card", str(card.path)),
        *_gaps(card),
    ]
    return "\n".join(
        [*_title(card), "", *fact_lines(facts, terminal_width()), *_parameters(card.parameters, scoped=True)]
    )


def _stage_page(stage: Stage) -> str:
    return "\n".join([*_title(stage), *_parameters(stage.parameters, scoped=False)])


def _parameters(parameters: Mapping[str, Parameter], *, scoped: bool) -> list[str]:
    lines, width = list[str](), terminal_width()
    for parameter in parameters.values():
        default = f"default {_value(parameter.default)}"
        accepted = f", {_accepted(parameter)}" if _accepted(parameter) else ""
        scope = f" ({_scope(parameter)})" if scoped else ""
        head = f"{parameter.name}  {parameter.type}, {default}{accepted}{scope}"
        lines += ["", *wrapped(head, "    ", "", width), *wrapped(parameter.help, "    ", width=width)]
    return lines


def _scope(parameter: Parameter) -> str:
    """What another value changes: not how fast a model is asked, nor where a key is."""
    of_nothing = parameter.affects == "nothing"
    return f"of the {parameter.scope}, changes no result" if of_nothing else f"changes the {parameter.scope}"


def _gaps(card: BackendCard) -> list[tuple[str, str]]:
    """Return what the engine declares that it cannot do; its module is imported for it, client libraries are not."""
    from harness.engines.interface import Capabilities  # brings numpy, which the list of backends does without

    try:
        declared = getattr(load_engine(card), "capabilities", None)
    except (BackendError, CardError) as error:
        return [("gaps", f"not known here: {error.what}")]
    gaps = declared.gaps if isinstance(declared, Capabilities) else {}
    return [("gap", f"{test.removeprefix('test_').replace('_', ' ')}: {reason}") for test, reason in gaps.items()]


def _reference(reference: ReferenceRule) -> str:
    if reference.kind == "none":
        return "none"
    exceptions = [f"{name}={_value(value)}" for name, values in reference.unless.items() for value in values]
    unless = f"; none with {', '.join(exceptions)}" if exceptions else ""
    scoring = f" of {reference.scoring}'s BM25" if reference.scoring is not None else ""
    return f"{reference.kind}{scoring}, relative tolerance {reference.tolerance:g}{unless}"


def _accepted(parameter: Parameter) -> str:
    """The values that a parameter takes, in words; nothing when it takes any of its type."""
    if parameter.choices:
        return f"one of {', '.join(_value(choice) for choice in parameter.choices)}"
    low, high = parameter.minimum, parameter.maximum
    if low is not None and high is not None:
        return f"{low:g} to {high:g}"
    if low is not None:
        return f"at least {low:g}"
    return "" if high is None else f"at most {high:g}"


def _value(value: object) -> str:
    """A parameter's value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return "''" if value == "" else str(value)


def _title(card: BackendCard | Stage) -> list[str]:
    return wrapped(f"{card.name}: {card.summary}", "  ", first="", width=terminal_width())


def _json(cards: BackendCard | Stage | Sequence[BackendCard]) -> str:
    plain = [asdict(card) for card in cards] if isinstance(cards, Sequence) else asdict(cards)
    return json.dumps(plain, indent=2, default=str)
