"""Find which of many texts contain which others, after normalising white space and Unicode.

Texts come from different programs: one writes a ligature, a no-break space or a line break that another does not. Both
sides are therefore read in Unicode's form NFKC, without invisible characters, and with one space for each run of white
space. NFKC and not NFC, because readers of PDF differ in exactly what NFC keeps apart: ``ﬁ`` and ``fi``, full width and
half width, a no-break space and a space. Case and punctuation count.

All pairs are found without comparing each: a few windows of each searched text are hashed, and the rarest is looked up
among the hashes of all windows of the other side (Karp and Rabin, *Efficient randomized pattern-matching algorithms*,
1987, for many texts at once). Every candidate is then compared byte by byte, so hashes decide nothing.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.types import Int64Array, UInt64Array

__all__ = ["Containment", "containments", "normalize_text"]

_INVISIBLE = dict.fromkeys((0x00AD, 0x200B, 0x2060, 0xFEFF))
"""A soft hyphen, a space without width, a word joiner, and a byte order mark."""
_CJK = r"\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_UNSPACED = re.compile(rf"[{_CJK}\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")
"""Characters of scripts that write words without spaces: any neighbour is a border."""
_SPACE_IN_CJK = re.compile(rf"(?<=[{_CJK}]) (?=[{_CJK}])")
_SHORT = 5
_SEPARATOR = b"\xff"
"""A byte that UTF-8 never has: no window across two texts equals a window of one."""
_WIDTHS = (1, 2, 4, 8, 16, 32)
_BASE = 0x9E3779B97F4A7C15
_SHIFT = np.uint64(64 - 19)
_BUCKETS = 1 << 19
_PIECE_BYTES = 1 << 19
_SAMPLED_WINDOWS = 8
_PATTERNS = 10_000


class Containment(NamedTuple):
    """Text ``pattern`` occurs in text ``haystack``; both are positions in the given sequences."""

    pattern: int
    haystack: int


def normalize_text(text: str) -> str:
    """Return a text as it is compared: NFKC, no invisible characters, single spaces, none within Chinese or Japanese.

    >>> normalize_text("the ﬁrst\\u00a0 line\\nwraps ")
    'the first line wraps'
    """
    if text.isascii():
        return " ".join(text.split())
    composed = unicodedata.normalize("NFKC", text).translate(_INVISIBLE)
    return _SPACE_IN_CJK.sub("", " ".join(composed.split()))


def containments(patterns: Sequence[str], haystacks: Sequence[str]) -> Iterator[Containment]:
    """Yield every pair of a pattern and a haystack that contains it, each once, in no particular order.

    Texts are as :func:`normalize_text` returns them; empty patterns are contained in nothing. An occurrence counts
    unless it cuts a number at an end (``part 1`` is not in ``part 10``), or, of a pattern of fewer than five words, a
    word (``art`` is not in ``part``): longer texts may be cut anywhere, because chunks are.
    """
    contents = [(position, text.encode()) for position, text in enumerate(patterns) if text]
    for first in range(0, len(contents), _PATTERNS):
        some = _Patterns(contents[first : first + _PATTERNS])
        for piece in _pieces(haystacks):
            yield from some.occurrences(piece)


class _Piece(NamedTuple):
    """Some haystacks in one buffer, with the start of each in it, and the position of the first."""

    content: bytes
    starts: Int64Array
    first: int


def _pieces(haystacks: Sequence[str]) -> Iterator[_Piece]:
    """Join haystacks into pieces of about the same size; a longer haystack is a piece by itself."""
    pending: list[bytes] = []
    size, first = 0, 0
    for position, text in enumerate(haystacks):
        content = text.encode()
        if pending and size + len(content) > _PIECE_BYTES:
            yield _piece(pending, first)
            pending, size, first = [], 0, position
        pending.append(content)
        size += len(content) + 1
    if pending:
        yield _piece(pending, first)


def _piece(contents: Sequence[bytes], first: int) -> _Piece:
    return _Piece(_SEPARATOR.join(contents), _starts(contents), first)


def _starts(contents: Sequence[bytes]) -> Int64Array:
    return np.cumsum([0, *(len(content) + 1 for content in contents[:-1])], dtype=np.int64)


class _WindowSample(NamedTuple):
    """Windows of the patterns that are at least ``width`` long and shorter than the next width.

    ``numbers`` (n,) are the patterns, ``offsets`` (n, w) the windows' positions in each, ``hashes`` (n, w).
    """

    numbers: Int64Array
    offsets: Int64Array
    hashes: UInt64Array


class _Patterns:
    """Texts to search for, with hashes of some windows of each, by the width of the windows."""

    def __init__(self, contents: Sequence[tuple[int, bytes]]) -> None:
        self._positions = [position for position, _ in contents]
        self._contents = [content for _, content in contents]
        self._short = [len(content.split()) < _SHORT for content in self._contents]
        buffer = np.frombuffer(_SEPARATOR.join(self._contents), dtype=np.uint8)
        lengths, starts = np.array(list(map(len, self._contents)), dtype=np.int64), _starts(self._contents)
        widths = np.array(_WIDTHS)[np.searchsorted(_WIDTHS, lengths, side="right") - 1]
        self._sampled = {}
        for width in _WIDTHS:
            numbers = np.flatnonzero(widths == width)
            if len(numbers):
                steps = np.arange(_SAMPLED_WINDOWS, dtype=np.int64)
                offsets = (lengths[numbers] - width)[:, None] * steps // (_SAMPLED_WINDOWS - 1)
                hashes = _hash_windows(buffer, starts[numbers][:, None] + offsets, width)
                self._sampled[width] = _WindowSample(numbers, offsets, hashes)

    def occurrences(self, piece: _Piece) -> Iterator[Containment]:
        """Yield the patterns in each haystack of a piece."""
        seen = set[Containment]()
        for width, hashes in _rolling_hashes(piece.content, max(self._sampled)):
            sampled = self._sampled.get(width)
            if sampled is None or not len(hashes):
                continue
            for number, start in self._candidates(sampled, hashes):
                content = self._contents[number]
                if start < 0 or not piece.content.startswith(content, start):
                    continue
                row = int(np.searchsorted(piece.starts, start, side="right")) - 1
                pair = Containment(self._positions[number], piece.first + row)
                if pair not in seen and not _is_cut(piece.content, start, content, short=self._short[number]):
                    seen.add(pair)
                    yield pair

    def _candidates(self, sampled: _WindowSample, hashes: UInt64Array) -> Iterator[tuple[int, int]]:
        """Yield patterns and their possible starts: the places of the window that is rarest in this piece."""
        buckets = _bucket(hashes)
        counts = np.bincount(buckets, minlength=_BUCKETS)
        of_windows = counts[_bucket(sampled.hashes)]
        rarest = of_windows.argmin(axis=1)
        rows = np.arange(len(rarest))
        present = of_windows[rows, rarest] > 0
        numbers, offsets = sampled.numbers[present], sampled.offsets[rows, rarest][present]
        anchors = sampled.hashes[rows, rarest][present]
        if not len(anchors):
            return
        searched = np.zeros(_BUCKETS, dtype=np.bool_)
        searched[_bucket(anchors)] = True
        positions = np.flatnonzero(searched[buckets])
        order = np.argsort(anchors, kind="stable")
        ordered = anchors[order]
        first = np.searchsorted(ordered, hashes[positions], side="left")
        end = np.searchsorted(ordered, hashes[positions], side="right")
        equal = np.flatnonzero(end > first)
        for position, low, high in zip(
            positions[equal].tolist(), first[equal].tolist(), end[equal].tolist(), strict=True
        ):
            for row in order[low:high].tolist():
                yield int(numbers[row]), position - int(offsets[row])


def _bucket(hashes: UInt64Array) -> Int64Array:
    buckets: Int64Array = ((hashes * np.uint64(_BASE)) >> _SHIFT).astype(np.int64)
    return buckets


def _rolling_hashes(content: bytes, widest: int) -> Iterator[tuple[int, UInt64Array]]:
    """Yield each width up to ``widest`` with the hash of every window: the sum of byte · base^(bytes after it).

    A window of twice the width is two windows, so every width takes two operations more than the one before.
    """
    hashes: UInt64Array = np.frombuffer(content, dtype=np.uint8).astype(np.uint64)
    for width in _WIDTHS:
        yield width, hashes
        if width == widest or len(hashes) <= width:
            return
        power = np.uint64(pow(_BASE, width, 1 << 64))
        following = hashes[width:]
        hashes = hashes[: len(hashes) - width] * power
        hashes += following


def _hash_windows(buffer: npt.NDArray[np.uint8], positions: Int64Array, width: int) -> UInt64Array:
    """Return the hashes of the windows that begin at ``positions``, of any shape."""
    powers = np.array([pow(_BASE, width - 1 - number, 1 << 64) for number in range(width)], dtype=np.uint64)
    hashes: UInt64Array = np.zeros(positions.shape, dtype=np.uint64)
    for number in range(width):
        hashes += buffer[positions + number].astype(np.uint64) * powers[number]
    return hashes


def _is_cut(content: bytes, start: int, pattern: bytes, *, short: bool) -> bool:
    """Return whether an occurrence ends within a number, or within a word if the pattern is ``short``."""
    end = start + len(pattern)
    return _is_joined(_last(content[max(start - 4, 0) : start]), _first(pattern[:4]), short=short) or _is_joined(
        _last(pattern[-4:]), _first(content[end : end + 4]), short=short
    )


def _last(content: bytes) -> str:
    return "" if content.endswith(_SEPARATOR) else content.decode(errors="ignore")[-1:]


def _first(content: bytes) -> str:
    return "" if content.startswith(_SEPARATOR) else content.decode(errors="ignore")[:1]


def _is_joined(left: str, right: str, *, short: bool) -> bool:
    """Return whether two neighbours are of one number, or with ``short`` of one word."""
    if not left or not right or _UNSPACED.match(left) or _UNSPACED.match(right):
        return False
    return (left.isdigit() and right.isdigit()) or (short and _is_of_word(left) and _is_of_word(right))


def _is_of_word(character: str) -> bool:
    return character.isalnum() or character == "_"
