"""The spread of several results of the same kind: figures, and rankings."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from harness.data.types import Run
from harness.errors import UsageError
from harness.metrics.agreement import overlap


class Spread(NamedTuple):
    """Mean, sample standard deviation (n - 1), least and largest of a few values."""

    mean: float
    sd: float
    low: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of at least two finite values; equal values have a standard deviation of exactly 0.

    Raises UsageError for fewer than two.
    """
    if len(values) < 2:
        raise UsageError(f"the spread of {len(values)} values", fix="give at least 2")
    return Spread(statistics.mean(values), statistics.stdev(values), min(values), max(values))


def pairwise_overlap(runs: Sequence[Run], depth: int) -> float:
    """Return the mean :func:`harness.metrics.agreement.overlap` at ``depth`` over all queries and pairs of ``runs``.

    1.0 if there is no query. Raises UsageError for fewer than two runs or a depth below 1, RankingError for runs over
    other queries or documents.
    """
    if len(runs) < 2:
        raise UsageError(f"the overlap of {len(runs)} runs with one another", fix="give at least 2")
    shares = [overlap(a, b, depth) for a, b in combinations(runs, 2)]
    return statistics.fmean(float(share.mean()) for share in shares) if len(shares[0]) else 1.0
