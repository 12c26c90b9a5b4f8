"""Score the candidates of a first stage, pair by pair, and keep the scores in the cache. Runs in a worker.

There is one cache entry for each reranker and query, with scores by the text of the document.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.arrow import as_numpy, byte_strings, numbers, take_rows
from harness.data.progress import Clock, Progress
from harness.data.types import Float32Array, Int32Array, Int64Array
from harness.registry.parameters import ParameterValue
from harness.rerank.reranker import Reranker
from harness.store.cache import JSON, Cache, LockedEntry
from harness.store.columns import load_table, save_table

_KIND = "rerank"
_SCHEME = 1
_FILE = "scores.arrow"
_Scores = dict[bytes, np.float32]


class Candidates(NamedTuple):
    """Pairs as rows of two Arrow text columns; ``query_rows`` int32 (P,) ascending, ``document_rows`` int32 (P,)."""

    queries: pa.ChunkedArray
    documents: pa.ChunkedArray
    query_rows: Int32Array
    document_rows: Int32Array


@dataclass(frozen=True, eq=False, slots=True)
class Reranked:
    """``scores`` float32 (P,); the number of pairs ``scored`` now, and the time of that and of loading the model.

    ``whole_numbers`` is the reranker's: many documents share a score. ``facts`` are for the report.
    """

    scores: Float32Array
    scored: int
    score_ns: int
    load_ns: int
    whole_numbers: bool
    facts: Mapping[str, ParameterValue] = field(default_factory=dict)


class Answer(NamedTuple):
    """A score, and whether it was computed just now."""

    score: np.float32
    now: bool


class ScoreCache:
    """Stored scores of one reranker. ``identity`` is everything but the texts that changes a score."""

    def __init__(self, cache: Cache, reranker: str, identity: Mapping[str, JSON]) -> None:
        self._cache, self._reranker, self._identity = cache, reranker, identity

    def read(self, query: str) -> _Scores:
        """Return every stored score under a query, by the :func:`digest` of the pair's content."""
        return self._cache.get(_KIND, self._key(query), _read) or {}

    def add(self, query: str, contents: Sequence[bytes], scores: Sequence[np.float32]) -> None:
        """Store scores under a query beside those that are there; raises CacheError."""
        with self._cache.lock(_KIND, self._key(query)) as entry:
            self._write(entry, (entry.get(_read) or {}) | dict(zip(contents, scores, strict=True)))

    def once(self, query: str, content: bytes, score: Callable[[], np.float32]) -> Answer:
        """Return the stored score of a pair, or else that of ``score()``, which is on the disk before this returns.

        Nobody else computes a score under the query meanwhile. Raises CacheError, and what ``score`` raises.
        """
        with self._cache.lock(_KIND, self._key(query)) as entry:
            stored = entry.get(_read) or {}
            if content in stored:
                return Answer(stored[content], now=False)
            answer = Answer(score(), now=True)
            self._write(entry, {**stored, content: answer.score}, durable=True)
            return answer

    def _write(self, entry: LockedEntry, scores: _Scores, *, durable: bool = False) -> None:
        """Replace the scores under a query."""
        values = np.array(list(scores.values()), dtype=np.float32)
        table = pa.table({"content": byte_strings(scores, 32), "score": numbers(values)})
        entry.put(
            lambda folder: save_table(folder / _FILE, table),
            about=f"{self._reranker}, documents of a query",
            durable=durable,
        )

    def _key(self, query: str) -> dict[str, JSON]:
        return {
            "scheme": _SCHEME,
            "reranker": self._reranker,
            "identity": dict(self._identity),
            "query": hashlib.sha256(query.encode()).hexdigest(),
        }


def digest(content: str) -> bytes:
    """Return the SHA-256 of a pair's content."""
    return hashlib.sha256(content.encode()).digest()


def _read(folder: Path) -> _Scores:
    table = load_table(folder / _FILE)
    return dict(zip(table["content"].to_pylist(), as_numpy(table["score"]), strict=True))


