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

import numpy as np

from harness.data.jit import inner_kernel, kernel
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, UInt64Array
from harness.exact.bounds import search_by_rows
from harness.exact.collect import collect_all, collect_reaching, collect_touched, to_keys
from harness.exact.guess import Sample, threshold_of
from harness.exact.maps import Maps
from harness.exact.postings import Outlook, Postings, QueryRows, Rule, contribution
from harness.exact.pruning import complete_best, may_stop, threshold_so_far
from harness.exact.rows import rows_pay
from harness.exact.sampling import sample_all, sample_touched
from harness.exact.selection import keep_largest_beside
from harness.exact.terms import look_at
from harness.exact.workspace import Search, Workspace

__all__ = ["retrieve_kernel", "score_kernel"]

_FEW = np.uint64(4)
"""Sums of fewer postings than one in this many documents are looked at by way of the postings."""
_VERY_FEW = np.uint64(16)
"""Leaving terms out after so few is better than leaving terms to their rows."""


@inner_kernel
def _add(postings: Postings, queries: QueryRows, place: int, rule: Rule, sums: Float64Array) -> np.uint64:
    """Add the contributions of the query's term at ``place``; how many."""
    rows, values = postings.rows, postings.values
    column, weight = queries.columns[place], queries.weights[place]
    start, stop = postings.columns[column], postings.columns[column + 1]
    for posting in range(start, stop):
        sums[np.uint64(rows[posting])] += np.float64(contribution(weight, values[posting], rule))
    return np.uint64(stop - start)


@inner_kernel
def _may_stop_early(search: Search, outlook: Outlook) -> np.bool:
    """Whether :func:`may_stop` will hold before only terms with rows are left, if what is hoped for is reached."""
    postings, terms, queries = search.postings, search.terms, search.queries
    documents, likely = np.uint64(len(search.sums)), 1.0 / np.sqrt(np.float64(outlook.terms))
    added, hope = np.uint64(0), 0.0
    for number in range(outlook.terms - outlook.rowed + 1):
        if added * _VERY_FEW >= documents:
            return np.bool_(False)
        if may_stop(search, outlook, number, added, hope):
            return np.bool_(True)
        column = queries.columns[terms.places[number]]
        added += postings.columns[column + 1] - postings.columns[column]
        hope += (terms.most[number] - terms.most[number + 1]) * likely
    return np.bool_(False)


@inner_kernel
def _add_in_order(search: Search, outlook: Outlook, guessing: bool) -> tuple[int, np.uint64, np.float64, bool]:
    """Add terms until the others can be left out: how many, their postings, and how the search goes on.

    The third is a threshold above all that the terms left out can add, 0.0 when there is none; the fourth says to go
    on by rows. Where few sums are touched, the last term is left to the one who collects them.
    """
    terms = search.terms
    documents = np.uint64(len(search.sums))
    few = (outlook.postings - outlook.last) * _FEW < documents
    likely = 1.0 / np.sqrt(np.float64(outlook.terms))  # the best documents reach about that share of the most
    added, hope = np.uint64(0), 0.0
    by_rows = guessing and rows_pay(search, outlook)
    if by_rows and not _may_stop_early(search, outlook):
        return 0, added, np.float64(0.0), True
    for number in range(outlook.terms):
        if guessing and added * _FEW < documents and may_stop(search, outlook, number, added, hope):
            hope = threshold_so_far(search, outlook, number, added)
            if hope > terms.most[number]:
                return number, added, hope, False
        if by_rows and number == outlook.terms - outlook.rowed:
            return number, added, np.float64(0.0), True
        if few and number == outlook.terms - 1:
            return number, added, np.float64(0.0), False
        added += _add(search.postings, search.queries, terms.places[number], search.rule, search.sums)
        hope += (terms.most[number] - terms.most[number + 1]) * likely
    return outlook.terms, added, np.float64(0.0), False


@inner_kernel
def _search(search: Search, query: int, outlook: Outlook, guessing: bool) -> tuple[np.uint64, int]:
    """Keys of a superset of the best hits: how many, 0 when a guess was too high or there are none; and by which way.

    Ways: 0 is by all postings, 1 with terms left out, 2 with terms left to their impact rows.
    """
    queries, found = search.queries, search.found
    done, added, threshold, by_rows = outlook.terms, outlook.postings, np.float64(0.0), False
    if outlook.exact:
        done, added, threshold, by_rows = _add_in_order(search, outlook, guessing)
    else:
        for place in range(queries.indptr[query], queries.indptr[query + 1]):
            _add(search.postings, queries, place, search.rule, search.sums)
    if by_rows:
        return search_by_rows(search, outlook, done), 2
    few = outlook.exact and added * _FEW < np.uint64(len(search.sums))
    pruned, last, gap = threshold > 0.0, outlook.terms, np.float64(0.0)
    if pruned:
        last, gap = done, search.terms.most[done]
    elif guessing:
        count, rank = sample_touched(search, done, last, outlook.postings) if few else sample_all(search)
        threshold = threshold_of(found.keys[:count], rank, found.sums.view(np.uint64))
    if few:
        count = collect_touched(search, done, last, threshold, gap)
    elif threshold > 0.0:
        count = collect_reaching(search, threshold, gap)
    else:
        count = collect_all(search)
    if pruned:
        return complete_best(search, outlook, done, threshold, count), 1
    if threshold > 0.0 and count < search.width:
        return np.uint64(0), 0
    to_keys(found, np.uint64(0), count)
    return count, 0


@kernel
def retrieve_kernel(  # noqa: PLR0917 - compiled
    postings: Postings,
    maps: Maps,
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
    Returns how many queries ran twice, because a guess was too high, how many left terms out, and how many left terms
    to their impact rows.
    """
    sums, found, terms, levels = workspace.sums, workspace.found, workspace.terms, workspace.levels
    width = np.uint64(best.shape[1])
    search = Search(postings, maps, queries, rule, sample, width, sums, found, terms, levels)
    rejected, pruned, by_rows = 0, 0, 0
    for place in range(len(counts)):
        outlook = look_at(search, first + place)
        if outlook.postings == 0:
            continue
        guessing, hits = sample.rank > 0, np.uint64(0)
        while True:
            hits, way = _search(search, first + place, outlook, guessing)
            pruned += way == 1
            by_rows += way == 2
            if hits > 0 or not guessing:
                break
            guessing = False
            rejected += 1
        if hits > width:
            keep_largest_beside(found.keys[:hits], width, found.sums.view(np.uint64))
            hits = width
        for hit in range(hits):
            best[np.uint64(place), hit] = found.keys[hit]
        counts[place] = hits
    return rejected, pruned, by_rows


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
        for place in range(queries.indptr[query], queries.indptr[query + 1]):
            _add(postings, queries, place, rule, sums)
        for hit in range(indptr[query], indptr[query + 1]):
            scores[hit] = np.float32(sums[rows[hit]] + 0.0)
        sums[:] = empty
