"""The document of ``harness.explain``: a section for each backend, and one for the differences between backends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import numpy as np

from harness.document.cells import ABSENT, join_names, number, text
from harness.document.model import Block, Cell, Column, Document, Facts, Section, Table, Tone
from harness.engines.interface import ScoreTree
from harness.results.explanation import (
    Amount,
    BackendDifference,
    BackendExplanation,
    DocumentDifference,
    DocumentScore,
    EngineExplanation,
    Explanation,
    TermContribution,
    VectorScore,
    list_terms,
)
from harness.wording import counted

_DIGITS = ".6g"
_MOST_TERMS = 20


def explanation_document(explanation: Explanation) -> Document:
    """Return the document of an explanation; terms of single documents are details unless the caller named them."""
    sections = [
        Section(f"backend-{position}", backend.label, list(_backend(backend, chosen=explanation.chosen)))
        for position, backend in enumerate(explanation.backends)
    ]
    if explanation.differences:
        sections.append(Section("differences", "Between backends", list(_between(explanation))))
    documents = counted(len(explanation.documents), "document")
    return Document(
        f"harness explain: {explanation.dataset}",
        f"query {explanation.query_id}: {explanation.query} · {documents}"
        + ("" if explanation.chosen else f", at most {explanation.k} of each backend and expected ones")
        + "".join(f" · {note}" for note in explanation.notes),
        sections=sections,
        kind="explain",
        name=explanation.dataset,
        has_page=False,
    )


def _backend(backend: BackendExplanation, *, chosen: bool) -> Iterator[Block]:
    facts = [(name.replace("_", " "), _fact(value)) for name, value in backend.facts.items() if value is not None]
    if backend.cause is not None:
        facts.append(("differs from its reference by", backend.cause))
    if backend.note:
        facts.append(("note", backend.note))
    if facts:
        yield Facts(backend.label, facts, open=True)
    if backend.words:
        yield _words(backend)
    yield _documents(backend)
    if backend.kind == "terms":
        for document in backend.documents:
            if document.terms:
                yield _terms(backend, document, detail=not chosen)
    if any(document.engine is not None for document in backend.documents):
        yield _engine(backend)
        for document in backend.documents:
            if document.engine is not None and document.engine.tree is not None:
                yield _engine_numbers(backend, document, document.engine, detail=not chosen)
    if backend.differences:
        yield _document_differences(backend, detail=not chosen)


def _fact(value: str | float | None) -> str:
    return ("yes" if value else "no") if isinstance(value, bool) else value if isinstance(value, str) else f"{value:g}"


def _words(backend: BackendExplanation) -> Table:
    """Tabulate the query's words: the terms that they became, and how rare these are."""
    parts = {part.term: part for document in backend.documents for part in document.terms}
    shards = len({part.documents for document in backend.documents for part in document.terms}) > 1
    rows = []
    for word in dict.fromkeys(backend.words):
        parts_of_word = [parts[term] for term in word.terms if term in parts]
        note = "dropped" if not word.terms else "" if len(parts_of_word) == len(word.terms) else "no document has it"
        rows.append(
            [
                text(word.written),
                _joined(word.terms),
                _joined(f"{part.weight:g}" for part in parts_of_word),
                _joined("by shard" if shards else f"{part.df:,} of {part.documents:,}" for part in parts_of_word),
                _joined("by shard" if shards else _score(part.idf) for part in parts_of_word),
                text(note),
            ]
        )
    columns = [
        Column("word", numeric=False),
        Column("term", numeric=False),
        Column("in query", help="value of the term in the query"),
        Column("documents with it"),
        Column("IDF"),
        Column("", numeric=False),
    ]
    return Table(f"Words of the query in {backend.label}", columns, rows)


def _joined(values: Iterable[str]) -> Cell:
    return text(", ".join(values) or ABSENT)


