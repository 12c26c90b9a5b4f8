"""Searching with impact rows: bounds for all documents, exact scores for those that can be among the best.

Nothing is lost by it. A document is left out only when its upper bound lies below the k-th best exact score; wherever
that cannot be shown, the caller searches without rows. And nothing is changed: rows are used only for queries whose
float64 sum is exact, so that the order of adding cannot change a bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.jit import inline_kernel
from harness.ranking import pack_key
from harness.reference.guess import Sample, lowest_reaching, threshold_of
from harness.reference.impacts import DIRECTORY_SHIFT, Impacts
from harness.reference.postings import Outlook, Postings, QueryRows, Rule
from harness.reference.selection import keep_largest
from harness.types import Float64Array, Int64Array, UInt64Array

__all__ = ["Candidates", "look_at", "rows_pay", "search_with_rows"]

UInt16Array = npt.NDArray[np.uint16]

_MOST_ROWS = 64
_BLOCK = np.uint64(512)
_PART = np.uint64(64)
_ONE = np.uint64(1)
_TOP = np.uint32(0xFFFFFFFF)
_CAPACITY = 1 << 16
_LOW = np.uint64(0xFFFFFFFF)

# Nanoseconds, measured; only their ratios matter.
_POSTING, _TOUCHED, _SUM, _LEVEL, _BOUND, _LOOKUP, _START = 0.42, 0.45, 0.11, 0.04, 0.16, 250.0, 6000.0
_MULTIPLIERS = 256
_SLACK = 1.0 + 2.0**-20
"""Covers the float32 rounding of contributions and of all products here."""
_LESS = 1.0 - 2.0**-20
_EXACT_RANGE, _TINY, _HUGE = 2.0**28, 2.0**-100, 2.0**100


class Candidates(NamedTuple):
    """Buffers of one thread.

    ``places``, ``slots`` int64 and ``multipliers`` uint16 (64,) describe the query's terms that go by rows: their
    places in the query, their rows, and what each counts. ``levels`` uint16 (512,) is the block at hand; ``rows``,
    ``order``, ``stored`` uint64 and ``partial``, ``bound`` float64 (capacity,) are the candidates. Bit *i* of
    ``stored`` says that the document has a posting of the *i*-th of these terms.
    """

    places: Int64Array
    slots: Int64Array
    multipliers: UInt16Array
    levels: UInt16Array
    rows: UInt64Array
    order: UInt64Array
    stored: UInt64Array
    partial: Float64Array
    bound: Float64Array

    @classmethod
    def empty(cls, documents: int) -> Candidates:
        """Buffers for a collection of that size."""
        capacity = min(documents, _CAPACITY) + int(_PART)
        return cls(
            np.empty(_MOST_ROWS, dtype=np.int64),
            np.empty(_MOST_ROWS, dtype=np.int64),
            np.empty(_MOST_ROWS, dtype=np.uint16),
            np.empty(int(_BLOCK), dtype=np.uint16),
            np.empty(capacity, dtype=np.uint64),
            np.empty(capacity, dtype=np.uint64),
            np.empty(capacity, dtype=np.uint64),
            np.empty(capacity, dtype=np.float64),
            np.empty(capacity, dtype=np.float64),
        )


@inline_kernel
def _slot_of(impacts: Impacts, column: int) -> int:
    """The row of a column, -1 when it has none."""
    low, high = 0, len(impacts.columns)
    while low < high:
        middle = (low + high) >> 1
        if impacts.columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low if low < len(impacts.columns) and impacts.columns[low] == column else -1


@inline_kernel
def look_at(
    postings: Postings, queries: QueryRows, query: int, impacts: Impacts, rule: Rule, candidates: Candidates
) -> Outlook:
    """Measure a query, and list its terms that have rows in ``candidates``."""
    count, longest, most = 0, queries.indptr[query], np.uint64(0)
    total, by_rows = np.uint64(0), np.uint64(0)
    lightest, heaviest = np.inf, 0.0
    for place in range(queries.indptr[query], queries.indptr[query + 1]):
        weight = np.float64(abs(queries.weights[place]))
        lightest, heaviest = min(lightest, weight), max(heaviest, weight)
        column = queries.columns[place]
        length = postings.columns[column + 1] - postings.columns[column]
        total += length
        if length > most:
            most, longest = length, place
        slot = _slot_of(impacts, column)
        if slot >= 0 and impacts.steps[slot] > 0.0 and queries.weights[place] > 0.0 and count < _MOST_ROWS:
            candidates.places[count] = place
            candidates.slots[count] = slot
            count += 1
            by_rows += length
    terms = queries.indptr[query + 1] - queries.indptr[query]
    if rule.lucene:  # the difference of two floats is a multiple of the last bit of the smaller one
        least, highest = (lightest / impacts.largest if impacts.largest > 0.0 else 0.0), heaviest * terms
    else:
        least, highest = lightest * impacts.smallest, heaviest * impacts.largest * terms
    ordinary = least > _TINY and highest < _HUGE and highest < least * _EXACT_RANGE
    return Outlook(ordinary or terms == 1, longest, total, most, count if ordinary else 0, by_rows)


@inline_kernel
def rows_pay(outlook: Outlook, impacts: Impacts, documents: int, width: np.uint64) -> np.bool:
    """Whether bounds by rows are expected to be cheaper than adding every posting."""
    if outlook.rows == 0:
        return np.bool_(False)
    total, by_rows = np.float64(outlook.postings), np.float64(outlook.by_rows)
    rest = np.float64(outlook.postings - outlook.longest)
    without = total * _POSTING + min(rest * _TOUCHED, documents * _SUM)
    lookups = 1.3 * np.float64(width) * (by_rows / documents) * _LOOKUP
    with_rows = _START + (total - by_rows) * _POSTING + documents * (_BOUND + outlook.rows * _LEVEL) + lookups
    return np.bool_(with_rows * impacts.reluctance < without)


@inline_kernel
def _multiply(queries: QueryRows, impacts: Impacts, count: int, candidates: Candidates) -> np.float64:
    """Whole multipliers for the rows, so that their sum fits 16 bits; returns what one unit of that sum is worth."""
    total = 0.0
    for number in range(count):
        place = candidates.places[number]
        total += np.float64(queries.weights[place]) * impacts.steps[candidates.slots[number]]
    unit = total / np.float64(_MULTIPLIERS - count)
    for number in range(count):
        place = candidates.places[number]
        worth = np.float64(queries.weights[place]) * impacts.steps[candidates.slots[number]]
        candidates.multipliers[number] = np.uint16(np.ceil(worth / unit))
    return np.float64(unit * _SLACK)


@inline_kernel
def _add_levels(
    impacts: Impacts,
    count: int,
    candidates: Candidates,
    documents: np.uint64,
    start: int | np.uint64,
    size: np.uint64,
) -> None:
    """The weighted levels of documents ``start`` to ``start + size`` into ``candidates.levels``."""
    levels = candidates.levels
    for place in range(size):
        levels[place] = np.uint16(0)
    for number in range(count):
        multiplier = candidates.multipliers[number]
        base = np.uint64(candidates.slots[number]) * documents + start
        for place in range(size):
            levels[place] = np.uint16(levels[place] + np.uint16(multiplier * np.uint16(impacts.levels[base + place])))


@inline_kernel
def _guess(
    impacts: Impacts,
    count: int,
    unit: np.float64,
    sample: Sample,
    candidates: Candidates,
    sums: Float64Array,
    buffer: UInt64Array,
) -> np.float64:
    """A threshold from the bounds of a sample of blocks; 0.0 for none."""
    documents = np.uint64(len(sums))
    found = np.uint64(0)
    for start in range(np.uint64(0), documents, np.uint64(sample.step) * _PART):
        size = min(_PART, documents - start)
        _add_levels(impacts, count, candidates, documents, start, size)
        for place in range(size):
            bound = sums[start + place] + unit * np.float64(candidates.levels[place])
            buffer[found] = np.float64(bound).view(np.uint64)
            found += np.uint64(bound > 0.0)
    return threshold_of(buffer[:found], np.uint64(sample.rank))


@inline_kernel
def _stored(impacts: Impacts, count: int, candidates: Candidates, documents: np.uint64, row: np.uint64) -> np.uint64:
    """Which of the query's rows know the document, as bits; asked while the rows are still in the cache."""
    mask = np.uint64(0)
    for number in range(count):
        level = impacts.levels[np.uint64(candidates.slots[number]) * documents + row]
        mask |= np.uint64(level > 0) << np.uint64(number)
    return mask


