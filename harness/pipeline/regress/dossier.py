"""Show the changes, query by query: both rankings side by side, their judgments, and the documents to label next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import NamedTuple

from harness.data.labels import grades_of
from harness.data.memory import qrels_from_dict
from harness.metrics import Metric, improvement, parse_metric
from harness.pipeline.regress.pairing import ComparedDataset, Pair
from harness.pipeline.regress.rescoring import Grades, repeated, scorable, score_again
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
_Figures = Sequence[Mapping[str, Mapping[str, float]]]
"""Metric to query to value, before and after; empty if nothing can be scored."""


def make_dossier(compared: ComparedDataset, pair: Pair, *, metric: str | None, depth: int, limit: int) -> Dossier:
    """Make the dossier of one backend, with the ``limit`` queries in full that changed most in ``metric``.

    ``depth`` documents of each ranking are compared, or as many as a baseline kept; relevant documents are lost and
    gained within the cutoff of ``metric``. Judged and relevant refer to the same query. Without judgments there are
    only rankings and moves.
    """
    rankings = _Rankings(compared, pair, metric, min(depth, compared.before.deepest, compared.after.deepest))
    figures = compared.before.figures[pair.before], compared.after.figures[pair.after]
    queries, (before, after) = compared.queries, rankings.first
    moved = {query: _difference(figures, metric, query) for query in queries}
    missing = {query: len(rankings.lost[query]) + len(rankings.gained[query]) for query in queries}
    ranks_moved = {query: _ranks_moved(before[query], after[query]) for query in queries}
    changed = [query for query in queries if moved[query] or missing[query] or ranks_moved[query]]
    changed.sort(key=lambda query: (-abs(moved[query] or 0.0), -missing[query], -ranks_moved[query]))
    has_judgments = rankings.relevant is not None
    return Dossier(
        metric=metric,
        depth=rankings.depth,
        counts=_counts(moved.values(), sum(not ranks for ranks in ranks_moved.values())),
        changed_queries=len(changed),
        relevant_depth=rankings.relevant_depth(metric) if has_judgments else None,
        lost=sum(map(len, rankings.lost.values())) if has_judgments else None,
        gained=sum(map(len, rankings.gained.values())) if has_judgments else None,
        judged_before=_judged_share(before, rankings.grades),
        judged_after=_judged_share(after, rankings.grades),
        queries=_query_changes(rankings, figures, changed[:limit]),
        to_label=_documents_to_label(rankings, changed[:limit]),
    )


@dataclass(frozen=True, eq=False)
class _Rankings:
    """Both rankings of a pair: their first ``depth`` documents, and the relevant ones as deep as both sides know them.

    ``metric`` orders the queries, and its cutoff bounds which relevant documents count as lost and gained.
    """

    compared: ComparedDataset
    pair: Pair
    metric: str | None
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
    def grades(self) -> Grades:
        """The judgments of the common queries, empty without any."""
        qrels = self.compared.qrels
        return grades_of(qrels, self.compared.queries) if qrels is not None else {}

    @cached_property
    def first(self) -> list[dict[str, list[str]]]:
        """The first documents of every common query, before and after."""
        tops = [side.first(label, self.depth) for side, label in self.sides]
        return [{query: top.get(query, []) for query in self.compared.queries} for top in tops]

    def documents_of(self, query: str) -> list[str]:
        """Return the first documents of both sides, the later ranking's first."""
        before, after = self.first
        return list(dict.fromkeys([*after[query], *before[query]]))

    def unjudged(self, query: str) -> list[str]:
        """Return the first documents of either side without a judgment for this query."""
        return [document for document in self.documents_of(query) if document not in self.grades[query]]

    @cached_property
    def stored_depth(self) -> int:
        """How deep both sides know the ranks of relevant documents."""
        return min(side.rank_depth for side, _ in self.sides)

    def relevant_depth(self, metric: str | None) -> int:
        """Return the depth within which relevant documents are lost and gained: no more than a metric looks at."""
        cutoff = parse_metric(metric).cutoff if metric is not None else None
        return min(self.stored_depth, cutoff) if isinstance(cutoff, int) else self.stored_depth

    @cached_property
    def relevant(self) -> Sequence[Mapping[str, Mapping[str, int]]] | None:
        """Query to relevant document to rank, before and after, to the depth that both know; None without judgments."""
        if self.grades:
            relevant_ids = {
                query: [document for document, grade in graded.items() if grade >= self.relevance]
                for query, graded in self.grades.items()
            }
            ranks_by_side: list[Mapping[str, Mapping[str, int]]] = [
                side.ranks(label, relevant_ids) for side, label in self.sides
            ]
        elif all(side.stored_ranks is not None for side, _ in self.sides):
            ranks_by_side = [side.relevant_ranks(label) for side, label in self.sides]
        else:
            return None
        return [
            {
                query: {document: rank for document, rank in ranked.items() if rank <= self.stored_depth}
                for query, ranked in ranks.items()
            }
            for ranks in ranks_by_side
        ]

    @cached_property
    def lost(self) -> dict[str, list[str]]:
        """Query to the relevant documents that the metric sees before, and not after, best first."""
        return {query: self.missing(query, self.metric, side=0, other_side=1) for query in self.compared.queries}

    @cached_property
    def gained(self) -> dict[str, list[str]]:
        """Query to the relevant documents that the metric sees after, and not before, best first."""
        return {query: self.missing(query, self.metric, side=1, other_side=0) for query in self.compared.queries}

    def missing(self, query: str, metric: str | None, side: int, other_side: int) -> list[str]:
        """Return the relevant documents that a metric sees on side ``side`` and surely not on side ``other_side``."""
        if self.relevant is None:
            return []
        depth = self.relevant_depth(metric)
        ranks, other_ranks = self.relevant[side].get(query, {}), self.relevant[other_side].get(query, {})
        first = [document for document in sorted(ranks, key=ranks.__getitem__) if ranks[document] <= depth]
        surely = self.absence(self.sides[other_side][0], relevant=True, depth=depth) == "not found"
        return [
            document for document in first if (other_ranks[document] > depth if document in other_ranks else surely)
        ]

    def absence(self, side: ResultSnapshot, *, relevant: bool, depth: int | None = None) -> Absence:
        """Explain a side's missing rank of a document down to ``depth``, by default as far as both sides know.

        A baseline keeps only the ranks of documents that were relevant then.
        """
        relation = self.compared.relation
        same_judgments = relation.judgments == "same" and not relation.labels
        deep_enough = side.depth is None or side.deepest >= (self.stored_depth if depth is None else depth)
        return (
            "not found"
            if deep_enough or (relevant and side.stored_ranks is not None and same_judgments)
            else "not stored"
        )

    @cached_property
    def measures(self) -> dict[str, Metric]:
        """The metrics by which both sides can be scored again."""
        return scorable((self.compared.before, self.compared.after), self.compared.after.measures)

    def scored(self, assumed: Mapping[str, tuple[str, Sequence[str]]], measures: Mapping[str, Metric]) -> _Figures:
        """Score both sides as if documents were relevant, with the lowest relevant grade.

        ``assumed`` maps a name to a query and the documents taken to be relevant to it. Empty if that is impossible.
        """
        runs = [side.ordered(label) for side, label in self.sides]
        if not assumed or not measures or None in runs:
            return []
        qrels = qrels_from_dict(
            {
                name: {**self.grades[query], **dict.fromkeys(documents, self.relevance)}
                for name, (query, documents) in assumed.items()
            }
        )
        cutoffs = [measure.cutoff for measure in measures.values() if isinstance(measure.cutoff, int)]
        depth = max(cutoffs) if len(cutoffs) == len(measures) else None
        queries = [query for query, _ in assumed.values()]
        return [
            score_again(side, repeated(run, queries, list(assumed), depth), qrels, measures)
            for (side, _), run in zip(self.sides, runs, strict=True)
            if run is not None
        ]


