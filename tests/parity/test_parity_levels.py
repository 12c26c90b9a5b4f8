"""Levels of agreement on made rankings: what counts as tie-equivalent, and what must not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from harness.data.types import Float32Array, Ids, Int32Array, Run
from harness.errors import RankingError, UsageError
from harness.parity import Level, Parity, compare_run


class TableReference:
    """A reference that reads its scores from a table (queries, documents): 0 is no match."""

    name, mode, scale = "table", "textbook", None

    def __init__(self, scores: npt.ArrayLike) -> None:
        self.scores = np.asarray(scores, dtype=np.float32)
        self.doc_ids = Ids.of(f"d{row}" for row in range(self.scores.shape[1]))
        self.query_ids = Ids.of(f"q{row}" for row in range(len(self.scores)))

    def rank(self, k: int) -> list[list[int]]:
        return [[int(row) for row in np.argsort(-one, kind="stable") if one[row] != 0][:k] for one in self.scores]

    def run(self, rankings: Sequence[Sequence[int]], scores: Sequence[Sequence[float]] | None = None) -> Run:
        indptr = np.cumsum([0, *map(len, rankings)]).astype(np.int64)
        rows = np.array([row for ranking in rankings for row in ranking], dtype=np.int32)
        run = Run(self.query_ids, self.doc_ids, indptr, rows, np.zeros(len(rows), dtype=np.float32))
        flat = self.score(run) if scores is None else np.array([s for one in scores for s in one], dtype=np.float32)
        return Run(self.query_ids, self.doc_ids, indptr, rows, flat)

    def retrieve(self, k: int) -> Run:
        return self.run(self.rank(k))

    def score(self, run: Run) -> Float32Array:
        return self.scores[np.repeat(np.arange(len(self.scores)), np.diff(run.indptr)), run.rows]

    def of_queries(self, rows: Int32Array) -> TableReference:
        part = TableReference(self.scores[rows])
        part.doc_ids, part.query_ids = self.doc_ids, Ids.of(self.query_ids.take(rows))
        return part


def parity(oracle: TableReference, rankings: list[list[int]], k: int, tolerance: float = 0.0) -> Parity:
    return compare_run(oracle.run(rankings), oracle, k=k, tolerance=tolerance, hypotheses=())


def level(oracle: TableReference, ranking: list[int], k: int, tolerance: float = 0.0) -> Level:
    return Level(parity(oracle, [ranking], k, tolerance).per_query.level[0])


TIED = TableReference([[5.0, 3.0, 3.0, 3.0, 3.0, 1.0, 0.0]])
SCORES = st.lists(st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0]), min_size=1, max_size=12)


def test_levels_are_nested_in_the_counts() -> None:
    oracle = TableReference([[3, 2, 2, 1]] * 4)
    exact = [0, 1, 2, 3]
    run = oracle.run(
        [exact, exact, [0, 2, 1, 3], [1, 0, 2, 3]], [[3, 2, 2, 1], [6, 4, 4, 2], [3, 2, 2, 1], [2, 3, 2, 1]]
    )
    found = compare_run(run, oracle, k=4, tolerance=0.0, hypotheses=())
    assert [Level(one) for one in found.per_query.level] == [
        Level.BIT_EQUAL,
        Level.IDENTICAL,
        Level.TIE_EQUIVALENT,
        Level.DIFFERENT,
    ]
    assert (found.bit_equal, found.identical, found.tie_equivalent, found.different) == (1, 2, 3, 1)
    assert found.queries == found.tie_equivalent + found.different
    assert found.causes == {"unknown": 2}
    assert found.per_query.cause == (None, "unknown", None, "unknown")


def test_one_bit_of_one_score_is_identical_and_not_bit_equal() -> None:
    oracle = TableReference([[3.0, 2.0]])
    run = oracle.run([[0, 1]], [[3.0, np.nextafter(np.float32(2), np.float32(3))]])
    found = compare_run(run, oracle, k=2, tolerance=4e-7, hypotheses=())
    assert Level(found.per_query.level[0]) is Level.IDENTICAL
    assert found.max_abs_score_diff == pytest.approx(2.0**-22)
    assert found.max_rel_score_diff == pytest.approx(2.0**-23)
    assert found.causes == {}


def test_a_tie_group_in_another_order() -> None:
    assert level(TIED, [0, 3, 1, 4, 2, 5], 6) is Level.TIE_EQUIVALENT


def test_a_tie_group_cut_by_k_is_compared_as_a_subset() -> None:
    assert level(TIED, [0, 4, 3], 3) is Level.TIE_EQUIVALENT
    assert level(TIED, [0, 4, 5], 3) is Level.DIFFERENT
    assert level(TIED, [3, 4, 2], 3) is Level.DIFFERENT


def test_an_equal_engine_score_does_not_excuse_a_wrong_document() -> None:
    run = TIED.run([[0, 1, 5]], [[5.0, 3.0, 3.0]])
    assert compare_run(run, TIED, k=3, tolerance=0.0, hypotheses=()).different == 1


def test_documents_that_match_nothing_are_different() -> None:
    assert level(TIED, [0, 1, 2, 3, 4, 5, 6], 7) is Level.DIFFERENT
    assert level(TIED, [0, 1, 2, 3, 4, 6], 6) is Level.DIFFERENT


def test_another_number_of_hits_is_different() -> None:
    assert level(TIED, [0, 1, 2], 4) is Level.DIFFERENT
    assert level(TIED, [], 4) is Level.DIFFERENT
    assert level(TIED, [0, 1, 2, 3], 3) is Level.DIFFERENT


def test_near_ties_count_up_to_the_tolerance() -> None:
    oracle = TableReference([[1.0, 1.0 - 3e-7, 0.5]])
    assert level(oracle, [1, 0, 2], 3, 4e-7) is Level.TIE_EQUIVALENT
    assert level(oracle, [1, 0, 2], 3, 2e-7) is Level.DIFFERENT
    assert level(oracle, [1, 0, 2], 3) is Level.DIFFERENT


def test_a_chain_of_near_ties_cannot_push_out_the_best_document() -> None:
    chain = [1.0 - 1e-3 * place for place in range(8)]
    oracle = TableReference([chain])
    assert level(oracle, [1, 2, 3, 4, 5, 6], 6, 2e-3) is Level.DIFFERENT
    assert level(oracle, [0, 1, 2, 3, 4, 6], 6, 2e-3) is Level.TIE_EQUIVALENT
    assert level(oracle, [1, 0, 2, 3, 4, 5], 6, 2e-3) is Level.TIE_EQUIVALENT


@given(scores=SCORES, k=st.integers(1, 12), data=st.data())
def test_any_order_of_tie_groups_is_tie_equivalent(scores: list[float], k: int, data: st.DataObject) -> None:
    oracle = TableReference([scores])
    shuffled = data.draw(st.permutations(range(len(scores))))
    ranking = [row for row in sorted(shuffled, key=lambda row: -scores[row]) if scores[row] != 0][:k]
    assert level(oracle, ranking, k) >= Level.TIE_EQUIVALENT


@given(scores=SCORES, k=st.integers(1, 12), data=st.data())
def test_at_tolerance_zero_exactly_the_orders_of_ties_are_equivalent(
    scores: list[float], k: int, data: st.DataObject
) -> None:
    oracle = TableReference([scores])
    ranking = data.draw(st.lists(st.integers(0, len(scores) - 1), unique=True, max_size=k))
    best = sorted((score for score in scores if score != 0), reverse=True)[:k]
    expected = [scores[row] for row in ranking] == best
    assert (level(oracle, ranking, k) >= Level.TIE_EQUIVALENT) == expected


@given(
    scores=st.lists(st.floats(0.5, 2.0, width=32), min_size=2, max_size=30),
    k=st.integers(1, 30),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_engine_within_half_the_tolerance_is_tie_equivalent(scores: list[float], k: int, seed: int) -> None:
    oracle = TableReference([scores])
    noise = np.random.default_rng(seed).uniform(-0.45e-3, 0.45e-3, len(scores))
    perturbed = oracle.scores[0].astype(np.float64) * (1 + noise)
    ranking = [int(row) for row in np.argsort(-perturbed, kind="stable")][:k]
    assert level(oracle, ranking, k, 1e-3) >= Level.TIE_EQUIVALENT


@given(scores=st.lists(st.integers(1, 50), min_size=3, max_size=12, unique=True), data=st.data())
def test_a_document_beyond_tolerance_is_found_out_at_any_rank(scores: list[int], data: st.DataObject) -> None:
    oracle = TableReference([scores])
    ranking = oracle.rank(len(scores))[0]
    first, second = sorted(data.draw(st.lists(st.integers(0, len(scores) - 1), min_size=2, max_size=2, unique=True)))
    ranking[first], ranking[second] = ranking[second], ranking[first]
    assume(abs(scores[ranking[first]] - scores[ranking[second]]) / 50 > 1e-3)
    assert level(oracle, ranking, len(scores), 1e-3) is Level.DIFFERENT


def test_empty_against_empty_is_bit_equal() -> None:
    found = parity(TableReference([[0.0, 0.0]]), [[]], 5)
    assert (found.bit_equal, found.rbo, found.overlap) == (1, 1.0, {5: 1.0})
    assert (found.max_abs_score_diff, found.max_rel_score_diff) == (0.0, 0.0)


def test_no_queries_at_all() -> None:
    found = parity(TableReference(np.zeros((0, 3))), [], 5)
    assert (found.queries, found.different, found.rbo, found.causes) == (0, 0, 1.0, {})


def test_overlap_at_ten_and_at_k() -> None:
    oracle = TableReference([[20.0 - row for row in range(20)]])
    found = parity(oracle, [[*range(9), 15, 9, 10]], 12)
    assert found.overlap == {10: 0.9, 12: 11 / 12}
    assert found.per_query.overlap[12].tolist() == [11 / 12]
    assert list(parity(oracle, [[0, 1]], 3).overlap) == [3]


def test_a_query_that_agrees_up_to_ties_found_all_of_the_best() -> None:
    found = parity(TableReference([[5.0, 3.0, 3.0, 1.0], [4.0, 3.0, 2.0, 1.0]]), [[0, 2], [0, 2]], 2)
    assert (found.overlap, found.recall) == ({2: 0.5}, {2: 0.75})
    assert parity(TableReference(np.zeros((0, 3))), [], 5).recall == {5: 1.0}


def test_score_differences_are_of_the_engines_own_hits() -> None:
    oracle = TableReference([[4.0, 2.0, 1.0], [4.0, 2.0, 1.0]])
    run = oracle.run([[0, 1, 2], [0]], [[4.0, 2.5, 1.0], [3.0]])
    found = compare_run(run, oracle, k=3, tolerance=0.0, hypotheses=())
    assert found.per_query.max_abs_score_diff.tolist() == [0.5, 1.0]
    assert found.per_query.max_rel_score_diff.tolist() == [0.2, 0.25]
    assert (found.max_abs_score_diff, found.max_rel_score_diff) == (1.0, 0.25)


def test_broken_runs_and_arguments_are_refused() -> None:
    with pytest.raises(RankingError, match="ranked twice"):
        parity(TIED, [[0, 0]], 2)
    with pytest.raises(RankingError, match="NaN"):
        compare_run(TIED.run([[0]], [[np.nan]]), TIED, k=1, tolerance=0.0)
    with pytest.raises(RankingError, match="different queries"):
        compare_run(TableReference(np.ones((2, 7))).retrieve(1), TIED, k=1, tolerance=0.0)
    for k, tolerance in ((0, 0.0), (1, -1e-9), (1, 1.0), (1, float("nan"))):
        with pytest.raises(UsageError, match="parity at k"):
            compare_run(TIED.retrieve(1), TIED, k=k, tolerance=tolerance)


def test_rows_outside_the_corpus_are_refused() -> None:
    good = TIED.retrieve(2)
    for row in (-1, 7):
        rows = np.array([0, row], dtype=np.int32)
        bad = Run(good.query_ids, good.doc_ids, good.indptr, rows, good.scores)
        with pytest.raises(RankingError, match="outside its corpus"):
            compare_run(bad, TIED, k=2, tolerance=0.0)
