"""Show what changed, query by query: both rankings side by side, their judgments, and what to label next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from harness.metrics import Metric, parse_metric
from harness.pipeline.regress.labels import Grades, grades_of, repeated, scorable, score_again, to_qrels
from harness.pipeline.regress.pairing import ComparedDataset, Pair
from harness.results.regression_schema import (
    Absence,
    Decision,
    Dossier,
    QueryChange,
    QueryValue,
    RankedDocument,
    ToLabel,
)
from harness.results.snapshot import OVERLAP, ResultSnapshot

_ROUNDING = 1e-12
_Figure = Mapping[str, Mapping[str, float]]
_Figures = tuple[_Figure, _Figure]
"""Metric to query to value, before and after."""
_Ranks = Mapping[str, Mapping[str, int]]
"""Query to document to rank, from 1."""


@dataclass(frozen=True, eq=False)
class _Rankings:
    """Both rankings of a pair: their first ``depth`` documents, and the relevant ones as deep as both sides know them.

    ``grades`` are of everything that is judged, empty without judgments.
    """

    compared: ComparedDataset
    pair: Pair
    grades: Grades
    depth: int

    @property
    def sides(self) -> tuple[tuple[ResultSnapshot, str], tuple[ResultSnapshot, str]]:
        """Both sides, each with the label of the backend there."""
        return (self.compared.before, self.pair.before), (self.compared.after, self.pair.after)

    @property
    def relevance(self) -> int:
        """The lowest grade of relevant documents."""
        return int(str(self.compared.after.report.plan.resolved["relevance"]))

    @cached_property
    def first(self) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Sequence[str]]]:
        """The first documents of both sides, by query."""
        before, after = (side.first(label, self.depth) for side, label in self.sides)
        return before, after

    def listed(self, query: str) -> list[str]:
        """Return the first documents of both sides, those of the later ranking first."""
        before, after = self.first
        return list(dict.fromkeys([*after.get(query, ()), *before.get(query, ())]))

    def unjudged(self, query: str) -> list[str]:
        """Return the first documents of either side without a judgment for this query."""
        known = self.grades.get(query, {})
        return [document for document in self.listed(query) if document not in known]

    def same(self, query: str) -> bool:
        """Tell whether both sides have the same documents at the same ranks."""
        before, after = self.first
        return list(before.get(query, ())) == list(after.get(query, ()))

    def moves(self, query: str) -> int:
        """Count at how many ranks the two sides have different documents."""
        before, after = (first.get(query, ()) for first in self.first)
        return sum(a != b for a, b in zip(before, after, strict=False)) + abs(len(before) - len(after))

    @property
    def known_depth(self) -> int:
        """How deep both sides know the ranks of relevant documents."""
        return min(side.rank_depth for side, _ in self.sides)

    def relevant_depth(self, metric: str | None) -> int:
        """Return among how many first documents relevant ones are lost and gained: no more than a metric looks at."""
        cutoff = parse_metric(metric).cutoff if metric is not None else None
        return min(self.known_depth, cutoff) if isinstance(cutoff, int) else self.known_depth

    @cached_property
    def relevant(self) -> tuple[_Ranks, _Ranks] | None:
        """The ranks of relevant documents on both sides, to the depth that both know; None without judgments."""
        if self.grades:
            wanted = {
                query: [document for document, grade in graded.items() if grade >= self.relevance]
                for query, graded in self.grades.items()
            }
            known: list[_Ranks] = [side.ranks(label, wanted) for side, label in self.sides]
        elif all(side.kept_ranks is not None for side, _ in self.sides):
            known = [side.relevant_ranks(label) for side, label in self.sides]
        else:
            return None
        before, after = (self._to_depth(ranks) for ranks in known)
        return before, after

    def _to_depth(self, ranks: _Ranks) -> _Ranks:
        return {
            query: {document: rank for document, rank in ranked.items() if rank <= self.known_depth}
            for query, ranked in ranks.items()
        }

    def lost(self, query: str, metric: str | None) -> list[str]:
        """Return the relevant documents among the first before, and not after, that a metric looks at, best first."""
        return self._missing(query, metric, here=0, there=1)

    def gained(self, query: str, metric: str | None) -> list[str]:
        """Return the relevant documents among the first after, and not before, that a metric looks at, best first."""
        return self._missing(query, metric, here=1, there=0)

    def _missing(self, query: str, metric: str | None, here: int, there: int) -> list[str]:
        """Return the relevant documents that a metric sees on side ``here`` and surely not on side ``there``."""
        if self.relevant is None:
            return []
        depth = self.relevant_depth(metric)
        ranks, others = self.relevant[here].get(query, {}), self.relevant[there].get(query, {})
        first = [document for document in sorted(ranks, key=ranks.__getitem__) if ranks[document] <= depth]
        surely = self.absence(self.sides[there][0], relevant=True, depth=depth) == "not found"
        return [document for document in first if (others[document] > depth if document in others else surely)]

    def absence(self, side: ResultSnapshot, *, relevant: bool, depth: int | None = None) -> Absence:
        """Say what it means that a side has no rank of a document down to ``depth``, by default what both sides know.

        A baseline keeps the ranks of relevant documents only: of those that were relevant then.
        """
        relation = self.compared.relation
        same_judgments = relation.judgments == "same" and not relation.labels
        depth = self.known_depth if depth is None else depth
        kept = side.depth is None or side.deepest >= depth
        return "not found" if kept or (relevant and side.kept_ranks is not None and same_judgments) else "not kept"


def make_dossier(compared: ComparedDataset, pair: Pair, *, metric: str | None, depth: int, limit: int) -> Dossier:
    """Make the dossier of one backend, with the ``limit`` queries in full that changed most in ``metric``.

    ``depth`` documents of each ranking are looked at, or as many as a baseline kept; relevant documents are lost and
    gained among those that ``metric`` looks at. Judged, and relevant, mean for that very query. Without judgments
    there are rankings and moves alone.
    """
    before, after, queries, qrels = compared.before, compared.after, compared.queries, compared.qrels
    depth = min(depth, before.deepest, after.deepest)
    figures = before.figures[pair.before], after.figures[pair.after]
    grades = grades_of(qrels, queries) if qrels is not None else {}
    rankings = _Rankings(compared, pair, grades, depth)
    moved = {query: _difference(figures, metric, query) for query in queries}
    lost = {query: rankings.lost(query, metric) for query in queries}
    gained = {query: rankings.gained(query, metric) for query in queries}
    missing = {query: len(lost[query]) + len(gained[query]) for query in queries}
    changed = [query for query in queries if moved[query] or missing[query] or not rankings.same(query)]
    changed.sort(key=lambda query: (-abs(moved[query] or 0.0), -missing[query], -rankings.moves(query)))
    sensitivity = JudgmentSensitivity(rankings, metric) if qrels is not None else None
    known = rankings.relevant is not None
    return Dossier(
        metric=metric,
        depth=depth,
        counts=_counts(moved.values(), sum(rankings.same(query) for query in queries)),
        changed=len(changed),
        relevant_depth=rankings.relevant_depth(metric) if known else None,
        lost=sum(map(len, lost.values())) if known else None,
        gained=sum(map(len, gained.values())) if known else None,
        judged_before=_judged_share(rankings.first[0], grades, queries),
        judged_after=_judged_share(rankings.first[1], grades, queries),
        queries=_query_changes(changed[:limit], figures, rankings, metric, sensitivity),
        to_label=_to_label(sensitivity.swings(changed[:limit]), rankings) if sensitivity is not None else [],
    )


def _query_changes(
    queries: Sequence[str],
    figures: _Figures,
    rankings: _Rankings,
    metric: str | None,
    sensitivity: JudgmentSensitivity | None,
) -> list[QueryChange]:
    metrics = [name for name in figures[1] if name in figures[0] and not name.startswith(OVERLAP)]
    bounds = sensitivity.all_relevant(queries) if sensitivity is not None else ({}, {})
    shown = {
        query: list(
            dict.fromkeys([*rankings.listed(query), *rankings.lost(query, metric), *rankings.gained(query, metric)])
        )
        for query in queries
    }
    before, after = (side.ranks(label, shown) for side, label in rankings.sides)
    changes = []
    for query in queries:
        values = [
            _value(figures, bounds, rankings, name, query)
            for name in metrics
            if query in figures[0][name] and query in figures[1][name]
        ]
        documents = [
            _ranked(rankings, query, document, before.get(query, {}), after.get(query, {})) for document in shown[query]
        ]
        changes.append(_query_change(query, values, documents, rankings, metric, judged=sensitivity is not None))
    return changes


def _ranked(
    rankings: _Rankings, query: str, document: str, before: Mapping[str, int], after: Mapping[str, int]
) -> RankedDocument:
    grade = rankings.grades.get(query, {}).get(document)
    relevant, compared = grade is not None and grade >= rankings.relevance, rankings.compared
    return RankedDocument(
        document=document,
        rank_before=before.get(document),
        rank_after=after.get(document),
        grade=grade,
        absent_before=None if document in before else rankings.absence(compared.before, relevant=relevant),
        absent_after=None if document in after else rankings.absence(compared.after, relevant=relevant),
    )


def _query_change(
    query: str,
    values: list[QueryValue],
    documents: list[RankedDocument],
    rankings: _Rankings,
    metric: str | None,
    *,
    judged: bool,
) -> QueryChange:
    before, after = (first.get(query, ()) for first in rankings.first)
    grades, compared = rankings.grades.get(query, {}), rankings.compared
    texts = {**compared.before.texts, **compared.after.texts}
    return QueryChange(
        query=query,
        text=texts.get(query),
        values=values,
        judged_before=sum(document in grades for document in before) if judged else None,
        judged_after=sum(document in grades for document in after) if judged else None,
        documents=documents,
        entered=[document for document in after if document not in before],
        left=[document for document in before if document not in after],
        lost=rankings.lost(query, metric),
        gained=rankings.gained(query, metric),
    )


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
    rankings: _Rankings,
    metric: str,
    query: str,
) -> QueryValue:
    before, after = figures[0][metric][query], figures[1][metric][query]
    return QueryValue(
        metric=metric,
        before=before,
        after=after,
        difference=after - before,
        lost=rankings.lost(query, metric),
        before_if_relevant=bounds[0].get(metric, {}).get(query),
        after_if_relevant=bounds[1].get(metric, {}).get(query),
    )


def _to_label(swings: Sequence[Swing], rankings: _Rankings) -> list[ToLabel]:
    return [
        ToLabel(
            query=swing.query,
            document=swing.document,
            rank_before=_rank(rankings.first[0], swing),
            rank_after=_rank(rankings.first[1], swing),
            swing=swing.size,
        )
        for swing in swings
    ]


def _rank(first: Mapping[str, Sequence[str]], swing: Swing) -> int | None:
    listed = first.get(swing.query, ())
    return list(listed).index(swing.document) + 1 if swing.document in listed else None


class Swing(NamedTuple):
    """An unjudged document, and what its query's difference would change by if it were relevant."""

    query: str
    document: str
    size: float


