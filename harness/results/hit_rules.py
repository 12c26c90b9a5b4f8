"""Hits that a dataset leaves out: hits with their query's id, excluded documents, and hits that are no candidates.

Engines know none of these rules. They are queried for as many more hits as may be left out, so that no hit is missing
from the first k: one more for the query's own document, one for each document that a query excludes, and every document
if a query is ranked among its candidates. Workers keep only the hits that are candidates, so fusions and second stages
see nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow.compute as pc

from harness.data.dataset import Dataset
from harness.data.exclusions import most_excluded
from harness.data.ranking import (
    candidate_positions,
    candidate_rows,
    cut,
    select_hits,
    without_excluded,
    without_identical_ids,
)
from harness.data.types import DocumentContent, Ids, Int64Array, Run
from harness.plan.plan import Plan
from harness.wording import counted

_EXAMPLES = 3


ExcludedIn = Callable[[Run], Mapping[str, Sequence[str]]]
"""Returns the documents of a run that each query excludes."""


@dataclass(frozen=True, slots=True)
class HitRules:
    """``documents`` are all of the dataset; ``drops_itself`` says that hits with their query's id are left out.

    ``candidates`` are each query's candidates, None for all documents. ``excluded`` are the documents that each query
    excludes, by ids; ``most_excluded`` is their largest number in the dataset, at most if its documents are unknown.
    ``find_excluded`` finds them among the documents of a run if they are not named by their ids.
    """

    documents: Ids
    drops_itself: bool
    candidates: Run | None
    excluded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    most_excluded: int = 0
    find_excluded: ExcludedIn | None = None

    @classmethod
    def of(cls, dataset: Dataset, find_excluded: ExcludedIn | None = None) -> HitRules:
        """Return the rules of a dataset."""
        corpus, queries = dataset.corpus.ids, dataset.queries.ids
        itself = dataset.identical_ids == "drop" and bool((corpus.rows_of(queries) >= 0).any())
        candidates, excluded, most = dataset.candidates, dataset.excluded or {}, 0
        if excluded and not len(corpus):
            most = most_excluded(excluded)
        elif excluded:
            most = int(np.diff(candidate_rows(queries, corpus, excluded).indptr).max(initial=0))
        among = candidate_rows(queries, corpus, candidates) if candidates is not None else None
        return cls(corpus, itself, among, excluded, most, find_excluded)

    def deepened(self, plan: Plan) -> Plan:
        """Return the plan that requests all hits that the rules need."""
        k = plan.request.k + self.drops_itself + self.most_excluded
        if self.candidates is not None:
            k = max(len(self.documents), plan.request.k)
        return replace(plan, request=replace(plan.request, k=k))

    def filter_hits(self, run: Run, k: int | None) -> Run:
        """Return the hits that count, the first ``k`` of each query; None for all of them."""
        content = run.content
        if self.drops_itself:
            run = without_identical_ids(run)
        if self.excluded:
            run = self._without_excluded(run, content)
        run = run if k is None else cut(run, k)
        return run if content is None else replace(run, content=content)

    def _without_excluded(self, run: Run, content: DocumentContent | None) -> Run:
        """Return the hits that their query does not exclude.

        If ids were to be read from a field whose values several documents share, these values are compared.
        """
        if self.find_excluded is not None:
            return without_excluded(run, self.find_excluded(replace(run, content=content)))
        if content is None or not content.repeats or content.values is None:
            return without_excluded(run, self.excluded)
        values = content.values.combine_chunks()
        names = Ids(pc.drop_null(values).unique())
        excluded = candidate_rows(run.query_ids, names, self.excluded)
        positions = candidate_positions(run.indptr, names.rows_of(values)[run.rows], excluded)
        return select_hits(run, np.setdiff1d(np.arange(run.hits), positions))

    def notes(self, run: Run, k: int | None = None) -> list[str]:
        """Return sentences that count what is left out of the hits of ``run``, before any cut, and what they lack.

        ``k`` is the number of hits that count, None for all of them.
        """
        if not self.excluded:
            return self._not_returned(run)
        counting = self._without_excluded(run, run.content)
        notes = excluded_hits_note(run.hits - counting.hits)
        if self.find_excluded is not None and k is not None:
            hits, left = np.diff(run.indptr), np.diff(counting.indptr)
            notes += short_lists_note(int(((left < k) & (hits >= k + self.most_excluded)).sum()), k)
        return [*notes, *self._not_returned(run)]

    def _not_returned(self, run: Run) -> list[str]:
        """Return a sentence that counts the candidates which are not among the hits."""
        if self.candidates is None:
            return []
        candidates = self.candidates
        keys, hits = _keys(candidates, candidates), _keys(run, candidates)
        missing = np.flatnonzero(~np.isin(keys, hits))
        if not len(missing):
            return []
        queries, rows = np.divmod(keys[missing], len(candidates.doc_ids))
        pairs = zip(
            candidates.doc_ids.take(rows[:_EXAMPLES]), candidates.query_ids.take(queries[:_EXAMPLES]), strict=True
        )
        examples = ", ".join(f"{document} of query {query}" for document, query in pairs)
        more = ", …" if len(missing) > _EXAMPLES else ""
        of = f"{len(missing):,} of {counted(len(keys), 'candidate')}"
        return [f"{of} were not returned, and have no rank: {examples}{more}"]


def excluded_hits_note(left_out: int) -> list[str]:
    """Return a sentence that counts the hits left out because a query excludes them; none for 0."""
    hits = counted(left_out, "hit is", "hits are")
    return [f"{hits} left out because the query excludes the document"] if left_out else []


def short_lists_note(queries: int, k: int) -> list[str]:
    """Return a sentence that counts the queries with fewer than k hits left, though more were returned; none for 0."""
    shorter = counted(queries, "query has", "queries have")
    return [f"{shorter} fewer than {k} hits left after leaving out excluded documents"] if queries else []


def _keys(run: Run, candidates: Run) -> Int64Array:
    """Return a number for each hit, of its query and document in ``candidates``; none for hits that it lacks."""
    queries = np.repeat(candidates.query_ids.rows_of(run.query_ids).astype(np.int64), np.diff(run.indptr))
    documents = candidates.doc_ids.rows_of(run.doc_ids)[run.rows]
    keys: Int64Array = (queries * len(candidates.doc_ids) + documents)[(queries >= 0) & (documents >= 0)]
    return keys
