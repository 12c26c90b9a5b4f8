"""Overlap, RBO and tau against direct computations, and by hand."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.data.types import Ids, Run
from harness.errors import RankingError, UsageError
from harness.metrics.agreement import kendall_tau, kendall_tau_of_scores, overlap, rbo

DOCUMENTS = 12
RANKING = st.lists(st.integers(0, DOCUMENTS - 1), unique=True, max_size=DOCUMENTS)
PAIRS = st.lists(st.tuples(RANKING, RANKING), min_size=1, max_size=5)
P = st.floats(0.05, 0.99)


def make_run(rankings: list[list[int]], scores: list[list[float]] | None = None) -> Run:
    indptr = np.cumsum([0, *map(len, rankings)]).astype(np.int64)
    flat = [score for one in scores for score in one] if scores is not None else -np.arange(indptr[-1])
    return Run(
        Ids.of(f"q{query}" for query in range(len(rankings))),
        Ids.of(f"d{row}" for row in range(DOCUMENTS)),
        indptr,
        np.array([row for ranking in rankings for row in ranking], dtype=np.int32),
        np.asarray(flat, dtype=np.float32),
    )


def both(pairs: list[tuple[list[int], list[int]]]) -> tuple[Run, Run]:
    return make_run([a for a, _ in pairs]), make_run([b for _, b in pairs])


def slow_rbo(a: list[int], b: list[int], p: float) -> float:
    """Equation 32 of Webber et al. (2010), written term by term."""
    short, long = sorted((a, b), key=len)
    s, n = len(short), len(long)
    if not s:
        return float(not n)
    x = [len(set(long[:d]) & set(short[:d])) for d in range(n + 1)]
    first = sum(x[d] / d * p**d for d in range(1, n + 1))
    second = sum(x[s] * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1))
    return (1 - p) / p * (first + second) + ((x[n] - x[s]) / n + x[s] / s) * p**n


@given(pairs=PAIRS, p=P)
def test_rbo_equals_the_papers_equation_and_is_symmetric(pairs: list[tuple[list[int], list[int]]], p: float) -> None:
    a, b = both(pairs)
    values = rbo(a, b, p)
    assert values == pytest.approx([slow_rbo(one, other, p) for one, other in pairs], abs=1e-12)
    assert values == pytest.approx(rbo(b, a, p), abs=1e-12)
    assert ((values >= -1e-12) & (values <= 1 + 1e-12)).all()


@given(pairs=PAIRS, depth=st.integers(1, DOCUMENTS + 2))
def test_overlap_equals_sets(pairs: list[tuple[list[int], list[int]]], depth: int) -> None:
    a, b = both(pairs)
    expected = [
        len(set(x[:depth]) & set(y[:depth])) / min(depth, max(len(x), len(y))) if x or y else 1.0 for x, y in pairs
    ]
    assert overlap(a, b, depth).tolist() == pytest.approx(expected)


@given(scores=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_tau_equals_counting_pairs(scores: list[tuple[int, int]]) -> None:
    signs = [(np.sign(a[0] - b[0]), np.sign(a[1] - b[1])) for a, b in combinations(scores, 2)]
    in_x, in_y = sum(x != 0 for x, _ in signs), sum(y != 0 for _, y in signs)
    tau = kendall_tau_of_scores([x for x, _ in scores], [y for _, y in scores])
    if in_x == 0 or in_y == 0:
        assert math.isnan(tau)
    else:
        assert tau == pytest.approx(sum(x * y for x, y in signs) / math.sqrt(in_x * in_y))


def test_rbo_by_hand() -> None:
    # X = 0, 2 at depths 1, 2; RBO_ext = 0.5/0.5 · (0 + 2/2 · 0.25) + 1 · 0.25 = 0.5
    assert rbo(make_run([[0, 1]]), make_run([[1, 0]]), 0.5).tolist() == [0.5]
    assert rbo(make_run([[3, 1, 2]]), make_run([[3, 1, 2]])).tolist() == [1.0]
    assert rbo(make_run([[0, 1]]), make_run([[2, 3]])).tolist() == [0.0]


def test_empty_rankings() -> None:
    a, b = make_run([[], [1], []]), make_run([[], [], [2]])
    assert rbo(a, b).tolist() == [1.0, 0.0, 0.0]
    assert overlap(a, b, 10).tolist() == [1.0, 0.0, 0.0]
    assert np.isnan(kendall_tau(a, b)).all()


def test_tau_uses_common_documents_only() -> None:
    a = make_run([[0, 1, 2, 5]], [[4.0, 3.0, 2.0, 1.0]])
    b = make_run([[2, 1, 0, 7]], [[9.0, 8.0, 7.0, 1.0]])
    assert kendall_tau(a, b).tolist() == [-1.0]
    assert kendall_tau(a, a).tolist() == [1.0]


def test_wrong_arguments_are_refused() -> None:
    a = make_run([[0]])
    with pytest.raises(UsageError, match="depth 0"):
        overlap(a, a, 0)
    for p in (0.0, 1.0, math.nan):
        with pytest.raises(UsageError, match="p = "):
            rbo(a, a, p)
    with pytest.raises(UsageError, match="1 and 2 scores"):
        kendall_tau_of_scores([1.0], [1.0, 2.0])
    with pytest.raises(RankingError, match="different queries"):
        rbo(a, make_run([[0], [1]]))
    with pytest.raises(RankingError, match="different document columns"):
        rbo(a, Run(a.query_ids, Ids.of(["x"]), a.indptr, a.rows, a.scores))
