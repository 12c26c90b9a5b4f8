"""What two results have in common: the queries that can be compared, and whether the data are the same."""

from __future__ import annotations

from typing import NamedTuple

from harness.errors import ResultError
from harness.results.regression_schema import DataRelation, Sameness
from harness.results.side import Side
from harness.wording import counted

__all__ = ["Common", "common_queries"]


class Common(NamedTuple):
    """The common queries in the order of the earlier result, how the data relate, and warnings about it."""

    queries: frozenset[str]
    relation: DataRelation
    warnings: tuple[str, ...]


def common_queries(before: Side, after: Side, *, labels: int = 0) -> Common:
    """Queries that have the same id and, where both sides know it, the same text.

    Raises ResultError when there are none: nothing can be said of the two.
    """
    ours, theirs = _asked(before), _asked(after)
    texts = bool(before.digests) and bool(after.digests)
    same_id = [query for query in ours if query in theirs]
    common = [query for query in same_id if not texts or before.digests.get(query) == after.digests.get(query)]
    if not common:
        raise ResultError(
            f"'{before.source}' ({before.report.dataset.name}, {counted(len(ours), 'query')}) and '{after.source}' "
            f"({after.report.dataset.name}, {counted(len(theirs), 'query')}) have no query in common",
            fix="compare results of the same queries",
        )
    documents, queries, judgments, candidates = _relation(before, after)
    if set(common) != ours.keys() or set(common) != theirs.keys():
        queries = "different"
    relation = DataRelation(
        documents=documents,
        queries=queries,
        judgments=judgments,
        candidates=candidates,
        queries_before=len(ours),
        queries_after=len(theirs),
        common_queries=len(common),
        texts_compared=texts,
        labels=labels,
    )
    return Common(frozenset(common), relation, tuple(_warnings(before, after, relation, len(same_id))))


def _asked(side: Side) -> dict[str, None]:
    """Every query that the side knows, in order; without texts, also those that were answered and not evaluated."""
    queries = dict.fromkeys(side.digests)
    if not queries:
        runs = [run for label in side.labels if (run := side.hits(label)) is not None]
        queries |= {query: None for run in runs for query in run.query_ids}
    for figures in side.figures.values():
        for values in figures.values():
            queries |= dict.fromkeys(values)
    return queries


class _Relation(NamedTuple):
    documents: Sameness
    queries: Sameness
    judgments: Sameness
    candidates: Sameness


def _relation(before: Side, after: Side) -> _Relation:
    one, other = before.report.dataset, after.report.dataset
    if one.sha256 == other.sha256:
        return _Relation("same", "same", "same", "same")
    if one.content is None or other.content is None:
        return _Relation("unknown", "unknown", "unknown", "unknown")
    unsaid = any(info.candidates is not None and digests.candidates is None for info, digests in (
        (one, one.content), (other, other.content),
    ))  # fmt: skip
    return _Relation(
        _same(one.content.documents, other.content.documents),
        _same(one.content.queries, other.content.queries),
        _same(one.content.judgments, other.content.judgments),
        "unknown" if unsaid else _same(one.content.candidates, other.content.candidates),
    )


def _same(one: str | None, other: str | None) -> Sameness:
    return "same" if one == other else "different"


def _warnings(before: Side, after: Side, relation: DataRelation, same_id: int) -> list[str]:
    one, other = before.report.dataset, after.report.dataset
    found = []
    if relation.documents == "different":
        counts = f"{counted(one.documents, 'document')} before, {other.documents:,} now"
        found.append(f"THE DOCUMENTS ARE NOT THE SAME ({counts}): differences are the collection's too")
    if relation.documents == "unknown":
        found.append("the data are not the same, and the earlier result does not say which part of them changed")
    if relation.judgments == "different":
        counts = f"{one.judgments:,} before, {other.judgments:,} now"
        found.append(f"THE JUDGMENTS ARE NOT THE SAME ({counts}): differences are the judgments' too")
    if relation.candidates == "different":
        found.append("THE CANDIDATES ARE NOT THE SAME: queries are ranked among other documents than before")
    if relation.candidates == "unknown" and relation.documents != "unknown":
        found.append("a side does not say which candidates its queries were ranked among: they may have changed")
    if relation.queries == "different":
        counts = f"{counted(relation.queries_before, 'query')} before, {relation.queries_after:,} now"
        found.append(f"{counts}: only the {relation.common_queries:,} that both have are compared")
    if same_id > relation.common_queries:
        left_out = counted(same_id - relation.common_queries, "query has", "queries have")
        found.append(f"{left_out} the same id and another text: left out")
    if not relation.texts_compared:
        found.append("a side does not hold the queries' texts, so queries are matched by their ids alone")
    return found
