"""The queries behind the verdicts: who lost and gained most, both rankings of the worst, and what to label."""

from __future__ import annotations

from harness.report.cells import NOT_APPLICABLE, Table
from harness.report.regression_tables import signed
from harness.results.regression_schema import Dossier, QueryChange, QueryValue, RankedDocument, RegressionReport

__all__ = ["query_tables"]

_SHOWN = 5
_TO_LABEL = 10
_TEXT = 60


def query_tables(report: RegressionReport) -> list[Table]:
    """For each backend: losers and winners, the rankings of the query that changed most, and documents to label."""
    made = []
    for backend in report.backends:
        if backend.dossier is None or not backend.dossier.queries:
            continue
        made += [_movers(backend.after, backend.dossier, sign) for sign in (-1, 1)]
        made += [_rankings(backend.after, backend.dossier), _to_label(backend.after, backend.dossier)]
    return [table for table in made if table.rows]


def _movers(label: str, dossier: Dossier, sign: int) -> Table:
    """The queries that lost (``sign`` −1) or gained (1) most in the metric that orders the dossier."""
    metric = dossier.metric or ""
    count = dossier.counts.worsened if sign < 0 else dossier.counts.improved
    moved = [(query, value) for query in dossier.queries for value in query.values if value.metric == metric]
    chosen = [(query, value) for query, value in moved if sign * value.difference > 0][:_SHOWN]
    columns = ("query", "text", "before", "after", "difference", "if all relevant", "judged", "entered", "left")
    rows = [_mover(query, value, dossier.depth) for query, value in chosen]
    word = "lost" if sign < 0 else "gained"
    title = f"{label}: queries that {word} most in {metric} ({len(rows)} of {count:,})"
    return Table(title, columns, tuple(rows))


def _mover(query: QueryChange, value: QueryValue, depth: int) -> tuple[str, ...]:
    judged = NOT_APPLICABLE
    if query.judged_before is not None and query.judged_after is not None:
        judged = f"{query.judged_before} → {query.judged_after} of {depth}"
    supposed = NOT_APPLICABLE
    if value.before_if_relevant is not None and value.after_if_relevant is not None:
        supposed = signed(value.after_if_relevant - value.before_if_relevant)
    return (
        query.query,
        _shortened(query.text),
        f"{value.before:.4f}",
        f"{value.after:.4f}",
        signed(value.difference),
        supposed,
        judged,
        str(len(query.entered)),
        str(len(query.left)),
    )


def _rankings(label: str, dossier: Dossier) -> Table:
    """Both rankings of the query that changed most, side by side."""
    query = dossier.queries[0]
    depth = dossier.depth
    before = {at: one for one in query.documents if (at := one.rank_before) is not None and at <= depth}
    after = {at: one for one in query.documents if (at := one.rank_after) is not None and at <= depth}
    rows = [
        (str(rank), *_document(before.get(rank)), *_document(after.get(rank)), _move(after.get(rank)))
        for rank in range(1, max([*before, *after], default=0) + 1)
    ]
    title = f"{label}: query {query.query}, both rankings"
    return Table(title, ("rank", "before", "grade", "after", "grade", "move"), tuple(rows))


def _document(one: RankedDocument | None) -> tuple[str, str]:
    if one is None:
        return NOT_APPLICABLE, ""
    return one.document, "unjudged" if one.grade is None else str(one.grade)


def _move(one: RankedDocument | None) -> str:
    if one is None or one.rank_after is None:
        return ""
    if one.rank_before is None:
        return "new"
    up = one.rank_before - one.rank_after
    return f"↑{up}" if up > 0 else f"↓{-up}" if up < 0 else "="


def _to_label(label: str, dossier: Dossier) -> Table:
    rows = [
        (one.query, one.document, _rank(one.rank_before), _rank(one.rank_after), signed(one.swing))
        for one in dossier.to_label[:_TO_LABEL]
    ]
    title = f"{label}: labels that would move most ({len(rows)} of {len(dossier.to_label):,})"
    return Table(title, ("query", "document", "rank before", "rank after", "moves the difference by"), tuple(rows))


def _rank(rank: int | None) -> str:
    return NOT_APPLICABLE if rank is None else str(rank)


def _shortened(text: str | None) -> str:
    if text is None:
        return NOT_APPLICABLE
    words = " ".join(text.split())
    return words if len(words) <= _TEXT else f"{words[: _TEXT - 1]}…"
