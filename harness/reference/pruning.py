"""Leaving terms out of the sums: exact scores only for documents that can be among the best.

The best documents owe their place to the rare terms of a query. Once the k-th best score is known to be more than all
remaining terms can add together, no document without a term so far can be among the best, and most of the others cannot
either; where many documents have been touched, impact rows bound what each of them can still gain. What the remaining
terms add to the few that matter is looked up in their maps.

Nothing is lost by it: the k-th best score is a guess, a document is left out only when the most that it can reach lies
below the guess, and the result counts only when at least k complete sums reach it; otherwise the query runs again
without a guess. And nothing is changed: terms are left out only of queries whose float64 sum is exact, so that the
order of adding cannot change a bit, and the most that a sum can be is exact, too.
"""

from __future__ import annotations

import numpy as np

from harness.jit import inner_kernel
from harness.reference.collect import to_keys
from harness.reference.guess import threshold_of
from harness.reference.maps import BLOCK, rank_of
from harness.reference.postings import Outlook, contribution
from harness.reference.rows import collect_by_rows, multiply, sample_by_rows
from harness.reference.sampling import best_touched, sample_touched
from harness.reference.selection import nth_largest
from harness.reference.workspace import Search

__all__ = ["complete_best", "may_stop", "search_by_rows", "threshold_so_far"]

_FEW_WANTED = np.uint64(16)
_MORE = np.uint64(2)
_ONE = np.uint64(1)
_LOW = np.uint64(0xFFFFFFFF)

# Nanoseconds, measured; only their ratios matter.
_POSTING, _CHECK, _WANTED, _LOOKUP = 0.4, 1000.0, 60.0, 3.0


@inner_kernel
def may_stop(search: Search, outlook: Outlook, done: int, added: np.uint64, hope: float) -> np.bool:
    """Whether it is worth the time to find out if the terms from ``done`` on can be left out.

    ``hope`` is what the k-th best score is likely to be at most.
    """
    left = outlook.terms - done
    if done == 0 or left > outlook.mapped or search.terms.most[done] >= hope:
        return np.bool_(False)
    cost = _CHECK + np.float64(search.width) * (_WANTED + np.float64(left) * _LOOKUP)
    return np.bool_(cost * search.maps.reluctance < np.float64(outlook.postings - added) * _POSTING)


@inner_kernel
def _drop(search: Search, count: np.uint64, needed: np.float64) -> np.uint64:
    """Keep the candidates whose sums reach what is needed, without a branch; how many."""
    keys, sums = search.found.keys, search.found.sums
    kept = np.uint64(0)
    for place in range(count):
        row, total = keys[place], sums[place]
        keys[kept], sums[kept] = row, total
        kept += np.uint64(total >= needed)
    return kept


@inner_kernel
def _complete(search: Search, outlook: Outlook, done: int, needed: np.float64, count: np.uint64) -> np.uint64:
    """From the most that ``count`` candidates can reach to their sums; those that reach what is needed are kept.

    Each term first takes what it cannot add from the candidates without it, in a loop that vectorises. What the terms
    add to those that are left then replaces the most that they could.
    """
    postings, queries, maps, terms = search.postings, search.queries, search.maps, search.terms
    keys, sums, places = search.found.keys, search.found.sums, search.found.places
    bits, values = maps.bits, postings.values
    words = np.uint64((len(search.sums) + BLOCK - 1) // BLOCK * (BLOCK // 64))
    for number in range(done, outlook.terms):
        base, most = np.uint64(terms.slots[number]) * words, terms.most[number] - terms.most[number + 1]
        for place in range(count):
            row = keys[place]
            present = (bits[base + (row >> np.uint64(6))] >> (row & np.uint64(63))) & _ONE
            sums[place] -= np.float64(0.0) if present else most
        count = _drop(search, count, needed)
    for number in range(done, outlook.terms):
        base, most = np.uint64(terms.slots[number]) * words, terms.most[number] - terms.most[number + 1]
        weight, column = queries.weights[terms.places[number]], queries.columns[terms.places[number]]
        start, hits = postings.columns[column], np.uint64(0)
        for place in range(count):
            row = keys[place]
            places[hits] = np.uint32(place)
            hits += (bits[base + (row >> np.uint64(6))] >> (row & np.uint64(63))) & _ONE
        for hit in range(hits):
            chosen = np.uint64(places[hit])
            value = values[start + rank_of(maps, base, keys[chosen])]
            sums[chosen] += np.float64(contribution(weight, value, search.rule)) - most
        count = _drop(search, count, needed)
    return count


@inner_kernel
def _threshold_of_completed(
    search: Search, outlook: Outlook, done: int, count: np.uint64, rank: np.uint64
) -> np.float64:
    """The ``rank``-th best of the complete sums of ``count`` documents, a threshold; 0.0 for none."""
    keys, sums = search.found.keys, search.found.sums
    if count < rank:
        return np.float64(0.0)
    for place in range(count):
        sums[place] = search.sums[keys[place]] + search.terms.most[done]
    _complete(search, outlook, done, np.float64(0.0), count)
    to_keys(search.found, count)
    return threshold_of(keys[:count], rank)


@inner_kernel
def _best_sampled(search: Search, count: np.uint64, rank: np.uint64) -> np.uint64:
    """Rows of the best of a sample of ``count`` keys, of more than ``rank`` where there are; how many."""
    keys = search.found.keys
    if count < rank:
        return np.uint64(0)
    best = min(count, _MORE * rank + _MORE)
    nth_largest(keys[:count], best)
    for place in range(best):
        keys[place] &= _LOW
    return best


@inner_kernel
def threshold_so_far(search: Search, outlook: Outlook, done: int, added: np.uint64) -> np.float64:
    """A threshold from complete sums of documents that are good so far, few having been touched; 0.0 for none."""
    count, rank = np.uint64(0), search.width
    if search.width <= _FEW_WANTED and search.sample.touched_rank == 0:
        count = best_touched(search, done, search.width + search.width // _MORE)
    else:
        count, rank = sample_touched(search, done, done, added)
        count = _best_sampled(search, count, rank)
    return _threshold_of_completed(search, outlook, done, count, rank)


@inner_kernel
def complete_best(search: Search, outlook: Outlook, done: int, threshold: np.float64, count: np.uint64) -> np.uint64:
    """Sort keys of the candidates that reach the threshold; how many, 0 when they are fewer than wanted.

    The ``count`` candidates are all documents that can reach it, with the most that their sums can be.
    """
    kept = _complete(search, outlook, done, threshold, count)
    if kept < search.width:
        return np.uint64(0)
    to_keys(search.found, kept)
    return kept


@inner_kernel
def search_by_rows(search: Search, outlook: Outlook, done: int) -> np.uint64:
    """Sort keys of all that can be among the best, by bounds for all documents; 0 when a guess was none or too high."""
    unit = multiply(search, outlook, done)
    rank = np.uint64(search.sample.rank)
    count = _best_sampled(search, sample_by_rows(search, outlook, done, unit), rank)
    threshold = _threshold_of_completed(search, outlook, done, count, rank)
    if threshold == 0.0:
        search.sums[:] = np.uint64(search.rule.empty).view(np.float64)
        return np.uint64(0)
    count = collect_by_rows(search, outlook, done, unit, threshold, search.terms.most[done])
    return complete_best(search, outlook, done, threshold, count)