def _documents(backend: BackendExplanation) -> Table:
    """Tabulate the documents: ranks and scores of the engine and of its reference, and what the score is made of."""
    exact = (document.exact_score for document in backend.documents)
    columns = [Column("document", numeric=False, unfolded=True), Column("rank"), Column("score")]
    if with_reference := any(score is not None for score in exact):
        help_text = "rank in the whole ranking of the exact reference"
        columns += [Column("exact rank", help=help_text), Column("exact score")]
    with_lengths = any(document.length is not None for document in backend.documents)
    if with_lengths:
        columns.append(Column("length", help="in terms", below="stored"))
    columns.append(Column("made of", numeric=False, folds=True))
    rows = []
    for document in backend.documents:
        stored = document.stored_length
        length = Cell(
            ABSENT if document.length is None else f"{document.length:,}",
            below=f"{stored:,}" if stored is not None and stored != document.length else "",
        )
        rows.append(
            [
                text(document.document),
                _rank(document.rank),
                text(_score(document.score)),
                *([_rank(document.exact_rank), text(_score(document.exact_score))] if with_reference else []),
                *([length] if with_lengths else []),
                text("; ".join(_parts(document))),
            ]
        )
    legend = [f"{ABSENT} not returned, or no hit"] if any(one.text == ABSENT for row in rows for one in row) else []
    return Table(f"Documents in {backend.label}", columns, rows, legend)


def _parts(document: DocumentScore) -> Iterator[str]:
    """Yield what a document's score is made of, in words."""
    if document.finding:
        yield document.finding
    present = sorted((part for part in document.terms if part.tf is not None), key=lambda part: -part.contribution)
    if present:
        yield ", ".join(f"{part.term} {_score(part.contribution)}" for part in present[:_MOST_TERMS])
    if len(present) > _MOST_TERMS:
        rest = sum(part.contribution for part in present[_MOST_TERMS:])
        yield f"{counted(len(present) - _MOST_TERMS, 'more term')} {_score(rest)}"
    if document.terms and document.of_all_documents:
        yield f"every document {_score(document.of_all_documents)}"
    if present and document.missing_terms and "; it lacks" not in document.finding:
        yield f"lacks {list_terms(document.missing_terms)}"
    if document.respelled:
        yield f"has {', '.join(document.respelled)} in another Unicode normalisation, which the analyzer keeps apart"
    if document.vector is not None:
        yield from _vector_parts(document.vector)
    for part in document.lists:
        share = "" if part.contribution is None else f", gives {_score(part.contribution)}"
        yield (
            f"not in {part.name}"
            if part.rank is None
            else f"{part.name} rank {part.rank:,}, score {_score(part.score)}{share}"
        )
    if document.tokens is not None:
        yield f"{document.cut:,} of {document.tokens:,} tokens cut" if document.cut else f"{document.tokens:,} tokens"


def _vector_parts(vector: VectorScore) -> Iterator[str]:
    """Yield how a vector is scored, in words."""
    if vector.missed:
        replaced = f": it returned {join_names(vector.instead)} instead" if vector.instead else ""
        yield f"missed by the index{replaced}"
    if vector.quantised is not None:
        yield f"quantised score {_score(vector.quantised)}"
    yield f"norm {_score(vector.norm)}"
    if vector.neighbours:
        yield f"nearest {', '.join(f'{near.document} {_score(near.similarity)}' for near in vector.neighbours)}"


def _terms(backend: BackendExplanation, document: DocumentScore, *, detail: bool) -> Table:
    """Tabulate the terms of one document."""
    rows = [_term(part) for part in document.terms]
    if document.of_all_documents:
        rows.append([text("every document"), *[text("")] * 6, text(_score(document.of_all_documents))])
    engine = "not returned" if document.score is None else f"the engine's is {_score(document.score)}"
    columns = [
        Column("term", numeric=False),
        Column("written", numeric=False),
        Column("in query"),
        Column("in document"),
        Column("df"),
        Column("N"),
        Column("IDF"),
        Column("contribution"),
    ]
    total = f"sum {_score(document.exact_score)}, which is the reference's score to the bit; {engine}"
    return Table(f"{document.document} in {backend.label}", columns, rows, [total], detail=detail)


def _term(part: TermContribution) -> list[Cell]:
    return [
        text(part.term),
        text(" ".join(part.written)),
        text(f"{part.weight:g}"),
        text(ABSENT if part.tf is None else f"{part.tf:g}"),
        number(part.df, ","),
        number(part.documents, ","),
        text(_score(part.idf)),
        text(_score(part.contribution)),
    ]


def _engine(backend: BackendExplanation) -> Table:
    """Tabulate the first difference of each of the engine's own explanations."""
    rows = []
    for document in backend.documents:
        if (engine := document.engine) is None:
            continue
        difference = "none" if engine.numbers else ""
        if (first := engine.first_difference) is not None:
            name = f"{first.name} of {first.term}" if first.term else first.name
            difference = f"{name}: {_digits(first.engine)}, in the reference {_digits(first.exact)}"
        score = text(_digits(None if engine.tree is None else engine.tree.value))
        rows.append([text(document.document), score, text("; ".join(filter(None, (difference, engine.note))))])
    columns = [
        Column("document", numeric=False, unfolded=True),
        Column("score"),
        Column("first number that differs", numeric=False, folds=True),
    ]
    return Table(f"The engine's own explanation in {backend.label}", columns, rows)


