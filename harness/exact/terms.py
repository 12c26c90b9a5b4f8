"""A query's terms in the order in which they are added."""

from __future__ import annotations

import numpy as np

from harness.data.jit import inner_kernel
from harness.exact.maps import slot_of
from harness.exact.postings import Outlook, contribution
from harness.exact.workspace import MOST_TERMS, Search, Terms

__all__ = ["look_at"]

_UNMAPPED, _ROWED = 2.0**-200, 2.0**400
"""Factors that keep terms without maps before those with maps, and those with rows behind both."""
_EXACT_RANGE, _TINY, _HUGE = 2.0**28, 2.0**-100, 2.0**100


@inner_kernel
def _insert(terms: Terms, count: int, place: int, slot: int, rate: float, most: float) -> None:
    """Put a term behind those of the ``count`` present ones that have no higher rate."""
    hole = count
    while hole > 0 and terms.rates[hole - 1] > rate:
        terms.places[hole], terms.slots[hole] = terms.places[hole - 1], terms.slots[hole - 1]
        terms.rates[hole], terms.most[hole] = terms.rates[hole - 1], terms.most[hole - 1]
        hole -= 1
    terms.places[hole], terms.slots[hole] = place, slot
    terms.rates[hole], terms.most[hole] = rate, most


@inner_kernel
def look_at(search: Search, query: int) -> Outlook:
    """Measure a query, and put its terms in order: by postings for the most that one of them can contribute.

    The order changes no bit where the float64 sums are exact; elsewhere terms stay in the order that they have, and so
    do those of queries with more than 512 terms.
    """
    postings, maps, queries, terms = search.postings, search.maps, search.queries, search.terms
    first, stop = queries.indptr[query], queries.indptr[query + 1]
    count = stop - first
    total, mapped, rowed = np.uint64(0), 0, 0
    lightest, heaviest = np.inf, 0.0
    for place in range(first, stop):
        column, weight = queries.columns[place], queries.weights[place]
        lightest, heaviest = min(lightest, abs(np.float64(weight))), max(heaviest, abs(np.float64(weight)))
        length = postings.columns[column + 1] - postings.columns[column]
        total += length
        slot, most = -1, 0.0
        if length > 0:
            most = abs(np.float64(contribution(weight, maps.highest[column], search.rule)))
        if length >= maps.shortest and weight > 0.0 and most > 0.0:
            slot = slot_of(maps, column)
        rate = np.float64(length) / most if most > 0.0 else 0.0
        if slot < 0:
            rate *= _UNMAPPED
        elif maps.rows[slot] >= 0:
            rate *= _ROWED
            rowed += 1
        mapped += slot >= 0
        if count <= MOST_TERMS:
            _insert(terms, place - first, place, slot, rate, most)
    if search.rule.lucene:  # the difference of two floats is a multiple of the last bit of the smaller one
        least, highest = (lightest / maps.largest if maps.largest > 0.0 else 0.0), heaviest * count
    else:
        least, highest = lightest * maps.smallest, heaviest * maps.largest * count
    ordinary = least > _TINY and highest < _HUGE and highest < least * _EXACT_RANGE
    if count == 0 or count > MOST_TERMS or not (ordinary or count == 1):
        return Outlook(False, count, total, np.uint64(0), 0, 0)
    terms.most[count] = 0.0
    for number in range(count - 1, -1, -1):
        terms.most[number] += terms.most[number + 1]
    column = queries.columns[terms.places[count - 1]]
    last = postings.columns[column + 1] - postings.columns[column]
    return Outlook(True, count, total, last, mapped if ordinary else 0, rowed if ordinary else 0)
