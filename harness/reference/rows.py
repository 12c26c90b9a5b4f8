"""Impact rows: an upper bound for every document, in vectors of documents.

A row (:mod:`harness.reference.maps`) has half a byte a document: the square root, rounded up, of what its dimension has
there, so that small values are bounded as closely as large ones. Rows of several dimensions are squared, weighed and
added in 16 bits.
"""

from __future__ import annotations

import numpy as np

from harness.jit import inner_kernel
from harness.ranking import pack_key
from harness.reference.maps import BLOCK, HALF_BLOCK, HIGHEST
from harness.reference.postings import Outlook
from harness.reference.workspace import MOST_ROWS, Search

__all__ = ["collect_by_rows", "multiply", "rows_pay", "sample_by_rows"]

_BLOCK, _HALF = np.uint64(BLOCK), np.uint64(HALF_BLOCK)
_PART = np.uint64(32)
_MULTIPLIERS = 65_535 // (HIGHEST * HIGHEST)
_SLACK = 1.0 + 2.0**-20
"""Covers the float32 rounding of contributions and that of all products here."""

# Nanoseconds, measured; only their ratios matter. Postings of frequent dimensions are cheaper to add than others.
_POSTING, _BOUND, _LEVEL, _LOOKUP, _START = 0.35, 0.22, 0.04, 12.0, 8000.0


@inner_kernel
def rows_pay(search: Search, outlook: Outlook, done: int, added: np.uint64) -> np.bool:
    """Whether bounds by rows are expected to be cheaper than adding the terms from ``done`` on."""
    rows = outlook.terms - done
    if rows == 0 or rows != outlook.rowed or rows > MOST_ROWS:
        return np.bool_(False)
    lookups = 2.0 * np.float64(search.width) * rows * _LOOKUP
    cost = _START + len(search.sums) * (_BOUND + rows * _LEVEL) + lookups
    return np.bool_(cost * search.maps.reluctance < np.float64(outlook.postings - added) * _POSTING)


@inner_kernel
def multiply(search: Search, outlook: Outlook, done: int) -> np.float64:
    """Whole multipliers for the rows, so that their sum fits 16 bits; returns what one unit of that sum is worth."""
    weights, terms, steps = search.queries.weights, search.terms, search.maps.steps
    total = 0.0
    for number in range(done, outlook.terms):
        total += np.float64(weights[terms.places[number]]) * steps[terms.slots[number]]
    unit = total / np.float64(_MULTIPLIERS - (outlook.terms - done))
    for number in range(done, outlook.terms):
        worth = np.float64(weights[terms.places[number]]) * steps[terms.slots[number]]
        search.levels.multipliers[number - done] = np.uint16(np.ceil(worth / unit))
    return np.float64(unit * _SLACK)


@inner_kernel
def _add_block(search: Search, outlook: Outlook, done: int, block: np.uint64) -> None:
    """What the rows say of the 256 documents of a block, into ``levels.sums``."""
    sums, codes = search.levels.sums, search.maps.codes
    row_bytes = (np.uint64(len(search.sums)) + _BLOCK - np.uint64(1)) // _BLOCK * _HALF
    for place in range(_BLOCK):
        sums[place] = np.uint16(0)
    for number in range(done, outlook.terms):
        multiplier = search.levels.multipliers[number - done]
        base = np.uint64(search.maps.rows[search.terms.slots[number]]) * row_bytes + block * _HALF
        for place in range(_HALF):
            low = np.uint16(codes[base + place] & np.uint8(15))
            high = np.uint16(codes[base + place] >> np.uint8(4))
            other = place + _HALF
            sums[place] = np.uint16(sums[place] + np.uint16(multiplier * np.uint16(low * low)))
            sums[other] = np.uint16(sums[other] + np.uint16(multiplier * np.uint16(high * high)))


@inner_kernel
def sample_by_rows(search: Search, outlook: Outlook, done: int, unit: np.float64) -> np.uint64:
    """Keys, by their bounds, of the documents of one block in ``sample.step``; how many."""
    totals, levels, keys = search.sums, search.levels.sums, search.found.keys
    documents = np.uint64(len(totals))
    found = np.uint64(0)
    for start in range(np.uint64(0), documents, np.uint64(search.sample.step) * _BLOCK):
        _add_block(search, outlook, done, start // _BLOCK)
        for row in range(start, min(start + _BLOCK, documents)):
            bound = totals[row] + unit * np.float64(levels[row - start])
            keys[found] = pack_key(np.float32(bound), np.uint32(row))
            found += np.uint64(bound > 0.0)
    return found


@inner_kernel
def collect_by_rows(
    search: Search, outlook: Outlook, done: int, unit: np.float64, threshold: np.float64, gap: np.float64
) -> np.uint64:
    """All documents whose bound reaches ``threshold``, with sum and ``gap``; clears the sums."""
    totals, levels, found = search.sums, search.levels.sums, search.found
    empty = np.uint64(search.rule.empty).view(np.float64)
    documents = np.uint64(len(totals))
    count = np.uint64(0)
    for start in range(np.uint64(0), documents, _BLOCK):
        _add_block(search, outlook, done, start // _BLOCK)
        for part in range(start, min(start + _BLOCK, documents), _PART):
            stop = min(part + _PART, documents)
            hits = np.uint64(0)
            for row in range(part, stop):
                hits += np.uint64(totals[row] + unit * np.float64(levels[row - start]) >= threshold)
            if hits:
                first = count
                for row in range(part, stop):
                    found.keys[count] = row
                    count += np.uint64(totals[row] + unit * np.float64(levels[row - start]) >= threshold)
                for place in range(first, count):
                    found.sums[place] = totals[found.keys[place]] + gap
            for row in range(part, stop):
                totals[row] = empty
    return count
