"""Texts and ids that the contract suite sends, a clock that never waits, and a progress for engines.

Words are plain, so that every analyzer leaves them unchanged; ids are awkward.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

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
"""Unique ids of kinds that have broken parsers, file names, keys or comparisons."""

UNICODE_WORDS = ("naïve", "словарь", "ελλάδα", "שלום", "مرحبا", "検索", "größe", "ćma")
"""Words of several scripts, two of them written right to left; no two share a character sequence."""
STEP_NS = 1_000_003
"""A prime number of nanoseconds: durations from another clock are practically never multiples of it."""


def word(number: int) -> str:
    """Return a word that is in no stop list and that no stemmer changes."""
    return f"w{number:04d}"


def plain_ids(count: int) -> list[str]:
    """Return ids whose byte order is not their row order."""
    return [f"d{(row * 7919) % 10007}-{row}" for row in range(count)]


def random_texts(seed: int, count: int, *, longest: int = 40, vocabulary: int = 300) -> list[str]:
    """Return ``count`` texts of 1 to ``longest`` words, Zipf-distributed, so that ties and repeats abound.

    40 words at most: up to that length Lucene stores lengths exactly, and a plain BM25 is its reference.
    """
    return list(_random_texts(seed, count, longest, vocabulary))


@lru_cache
def _random_texts(seed: int, count: int, longest: int, vocabulary: int) -> tuple[str, ...]:
    generator = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, vocabulary + 1)
    chances /= chances.sum()
    lengths = generator.integers(1, longest + 1, count)
    drawn = (generator.choice(vocabulary, size=length, p=chances) for length in lengths)
    return tuple(" ".join(word(int(n)) for n in numbers) for numbers in drawn)


class StepClock:
    """A clock that advances by :data:`STEP_NS` with every reading, so that durations reveal its readings."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        """Return the time in nanoseconds, one step later than at the last reading."""
        self.now_ns += STEP_NS
        return self.now_ns


class RecordingProgress:
    """A record of an engine's progress: phases with their totals, and the sum of all advances."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, int | None]] = []
        self.advanced: list[int] = []

    def start(self, phase: str, total: int | None) -> None:
        """Begin a phase."""
        self.phases.append((phase, total))
        self.advanced.append(0)

    def advance(self, amount: int) -> None:
        """Advance the current phase; raises IndexError if none has begun."""
        self.advanced[-1] += amount
