"""The kernels behind exact sparse search: scatter postings into sums, then take the best k.

Documents are processed in blocks whose sums fit into the cache. The postings of each term of the query that fall into a
block are added to its sums; sums that reach a floor become sort keys, and all are cleared in the same pass. A sample of
the first block's sums gives an estimate of the k-th best sum of all documents, which is the floor; if fewer than k
documents are above it, the query runs again without the estimate. A block with few postings is collected through these.

Frequent terms that together cannot reach the floor are left out of the blocks after the first: a document without any
of the other terms cannot be among the best. Documents that can, given the most that the omitted terms could add, are
scored again by looking up all terms of the query, in its order (the idea of MaxScore: Turtle and Flood, "Query
evaluation: strategies and optimizations", 1995).

Conventions that keep the kernels fast: indices and loop counters are unsigned (a signed index needs a wrap-around test
and blocks vectorisation); inputs are read-only views, so that one compiled signature serves arrays in memory and mapped
from disk; the caller owns all buffers.

Sums are float64, added in the order of the query's terms, and hold ``empty`` between blocks. ``mask`` and ``empty`` (as
bits) tell hits from the rest: a document is a hit when ``bits & mask != empty``. Textbook scoring takes every score
other than zero (mask without the sign bit, empty 0.0); Lucene's takes every document that was touched (all bits, empty
-0.0, which no sum of contributions can equal, because x + 0.0 and x - x are +0.0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.data.jit import inner_kernel, kernel
from harness.data.ranking import pack_key, unpack_score
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array
from harness.exact.postings import Postings, QueryRows, Rule, contribution
from harness.exact.selection import keep_largest_beside, nth_largest, smallest

BLOCK = np.uint64(65_536)
"""Documents of a block: their sums take 512 KiB, which fits into a second-level cache together with the postings."""
_STRIDE = np.uint64(16)
"""One document in this many of the first block is sampled for the estimate, more if the sample would be small."""
_CHUNK = np.uint64(32)
_FEW = np.uint64(4)
"""A block with fewer postings than one in this many documents is collected through its postings."""
_SPARE = 64
_SHARE = 0.3
"""Largest share of the floor that terms left out may add: with more, too many documents would be scored again."""
_WORTH = np.uint64(1280)
"""Leaving terms out pays if this many postings are ahead for each of the k documents and each term."""
_LOOK_UP = np.uint64(64)
"""Looking a term up in a block costs as much as adding this many postings."""
_SLACK = 1.0 - 1e-6
"""More than a sum may differ by when it is rounded to float32, or its terms are added in another order."""
_ZERO, _ONE, _FOUR = np.uint64(0), np.uint64(1), np.uint64(4)
_TOP = np.uint32(0xFFFFFFFF)


class Workspace(NamedTuple):
    """Buffers of one thread.

    ``sums`` float64 (m,) belong to a block, and are ``empty`` between blocks. ``heads`` uint64 (3, T): start and end of
    each term's postings in the block, and 1 for a term that is left out. ``keys`` and ``spare`` uint64: candidates.
    """

    sums: Float64Array
    heads: UInt64Array
    keys: UInt64Array
    spare: UInt64Array

    @classmethod
    def of(cls, rule: Rule, documents: int, width: int, terms: int) -> Workspace:
        """Make clean buffers for the best ``width`` of all ``documents`` and queries of at most ``terms`` terms."""
        block = min(documents, int(BLOCK))
        sums = np.full(block, rule.empty, dtype=np.uint64).view(np.float64)
        keys = np.empty((2, 2 * width + block + _SPARE), dtype=np.uint64)
        return cls(sums, np.empty((3, terms), dtype=np.uint64), keys[0], keys[1])

    def fits(self, width: int, terms: int) -> bool:
        """Return whether the buffers are large enough."""
        return len(self.keys) >= 2 * width + len(self.sums) + _SPARE and self.heads.shape[1] >= terms


class _Block(NamedTuple):
    """The documents from ``begin`` to ``end``, and the terms of the query from ``first`` to ``last``."""

    begin: np.uint64
    end: np.uint64
    first: np.uint64
    last: np.uint64


@inner_kernel
def _end_before(postings: Postings, start: np.uint64, stop: np.uint64, row: np.uint64) -> np.uint64:
    """Find the first posting from ``start`` to ``stop`` whose document is not before ``row``."""
    if start == stop or postings.rows[stop - _ONE] < row:  # as in the last block of most terms
        return stop
    while start < stop:
        middle = (start + stop) >> _ONE
        if postings.rows[middle] < row:
            start = middle + _ONE
        else:
            stop = middle
    return start


@inner_kernel
def _below(score: np.float32) -> np.float64:
    """Return a bound just below all sums that round to a positive score; minus infinity for another score."""
    if score <= np.float32(0.0):
        return np.float64(-np.inf)
    # bits of positive floats, read as an integer, are in the order of the floats: one less is the next lower float
    return np.float64(np.uint32(np.float32(score).view(np.uint32) - np.uint32(1)).view(np.float32))


@inner_kernel
def _threshold_estimate(block: _Block, documents: np.uint64, width: np.uint64, workspace: Workspace) -> np.float64:
    """Estimate a floor that the ``width`` best of all documents probably reach, by a sample of the first block's sums.

    Return minus infinity if too few of these are positive.
    """
    sums, keys = workspace.sums, workspace.keys
    size = block.end - block.begin
    likely = np.float64(width) * np.float64(size) / np.float64(documents)
    stride = max(_ONE, min(_STRIDE, np.uint64(np.float64(size) / (4.0 * likely + 1.0))))
    share = likely / np.float64(stride)
    # three standard deviations (Poisson) lower than expected: a floor that is too high costs a second search
    rank, count = np.uint64(share + 3.0 * np.sqrt(share) + 3.0), _ZERO
    for position in range(_ZERO, size, stride):
        total = np.float64(sums[position])
        keys[count] = total.view(np.uint64)  # written without a branch; one that is not positive is overwritten
        count += np.uint64(total > 0.0)
    if count <= rank:
        return np.float64(-np.inf)
    estimate = np.float64(np.uint64(nth_largest(keys[:count], rank, workspace.spare)).view(np.float64))
    return _below(np.float32(estimate))


@inner_kernel
def _leave_out(
    postings: Postings,
    queries: QueryRows,
    rule: Rule,
    block: _Block,
    floor: np.float64,
    workspace: Workspace,
) -> np.float64:
    """Mark terms that cannot reach the floor together, the longest lists first; return the most that they add."""
    heads, rest = workspace.heads, np.float64(0.0)
    while True:
        most, chosen, bound = _ZERO, block.last, np.float64(0.0)
        for position in range(block.first, block.last):
            column, weight, term = (
                queries.columns[position],
                queries.weights[position],
                np.uint64(position) - block.first,
            )
            ahead = postings.columns[column + 1] - heads[1, term]
            if heads[2, term] or weight < np.float32(0.0) or ahead <= most:
                continue
            highest = max(np.float64(0.0), np.float64(contribution(weight, postings.highest[column], rule)))
            if rest + highest < floor * _SHARE:  # of the terms that fit, the one with most postings saves most
                most, chosen, bound = ahead, np.uint64(position), highest
        if chosen == block.last:
            return rest
        heads[2, chosen - block.first] = _ONE
        rest += bound


@inner_kernel
def _restore_terms(pays: bool | np.bool, rest: np.float64, heads: UInt64Array) -> np.float64:
    """Take all terms again if leaving some out does not pay; return the most that is left out from now on."""
    if not pays:
        for term in range(heads.shape[1]):
            heads[2, term] = _ZERO
    return rest if pays else np.float64(0.0)


@inner_kernel
def _value(postings: Postings, heads: UInt64Array, term: np.uint64, row: np.uint64) -> np.float32:
    """Return the document's value of the term, by the postings of its block; 0 if they lack it."""
    stop = heads[1, term]
    posting = _end_before(postings, heads[0, term], stop, row)
    return postings.values[posting] if posting < stop and postings.rows[posting] == row else np.float32(0.0)


