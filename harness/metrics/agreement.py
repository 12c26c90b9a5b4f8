"""How far two rankings agree: overlap, rank-biased overlap, Kendall's tau.

Rankings are taken in the order in which they are given. Overlap and RBO do not allow for equal scores: rankings that
differ only in the order of tied documents are below 1. Parity allows for them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.jit import kernel
from harness.data.types import Float64Array, Int32Array, Int64Array, Run
from harness.errors import RankingError, UsageError

RBO_P = 0.9
"""The default persistence of :func:`rbo`: 86% of the weight lies on the first ten ranks."""


class _Pair(NamedTuple):
    a_indptr: Int64Array
    a_rows: Int32Array
    b_indptr: Int64Array
    b_rows: Int32Array


def overlap(a: Run, b: Run, depth: int) -> Float64Array:
    """Return the share of common documents among the first ``depth`` of each query: float64 (Q,), 0 to 1.

    ``|A ∩ B| / min(depth, max(|A|, |B|))``, so two short rankings of the same documents agree fully. Two empty
    rankings agree fully (1.0). Raises UsageError for a depth below 1, RankingError for runs over other queries or
    documents.
    """
    if depth < 1:
        raise UsageError(f"overlap at depth {depth}", fix="the depth must be at least 1")
    same_axes(a, b)
    return _overlap(_Pair(a.indptr, a.rows, b.indptr, b.rows), len(a.doc_ids), depth)


def rbo(a: Run, b: Run, p: float = RBO_P) -> Float64Array:
    """Return the extrapolated rank-biased overlap of each query: float64 (Q,), 0 to 1, higher is closer.

    RBO_ext for rankings of uneven lengths: Webber, Moffat and Zobel, "A similarity measure for indefinite rankings",
    ACM TOIS 28(4), 2010, equation 32. ``p`` is the chance that a reader goes on to the next rank. Two empty rankings
    agree fully (1.0); an empty and a non-empty one not at all (0.0). Raises UsageError unless 0 < p < 1, RankingError
    for runs over other queries or documents.
    """
    if not 0 < p < 1:
        raise UsageError(f"rank-biased overlap with p = {p}", fix="p must lie between 0 and 1")
    same_axes(a, b)
    return _rbo(_Pair(a.indptr, a.rows, b.indptr, b.rows), len(a.doc_ids), p)


def kendall_tau(a: Run, b: Run) -> Float64Array:
    """Return Kendall's tau-b of the scores of the documents that two runs both rank: float64 (Q,), -1 to 1.

    NaN if tau-b is not defined: fewer than two common documents, or all of them tied in one run. Raises RankingError
    for runs over other queries or documents.
    """
    same_axes(a, b)
    taus = np.empty(len(a.query_ids))
    for query in range(len(taus)):
        of_a, of_b = a.of_query(query), b.of_query(query)
        _, in_a, in_b = np.intersect1d(a.rows[of_a], b.rows[of_b], assume_unique=True, return_indices=True)
        taus[query] = kendall_tau_of_scores(a.scores[of_a][in_a], b.scores[of_b][in_b])
    return taus


def kendall_tau_of_scores(x: npt.ArrayLike, y: npt.ArrayLike) -> float:
    """Return Kendall's tau-b of two lists of scores for the same things, for example systems under two metrics.

    ``(C - D) / sqrt((C + D + X) (C + D + Y))`` over all pairs: C concordant, D discordant, X tied in ``x`` only and Y
    in ``y`` only. Kendall, "The treatment of ties in ranking problems", Biometrika 33(3), 1945. NaN if it is not
    defined (see :func:`kendall_tau`). Raises UsageError for lists of different lengths.
    """
    scores_x, scores_y = np.asarray(x), np.asarray(y)
    if scores_x.shape != scores_y.shape:
        raise UsageError(f"Kendall's tau of {scores_x.size} and {scores_y.size} scores", fix="give one score per item")
    if len(scores_x) < 2 or scores_x.min() == scores_x.max() or scores_y.min() == scores_y.max():
        return float("nan")
    from scipy.stats import kendalltau

    return float(kendalltau(scores_x, scores_y, variant="b").statistic)


def same_axes(a: Run, b: Run) -> None:
    """Raise RankingError unless both runs answer the same queries over the same document column."""
    if a.query_ids is not b.query_ids and not a.query_ids.values.equals(b.query_ids.values):
        raise RankingError("the two runs answer different queries", fix="compare runs of one comparison")
    if a.doc_ids is not b.doc_ids and not a.doc_ids.values.equals(b.doc_ids.values):
        raise RankingError("the two runs rank different document columns", fix="compare runs of one corpus")


@kernel
def _overlap(pair: _Pair, documents: int, depth: int) -> Float64Array:
    seen = np.full(documents, -1, dtype=np.int64)
    shares = np.ones(len(pair.a_indptr) - 1)
    for query in range(len(shares)):
        a_start, b_start = pair.a_indptr[query], pair.b_indptr[query]
        a_length = min(pair.a_indptr[query + 1] - a_start, depth)
        b_length = min(pair.b_indptr[query + 1] - b_start, depth)
        for rank in range(a_length):
            seen[pair.a_rows[a_start + rank]] = query
        common = 0
        for rank in range(b_length):
            common += seen[pair.b_rows[b_start + rank]] == query
        longest = max(a_length, b_length)
        if longest:
            shares[query] = common / longest
    return shares


@kernel
def _rbo(pair: _Pair, documents: int, p: float) -> Float64Array:
    seen_a = np.full(documents, -1, dtype=np.int64)
    seen_b = np.full(documents, -1, dtype=np.int64)
    values = np.ones(len(pair.a_indptr) - 1)
    for query in range(len(values)):
        a_start, a_length = pair.a_indptr[query], pair.a_indptr[query + 1] - pair.a_indptr[query]
        b_start, b_length = pair.b_indptr[query], pair.b_indptr[query + 1] - pair.b_indptr[query]
        short, long = min(a_length, b_length), max(a_length, b_length)
        if short == 0:
            values[query] = 1.0 if long == 0 else 0.0
            continue
        common, agreement_at_short, weight, lost = 0, 0, 1.0, 0.0
        for depth in range(1, long + 1):
            if depth <= a_length:
                row = pair.a_rows[a_start + depth - 1]
                seen_a[row] = query
                common += seen_b[row] == query
            if depth <= b_length:
                row = pair.b_rows[b_start + depth - 1]
                seen_b[row] = query
                common += seen_a[row] == query
            if depth == short:
                agreement_at_short = common
            weight *= p
            agreement = common / depth
            if depth > short:
                agreement += agreement_at_short * (depth - short) / (short * depth)
            lost += (1.0 - agreement) * weight
        # 1 minus the loss at each depth, so that equal rankings give exactly 1.
        extrapolated = (common - agreement_at_short) / long + agreement_at_short / short
        values[query] = 1.0 - (1.0 - p) / p * lost - (1.0 - extrapolated) * weight
    return values
