"""Snowball stemming without a JVM: fold, cut into tokens, drop stop words, stem.

``snowball-english`` is the default where Lucene is not installed. It is close to Lucene's English analyzer, not equal
to it: another stemmer (Porter 2; ``snowball-porter`` has Lucene's Porter), and tokens end at a full stop between
letters or digits, where Lucene keeps ``3.14`` and ``e.g`` whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.metadata import version

import Stemmer

from harness.errors import UnknownNameError
from harness.text.stopwords import StopWords, stop_words
from harness.text.tokens import Tokenizer

__all__ = ["SnowballAnalyzer", "identity", "languages"]

_ELIDING = frozenset({"catalan", "french", "irish", "italian"})
_CACHED_TOKENS = 1 << 20


def languages() -> list[str]:
    """Languages that the installed PyStemmer has, sorted."""
    return sorted(Stemmer.algorithms())


def identity(language: str) -> Mapping[str, str]:
    """What decides a language's terms: :meth:`SnowballAnalyzer.describe`."""
    return SnowballAnalyzer(language).describe()


class SnowballAnalyzer:
    """One language's analyzer. Each distinct token is stemmed once; the cache holds about a million of them."""

    def __init__(self, language: str) -> None:
        if language not in languages():
            raise UnknownNameError("Snowball language", language, languages())
        self._language = language
        self._tokenizer = Tokenizer(elides=language in _ELIDING, turkish=language == "turkish")
        self._stop = stop_words(language)
        stemmer = Stemmer.Stemmer(language, 0)  # its own cache is off: every token is asked for once
        self._terms = _Terms(stemmer.stemWord, self._folded_stop_words(self._stop))

    @property
    def name(self) -> str:
        """``snowball-<language>``."""
        return f"snowball-{self._language}"

    def analyze(self, texts: Sequence[str]) -> list[list[str]]:
        """Stems of each text's tokens in order, stop words left out."""
        if len(self._terms) > _CACHED_TOKENS:
            self._terms.clear()
        cut, terms = self._tokenizer.cut, self._terms
        return [[term for token in cut(text) if (term := terms[token])] for text in texts]

    def describe(self) -> Mapping[str, str]:
        """Stemmer with its version, stop words with a digest, and the rule for apostrophes."""
        return {
            "analyzer": self.name,
            "stemmer": f"PyStemmer {version('PyStemmer')} {self._language}",
            "stop_words": self._stop.source,
            "tokens": "apostrophe separates" if self._language in _ELIDING else "apostrophe joins",
        }

    def _folded_stop_words(self, stop: StopWords) -> frozenset[str]:
        """Stop words as tokens: a list may say ``l'`` where the tokeniser leaves ``l``."""
        pieces = (self._tokenizer.cut(word) for word in stop.words)
        return frozenset(tokens[0] for tokens in pieces if len(tokens) == 1)


class _Terms(dict[str, str]):
    """Token -> term, filled on demand; a stop word's term is empty."""

    def __init__(self, stem: Callable[[str], str], stop: Collection[str]) -> None:
        super().__init__()
        self._stem, self._stop = stem, stop

    def __missing__(self, token: str) -> str:
        term = "" if token in self._stop else self._stem(token).strip("'")
        self[token] = term
        return term
