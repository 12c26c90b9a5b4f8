"""Compare a run with its reference: levels of agreement, score differences, and the proven cause of each difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from harness.data import ranking
from harness.data.filtering import BoolArray
from harness.data.jit import inner_kernel, kernel
from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, Run
from harness.errors import RankingError, UsageError
from harness.metrics.agreement import RBO_P, overlap, rbo, same_axes
from harness.parity.causes import HYPOTHESES, UNKNOWN, Case, Hypothesis
from harness.parity.references import DenseReference, Reference

_SHALLOW = 10

Int8Array = npt.NDArray[np.int8]


class Level(IntEnum):
    """Agreement of a query's ranking with its reference; each level includes the levels with larger numbers."""

    DIFFERENT = 0
    """Some rank holds a document that the reference scores differently, or the number of hits differs."""
    TIE_EQUIVALENT = 1
    """At every rank the reference scores of the two documents differ by at most the stated tolerance."""
    IDENTICAL = 2
    """The same documents in the same order."""
    BIT_EQUAL = 3
    """The same documents in the same order, with the same float32 scores, bit for bit."""


@dataclass(frozen=True, eq=False, slots=True)
class QueryParity:
    """One value for every query, in the run's order.

    ``level`` int8 (Q,) of :class:`Level`; ``overlap`` depth -> float64 (Q,); ``rbo`` float64 (Q,);
    ``max_abs_score_diff`` and ``max_rel_score_diff`` float64 (Q,), 0.0 for a query without hits; ``cause`` is None
    where the reference agrees within the tolerance.
    """

    level: Int8Array
    overlap: Mapping[int, Float64Array]
    rbo: Float64Array
    max_abs_score_diff: Float64Array
    max_rel_score_diff: Float64Array
    cause: tuple[str | None, ...]


@dataclass(frozen=True, eq=False, slots=True)
class Parity:
    """Agreement of a run with its reference, over all queries.

    The counts are nested: a bit-equal query is identical, an identical one tie-equivalent;
    ``different = queries - tie_equivalent``. ``reference`` and ``mode`` name the reference. ``tolerance`` is the
    engine's stated relative tolerance of scores. ``overlap`` (depth -> mean) and ``rbo`` (mean, persistence ``rbo_p``)
    take rankings as they are, ties included, so a tie-equivalent run may stay below 1. Score differences compare the
    engine's score of each of its hits with the reference score of the same document; the relative one divides by the
    larger of the two, for dense vectors by the largest score that the query could have. Over no queries, means are 1.0
    and differences 0.0.

    ``causes`` counts the queries that are different or whose scores differ by more than the tolerance, by proven
    cause; ``unknown`` is a defect of the harness.
    """

    reference: str
    mode: str
    tolerance: float
    k: int
    queries: int
    bit_equal: int
    identical: int
    tie_equivalent: int
    different: int
    overlap: Mapping[int, float]
    rbo: float
    rbo_p: float
    max_abs_score_diff: float
    max_rel_score_diff: float
    causes: Mapping[str, int]
    per_query: QueryParity = field(repr=False)

    @property
    def recall(self) -> dict[int, float]:
        """Return depth -> mean share of the exact best that were found: all of them for a tie-equivalent query.

        A query that is different counts by its overlap, so that a document tied at the depth may count as not found.
        """
        agrees = self.per_query.level >= Level.TIE_EQUIVALENT
        shares_by_depth = {depth: np.where(agrees, 1.0, shares) for depth, shares in self.per_query.overlap.items()}
        return {depth: float(shares.mean()) if self.queries else 1.0 for depth, shares in shares_by_depth.items()}


class Judgements(NamedTuple):
    """Per query: ``level`` int8, largest absolute and relative score difference float64, all (Q,)."""

    level: Int8Array
    max_abs: Float64Array
    max_rel: Float64Array


class _Ranking(NamedTuple):
    indptr: Int64Array
    rows: Int32Array
    scores: Float32Array


# Kernels see an attribute of an enumeration as an object: they take plain integers.
_DIFFERENT, _TIE_EQUIVALENT, _IDENTICAL, _BIT_EQUAL = map(int, Level)