def _query_changes(rankings: _Rankings, figures: _Figures, queries: Sequence[str]) -> list[QueryChange]:
    compared, (first_before, first_after) = rankings.compared, rankings.first
    documents = {
        query: list(dict.fromkeys([*rankings.documents_of(query), *rankings.lost[query], *rankings.gained[query]]))
        for query in queries
    }
    pairs = [
        _Positions(side.ranks(label, documents), side.chunks(label), side.further_chunks(label))
        for side, label in rankings.sides
    ]
    assumed = {query: (query, rankings.unjudged(query)) for query in queries if query in rankings.grades}
    bounds = rankings.scored(assumed, rankings.measures) or ({}, {})
    texts = {**compared.before.texts, **compared.after.texts}
    changes = []
    for query in queries:
        grades = rankings.grades.get(query, {})
        judged = [sum(document in grades for document in first[query]) for first in rankings.first]
        changes.append(
            QueryChange(
                query=query,
                text=texts.get(query),
                values=_values(rankings, figures, bounds, query),
                judged_before=judged[0] if compared.qrels is not None else None,
                judged_after=judged[1] if compared.qrels is not None else None,
                documents=[
                    _ranked(rankings, query, document, grades.get(document), pairs) for document in documents[query]
                ],
                added=[document for document in first_after[query] if document not in first_before[query]],
                removed=[document for document in first_before[query] if document not in first_after[query]],
                lost=rankings.lost[query],
                gained=rankings.gained[query],
            )
        )
    return changes


