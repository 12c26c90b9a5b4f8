"""Snowball stemming without a JVM: fold, cut into tokens, drop stop words, stem.

``snowball-english`` is the default if Lucene is not installed. It is close to Lucene's English analyzer, not equal to
it: another stemmer (Porter 2; ``snowball-porter`` has Lucene's Porter), and tokens end at a full stop between letters
or digits, but Lucene keeps ``3.14`` and ``e.g`` whole.

A token is a run of letters, digits, combining marks, underscores and joiners (U+200C, U+200D). Python's ``\\w`` leaves
combining marks out and would cut Hindi and Tamil words at every vowel sign. An apostrophe (' or U+2019) between two
such runs joins them (``don't``), except in languages that elide (``l'homme`` is two tokens). Everything else
separates. Text is put into Unicode's NFC form first, so that a composed and a decomposed ``é`` are the same letter.

English drops the 33 stop words of Lucene's English analyzer, so that the two stay comparable. Other languages use the
lists of the ``stop-words`` distribution (BSD-3-Clause), whose English list is far too long for retrieval (1,333
entries, with ``computer`` and ``system`` among them). Languages that it does not have get no stop words.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version

import Stemmer

from harness.errors import UnknownNameError

# fmt: off
_LUCENE_ENGLISH = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no",
    "not", "of", "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this",
    "to", "was", "will", "with",
})
# fmt: on
_ENGLISH = ("english", "porter")
_SAME_LANGUAGE = {"dutch_porter": "dutch"}
_ELIDING = frozenset({"catalan", "french", "irish", "italian"})
_CACHED_TOKENS = 1 << 20
_ASCII = "[a-z0-9_]+"
_JOINERS = "\u200c\u200d"
_TURKISH = str.maketrans({"I": "\u0131", "\u0130": "i"})


def languages() -> list[str]:
    """Return the languages that the installed PyStemmer has, sorted."""
    return sorted(Stemmer.algorithms())


def identity(language: str) -> Mapping[str, str]:
    """Return the values that decide a language's terms: stemmer and version, stop words and digest, and apostrophes."""
    return {
        "analyzer": f"snowball-{language}",
        "stemmer": f"PyStemmer {version('PyStemmer')} {language}",
        "stop_words": _stop_words(language)[1],
        "tokens": "apostrophe separates" if language in _ELIDING else "apostrophe joins",
    }


class SnowballAnalyzer:
    """One language's analyzer. Each distinct token is stemmed once; the cache holds about a million of them."""

    def __init__(self, language: str) -> None:
        if language not in languages():
            raise UnknownNameError("Snowball language", language, languages())
        self.name = f"snowball-{language}"
        self._tokenizer = Tokenizer(elides=language in _ELIDING, turkish=language == "turkish")
        # a list may have ``l'`` for the tokeniser's ``l``
        pieces = (self._tokenizer.cut(word) for word in _stop_words(language)[0])
        stop_tokens = frozenset(tokens[0] for tokens in pieces if len(tokens) == 1)
        stemmer = Stemmer.Stemmer(language, 0)  # its own cache is off: every token is stemmed once
        self._terms = _Terms(stemmer.stemWord, stop_tokens)

    def analyze(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the stems of each text's tokens in order, without stop words."""
        if len(self._terms) > _CACHED_TOKENS:
            self._terms.clear()
        cut, terms = self._tokenizer.cut, self._terms
        return [[term for token in cut(text) if (term := terms[token])] for text in texts]


class _Terms(dict[str, str]):
    """Token to term, filled on demand; a stop word's term is empty."""

    def __init__(self, stem: Callable[[str], str], stop_tokens: Collection[str]) -> None:
        super().__init__()
        self._stem, self._stop_tokens = stem, stop_tokens

    def __missing__(self, token: str) -> str:
        term = "" if token in self._stop_tokens else self._stem(token).strip("'")
        self[token] = term
        return term


class Tokenizer:
    """Cuts text into folded tokens.

    ``elides``: an apostrophe separates instead of joining. ``turkish``: I becomes a dotless i, and U+0130 an i.
    """

    def __init__(self, *, elides: bool = False, turkish: bool = False) -> None:
        self._turkish = turkish
        self._ascii = _pattern(_ASCII, elides)
        self._unicode = _pattern(_unicode_run(), elides)

    def cut(self, text: str) -> list[str]:
        """Return the tokens of ``text`` in order; none for text without letters and digits."""
        if self._turkish:
            text = text.translate(_TURKISH)
        if text.isascii():
            return self._ascii.findall(text.lower())
        folded = unicodedata.normalize("NFC", text).replace("\u2019", "'").lower()
        return self._unicode.findall(folded)


def _pattern(run: str, elides: bool) -> re.Pattern[str]:
    return re.compile(run if elides else f"{run}(?:'{run})*")


@cache
def _unicode_run() -> str:
    # Marks beyond U+FFFF stay out: no Snowball language is written with them, and one character beyond that limit
    # turns the regular expression engine's table look-up into a linear scan (half the speed, measured).
    marks = "".join(chr(code) for code in range(0x10000) if unicodedata.category(chr(code))[0] == "M")
    return f"[\\w{_JOINERS}{marks}]+"


def _stop_words(language: str) -> tuple[frozenset[str], str]:
    """Return the stop words of a Snowball language, and their source with a digest; an empty set if none are known."""
    if language in _ENGLISH:
        return _LUCENE_ENGLISH, f"lucene english, 33 words, sha256 {_digest(_LUCENE_ENGLISH)}"
    import stop_words as lists

    name = _SAME_LANGUAGE.get(language, language)
    if name not in lists.AVAILABLE_LANGUAGES:
        return frozenset(), "none"
    words = frozenset(lists.get_stop_words(name))
    return words, f"stop-words {version('stop-words')} {name}, {len(words)} words, sha256 {_digest(words)}"


def _digest(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(words)).encode()).hexdigest()[:16]
