"""From sums to sort keys: three ways to find the hits and to clear the sums in the same pass.

Where a block has hits, their rows are written without a branch: mispredicted ones would cost more than the rest. That
write goes one place beyond the last hit, so ``keys`` has one place more than there are documents.
"""

from __future__ import annotations

import numpy as np

from harness.jit import inline_kernel
from harness.ranking import pack_key
from harness.reference.postings import Postings, QueryRows, Rule, contribution
from harness.types import Float64Array, UInt64Array

__all__ = ["collect_all", "collect_reaching", "collect_touched"]

_BLOCK = np.uint64(64)
_ONE = np.uint64(1)
_TOP = np.uint32(0xFFFFFFFF)


@inline_kernel
def _is_hit(total: np.float64, rule: Rule) -> np.bool:
    """Whether a sum belongs to a hit, by the rule's bits."""
    return np.bool_((np.float64(total).view(np.uint64) & rule.mask) != rule.empty)


@inline_kernel
def _key(row: np.uint64, sums: Float64Array) -> np.uint64:
    return pack_key(np.float32(sums[row]), _TOP - np.uint32(row))


@inline_kernel
def collect_reaching(threshold: np.float64, rule: Rule, sums: Float64Array, keys: UInt64Array) -> np.uint64:
    """Keys of all documents with a sum of at least ``threshold`` (positive); clears the sums."""
    empty = np.uint64(rule.empty).view(np.float64)
    documents = np.uint64(len(sums))
    found = np.uint64(0)
    for start in range(np.uint64(0), documents, _BLOCK):
        stop = min(start + _BLOCK, documents)
        hits = np.uint64(0)
        for row in range(start, stop):
            hits += np.uint64(sums[row] >= threshold)
        if hits:
            first = found
            for row in range(start, stop):
                keys[found] = row
                found += np.uint64(sums[row] >= threshold)
            for place in range(first, found):
                keys[place] = _key(keys[place], sums)
        for row in range(start, stop):
            sums[row] = empty
    return found


@inline_kernel
def collect_all(rule: Rule, sums: Float64Array, keys: UInt64Array) -> np.uint64:
    """Keys of all hits; clears the sums."""
    bits = sums.view(np.uint64)
    documents = np.uint64(len(sums))
    found = np.uint64(0)
    for start in range(np.uint64(0), documents, _BLOCK):
        stop = min(start + _BLOCK, documents)
        first = found
        for row in range(start, stop):
            keys[found] = row
            found += np.uint64((bits[row] & rule.mask) != rule.empty)
        for place in range(first, found):
            keys[place] = _key(keys[place], sums)
        for row in range(start, stop):
            bits[row] = rule.empty
    return found


@inline_kernel
def collect_touched(
    postings: Postings,
    queries: QueryRows,
    query: int,
    last: int,
    threshold: np.float64,
    rule: Rule,
    sums: Float64Array,
    keys: UInt64Array,
) -> np.uint64:
    """Keys of all hits with a score of at least ``threshold`` (0.0: of all hits) by way of the query's postings.

    The sums hold the contributions of all terms but the one at place ``last``, the longest: its postings are added here
    and stored nowhere. Clears the sums that were touched.
    """
    bits = sums.view(np.uint64)
    found = np.uint64(0)
    column, weight = queries.columns[last], queries.weights[last]
    for posting in range(postings.columns[column], postings.columns[column + 1]):
        row = np.uint64(postings.rows[posting])
        total = sums[row] + np.float64(contribution(weight, postings.values[posting], rule))
        bits[row] = rule.empty
        if total >= threshold if threshold > 0.0 else _is_hit(total, rule):
            keys[found] = pack_key(np.float32(total), _TOP - np.uint32(row))
            found += _ONE
    for place in range(queries.indptr[query], queries.indptr[query + 1]):
        if place == last:
            continue
        column = queries.columns[place]
        for posting in range(postings.columns[column], postings.columns[column + 1]):
            row = np.uint64(postings.rows[posting])
            if sums[row] >= threshold if threshold > 0.0 else _is_hit(sums[row], rule):
                keys[found] = _key(row, sums)
                found += _ONE
            bits[row] = rule.empty
    return found
