"""One query's ranking against the exact one: the level of agreement and the score differences."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data.jit import inner_kernel, kernel
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, Run
from harness.parity.result import Int8Array, Level

__all__ = ["Judgements", "judge"]

_DIFFERENT = int(Level.DIFFERENT)
_TIE_EQUIVALENT = int(Level.TIE_EQUIVALENT)
_IDENTICAL = int(Level.IDENTICAL)
_BIT_EQUAL = int(Level.BIT_EQUAL)


class Judgements(NamedTuple):
    """Per query: ``level`` int8, largest absolute and relative score difference float64, all (Q,)."""

    level: Int8Array
    max_abs: Float64Array
    max_rel: Float64Array


class _Ranking(NamedTuple):
    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array


def judge(
    run: Run,
    true_scores: Float32Array,
    oracle: Run,
    k: Int64Array,
    tolerance: Float64Array,
    scale: Float64Array | None = None,
) -> Judgements:
    """Judge every query of an engine's ``run`` against the ``oracle``'s best ``k`` (int64, one for each query).

    ``true_scores`` float32 (H,) are the oracle's scores of the engine's hits, whether the oracle returned them or not;
    ``tolerance`` float64 (Q,) is relative, to ``scale`` float64 (Q,) where that is larger than the scores. A query is
    tie-equivalent when

    - it has as many hits as the oracle, each document once;
    - at every rank the oracle's scores of the two documents differ by at most the tolerance, relative to the larger;
    - whatever the engine left out of the oracle's ``k`` documents is tied with the last of them: above the tie group
      that ``k`` cuts, nothing may be missing. (With a tolerance above 0 the first two conditions would allow a chain of
      near-ties to push a document out from far above the cut.)

    Engine scores play no part in it. Both runs answer the same queries over the same documents.
    """
    engine = _Ranking(run.indptr, run.rows, run.scores)
    exact = _Ranking(oracle.indptr, oracle.rows, oracle.scores)
    least = np.zeros(len(k)) if scale is None else scale
    return Judgements(*_judge(engine, true_scores, exact, len(run.doc_ids), k, tolerance, least))


@inner_kernel
def _close(a: float, b: float, tolerance: float, scale: float) -> bool:
    return abs(a - b) <= tolerance * max(abs(a), abs(b), scale)


@inner_kernel
def _differences(given: Float32Array, true: Float32Array, scale: float) -> tuple[float, float]:
    largest_abs, largest_rel = 0.0, 0.0
    for place in range(len(given)):
        a, b = np.float64(given[place]), np.float64(true[place])
        difference = abs(a - b)
        if difference > 0.0:
            largest_abs = max(largest_abs, difference)
            largest_rel = max(largest_rel, difference / max(abs(a), abs(b), scale))
    return largest_abs, largest_rel


@inner_kernel
def _nothing_lost(
    rows: Int32Array, scores: Float32Array, seen: Int64Array, query: int, k: int, slack: float, scale: float
) -> bool:
    """Is every document of the exact ranking among the engine's, save those tied with the last at a cut?"""
    last = len(rows) - 1
    for place in range(len(rows)):
        tied_at_cut = len(rows) == k and _close(np.float64(scores[place]), np.float64(scores[last]), slack, scale)
        if seen[rows[place]] != query and not tied_at_cut:
            return False
    return True


@inner_kernel
def _are_equal(one: npt.NDArray[np.integer[Any]], other: npt.NDArray[np.integer[Any]]) -> bool:
    """Whether two arrays of one length are equal; NumPy's function would load SciPy's linear algebra."""
    equal = True
    for place in range(len(one)):
        equal &= one[place] == other[place]
    return equal


@kernel
def _judge(
    engine: _Ranking,
    true_scores: Float32Array,
    exact: _Ranking,
    documents: int,
    k: Int64Array,
    tolerance: Float64Array,
    scale: Float64Array,
) -> tuple[Int8Array, Float64Array, Float64Array]:
    queries = len(engine.indptr) - 1
    level = np.zeros(queries, dtype=np.int8)
    max_abs, max_rel = np.zeros(queries), np.zeros(queries)
    seen = np.full(documents, -1, dtype=np.int64)
    for query in range(queries):
        ours = slice(engine.indptr[query], engine.indptr[query + 1])
        theirs = slice(exact.indptr[query], exact.indptr[query + 1])
        rows, true = engine.rows[ours], true_scores[ours]
        best, best_scores = exact.rows[theirs], exact.scores[theirs]
        max_abs[query], max_rel[query] = _differences(engine.scores[ours], true, scale[query])
        level[query] = _DIFFERENT
        if len(rows) != len(best):
            continue
        if _are_equal(rows, best):
            same_bits = _are_equal(engine.scores[ours].view(np.uint32), best_scores.view(np.uint32))
            level[query] = _BIT_EQUAL if same_bits else _IDENTICAL
            continue
        equivalent = True
        for place in range(len(rows)):
            repeated = seen[rows[place]] == query
            seen[rows[place]] = query
            a, b = np.float64(true[place]), np.float64(best_scores[place])
            if repeated or not _close(a, b, tolerance[query], scale[query]):
                equivalent = False
                break
        if equivalent and _nothing_lost(best, best_scores, seen, query, k[query], tolerance[query], scale[query]):
            level[query] = _TIE_EQUIVALENT
    return level, max_abs, max_rel
