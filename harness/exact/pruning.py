"""Leaving terms out of the sums: exact scores only for documents that can be among the best.

The best documents owe their place to the rare terms of a query. Once the k-th best score is known to be more than all
remaining terms can add together, no document without a term so far can be among the best, and most of the others cannot
either. What the remaining terms add to the few that matter is looked up in their maps.

Nothing is lost by it: a document is left out only when the most that it can reach lies below a threshold that at least
k complete sums reach. Where the threshold is a guess, that is seen afterwards, and a query with too high a one runs
again without. And nothing is changed: terms are left out only of queries whose float64 sum is exact, so that the order
of adding cannot change a bit, and the most that a sum can be is exact, too.
"""

from __future__ import annotations

import numpy as np

from harness.data.jit import inner_kernel
from harness.exact.collect import to_keys
from harness.exact.completion import complete, look_up
from harness.exact.guess import threshold_of
from harness.exact.postings import Outlook
from harness.exact.sampling import best_touched, sample_touched
from harness.exact.selection import nth_largest
from harness.exact.workspace import Search

__all__ = ["complete_best", "may_stop", "threshold_so_far"]

_FEW_WANTED = np.uint64(16)
_MORE = np.uint64(2)
_ONE = np.uint64(1)
_NONE = np.uint64(0)
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
def _threshold_of_completed(
    search: Search, outlook: Outlook, done: int, count: np.uint64, rank: np.uint64
) -> np.float64:
    """The ``rank``-th best of the complete sums of ``count`` documents, a threshold; 0.0 for none."""
    if count < rank:
        return np.float64(0.0)
    for place in range(count):
        search.found.sums[place] = search.sums[search.found.keys[place]]
    look_up(search, outlook, done, _NONE, count)
    return threshold_of(search.found.keys[:count], rank, search.found.sums.view(np.uint64))


@inner_kernel
def _best_sampled(search: Search, count: np.uint64, rank: np.uint64) -> np.uint64:
    """Rows of the best of a sample of ``count`` keys, of more than ``rank`` where there are; how many."""
    keys = search.found.keys
    if count < rank:
        return np.uint64(0)
    best = min(count, _MORE * rank + _MORE)
    nth_largest(keys[:count], best, search.found.sums.view(np.uint64))
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
    kept = complete(search, outlook, done, threshold, count)
    if kept < search.width:
        return np.uint64(0)
    to_keys(search.found, _NONE, kept)
    return kept
