"""Leaving terms to their impact rows: exact scores only for the documents whose bounds reach what the best reach.

A part of the documents is looked at first: those of them that can reach the most are completed, and tell which score
the best of all documents will probably reach. Then each document's bound is compared with it, and those that remain are
completed, which are hardly more than are wanted. Where fewer than are wanted reach that score, it was too high, and the
query runs again without rows.

What a document can reach is the sum of its terms without rows, and what the rows say of the others.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.data.jit import inner_kernel
from harness.data.ranking import pack_key, unpack_score
from harness.exact.completion import look_up
from harness.exact.guess import rank_for, threshold_of
from harness.exact.instructions import lowest_bit
from harness.exact.jit_bounds import bounds_reaching
from harness.exact.maps import ROW_BLOCK
from harness.exact.postings import Outlook
from harness.exact.rows import SLACK, prepare_rows, say_rows
from harness.exact.selection import nth_largest
from harness.exact.stretches import STRETCH, add_until, skip_until
from harness.exact.workspace import Search

__all__ = ["search_by_rows"]

_BLOCK, _PART, _STEP = np.uint64(ROW_BLOCK), np.uint64(64), np.uint64(8)
_NONE, _ONE, _LOW = np.uint64(0), np.uint64(1), np.uint64(0xFFFFFFFF)
_LEAST = 2.0**-125
"""Less than any sum above 0 of a query that gets here, and no denormal number, which a process may treat as 0."""


class _Sweep(NamedTuple):
    """How bounds are found: by the sums of the terms before ``last``, those from ``first`` on being added on the way,
    and by ``rows`` prepared rows, which count in ``unit``.
    """

    first: int
    last: int
    rows: np.uint64
    unit: np.float32


@inner_kernel
def _sample_size(documents: np.uint64) -> np.uint64:
    """How many documents :func:`_sample` looks at."""
    sampled = _NONE
    for begin in range(_NONE, documents, STRETCH * _STEP):
        stop = min(begin + STRETCH, documents)
        for start in range(begin, stop, _BLOCK * _STEP):
            sampled += min(start + _BLOCK, stop) - start
    return sampled


@inner_kernel
def _sample_block(search: Search, sweep: _Sweep, start: np.uint64, most: np.uint64, end: np.uint64) -> np.uint64:
    """Add documents of a block to ``end`` keys of bounds, where they can be among the ``most`` highest; the new end."""
    sums, keys, levels = search.sums, search.found.keys, search.levels.sums
    say_rows(search, sweep.rows, start)
    floor = np.float32(_LEAST)
    for part in range(start, min(start + _BLOCK, np.uint64(len(sums))), _PART):
        if end >= most + most:
            floor, end = unpack_score(nth_largest(keys[:end], most, search.found.sums.view(np.uint64))), most
        reaching = bounds_reaching(sums, np.uint64(part), levels, part - start, sweep.unit, floor)
        while reaching:
            row = part + lowest_bit(reaching)
            bound = np.float32(sums[row]) + sweep.unit * np.float32(levels[row - start])
            keys[end] = pack_key(bound, np.uint32(row))
            end += _ONE
            reaching &= reaching - _ONE
    return end


@inner_kernel
def _sample(search: Search, sweep: _Sweep, most: np.uint64) -> np.uint64:
    """Of one stretch in a few, one block in a few, the documents that can reach the most, with their sums.

    Returns how many there are, ``most`` at most. The sums of these stretches are there afterwards.
    """
    keys, sums, end, documents = search.found.keys, search.sums, _NONE, np.uint64(len(search.sums))
    for begin in range(_NONE, documents, STRETCH * _STEP):
        stop = min(begin + STRETCH, documents)
        skip_until(search, sweep.first, sweep.last, np.uint64(begin))
        add_until(search, sweep.first, sweep.last, stop)
        for start in range(begin, stop, _BLOCK * _STEP):
            end = _sample_block(search, sweep, np.uint64(start), most, end)
    if end > most:
        nth_largest(keys[:end], most, search.found.sums.view(np.uint64))
        end = most
    for place in range(end):
        keys[place] &= _LOW
        search.found.sums[place] = sums[keys[place]]
    return end


@inner_kernel
def _guess(search: Search, outlook: Outlook, sweep: _Sweep) -> float:
    """What the best documents will reach, probably; above 0."""
    documents = np.uint64(len(search.sums))
    expected = np.float64(search.width) * np.float64(_sample_size(documents)) / np.float64(documents)
    rank = np.uint64(rank_for(expected))
    count = _sample(search, sweep, rank + rank // np.uint64(4) + np.uint64(4))
    look_up(search, outlook, sweep.last, _NONE, count)
    return max(_LEAST, threshold_of(search.found.keys[:count], rank, search.found.sums.view(np.uint64)))


@inner_kernel
def _collect_block(search: Search, sweep: _Sweep, start: np.uint64, floor: np.float32, end: np.uint64) -> np.uint64:
    """Add the documents of a block that can reach ``floor`` to ``end`` candidates; the new end. Clears their sums."""
    sums, found, levels = search.sums, search.found, search.levels.sums
    empty, stop = np.uint64(search.rule.empty).view(np.float64), min(start + _BLOCK, np.uint64(len(sums)))
    say_rows(search, sweep.rows, start)
    for part in range(start, stop, _PART):
        reaching = bounds_reaching(sums, np.uint64(part), levels, part - start, sweep.unit, floor)
        while reaching:
            row = part + lowest_bit(reaching)
            found.keys[end], found.sums[end] = row, sums[row]
            end += _ONE
            reaching &= reaching - _ONE
    for place in range(start, stop):
        sums[place] = empty
    return end


@inner_kernel
def _collect(search: Search, sweep: _Sweep, floor: np.float32) -> np.uint64:
    """All documents that can reach ``floor`` (above 0), with their sums; how many. Clears the sums."""
    end, documents = _NONE, np.uint64(len(search.sums))
    skip_until(search, sweep.first, sweep.last, _NONE)
    for begin in range(_NONE, documents, STRETCH):
        stop = min(begin + STRETCH, documents)
        if begin // STRETCH % _STEP == _NONE:  # sampled
            skip_until(search, sweep.first, sweep.last, stop)
        else:
            add_until(search, sweep.first, sweep.last, stop)
        for start in range(begin, stop, _BLOCK):
            end = _collect_block(search, sweep, np.uint64(start), floor, end)
    return end


@inner_kernel
def search_by_rows(search: Search, outlook: Outlook, added: int) -> np.uint64:
    """Sort keys of the best; 0 when a guess was too high, or too few documents have a score above 0.

    The first ``added`` terms have been added. The query's terms with rows are left to these.
    """
    last = outlook.terms - outlook.rowed
    sweep = _Sweep(added, last, np.uint64(outlook.rowed), prepare_rows(search, outlook))
    guess = _guess(search, outlook, sweep)
    end = _collect(search, sweep, np.float32(guess / SLACK))
    look_up(search, outlook, last, _NONE, end)
    return (
        search.width
        if threshold_of(search.found.keys[:end], search.width, search.found.sums.view(np.uint64)) >= guess
        else _NONE
    )
