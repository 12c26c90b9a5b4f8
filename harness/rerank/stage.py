"""Score the candidates of a first stage, pair by pair, and keep the scores in the cache. Runs in a worker.

There is one cache entry for each reranker and query, with scores by the text of the document.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.arrow import as_numpy, byte_strings, numbers, strings, take_rows
from harness.data.progress import Clock, CombinedProgress, Progress
from harness.data.types import Float32Array, Int32Array, Int64Array
from harness.encoders.token_counts import UNKNOWN, TextLengths, Unit
from harness.registry.parameters import ParameterValue
from harness.rerank.reranker import Reranker
from harness.store.cache import JSON, Cache, LockedEntry
from harness.store.columns import load_table, save_table

_KIND = "rerank"
_SCHEME = 2
_FILE = "scores.arrow"


class StoredScore(NamedTuple):
    """A score, with the length of its pair as in :class:`TextLengths`; unknown if the reranker does not report it.

    ``limit`` is 0 without a limit.
    """

    score: np.float32
    length: int = UNKNOWN
    unread: int = UNKNOWN
    limit: int = 0
    limit_from: str = ""


_NUMBERS = ("length", "unread", "limit")
_Scores = dict[bytes, StoredScore]


class Candidates(NamedTuple):
    """Pairs as rows of two Arrow text columns; ``query_rows`` int32 (P,) ascending, ``document_rows`` int32 (P,)."""

    queries: pa.ChunkedArray
    documents: pa.ChunkedArray
    query_rows: Int32Array
    document_rows: Int32Array


class PairRows(NamedTuple):
    """Rows of the dataset's queries and documents: int32 (P,) each."""

    queries: Int32Array
    documents: Int32Array


@dataclass(frozen=True, eq=False, slots=True)
class RerankedRun:
    """``scores`` float32 (P,); the number of pairs ``scored`` now, and the time of that and of loading the model.

    ``integer_scores`` is the reranker's: many documents share a score. ``lengths`` are the pairs', None for a reranker
    that does not report them; ``pairs`` are their rows, None before they are joined. ``facts`` are for the report.
    """

    scores: Float32Array
    scored: int
    score_ns: int
    load_ns: int
    integer_scores: bool
    facts: Mapping[str, ParameterValue] = field(default_factory=dict)
    lengths: TextLengths | None = None
    pairs: PairRows | None = None


class Answer(NamedTuple):
    """A score, and whether it was computed just now."""

    stored: StoredScore
    now: bool


class ScoreCache:
    """Stored scores of one reranker. ``identity`` is everything, except the texts, that changes a score."""

    def __init__(self, cache: Cache, reranker: str, identity: Mapping[str, JSON]) -> None:
        self._cache, self._reranker, self._identity = cache, reranker, identity

    def read(self, query: str) -> _Scores:
        """Return every stored score under a query, by the :func:`digest` of the pair's content."""
        return self._cache.get(_KIND, self._key(query), _read) or {}

    def add(self, query: str, contents: Sequence[bytes], scores: Sequence[StoredScore]) -> None:
        """Store scores under a query in addition to existing ones; raises CacheError."""
        with self._cache.lock(_KIND, self._key(query)) as entry:
            self._write(entry, (entry.get(_read) or {}) | dict(zip(contents, scores, strict=True)))

    def complete(
        self, query: str, contents: Sequence[bytes], score: Callable[[Sequence[int], dict[int, StoredScore]], None]
    ) -> list[Answer]:
        """Return the scores of contents under a query; missing ones are stored on the disk before this returns.

        ``score`` enters scores of the positions that it is called with, and may fail half way: scores that it entered
        are stored. No other process computes a score under the query in the meantime. Raises CacheError, and exceptions
        of ``score``.
        """
        with self._cache.lock(_KIND, self._key(query)) as entry:
            stored = entry.get(_read) or {}
            missing = [position for position, content in enumerate(contents) if content not in stored]
            made: dict[int, StoredScore] = {}
            try:
                if missing:
                    score(missing, made)
            finally:
                if made:
                    stored |= {contents[position]: new for position, new in made.items()}
                    self._write(entry, stored, durable=True)
            return [Answer(stored[content], position in made) for position, content in enumerate(contents)]

    def _write(self, entry: LockedEntry, scores: _Scores, *, durable: bool = False) -> None:
        """Replace the scores under a query."""
        rows = list(scores.values())
        table = pa.table(
            {
                "content": byte_strings(scores, 32),
                "score": numbers(np.array([row.score for row in rows], dtype=np.float32)),
                **{name: numbers(np.array([getattr(row, name) for row in rows], dtype=np.int32)) for name in _NUMBERS},
                "limit_from": strings(row.limit_from for row in rows),
            }
        )
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
    columns: list[Iterable[Any]] = [as_numpy(table["score"])]
    columns += [table[name].to_pylist() for name in StoredScore._fields[1:]]
    scores = itertools.starmap(StoredScore, zip(*columns, strict=True))
    return dict(zip(table["content"].to_pylist(), scores, strict=True))


