"""What a hypothesis about a difference is given, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from harness.data.types import Float32Array, Float64Array, Int32Array, Int64Array, Run
from harness.parity.oracles import Oracle

__all__ = ["Case", "Hypothesis", "Rescored", "plain"]


@dataclass(frozen=True, eq=False, slots=True)
class Case:
    """Queries that need an explanation: the engine's run, its oracle for the same queries, and what is known.

    ``missing_rows`` are documents that the engine is known not to hold; ``graph`` says that it searches a graph, which
    may miss some that it holds.
    """

    run: Run
    oracle: Oracle
    k: int
    tolerance: float
    missing_rows: Int32Array
    graph: bool = False


class Rescored(NamedTuple):
    """The case under one changed assumption.

    ``run`` are the engine's hits that count, ``oracle`` the exact ranking, ``true_scores`` float32 aligned with
    ``run``; per query: ``k`` int64, and the relative tolerances of the ranking and of the scores, float64.
    """

    run: Run
    oracle: Run
    true_scores: Float32Array
    k: Int64Array
    tie_tolerance: Float64Array
    score_tolerance: Float64Array


class Hypothesis(Protocol):
    """One possible cause of a difference."""

    @property
    def name(self) -> str:
        """What the report calls the cause."""

    @property
    def meaning(self) -> str:
        """The cause in one sentence, for the documentation and the legend of a report."""

    def rescore(self, case: Case) -> Rescored | None:
        """The case with this one thing changed; None where it cannot be changed or would change nothing."""


def plain(case: Case, run: Run, oracle: Oracle) -> Rescored:
    """The case with another ``run`` or ``oracle``, and its own k and tolerance."""
    queries = len(run.query_ids)
    tolerance = np.full(queries, case.tolerance)
    k = np.full(queries, case.k, dtype=np.int64)
    return Rescored(run, oracle.retrieve(case.k), oracle.score(run), k, tolerance, tolerance)