def _values(rankings: _Rankings, figures: _Figures, bounds: _Figures, query: str) -> list[QueryValue]:
    """Return the metrics of a query before and after, with their values if all unjudged documents were relevant."""
    before, after = figures
    return [
        QueryValue(
            metric=name,
            before=before[name][query],
            after=after[name][query],
            difference=after[name][query] - before[name][query],
            lost=rankings.missing(query, name, side=0, other_side=1),
            before_if_relevant=bounds[0].get(name, {}).get(query),
            after_if_relevant=bounds[1].get(name, {}).get(query),
        )
        for name in after
        if name in before and not name.startswith(OVERLAP) and query in before[name] and query in after[name]
    ]


class _Positions(NamedTuple):
    """Query to document to its rank on one side, and to its chunk if the documents are named by expected ids.

    ``further`` are the later chunks of expected documents, each with the document's id.
    """

    ranks: Mapping[str, Mapping[str, int]]
    chunks: Mapping[str, Mapping[str, str]]
    further: Mapping[str, Mapping[str, str]]


def _ranked(
    rankings: _Rankings, query: str, document: str, grade: int | None, sides: Sequence[_Positions]
) -> RankedDocument:
    relevant, compared = grade is not None and grade >= rankings.relevance, rankings.compared
    before, after = (side.ranks.get(query, {}) for side in sides)
    chunk_before, chunk_after = (side.chunks.get(query, {}).get(document) for side in sides)
    further_of = [side.further.get(query, {}).get(document) for side in sides]
    return RankedDocument(
        document=document,
        rank_before=before.get(document),
        rank_after=after.get(document),
        chunk_before=chunk_before,
        chunk_after=chunk_after,
        further_chunk_of=further_of[1] or further_of[0],
        grade=grade,
        absent_before=None if document in before else rankings.absence(compared.before, relevant=relevant),
        absent_after=None if document in after else rankings.absence(compared.after, relevant=relevant),
    )


def _documents_to_label(rankings: _Rankings, queries: Sequence[str]) -> list[ToLabel]:
    """Return the unjudged documents that matter: by how much each, relevant by itself, would move its query.

    The difference is in the rankings' metric; if a side is too short to score it again, in the first metric for which
    it is long enough. The most decisive document comes first.
    """
    judged_queries = [query for query in queries if query in rankings.grades]
    alone = {
        str(number): (query, [document])
        for number, (query, document) in enumerate(
            (query, document) for query in judged_queries for document in rankings.unjudged(query)
        )
    }
    if not alone or not rankings.measures:
        return []
    name = rankings.metric if rankings.metric in rankings.measures else next(iter(rankings.measures))
    measures = {name: rankings.measures[name]}
    then, now = (
        rankings.scored(alone, measures),
        rankings.scored({query: (query, ()) for query in judged_queries}, measures),
    )
    to_label = []
    for number, (query, (document,)) in alone.items() if then else ():
        if_relevant = then[1][name][number] - then[0][name][number]
        swing = if_relevant - (now[1][name][query] - now[0][name][query])
        ranks = [first[query].index(document) + 1 if document in first[query] else None for first in rankings.first]
        if abs(swing) > _ROUNDING:
            to_label.append(
                ToLabel(query=query, document=document, rank_before=ranks[0], rank_after=ranks[1], swing=swing)
            )
    return sorted(to_label, key=lambda label: -abs(label.swing))


def _difference(figures: _Figures, metric: str | None, query: str) -> float | None:
    """Return the improvement, 0 for mere rounding; None for a query that a side was not evaluated on."""
    if metric is None or query not in figures[0][metric] or query not in figures[1][metric]:
        return None
    difference = figures[1][metric][query] - figures[0][metric][query]
    return 0.0 if abs(difference) <= _ROUNDING else improvement(metric, difference)


def _ranks_moved(before: Sequence[str], after: Sequence[str]) -> int:
    """Count at how many ranks two rankings have different documents."""
    return sum(a != b for a, b in zip(before, after, strict=False)) + abs(len(before) - len(after))


def _counts(moved: Iterable[float | None], same: int) -> Decision:
    present = [value for value in moved if value is not None]
    return Decision(
        improved=sum(value > 0 for value in present),
        worsened=sum(value < 0 for value in present),
        unchanged=sum(value == 0 for value in present),
        same_ranking=same,
    )


def _judged_share(first: Mapping[str, Sequence[str]], grades: Grades) -> float | None:
    """Return the share of judged documents, a mean over judged queries with hits; None if there are none."""
    shares = [
        fmean(document in grades[query] for document in documents)
        for query, documents in first.items()
        if query in grades and documents
    ]
    return fmean(shares) if shares else None
