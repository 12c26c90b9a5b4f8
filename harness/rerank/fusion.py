"""Fuse several runs of the same queries into one run. Pure functions, usable separately.

Every function takes any number of runs (at least one) and gives one :class:`harness.data.types.Run`, in the one
ordering of :mod:`harness.data.ranking`: score descending, then document id descending. The same rule orders the hits of
each input before anything is computed from them, so equal scores in an input never depend on how an engine happened to
place them.

- Queries of the result are the queries of the first run, then the queries that only later runs have, in their order.
  A run that does not have a query, or has no hits for it, adds nothing to it; a query without any hits has none.
- Document columns need not be equal: hits meet by document id. If all runs have the same column it is kept.
- A document that a run did not return gets nothing from that run, in every method. A document that only a run of
  weight 0 returned is in the result, with 0.
- Sums are taken in float64, smallest part first, and rounded once to float32: the order of the runs changes no bit.
- ``weights`` (one a run, at least 0, one of them above) multiply a run's contribution; without them all are 1.

Scores that are not finite and repeated documents raise RankingError, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.data import ranking
from harness.data.types import Float64Array, Ids, Int32Array, Int64Array, Run
from harness.errors import UsageError

__all__ = ["DEFAULT_RRF_K", "Weights", "comb_sum", "dbsf", "min_max", "rrf"]

DEFAULT_RRF_K = 60.0
"""The constant of the paper, which found results to depend little on it."""
_SIGMAS = 3.0
_MIDDLE = 0.5
Weights = Sequence[float] | None


def rrf(runs: Sequence[Run], *, k: float = DEFAULT_RRF_K, weights: Weights = None) -> Run:
    """Fuse reciprocal ranks: ``score(d) = sum over runs of w / (k + rank(d))``, ranks from 1; scores are not used.

    Cormack, Clarke and Büttcher, SIGIR 2009. Qdrant counts positions from 0, with k = 2 by default: that is k = 1 here.
    Documents of equal score have different ranks, by document id descending. Raises UsageError for a ``k`` that is
    negative or not finite, for wrong weights, and for no runs.
    """
    if not (np.isfinite(k) and k >= 0):
        raise UsageError(f"the constant k of reciprocal rank fusion is {k:g}", fix="it must be finite and at least 0")
    return _fuse(runs, weights, lambda run: 1.0 / (k + _ranks(run)), by_scores=False)


def comb_sum(runs: Sequence[Run], *, weights: Weights = None) -> Run:
    """Add weighted scores without normalisation. CombSUM: Fox and Shaw, TREC-2, 1994."""
    return _fuse(runs, weights, _scores)


def min_max(runs: Sequence[Run], *, weights: Weights = None) -> Run:
    """Add weighted scores scaled to [0, 1]: ``score(d) = sum over runs of w · (s - min) / (max - min)``.

    Minimum and maximum are taken over the query's hits in that run: so the last hit of a list gets 0, as a document
    that was not returned does. If all hits of a query score the same (one hit, above all) each gets 1: the list
    distinguishes them from the documents that it lacks, and not from one another. CombSUM over normalised scores: Lee,
    SIGIR 1997.
    """

    def normalised(run: Run) -> Float64Array:
        scores, lengths = _scores(run), np.diff(run.indptr)
        low, high = _reduce_by_query(np.minimum, scores, run.indptr), _reduce_by_query(np.maximum, scores, run.indptr)
        spread = np.repeat(high - low, lengths)
        return np.divide(scores - np.repeat(low, lengths), spread, out=np.ones_like(scores), where=spread > 0)

    return _fuse(runs, weights, normalised)


def dbsf(runs: Sequence[Run], *, weights: Weights = None) -> Run:
    """Fuse scores by their distribution (DBSF): ``score(d) = sum over runs of w · (s - (m - 3 sd)) / (6 sd)``.

    ``m`` and ``sd`` are the mean and the sample standard deviation (n - 1) of the query's hits in that run. Values are
    not clipped: beyond three sd they lie outside [0, 1]. If all hits of a query score the same (one hit, above all)
    each gets 0.5, the middle. Mazzeschi 2023; the rules follow Qdrant's DBSF.
    """

    def normalised(run: Run) -> Float64Array:
        scores, lengths = _scores(run), np.diff(run.indptr)
        same = _reduce_by_query(np.minimum, scores, run.indptr) == _reduce_by_query(np.maximum, scores, run.indptr)
        mean = _reduce_by_query(np.add, scores, run.indptr) / np.maximum(lengths, 1)
        centred = scores - np.repeat(mean, lengths)
        sigma = np.sqrt(_reduce_by_query(np.add, centred**2, run.indptr) / np.maximum(lengths - 1, 1))
        spread = np.repeat(np.where(same, 0.0, 2 * _SIGMAS * sigma), lengths)
        placed: Float64Array = np.divide(centred, spread, out=np.zeros_like(scores), where=spread > 0) + _MIDDLE
        return placed

    return _fuse(runs, weights, normalised)


def _fuse(
    runs: Sequence[Run], weights: Weights, contribution: Callable[[Run], Float64Array], *, by_scores: bool = True
) -> Run:
    """Add up the ``contribution`` of every hit of each run (float64, aligned with its rows).

    Raises RankingError for NaN and infinity, and with ``by_scores`` for minus infinity too: it has no sum or mean.
    """
    shares = _checked(weights, runs)
    for run in runs:
        ranking.check(run, finite=by_scores)
    query_ids, queries = _union([run.query_ids for run in runs])
    doc_ids, documents = _union([run.doc_ids for run in runs])
    keys: list[Int64Array] = []
    parts: list[Float64Array] = []
    for run, share, query_rows, document_rows in zip(runs, shares, queries, documents, strict=True):
        ordered = ranking.order(run)
        query = np.repeat(query_rows.astype(np.int64), np.diff(ordered.indptr))
        keys.append(query * len(doc_ids) + document_rows[ordered.rows])
        parts.append(share * contribution(ordered))
    return ranking.order(_sum(query_ids, doc_ids, np.concatenate(keys), np.concatenate(parts)))


def _checked(weights: Weights, runs: Sequence[Run]) -> tuple[float, ...]:
    if not runs:
        raise UsageError("there is nothing to fuse", fix="give at least one run")
    if weights is None:
        return (1.0,) * len(runs)
    if len(weights) != len(runs):
        raise UsageError(f"{len(weights)} weights for {len(runs)} runs", fix="give one weight for each run")
    if not all(np.isfinite(weight) and weight >= 0 for weight in weights) or not any(weights):
        weights_text = ", ".join(f"{weight:g}" for weight in weights)
        raise UsageError(
            f"the weights are {weights_text}", fix="each must be at least 0, and at least one greater than 0"
        )
    return tuple(map(float, weights))


def _union(columns: Sequence[Ids]) -> tuple[Ids, list[Int32Array]]:
    """Return the first column with additional ids of later ones, and each column's rows in it."""
    first = columns[0]
    if all(column is first or column.values.equals(first.values) for column in columns):
        return first, [np.arange(len(first), dtype=np.int32)] * len(columns)
    all_ids = Ids(pc.unique(pa.chunked_array([column.values.cast(pa.string()) for column in columns])))
    return all_ids, [all_ids.rows_of(column) for column in columns]