class _Work(NamedTuple):
    """The number of pairs ``scored`` now, and the time of that and of loading the model."""

    scored: int
    score_ns: int
    load_ns: int


def score_candidates(
    reranker: Reranker, candidates: Candidates, cache: ScoreCache, progress: Progress, clock: Clock
) -> RerankedRun:
    """Score every pair.

    The model is loaded for the first pair that is not in the cache. Scores are stored group by group, also when a group
    fails in the middle; scores of a ``paid`` reranker before the next call. Raises the reranker's exceptions.
    """
    scores = _CandidateScores.empty(len(candidates.query_rows))
    score = _score_by_calls if reranker.paid else _score_groups
    try:
        work = score(reranker, candidates, cache, scores, progress, clock)
    finally:
        reranker.close()
    facts = dict(reranker.facts)
    if reranker.paid and reranker.documents_per_call == 1:
        facts["calls_before"] = len(scores.scores) - work.scored
    lengths = scores.lengths(reranker.unit) if reranker.unit is not None else None
    return RerankedRun(scores.scores, *work, reranker.integer_scores, facts, lengths)


def _score_groups(
    reranker: Reranker,
    candidates: Candidates,
    cache: ScoreCache,
    scores: _CandidateScores,
    progress: Progress,
    clock: Clock,
) -> _Work:
    """Score the missing pairs of each group in one batch."""
    score_cache = cache if reranker.stored else None
    scored, score_ns, load_ns = 0, 0, None
    progress.start("rerank", len(scores.scores))
    for start in range(0, len(candidates.query_rows), reranker.group):
        group = _Group(reranker, candidates, slice(start, start + reranker.group))
        missing = group.look_up(score_cache, scores)
        progress.advance(len(group.queries) - len(missing))
        if not len(missing):
            continue
        if load_ns is None:
            started = clock()
            reranker.load()
            load_ns = clock() - started
        started = clock()
        try:
            group.score(reranker, score_cache, missing, scores, progress)
        finally:
            score_ns += clock() - started
        scored += len(missing)
    return _Work(scored, score_ns, load_ns or 0)