def compare_run(
    run: Run,
    reference: Reference,
    *,
    k: int,
    tolerance: float,
    missing_rows: Int32Array | None = None,
    approximate: bool = False,
    compared: DenseReference | None = None,
    ordered: DenseReference | None = None,
    hypotheses: Iterable[Hypothesis] | Callable[[], Iterable[Hypothesis]] = HYPOTHESES,
) -> Parity:
    """Compare an engine's ``run`` of ``k`` hits with its reference for the same queries.

    Queries that are different, or whose scores differ by more than the tolerance, get a cause.

    Args:
        run: The engine's hits, in its own order.
        reference: The exact result.
        k: Number of hits that the engine was to return, at least 1.
        tolerance: The score difference that the engine states (0: none), relative to the score, and for dense vectors
            to the largest that the query could have.
        missing_rows: Documents that the engine is known not to hold.
        approximate: The engine's search may miss documents that it holds.
        compared: The exact result for the vectors that the engine's scores are made of, if these are others.
        ordered: That for the vectors that its index compares, if these are others again.
        hypotheses: Causes to try, in this order; a function is called only if a query needs a cause.

    Raises:
        UsageError: k is below 1, or the tolerance outside [0, 1).
        RankingError: The run has NaN scores, repeated documents, or other queries or documents than the reference.
    """
    if k < 1 or not 0 <= tolerance < 1:
        raise UsageError(f"parity at k = {k} and tolerance {tolerance}", fix="k is at least 1, the tolerance in [0, 1)")
    exact = reference.retrieve(k)
    same_axes(run, exact)
    if len(run.rows) and not (run.rows.min() >= 0 and run.rows.max() < len(run.doc_ids)):
        raise RankingError("a run names documents outside its corpus", fix="this is a defect of the engine")
    ranking.check(run)
    queries = len(run.query_ids)
    depth, allowed = np.full(queries, k, dtype=np.int64), np.full(queries, tolerance)
    verdict = judge(run, reference.score(run), exact, depth, allowed, reference.scale)
    pending = np.flatnonzero((verdict.level == Level.DIFFERENT) | (verdict.max_rel > tolerance)).astype(np.int32)
    missing = np.empty(0, dtype=np.int32) if missing_rows is None else missing_rows
    cause: list[str | None] = [None] * queries
    if len(pending):
        case = Case(run, reference, k, tolerance, missing, approximate, compared, ordered)
        tried = hypotheses() if callable(hypotheses) else hypotheses
        for query, name in zip(pending, explain(case.of_queries(pending), tried), strict=True):
            cause[query] = name
    per_query = QueryParity(
        level=verdict.level,
        overlap={depth: overlap(run, exact, depth) for depth in sorted({min(_SHALLOW, k), k})},
        rbo=rbo(run, exact, RBO_P),
        max_abs_score_diff=verdict.max_abs,
        max_rel_score_diff=verdict.max_rel,
        cause=tuple(cause),
    )
    return _summarise(reference, tolerance, k, verdict, per_query)


def explain(case: Case, hypotheses: Iterable[Hypothesis] = HYPOTHESES) -> list[str]:
    """Return the first hypothesis that is proven for each query of the case, ``unknown`` if none is.

    Every hypothesis re-scores only the queries that are still unexplained.
    """
    causes = [UNKNOWN] * len(case.run.query_ids)
    left = np.arange(len(causes), dtype=np.int32)
    for hypothesis in hypotheses:
        if len(left) == 0:
            break
        proven = _proven(case.of_queries(left), hypothesis)
        for query in left[proven]:
            causes[query] = hypothesis.name
        left = left[~proven]
    return causes


def _proven(case: Case, hypothesis: Hypothesis) -> BoolArray:
    rescored = hypothesis.rescore(case)
    if rescored is None:
        return np.zeros(len(case.run.query_ids), dtype=np.bool_)
    run, exact, true_scores, k, tie_tolerance, score_tolerance = rescored
    verdict = judge(run, true_scores, exact, k, tie_tolerance, case.reference.scale)
    return (verdict.level >= Level.TIE_EQUIVALENT) & (verdict.max_rel <= score_tolerance)


def _summarise(reference: Reference, tolerance: float, k: int, verdict: Judgements, per_query: QueryParity) -> Parity:
    reached = {level: int(np.count_nonzero(verdict.level >= level)) for level in Level}
    return Parity(
        reference=reference.name,
        mode=reference.mode,
        tolerance=tolerance,
        k=k,
        queries=len(verdict.level),
        bit_equal=reached[Level.BIT_EQUAL],
        identical=reached[Level.IDENTICAL],
        tie_equivalent=reached[Level.TIE_EQUIVALENT],
        different=len(verdict.level) - reached[Level.TIE_EQUIVALENT],
        overlap={depth: float(shares.mean()) if len(shares) else 1.0 for depth, shares in per_query.overlap.items()},
        rbo=float(per_query.rbo.mean()) if len(per_query.rbo) else 1.0,
        rbo_p=RBO_P,
        max_abs_score_diff=float(verdict.max_abs.max(initial=0.0)),
        max_rel_score_diff=float(verdict.max_rel.max(initial=0.0)),
        causes=dict(Counter(cause for cause in per_query.cause if cause is not None).most_common()),
        per_query=per_query,
    )