@inner_kernel
def _rescore(
    postings: Postings,
    queries: QueryRows,
    rule: Rule,
    block: _Block,
    floor: np.float64,
    rest: np.float64,
    workspace: Workspace,
    range_of_keys: tuple[np.uint64, np.uint64],
) -> tuple[np.uint64, np.uint64]:
    """Score candidates of the block, a range of the keys, again by all terms.

    Terms left out are looked up first, until the candidate can no longer reach the floor, which is soon for most.

    Returns:
        The end of the candidates that stay, and how many look-ups there were.
    """
    keys, heads, looked_up = workspace.keys, workspace.heads, _ZERO
    first, end = range_of_keys
    count = first
    for candidate in range(first, end):
        # the low half of a key counts rows down, so that among equal scores the lower row has the larger key
        row, total = np.uint64(_TOP - np.uint32(keys[candidate])), np.float64(0.0)
        possible = np.float64(unpack_score(keys[candidate])) + rest
        for position in range(block.first, block.last):
            term = np.uint64(position) - block.first
            if heads[2, term] and possible >= floor * _SLACK:
                column, weight = queries.columns[position], queries.weights[position]
                highest = max(np.float64(0.0), np.float64(contribution(weight, postings.highest[column], rule)))
                value = _value(postings, heads, term, row)
                looked_up += _ONE
                possible -= highest
                if value != np.float32(0.0):
                    possible += np.float64(contribution(weight, value, rule))
        if possible < floor * _SLACK:
            continue
        for position in range(block.first, block.last):
            value = _value(postings, heads, np.uint64(position) - block.first, row)
            looked_up += _ONE
            if value != np.float32(0.0):
                total += np.float64(contribution(queries.weights[position], value, rule))
        if total >= floor:
            keys[count] = pack_key(np.float32(total), _TOP - np.uint32(row))
            count += _ONE
    return count, looked_up