def score_candidates(
    reranker: Reranker, candidates: Candidates, cache: ScoreCache, progress: Progress, clock: Clock
) -> Reranked:
    """Score every pair.

    The model is loaded for the first pair that is not in the cache. Scores are stored group by group, also when a group
    fails in the middle; those of a ``paid`` reranker before the next pair is scored. Raises what the reranker raises.
    """
    kept = cache if reranker.stored else None
    scores = np.full(len(candidates.query_rows), np.nan, dtype=np.float32)
    scored, score_ns, load_ns = 0, 0, None
    if reranker.paid:
        reranker.allow(sum(len(group.look_up(kept, scores)) for group in _groups(reranker, candidates)))
    progress.start("rerank", len(scores))
    try:
        for group in _groups(reranker, candidates):
            missing = group.look_up(kept, scores)
            progress.advance(len(group.queries) - len(missing))
            if not len(missing):
                continue
            if load_ns is None:
                started = clock()
                reranker.load()
                load_ns = clock() - started
            started = clock()
            try:
                if reranker.paid and kept is not None:
                    scored += group.score_once(reranker, kept, missing, scores, progress)
                else:
                    group.score(reranker, kept, missing, scores, progress)
                    scored += len(missing)
            finally:
                score_ns += clock() - started
    finally:
        reranker.close()
    facts = {**reranker.facts, **({"calls_before": len(scores) - scored} if reranker.paid else {})}
    return Reranked(scores, scored, score_ns, load_ns or 0, reranker.whole_numbers, facts)


def _groups(reranker: Reranker, candidates: Candidates) -> Iterator[_Group]:
    for start in range(0, len(candidates.query_rows), reranker.group):
        yield _Group(reranker, candidates, slice(start, start + reranker.group))


class _Group:
    """The texts of some of the pairs; ``scores`` are always those of all pairs, ``missing`` rows of the group."""

    def __init__(self, reranker: Reranker, candidates: Candidates, place: slice) -> None:
        self._place = place
        self._query_rows = candidates.query_rows[place]
        self.queries: list[str] = take_rows(candidates.queries, self._query_rows).to_pylist()
        self._documents: list[str] = take_rows(candidates.documents, candidates.document_rows[place]).to_pylist()
        pairs = zip(self.queries, self._documents, strict=True)
        self._contents = [digest(reranker.content(query, document)) for query, document in pairs]

    def look_up(self, cache: ScoreCache | None, scores: Float32Array) -> Int64Array:
        """Fill in cached scores; return the rows without one, the longest pairs first."""
        part = scores[self._place]
        for query, rows in self._by_query(range(len(self.queries))):
            stored = cache.read(query) if cache is not None else {}
            for row in rows:
                part[row] = stored.get(self._contents[row], np.nan)
        missing: Int64Array = np.flatnonzero(np.isnan(part)).astype(np.int64)
        lengths = np.array([len(self.queries[row]) + len(self._documents[row]) for row in missing], dtype=np.int64)
        return missing[np.argsort(-lengths, kind="stable")]

    def score(
        self,
        reranker: Reranker,
        cache: ScoreCache | None,
        missing: Int64Array,
        scores: Float32Array,
        progress: Progress,
    ) -> None:
        """Score the missing pairs in one call; store what is scored, also when the reranker fails half way."""
        new = np.full(len(missing), np.nan, dtype=np.float32)
        queries, documents = [self.queries[row] for row in missing], [self._documents[row] for row in missing]
        try:
            reranker.score(queries, documents, new, progress)
        finally:
            part = scores[self._place]
            part[missing] = new
            if cache is not None:
                for query, rows in self._by_query(sorted(missing[~np.isnan(new)].tolist())):
                    cache.add(query, [self._contents[row] for row in rows], [part[row] for row in rows])

    def score_once(
        self, reranker: Reranker, cache: ScoreCache, missing: Int64Array, scores: Float32Array, progress: Progress
    ) -> int:
        """Score the missing pairs one by one and store each at once; return how many nobody else had scored by then."""

        def score(row: int) -> np.float32:
            new = np.full(1, np.nan, dtype=np.float32)
            reranker.score([self.queries[row]], [self._documents[row]], new, progress)
            return np.float32(new[0])

        scored, part = 0, scores[self._place]
        for row in missing.tolist():
            answer = cache.once(self.queries[row], self._contents[row], partial(score, row))
            part[row] = answer.score
            scored += answer.now
            progress.advance(int(not answer.now))
        return scored

    def _by_query(self, rows: Iterable[int]) -> Iterator[tuple[str, list[int]]]:
        for _, group in groupby(rows, key=lambda row: self._query_rows[row]):
            listed = list(group)
            yield self.queries[listed[0]], listed
