"""The best and the worst value that ties allow.

Inside a tie group the best order puts the judged documents first, highest grade first; the worst puts them last, lowest
grade first. For every measure that never loses when a higher grade moves up this gives the exact extremes.
"""

from __future__ import annotations

import numpy as np

from harness.data.jit import kernel
from harness.data.types import Int32Array, Int64Array
from harness.metrics.judged import JudgedHits

__all__ = ["extreme_placements"]


def extreme_placements(judged: JudgedHits) -> tuple[JudgedHits, JudgedHits] | None:
    """The same hits in their worst and in their best order, or None when no judged hit is tied."""
    if not bool((judged.tied > 1).any()):
        return None
    worst, best = _rearranged(judged, False), _rearranged(judged, True)
    return worst, best


def _rearranged(judged: JudgedHits, best: bool) -> JudgedHits:
    ranks, grades = judged.ranks.copy(), judged.grades.copy()
    _rearrange(judged, best, ranks, grades)
    return judged._replace(ranks=ranks, grades=grades)


@kernel
def _rearrange(judged: JudgedHits, best: bool, ranks: Int64Array, grades: Int32Array) -> None:
    for query in range(len(judged.found)):
        first, stop = judged.indptr[query], judged.indptr[query] + judged.found[query]
        while first < stop:
            last = first + 1
            while last < stop and judged.above[last] == judged.above[first]:
                last += 1
            if judged.tied[first] > 1:
                ascending = np.sort(judged.grades[first:last])
                before = judged.above[first] if best else judged.above[first] + judged.tied[first] - (last - first)
                for place in range(last - first):
                    grades[first + place] = ascending[last - first - 1 - place] if best else ascending[place]
                    ranks[first + place] = before + place + 1
            first = last
