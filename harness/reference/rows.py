"""Impact rows: an upper bound for every document, in vectors of documents.

A row (:mod:`harness.reference.maps`) has half a byte a document: what its dimension has there in fifteenths of the most
it has anywhere, rounded up. Rows of several dimensions are weighed and added in 16 bits.
"""

from __future__ import annotations

import numpy as np

from harness.jit import inner_kernel
from harness.ranking import pack_key, unpack_score
from harness.reference.maps import HALF_ROW_BLOCK, HIGHEST, ROW_BLOCK
from harness.reference.postings import Outlook
from harness.reference.selection import nth_largest
from harness.reference.workspace import FOLD, LANES, MOST_ROWS, Search

__all__ = ["SLACK", "bound_all", "collect_bounds", "common_bound", "rows_pay"]

_BLOCK, _HALF, _ONE = np.uint64(ROW_BLOCK), np.uint64(HALF_ROW_BLOCK), np.uint64(1)
_LANES, _FOLD = np.uint64(LANES), np.uint64(FOLD)
_GROUP, _OCCUPIED = _BLOCK // _LANES, np.uint64(3)
_MULTIPLIERS = 65_535 // HIGHEST
SLACK = 1.0 + 2.0**-20
"""Covers the float32 rounding of contributions, of sums, and of all that is computed here."""

# Nanoseconds, measured; only their ratios matter. What is done for each document without rows, too, is left out.
_POSTING, _BOUND, _LEVEL, _LOOKUP, _START = 1.0, 0.5, 0.06, 35.0, 5000.0


@inner_kernel
def rows_pay(search: Search, outlook: Outlook, done: int, added: np.uint64) -> np.bool:
    """Whether bounds by rows are expected to be cheaper than adding the terms from ``done`` on."""
    rows = outlook.terms - done
    if rows == 0 or rows != outlook.rowed or rows > MOST_ROWS or search.width * _OCCUPIED > len(search.levels.peaks):
        return np.bool_(False)
    documents = np.float64(len(search.sums))
    lookups = np.float64(search.width) * rows * _LOOKUP
    cost = _START + documents * (_BOUND + rows * _LEVEL) + lookups
    return np.bool_(cost * search.maps.reluctance < np.float64(outlook.postings - added) * _POSTING)


@inner_kernel
def _multiply(search: Search, outlook: Outlook, done: int) -> np.float64:
    """Whole multipliers for the rows, so that their sum fits 16 bits; returns what one unit of that sum is worth."""
    weights, terms, steps = search.queries.weights, search.terms, search.maps.steps
    total = 0.0
    for number in range(done, outlook.terms):
        total += np.float64(weights[terms.places[number]]) * steps[terms.slots[number]]
    unit = total / np.float64(_MULTIPLIERS - (outlook.terms - done))
    for number in range(done, outlook.terms):
        worth = np.float64(weights[terms.places[number]]) * steps[terms.slots[number]]
        search.levels.multipliers[number - done] = np.uint16(np.ceil(worth / unit))
    return np.float64(unit * SLACK)


@inner_kernel
def _add_two(search: Search, done: int, number: int, second: int, block: np.uint64) -> None:
    """What two rows say of the documents of a block, to ``levels.sums``; the same row again says nothing."""
    sums, codes, slots = search.levels.sums, search.maps.codes, search.terms.slots
    row_bytes = (np.uint64(len(search.sums)) + _BLOCK - _ONE) // _BLOCK * _HALF
    one = np.uint64(search.maps.rows[slots[number]]) * row_bytes + block * _HALF
    two = np.uint64(search.maps.rows[slots[second]]) * row_bytes + block * _HALF
    factor = search.levels.multipliers[number - done]
    other = search.levels.multipliers[second - done] if second > number else np.uint16(0)
    for place in range(_HALF):
        code, more = codes[one + place], codes[two + place]
        low = np.uint16(factor * np.uint16(code & np.uint8(15))) + np.uint16(other * np.uint16(more & np.uint8(15)))
        high = np.uint16(factor * np.uint16(code >> np.uint8(4))) + np.uint16(other * np.uint16(more >> np.uint8(4)))
        sums[place] = np.uint16(sums[place] + low)
        sums[place + _HALF] = np.uint16(sums[place + _HALF] + high)


@inner_kernel
def _say_rows(search: Search, outlook: Outlook, done: int, block: np.uint64) -> None:
    """What the rows from ``done`` on say of the documents of a block, into ``levels.sums``."""
    sums = search.levels.sums
    for place in range(_BLOCK):
        sums[place] = np.uint16(0)
    for number in range(done, outlook.terms, 2):
        _add_two(search, done, number, min(number + 1, outlook.terms - 1), block)


@inner_kernel
def _find_peaks(search: Search, start: np.uint64) -> None:
    """The highest bound of every 16th document of a block, from each of its first 16 on.

    In two long loops, which vectorise: maxima of a few neighbours take longer than all the rest.
    """
    bounds, folded, peaks = (
        search.levels.bounds.view(np.uint32),
        search.levels.folded,
        search.levels.peaks.view(np.uint32),
    )
    for lane in range(_FOLD):  # as bits, since no bound is negative
        highest = bounds[start + lane]
        for other in range(_ONE, np.uint64(8)):
            highest = max(highest, bounds[start + lane + other * _FOLD])
        folded[lane] = highest
    for lane in range(_LANES):
        highest = folded[lane]
        for other in range(_ONE, np.uint64(8)):
            highest = max(highest, folded[lane + other * _LANES])
        peaks[start // _GROUP + lane] = highest


@inner_kernel
def bound_all(search: Search, outlook: Outlook, done: int) -> None:
    """What every document can reach, into ``levels.bounds``: its sum, and what the rows from ``done`` on say of it.

    0.0 where that is less.
    """
    unit = np.float32(_multiply(search, outlook, done))
    totals, levels, bounds = search.sums, search.levels.sums, search.levels.bounds
    documents = np.uint64(len(totals))
    for start in range(np.uint64(0), documents, _BLOCK):
        _say_rows(search, outlook, done, start // _BLOCK)
        for row in range(start, min(start + _BLOCK, documents)):
            bound = np.float32(totals[row]) + unit * np.float32(levels[row - start])
            bounds[row] = max(np.float32(0.0), bound)
        _find_peaks(search, np.uint64(start))


@inner_kernel
def common_bound(search: Search) -> np.float32:
    """The highest bound that as many documents reach, all of different groups, as are wanted."""
    peaks, keys = search.levels.peaks, search.found.keys
    groups = np.uint64(len(peaks))
    for group in range(groups):
        keys[group] = pack_key(peaks[group], np.uint32(group))
    return unpack_score(nth_largest(keys[:groups], search.width))


@inner_kernel
def collect_bounds(search: Search, least: np.float32, below: np.float32, first: np.uint64) -> np.uint64:
    """Rows of the documents whose bounds are at least ``least`` and less than ``below``, from ``first`` on; the end."""
    bounds, peaks, keys = search.levels.bounds, search.levels.peaks, search.found.keys
    count = first
    for group in range(np.uint64(len(peaks))):
        if peaks[group] >= least:
            start = group // _LANES * _BLOCK + group % _LANES
            for row in range(start, start + _BLOCK, _LANES):
                keys[count] = row
                count += np.uint64(bounds[row] >= least) & np.uint64(bounds[row] < below)
    return count
