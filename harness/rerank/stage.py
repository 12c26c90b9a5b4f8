"""The second stage itself: pairs of texts to scores, those that were scored before from the cache. Runs in a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.arrow import take_rows
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Int32Array, Int64Array
from harness.registry.parameters import ParameterValue
from harness.rerank.reranker import Reranker
from harness.rerank.scores import ScoreCache, digest

__all__ = ["Candidates", "Reranked", "score_candidates"]


class Candidates(NamedTuple):
    """Pairs as rows of two Arrow text columns; ``query_rows`` int32 (P,) ascending, ``document_rows`` int32 (P,)."""

    queries: pa.ChunkedArray
    documents: pa.ChunkedArray
    query_rows: Int32Array
    document_rows: Int32Array


@dataclass(frozen=True, eq=False, slots=True)
class Reranked:
    """``scores`` float32 (P,); how many pairs were ``scored`` now, and the time of that and of loading the model.

    ``whole_numbers`` is the reranker's: many documents share a score. ``facts`` are for the report.
    """

    scores: Float32Array
    scored: int
    score_ns: int
    load_ns: int
    whole_numbers: bool
    facts: Mapping[str, ParameterValue] = field(default_factory=dict)


def score_candidates(
    reranker: Reranker, candidates: Candidates, cache: ScoreCache, progress: Progress, clock: Clock
) -> Reranked:
    """The score of every pair.

    The model is loaded when the first pair is not in the cache. What was scored is stored group by group, also when a
    group fails in the middle; of a ``paid`` reranker each score before the next pair is asked for. Raises what the
    reranker raises.
    """
    kept = cache if reranker.stored else None
    scores = np.full(len(candidates.query_rows), np.nan, dtype=np.float32)
    scored, score_ns, load_ns = 0, 0, None
    if reranker.paid:
        missing_pairs = sum(len(group.look_up(kept, scores[group.place])) for group in _groups(reranker, candidates))
        reranker.allow(missing_pairs)
    progress.start("rerank", len(scores))
    try:
        for group in _groups(reranker, candidates):
            missing = group.look_up(kept, scores[group.place])
            progress.advance(len(group.queries) - len(missing))
            if not len(missing):
                continue
            if load_ns is None:
                began = clock()
                reranker.load()
                load_ns = clock() - began
            began = clock()
            try:
                if reranker.paid and kept is not None:
                    scored += group.ask(reranker, kept, missing, scores[group.place], progress)
                else:
                    group.score(reranker, missing, scores[group.place], progress)
                    scored += len(missing)
            finally:
                score_ns += clock() - began
                if kept is not None and not reranker.paid:
                    group.store(kept, missing, scores[group.place])
    finally:
        reranker.close()
    facts = {**reranker.facts, **({"calls_before": len(scores) - scored} if reranker.paid else {})}
    return Reranked(scores, scored, score_ns, load_ns or 0, reranker.whole_numbers, facts)


def _groups(reranker: Reranker, candidates: Candidates) -> Iterator[_Group]:
    for start in range(0, len(candidates.query_rows), reranker.group):
        yield _Group(reranker, candidates, slice(start, start + reranker.group))


class _Group:
    """Some of the pairs, with their texts."""

    def __init__(self, reranker: Reranker, candidates: Candidates, place: slice) -> None:
        self.place = place
        self.query_rows = candidates.query_rows[place]
        self.queries: list[str] = take_rows(candidates.queries, self.query_rows).to_pylist()
        self.documents: list[str] = take_rows(candidates.documents, candidates.document_rows[place]).to_pylist()
        pairs = zip(self.queries, self.documents, strict=True)
        self.contents = [digest(reranker.content(query, document)) for query, document in pairs]

    def look_up(self, cache: ScoreCache | None, scores: Float32Array) -> Int64Array:
        """Fill in what the cache has; where there was nothing, the longest pairs first."""
        for query, places in self._by_query(range(len(self.queries))):
            stored = cache.read(query) if cache is not None else {}
            for place in places:
                scores[place] = stored.get(self.contents[place], np.nan)
        missing: Int64Array = np.flatnonzero(np.isnan(scores)).astype(np.int64)
        lengths = np.array([len(self.queries[place]) + len(self.documents[place]) for place in missing])
        return missing[np.argsort(-lengths, kind="stable")] if len(missing) else missing

    def score(self, reranker: Reranker, missing: Int64Array, scores: Float32Array, progress: Progress) -> None:
        """Score the missing pairs, as far as the reranker comes."""
        found = np.full(len(missing), np.nan, dtype=np.float32)
        queries, documents = [self.queries[place] for place in missing], [self.documents[place] for place in missing]
        try:
            reranker.score(queries, documents, found, progress)
        finally:
            scores[missing] = found

    def ask(
        self, reranker: Reranker, cache: ScoreCache, missing: Int64Array, scores: Float32Array, progress: Progress
    ) -> int:
        """Score the missing pairs one by one, each stored when it is known; how many nobody else had scored by then."""

        def one(place: int) -> np.float32:
            found = np.full(1, np.nan, dtype=np.float32)
            reranker.score([self.queries[place]], [self.documents[place]], found, progress)
            return np.float32(found[0])

        scored = 0
        for place in missing.tolist():
            answer = cache.once(self.queries[place], self.contents[place], partial(one, place))
            scores[place] = answer.score
            scored += answer.now
            progress.advance(int(not answer.now))
        return scored

    def store(self, cache: ScoreCache, missing: Int64Array, scores: Float32Array) -> None:
        """Store those of the missing that have a score now."""
        finished = sorted(int(place) for place in missing if not np.isnan(scores[place]))
        for query, places in self._by_query(finished):
            cache.add(query, [self.contents[place] for place in places], [scores[place] for place in places])

    def _by_query(self, places: Iterator[int] | range | list[int]) -> Iterator[tuple[str, list[int]]]:
        for _, group in groupby(places, key=lambda place: self.query_rows[place]):
            listed = list(group)
            yield self.queries[listed[0]], listed
