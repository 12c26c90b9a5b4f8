"""Show what changed, query by query: both rankings side by side, their judgments, and what to label next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from harness.data.types import Qrels
from harness.metrics import Measure
from harness.pipeline.regress.labels import Grades, grades_of, repeated, scorable, score_again, to_qrels
from harness.pipeline.regress.pairing import Pair
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
        """Return documents of either side without a judgment for this query, the later ranking's first."""
        known = self.grades.get(query, {})
        listed = dict.fromkeys([*self.after.get(query, ()), *self.before.get(query, ())])
        return [document for document in listed if document not in known]

    def same(self, query: str) -> bool:
        """Tell whether both sides have the same documents at the same ranks."""
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
    """Make the dossier of one backend, with the ``limit`` of ``queries`` in full that changed most in ``metric``.

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
    sensitivity = None
    if qrels is not None:
        sensitivity = JudgmentSensitivity(before, after, pair, rankings.unjudged, grades, metric)
    return Dossier(
        metric=metric,
        depth=depth,
        counts=_counts(moved.values(), sum(rankings.same(query) for query in queries)),
        changed=len(changed),
        judged_before=_judged_share(rankings.before, grades, queries),
        judged_after=_judged_share(rankings.after, grades, queries),
        queries=_query_changes(changed[:limit], {**before.texts, **after.texts}, figures, rankings, sensitivity),
        to_label=_to_label(sensitivity.swings(changed[:limit]), rankings) if sensitivity is not None else [],
    )


def _query_changes(
    queries: Sequence[str],
    texts: Mapping[str, str],
    figures: _Figures,
    rankings: _Rankings,
    sensitivity: JudgmentSensitivity | None,
) -> list[QueryChange]:
    metrics = [name for name in figures[1] if name in figures[0] and not name.startswith(OVERLAP)]
    bounds = sensitivity.all_relevant(queries) if sensitivity is not None else ({}, {})
    changes = []
    for query in queries:
        values = [
            _value(figures, bounds, name, query)
            for name in metrics
            if query in figures[0][name] and query in figures[1][name]
        ]
        changes.append(_query_change(query, texts.get(query), values, rankings, judged=sensitivity is not None))
    return changes


def _difference(figures: _Figures, metric: str | None, query: str) -> float | None:
    """Return after minus before, what is only rounding being 0; None for a query that a side was not evaluated on."""
    if metric is None or query not in figures[0][metric] or query not in figures[1][metric]:
        return None
    difference = figures[1][metric][query] - figures[0][metric][query]
    return 0.0 if abs(difference) <= _ROUNDING else difference


def _counts(moved: Iterable[float | None], same: int) -> Decision:
    known = [value for value in moved if value is not None]
    return Decision(
        improved=sum(value > 0 for value in known),
        worsened=sum(value < 0 for value in known),
        unchanged=sum(value == 0 for value in known),
        same_ranking=same,
    )


def _moves(rankings: _Rankings, query: str) -> int:
    """Count at how many ranks the two sides have different documents."""
    one, other = rankings.before.get(query, ()), rankings.after.get(query, ())
    return sum(a != b for a, b in zip(one, other, strict=False)) + abs(len(one) - len(other))


def _judged_share(first: Mapping[str, Sequence[str]], grades: Grades, queries: Iterable[str]) -> float | None:
    """Return the mean over the judged queries that found anything; None where there are none."""
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


class Swing(NamedTuple):
    """An unjudged document, and what its query's difference would change by if it were relevant."""

    query: str
    document: str
    size: float


@dataclass(frozen=True, eq=False, slots=True)
class JudgmentSensitivity:
    """Both sides of a pair, the ``unjudged`` documents of each query, and the ``grades`` that are known.

    Documents assumed relevant get the lowest relevant grade. ``metric`` is the one whose difference swings are about;
    where a side is too short to score it again, it is the first that can be.
    """

    before: Side
    after: Side
    pair: Pair
    unjudged: Callable[[str], Sequence[str]]
    grades: Grades
    metric: str | None

    def all_relevant(self, queries: Sequence[str]) -> tuple[_Figure, _Figure]:
        """Return metric to query to value on each side, every unjudged document among the first ones being relevant."""
        assumed = {query: (query, self.unjudged(query)) for query in queries if query in self.grades}
        return self._scored(assumed, self._measures())

    def swings(self, queries: Sequence[str]) -> list[Swing]:
        """Return the unjudged documents that matter, the largest swing first; each is assumed relevant by itself."""
        known = [query for query in queries if query in self.grades]
        asked = [(query, document) for query in known for document in self.unjudged(query)]
        measures = self._measures()
        if not asked or not measures:
            return []
        alone = {f"{number}": (query, [document]) for number, (query, document) in enumerate(asked)}
        name = self.metric if self.metric in measures else next(iter(measures))
        measures = {name: measures[name]}
        then = [figures[name] for figures in self._scored(alone, measures)]
        now = [figures[name] for figures in self._scored({query: (query, ()) for query in known}, measures)]
        swings = []
        for number, (query, document) in enumerate(asked):
            if_relevant = then[1][f"{number}"] - then[0][f"{number}"]
            swings.append(Swing(query, document, if_relevant - (now[1][query] - now[0][query])))
        return sorted((swing for swing in swings if abs(swing.size) > _ROUNDING), key=lambda swing: -abs(swing.size))

    def _measures(self) -> dict[str, Measure]:
        return scorable((self.before, self.after), self.after.measures)

    def _scored(
        self, assumed: Mapping[str, tuple[str, Sequence[str]]], measures: Mapping[str, Measure]
    ) -> tuple[_Figure, _Figure]:
        """Score both sides; ``assumed`` maps a name to a query and the documents taken to be relevant to it."""
        if not assumed or not measures:
            return {}, {}
        relevance = int(str(self.after.report.plan.resolved["relevance"]))
        qrels = to_qrels(
            {
                name: {**self.grades[query], **dict.fromkeys(documents, relevance)}
                for name, (query, documents) in assumed.items()
            }
        )
        cutoffs = [measure.cutoff for measure in measures.values() if isinstance(measure.cutoff, int)]
        depth = max(cutoffs) if len(cutoffs) == len(measures) else None
        scored = []
        for side, label in ((self.before, self.pair.before), (self.after, self.pair.after)):
            run = side.ordered(label)
            if run is None:
                return {}, {}
            again = repeated(run, [query for query, _ in assumed.values()], list(assumed), depth)
            scored.append(score_again(side, again, qrels, measures))
        return scored[0], scored[1]