@inner_kernel
def _scatter(
    postings: Postings, queries: QueryRows, rule: Rule, block: _Block, workspace: Workspace
) -> tuple[np.uint64, np.uint64]:
    """Add the postings that fall into the block; return how many, and how many were left out."""
    rows, values, sums, heads = postings.rows, postings.values, workspace.sums, workspace.heads
    added, left_out = _ZERO, _ZERO
    for position in range(block.first, block.last):
        column, weight, term = queries.columns[position], queries.weights[position], np.uint64(position) - block.first
        start = heads[1, term]  # the end of the previous block: postings of a term ascend by document
        stop = _end_before(postings, start, postings.columns[column + 1], block.end)
        heads[0, term], heads[1, term] = start, stop
        if heads[2, term]:
            left_out += stop - start
            continue
        for posting in range(start, stop):
            value = np.float64(contribution(weight, values[posting], rule))
            sums[np.uint64(rows[posting]) - block.begin] += value
        added += stop - start
    return added, left_out


@inner_kernel
def _collect_touched(
    postings: Postings, rule: Rule, block: _Block, floor: np.float64, workspace: Workspace, end: np.uint64
) -> np.uint64:
    """Add the hits of a block that reach ``floor`` to ``end`` keys, through the postings; return the new end."""
    sums, keys, bits = workspace.sums, workspace.keys, workspace.sums.view(np.uint64)
    for term in range(block.last - block.first):
        if workspace.heads[2, term]:
            continue
        for posting in range(workspace.heads[0, term], workspace.heads[1, term]):
            row = np.uint64(postings.rows[posting])
            position = row - block.begin
            total = sums[position]
            if (bits[position] & rule.mask) != rule.empty and total >= floor:
                keys[end] = pack_key(np.float32(total), _TOP - np.uint32(row))
                end += _ONE
            bits[position] = rule.empty
    return end


@inner_kernel
def _collect(rule: Rule, block: _Block, floor: np.float64, workspace: Workspace, end: np.uint64) -> np.uint64:
    """Add the hits of a block that reach ``floor`` to ``end`` keys; return the new end.

    If a chunk has hits, their positions are written without a branch: mispredicted branches would cost more than the
    rest.
    """
    sums, keys, bits = workspace.sums, workspace.keys, workspace.sums.view(np.uint64)
    size, positive = block.end - block.begin, floor > 0.0
    for begin in range(_ZERO, size, _CHUNK):
        start, stop = np.uint64(begin), min(np.uint64(begin) + _CHUNK, size)
        reached = np.uint32(0)
        if positive:
            for position in range(start, stop):
                reached |= np.uint32(sums[position] >= floor)
        else:
            for position in range(start, stop):
                reached |= np.uint32((bits[position] & rule.mask) != rule.empty)
        if reached:
            first = end
            if positive:
                for position in range(start, stop):
                    keys[end] = position
                    end += np.uint64(sums[position] >= floor)
            else:
                for position in range(start, stop):
                    keys[end] = position
                    end += np.uint64((bits[position] & rule.mask) != rule.empty)
            for candidate in range(first, end):
                position = keys[candidate]
                keys[candidate] = pack_key(np.float32(sums[position]), _TOP - np.uint32(block.begin + position))
        for position in range(start, stop):
            bits[position] = rule.empty
    return end


@inner_kernel
def _floor_of(keys: UInt64Array) -> np.float64:
    """Return the least sum that can be among the best, given the lowest of their keys."""
    return _below(unpack_score(smallest(keys)))


@inner_kernel
def _count_above(keys: UInt64Array, floor: np.float64) -> np.uint64:
    """Count the keys with a score above the floor: one that equals it may tie with a sum that did not reach it."""
    count = _ZERO
    for position in range(np.uint64(len(keys))):
        count += np.uint64(np.float64(unpack_score(keys[position])) > floor)
    return count


