"""Tabulate the capabilities of each backend, and which of them the contract suite proved on a real engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from harness.document.model import Cell, Column, Table
from harness.errors import BackendError, CardError
from harness.registry.cards import BackendCard
from harness.registry.lookup import load_engine
from harness.registry.proven import DeclaredSupport, proven_engines

Answer = Literal["yes", "?", "-"]
"""``yes`` is proven, ``?`` is declared and not verified on a real engine, ``-`` is not there."""
CAPABILITIES = ("text", "sparse", "dense", "hybrid", "fields", "filter", "external", "deletes", "server", "concurrency")
_COLUMN_OF_INPUT = {"terms": "text", "terms+dense": "hybrid"}
_OF_INPUT = ("text", "sparse", "dense", "hybrid")
LEGEND = (
    "yes: the contract suite proved it on the engine named under 'verified on'",
    "?: declared, and not proven on a real engine",
    "text, sparse, dense, hybrid: input that the engine indexes (text: texts, or analysed terms that it weighs itself)",
    "fields: it searches several fields of a document with weights (fields=title^3+text)",
    "filter: it searches among the documents that match; external: it searches an index made by others (external=true)",
    "deletes: documents of a finished index can be deleted, replaced and added (--churn); server: a running one (url=)",
    "concurrency: shared by clients under load: an index (processes), an engine (threads), a server, nothing (copies)",
)


class Row(NamedTuple):
    """Answers for each capability (concurrency has its own words), and the engines that they were proven on."""

    answers: dict[str, str]
    verified_on: tuple[str, ...]


def matrix_row(card: BackendCard) -> Row:
    """Return the answers of a card: from the contract suite's file, or as its own class declares them.

    A class that cannot be imported here declares nothing.
    """
    support = proven_engines().get(card.engine) or _declared(card)
    if support is None:
        return Row(dict.fromkeys(CAPABILITIES, "?"), ())
    takes = _COLUMN_OF_INPUT.get(support.input, support.input)
    answers = {
        **{name: _answer(name == takes, support.verified("results")) for name in _OF_INPUT},
        "fields": _answer(support.fields, support.verified("fields")),
        "filter": _answer(support.filters, support.verified("filter")),
        "external": _answer(support.external, support.verified("external")),
        "deletes": _answer(support.changes, support.verified("changes")),
        "server": _answer("url" in card.parameters, support.verified("results", "server")),
        "concurrency": _concurrency(support, card),
    }
    return Row(answers, support.verified_on)


def matrix_table(cards: Iterable[BackendCard]) -> Table:
    """Return a row for each card: its capabilities, and the engine and version on which they were proven."""
    columns = [
        Column("backend", numeric=False, unfolded=True),
        *(Column(name, numeric=name != "concurrency") for name in CAPABILITIES),
        Column("verified on", numeric=False),
    ]
    rows = []
    for card in cards:
        answers, verified_on = matrix_row(card)
        cells = [Cell(answers[name], tone="unsure" if answers[name] == "?" else "plain") for name in CAPABILITIES]
        rows.append([Cell(card.name), *cells, Cell("; ".join(verified_on) or "not verified")])
    return Table("capabilities of each", columns, rows, legend=LEGEND)


def _answer(declared: bool, proven: bool) -> Answer:
    return "-" if not declared else "yes" if proven else "?"


def _concurrency(support: DeclaredSupport, card: BackendCard) -> str:
    if not support.verified("sharing"):
        return "?"
    ways = [
        name for name, supported in (("processes", support.shares_index), ("threads", support.threads)) if supported
    ]
    if "url" in card.parameters and support.verified("sharing", "server"):
        ways.append("server")
    return ", ".join(ways) or "copies"


def _declared(card: BackendCard) -> DeclaredSupport | None:
    """Return the declarations of the class of a card without proofs; its module is imported for them."""
    from harness.engines.interface import Capabilities  # brings numpy, which cards with proofs do without

    try:
        declared = getattr(load_engine(card), "capabilities", None)
    except (BackendError, CardError):
        return None
    if not isinstance(declared, Capabilities):
        return None
    reach = declared.filters, declared.external, declared.shares_index, declared.threads
    return DeclaredSupport(declared.input, *reach, declared.changes, declared.fields, declared.gaps)