@inline_kernel
def _collect(
    impacts: Impacts,
    count: int,
    unit: np.float64,
    threshold: np.float64,
    candidates: Candidates,
    sums: Float64Array,
) -> np.uint64:
    """All documents whose bound reaches ``threshold``; 0 when they are too many. Clears the sums."""
    documents = np.uint64(len(sums))
    capacity = np.uint64(len(candidates.rows))
    levels = candidates.levels
    found = np.uint64(0)
    full = False
    for start in range(np.uint64(0), documents, _BLOCK):
        size = min(_BLOCK, documents - start)
        _add_levels(impacts, count, candidates, documents, start, size)
        for part in range(np.uint64(0), size, _PART):
            end = min(part + _PART, size)
            highest = np.uint16(0)
            for place in range(part, end):
                highest = max(highest, levels[place])
            needed = (threshold - unit * np.float64(highest)) * _LESS
            hits = np.uint64(0)
            for place in range(part, end):
                hits += np.uint64(sums[start + place] >= needed)
            full = full or bool(found + _PART > capacity)
            if hits and not full:
                first = found
                for place in range(part, end):
                    candidates.rows[found] = place
                    found += np.uint64(sums[start + place] + unit * np.float64(levels[place]) >= threshold)
                for candidate in range(first, found):
                    place = candidates.rows[candidate]
                    candidates.rows[candidate] = start + place
                    candidates.stored[candidate] = _stored(impacts, count, candidates, documents, start + place)
                    candidates.partial[candidate] = sums[start + place]
                    candidates.bound[candidate] = sums[start + place] + unit * np.float64(levels[place])
            for place in range(part, end):
                sums[start + place] = 0.0
    return np.uint64(0) if full else found


