"""Maps and impact rows of frequent dimensions: what lets a search do without most of their postings.

A dimension that many documents store is expensive to add posting by posting, and seldom decides anything. Its *map* has
one bit a document, and counts: what the dimension has in one document is a look-up. The most frequent dimensions also
have an *impact row*, half a byte a document: an upper bound of what they have in it, to be added for many documents at
once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.jit import inline_kernel, kernel
from harness.data.types import Float32Array, Int32Array, UInt32Array, UInt64Array
from harness.exact.levels import CODES, choose_levels
from harness.exact.postings import Postings, read_only

__all__ = ["BLOCK", "HALF_ROW_BLOCK", "ROW_BLOCK", "Maps", "build_maps", "rank_of", "slot_of"]

UInt8Array = npt.NDArray[np.uint8]

BLOCK = 256
"""Maps count in blocks of so many documents."""
ROW_BLOCK, HALF_ROW_BLOCK = 1024, 512
"""Rows are laid out in blocks of so many documents; a byte has two of them, half a block apart."""
_FREQUENT = 128
"""Dimensions in more than one document in this many get maps or rows: adding fewer postings is as cheap."""
_MAP_BUDGET, _ROW_BUDGET = 0.08, 0.08
"""Maps and rows take at most these shares of the bytes of the postings; the most frequent dimensions go first."""
_RELUCTANCE = 1.0
"""What the estimated cost of doing without postings is multiplied by: 0.0 always does, infinity never."""
_ONE = np.uint64(1)


class Maps(NamedTuple):
    """Maps of the dimensions in ``columns`` (int32 (T,), ascending), none of them with less than ``shortest`` postings.

    ``bits`` uint64 (T * words,): one bit a document, 64 in a word, whole blocks. ``before`` uint32 (T * blocks,):
    postings of the dimension before the block. ``rows`` int32 (T,): which row a dimension has, -1 for none. ``codes``
    uint8 (R * row blocks * 512,): low half for a document, high half for the one half a block later. ``levels`` float32
    (R * 16,), ascending from 0 in each row: a value is at most the level that its code names. ``highest`` float32 (D,):
    the largest value of any dimension, at least 0. ``smallest`` and ``largest`` are the extreme absolute values of all
    postings, zeros left out.
    """

    columns: Int32Array
    bits: UInt64Array
    before: UInt32Array
    rows: Int32Array
    codes: UInt8Array
    levels: Float32Array
    highest: Float32Array
    shortest: np.uint64
    smallest: float
    largest: float
    reluctance: float

    @property
    def nbytes(self) -> int:
        """Bytes of all maps and rows."""
        return sum(array.nbytes for array in self if isinstance(array, np.ndarray))


def build_maps(postings: Postings, documents: int, *, linear: bool = True) -> Maps:
    """Maps and rows of the most frequent dimensions; none when a value is negative, for then no bound holds.

    ``linear``: contributions are proportional to the values; otherwise there are no rows.
    """
    highest = np.zeros(len(postings.columns) - 1, dtype=np.float32)
    smallest, largest, negative = _find_extremes(postings, highest)
    frequencies = postings.document_frequencies()
    blocks = -(-documents // BLOCK)
    frequent = np.flatnonzero(frequencies * _FREQUENT > documents)
    frequent = frequent[np.argsort(-frequencies[frequent], kind="stable")]
    if negative or largest == 0.0:
        frequent = frequent[:0]
    bytes_of_postings = 8 * len(postings.values)
    most = int(_MAP_BUDGET * bytes_of_postings) // max(1, blocks * (BLOCK // 8 + 4))
    columns = np.sort(frequent[:most]).astype(np.int32)
    bits = np.zeros(len(columns) * blocks * (BLOCK // 64), dtype=np.uint64)
    before = np.zeros(len(columns) * blocks, dtype=np.uint32)
    row_blocks = -(-documents // ROW_BLOCK)
    most = int(_ROW_BUDGET * bytes_of_postings) // max(1, row_blocks * HALF_ROW_BLOCK) if linear else 0
    rows = np.full(len(columns), -1, dtype=np.int32)
    rowed = np.flatnonzero(np.isin(columns, frequent[:most]))
    rows[rowed] = np.arange(len(rowed))
    codes = np.zeros(len(rowed) * row_blocks * HALF_ROW_BLOCK, dtype=np.uint8)
    levels = choose_levels(postings, columns[rowed], highest)
    _fill(postings, columns, documents, bits, before, rows, levels, codes)
    shortest = np.uint64(frequencies[columns].min(initial=documents))
    return Maps(
        read_only(columns),
        read_only(bits),
        read_only(before),
        read_only(rows),
        read_only(codes),
        read_only(levels),
        read_only(highest),
        shortest,
        smallest,
        largest,
        _RELUCTANCE,
    )


@inline_kernel
def slot_of(maps: Maps, column: int) -> int:
    """The number of a column's map, -1 when it has none."""
    low, high = 0, len(maps.columns)
    while low < high:
        middle = (low + high) >> 1
        if maps.columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low if low < len(maps.columns) and maps.columns[low] == column else -1


