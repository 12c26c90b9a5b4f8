"""Times of phases and percentiles with the number of samples beside them.

Every figure comes from raw nanosecond samples of all repeats: no best-of, no averages of averages.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.data.types import Int64Array

__all__ = ["Latency", "latency"]

_NS_PER_MS = 1e6


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency of single queries in milliseconds; ``n`` samples stand behind every figure."""

    p50: float
    p90: float
    p95: float
    p99: float
    mean: float
    n: int


def latency(samples_ns: Int64Array) -> Latency:
    """Percentiles of ``samples_ns`` (int64, any shape, at least one sample).

    A percentile is the smallest sample that at least that share of all samples does not exceed (the inverse of the
    empirical distribution function), so it is always a latency that was really seen. Raises ValueError without samples.
    """
    flat = np.ravel(samples_ns)
    if len(flat) == 0:
        raise ValueError("a percentile needs at least one sample")
    p50, p90, p95, p99 = (float(value) / _NS_PER_MS for value in np.percentile(flat, _SHARES, method="inverted_cdf"))
    return Latency(p50, p90, p95, p99, float(flat.mean()) / _NS_PER_MS, len(flat))


_SHARES = (50, 90, 95, 99)
