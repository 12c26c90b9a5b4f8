"""``harness backends``: backends and rerankers that the command line can name, read from the cards."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

from harness.cli.matrix import matrix_row, matrix_table
from harness.cli.output import page, print_json, print_result
from harness.cli.verb import verb
from harness.document.model import Block, Cell, Column, Document, Facts, Section, Table
from harness.errors import BackendError, CardError, UnknownNameError, UsageError
from harness.plan.config import BackendsRequest
from harness.plan.stages import Stage, fusions, rerankers
from harness.registry.cards import BackendCard, ReferenceRule
from harness.registry.lookup import find_cards, load_engine
from harness.registry.parameters import Parameter, ParameterValue


@verb(BackendsRequest)
def backends(request: BackendsRequest) -> None:
    """List the backends, capabilities of each, and what a backend can be made of others by; or show one's parameters.

    What it can do is what the contract suite proved on a real engine, whose version is named.
    """
    cards, name = find_cards("backends", request.cards), request.backend
    if name is None:
        if request.format == "json":
            print_json(list(map(_plain, cards.values())))
        elif request.format == "markdown":
            print_result(_markdown(matrix_table(cards.values()), title="capabilities"))
        else:
            print_result(_list(cards.values()))
        return
    label, card, title, overrides = _backend(name, cards, request.cards)
    if request.format == "json":
        print_json({**_plain(card), "parameters": {parameter.name: asdict(parameter) for parameter in title}})
        return
    facts = _facts(card) if isinstance(card, BackendCard) else []
    blocks: list[Block] = [*facts, _parameters(title, overrides, scoped=isinstance(card, BackendCard))]
    if request.format == "markdown":
        print_result(_markdown(*blocks, title=label, subtitle=card.summary))
    else:
        print_result(page(*blocks, title=f"{label}: {card.summary}"))


def _backend(
    text: str, cards_by_name: Mapping[str, BackendCard], cards: Path | None
) -> tuple[str, BackendCard | Stage, list[Parameter], Mapping[str, ParameterValue]]:
    """Return how a backend or a stage is called, its card, the parameters to show and the values that are set.

    Those are the ones that an expression sets, which is checked as ``--backends`` checks it, or all.
    """
    definitions: Mapping[str, BackendCard | Stage] = {**cards_by_name, **fusions(), **rerankers()}
    label, name = text, text
    overrides: Mapping[str, ParameterValue] = {}
    if text not in definitions and re.search("[:|]", text):
        from harness.plan.backend_spec import parse_backends
        from harness.plan.capability_checks import refuse_parameters

        (spec,) = parse_backends([text], cards)
        label, name = spec.label, spec.name
        overrides = {key: value for key, value in spec.overrides.items() if "@" not in key}  # of one dataset
        if spec.card is not None:
            with suppress(BackendError, CardError):  # an engine that cannot be imported here
                refuse_parameters(label, spec.card, spec.parameters, addresses=False)
    if name in definitions:
        parameters = definitions[name].parameters
        return label, definitions[name], [parameters[key] for key in overrides or parameters], overrides
    user_forms = [f"{form}: {summary}" for form, summary in _OF_USERS.items()]
    yours = [line for line in user_forms if name in re.findall("[a-z]+(?=:)", line)]
    if yours:
        raise UsageError(f"'{name}' begins a backend of yours, which has no parameters", fix=yours[0])
    raise UnknownNameError("backend", name, cards_by_name)


def texts_table(columns: Iterable[str | Column], rows: Iterable[Sequence[str]], title: str = "") -> Table:
    """Return a table of texts: names to copy first, sentences last."""
    heads = [Column(name, numeric=False) if isinstance(name, str) else name for name in columns]
    return Table(title, heads, [[Cell(text) for text in row] for row in rows])


def name_column(name: str) -> Column:
    """Return a column of names to copy."""
    return Column(name, numeric=False, unfolded=True)


def sentence_column(name: str) -> Column:
    """Return a column of sentences."""
    return Column(name, numeric=False, folds=True)


def _plain(card: BackendCard | Stage) -> dict[str, object]:
    """Return a card as plain values, with the proven capabilities of a backend."""
    proven = matrix_row(card) if isinstance(card, BackendCard) else None
    return {**asdict(card), **({"capabilities": proven.answers, "verified_on": proven.verified_on} if proven else {})}


def _markdown(*blocks: Block, title: str, subtitle: str = "") -> str:
    from harness.report.render.markdown import render_markdown

    document = Document(title, subtitle, sections=[Section("", "", blocks)], kind="backends", name=title)
    return render_markdown(document)


_OF_USERS = {
    "run:FILE": "ranked documents of anybody, in TREC's layout",
    "python:MODULE:FUNCTION": "your function (question, k), which returns ids or pairs of id and score",
    "http:url=…;ids=…": "an endpoint that answers with JSON",
    "langchain:MODULE:NAME": "an object of LangChain; so are llamaindex:, haystack: and pyterrier:",
}


def _list(cards: Collection[BackendCard]) -> str:
    rows = [(card.name, card.extra or "-", card.summary) for card in cards]
    forms = [(f"{name}:A+B", stage.summary) for name, stage in fusions().items()]
    forms += [(f"A|{name}", stage.summary) for name, stage in rerankers().items()]
    forms += _OF_USERS.items()
    summary = sentence_column("summary")
    return page(
        texts_table([name_column("backend"), "extra", summary], rows),
        matrix_table(cards),
        texts_table([name_column("combinations of other backends, or your own code"), summary], forms),
    )


def _facts(card: BackendCard) -> list[Facts]:
    answers, verified_on = matrix_row(card)
    can = [name if answer == "yes" else f"{name} ({answer})" for name, answer in answers.items() if answer != "-"]
    rows = [
        ("engine", card.engine),
        ("install", f"pip install 'retrieval-harness[{card.extra}]'" if card.extra else "in the base install"),
        ("encoder", card.encoder),
        ("reference", _reference(card.reference)),
        ("can", ", ".join(can)),
        ("verified", "; ".join(verified_on) or "on no real engine"),
        ("card", str(card.path)),
        *_gaps(card),
    ]
    return [Facts("", rows, open=True)]


def _parameters(parameters: Iterable[Parameter], overrides: Mapping[str, ParameterValue], *, scoped: bool) -> Table:
    """Return a row for each parameter, with the ``overrides`` values; ``scoped`` adds the effect of another value."""
    rows = []
    for parameter in parameters:
        # not the rate of a model's calls, nor the source of a key
        scope = [f"{parameter.scope}{', no result' if parameter.affects == 'nothing' else ''}"] if scoped else []
        values = [*([value_text(overrides[parameter.name])] if overrides else []), value_text(parameter.default)]
        rows.append((parameter.name, *values, accepted_values(parameter), *scope, parameter.help))
    columns = [*(["value"] if overrides else []), "default", "takes", *(["changes"] if scoped else [])]
    return texts_table([name_column("parameter"), *columns, sentence_column("meaning")], rows)


def _gaps(card: BackendCard) -> list[tuple[str, str]]:
    """Return the capabilities that the engine declares missing; its module is imported, client libraries are not."""
    from harness.engines.interface import Capabilities  # brings numpy, which the list of backends does without

    try:
        declared = getattr(load_engine(card), "capabilities", None)
    except (BackendError, CardError) as error:
        return [("gaps", f"not known here: {error.problem}")]
    gaps = declared.gaps if isinstance(declared, Capabilities) else {}
    return [("gap", f"{test.removeprefix('test_').replace('_', ' ')}: {reason}") for test, reason in gaps.items()]


def _reference(reference: ReferenceRule) -> str:
    if reference.kind == "none":
        return "none"
    exceptions = [f"{name}={value_text(value)}" for name, values in reference.unless.items() for value in values]
    unless = f"; none with {', '.join(exceptions)}" if exceptions else ""
    scoring = ""
    if reference.scoring is not None:
        scoring = f", weighed by {reference.scoring}" if ":" in reference.scoring else f" of {reference.scoring}'s BM25"
    return f"{reference.kind}{scoring}, relative tolerance {reference.tolerance:g}{unless}"


def accepted_values(parameter: Parameter) -> str:
    """Return the type of a parameter's values, and which of them it takes."""
    low, high = parameter.minimum, parameter.maximum
    if parameter.choices:
        which = f", one of {', '.join(value_text(choice) for choice in parameter.choices)}"
    elif low is not None and low == high:
        which = f", {_bound(low)} only"
    elif low is not None:
        which = f", at least {_bound(low)}" if high is None else f", {_bound(low)} to {_bound(high)}"
    else:
        which = "" if high is None else f", at most {_bound(high)}"
    return f"{parameter.type}{which}"


def _bound(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:g}"


def value_text(value: object) -> str:
    """Return a parameter's value as written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return "''" if value == "" else str(value)
