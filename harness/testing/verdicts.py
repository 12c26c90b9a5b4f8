"""The assertions of the contract suite: is a search result well formed, and is it the right answer?"""

from __future__ import annotations

import numpy as np

from harness.data.types import Float64Array, Int32Array
from harness.engines.interface import SearchResult
from harness.testing.drive import STEP_NS
from harness.testing.oracle import Expected

__all__ = ["assert_exact", "assert_same", "assert_same_scores", "assert_scores", "assert_well_formed", "recall"]


def assert_well_formed(result: SearchResult, queries: int, documents: int, k: int) -> None:
    """Shapes, dtypes and bounds of every array, at most ``k`` hits a query, no row twice, scores never rising."""
    indptr, rows, scores = result.indptr, result.rows, result.scores
    assert indptr.dtype == np.int64, f"indptr is {indptr.dtype}, not int64"
    assert rows.dtype == np.int32, f"rows are {rows.dtype}, not int32"
    assert scores.dtype == np.float32, f"scores are {scores.dtype}, not float32"
    assert indptr.shape == (queries + 1,), f"indptr has shape {indptr.shape} for {queries} queries"
    assert indptr[0] == 0, "indptr does not begin with 0"
    assert indptr[-1] == len(rows) == len(scores), "indptr, rows and scores disagree on the number of hits"
    lengths = np.diff(indptr)
    assert np.all(lengths >= 0), "indptr falls"
    assert np.all(lengths <= k), f"a query has {lengths.max()} hits for k = {k}"
    assert np.all((rows >= 0) & (rows < documents)), "a hit is no row of the documents"
    assert np.all(np.isfinite(scores)), "a score is NaN or infinite"
    for query in range(queries):
        hits = slice(int(indptr[query]), int(indptr[query + 1]))
        assert len(set(rows[hits].tolist())) == lengths[query], f"query {query}: a document is returned twice"
        assert np.all(np.diff(scores[hits]) <= 0), f"query {query}: a score is higher than the one before it"
    assert_timed(result, queries)


def assert_timed(result: SearchResult, queries: int) -> None:
    """One positive search time and one transfer time a query, both taken from the clock that was handed in."""
    for name, times in (("search_ns", result.search_ns), ("transfer_ns", result.transfer_ns)):
        assert times.dtype == np.int64, f"{name} is {times.dtype}, not int64"
        assert times.shape == (queries,), f"{name} has shape {times.shape} for {queries} queries"
        assert np.all(times % STEP_NS == 0), f"{name} was not measured with the clock handed in"
    assert np.all(result.search_ns > 0), "a search took no time"
    assert np.all(result.transfer_ns >= 0), "a transfer took negative time"


def assert_exact(result: SearchResult, expected: Expected, k: int, tolerance: float) -> None:
    """The right documents: as many as match, up to ``k``, and each rank's exact score within the tolerance.

    Under a tolerance a document may stand at the rank of a better one, if their exact scores are that close.
    """
    assert_scores(result, expected, tolerance)
    for query, (scores, matches) in enumerate(zip(expected.scores, expected.matches, strict=True)):
        rows = _rows(result, query)
        wanted = min(k, int(matches.sum()))
        assert len(rows) == wanted, f"query {query}, k = {k}: {len(rows)} hits where {wanted} documents match"
        best = np.sort(scores[matches])[::-1][:wanted]
        off = np.abs(scores[rows] - best) > _allowed(best, tolerance, expected, query)
        if off.any():
            rank = int(np.argmax(off))
            message = f"row {rows[rank]} scores {scores[rows[rank]]!r}, the best left scores {best[rank]!r}"
            raise AssertionError(f"query {query}, k = {k}, rank {rank + 1}: {message}")


def assert_scores(result: SearchResult, expected: Expected, tolerance: float) -> None:
    """Only documents that match, each with its own exact score within the tolerance."""
    for query, (scores, matches) in enumerate(zip(expected.scores, expected.matches, strict=True)):
        rows = _rows(result, query)
        stray = rows[~matches[rows]]
        assert len(stray) == 0, f"query {query}: rows {stray.tolist()} do not match it"
        found = result.scores[int(result.indptr[query]) : int(result.indptr[query + 1])].astype(np.float64)
        off = np.abs(found - scores[rows]) > _allowed(scores[rows], tolerance, expected, query)
        if off.any():
            hit = int(np.argmax(off))
            raise AssertionError(f"query {query}, row {rows[hit]}: score {found[hit]!r}, exact {scores[rows[hit]]!r}")


def recall(result: SearchResult, expected: Expected, k: int) -> float:
    """Mean share of each query's best ``k`` that was found, ties in its favour; 1.0 when nothing matches."""
    shares = []
    for query, (scores, matches) in enumerate(zip(expected.scores, expected.matches, strict=True)):
        wanted = min(k, int(matches.sum()))
        if wanted:
            floor = np.sort(scores[matches])[::-1][wanted - 1]
            shares.append(min(1.0, float(np.sum(scores[_rows(result, query)] >= floor)) / wanted))
    return float(np.mean(shares)) if shares else 1.0


def assert_same(one: SearchResult, other: SearchResult, what: str) -> None:
    """Equal hits in equal order with equal scores, bit for bit."""
    assert np.array_equal(one.indptr, other.indptr), f"{what}: other numbers of hits"
    assert np.array_equal(one.rows, other.rows), f"{what}: other documents, or in another order"
    assert np.array_equal(one.scores, other.scores), f"{what}: other scores"


def assert_same_scores(one: SearchResult, other: SearchResult, what: str) -> None:
    """Equal scores, bit for bit; equal documents but for those that share a score with another, or with the cut."""
    assert np.array_equal(one.indptr, other.indptr), f"{what}: other numbers of hits"
    assert np.array_equal(one.scores, other.scores), f"{what}: other scores"
    for query in range(len(one.indptr) - 1):
        hits = slice(int(one.indptr[query]), int(one.indptr[query + 1]))
        scores = one.scores[hits]
        for score in set(scores[:-1].tolist()) - set(scores[-1:].tolist()):
            first, second = (set(result.rows[hits][scores == score].tolist()) for result in (one, other))
            assert first == second, f"{what}: query {query} has other documents that score {score}"


def _rows(result: SearchResult, query: int) -> Int32Array:
    return result.rows[int(result.indptr[query]) : int(result.indptr[query + 1])]


def _allowed(scores: Float64Array, tolerance: float, expected: Expected, query: int) -> Float64Array:
    float32_step = np.spacing(np.abs(scores).astype(np.float32)).astype(np.float64)
    scale = np.abs(scores) if expected.scale is None else expected.scale[query]
    allowed: Float64Array = tolerance * scale + float32_step
    return allowed
