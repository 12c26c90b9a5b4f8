"""The frontier of any points is what its definition says, and does not depend on their order."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harness.results.frontier import frontier_mask

VALUES = st.integers(0, 6).map(float)
POINTS = st.lists(st.tuples(VALUES, VALUES), max_size=12)


@given(POINTS)
def test_every_point_is_on_the_frontier_or_beaten_by_one_that_is(points: list[tuple[float, float]]) -> None:
    best = frontier_mask(points)
    front = [point for point, kept in zip(points, best, strict=True) if kept]
    for point, kept in zip(points, best, strict=True):
        beaten = [one for one in front if one != point and one[0] >= point[0] and one[1] <= point[1]]
        assert bool(beaten) != kept


@given(POINTS)
def test_along_the_frontier_better_costs_more(points: list[tuple[float, float]]) -> None:
    front = sorted({point for point, kept in zip(points, frontier_mask(points), strict=True) if kept})
    assert all(one[0] < other[0] and one[1] < other[1] for one, other in pairwise(front))
    assert bool(front) == bool(points)


@given(POINTS, st.randoms(use_true_random=False))
def test_order_and_repetition_change_nothing(points: list[tuple[float, float]], random: object) -> None:
    kept = {point for point, best in zip(points, frontier_mask(points), strict=True) if best}
    shuffled = [*points, *points]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert {point for point, best in zip(shuffled, frontier_mask(shuffled), strict=True) if best} == kept