def _score_by_calls(
    reranker: Reranker,
    candidates: Candidates,
    cache: ScoreCache,
    scores: _CandidateScores,
    progress: Progress,
    clock: Clock,
) -> _Work:
    """Score the missing pairs query by query, or several queries at the same time, in calls that may cost money."""
    size, bounds = reranker.documents_per_call, np.flatnonzero(np.diff(candidates.query_rows)) + 1
    pending, calls, pairs = list[slice](), 0, 0
    for start, stop in itertools.pairwise([0, *bounds.tolist(), len(candidates.query_rows)]):
        missing = len(_Group(reranker, candidates, slice(start, stop)).look_up(cache, scores))
        calls, pairs = calls - (-missing // size), pairs + missing
        pending += [slice(start, stop)] if missing else []
    reranker.allow(calls)
    combined = CombinedProgress(progress, "rerank", len(scores.scores))
    combined.advance(len(scores.scores) - pairs)
    if not pending:
        return _Work(0, 0, 0)
    started = clock()
    reranker.load()
    load_ns, started = clock() - started, clock()

    def score(rows: slice) -> int:
        group = _Group(reranker, candidates, rows)
        return group.score_by_calls(reranker, cache, group.look_up(cache, scores), scores, combined)

    if reranker.parallel_calls == 1:
        scored = sum(map(score, pending))
    else:
        pool = ThreadPoolExecutor(reranker.parallel_calls, thread_name_prefix="rerank")
        try:
            scored = sum(pool.map(score, pending))
        finally:
            pool.shutdown(cancel_futures=True)
    return _Work(scored, clock() - started, load_ns)


@dataclass(eq=False, slots=True)
class _CandidateScores:
    """Scores of all pairs, NaN for missing ones, and the known lengths of pairs."""

    scores: Float32Array
    counts: Int32Array
    limit: int | None = None
    limit_from: str = ""

    @classmethod
    def empty(cls, pairs: int) -> _CandidateScores:
        return cls(np.full(pairs, np.nan, dtype=np.float32), TextLengths.unknown(pairs).counts)

    def put(self, row: int, stored: StoredScore) -> None:
        """Enter the score of a pair."""
        self.scores[row] = stored.score
        self.counts[row] = stored.length, stored.unread
        if stored.limit:
            self.limit, self.limit_from = stored.limit, stored.limit_from

    def lengths(self, unit: Unit) -> TextLengths:
        """Return the lengths of all pairs."""
        return TextLengths(self.counts, self.limit, self.limit_from, unit)


class _Group:
    """The texts of some of the pairs; ``scores`` always cover all pairs, ``missing`` rows of the group."""

    def __init__(self, reranker: Reranker, candidates: Candidates, rows: slice) -> None:
        self._rows = rows
        self._query_rows = candidates.query_rows[rows]
        self.queries: list[str] = take_rows(candidates.queries, self._query_rows).to_pylist()
        self._documents: list[str] = take_rows(candidates.documents, candidates.document_rows[rows]).to_pylist()
        pairs = zip(self.queries, self._documents, strict=True)
        self._contents = [digest(reranker.content(query, document)) for query, document in pairs]

    def look_up(self, cache: ScoreCache | None, scores: _CandidateScores) -> Int64Array:
        """Fill in cached scores; return the rows without a score, the longest pairs first."""
        without = []
        for query, rows in self._rows_by_query(range(len(self.queries))):
            stored = cache.read(query) if cache is not None else {}
            for row in rows:
                stored_score = stored.get(self._contents[row])
                if stored_score is None:
                    without.append(row)
                else:
                    scores.put(self._rows.start + row, stored_score)
        missing: Int64Array = np.array(without, dtype=np.int64)
        lengths = np.array([len(self.queries[row]) + len(self._documents[row]) for row in without], dtype=np.int64)
        return missing[np.argsort(-lengths, kind="stable")]

    def score(
        self,
        reranker: Reranker,
        cache: ScoreCache | None,
        missing: Int64Array,
        scores: _CandidateScores,
        progress: Progress,
    ) -> None:
        """Score the missing pairs in one call; store finished scores, also when the reranker fails half way."""
        rows = missing.tolist()
        new = np.full(len(rows), np.nan, dtype=np.float32)
        queries, documents = [self.queries[row] for row in rows], [self._documents[row] for row in rows]
        lengths: TextLengths | None = None
        try:
            reranker.score(queries, documents, new, progress)
            lengths = reranker.lengths
        finally:
            made = {row: _stored(new, lengths, position) for position, row in enumerate(rows)}
            made = {row: stored for row, stored in made.items() if not np.isnan(stored.score)}
            for row, stored in made.items():
                scores.put(self._rows.start + row, stored)
            if cache is not None:
                for query, of_query in self._rows_by_query(sorted(made)):
                    cache.add(query, [self._contents[row] for row in of_query], [made[row] for row in of_query])

    def score_by_calls(
        self, reranker: Reranker, cache: ScoreCache, missing: Int64Array, scores: _CandidateScores, progress: Progress
    ) -> int:
        """Score the missing pairs of the group's only query call by call; return how many were not scored elsewhere.

        Scores of each call are stored before the next call.
        """
        query, scored, first = self.queries[0], 0, 0

        def score(rows: Sequence[int], positions: Sequence[int], made: dict[int, StoredScore]) -> None:
            documents = [self._documents[rows[position]] for position in positions]
            new = np.full(len(positions), np.nan, dtype=np.float32)
            try:
                reranker.score([query] * len(positions), documents, new, progress)
            finally:
                lengths = reranker.lengths
                for row in np.flatnonzero(~np.isnan(new)).tolist():
                    made[positions[row]] = _stored(new, lengths, row)

        while first < len(missing):
            rows = missing[first : first + reranker.documents_per_call].tolist()
            answers = cache.complete(query, [self._contents[row] for row in rows], partial(score, rows))
            for row, answer in zip(rows, answers, strict=True):
                scores.put(self._rows.start + row, answer.stored)
            made_now = sum(answer.now for answer in answers)
            progress.advance(len(rows) - made_now)
            scored, first = scored + made_now, first + len(rows)
        return scored

    def _rows_by_query(self, rows: Iterable[int]) -> Iterator[tuple[str, list[int]]]:
        for _, group in itertools.groupby(rows, key=lambda row: self._query_rows[row]):
            rows_of_query = list(group)
            yield self.queries[rows_of_query[0]], rows_of_query


def _stored(scores: Float32Array, lengths: TextLengths | None, position: int) -> StoredScore:
    """Return the score at a position of a call, with the length of its pair if the reranker reports it."""
    if lengths is None:
        return StoredScore(scores[position])
    length, unread = lengths.counts[position].tolist()
    return StoredScore(scores[position], length, unread, lengths.limit or 0, lengths.limit_from)
