"""Complete sums of a few candidates: what the terms that were left out add to each is looked up in their maps."""

from __future__ import annotations

import numpy as np

from harness.data.jit import inner_kernel
from harness.exact.collect import to_keys
from harness.exact.instructions import prefetch_one
from harness.exact.maps import BLOCK, rank_of
from harness.exact.postings import Outlook, contribution
from harness.exact.workspace import AT_ONCE, Search

__all__ = ["complete", "look_up"]

_NONE, _ONE, _AT_ONCE = np.uint64(0), np.uint64(1), np.uint64(AT_ONCE)


@inner_kernel
def _drop(search: Search, count: np.uint64, needed: np.float64) -> np.uint64:
    """Keep the candidates whose sums reach what is needed, without a branch; how many."""
    keys, sums = search.found.keys, search.found.sums
    kept = _NONE
    for place in range(count):
        row, total = keys[place], sums[place]
        keys[kept], sums[kept] = row, total
        kept += np.uint64(total >= needed)
    return kept


@inner_kernel
def _map_of(search: Search, number: int) -> np.uint64:
    """The first word of a term's map."""
    words = (len(search.sums) + BLOCK - 1) // BLOCK * (BLOCK // 64)
    return np.uint64(search.terms.slots[number]) * np.uint64(words)


@inner_kernel
def _find_present(search: Search, base: np.uint64, first: np.uint64, end: np.uint64) -> np.uint64:
    """Which candidates a term has, by its map, into ``found.places``; how many."""
    keys, places, bits = search.found.keys, search.found.places, search.maps.bits
    hits = _NONE
    for place in range(first, end):
        row = keys[place]
        places[hits] = np.uint32(place)
        hits += (bits[base + (row >> np.uint64(6))] >> (row & np.uint64(63))) & _ONE
    return hits


@inner_kernel
def _add_present(search: Search, number: int, base: np.uint64, hits: np.uint64, less: np.float64) -> None:
    """To the sums of ``hits`` candidates that have a term what it contributes, less what they have for it.

    All their postings are asked for before the first one is needed: they lie anywhere, and waiting takes longest.
    """
    queries, terms, values, found = search.queries, search.terms, search.postings.values, search.found
    weight, column = queries.weights[terms.places[number]], queries.columns[terms.places[number]]
    start = search.postings.columns[column]
    for part in range(_NONE, hits, _AT_ONCE):
        stop = min(part + _AT_ONCE, hits)
        for hit in range(part, stop):
            posting = start + rank_of(search.maps, base, found.keys[np.uint64(found.places[hit])])
            found.postings[hit - part] = posting
            prefetch_one(values, posting)
        for hit in range(part, stop):
            value = values[found.postings[hit - part]]
            added = np.float64(contribution(weight, value, search.rule)) - less
            found.sums[np.uint64(found.places[hit])] += added


@inner_kernel
def complete(search: Search, outlook: Outlook, done: int, needed: np.float64, count: np.uint64) -> np.uint64:
    """From the most that ``count`` candidates can reach to their sums; those that reach what is needed are kept.

    Returns how many. Each term first takes what it cannot add from the candidates without it, in a loop that
    vectorises. What the terms add to those that are left then replaces the most that they could.
    """
    keys, sums, bits, terms = search.found.keys, search.found.sums, search.maps.bits, search.terms
    for number in range(done, outlook.terms):
        base, most = _map_of(search, number), terms.most[number] - terms.most[number + 1]
        for place in range(count):
            row = keys[place]
            present = (bits[base + (row >> np.uint64(6))] >> (row & np.uint64(63))) & _ONE
            sums[place] -= np.float64(0.0) if present else most
        count = _drop(search, count, needed)
    for number in range(done, outlook.terms):
        base, most = _map_of(search, number), terms.most[number] - terms.most[number + 1]
        _add_present(search, number, base, _find_present(search, base, _NONE, count), most)
        count = _drop(search, count, needed)
    return count


@inner_kernel
def look_up(search: Search, outlook: Outlook, done: int, first: np.uint64, end: np.uint64) -> None:
    """Sort keys in place of the rows of the candidates from ``first`` to ``end``, whose sums so far are there."""
    for number in range(done, outlook.terms):
        base = _map_of(search, number)
        _add_present(search, number, base, _find_present(search, base, first, end), np.float64(0.0))
    to_keys(search.found, first, end)
