"""The judged documents that a run returned, with their ranks: the input of every metric.

A metric never looks at the run itself. Unjudged documents only take up ranks, so the judged hits, the number of
returned documents and all grades of the query determine every metric; the run is never sorted.
"""

from __future__ import annotations

from typing import NamedTuple

from harness.data.jit import inner_kernel
from harness.data.types import Float64Array, Grades, Int64Array

NO_CUTOFF = 2**31 - 1
Out = Float64Array


class JudgedHits(NamedTuple):
    """Judged documents that were returned, for every judged query (Q queries, J judgments).

    The hits of query ``q`` fill the first ``found[q]`` positions of the slice ``indptr[q]:indptr[q + 1]``, best rank
    first. ``ranks`` int64 (J,) count from 1; ``above`` int64 (J,) is the number of hits with a higher score and
    ``tied`` int64 (J,) the size of the hit's tie group, itself included; kernels get rank - 1 and 1 if the rule for
    ties leaves none. ``ideal`` (J,) holds all grades of the query, highest first, in the same slices;
    grades are int32, or float64 if the judgments are real-valued or the metric has its own gains.
    ``retrieved`` int64 (Q,) is the number of hits, judged or not.
    """

    indptr: Int64Array
    hit_counts: Int64Array
    ranks: Int64Array
    grades: Grades
    above: Int64Array
    tied: Int64Array
    ideal: Grades
    retrieved: Int64Array


class Arguments(NamedTuple):
    """The parameters of a metric as kernels take them.

    ``cutoff`` is the last rank that counts (``NO_CUTOFF`` for all), ``level`` the lowest relevant grade (an int if it
    is whole), ``extra`` the metric's own parameter (persistence, recall point …).
    """

    cutoff: int
    level: float
    extra: float


@inner_kernel
def relevant_total(judged: JudgedHits, query: int, level: float) -> int:
    """Count the documents that are relevant to the query, returned or not."""
    start = judged.indptr[query]
    # grades descend, so that a binary search finds the end of the relevant grades
    low, high = start, judged.indptr[query + 1]
    while low < high:
        middle = (low + high) // 2
        if judged.ideal[middle] >= level:
            low = middle + 1
        else:
            high = middle
    return int(low - start)