@inline_kernel
def _exact(
    postings: Postings, queries: QueryRows, impacts: Impacts, count: int, candidates: Candidates, candidate: np.uint64
) -> np.float32:
    """The score of a candidate: what was added already, and its postings of the dimensions that have rows."""
    blocks = np.uint64(len(impacts.directory) // len(impacts.columns))
    row = candidates.rows[candidate]
    total = candidates.partial[candidate]
    for number in range(count):
        if not (candidates.stored[candidate] >> np.uint64(number)) & _ONE:
            continue
        place = candidates.places[number]
        column = queries.columns[place]
        slot = np.uint64(candidates.slots[number])
        block = slot * blocks + (row >> np.uint64(DIRECTORY_SHIFT))
        low = postings.columns[column] + np.uint64(impacts.directory[block])
        high = postings.columns[column] + np.uint64(impacts.directory[block + _ONE])
        while low < high:
            middle = (low + high) >> _ONE
            if np.uint64(postings.rows[middle]) < row:
                low = middle + _ONE
            else:
                high = middle
        total += np.float64(queries.weights[place] * postings.values[low])
    return np.float32(total)


@inline_kernel
def _settle(
    postings: Postings,
    queries: QueryRows,
    impacts: Impacts,
    count: int,
    threshold: np.float64,
    candidates: Candidates,
    found: np.uint64,
    width: np.uint64,
) -> np.uint64:
    """Sort keys of the best ``width`` among the candidates into ``candidates.order``; 0 when that cannot be shown."""
    order = candidates.order
    for candidate in range(found):
        order[candidate] = pack_key(np.float32(candidates.bound[candidate]), np.uint32(candidate))
    keep_largest(order[:found], width)
    worst = np.float32(np.inf)
    for place in range(width):
        candidate = order[place] & _LOW
        score = _exact(postings, queries, impacts, count, candidates, candidate)
        order[place] = pack_key(score, _TOP - np.uint32(candidates.rows[candidate]))
        worst = min(worst, score)
    if not (worst > np.float32(0.0) and worst < np.float32(np.inf)):
        return np.uint64(0)
    needed = lowest_reaching(worst)
    if needed < threshold:
        return np.uint64(0)
    kept = width
    for place in range(width, found):
        candidate = order[place] & _LOW
        if candidates.bound[candidate] >= needed:
            score = _exact(postings, queries, impacts, count, candidates, candidate)
            order[kept] = pack_key(score, _TOP - np.uint32(candidates.rows[candidate]))
            kept += _ONE
    return kept


@inline_kernel
def search_with_rows(
    postings: Postings,
    queries: QueryRows,
    impacts: Impacts,
    count: int,
    sample: Sample,
    width: np.uint64,
    candidates: Candidates,
    sums: Float64Array,
    buffer: UInt64Array,
) -> np.uint64:
    """Keys of a superset of the best ``width`` documents into ``candidates.order``; how many, 0 when it failed.

    ``sums`` holds what the terms without rows contribute, and is cleared.
    """
    unit = _multiply(queries, impacts, count, candidates)
    threshold = _guess(impacts, count, unit, sample, candidates, sums, buffer)
    if threshold == 0.0:
        sums[:] = 0.0
        return np.uint64(0)
    found = _collect(impacts, count, unit, threshold, candidates, sums)
    if found < width:
        return np.uint64(0)
    return _settle(postings, queries, impacts, count, threshold, candidates, found, width)
