"""Hits that a dataset leaves out before scoring: those with their query's id, and those that are no candidates.

Engines know neither rule. They are asked for as many hits more as may be left out, so that no hit is missing from the
first k: one more for the query's own document, and every document where a query is ranked among its candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.data.dataset import Dataset
from harness.errors import UsageError
from harness.planning.plan import Plan
from harness.ranking import among_candidates, cut, without_identical_ids
from harness.types import Run

__all__ = ["MOST_HITS", "HitRules"]

MOST_HITS = 50_000_000
"""Most hits of a backend, of all queries together, where every document is asked for.

So many are 400 MB of rows and scores. A comparison of csr alone, 25,000 documents for 2,000 queries, took 1.4 GB in the
harness's process, its exact reference included, and 1.0 GB in the worker; a second backend added 0.4 GB to the former.
Leaving out what is no candidate adds 5 MB (50,000 documents, 1,000 queries of 100 candidates).
"""


@dataclass(frozen=True, slots=True)
class HitRules:
    """``drops_itself`` where hits with their query's id are left out; ``candidates`` of each query, None for all."""

    documents: int
    drops_itself: bool
    candidates: Mapping[str, Sequence[str]] | None

    @classmethod
    def of(cls, dataset: Dataset) -> HitRules:
        """Return the rules of a dataset; raises UsageError where candidates would need more than ``MOST_HITS`` hits."""
        corpus, queries = dataset.corpus.ids, dataset.queries.ids
        itself = dataset.identical_ids == "drop" and bool((corpus.rows_of(queries) >= 0).any())
        hits = len(corpus) * len(queries)
        if dataset.candidates is not None and hits > MOST_HITS:
            fewer = MOST_HITS // len(corpus)
            raise UsageError(
                f"each query is ranked among its candidates, for which every backend would return all "
                f"{len(corpus):,} documents for {len(queries):,} queries: {hits:,} hits, more than {MOST_HITS:,}",
                fix=f"ask fewer queries: --sample-queries {fewer}" if fewer else "take a collection of fewer documents",
            )
        return cls(len(corpus), itself, dataset.candidates)

    def deepened(self, plan: Plan) -> Plan:
        """Return the plan that asks engines for all hits that the rules need."""
        k = plan.request.k + 1 if self.drops_itself else plan.request.k
        if self.candidates is not None:
            k = max(self.documents, plan.request.k)
        return replace(plan, request=replace(plan.request, k=k))

    @property
    def leave_out(self) -> bool:
        """Whether any hit may be left out."""
        return self.drops_itself or self.candidates is not None

    def kept(self, run: Run, k: int | None) -> Run:
        """Return the hits that count, the first ``k`` of each query; None for all of them."""
        if self.candidates is not None:
            run = among_candidates(run, self.candidates)
        if self.drops_itself:
            run = without_identical_ids(run)
        return run if k is None else cut(run, k)
