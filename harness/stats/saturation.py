"""Find the knee of an open loop: the largest rate that a backend sustains, and which rate to measure next.

A rate is sustained if it is not an overload (:func:`harness.stats.timing.open_loop`), at most one query in a hundred
fails, and the 99th percentile stays at most :data:`P99_FACTOR` times as high as the backend's at rest. The knee is the
largest rate that is sustained together with every lower rate that was measured.

The percentile at rest is the lowest 99th percentile of the sweep, among rates that end without overload or errors. With
few queries it is the time of the slowest query and mostly misses the tail that later rates show: each rate is held
until :data:`ENOUGH` queries are due, or for :data:`_LONGEST` times the requested seconds, and only rates with that many
queries count for it (if no rate has that many, the rates with the most).

It is the rule of MLPerf Inference's server scenario (Reddi et al., *MLPerf Inference Benchmark*, ISCA 2020): the
largest rate of random arrivals at which a percentile stays within a bound. There the bound is part of the task; here it
follows from the backend at rest. For one server with exponential times of service (M/M/1) at load r percentiles are
1/(1 - r) times those at rest, so a factor of 5 is a load of 80 %. Rules of curvature such as Kneedle (Satopää et al.,
2011) were rejected: they need a smooth curve of many points, and a percentile is neither.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

P99_FACTOR = 5.0
ENOUGH = 300
_LONGEST = 12.0
REST_SHARE = 1 / 8
"""The share of a rate that leaves a backend at rest: p99 of M/M/1 is 1.14 times the p99 of an idle backend."""
MOST_LEVELS = 20
_FINE = 1.1
_FAILED_SHARE = 0.01
_DIGITS = 3
Limit = Literal["overload", "errors", "p99"]


class RateLevel(NamedTuple):
    """A measured rate: queries a second, the 99th percentile (None without an answer), and what failed.

    ``queries`` is how many latencies the percentile is of.
    """

    rate: float
    p99_ms: float | None
    overloaded: bool
    failed_share: float
    queries: int


class Knee(NamedTuple):
    """The end of a backend's throughput.

    ``level`` is the largest sustained rate, None if even the lowest rate was too much. ``unloaded_p99_ms`` is the 99th
    percentile at rest, of ``unloaded_queries``. ``beyond`` is the lowest rate that was not sustained, and ``limit`` why
    not; both are None if every rate was sustained.
    """

    level: RateLevel | None
    unloaded_p99_ms: float
    unloaded_queries: int
    beyond: RateLevel | None
    limit: Limit | None


def knee(levels: Sequence[RateLevel]) -> Knee | None:
    """Return the knee of rates in any order, each measured once; None if no rate had an answer."""
    answered = [(level.p99_ms, level) for level in levels if level.p99_ms is not None]
    if not answered:
        return None
    calm = [(p99, level.queries) for p99, level in answered if _limit(level, math.inf) is None]
    calm = calm or [(p99, level.queries) for p99, level in answered]
    enough = min(ENOUGH, max(queries for _, queries in calm))
    knee_level, rest_level = None, min(one for one in calm if one[1] >= enough)
    for level in sorted(levels):
        limit = _limit(level, P99_FACTOR * rest_level[0])
        if limit is not None:
            return Knee(knee_level, *rest_level, level, limit)
        knee_level = level
    return Knee(knee_level, *rest_level, None, None)


def _limit(level: RateLevel, most_ms: float) -> Limit | None:
    """Return why a rate is not sustained, given the highest 99th percentile ``most_ms``; None if it is sustained."""
    if level.p99_ms is None or level.failed_share > _FAILED_SHARE:
        return "errors"
    if level.overloaded:
        return "overload"
    return "p99" if level.p99_ms > most_ms else None


def seconds_at_rate(rate: float, seconds: float) -> float:
    """Return how long a rate of a sweep is held if ``seconds`` were requested: until enough queries are due."""
    return max(seconds, min(ENOUGH / rate, _LONGEST * seconds))


def next_rate(levels: Sequence[RateLevel], first: float) -> float | None:
    """Return which rate to measure after ``levels``, beginning with ``first``; None when the knee is known.

    Rates double until a rate is not sustained, or halve until a rate is; then the bracket is cut at its geometric
    middle until its ends lie within a tenth. The backend must be at rest at least once: one rate is an eighth of the
    knee or less. A rate without answers is not sustained. The search also ends after :data:`MOST_LEVELS`, and if the
    first rate had no answer.
    """
    if not levels:
        return _rounded(first)
    bracket = knee(levels)
    if bracket is None or len(levels) >= MOST_LEVELS:
        return None
    if bracket.beyond is None:
        return _rounded(2 * max(level.rate for level in levels))
    if bracket.level is None:
        return _rounded(bracket.beyond.rate / 2)
    if bracket.beyond.rate <= _FINE * bracket.level.rate:
        calm = _rounded(bracket.level.rate * REST_SHARE)
        return calm if min(level.rate for level in levels) > calm else None
    return _rounded(math.sqrt(bracket.level.rate * bracket.beyond.rate))


def _rounded(rate: float) -> float:
    """Round to three digits, so that a rate reads as one: far finer than the bracket."""
    return float(f"{rate:.{_DIGITS}g}")