def judge(
    run: Run,
    true_scores: Float32Array,
    exact: Run,
    k: Int64Array,
    tolerance: Float64Array,
    scale: Float64Array | None = None,
) -> Judgements:
    """Judge every query of an engine's ``run`` against the ``exact`` best ``k`` (int64, one for each query).

    ``true_scores`` float32 (H,) are the reference scores of the engine's hits, whether the reference returned them or
    not; ``tolerance`` float64 (Q,) is relative, to ``scale`` float64 (Q,) if that is larger than the scores. A query is
    tie-equivalent when

    - it has as many hits as the reference, each document once;
    - at every rank the reference scores of the two documents differ by at most the tolerance, relative to the larger;
    - every document of the exact ``k`` that the engine left out is tied with the last of them: above the tie group that
      ``k`` cuts, nothing may be missing. (With a tolerance above 0 the first two conditions would allow a chain of
      near-ties to push a document out from far above the cut.)

    Engine scores play no part in it. Both runs answer the same queries over the same documents.
    """
    engine, reference = (_Ranking(ranking.indptr, ranking.rows, ranking.scores) for ranking in (run, exact))
    base = np.zeros(len(k)) if scale is None else scale
    return Judgements(*_judge(engine, true_scores, reference, len(run.doc_ids), k, tolerance, base))


@inner_kernel
def _close(a: float, b: float, tolerance: float, scale: float) -> bool:
    return abs(a - b) <= tolerance * max(abs(a), abs(b), scale)


@inner_kernel
def _differences(scores: Float32Array, true: Float32Array, scale: float) -> tuple[float, float]:
    largest_abs, largest_rel = 0.0, 0.0
    for position in range(len(scores)):
        a, b = np.float64(scores[position]), np.float64(true[position])
        difference = abs(a - b)
        if difference > 0.0:
            largest_abs = max(largest_abs, difference)
            largest_rel = max(largest_rel, difference / max(abs(a), abs(b), scale))
    return largest_abs, largest_rel


@inner_kernel
def _nothing_lost(
    rows: Int32Array, scores: Float32Array, seen: Int64Array, query: int, k: int, slack: float, scale: float
) -> bool:
    """Return whether the engine has every document of the exact ranking, except those tied with the last at a cut."""
    last = len(rows) - 1
    for position in range(len(rows)):
        is_tied_at_cut = len(rows) == k and _close(np.float64(scores[position]), np.float64(scores[last]), slack, scale)
        if seen[rows[position]] != query and not is_tied_at_cut:
            return False
    return True


@inner_kernel
def _are_equal(array: npt.NDArray[np.integer[Any]], other: npt.NDArray[np.integer[Any]]) -> bool:
    """Return whether two arrays of one length are equal; NumPy's function would load SciPy's linear algebra."""
    equal = True
    for position in range(len(array)):
        equal &= array[position] == other[position]
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
        hits = slice(engine.indptr[query], engine.indptr[query + 1])
        exact_hits = slice(exact.indptr[query], exact.indptr[query + 1])
        rows, true = engine.rows[hits], true_scores[hits]
        best, best_scores = exact.rows[exact_hits], exact.scores[exact_hits]
        max_abs[query], max_rel[query] = _differences(engine.scores[hits], true, scale[query])
        level[query] = _DIFFERENT
        if len(rows) != len(best):
            continue
        if _are_equal(rows, best):
            same_bits = _are_equal(engine.scores[hits].view(np.uint32), best_scores.view(np.uint32))
            level[query] = _BIT_EQUAL if same_bits else _IDENTICAL
            continue
        equivalent = True
        for position in range(len(rows)):
            repeated = seen[rows[position]] == query
            seen[rows[position]] = query
            a, b = np.float64(true[position]), np.float64(best_scores[position])
            if repeated or not _close(a, b, tolerance[query], scale[query]):
                equivalent = False
                break
        if equivalent and _nothing_lost(best, best_scores, seen, query, k[query], tolerance[query], scale[query]):
            level[query] = _TIE_EQUIVALENT
    return level, max_abs, max_rel