def _engine_numbers(
    backend: BackendExplanation, document: DocumentScore, engine: EngineExplanation, *, detail: bool
) -> Table:
    """Tabulate the numbers of an engine's own explanation next to the reference's, or its tree if not compared."""
    title = f"The engine's own explanation of {document.document} in {backend.label}"
    if not engine.numbers:
        columns = [Column("value"), Column("explanation", numeric=False)]
        return Table(title, columns, list(_tree_rows(engine.tree)), [engine.note], detail=detail)
    columns = [*(Column(name, numeric=False) for name in ("term", "number")), Column("reference"), Column("engine")]
    rows = []
    for pair in engine.numbers:
        mark, tone = "≠" if pair == engine.first_difference else "", "bad" if pair.differs else "plain"
        side = Cell(_digits(pair.engine), mark, tone=cast("Tone", tone))
        rows.append([text(pair.term), text(pair.name), text(_digits(pair.exact)), side])
    legend = "no number differs" if engine.first_difference is None else "≠ the first number that differs"
    return Table(title, columns, rows, [line for line in (legend, engine.note) if line], detail=detail)


def _tree_rows(tree: ScoreTree | None, depth: int = 0) -> Iterator[list[Cell]]:
    if tree is not None:
        yield [text(_digits(tree.value)), text("\u00a0\u00a0" * depth + tree.description)]
        for part in tree.details:
            yield from _tree_rows(part, depth + 1)


def _digits(value: float | None) -> str:
    """Return a number with the digits that tell its float32 from others, a larger whole number with all of its own."""
    if value is None:
        return ABSENT
    return f"{value:.0f}" if value.is_integer() else f"{float(str(np.float32(value))):.9g}"


def _document_differences(backend: BackendExplanation, *, detail: bool) -> Table:
    rows = [
        [text(pair.above), text(pair.below), text(_score(pair.difference)), text(_reasons(pair))]
        for pair in backend.differences
    ]
    columns = [
        Column("document", numeric=False, unfolded=True),
        Column("is above", numeric=False, unfolded=True),
        Column("by"),
        Column("because of", numeric=False, folds=True),
    ]
    return Table(f"Neighbours in the ranking of {backend.label}", columns, rows, detail=detail)


def _between(explanation: Explanation) -> Iterator[Block]:
    """Yield a table for each pair of backends."""
    for first, second in dict.fromkeys((pair.first, pair.second) for pair in explanation.differences):
        pairs = [one for one in explanation.differences if (one.first, one.second) == (first, second)]
        rows = [[text(pair.document), text(_signed(pair.difference)), text(_reasons(pair))] for pair in pairs]
        columns = [
            Column("document", numeric=False, unfolded=True),
            Column("difference", help=f"score in {second} minus score in {first}"),
            Column("because of", numeric=False, folds=True),
        ]
        legend = list(dict.fromkeys(f"{amount.name}: {_change(amount)}" for pair in pairs for amount in pair.amounts))
        yield Table(f"{second} minus {first}", columns, rows, [line for line in legend if not line.endswith(": ")])
        words = dict.fromkeys(pair for difference in pairs for pair in difference.words)
        if words:
            rows = [[text(a.written), _joined(a.terms), _joined(b.terms)] for a, b in words]
            columns = [Column(name, numeric=False) for name in ("word", first, second)]
            yield Table(f"Words analysed otherwise in {second}", columns, rows)


def _change(amount: Amount) -> str:
    return f"{amount.before} → {amount.after}" if amount.before or amount.after else ""


def _reasons(pair: DocumentDifference | BackendDifference) -> str:
    if not pair.amounts and pair.difference == 0:
        return "equal scores"
    return ", ".join(f"{amount.name} {_signed(amount.amount)}" for amount in pair.amounts)


def _signed(amount: float) -> str:
    return f"{amount:+{_DIGITS}}".replace("-", "−")


def _rank(rank: int | None) -> Cell:
    return text(ABSENT) if rank is None else number(rank, ",")


def _score(score: float | None) -> str:
    return ABSENT if score is None else format(score, _DIGITS).replace("-", "−")
