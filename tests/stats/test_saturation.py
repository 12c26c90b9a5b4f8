"""Where throughput ends: which rates are measured one after the other, and which of them is the knee."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.stats.saturation import MOST_LEVELS, P99_FACTOR, RateLevel, knee, next_rate, seconds_at_rate

Metric = Callable[[float], RateLevel]


def queue(capacity: float) -> Metric:
    """Return one server with exponential times (M/M/1): the p99 of latency is ln 100 / (capacity - rate)."""

    def measure(rate: float) -> RateLevel:
        if rate >= capacity:
            return RateLevel(rate, 60_000.0, overloaded=True, failed_share=0.0, queries=300)
        return RateLevel(rate, 4605.17 / (capacity - rate), overloaded=False, failed_share=0.0, queries=300)

    return measure


def swept(measure: Metric, first: float) -> list[RateLevel]:
    levels = list[RateLevel]()
    while (rate := next_rate(levels, first)) is not None:
        levels.append(measure(rate))
    return levels


def test_rates_double_and_then_close_in_on_the_knee() -> None:
    levels = swept(queue(1000), 10)
    assert [level.rate for level in levels[:8]] == [10, 20, 40, 80, 160, 320, 640, 1280]
    found = knee(levels)
    assert found is not None
    assert found.level is not None
    assert found.beyond is not None
    # at rest p99 is 1 / 0.99 of an idle server's, so the bound of 5 times lies at 1 - 0.99 / 5 of the capacity
    bound = 1000 * (1 - 0.99 / P99_FACTOR)
    assert found.level.rate <= bound < found.beyond.rate <= 1.1 * found.level.rate
    assert found.limit == "p99"
    assert found.unloaded_p99_ms == levels[0].p99_ms
    assert len(levels) == 11


def test_rates_are_halved_where_the_first_is_too_much() -> None:
    levels = swept(queue(1000), 8000)
    assert [level.rate for level in levels[:5]] == [8000, 4000, 2000, 1000, 500]
    found = knee(levels)
    assert found is not None
    assert found.level is not None


def test_a_rate_without_any_answer_is_one_that_is_not_sustained() -> None:
    serve = queue(1000)
    levels = swept(lambda rate: RateLevel(rate, None, False, 1.0, 0) if rate > 600 else serve(rate), 10)
    found = knee(levels)
    assert found is not None
    assert found.level is not None
    assert found.beyond is not None
    assert found.level.rate <= 600 < found.beyond.rate <= 1.1 * found.level.rate
    assert found.limit == "errors"


def test_what_is_at_rest_is_far_below_the_knee() -> None:
    """The first rate may be near the knee where clients, and not the engine, are the limit."""
    levels = swept(queue(1000), 600)
    found = knee(levels)
    assert found is not None
    assert found.level is not None
    assert min(level.rate for level in levels) <= found.level.rate / 8 * 1.01
    assert found.unloaded_p99_ms == min(level.p99_ms or 0 for level in levels)


def test_a_backend_that_never_keeps_up_has_no_knee() -> None:
    levels = swept(lambda rate: RateLevel(rate, 100.0, overloaded=True, failed_share=0.0, queries=300), 100)
    assert len(levels) == MOST_LEVELS
    found = knee(levels)
    assert found is not None
    assert (found.level, found.beyond, found.limit) == (None, min(levels), "overload")


def test_a_backend_that_is_never_saturated_has_its_highest_rate() -> None:
    levels = swept(lambda rate: RateLevel(rate, 1.0, overloaded=False, failed_share=0.0, queries=300), 1)
    found = knee(levels)
    assert found is not None
    assert (found.level, found.beyond, found.limit) == (max(levels), None, None)


@pytest.mark.parametrize(
    ("level", "limit"),
    [
        (RateLevel(20, 5.0, overloaded=False, failed_share=0.0, queries=300), None),
        (RateLevel(20, 5.1, overloaded=False, failed_share=0.0, queries=300), "p99"),
        (RateLevel(20, 1.0, overloaded=True, failed_share=0.0, queries=300), "overload"),
        (RateLevel(20, 1.0, overloaded=True, failed_share=0.02, queries=300), "errors"),
        (RateLevel(20, None, overloaded=False, failed_share=0.0, queries=300), "errors"),
    ],
)
def test_what_makes_a_rate_too_much(level: RateLevel, limit: str | None) -> None:
    found = knee([level, RateLevel(10, 1.0, overloaded=False, failed_share=0.01, queries=300)])
    assert found is not None
    assert found.limit == limit


def test_a_rate_above_one_that_is_not_sustained_is_no_knee() -> None:
    levels = [
        RateLevel(rate, p99, overloaded=False, failed_share=0.0, queries=300)
        for rate, p99 in ((1, 1.0), (2, 9.0), (4, 1.0))
    ]
    found = knee(levels)
    assert found is not None
    assert (found.level, found.beyond) == (levels[0], levels[1])


def test_a_tail_that_few_queries_miss_is_no_saturation() -> None:
    """Three queries in a hundred take 600 ms, the others 50: the first rates have too few to show it."""
    shown = [(2, 50.0, 10), (4, 51.0, 20), (8, 600.0, 40), (40, 600.0, 300), (80, 620.0, 400), (160, 3500.0, 800)]
    levels = [RateLevel(rate, p99, overloaded=False, failed_share=0.0, queries=n) for rate, p99, n in shown]
    found = knee(levels)
    assert found is not None
    assert (found.level, found.beyond, found.limit) == (levels[4], levels[5], "p99")
    assert (found.unloaded_p99_ms, found.unloaded_queries) == (600.0, 300)
    few = knee(levels[:3])
    assert few is not None
    assert (few.unloaded_p99_ms, few.unloaded_queries) == (600.0, 40)


def test_a_rate_that_fails_is_not_at_rest() -> None:
    failing = RateLevel(40, 1.0, overloaded=False, failed_share=0.9, queries=500)
    levels = [RateLevel(rate, 10.0, overloaded=False, failed_share=0.0, queries=300) for rate in (10, 20)]
    found = knee([*levels, failing])
    assert found is not None
    assert (found.level, found.unloaded_p99_ms, found.limit) == (levels[1], 10.0, "errors")


def test_a_rate_is_held_until_enough_queries_are_due_but_not_for_ever() -> None:
    assert [seconds_at_rate(rate, 5.0) for rate in (1000, 60, 10, 1)] == [5.0, 5.0, 30.0, 60.0]


def test_nothing_is_known_where_nothing_was_answered() -> None:
    gone = RateLevel(10, None, overloaded=False, failed_share=1.0, queries=300)
    assert knee([]) is knee([gone]) is None
    assert next_rate([gone], 10) is None
