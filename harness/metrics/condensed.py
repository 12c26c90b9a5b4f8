"""Condensed lists: a ranking without the hits that have no judgment, as ``trec_eval -J`` scores it.

Source: T. Sakai, Alternatives to Bpref, SIGIR 2007. Which hits are judged is as in trec_eval: a negative grade is a
document of the pool that was not judged.
"""

from __future__ import annotations

import numpy as np

from harness.data.types import Int64Array, owners
from harness.metrics.alternatives import COUNTED_ALREADY
from harness.metrics.interval import is_hit
from harness.metrics.judged import JudgedHits


def condensed(judged: JudgedHits) -> JudgedHits:
    """Return the hits with their ranks and tie groups among the judged hits of their query only."""
    positions = np.flatnonzero(is_hit(judged) & ((judged.grades >= 0) | (judged.grades == COUNTED_ALREADY)))
    query = owners(judged.indptr)[positions]
    counts = np.bincount(query, minlength=len(judged.hit_counts)).astype(np.int64)
    first = np.cumsum(counts) - counts
    order = np.arange(len(positions)) - first[query]
    begins = np.ones(len(positions), dtype=np.bool_)
    begins[1:] = (query[1:] != query[:-1]) | (judged.above[positions][1:] != judged.above[positions][:-1])
    group = np.cumsum(begins) - 1
    starts = np.flatnonzero(begins)
    target = judged.indptr[query] + order

    def placed(values: Int64Array) -> Int64Array:
        array = np.zeros_like(judged.ranks)
        array[target] = values
        return array

    grades = np.zeros_like(judged.grades)
    grades[target] = judged.grades[positions]
    above = order[starts][group] if len(positions) else order
    tied = np.diff(starts, append=len(positions))[group] if len(positions) else order
    return judged._replace(
        hit_counts=counts,
        ranks=placed(order + 1),
        grades=grades,
        above=placed(above),
        tied=placed(tied),
        retrieved=counts,
    )
