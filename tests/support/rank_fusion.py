"""What holds of an engine that fuses by reciprocal ranks: a score is one that some order of the ties gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from harness.data.types import Float64Array
from harness.engines.interface import EngineInterface, SearchResult
from harness.testing import ExpectedScores
from harness.testing.suite import Base, Collection


class FusedByRanks(Base):
    """What a document scores depends on its place among those that it ties with; all documents are candidates."""

    best_place: ClassVar[int]
    """A document on the first place of a list gets 1 divided by this, on the next one by 1 more."""

    def expected_fusion(self, lists: Sequence[ExpectedScores]) -> ExpectedScores:
        """The scores of the last places that ties allow; those of the first ones are in ``scale``."""
        low, high = (np.sum([self._reciprocal(one, at_last=last) for one in lists], axis=0) for last in (True, False))
        return ExpectedScores(low, lists[0].matches | lists[1].matches, high)

    def search_rightly(self, engine: EngineInterface, sample: Collection, k: int) -> SearchResult:
        """Each score is one that an order of the ties gives, and nothing that is better in all orders is missing."""
        result = self.search(engine, sample.queries, len(sample.documents), k)
        low, matches, high = sample.expected
        assert high is not None
        for query in range(len(sample.queries)):
            hits = slice(int(result.indptr[query]), int(result.indptr[query + 1]))
            rows, scores = result.rows[hits], result.scores[hits].astype(np.float64)
            assert len(rows) == min(k, int(matches[query].sum())), f"query {query}: {len(rows)} hits"
            assert matches[query, rows].all(), f"query {query}: a document that does not match"
            assert (scores >= low[query, rows] - self.tolerance).all(), f"query {query}: a score is too low"
            assert (scores <= high[query, rows] + self.tolerance).all(), f"query {query}: a score is too high"
            better = np.flatnonzero(low[query] > scores[-1] + self.tolerance)
            assert np.isin(better, rows).all(), f"query {query}: a better document is missing"
        return result

    def _search_filtered(self, engine: EngineInterface, sample: Collection, k: int, *, fields: int) -> None:
        """Everything is scanned: nothing is lost, however many fields there are."""
        self.search_rightly(engine, sample, k)

    def _reciprocal(self, part: ExpectedScores, *, at_last: bool) -> Float64Array:
        scores: Float64Array = np.zeros(part.scores.shape)
        for query, (found, matching) in enumerate(zip(part.scores, part.matches, strict=True)):
            slack = 4e-6 * (np.abs(found) if part.scale is None else np.full(found.shape, part.scale[query]))
            bounds = (found - slack if at_last else found + slack)[matching]
            places = np.count_nonzero(found[matching] >= bounds[:, None], axis=1) - (1 if at_last else 0)
            scores[query, matching] = 1 / (self.best_place + places)
        return scores
