"""Two sides scored as if unjudged documents were relevant: how far missing judgments could move a difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.metrics import Measure
from harness.pipeline.regress.pairing import Pair
from harness.pipeline.regress.rescoring import Grades, repeated, scorable, score_again, to_qrels
from harness.results.side import Side

__all__ = ["Supposed", "Swing"]

_ROUNDING = 1e-12
_Figure = dict[str, dict[str, float]]


class Swing(NamedTuple):
    """An unjudged document, and what its query's difference would change by if it were relevant."""

    query: str
    document: str
    size: float


@dataclass(frozen=True, eq=False, slots=True)
class Supposed:
    """Both sides of a pair, the ``unjudged`` documents of each query, and the ``grades`` that are known.

    Supposed documents get the lowest relevant grade. ``metric`` is the one whose difference swings are told of; where a
    side is too short to score it again, it is the first that can be.
    """

    before: Side
    after: Side
    pair: Pair
    unjudged: Callable[[str], Sequence[str]]
    grades: Grades
    metric: str | None

    def all_relevant(self, queries: Sequence[str]) -> tuple[_Figure, _Figure]:
        """Metric to query to value on each side, every unjudged document among the first ones being relevant."""
        supposed = {query: (query, self.unjudged(query)) for query in queries if query in self.grades}
        return self._scored(supposed, self._measures())

    def swings(self, queries: Sequence[str]) -> list[Swing]:
        """The unjudged documents that matter, the largest swing first; each is supposed to be relevant by itself."""
        known = [query for query in queries if query in self.grades]
        asked = [(query, document) for query in known for document in self.unjudged(query)]
        measures = self._measures()
        if not asked or not measures:
            return []
        alone = {f"{number}": (query, [document]) for number, (query, document) in enumerate(asked)}
        name = self.metric if self.metric in measures else next(iter(measures))
        measures = {name: measures[name]}
        then = [found[name] for found in self._scored(alone, measures)]
        now = [found[name] for found in self._scored({query: (query, ()) for query in known}, measures)]
        found = []
        for number, (query, document) in enumerate(asked):
            if_relevant = then[1][f"{number}"] - then[0][f"{number}"]
            found.append(Swing(query, document, if_relevant - (now[1][query] - now[0][query])))
        return sorted((one for one in found if abs(one.size) > _ROUNDING), key=lambda one: -abs(one.size))

    def _measures(self) -> dict[str, Measure]:
        return scorable((self.before, self.after), self.after.measures)

    def _scored(
        self, supposed: Mapping[str, tuple[str, Sequence[str]]], measures: Mapping[str, Measure]
    ) -> tuple[_Figure, _Figure]:
        """``supposed`` maps a name to a query and the documents that are taken to be relevant to it."""
        if not supposed or not measures:
            return {}, {}
        relevance = int(str(self.after.report.plan.resolved["relevance"]))
        qrels = to_qrels(
            {
                name: {**self.grades[query], **dict.fromkeys(documents, relevance)}
                for name, (query, documents) in supposed.items()
            }
        )
        cutoffs = [measure.cutoff for measure in measures.values() if isinstance(measure.cutoff, int)]
        depth = max(cutoffs) if len(cutoffs) == len(measures) else None
        scored = []
        for side, label in ((self.before, self.pair.before), (self.after, self.pair.after)):
            run = side.ordered(label)
            if run is None:
                return {}, {}
            again = repeated(run, [query for query, _ in supposed.values()], list(supposed), depth)
            scored.append(score_again(side, again, qrels, measures))
        return scored[0], scored[1]