def _sum(query_ids: Ids, doc_ids: Ids, keys: Int64Array, parts: Float64Array) -> Run:
    """Return one hit for each (query, document) with the sum of its parts, queries in order."""
    order = np.lexsort((parts, keys))
    keys, parts = keys[order], parts[order]
    firsts = np.flatnonzero(np.diff(keys, prepend=-1))
    sums = np.add.reduceat(parts, firsts) if len(firsts) else parts
    query, document = np.divmod(keys[firsts], max(len(doc_ids), 1))
    indptr = np.searchsorted(query, np.arange(len(query_ids) + 1)).astype(np.int64)
    return Run(query_ids, doc_ids, indptr, document.astype(np.int32), sums.astype(np.float32))


def _ranks(run: Run) -> Float64Array:
    """Return the rank of every hit of an ordered run, from 1."""
    return np.arange(1, run.hits + 1, dtype=np.float64) - np.repeat(run.indptr[:-1], np.diff(run.indptr))


def _scores(run: Run) -> Float64Array:
    return run.scores.astype(np.float64)


def _reduce_by_query(reduce: np.ufunc, values: Float64Array, indptr: Int64Array) -> Float64Array:
    """Apply ``reduce`` to the slice of every query; 0 for queries without hits."""
    reduced: npt.NDArray[np.float64] = np.zeros(len(indptr) - 1, dtype=np.float64)
    answered = np.flatnonzero(np.diff(indptr) > 0)
    if len(answered):
        reduced[answered] = reduce.reduceat(values, indptr[:-1][answered])
    return reduced
