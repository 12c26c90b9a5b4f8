"""How far hits without a judgment could move a metric: its value if all of them were relevant.

The ordinary value takes every unjudged hit for irrelevant. The other extreme gives each unjudged hit that the metric
looks at (its first k hits, all hits without a cutoff) the lowest relevant grade; it then also belongs to the ideal
ranking and to R. For a metric that only adds up gains (P, RR, Success, DCG, RBP) every other labelling of these hits
lies between both values, which for RBP is its residual (Moffat and Zobel, TOIS 27(1), 2008). A metric that is divided
by what could be found (nDCG, AP, R) may be lower if all are relevant than if none is, and higher for some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from harness.data.types import Float64Array, Grades, offsets_of, owners
from harness.metrics.alternatives import COUNTED_ALREADY
from harness.metrics.interval import is_hit
from harness.metrics.judged import JudgedHits

_HITS_AT_A_TIME = 2_000_000


def values_if_relevant(
    judged: JudgedHits, cutoff: int, level: float, fill: Callable[[JudgedHits, Float64Array], None]
) -> Float64Array:
    """Return a metric's value for each query if its unjudged hits were relevant: float64 (Q,).

    Args:
        judged: Hits in an order without ties.
        cutoff: The last rank whose hits are taken for relevant.
        level: The grade that they get.
        fill: Computes the metric.
    """
    values = np.zeros(len(judged.hit_counts))
    for start, stop in _blocks(np.minimum(judged.retrieved, cutoff) + np.diff(judged.indptr)):
        fill(_judge_as_relevant(_block(judged, start, stop), cutoff, level), values[start:stop])
    return values


def _blocks(sizes: np.ndarray) -> Iterator[tuple[int, int]]:
    """Yield consecutive queries that have at most so many hits together, at least one query each time."""
    start = 0
    ends = np.cumsum(sizes)
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, before + _HITS_AT_A_TIME, side="right")), start + 1)
        yield start, stop
        start = stop


def _block(judged: JudgedHits, start: int, stop: int) -> JudgedHits:
    """Return the hits of consecutive queries."""
    first, last = int(judged.indptr[start]), int(judged.indptr[stop])
    of_hits = {name: getattr(judged, name)[first:last] for name in ("ranks", "grades", "above", "tied", "ideal")}
    return judged._replace(
        indptr=judged.indptr[start : stop + 1] - first,
        hit_counts=judged.hit_counts[start:stop],
        retrieved=judged.retrieved[start:stop],
        **of_hits,
    )


def _judge_as_relevant(judged: JudgedHits, cutoff: int, level: float) -> JudgedHits:
    """Return hits in which every unjudged one of the first ``cutoff`` is judged, with grade ``level``."""
    queries, owner = len(judged.hit_counts), owners(judged.indptr)
    depth = np.minimum(judged.retrieved, cutoff)
    hits = np.flatnonzero(is_hit(judged))
    within = judged.ranks[hits] <= depth[owner[hits]]
    judged_hits = hits[within & ((judged.grades[hits] >= 0) | (judged.grades[hits] == COUNTED_ALREADY))]
    further = hits[~within]
    added = depth - np.bincount(owner[judged_hits], minlength=queries)
    beyond = np.bincount(owner[further], minlength=queries)
    indptr = offsets_of(np.diff(judged.indptr) + added)
    has_whole_grades = judged.ideal.dtype.kind == "i" and float(level).is_integer()
    ranks = np.zeros(int(indptr[-1]), dtype=np.int64)
    grades: Grades = ranks.astype(np.int32) if has_whole_grades else ranks.astype(np.float64)
    first = np.arange(int(depth.sum())) - np.repeat(np.cumsum(depth) - depth, depth)
    positions = np.repeat(indptr[:-1], depth) + first
    ranks[positions], grades[positions] = first + 1, level
    grades[indptr[owner[judged_hits]] + judged.ranks[judged_hits] - 1] = judged.grades[judged_hits]
    order = np.arange(len(further)) - (np.cumsum(beyond) - beyond)[owner[further]]
    positions = indptr[owner[further]] + depth[owner[further]] + order
    ranks[positions], grades[positions] = judged.ranks[further], judged.grades[further]
    all_owners = np.concatenate([owner, np.repeat(np.arange(queries), added)])
    all_grades = np.concatenate([judged.ideal, np.full(int(added.sum()), level, dtype=grades.dtype)])
    ideal = all_grades[np.lexsort((-all_grades.astype(np.float64), all_owners))]
    hit_counts = (depth + beyond).astype(np.int64)
    return JudgedHits(indptr, hit_counts, ranks, grades, ranks - 1, np.ones_like(ranks), ideal, judged.retrieved)
