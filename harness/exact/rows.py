"""Impact rows: an upper bound for every document, in vectors of documents.

A row (:mod:`harness.exact.maps`) has half a byte a document: which of the row's sixteen levels bounds what its
dimension has there. For each query the levels are given what they are worth in it, in one byte each, so that rows are
added by looking them up.
"""

from __future__ import annotations

import numpy as np

from harness.data.jit import inner_kernel
from harness.exact.jit_bounds import ROW_PART, add_rows
from harness.exact.levels import CODES
from harness.exact.maps import HALF_ROW_BLOCK, ROW_BLOCK
from harness.exact.postings import Outlook
from harness.exact.workspace import MOST_ROWS, Search

__all__ = ["SLACK", "prepare_rows", "rows_pay", "say_rows"]

_BLOCK, _HALF, _PART = np.uint64(ROW_BLOCK), np.uint64(HALF_ROW_BLOCK), np.uint64(ROW_PART)
_NONE, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_MOST = 255
SLACK = 1.0 + 2.0**-20
"""Covers the float32 rounding of contributions, of sums, and of all that is computed from what rows say."""

# Nanoseconds, measured; only their ratios matter. What is done for each document without rows, too, is left out.
_POSTING, _BOUND, _LEVEL, _LOOKUP, _START = 1.0, 0.3, 0.02, 8.0, 5000.0


@inner_kernel
def rows_pay(search: Search, outlook: Outlook) -> np.bool:
    """Whether bounds by rows are expected to be cheaper than adding the terms that have rows."""
    queries, columns, spared = search.queries, search.postings.columns, _NONE
    if outlook.rowed == 0 or outlook.rowed > MOST_ROWS:
        return np.bool_(False)
    for number in range(outlook.terms - outlook.rowed, outlook.terms):
        column = queries.columns[search.terms.places[number]]
        spared += columns[column + 1] - columns[column]
    documents, rows = np.float64(len(search.sums)), np.float64(outlook.rowed)
    cost = _START + documents * (_BOUND + rows * _LEVEL) + np.float64(search.width) * rows * _LOOKUP
    return np.bool_(cost * search.maps.reluctance < np.float64(spared) * _POSTING)


@inner_kernel
def prepare_rows(search: Search, outlook: Outlook) -> np.float32:
    """What each level of the query's rows is worth, in units whose sums fit a byte; returns the unit."""
    weights, terms, maps, levels = search.queries.weights, search.terms, search.maps, search.levels
    row_bytes = (np.uint64(len(search.sums)) + _BLOCK - _ONE) // _BLOCK * _HALF
    first, total = outlook.terms - outlook.rowed, 0.0
    for number in range(first, outlook.terms):
        highest = maps.levels[maps.rows[terms.slots[number]] * CODES + CODES - 1]
        total += np.float64(weights[terms.places[number]]) * np.float64(highest)
    unit = total / np.float64(_MOST - outlook.rowed)  # rounded up, the rows may say one unit more each
    for number in range(first, outlook.terms):
        row, place = maps.rows[terms.slots[number]], (number - first) * CODES
        levels.starts[number - first] = np.uint64(row) * row_bytes
        worth = np.float64(weights[terms.places[number]]) / unit
        for code in range(CODES):
            units = np.ceil(worth * np.float64(maps.levels[row * CODES + code]))
            levels.tables[place + code] = np.uint8(units)
    return np.float32(unit * SLACK)


@inner_kernel
def say_rows(search: Search, rows: np.uint64, start: np.uint64) -> None:
    """What the first ``rows`` prepared rows say of the block of documents at ``start``, into ``levels.sums``."""
    levels, codes = search.levels, search.maps.codes
    for place in range(_NONE, _HALF, _PART):
        add_rows(codes, levels.starts, levels.tables, rows, start // _TWO + place, levels.sums, np.uint64(place))
