"""Stop words of the Snowball analyzers.

English uses the 33 words that Lucene's English analyzer removes, so that the two stay comparable. Other languages use
the lists of the ``stop-words`` distribution (BSD-3-Clause), whose English list is far too long for retrieval (1,333
entries, with ``computer`` and ``system`` among them). Languages that it does not have get no stop words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from importlib.metadata import version
from typing import NamedTuple

__all__ = ["LUCENE_ENGLISH", "StopWords", "stop_words"]

# fmt: off
LUCENE_ENGLISH = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this",
    "to", "was", "will", "with",
})
# fmt: on
_ENGLISH = ("english", "porter")
_SAME_LANGUAGE = {"dutch_porter": "dutch"}


class StopWords(NamedTuple):
    """The words, and one line that says where they are from and which exactly (a digest)."""

    words: frozenset[str]
    source: str


def stop_words(language: str) -> StopWords:
    """Stop words for a Snowball ``language``; an empty set where none are known."""
    if language in _ENGLISH:
        return StopWords(LUCENE_ENGLISH, f"lucene english, 33 words, sha256 {_digest(LUCENE_ENGLISH)}")
    import stop_words as lists

    wanted = _SAME_LANGUAGE.get(language, language)
    if wanted not in lists.AVAILABLE_LANGUAGES:
        return StopWords(frozenset(), "none")
    words = frozenset(lists.get_stop_words(wanted))
    source = f"stop-words {version('stop-words')} {wanted}, {len(words)} words, sha256 {_digest(words)}"
    return StopWords(words, source)


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(words)).encode()).hexdigest()[:16]
