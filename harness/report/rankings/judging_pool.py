"""Documents to judge: unjudged first hits of all rankings, and how many labels could settle the comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple

import numpy as np

from harness.data import ranking
from harness.data.labels import grades_of
from harness.data.memory import qrels_from_dict
from harness.data.ranking import TieRule
from harness.data.types import Float64Array, ranks_in
from harness.metrics import Metric, QuerySet, counts_forbidden, score
from harness.pipeline.regress.rescoring import repeated
from harness.report.rankings.explorer import Explorer

BOUNDED = ("P", "R", "nDCG", "DCG")
"""Metrics whose extreme values over all labels of a query are known: a sum of gains, divided by a term that depends
only on how many documents are relevant."""
_SCORED_AT_ONCE = 2_000
_ROUNDING = 1e-12


class PoolRules(NamedTuple):
    """How documents are chosen; ``metric`` None orders by the best rank, because rankings cannot be scored again.

    ``alias`` is another name that the result, or the user, gives the metric: ``Hit@5`` for ``Success@5``.
    """

    depth: int
    budget: int
    seed: int
    ties: TieRule
    metric: Metric | None = None
    alias: str = ""

    @property
    def metric_name(self) -> str:
        """The name of the metric for people."""
        return self.alias or str(self.metric)


class PooledQuery(NamedTuple):
    """A query with the documents to judge, in a random order; ``dataset`` numbers its explorer."""

    dataset: int
    query: str
    documents: Sequence[str]


class JudgingPool(NamedTuple):
    """The chosen documents, counts of all ``pooled`` and already ``judged`` ones, and sentences about the verdict."""

    queries: Sequence[PooledQuery]
    pooled: int
    judged: int
    settled: Sequence[str]


@dataclass(eq=False, slots=True)
class _Candidate:
    dataset: int
    query: str
    document: str
    rank: int
    swing: float = 0.0
    by_pair: Float64Array = field(default_factory=lambda: np.zeros(0))


def judging_pool(explorers: Sequence[Explorer], rules: PoolRules) -> JudgingPool:
    """Return the unjudged documents among the first hits of all rankings, as many as the budget allows.

    The documents whose label would move a difference from the reference most are chosen, by how much each, relevant by
    itself, would move its query; with one ranking, those that would move its value most. The query with the most
    decisive document comes first. The documents of each query are in an order that depends only on the seed.
    """
    ordered, scored, pooled, judged = _order(explorers, rules)
    chosen = ordered[: rules.budget]
    queries = _group_by_query(chosen, rules.seed)
    return JudgingPool(queries, pooled, judged, _settled(scored, ordered, chosen, queries, rules))


def decisive_pairs(explorers: Sequence[Explorer], rules: PoolRules) -> list[tuple[str, str, str]]:
    """Return dataset, query and document of all unjudged first hits, in the order of :func:`judging_pool`."""
    return [(explorers[one.dataset].dataset, one.query, one.document) for one in _order(explorers, rules)[0]]


def _order(
    explorers: Sequence[Explorer], rules: PoolRules
) -> tuple[list[_Candidate], list[_Rescoring | None], int, int]:
    """Return the unjudged documents, the most decisive first, rankings to score again, and both counts of a pool."""
    candidates: list[_Candidate] = []
    scored: list[_Rescoring | None] = []
    pooled = judged = 0
    for number, explorer in enumerate(explorers):
        grades = grades_of(explorer.qrels) if explorer.qrels is not None else {}
        of_dataset = []
        for query, documents in first_hits(explorer, rules.depth).items():
            unjudged = [document for document in documents if document not in grades.get(query, {})]
            pooled, judged = pooled + len(documents), judged + len(documents) - len(unjudged)
            of_dataset += [_Candidate(number, query, document, documents[document]) for document in unjudged]
        rescoring = _Rescoring(explorer, grades, rules.metric, rules.ties) if rules.metric is not None else None
        if rescoring is not None:
            rescoring.add_swings(of_dataset)
        scored.append(rescoring)
        candidates += of_dataset
    return sorted(candidates, key=lambda one: (-one.swing, one.rank)), scored, pooled, judged


def first_hits(explorer: Explorer, depth: int) -> dict[str, dict[str, int]]:
    """Return query to document to its best rank among the first hits of all rankings."""
    pools: dict[str, dict[str, int]] = {query: {} for query in explorer.query_ids}
    for run in explorer.runs:
        first = ranking.cut(run, depth)
        bounds = first.indptr.tolist()
        documents = first.doc_ids.take(first.rows)
        for query, start, stop in zip(first.query_ids, bounds[:-1], bounds[1:], strict=True):
            pool = pools.setdefault(query, {})
            for rank, document in enumerate(documents[start:stop], 1):
                pool[document] = min(rank, pool.get(document, rank))
    return pools


def _group_by_query(chosen: Sequence[_Candidate], seed: int) -> list[PooledQuery]:
    by_query: dict[tuple[int, str], list[str]] = {}
    for candidate in chosen:
        by_query.setdefault((candidate.dataset, candidate.query), []).append(candidate.document)
    generator = np.random.default_rng(seed)
    return [
        PooledQuery(dataset, query, [ordered[number] for number in generator.permutation(len(ordered))])
        for (dataset, query), documents in by_query.items()
        if (ordered := sorted(documents))
    ]


class _Rescoring:
    """The rankings of one dataset, scored as if some documents were relevant."""

    def __init__(
        self, explorer: Explorer, grades: Mapping[str, Mapping[str, int]], metric: Metric, ties: TieRule
    ) -> None:
        self.explorer, self.grades, self.metric, self._ties = explorer, grades, metric, ties
        self._depth = metric.cutoff if isinstance(metric.cutoff, int) else None
        references = explorer.references
        self.pairs = [(int(a), b) for b, a in enumerate(references.tolist()) if a != b]

    def add_swings(self, candidates: Sequence[_Candidate]) -> None:
        """Compute by how much each document, relevant by itself, would move its query on each pair."""
        now = self._differences([(query, ()) for query in dict.fromkeys(one.query for one in candidates)])
        rows = {query: row for row, query in enumerate(dict.fromkeys(one.query for one in candidates))}
        then = self._differences([(one.query, (one.document,)) for one in candidates])
        for row, candidate in enumerate(candidates):
            candidate.by_pair = then[row] - now[rows[candidate.query]]
            swing = float(np.abs(candidate.by_pair).max(initial=0.0))
            candidate.swing = swing if swing > _ROUNDING else 0.0

    def extremes(self, query: str, candidates: Sequence[_Candidate]) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Return the present, the lowest and the highest difference of a query on each pair over labels of documents.

        Of each number of relevant documents, those that move the difference most up, or most down, are enough.
        """
        assumed: list[tuple[str, Sequence[str]]] = [(query, ())]
        for pair in range(len(self.pairs)):
            ordered = [one.document for one in sorted(candidates, key=lambda one: one.by_pair[pair])]
            for number in range(1, len(ordered) + 1):
                assumed += [(query, ordered[:number]), (query, ordered[-number:])]
        differences = self._differences(assumed)
        return differences[0], differences.min(axis=0), differences.max(axis=0)

    def present(self) -> dict[str, Float64Array]:
        """Return the difference of each query on each pair as it is now."""
        queries = list(self.explorer.query_ids)
        return dict(zip(queries, self._differences([(query, ()) for query in queries]), strict=True))

    def _differences(self, assumed: Sequence[tuple[str, Sequence[str]]]) -> Float64Array:
        """Return float64 (N, pairs): differences from the reference, or values of the only ranking."""
        if not assumed:
            return np.zeros((0, max(len(self.pairs), 1)))
        parts = [assumed[start : start + _SCORED_AT_ONCE] for start in range(0, len(assumed), _SCORED_AT_ONCE)]
        values = np.concatenate([np.stack(list(self._values(part)), axis=1) for part in parts])
        if not self.pairs:
            return values
        return np.stack([values[:, b] - values[:, a] for a, b in self.pairs], axis=1)

    def _values(self, assumed: Sequence[tuple[str, Sequence[str]]]) -> Iterator[Float64Array]:
        """Yield the values of each ranking, float64 (N,); 0 for a query without any judgment."""
        grades = {
            str(number): {**self.grades.get(query, {}), **dict.fromkeys(documents, self.explorer.relevance)}
            for number, (query, documents) in enumerate(assumed)
        }
        judged = {name: judgments for name, judgments in grades.items() if judgments}
        queries = [query for query, _ in assumed]
        for run in self.explorer.runs:
            values = np.zeros(len(assumed))
            again = repeated(run, queries, list(grades), self._depth)
            if np.isnan(again.scores).any():  # the backend returned only ids, whose order counts
                again = again.with_scores(-ranks_in(again.indptr).astype(np.float32))
            if judged and again.hits:
                scores = score(
                    again,
                    qrels_from_dict(judged),
                    [self.metric],
                    ties=self._ties,
                    queries=QuerySet.JUDGED,
                    relevance=self.explorer.relevance,
                    unjudged=True,
                )
                rows = np.array(list(map(int, scores.query_ids)), dtype=np.int64)
                values[rows] = scores.values[:, scores.column_of(self.metric, self.explorer.relevance)]
            yield np.nan_to_num(values)