@dataclass(frozen=True, eq=False, slots=True)
class JudgmentSensitivity:
    """Both sides of a pair scored as if their unjudged documents were relevant.

    Documents assumed relevant get the lowest relevant grade. ``metric`` is the one whose difference swings are about;
    where a side is too short to score it again, it is the first that can be.
    """

    rankings: _Rankings
    metric: str | None

    def all_relevant(self, queries: Sequence[str]) -> tuple[_Figure, _Figure]:
        """Return metric to query to value on each side, every unjudged document among the first ones being relevant."""
        assumed = {query: (query, self.rankings.unjudged(query)) for query in queries if query in self.rankings.grades}
        return self._scored(assumed, self._measures())

    def swings(self, queries: Sequence[str]) -> list[Swing]:
        """Return the unjudged documents that matter, the largest swing first; each is assumed relevant by itself."""
        known = [query for query in queries if query in self.rankings.grades]
        unjudged = [(query, document) for query in known for document in self.rankings.unjudged(query)]
        measures = self._measures()
        if not unjudged or not measures:
            return []
        alone = {f"{number}": (query, [document]) for number, (query, document) in enumerate(unjudged)}
        name = self.metric if self.metric in measures else next(iter(measures))
        measures = {name: measures[name]}
        then = [figures[name] for figures in self._scored(alone, measures)]
        now = [figures[name] for figures in self._scored({query: (query, ()) for query in known}, measures)]
        swings = []
        for number, (query, document) in enumerate(unjudged):
            if_relevant = then[1][f"{number}"] - then[0][f"{number}"]
            swings.append(Swing(query, document, if_relevant - (now[1][query] - now[0][query])))
        return sorted((swing for swing in swings if abs(swing.size) > _ROUNDING), key=lambda swing: -abs(swing.size))

    def _measures(self) -> dict[str, Metric]:
        compared = self.rankings.compared
        return scorable((compared.before, compared.after), compared.after.measures)

    def _scored(
        self, assumed: Mapping[str, tuple[str, Sequence[str]]], measures: Mapping[str, Metric]
    ) -> tuple[_Figure, _Figure]:
        """Score both sides; ``assumed`` maps a name to a query and the documents taken to be relevant to it."""
        if not assumed or not measures:
            return {}, {}
        relevance = self.rankings.relevance
        qrels = to_qrels(
            {
                name: {**self.rankings.grades[query], **dict.fromkeys(documents, relevance)}
                for name, (query, documents) in assumed.items()
            }
        )
        cutoffs = [measure.cutoff for measure in measures.values() if isinstance(measure.cutoff, int)]
        depth = max(cutoffs) if len(cutoffs) == len(measures) else None
        scored = []
        for side, label in self.rankings.sides:
            run = side.ordered(label)
            if run is None:
                return {}, {}
            again = repeated(run, [query for query, _ in assumed.values()], list(assumed), depth)
            scored.append(score_again(side, again, qrels, measures))
        return scored[0], scored[1]