@inner_kernel
def _search(
    postings: Postings,
    queries: QueryRows,
    query: int,
    documents: np.uint64,
    rule: Rule,
    width: np.uint64,
    estimating: bool,
    workspace: Workspace,
) -> np.uint64:
    """Move the keys of the best ``width`` documents, in no order, to the front of the workspace's; return how many.

    With ``estimating`` there are 0 if the threshold estimate was too high.
    """
    keys, heads = workspace.keys, workspace.heads
    first, last = np.uint64(queries.indptr[query]), np.uint64(queries.indptr[query + 1])
    left = _ZERO
    for position in range(first, last):
        column = queries.columns[position]
        heads[1, np.uint64(position) - first] = postings.columns[column]
        heads[2, np.uint64(position) - first] = _ZERO
        left += postings.columns[column + 1] - postings.columns[column]
    floor, end, begin, size = np.float64(-np.inf), _ZERO, _ZERO, np.uint64(len(workspace.sums))
    is_estimated, rest = False, np.float64(0.0)
    while begin < documents and left > _ZERO:
        block = _Block(begin, min(begin + size, documents), first, last)
        added, left_out = _scatter(postings, queries, rule, block, workspace)
        left -= added + left_out
        if added > _ZERO:
            few = added * _FEW < block.end - block.begin
            if estimating and begin == _ZERO and added + left > width * _FOUR:
                floor = _threshold_estimate(block, documents, width, workspace)
                is_estimated = bool(floor > 0.0)
            # sums of this block may lack as much as the terms left out can add
            before, reach = end, floor if rest == 0.0 else floor * _SLACK - rest
            if few:
                end = _collect_touched(postings, rule, block, reach, workspace, end)
            else:
                end = _collect(rule, block, reach, workspace, end)
            if left_out > _ZERO:
                end, looked_up = _rescore(postings, queries, rule, block, floor, rest, workspace, (before, end))
                rest = _restore_terms(looked_up * _LOOK_UP < left_out, rest, heads)
            if is_estimated and begin == _ZERO and left > width * (last - first) * _WORTH:
                rest = _leave_out(postings, queries, rule, block, floor, workspace)
            if end > width + width:  # as many keys are dropped as stay, so that selecting costs a constant for each key
                keep_largest_beside(keys[:end], width, workspace.spare)
                end, floor, is_estimated = width, _floor_of(keys[:width]), False
        begin = block.end
    if is_estimated and _count_above(keys[:end], floor) < width:
        return _ZERO
    if end > width:
        keep_largest_beside(keys[:end], width, workspace.spare)
        end = width
    return end


@kernel
def retrieve_kernel(
    postings: Postings,
    queries: QueryRows,
    first: int,
    documents: int,
    rule: Rule,
    workspace: Workspace,
    best: UInt64Array,
    counts: Int64Array,
) -> None:
    """Write the best hits of queries ``first``, ``first + 1`` … as unsorted keys into the rows of ``best``.

    ``best`` is uint64 (queries, width), ``counts`` int64 (queries,) receives how many it holds; both full of zeros.
    """
    width = np.uint64(best.shape[1])
    for position in range(len(counts)):
        hits = _ZERO
        for estimating in (True, False):
            if hits == _ZERO:
                hits = _search(
                    postings, queries, first + position, np.uint64(documents), rule, width, estimating, workspace
                )
        for hit in range(hits):
            best[np.uint64(position), hit] = workspace.keys[hit]
        counts[position] = hits


@kernel
def score_kernel(
    postings: Postings,
    queries: QueryRows,
    rule: Rule,
    indptr: Int64Array,
    rows: Int32Array,
    sums: Float64Array,
    scores: Float32Array,
) -> None:
    """Score the listed documents of every query; +0.0 for a document that matches nothing.

    ``sums`` float64 (n,) hold ``empty``, and do so afterwards.
    """
    bits = sums.view(np.uint64)
    for query in range(len(indptr) - 1):
        if indptr[query] == indptr[query + 1]:
            continue
        for position in range(queries.indptr[query], queries.indptr[query + 1]):
            column, weight = queries.columns[position], queries.weights[position]
            for posting in range(postings.columns[column], postings.columns[column + 1]):
                value = np.float64(contribution(weight, postings.values[posting], rule))
                sums[np.uint64(postings.rows[posting])] += value
        for hit in range(indptr[query], indptr[query + 1]):
            scores[hit] = np.float32(sums[rows[hit]] + 0.0)  # of a document that nothing touched, -0.0 becomes +0.0
        for position in range(queries.indptr[query], queries.indptr[query + 1]):
            column = queries.columns[position]
            for posting in range(postings.columns[column], postings.columns[column + 1]):
                bits[np.uint64(postings.rows[posting])] = rule.empty