def unbounded(explorers: Sequence[Explorer], rules: PoolRules) -> str:
    """Return why no number of labels can be given that settles the comparison; "" if one can."""
    metric = rules.metric
    if metric is None:
        return "the hits of this result cannot be scored again by the ids of documents"
    if any(len(explorer.labels) < 2 for explorer in explorers):
        return "there is nothing to compare a single backend with"
    if metric.name not in BOUNDED or len(metric.cutoffs) != 1 or counts_forbidden(metric):
        choice = "choose P, R (recall), nDCG or DCG with a cutoff: --metric P@10"
        return f"the range of {rules.metric_name} over all labels of a query is not known; {choice}"
    if metric.cutoffs[0] > rules.depth:
        return f"{rules.metric_name} looks at more hits than the first {rules.depth:,}; raise the depth"
    return ""


def _settled(
    scored: Sequence[_Rescoring | None],
    ordered: Sequence[_Candidate],
    chosen: Sequence[_Candidate],
    queries: Sequence[PooledQuery],
    rules: PoolRules,
) -> list[str]:
    """Return sentences on the labels after which no other label of the pool could turn a sign."""
    rescorings = [rescoring for rescoring in scored if rescoring is not None]
    reason = unbounded([rescoring.explorer for rescoring in rescorings], rules)
    if reason or not rescorings:
        return [f"No number of labels can be given after which the comparison is settled: {reason}."] if reason else []
    by_query: dict[tuple[int, str], list[_Candidate]] = {}
    for candidate in ordered:
        if candidate.swing:
            by_query.setdefault((candidate.dataset, candidate.query), []).append(candidate)
    selected = {id(candidate) for candidate in chosen}
    complete = {key: all(id(one) in selected for one in candidates) for key, candidates in by_query.items()}
    numbers = []
    for number, rescoring in enumerate(rescorings):
        total = np.sum(list(rescoring.present().values()), axis=0)
        gains = {}
        for (dataset, query), candidates in by_query.items():
            if dataset == number:
                now, low, high = rescoring.extremes(query, candidates)
                gains[query] = np.where(total > 0, low - now, now - high)  # at most 0
        margin = np.abs(total) + np.sum([np.zeros_like(total), *gains.values()], axis=0)
        order = [one for one in queries if one.dataset == number]
        numbers += [
            _labels_needed(total[pair], margin[pair], pair, gains, order, complete) for pair in range(len(total))
        ]
    return _sentences(numbers, rules)


