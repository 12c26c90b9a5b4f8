"""The spread of several builds: figures, identical rankings, overlaps, against plain Python."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.ranking import same_rankings
from harness.data.types import Ids, Run
from harness.errors import UsageError
from harness.metrics.spread import Spread, pairwise_overlap, spread

DOCUMENTS = 6
FIGURES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8)
RANKING = st.lists(st.integers(0, DOCUMENTS - 1), unique=True, max_size=3)


@st.composite
def builds(draw: st.DrawFn) -> list[list[list[int]]]:
    """Some builds of some queries; the later ones are often the same as the first."""
    queries = draw(st.integers(1, 4))
    first = [draw(RANKING) for _ in range(queries)]
    others = [[draw(st.one_of(st.just(one), RANKING)) for one in first] for _ in range(draw(st.integers(1, 3)))]
    return [first, *others]


def make_run(rankings: list[list[int]]) -> Run:
    indptr = np.cumsum([0, *map(len, rankings)]).astype(np.int64)
    rows = np.array([row for ranking in rankings for row in ranking], dtype=np.int32)
    query_ids, doc_ids = (
        Ids.of(f"{kind}{n}" for n in range(count)) for kind, count in (("q", len(rankings)), ("d", 6))
    )
    return Run(query_ids, doc_ids, indptr, rows, -np.arange(len(rows), dtype=np.float32))


@given(values=FIGURES)
def test_a_spread_is_what_its_definition_says(values: list[float]) -> None:
    found, count = spread(values), len(values)
    mean = math.fsum(values) / count
    assert found.mean == pytest.approx(mean, rel=1e-12, abs=1e-9)
    assert found.sd == pytest.approx(math.sqrt(math.fsum((one - mean) ** 2 for one in values) / (count - 1)), abs=1e-6)
    assert (found.low, found.high) == (min(values), max(values))
    assert found.low <= found.mean <= found.high


@given(value=st.floats(-1e6, 1e6), count=st.integers(2, 9))
def test_equal_figures_have_no_spread_at_all(value: float, count: int) -> None:
    assert spread([value] * count) == Spread(value, 0.0, value, value)


@given(made=builds())
def test_rankings_are_the_same_where_all_lists_are_equal(made: list[list[list[int]]]) -> None:
    same = same_rankings([make_run(rankings) for rankings in made])
    assert same.tolist() == [all(other == one for other in others) for one, *others in zip(*made, strict=True)]


@given(made=builds(), depth=st.integers(1, 4))
def test_the_overlap_is_the_mean_over_all_pairs(made: list[list[list[int]]], depth: int) -> None:
    def share(one: list[int], other: list[int]) -> float:
        longest = min(depth, max(len(one), len(other)))
        return len(set(one[:depth]) & set(other[:depth])) / longest if longest else 1.0

    expected = [share(one, other) for a, b in combinations(made, 2) for one, other in zip(a, b, strict=True)]
    found = pairwise_overlap([make_run(rankings) for rankings in made], depth)
    assert found == pytest.approx(sum(expected) / len(expected))


def test_one_run_is_the_same_as_itself_and_has_no_spread() -> None:
    run = make_run([[0, 1], []])
    assert same_rankings([run]).tolist() == [True, True]
    for nothing in (lambda: spread([0.5]), lambda: pairwise_overlap([run], 10)):
        with pytest.raises(UsageError, match="give at least 2"):
            nothing()
