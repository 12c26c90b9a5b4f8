"""Scores of pairs that were scored before: one cache entry for each reranker and query, by the text of the document."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from harness.data.arrow import as_numpy, byte_strings, numbers
from harness.store.cache import JSON, Cache
from harness.store.columns import load_table, save_table

__all__ = ["KIND", "Answer", "ScoreCache", "digest"]

KIND = "rerank"
_SCHEME = 1
_FILE = "scores.arrow"
_Scores = dict[bytes, np.float32]


class Answer(NamedTuple):
    """A score, and whether it was asked for just now."""

    score: np.float32
    now: bool


class ScoreCache:
    """The stored scores of one reranker. ``identity`` is everything beside the texts that changes a score."""

    def __init__(self, cache: Cache, reranker: str, identity: Mapping[str, JSON]) -> None:
        self._cache, self._reranker, self._identity = cache, reranker, identity

    def read(self, query: str) -> _Scores:
        """Every stored score under a query, by the digest of what it depends on (:func:`digest`)."""
        stored = self._cache.read(KIND, self._key(query), _read)
        return {} if stored is None else stored

    def add(self, query: str, contents: Sequence[bytes], scores: Sequence[np.float32]) -> None:
        """Store further scores under a query, beside those that are there; raises CacheError."""
        further = dict(zip(contents, scores, strict=True))
        self._revise(query, lambda before: before | further, durable=False)

    def once(self, query: str, content: bytes, ask: Callable[[], np.float32]) -> Answer:
        """The stored score of one pair, else what ``ask()`` gives, which is on the disk before this returns.

        Nobody else asks for a score under the query meanwhile. Raises CacheError, and what ``ask`` raises.
        """
        given: list[Answer] = []

        def asked(before: _Scores) -> _Scores:
            given.append(Answer(before[content], now=False) if content in before else Answer(ask(), now=True))
            return {**before, content: given[0].score}

        self._revise(query, asked, durable=True)
        return given[0]

    def _revise(self, query: str, change: Callable[[_Scores], _Scores], *, durable: bool) -> None:
        """Store what ``change`` makes of the scores under a query in their place."""

        def write(folder: Path, before: _Scores | None) -> None:
            known = change(before or {})
            values = np.array(list(known.values()), dtype=np.float32)
            table = pa.table({"content": byte_strings(known, 32), "score": numbers(values)})
            save_table(folder / _FILE, table)

        about = f"{self._reranker}, documents of a query"
        self._cache.revise(KIND, self._key(query), _read, write, about=about, state="complete", durable=durable)

    def _key(self, query: str) -> dict[str, JSON]:
        return {
            "scheme": _SCHEME,
            "reranker": self._reranker,
            "identity": dict(self._identity),
            "query": hashlib.sha256(query.encode()).hexdigest(),
        }


def digest(content: str) -> bytes:
    """SHA-256 of what a score depends on."""
    return hashlib.sha256(content.encode()).digest()


def _read(folder: Path) -> _Scores:
    table = load_table(folder / _FILE)
    return dict(zip(table["content"].to_pylist(), as_numpy(table["score"]), strict=True))
