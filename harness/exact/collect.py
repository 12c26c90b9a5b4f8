"""From sums to candidates: three ways to find the documents worth a key, clearing the sums in the same pass.

Where a block has hits, their rows are written without a branch: mispredicted ones would cost more than the rest. That
write goes one place beyond the last hit, so the buffers have one place more than there are documents.
"""

from __future__ import annotations

import numpy as np

from harness.data.jit import inner_kernel
from harness.data.ranking import pack_key
from harness.exact.postings import Rule, contribution
from harness.exact.workspace import Found, Search

__all__ = ["collect_all", "collect_reaching", "collect_touched", "to_keys"]

_BLOCK = np.uint64(64)
_ONE = np.uint64(1)
_TOP = np.uint32(0xFFFFFFFF)


@inner_kernel
def _is_hit(total: np.float64, rule: Rule) -> np.bool:
    """Whether a sum belongs to a hit, by the rule's bits."""
    return np.bool_((np.float64(total).view(np.uint64) & rule.mask) != rule.empty)


@inner_kernel
def to_keys(found: Found, first: np.uint64, end: np.uint64) -> None:
    """Sort keys in place of the rows of the candidates from ``first`` to ``end``, whose sums are complete."""
    for place in range(first, end):
        found.keys[place] = pack_key(np.float32(found.sums[place]), _TOP - np.uint32(found.keys[place]))


@inner_kernel
def collect_reaching(search: Search, threshold: np.float64, gap: np.float64) -> np.uint64:
    """All documents whose sum and ``gap`` reach ``threshold``, which is above the gap, with both; clears the sums."""
    sums, found = search.sums, search.found
    empty = np.uint64(search.rule.empty).view(np.float64)
    documents = np.uint64(len(sums))
    count = np.uint64(0)
    for start in range(np.uint64(0), documents, _BLOCK):
        stop = min(start + _BLOCK, documents)
        hits = np.uint64(0)
        for row in range(start, stop):
            hits += np.uint64(sums[row] + gap >= threshold)
        if hits:
            first = count
            for row in range(start, stop):
                found.keys[count] = row
                count += np.uint64(sums[row] + gap >= threshold)
            for place in range(first, count):
                found.sums[place] = sums[found.keys[place]] + gap
        for row in range(start, stop):
            sums[row] = empty
    return count


@inner_kernel
def collect_all(search: Search) -> np.uint64:
    """All hits; clears the sums."""
    sums, found, rule = search.sums, search.found, search.rule
    bits = sums.view(np.uint64)
    documents = np.uint64(len(sums))
    count = np.uint64(0)
    for start in range(np.uint64(0), documents, _BLOCK):
        stop = min(start + _BLOCK, documents)
        first = count
        for row in range(start, stop):
            found.keys[count] = row
            count += np.uint64((bits[row] & rule.mask) != rule.empty)
        for place in range(first, count):
            found.sums[place] = sums[found.keys[place]]
        for row in range(start, stop):
            bits[row] = rule.empty
    return count


@inner_kernel
def collect_touched(search: Search, done: int, last: int, threshold: np.float64, gap: np.float64) -> np.uint64:
    """All hits whose sum and ``gap`` reach ``threshold`` (0.0: all hits), with both, by way of the query's postings.

    The sums hold the contributions of the first ``done`` terms; those up to ``last``, one at most, are added here and
    stored nowhere. Clears the sums that were touched.
    """
    postings, queries, terms, rule = search.postings, search.queries, search.terms, search.rule
    sums, found = search.sums, search.found
    bits = sums.view(np.uint64)
    count = np.uint64(0)
    for number in range(done, last):
        column, weight = queries.columns[terms.places[number]], queries.weights[terms.places[number]]
        for posting in range(postings.columns[column], postings.columns[column + 1]):
            row = np.uint64(postings.rows[posting])
            total = sums[row] + np.float64(contribution(weight, postings.values[posting], rule))
            bits[row] = rule.empty
            if total >= threshold if threshold > 0.0 else _is_hit(total, rule):
                found.keys[count] = row
                found.sums[count] = total
                count += _ONE
    for number in range(done):
        column = queries.columns[terms.places[number]]
        for posting in range(postings.columns[column], postings.columns[column + 1]):
            row = np.uint64(postings.rows[posting])
            total = sums[row]
            found.keys[count] = row
            found.sums[count] = total + gap
            count += np.uint64(total + gap >= threshold if threshold > 0.0 else _is_hit(total, rule))
            bits[row] = rule.empty
    return count
