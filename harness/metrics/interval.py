"""The best and the worst value that ties allow.

Inside a tie group the best order puts the judged documents first, highest grade first; the worst puts them last, lowest
grade first. For every measure that never loses when a higher grade moves up this gives the exact extremes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from harness.metrics.judged import JudgedHits


def extreme_placements(judged: JudgedHits) -> tuple[JudgedHits, JudgedHits]:
    """Return the same hits in their worst and in their best order."""
    return _rearranged(judged, False), _rearranged(judged, True)


def _rearranged(judged: JudgedHits, best: bool) -> JudgedHits:
    """Put the judged hits of each tie group last, lowest grade first, or first and highest grade first."""
    tied = np.flatnonzero(is_hit(judged) & (judged.tied > 1))
    query = np.searchsorted(judged.indptr, tied, side="right")
    above, size = judged.above[tied], judged.tied[tied]
    begins = np.flatnonzero(np.diff(query, prepend=-1) | np.diff(above, prepend=-1))
    lengths = np.diff(begins, append=len(tied))
    group = np.repeat(np.arange(len(begins)), lengths)
    position = np.arange(len(tied)) - np.repeat(begins, lengths)
    ranks, grades = judged.ranks.copy(), judged.grades.copy()
    ranks[tied] = above + 1 + position + (0 if best else size - np.repeat(lengths, lengths))
    of_group = judged.grades[tied].astype(np.float64)
    grades[tied] = judged.grades[tied][np.lexsort((-of_group if best else of_group, group))]
    return judged._replace(ranks=ranks, grades=grades)


def is_hit(judged: JudgedHits) -> npt.NDArray[np.bool_]:
    """Return which positions of the slices hold a judged document that was returned."""
    starts = np.repeat(judged.indptr[:-1], np.diff(judged.indptr))
    return np.arange(len(judged.ranks)) - starts < np.repeat(judged.hit_counts, np.diff(judged.indptr))
