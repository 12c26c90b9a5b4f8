"""What changed, query by query: both rankings side by side, what is judged of them, and what to label next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.data.types import Qrels
from harness.pipeline.regress.pairing import Pair
from harness.pipeline.regress.rescoring import Grades, grades_of
from harness.pipeline.regress.supposed import Supposed, Swing
from harness.results.regression_schema import Decision, Dossier, QueryChange, QueryValue, RankedDocument, ToLabel
from harness.results.side import OVERLAP, Side

__all__ = ["make_dossier"]

_ROUNDING = 1e-12
_Figure = Mapping[str, Mapping[str, float]]
_Figures = tuple[_Figure, _Figure]
"""Metric to query to value, before and after."""


@dataclass(frozen=True, eq=False, slots=True)
class _Rankings:
    """The first documents of both sides, by query, and the grades of everything that is judged."""

    before: Mapping[str, Sequence[str]]
    after: Mapping[str, Sequence[str]]
    grades: Grades
    depth: int

    def unjudged(self, query: str) -> list[str]:
        """Documents of either side without a judgment for this query: the later ranking's first."""
        known = self.grades.get(query, {})
        listed = dict.fromkeys([*self.after.get(query, ()), *self.before.get(query, ())])
        return [document for document in listed if document not in known]

    def same(self, query: str) -> bool:
        """Whether both sides have the same documents at the same ranks."""
        return list(self.before.get(query, ())) == list(self.after.get(query, ()))


def make_dossier(
    before: Side,
    after: Side,
    pair: Pair,
    queries: Sequence[str],
    qrels: Qrels | None,
    *,
    metric: str | None,
    depth: int,
    limit: int,
) -> Dossier:
    """The dossier of one backend, with the ``limit`` of ``queries`` in full that changed most in ``metric``.

    ``depth`` documents of each ranking are looked at, or as many as a baseline kept. Judged, and relevant, mean for
    that very query. Without ``qrels`` there are rankings and moves alone.
    """
    depth = min(depth, before.deepest, after.deepest)
    figures = before.figures[pair.before], after.figures[pair.after]
    grades = grades_of(qrels, queries) if qrels is not None else {}
    rankings = _Rankings(before.first(pair.before, depth), after.first(pair.after, depth), grades, depth)
    moved = {query: _difference(figures, metric, query) for query in queries}
    changed = [query for query in queries if moved[query] or not rankings.same(query)]
    changed.sort(key=lambda query: (-abs(moved[query] or 0.0), -_moves(rankings, query)))
    supposed = Supposed(before, after, pair, rankings.unjudged, grades, metric) if qrels is not None else None
    return Dossier(
        metric=metric,
        depth=depth,
        counts=_counts(moved.values(), sum(rankings.same(query) for query in queries)),
        changed=len(changed),
        judged_before=_judged_share(rankings.before, grades, queries),
        judged_after=_judged_share(rankings.after, grades, queries),
        queries=_told(changed[:limit], {**before.texts, **after.texts}, figures, rankings, supposed),
        to_label=_to_label(supposed.swings(changed[:limit]), rankings) if supposed is not None else [],
    )


def _told(
    queries: Sequence[str], texts: Mapping[str, str], figures: _Figures, rankings: _Rankings, supposed: Supposed | None
) -> list[QueryChange]:
    metrics = [name for name in figures[1] if name in figures[0] and not name.startswith(OVERLAP)]
    bounds = supposed.all_relevant(queries) if supposed is not None else ({}, {})
    told = []
    for query in queries:
        values = [
            _value(figures, bounds, name, query)
            for name in metrics
            if query in figures[0][name] and query in figures[1][name]
        ]
        told.append(_query_change(query, texts.get(query), values, rankings, judged=supposed is not None))
    return told


def _difference(figures: _Figures, metric: str | None, query: str) -> float | None:
    """After minus before, what is only rounding being 0; None for a query that a side was not evaluated on."""
    if metric is None or query not in figures[0][metric] or query not in figures[1][metric]:
        return None
    found = figures[1][metric][query] - figures[0][metric][query]
    return 0.0 if abs(found) <= _ROUNDING else found


def _counts(moved: Iterable[float | None], same: int) -> Decision:
    known = [value for value in moved if value is not None]
    return Decision(
        improved=sum(value > 0 for value in known),
        worsened=sum(value < 0 for value in known),
        unchanged=sum(value == 0 for value in known),
        same_ranking=same,
    )


def _moves(rankings: _Rankings, query: str) -> int:
    """At how many ranks the two sides have different documents."""
    one, other = rankings.before.get(query, ()), rankings.after.get(query, ())
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


def _judged_share(first: Mapping[str, Sequence[str]], grades: Grades, queries: Iterable[str]) -> float | None:
    """Mean over the judged queries that found anything; None where there are none."""
    shares = [
        fmean(document in grades[query] for document in first[query])
        for query in queries
        if query in grades and first.get(query)
    ]
    return fmean(shares) if shares else None


def _value(
    figures: _Figures,
    bounds: _Figures,
    metric: str,
    query: str,
) -> QueryValue:
    one, other = figures[0][metric][query], figures[1][metric][query]
    return QueryValue(
        metric=metric,
        before=one,
        after=other,
        difference=other - one,
        before_if_relevant=bounds[0].get(metric, {}).get(query),
        after_if_relevant=bounds[1].get(metric, {}).get(query),
    )


def _query_change(
    query: str, text: str | None, values: list[QueryValue], rankings: _Rankings, *, judged: bool
) -> QueryChange:
    before = {document: rank for rank, document in enumerate(rankings.before.get(query, ()), 1)}
    after = {document: rank for rank, document in enumerate(rankings.after.get(query, ()), 1)}
    grades = rankings.grades.get(query, {})
    return QueryChange(
        query=query,
        text=text,
        values=values,
        judged_before=sum(document in grades for document in before) if judged else None,
        judged_after=sum(document in grades for document in after) if judged else None,
        documents=[
            RankedDocument(
                document=document,
                rank_before=before.get(document),
                rank_after=after.get(document),
                grade=grades.get(document),
            )
            for document in dict.fromkeys([*after, *before])
        ],
        entered=[document for document in after if document not in before],
        left=[document for document in before if document not in after],
    )


def _to_label(swings: Sequence[Swing], rankings: _Rankings) -> list[ToLabel]:
    return [
        ToLabel(
            query=one.query,
            document=one.document,
            rank_before=_rank(rankings.before, one),
            rank_after=_rank(rankings.after, one),
            swing=one.size,
        )
        for one in swings
    ]


def _rank(first: Mapping[str, Sequence[str]], one: Swing) -> int | None:
    listed = first.get(one.query, ())
    return list(listed).index(one.document) + 1 if one.document in listed else None