def _labels_needed(
    total: float,
    margin: float,
    pair: int,
    gains: Mapping[str, Float64Array],
    queries: Sequence[PooledQuery],
    complete: Mapping[tuple[int, str], bool],
) -> int | None:
    """Return after how many irrelevant documents the sign cannot turn; -1 if never here, None for no difference."""
    if abs(total) <= _ROUNDING:
        return None
    labels = 0
    for position in count():
        if margin > _ROUNDING:
            return labels
        if position == len(queries):
            return -1
        one = queries[position]
        labels += len(one.documents)
        if complete.get((one.dataset, one.query), False):
            margin -= float(gains[one.query][pair])
    raise AssertionError("the loop ends with the queries")


def _sentences(numbers: Sequence[int | None], rules: PoolRules) -> list[str]:
    finite = [number for number in numbers if number is not None]
    level = (
        f"the difference in {rules.metric_name}"
        if len(numbers) == 1
        else f"any of {len(numbers)} differences in {rules.metric_name}"
    )
    sentences = []
    if len(finite) < len(numbers):
        tied = len(numbers) - len(finite)
        sentences.append(
            "There is no difference now, so no number of labels settles its sign."
            if len(numbers) == 1
            else f"{tied} of {len(numbers)} differences are 0 now: no number of labels settles their sign."
        )
    if not finite:
        return sentences
    if -1 in finite:
        sentences.append(
            f"These documents are too few to settle the sign of {level}, even if none of them is relevant: "
            "judge more (--budget)."
        )
    elif max(finite) == 0:
        sentences.append(f"No label of a pooled document can turn the sign of {level}.")
    else:
        sentences.append(
            f"If the first {max(finite):,} documents are irrelevant, no further label can turn the sign of {level}. "
            "Relevant documents among them can settle it earlier or later."
        )
    sentences.append(
        "The rule: a query whose documents are judged keeps its difference, and every other query takes the worst one "
        "that labels of its pooled documents can give it, relevant ones with the lowest relevant grade. Whether the "
        "difference is significant cannot be said in advance."
    )
    return sentences
