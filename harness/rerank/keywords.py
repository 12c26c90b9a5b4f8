"""The cheapest second stage: how often a document holds the words of the query."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from harness.data.progress import Progress
from harness.data.types import Float32Array
from harness.rerank.reranker import Facts
from harness.store.cache import JSON

__all__ = ["Keywords", "keyword_count"]

_WORD = re.compile(r"\w+")


def keyword_count(query: str, document: str) -> int:
    """How many words of ``document`` are words of ``query``, each occurrence once, whatever their case."""
    counts = Counter(_WORD.findall(document.casefold()))
    return sum(counts[word] for word in set(_WORD.findall(query.casefold())))


class Keywords:
    """Counts; see :func:`keyword_count`."""

    whole_numbers: ClassVar[bool] = True
    group: ClassVar[int] = 10_000
    stored: ClassVar[bool] = False
    paid: ClassVar[bool] = False

    def identity(self) -> dict[str, JSON]:
        """The rule's number."""
        return {"rule": 1}

    def content(self, query: str, document: str) -> str:  # noqa: ARG002 - the interface's
        """The document."""
        return document

    def allow(self, pairs: int) -> None:
        """Counting costs nothing."""

    def load(self) -> None:
        """There is nothing to load."""

    def score(self, queries: Sequence[str], documents: Sequence[str], out: Float32Array, progress: Progress) -> None:
        """Count."""
        for place, pair in enumerate(zip(queries, documents, strict=True)):
            out[place] = keyword_count(*pair)
        progress.advance(len(queries))

    @property
    def facts(self) -> Facts:
        """Nothing."""
        return {}

    def close(self) -> None:
        """There is nothing to let go of."""
