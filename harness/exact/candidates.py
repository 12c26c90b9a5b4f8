"""Exact top-k of sums that are rounded in another way than the searched sums: candidates, scored again."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from harness.data.types import Float32Array, Int32Array
from harness.exact.topk import TopK

_SPARE = 32


def best_of_candidates(
    candidates: Callable[[int], TopK],
    score: Callable[[TopK], Float32Array],
    k: int,
    slack: float,
    *,
    position_of: Int32Array | None = None,
    above: float | None = None,
) -> TopK:
    """Return the best ``k`` documents of one query by another score.

    Args:
        candidates: Returns the best documents by the searched score, as many as requested.
        score: Returns the other score of each of their hits.
        k: At least 1.
        slack: The other score is at most the searched score, plus ``above``, times ``slack``.
        position_of: int32 (n,), the position of each row among documents of equal scores; None for the row itself.
        above: Documents with this score or less are not hits; None for all documents that are found.
    """
    width = k + _SPARE
    while True:
        top = candidates(width)
        scores = score(top)
        ties = top.rows if position_of is None else position_of[top.rows]
        order = np.lexsort((ties, -scores))[:k]
        order = order if above is None else order[scores[order] > above]
        rest_may_enter = len(top.rows) == width and (float(top.scores[-1]) + (above or 0.0)) * slack
        if not rest_may_enter or (len(order) == k and float(scores[order[-1]]) > rest_may_enter):
            return TopK(np.array([0, len(order)], dtype=np.int64), top.rows[order], scores[order])
        width *= 2
