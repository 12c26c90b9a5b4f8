"""The kernels behind exact sparse search: scatter postings into accumulators, then take the best k.

Conventions that keep them fast: indices and loop counters are unsigned (a signed index needs a wrap-around test and
blocks vectorisation); inputs are read-only views, so that one compiled signature serves arrays in memory and mapped
from disk; the caller owns all buffers.

Accumulators are float64 and hold ``empty`` between queries. ``mask`` and ``empty`` (as bits) tell hits from the rest:
a document is a hit when ``bits & mask != empty``. Textbook scoring takes every score other than zero (mask without the
sign bit, empty 0.0); Lucene's takes every document that was touched (all bits, empty -0.0, which no sum of
contributions can equal, because x + 0.0 and x - x are +0.0).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from harness.jit import inline_kernel, kernel
from harness.reference.bounds import Candidates, look_at, rows_pay, search_with_rows
from harness.reference.collect import collect_all, collect_reaching, collect_touched
from harness.reference.guess import Sample, guess_from_all, guess_from_touched
from harness.reference.impacts import Impacts
from harness.reference.postings import Outlook, Postings, QueryRows, Rule, contribution
from harness.reference.selection import keep_largest
from harness.types import Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array

__all__ = ["Workspace", "retrieve_kernel", "score_kernel"]


class Workspace(NamedTuple):
    """Buffers of one thread: ``sums`` float64 (n,), ``keys`` uint64 (n + 1,), and those for searching with rows."""

    sums: Float64Array
    keys: UInt64Array
    candidates: Candidates

    @classmethod
    def empty(cls, documents: int, rule: Rule) -> Workspace:
        """Clean buffers for a collection of that size."""
        sums = np.full(documents, rule.empty, dtype=np.uint64).view(np.float64)
        return cls(sums, np.empty(documents + 1, dtype=np.uint64), Candidates.empty(documents))


_FEW = np.uint64(4)
"""Queries with fewer postings than one in this many documents, the longest term apart, go by way of them."""


@inline_kernel
def _scatter(
    postings: Postings,
    queries: QueryRows,
    query: int,
    rule: Rule,
    skipped: Int64Array,
    skips: int,
    sums: Float64Array,
) -> None:
    """Add the contributions of all terms but the first ``skips`` places in ``skipped`` (ascending)."""
    rows, values = postings.rows, postings.values
    passed = 0
    for place in range(queries.indptr[query], queries.indptr[query + 1]):
        if passed < skips and skipped[passed] == place:
            passed += 1
            continue
        column = queries.columns[place]
        weight = queries.weights[place]
        start, stop = postings.columns[column], postings.columns[column + 1]
        for posting in range(start, stop):
            sums[np.uint64(rows[posting])] += np.float64(contribution(weight, values[posting], rule))


@inline_kernel
def _search(
    postings: Postings,
    queries: QueryRows,
    query: int,
    outlook: Outlook,
    rule: Rule,
    sample: Sample,
    width: np.uint64,
    workspace: Workspace,
) -> tuple[np.uint64, int]:
    """Keys of a superset of the best ``width`` hits: how many, and how often a guess was too high."""
    sums, keys, places = workspace.sums, workspace.keys, workspace.candidates.places
    rest = outlook.postings - outlook.longest
    few = outlook.exact and rest * _FEW < np.uint64(len(sums))
    places[0] = outlook.last
    guessing = sample.rank > 0
    while True:
        _scatter(postings, queries, query, rule, places, 1 if few else 0, sums)
        threshold = np.float64(0.0)
        if guessing and few:
            threshold = guess_from_touched(postings, queries, query, outlook, rule, sample, width, sums, keys)
        elif guessing:
            threshold = guess_from_all(sample, sums, keys)
        if few:
            found = collect_touched(postings, queries, query, outlook.last, threshold, rule, sums, keys)
        elif threshold > 0.0:
            found = collect_reaching(threshold, rule, sums, keys)
        else:
            found = collect_all(rule, sums, keys)
        if threshold == 0.0 or found >= width:
            return found, int(guessing != (sample.rank > 0))
        guessing = False


@kernel
def retrieve_kernel(
    postings: Postings,
    impacts: Impacts,
    queries: QueryRows,
    first: int,
    rule: Rule,
    sample: Sample,
    workspace: Workspace,
    best: UInt64Array,
    counts: Int64Array,
) -> tuple[int, int, int]:
    """The best hits of queries ``first``, ``first + 1`` … as unsorted keys in the rows of ``best``.

    ``best`` is uint64 (queries, width), ``counts`` int64 (queries,) receives how many it holds; both full of zeros.
    Returns how many guesses were too high and made a query run twice, how many queries used impact rows, and how many
    of these had to run without them as well.
    """
    sums, keys, candidates = workspace.sums, workspace.keys, workspace.candidates
    width = np.uint64(best.shape[1])
    rejected, bounded, unbounded = 0, 0, 0
    for place in range(len(counts)):
        query = first + place
        found = np.uint64(0)
        outlook = look_at(postings, queries, query, impacts, rule, candidates)
        if outlook.postings == 0:
            continue
        if sample.rank > 0 and rows_pay(outlook, impacts, len(sums), width):
            count = outlook.rows
            _scatter(postings, queries, query, rule, candidates.places, count, sums)
            found = search_with_rows(postings, queries, impacts, count, sample, width, candidates, sums, keys)
            bounded += 1
            unbounded += found == 0
        source = candidates.order
        if found == 0:
            found, again = _search(postings, queries, query, outlook, rule, sample, width, workspace)
            rejected += again
            source = keys
        if found > width:
            keep_largest(source[:found], width)
            found = width
        for hit in range(found):
            best[np.uint64(place), hit] = source[hit]
        counts[place] = found
    return rejected, bounded, unbounded


@kernel
def score_kernel(
    postings: Postings,
    queries: QueryRows,
    rule: Rule,
    indptr: Int64Array,
    rows: Int32Array,
    workspace: Workspace,
    scores: Float32Array,
) -> None:
    """Scores of the given documents of every query; +0.0 for a document that matches nothing."""
    sums = workspace.sums
    empty = np.uint64(rule.empty).view(np.float64)
    for query in range(len(indptr) - 1):
        if indptr[query] == indptr[query + 1]:
            continue
        _scatter(postings, queries, query, rule, workspace.candidates.places, 0, sums)
        for hit in range(indptr[query], indptr[query + 1]):
            scores[hit] = np.float32(sums[rows[hit]] + 0.0)
        sums[:] = empty
