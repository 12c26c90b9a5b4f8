"""Adding the terms of a query stretch by stretch of the documents, so that the sums stay in the cache.

Each term has a head: the first of its postings that is not added yet. In a collection of one stretch, a term's postings
are added in one go.
"""

from __future__ import annotations

import numpy as np

from harness.data.jit import inner_kernel
from harness.exact.postings import contribution
from harness.exact.workspace import Search

__all__ = ["STRETCH", "add_until", "skip_until"]

STRETCH = np.uint64(65_536)
"""Documents in a stretch: half a megabyte of sums."""
_ONE = np.uint64(1)


@inner_kernel
def _end_before(search: Search, number: int, stop: np.uint64) -> np.uint64:
    """Where a term's postings of documents before ``stop`` end; its head is one of these, or their end."""
    rows, column = search.postings.rows, search.queries.columns[search.terms.places[number]]
    low, high = search.terms.heads[number], search.postings.columns[column + 1]
    if stop >= np.uint64(len(search.sums)):
        return np.uint64(high)
    while low < high:
        middle = (low + high) >> _ONE
        if rows[middle] < stop:
            low = middle + _ONE
        else:
            high = middle
    return np.uint64(low)


@inner_kernel
def skip_until(search: Search, first: int, last: int, stop: np.uint64) -> None:
    """Move the heads of the terms from ``first`` to ``last`` to the document ``stop``: back for 0, else ahead."""
    for number in range(first, last):
        if stop == np.uint64(0):
            column = search.queries.columns[search.terms.places[number]]
            search.terms.heads[number] = search.postings.columns[column]
        else:
            search.terms.heads[number] = _end_before(search, number, stop)


@inner_kernel
def add_until(search: Search, first: int, last: int, stop: np.uint64) -> None:
    """Add what the terms from ``first`` to ``last`` have for the documents before ``stop``, each from its head on."""
    postings, queries, terms, sums, rule = search.postings, search.queries, search.terms, search.sums, search.rule
    for number in range(first, last):
        weight, end = queries.weights[terms.places[number]], _end_before(search, number, stop)
        for posting in range(terms.heads[number], end):
            added = contribution(weight, postings.values[posting], rule)
            sums[np.uint64(postings.rows[posting])] += np.float64(added)
        terms.heads[number] = end
