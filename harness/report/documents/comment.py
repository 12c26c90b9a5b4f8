"""Build the comment on a pull request: the verdict, and the questions that were lost and won, apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from harness.document.cells import ABSENT, label_lines, number, sections_with_content, text
from harness.document.model import Block, Column, Document, Section, Table, Verdict
from harness.metrics import improvement
from harness.report.documents.regress import change_label_lines
from harness.results.regression_schema import BackendChange, Change, QueryChange, QueryValue
from harness.results.schema import Result
from harness.wording import counted, id_list, short_ids

_MOST = 20
_TEXT = 70
_FIRST_SECTIONS = ("preflight", "requirements")
_WITHOUT_CHANGE = "quality"


def comment_document(document: Document, result: Result) -> Document:
    """Return the short form of a judged result for a comment, with short names of backends.

    ``document`` is everything that is shown of ``result``. The comment has its verdicts and requirements, and a table
    of the questions that each backend lost, and of those that it won; a check that is compared with nothing has its
    figures.
    """
    change = result.change
    labels = document.labels
    anchors = (*_FIRST_SECTIONS, *((_WITHOUT_CHANGE,) if change is None else ()))
    sections = [_shortened(section, labels) for section in document.sections if section.anchor in anchors]
    if change is not None:
        sections.append(Section("changed", "Questions lost and won", list(_changed(change, labels))))
    verdicts = [
        replace(one, headline=_replaced(one.headline, labels), detail=_replaced(one.detail, labels))
        for one in document.verdicts
    ]
    if change is None and not result.requirements and result.verdict == "passed":
        verdicts = [_plain_verdict(result), *(one for one in verdicts if one.tone != "plain")]
    subtitle = document.subtitle.split("\n")[0] if change is None else _compared(change)
    labelled = label_lines(result.datasets) if change is None else change_label_lines(change)
    return replace(
        document,
        subtitle="\n".join([subtitle, *labelled]),
        verdicts=verdicts,
        sections=sections_with_content(sections),
        labels=labels,
    )


def _compared(change: Change) -> str:
    names = [PurePath(side.source).name or side.source for side in (change.before, change.after)]
    return f"{names[0]} → {names[1]} · {counted(change.common_queries, 'common question')}"


def _plain_verdict(result: Result) -> Verdict:
    """Return the verdict on a check of which nothing is required, without advice on the next command."""
    if result.plan.resolved.get("baseline") is not None:
        return Verdict("plain", "Compared with nothing: there was no baseline yet")
    return Verdict("plain", "Nothing was required, and nothing compared")


def _replaced(sentence: str, labels: Mapping[str, str]) -> str:
    """Return a sentence with short names of backends; long names first, since one may begin another."""
    for label in sorted(labels, key=len, reverse=True):
        sentence = sentence.replace(label, labels[label])
    return sentence


def _shortened(section: Section, labels: Mapping[str, str]) -> Section:
    """Return the tables of a section that are no details, with short names of backends."""
    blocks: list[Block] = []
    for block in section.blocks:
        if isinstance(block, Table) and not block.detail:
            rows = [[replace(cell, text=labels.get(cell.text, cell.text)) for cell in row] for row in block.rows]
            blocks.append(replace(block, rows=rows))
    return replace(section, blocks=blocks)


class _Move(NamedTuple):
    """A question and the first of its metrics that changed."""

    query: QueryChange
    value: QueryValue


def _changed(change: Change, labels: Mapping[str, str]) -> Iterator[Table]:
    """Yield for each backend a table of the questions that it lost, and one of those that it won."""
    for backend in change.backends:
        name = f"{labels.get(backend.after, backend.after)}{change.on(backend)}"
        moves = _moves(backend)
        for word, sign in (("lost", -1), ("won", 1)):
            chosen = [move for move in moves if sign * improvement(move.value.metric, move.value.difference) > 0]
            if chosen:
                yield _table(name, word, chosen, of_stored=_is_cut(backend))


def _is_cut(backend: BackendChange) -> bool:
    """Return whether the result holds only some of the questions that changed."""
    dossier = backend.dossier
    return dossier is not None and dossier.changed_queries > len(dossier.queries)


def _moves(backend: BackendChange) -> list[_Move]:
    """Return the questions whose values changed: by the first metric that did, the largest changes first."""
    metrics = {metric.metric: position for position, metric in enumerate(backend.metrics)}
    moves = []
    for query in backend.dossier.queries if backend.dossier is not None else ():
        values = [value for value in query.values if value.metric in metrics and value.difference]
        if values:
            moves.append(_Move(query, min(values, key=lambda value: metrics[value.metric])))
    return sorted(moves, key=lambda move: (metrics[move.value.metric], -abs(move.value.difference)))


def _table(name: str, word: str, moves: Sequence[_Move], *, of_stored: bool) -> Table:
    """Tabulate questions; ``of_stored`` says that the result does not hold all that changed."""
    first = moves[:_MOST]
    names = short_ids([move.query.query for move in first])
    documents = [move.value.lost if word == "lost" else move.query.gained for move in first]
    short = short_ids(document for of_query in documents for document in of_query)
    rows = [
        [
            text(names[query.query]),
            text(_question(query)),
            text(value.metric),
            number(value.before),
            number(value.after),
            text(id_list([short[document] for document in of_query]) or ABSENT),
        ]
        for (query, value), of_query in zip(first, documents, strict=True)
    ]
    columns = [
        Column("question", numeric=False),
        Column("text", numeric=False),
        Column("metric", numeric=False),
        Column("before"),
        Column("after"),
        Column(f"documents {word}", numeric=False),
    ]
    least = "at least " if of_stored else ""
    title = f"{name}: {least}{counted(len(moves), 'question')} {word}"
    return Table(f"{title}, the first {_MOST} of them" if len(moves) > len(first) else title, columns, rows)


def _question(query: QueryChange) -> str:
    if query.text is None:
        return ABSENT
    words = " ".join(query.text.split())
    return words if len(words) <= _TEXT else f"{words[: _TEXT - 1]}…"
