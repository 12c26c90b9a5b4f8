"""The verbs ``backends`` and ``datasets``: what can be named on the command line, read from the cards."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from harness.cards import BackendCard, DatasetCard, Oracle, Parameter
from harness.cli.completion import complete_backend, complete_dataset
from harness.cli.plain import plain_table, wrapped
from harness.errors import BackendError, CardError, UnknownNameError
from harness.planning.stages import Stage, fusions, rerankers
from harness.registry import find_cards, load_engine

__all__ = ["CardFormat", "backends", "datasets"]

C = TypeVar("C", BackendCard, DatasetCard)

_LABEL = 12


class CardFormat(StrEnum):
    """How cards and entries of the cache are printed."""

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
    """List the backends, and what a backend can be made of others by; or show one with its parameters."""
    known = find_cards("backends", cards)
    stages = {**fusions(), **rerankers()}
    if name in stages and name not in known:
        typer.echo(_json(stages[name]) if output is CardFormat.JSON else _stage_page(stages[name]))
        return
    rows = [(card.name, card.extra or "-", card.summary) for card in known.values()]
    typer.echo(_shown("backend", name, known, output, _backend_page, ("backend", "extra", "summary"), rows))
    if name is None and output is CardFormat.TABLE:
        forms = [
            *((f"{one}:A+B", fusions()[one]) for one in fusions()),
            *((f"A|{one}", rerankers()[one]) for one in rerankers()),
        ]
        typer.echo("\n" + plain_table(("made of others", "summary"), [(form, stage.summary) for form, stage in forms]))


def datasets(
    name: Annotated[str | None, typer.Argument(help="Show this dataset.", autocompletion=complete_dataset)] = None,
    cards: CardsOption = None,
    output: FormatOption = CardFormat.TABLE,
) -> None:
    """List the datasets, or show one."""
    known = find_cards("datasets", cards)
    facts = [
        (card.name, _count(card.documents), _count(card.queries), card.language, card.summary)
        for card in known.values()
    ]
    header = ("dataset", "documents", "queries", "language", "summary")
    typer.echo(_shown("dataset", name, known, output, _dataset_page, header, facts))


def _shown(
    kind: str,
    name: str | None,
    known: Mapping[str, C],
    output: CardFormat,
    page: Callable[[C], str],
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
) -> str:
    """One card, or all of them as a table of ``rows``."""
    if name is None:
        return _json(list(known.values())) if output is CardFormat.JSON else plain_table(header, rows)
    if name not in known:
        raise UnknownNameError(kind, name, known)
    return _json(known[name]) if output is CardFormat.JSON else page(known[name])


def _backend_page(card: BackendCard) -> str:
    facts = [
        ("engine", card.engine),
        ("install", f"pip install 'retrieval-harness[{card.extra}]'" if card.extra else "in the base install"),
        ("encoder", card.encoder),
        ("oracle", _oracle(card.oracle)),
        ("card", str(card.path)),
        *_gaps(card),
    ]
    return "\n".join([*_title(card), "", *_facts(facts), *_parameters(card.parameters, scoped=True)])


def _stage_page(stage: Stage) -> str:
    return "\n".join([*_title(stage), *_parameters(stage.parameters, scoped=False)])


def _parameters(parameters: Mapping[str, Parameter], *, scoped: bool) -> list[str]:
    lines: list[str] = []
    for parameter in parameters.values():
        default = f"default {_value(parameter.default)}"
        accepted = f", {_accepted(parameter)}" if _accepted(parameter) else ""
        scope = f" ({_scope(parameter)})" if scoped else ""
        head = f"{parameter.name}  {parameter.type}, {default}{accepted}{scope}"
        lines += ["", *wrapped(head, "    ", first=""), *wrapped(parameter.help, "    ")]
    return lines


def _scope(parameter: Parameter) -> str:
    """What another value changes: not how fast a model is asked, nor where a key is."""
    of_nothing = parameter.affects == "nothing"
    return f"of the {parameter.scope}, changes no result" if of_nothing else f"changes the {parameter.scope}"


def _gaps(card: BackendCard) -> list[tuple[str, str]]:
    """What the engine itself declares that it cannot do; adapters are imported for it, client libraries are not."""
    from harness.protocols import Capabilities  # brings numpy, which the list of backends does without

    try:
        declared = getattr(load_engine(card), "capabilities", None)
    except (BackendError, CardError) as error:
        return [("gaps", f"not known here: {error.what}")]
    gaps = declared.gaps if isinstance(declared, Capabilities) else {}
    return [("gap", f"{test.removeprefix('test_').replace('_', ' ')}: {reason}") for test, reason in gaps.items()]


def _dataset_page(card: DatasetCard) -> str:
    judgments = ", ".join(f"{split} {count:,}" for split, count in card.judgments.items())
    facts = [
        ("documents", _count(card.documents)),
        ("empty", _count(card.empty_documents)),
        ("queries", _count(card.queries)),
        ("judgments", judgments or "not stated"),
        ("split", f"{card.split} (default)" if card.split else "test, or the only one"),
        ("text", f" + {card.separator!r} + ".join(card.fields)),
        *([("fields", ", ".join(f"{role}={name}" for role, name in card.columns.items()))] if card.columns else []),
        *([("identical ids", card.identical_ids)] if card.identical_ids is not None else []),
        *([("empty documents", "dropped")] if card.drop_empty else []),
        ("format", card.format),
        ("language", card.language),
        ("licence", card.licence),
        ("source", card.source),
        ("location", str(card.location)),
        *([("queries in", str(card.queries_file))] if card.queries_file is not None else []),
        *([("judgments in", str(card.qrels_file))] if card.qrels_file is not None else []),
        ("card", str(card.path)),
    ]
    return "\n".join([*_title(card), "", *_facts(facts)])


def _oracle(oracle: Oracle) -> str:
    if oracle.kind == "none":
        return "none"
    exceptions = [f"{name}={_value(value)}" for name, values in oracle.unless.items() for value in values]
    unless = f"; none with {', '.join(exceptions)}" if exceptions else ""
    return f"{oracle.kind}, relative tolerance {oracle.tolerance:g}{unless}"


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


def _count(count: int | None) -> str:
    return "not stated" if count is None else f"{count:,}"


def _title(card: BackendCard | DatasetCard | Stage) -> list[str]:
    return wrapped(f"{card.name}: {card.summary}", "  ", first="")


def _facts(facts: Iterable[tuple[str, str]]) -> list[str]:
    return [line for label, text in facts for line in wrapped(text, " " * (_LABEL + 1), first=f"  {label:<10} ")]


def _json(cards: BackendCard | DatasetCard | Stage | Sequence[BackendCard | DatasetCard]) -> str:
    plain = [asdict(card) for card in cards] if isinstance(cards, Sequence) else asdict(cards)
    return json.dumps(plain, indent=2, default=str)
