"""Texts and ids that the contract suite sends: plain words that every analyzer leaves as they are, and awkward ids."""

from __future__ import annotations

import numpy as np

__all__ = ["ODD_IDS", "UNICODE_WORDS", "plain_ids", "random_texts", "word"]

ODD_IDS = (
    "plain",
    "with space",
    " leading and trailing ",
    "quote'single",
    'quote"double',
    "back\\slash",
    "forward/slash/../..",
    "percent%20%s{}",
    "semi;colon=and&ampersand?#",
    "<tag attr='x'>&amp;</tag>",
    "new\nline",
    "tab\tinside",
    "0",
    "007",
    "-1",
    "1e5",
    "null",
    "None",
    "NaN",
    "🙂🏳️‍🌈",
    "日本語のid",
    "שלום עולם",
    "مرحبا",
    "é",
    "e\u0301",
    "\ufeffbom",
    "zero\u200bwidth",
    "x" * 5000,
    "é" * 2000,
)
"""Unique ids that have broken a parser, a file name, a key or a comparison somewhere."""

UNICODE_WORDS = ("naïve", "словарь", "ελλάδα", "שלום", "مرحبا", "検索", "größe", "ćma")
"""Words of several scripts, two of them written right to left; no two share a character sequence."""


def word(number: int) -> str:
    """A word that no stop list knows and no stemmer changes."""
    return f"w{number:04d}"


def plain_ids(count: int) -> list[str]:
    """Ids whose byte order is not their row order."""
    return [f"d{(row * 7919) % 10007}-{row}" for row in range(count)]


def random_texts(seed: int, count: int, *, longest: int = 40, vocabulary: int = 300) -> list[str]:
    """``count`` texts of 1 to ``longest`` words, Zipf-distributed, so that ties and repeats abound.

    40 words at most: up to that length Lucene stores lengths exactly, and a plain BM25 is its oracle.
    """
    generator = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, vocabulary + 1)
    chances /= chances.sum()
    lengths = generator.integers(1, longest + 1, count)
    return [" ".join(word(int(n)) for n in generator.choice(vocabulary, size=length, p=chances)) for length in lengths]