@inline_kernel
def _set_bits(word: np.uint64) -> np.uint64:
    """How many bits of a word are set, in the form that LLVM knows for the processor's own instruction."""
    pairs = word - ((word >> _ONE) & np.uint64(0x5555555555555555))
    fours = (pairs & np.uint64(0x3333333333333333)) + ((pairs >> np.uint64(2)) & np.uint64(0x3333333333333333))
    eights = (fours + (fours >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.uint64((eights * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inline_kernel
def rank_of(maps: Maps, base: np.uint64, row: np.uint64) -> np.uint64:
    """Postings before a document's in the dimension whose map begins at word ``base``."""
    word = base + (row >> np.uint64(6))
    first = word & ~np.uint64(3)
    rank = np.uint64(maps.before[word >> np.uint64(2)])
    for other in range(first, first + np.uint64(3)):  # all three, the unwanted as zeros: no branch to mispredict
        rank += _set_bits(maps.bits[other] if other < word else np.uint64(0))
    below = (_ONE << (row & np.uint64(63))) - _ONE
    return rank + _set_bits(maps.bits[word] & below)


@kernel
def _find_extremes(postings: Postings, highest: Float32Array) -> tuple[float, float, bool]:
    """Smallest and largest absolute value other than zero (0.0 without any), and whether one is negative."""
    smallest, largest, negative = np.inf, 0.0, False
    for column in range(len(highest)):
        for posting in range(postings.columns[column], postings.columns[column + 1]):
            value = postings.values[posting]
            negative |= value < 0.0
            highest[column] = max(highest[column], value)
            size = abs(np.float64(value))
            if size > 0.0:
                smallest, largest = min(smallest, size), max(largest, size)
    return (smallest if largest > 0.0 else 0.0), largest, negative


@inline_kernel
def _code(value: np.float32, levels: Float32Array, first: int) -> np.uint8:
    """The lowest level that bounds a value."""
    code = 0
    while levels[first + code] < value:
        code += 1
    return np.uint8(code)


@kernel
def _fill(
    postings: Postings,
    columns: Int32Array,
    documents: int,
    bits: UInt64Array,
    before: UInt32Array,
    rows: Int32Array,
    levels: Float32Array,
    codes: UInt8Array,
) -> None:
    blocks, row_bytes = -(-documents // BLOCK), -(-documents // ROW_BLOCK) * HALF_ROW_BLOCK
    words = blocks * (BLOCK // 64)
    for slot in range(len(columns)):
        for posting in range(postings.columns[columns[slot]], postings.columns[columns[slot] + 1]):
            row = np.int64(postings.rows[posting])
            bits[slot * words + (row >> 6)] |= _ONE << np.uint64(row & 63)
            before[slot * blocks + row // BLOCK] += np.uint32(1)
            if rows[slot] >= 0:
                within = row % ROW_BLOCK
                place = rows[slot] * row_bytes + row // ROW_BLOCK * HALF_ROW_BLOCK + within % HALF_ROW_BLOCK
                code = _code(postings.values[posting], levels, rows[slot] * CODES)
                codes[place] |= np.uint8(code << np.uint8(4)) if within >= HALF_ROW_BLOCK else code
        passed = np.uint32(0)
        for counted in range(slot * blocks, (slot + 1) * blocks):
            passed, before[counted] = np.uint32(passed + before[counted]), passed
