"""Compare texts by the share of their words that occur in the same order.

The share of two texts, of n and m ≥ n words, is::

    share = max over the windows of n successive words of the longer text: LCS(shorter text, window) / n

LCS is the length of the longest common subsequence of words. A share is from 0 to 1, the same in both directions, and 1
if the longer text contains the words of the shorter one. Each word of the shorter text that is changed, missing or
inserted in the longer one lowers it by at most 1/n. The window keeps words that are scattered over a long text from
adding up. Words are compared without case and punctuation; a character of Chinese or Japanese is a word.

Candidates are found by the prefix filter: a share of at least t needs ⌈t·n⌉ common words, so of any n - ⌈t·n⌉ + 1 words
of the shorter text one occurs in the longer; the rarest are looked up (Chaudhuri, Ganti and Kaushik, *A primitive
operator for similarity joins*, 2006).
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Share", "nearest_texts", "share_of_words", "shares", "words_of"]

_CJK = r"\u2e80-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]|[^\W{_CJK}]+")
_ROUNDING = 1e-9
_COMPARED = 20


class Share(NamedTuple):
    """The share of words of a text and a document, by their positions."""

    text: int
    document: int
    share: float


def words_of(text: str) -> list[str]:
    """Return the words of a normalised text, without case and punctuation."""
    return _WORD.findall(text.casefold())


def share_of_words(first: Sequence[str], second: Sequence[str]) -> float:
    """Return the share of two texts' words, from 0 to 1; 0 if one has no words.

    >>> share_of_words("the pump makes no sound".split(), "if the pump makes a sound look".split())
    0.8
    """
    return _share(first, second, 0.0)


def _share(first: Sequence[str], second: Sequence[str], least: float) -> float:
    """Return the share of words, or some lower share if it is below ``least``."""
    shorter, longer = (first, second) if len(first) <= len(second) else (second, first)
    n = len(shorter)
    if not n:
        return 0.0
    positions: defaultdict[str, int] = defaultdict(int)
    for position, word in enumerate(shorter):
        positions[word] |= 1 << position
    best = max(_required(least, n) - 1, 0)
    reached = 0
    for start in _windows(shorter, longer, best):
        length = _common_subsequence(positions, longer[start : start + n], n)
        if length > best:
            best = reached = length
        if best == n:
            break
    return reached / n


def _required(share: float, words: int) -> int:
    """Return the least number of common words for a share."""
    return math.ceil(share * words - _ROUNDING)


def _windows(shorter: Sequence[str], longer: Sequence[str], best: int) -> Iterator[int]:
    """Yield starts of windows of the longer text with more than ``best`` words in common, those with most first."""
    n, left = len(shorter), Counter(shorter)
    common = 0
    bounds = []
    for position, word in enumerate(longer):
        common += left[word] > 0
        left[word] -= 1
        if position >= n:
            dropped = longer[position - n]
            left[dropped] += 1
            common -= left[dropped] > 0
        if position >= n - 1 and common > best:
            bounds.append((-common, position - n + 1))
    yield from (start for _, start in sorted(bounds))


def _common_subsequence(positions: Mapping[str, int], window: Sequence[str], n: int) -> int:
    """Return the length of the longest common subsequence, one bit a word.

    Source: Hyyrö, *Bit-parallel LCS-length computation revisited*, 2004.
    """
    full = (1 << n) - 1
    unmatched = full
    for word in window:
        matches = unmatched & positions.get(word, 0)
        unmatched = ((unmatched + matches) | (unmatched - matches)) & full
    return n - unmatched.bit_count()


def shares(texts: Sequence[str], documents: Iterable[Sequence[str]], least: float) -> Iterator[Share]:
    """Yield the pairs of text and document with a share of at least ``least``, which is above 0, by document.

    Texts and documents are normalised. ``documents`` are batches that can be read twice.
    """
    words = [words_of(text) for text in texts]
    counts = Counter[str]()
    vocabulary = {word for text in words for word in text}
    for batch in documents:
        for document in batch:
            counts.update(vocabulary.intersection(words_of(document)))
    index = _PrefixIndex(words, counts, least)
    row = 0
    for batch in documents:
        for document in batch:
            of_document = words_of(document)
            for number in index.candidates(of_document):
                share = _share(words[number], of_document, least)
                if share >= least - _ROUNDING:
                    yield Share(number, row, share)
            row += 1


class _PrefixIndex:
    """The texts by their words, and by their rarest words."""

    def __init__(self, texts: Sequence[Sequence[str]], counts: Mapping[str, int], least: float) -> None:
        self._texts, self._counts, self._least = [Counter(text) for text in texts], counts, least
        self._lengths = list(map(len, texts))
        self._containing: defaultdict[str, list[int]] = defaultdict(list)
        self._prefixed: defaultdict[str, list[int]] = defaultdict(list)
        for number, text in enumerate(texts):
            for word in dict.fromkeys(text):
                self._containing[word].append(number)
            for word in self._prefix(text):
                self._prefixed[word].append(number)

    def _prefix(self, text: Sequence[str]) -> dict[str, None]:
        """Return the rarest words of a text, of which one occurs in any longer text that has the share."""
        length = len(text) - _required(self._least, len(text)) + 1
        return dict.fromkeys(sorted(text, key=lambda word: (self._counts.get(word, 0), word))[:length])

    def candidates(self, document: Sequence[str]) -> list[int]:
        """Return the texts that may have the share with a document."""
        n = len(document)
        near = {
            number for word in set(document) for number in self._prefixed.get(word, ()) if self._lengths[number] <= n
        }
        near.update(
            number
            for word in self._prefix(document)
            for number in self._containing.get(word, ())
            if self._lengths[number] > n
        )
        words = Counter(document) if near else Counter[str]()
        return [number for number in sorted(near) if self._may_share(number, words, n)]

    def _may_share(self, number: int, words: Counter[str], length: int) -> bool:
        text = self._texts[number]
        common = sum(min(count, words[word]) for word, count in text.items() if word in words)
        return common >= _required(self._least, min(length, self._lengths[number]))


def nearest_texts(texts: Sequence[str], documents: Iterable[Sequence[str]]) -> list[Share | None]:
    """Return for each text the document with the largest share of its words, None if none has a word of it.

    Of many documents, the :data:`_COMPARED` with the largest weight of common words are compared, a word weighing more
    if fewer documents have it; the share is a text's nearest among these. ``documents`` are as for :func:`shares`.
    """
    words = [words_of(text) for text in texts]
    vocabulary = {word for text in words for word in text}
    counts, total = Counter[str](), 0
    for batch in documents:
        for document in batch:
            counts.update(vocabulary.intersection(words_of(document)))
            total += 1
    weights = {word: math.log(1 + total / count) for word, count in counts.items()}
    best: list[list[tuple[float, int, list[str]]]] = [[] for _ in texts]
    row = 0
    for batch in documents:
        for document in batch:
            of_document = words_of(document)
            common = vocabulary.intersection(of_document)
            for number, text in enumerate(words):
                weight = math.fsum(weights[word] for word in common.intersection(text))
                if weight:
                    candidates = best[number]
                    candidates.append((-weight, row, of_document))
                    candidates.sort()
                    del candidates[_COMPARED:]
            row += 1
    nearest: list[Share | None] = []
    for number, candidates in enumerate(best):
        compared = [Share(number, row, share_of_words(words[number], document)) for _, row, document in candidates]
        nearest.append(max(compared, key=lambda pair: (pair.share, -pair.document), default=None))
    return nearest
