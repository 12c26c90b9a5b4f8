"""Compare a run with its reference: levels, agreement, score differences, and the proven cause of each difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from harness.data import ranking
from harness.data.filtering import BoolArray
from harness.data.types import Int32Array, Run
from harness.errors import RankingError, UsageError
from harness.metrics.agreement import RBO_P, overlap, rbo, same_axes
from harness.parity.causes import HYPOTHESES, UNKNOWN, Case, Hypothesis
from harness.parity.levels import Judgements, Level, Parity, QueryParity, judge
from harness.parity.references import DenseReference, Reference

_SHALLOW = 10


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
