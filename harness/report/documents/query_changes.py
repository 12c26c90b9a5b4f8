"""Tabulate the queries behind verdicts: most lost and gained, both rankings of the worst, and documents to label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.document.cells import ABSENT, count, join_names, number, signed, text
from harness.document.model import Cell, Column, Table
from harness.metrics import improvement
from harness.results.regression_schema import BackendChange, Change, Dossier, QueryChange, QueryValue, RankedDocument
from harness.wording import id_list, short_ids

_MAX_QUERIES = 5
_MAX_DOCUMENTS = 10
_TO_LABEL = 25
_TEXT = 60


def query_tables(report: Change) -> Iterator[Table]:
    """Yield for each pair losers and winners, the rankings of the query that changed most, and documents to label."""
    for backend in report.backends:
        if backend.dossier is not None and backend.dossier.queries:
            first, label = backend.dossier.metric or "", f"{backend.after}{report.on(backend)}"
            failed = [metric.metric for metric in backend.metrics if metric.gate == "failed" and metric.metric != first]
            made = _losses(label, backend, backend.dossier, [first, *failed])
            made.insert(1, _movers(label, backend, backend.dossier, [first], 1))
            made += [_rankings(label, backend.dossier), _label_table(label, backend.dossier)]
            yield from (table for table in made if table.rows)


def _losses(label: str, backend: BackendChange, dossier: Dossier, metrics: Sequence[str]) -> list[Table]:
    """Tabulate the queries that lost most of each metric; metrics with the same rows share a table."""
    groups: dict[str, list[str]] = {}
    for name in metrics:
        table = _movers(label, backend, dossier, [name], -1)
        groups.setdefault(repr((_total(backend, name, -1), table.rows)), []).append(name)
    return [_movers(label, backend, dossier, group, -1) for group in groups.values()]


def losers(backend: BackendChange, metric: str) -> list[str]:
    """Return the queries that lost most of a metric, one line each."""
    lost: list[tuple[float, QueryChange]] = []
    for query in backend.dossier.queries if backend.dossier is not None else ():
        lost += [
            (value.difference, query)
            for value in query.values
            if value.metric == metric and improvement(metric, value.difference) < 0
        ]
    lost.sort(key=lambda loss: improvement(metric, loss[0]))
    lines = []
    for difference, query in lost[:_MAX_DOCUMENTS]:
        query_text = f" {query.text!r}" if query.text is not None else ""
        gone = f"; removed: {', '.join(query.removed)}" if query.removed else ""
        lines.append(f"{query.query}{query_text}: {signed(difference)}{gone}")
    return lines + (
        [f"… and {len(lost) - _MAX_DOCUMENTS:,} more, in report.json"] if len(lost) > _MAX_DOCUMENTS else []
    )


def _movers(label: str, backend: BackendChange, dossier: Dossier, metrics: Sequence[str], sign: int) -> Table:
    """Tabulate the queries that lost (``sign`` −1) or gained (1) most of equal metrics, of all in the verdict."""
    metric, names = metrics[0], join_names(metrics, len(metrics))
    values = [(query, value) for query in dossier.queries for value in query.values if value.metric == metric]
    moved = [(query, value) for query, value in values if sign * improvement(metric, value.difference) > 0]
    total = _total(backend, metric, sign)
    total = len(moved) if total is None else total
    chosen = sorted(moved, key=lambda pair: abs(pair[1].difference), reverse=True)[:_MAX_QUERIES]
    columns = [
        Column("query", numeric=False),
        Column("text", numeric=False, priority=1),
        Column("before"),
        Column("after"),
        Column("difference"),
        Column("if all relevant", priority=5, help="the difference if every unjudged document were relevant"),
        Column("judged", numeric=False, priority=4, help="of the first documents, before and after"),
        Column("added", priority=3, help="documents that came into the first ones"),
        Column("removed", priority=2, help="documents that left the first ones"),
        Column("lost (relevant)", numeric=False, priority=2, help=f"relevant documents that left the depth of {names}"),
    ]
    word = "lost" if sign < 0 else "gained"
    title = f"{label}: queries that {word} most in {names} ({len(chosen)} of {total:,})"
    short = short_ids([query.query for query, _ in chosen])
    docs = short_ids(doc for query, value in chosen for doc in value.lost)
    rows = [_mover(query, value, dossier.depth, short[query.query], docs) for query, value in chosen]
    return Table(title, columns, rows, detail=sign > 0)


def _total(backend: BackendChange, metric: str, sign: int) -> int | None:
    """Return how many queries lost or gained of a metric; None for a metric that was not judged."""
    counts = (judged.losses if sign < 0 else judged.wins for judged in backend.metrics if judged.metric == metric)
    return next(counts, None)


def _mover(query: QueryChange, value: QueryValue, depth: int, name: str, docs: Mapping[str, str]) -> list[Cell]:
    judged, supposed = ABSENT, None
    if query.judged_before is not None and query.judged_after is not None:
        judged = f"{query.judged_before} → {query.judged_after} of {depth}"
    if value.before_if_relevant is not None and value.after_if_relevant is not None:
        supposed = value.after_if_relevant - value.before_if_relevant
    return [
        text(name),
        text(_shortened(query.text)),
        number(value.before),
        number(value.after),
        Cell(signed(value.difference), value=value.difference),
        Cell(signed(supposed), value=supposed),
        text(judged),
        count(len(query.added)),
        count(len(query.removed)),
        text(id_list([docs[doc] for doc in value.lost])),
    ]


def _rankings(label: str, dossier: Dossier) -> Table:
    """Tabulate both rankings of the query that changed most, side by side."""
    query = dossier.queries[0]
    depth = dossier.depth
    before = {
        rank_before: document
        for document in query.documents
        if (rank_before := document.rank_before) is not None and rank_before <= depth
    }
    after = {
        rank_before: document
        for document in query.documents
        if (rank_before := document.rank_after) is not None and rank_before <= depth
    }
    both = [*before.values(), *after.values()]
    short = short_ids(document.document for document in both)
    chunks = short_ids(
        chunk for document in both for chunk in (document.chunk_before, document.chunk_after) if chunk is not None
    )
    rows = []
    for rank in range(1, max([*before, *after], default=0) + 1):
        first, now = before.get(rank), after.get(rank)
        cells = _ranked(first, short, chunks.get((first.chunk_before if first is not None else None) or ""))
        cells += _ranked(now, short, chunks.get((now.chunk_after if now is not None else None) or ""))
        rows.append([count(rank), *cells, text(_move(now))])
    names = ("before", "grade", "after", "grade", "move")
    columns = [Column("rank"), *(Column(name, numeric=False) for name in names)]
    return Table(f"{label}: query {query.query}, both rankings", columns, rows, detail=True)


def _ranked(document: RankedDocument | None, short: Mapping[str, str], chunk: str | None) -> list[Cell]:
    """Return a document, with the chunk of it that was returned, and its grade."""
    if document is None:
        return [text(ABSENT), text("")]
    name = short[document.document] if chunk is None else f"{short[document.document]} ({chunk})"
    further = document.further_chunk_of
    if further is not None:
        return [text(name), text(f"also {short.get(further, further)}")]
    return [text(name), text("unjudged" if document.grade is None else str(document.grade))]


def _move(document: RankedDocument | None) -> str:
    if document is None or document.rank_after is None:
        return ""
    if document.rank_before is None:
        return "new" if document.further_chunk_of is None else ""
    up = document.rank_before - document.rank_after
    return f"↑{up}" if up > 0 else f"↓{-up}" if up < 0 else "="


def _label_table(label: str, dossier: Dossier) -> Table:
    """Tabulate unjudged documents of either side, first those whose label could move the verdict most."""
    columns = [
        Column("query", numeric=False),
        Column("document", numeric=False),
        Column("rank before"),
        Column("rank after"),
        Column("moves the difference by", help="of its query in the first metric, if it were relevant"),
    ]
    rows, chosen = [], dossier.to_label[:_TO_LABEL]
    queries, docs = short_ids(one.query for one in chosen), short_ids(one.document for one in chosen)
    for document in chosen:
        cells = [
            text(queries[document.query]),
            text(docs[document.document]),
            count(document.rank_before),
            count(document.rank_after),
        ]
        rows.append([*cells, Cell(signed(document.swing), value=document.swing)])
    title = f"{label}: labels that would move most ({len(rows)} of {len(dossier.to_label):,})"
    legend = ["to-label.jsonl has all of them, to fill in and give back with --labels"]
    return Table(title, columns, rows, legend, detail=True)


def _shortened(text: str | None) -> str:
    if text is None:
        return ABSENT
    words = " ".join(text.split())
    return words if len(words) <= _TEXT else f"{words[: _TEXT - 1]}…"
