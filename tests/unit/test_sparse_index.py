from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_array, csr_array, csr_matrix

from harness.data.types import SparseVectors
from harness.errors import DataError, UsageError
from harness.exact import SparseIndex, bm25_idf, document_frequencies, maps
from harness.exact.guess import Sample
from harness.exact.kernels import retrieve_kernel
from harness.exact.stretches import STRETCH

DOCUMENTS = np.array([[1, 0, 2], [0, 0, 0], [0, 3, 0], [1, 0, 2], [0, -1, 1]], dtype=np.float32)


def index(**options) -> SparseIndex:
    return SparseIndex.build(csr_array(DOCUMENTS), **options)


def hits(built: SparseIndex, query: list[float], k: int = 10) -> list[tuple[int, float]]:
    found = built.retrieve(csr_array(np.array([query], dtype=np.float32)), k)
    return list(zip(found.rows.tolist(), found.scores.tolist(), strict=True))


def test_best_first_and_ties_by_row():
    assert hits(index(), [1, 0, 1]) == [(0, 3.0), (3, 3.0), (4, 1.0)]


def test_negative_scores_are_hits_and_untouched_documents_never():
    assert hits(index(), [0, 1, 0]) == [(2, 3.0), (4, -1.0)]


def test_contributions_that_cancel_leave_no_hit():
    assert hits(index(), [0, 1, 1]) == [(2, 3.0), (0, 2.0), (3, 2.0)]


def test_an_empty_query_and_an_unknown_term_have_no_hits():
    built = SparseIndex.build(csr_array(np.array([[1, 0], [2, 0]], dtype=np.float32)))
    assert hits(built, [0, 0]) == []
    assert hits(built, [0, 5]) == []


def test_fewer_hits_than_asked_are_not_padded():
    assert hits(index(), [1, 0, 0], k=100) == [(0, 1.0), (3, 1.0)]


def test_the_cut_goes_through_ties_in_their_order():
    assert hits(index(), [1, 0, 0], k=1) == [(0, 1.0)]
    assert hits(index(tie_break=np.arange(5, dtype=np.uint32)), [1, 0, 0], k=1) == [(3, 1.0)]


def test_equal_tie_breakers_fall_back_to_rows():
    assert hits(index(tie_break=np.zeros(5, dtype=np.uint32)), [1, 0, 0]) == [(0, 1.0), (3, 1.0)]


def test_rows_and_queries_without_anything():
    empty = SparseIndex.build(csr_array((0, 3), dtype=np.float32), idf="bm25")
    assert hits(empty, [1, 1, 1]) == []
    none = index().retrieve(csr_array((0, 3), dtype=np.float32), 5)
    assert (none.indptr.tolist(), none.rows.tolist(), none.scores.tolist()) == ([0], [], [])
    assert index().score(csr_array((0, 3)), np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int32)).tolist() == []


def test_idf_counts_rows_with_a_stored_value():
    stored_zero = SparseVectors(
        np.array([0, 1, 1, 2], dtype=np.int64),
        np.array([0, 0], dtype=np.int32),
        np.array([1.0, 0.0], dtype=np.float32),
        2,
    )
    df, documents = document_frequencies(stored_zero)
    assert (df.tolist(), documents) == ([2, 0], 2)
    built = SparseIndex.build(stored_zero, idf="bm25")
    assert built.idf is not None
    assert built.idf.tolist() == bm25_idf(df, 2).tolist()
    assert hits(built, [1, 0]) == [(0, float(np.float32(np.log(1 + 0.5 / 2.5))))]


def test_given_idf_is_taken_as_it_is():
    assert hits(index(idf=np.array([2, 1, 0.5], dtype=np.float32)), [1, 0, 1]) == [(0, 3.0), (3, 3.0), (4, 0.5)]


def test_idf_multiplies_the_query_before_the_document():
    third, seventh, ninth = (np.float32(1) / np.float32(part) for part in (3, 7, 9))
    built = SparseIndex.build(csr_array(np.array([[ninth]])), idf=np.array([seventh]))
    assert built.retrieve(csr_array(np.array([[third]])), 1).scores.tolist() == [np.float32(third * seventh) * ninth]


def test_idf_formula():
    assert bm25_idf(np.array([0, 1, 10]), 10).tolist() == pytest.approx(
        [np.log(1 + 10.5 / 0.5), np.log(1 + 9.5 / 1.5), np.log(1 + 0.5 / 10.5)], rel=1e-7
    )
    with pytest.raises(DataError, match="outside 0 to 3"):
        bm25_idf(np.array([4]), 3)


@pytest.mark.parametrize("form", [csr_array, csr_matrix, csc_array, coo_matrix])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int8, np.int64])
def test_any_sparse_matrix_is_taken(form, dtype):
    matrix = form(DOCUMENTS.astype(dtype))
    found = SparseIndex.build(matrix).retrieve(form(np.array([[1, 0, 1]], dtype=dtype)), 10)
    assert (found.rows.tolist(), found.scores.tolist()) == ([0, 3, 4], [3.0, 3.0, 1.0])


def test_wide_indices_and_bits_are_taken():
    matrix = csr_array((np.ones(2, dtype=bool), np.array([1, 0], dtype=np.int64), np.array([0, 2], dtype=np.int64)))
    assert hits(SparseIndex.build(matrix), [1, 1]) == [(0, 2.0)]


def test_repeated_and_unsorted_indices_of_a_matrix_are_summed_and_the_matrix_left_alone():
    matrix = csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    assert hits(SparseIndex.build(matrix), [0, 1]) == [(0, 5.0)]
    assert matrix.indices.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("indices", "problem"),
    [([0, 0], "row 1: indices are not ascending"), ([1, 0], "row 1: indices"), ([0, 9], "outside"), ([-1, 0], "outs")],
)
def test_vectors_with_wrong_indices_are_refused(indices: list[int], problem: str):
    broken = SparseVectors(
        np.array([0, 0, 2], dtype=np.int64), np.array(indices, dtype=np.int32), np.ones(2, dtype=np.float32), 3
    )
    with pytest.raises(DataError, match=problem):
        SparseIndex.build(broken)


@pytest.mark.parametrize("indptr", [[0, 1], [0, 3], [1, 2], [0, 2, 1, 2]])
def test_vectors_that_do_not_fit_together_are_refused(indptr: list[int]):
    broken = SparseVectors(
        np.array(indptr, dtype=np.int64), np.zeros(2, dtype=np.int32), np.ones(2, dtype=np.float32), 3
    )
    with pytest.raises(DataError, match="indptr"):
        SparseIndex.build(broken)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e39])
def test_values_that_are_no_float32_are_refused_with_their_row(value: float):
    with pytest.raises(DataError, match=r"documents: 1 problem\n  row 2: a value is NaN or infinite"):
        SparseIndex.build(csr_array(np.array([[1.0], [2.0], [value]])))
    with pytest.raises(DataError, match=r"queries: 1 problem\n  row 0: a value is NaN or infinite"):
        SparseIndex.build(csr_array(np.ones((2, 1)))).retrieve(csr_array(np.array([[value]])), 1)


@pytest.mark.parametrize("matrix", [np.ones((2, 2)), csr_array(np.ones((2, 2), dtype=complex)), [[1.0]]])
def test_other_things_are_refused(matrix):
    with pytest.raises(DataError):
        SparseIndex.build(matrix)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda built, query: built.retrieve(query, 0), "k is 0"),
        (lambda built, query: built.retrieve(query, -3), "k is -3"),
        (lambda built, query: built.retrieve(query, 1, threads=0), "threads is 0"),
        (lambda built, _: built.retrieve(csr_array((1, 4)), 1), "4 dimensions, the index 3"),
        (lambda built, query: built.score(query, np.array([0, 1]), np.array([5])), "outside the index"),
        (lambda built, query: built.score(query, np.array([0, 1]), np.array([-1])), "outside the index"),
        (lambda built, query: built.score(query, np.array([0]), np.array([0])), "does not cut"),
        (lambda built, query: built.score(query, np.array([0, 2]), np.array([0])), "does not cut"),
    ],
)
def test_wrong_arguments(call, message: str):
    with pytest.raises(UsageError, match=message):
        call(index(), csr_array(np.array([[1.0, 0, 0]])))


def test_wrong_options():
    with pytest.raises(UsageError, match="idf is 'plain'"):
        index(idf="plain")
    with pytest.raises(UsageError, match=r"idf has shape \(2,\)"):
        index(idf=np.ones(2, dtype=np.float32))
    with pytest.raises(DataError, match="dimension 1: NaN"):
        index(idf=np.array([1, np.nan, 1], dtype=np.float32))
    with pytest.raises(UsageError, match="give one uint32 for each"):
        index(tie_break=np.zeros(4, dtype=np.uint32))
    with pytest.raises(UsageError, match="give one uint32 for each"):
        index(tie_break=np.zeros(5, dtype=np.int64))


def test_listed_documents_may_repeat_and_come_in_any_order():
    query = csr_array(np.array([[1, 0, 1], [0, 1, 0]], dtype=np.float32))
    lists = np.array([0, 4, 6], dtype=np.int64)
    rows = np.array([4, 1, 0, 4, 2, 0], dtype=np.int32)
    assert index().score(query, lists, rows).tolist() == [1.0, 0.0, 3.0, 1.0, 3.0, 0.0]


def test_index_bytes_are_those_of_the_postings_and_the_columns():
    size = 8 * 7 + 8 * 4 + 4 * 3
    assert index().index_bytes == size
    assert index(idf="bm25").index_bytes == size + 4 * 3
    assert index(tie_break=np.arange(5, dtype=np.uint32)).index_bytes == size + 4 * 5


def test_batches_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch):
    generator = np.random.default_rng(5)
    documents = csr_array(generator.integers(0, 3, (300, 20)) * (generator.random((300, 20)) < 0.2))
    queries = csr_array(generator.integers(0, 3, (57, 20)) * (generator.random((57, 20)) < 0.3))
    expected = SparseIndex.build(documents).retrieve(queries, 17)
    for keys, threads in ((1, 1), (40, 3), (1 << 20, 2)):
        monkeypatch.setattr("harness.exact.topk._BATCH_KEYS", keys)
        found = SparseIndex.build(documents).retrieve(queries, 17, threads)
        for column, other in zip(expected, found, strict=True):
            assert column.tolist() == other.tolist()


def run_kernel(built: SparseIndex, queries: csr_array, width: int, sample: Sample):
    searcher, count = built._searcher, queries.shape[0]
    best, counts = np.zeros((count, width), dtype=np.uint64), np.zeros(count, dtype=np.int64)
    space = searcher._take()
    weighted = built._weighted(queries)
    events = retrieve_kernel(searcher.postings, searcher.maps, weighted, 0, searcher.rule, sample, space, best, counts)
    assert not space.sums.any()
    rows = [
        sorted((0xFFFFFFFF - (keys & np.uint64(0xFFFFFFFF)))[:found]) for keys, found in zip(best, counts, strict=True)
    ]
    return events, rows


@pytest.mark.parametrize(
    ("share", "rank", "reruns"), [(1.0, 1, 3), (1.0, 10, 0), (1.0, 0, 0), (0.1, 1, 3), (0.1, 200, 0), (0.1, 0, 0)]
)
def test_a_guess_that_is_too_high_costs_a_second_run(
    monkeypatch: pytest.MonkeyPatch, share: float, rank: int, reruns: int
):
    monkeypatch.setattr(maps, "_RELUCTANCE", np.inf)
    generator = np.random.default_rng(1)
    column = np.where(generator.random(5_000) < share, generator.permutation(5_000) + 1, 0)
    pair = np.stack([column, column], axis=1).astype(np.float32)
    built = SparseIndex.build(csr_array(pair))
    (rejected, pruned, by_rows), rows = run_kernel(built, csr_array(np.ones((3, 2))), 8, Sample(1, rank, rank))
    assert (rejected, pruned, by_rows) == (reruns, 0, 0)
    assert rows == [sorted(np.argsort(-column)[:8])] * 3


def with_maps(monkeypatch: pytest.MonkeyPatch, documents: np.ndarray, rows: float = 1e9) -> SparseIndex:
    """An index that leaves terms out whenever it may: to impact rows, or by looking up candidates without them."""
    monkeypatch.setattr(maps, "_MAP_BUDGET", 1e9)
    monkeypatch.setattr(maps, "_ROW_BUDGET", rows)
    monkeypatch.setattr(maps, "_RELUCTANCE", 0.0)
    return SparseIndex.build(csr_array(documents.astype(np.float32)))


@pytest.mark.parametrize("width", [1, 20, 62])
def test_impact_rows_give_the_same(monkeypatch: pytest.MonkeyPatch, width: int):
    generator = np.random.default_rng(2)
    documents = generator.integers(1, 1000, (12_000, 4)) * (generator.random((12_000, 4)) < [0.9, 0.5, 0.3, 0.005])
    built = with_maps(monkeypatch, documents)
    assert built._searcher.maps.columns.tolist() == [0, 1, 2]
    queries = np.array([[1, 1, 1, 1], [2, 1, -1, 3], [1, 0, 0, 0], [1, 1, 0, 40]])
    (rejected, pruned, by_rows), rows = run_kernel(built, csr_array(queries), width, Sample(1, 2_000, 2_000))
    assert (rejected, pruned, by_rows) == (0, 0, 4)
    for query, found in zip(queries, rows, strict=True):
        best = np.lexsort((np.arange(12_000), -(documents @ query)))[:width]
        assert found == sorted(best)


@pytest.mark.parametrize("width", [1, 7, 40])
@pytest.mark.parametrize("documents", [9_000, 20_000])
def test_impact_rows_beside_weights_below_zero(monkeypatch: pytest.MonkeyPatch, documents: int, width: int):
    """What the terms without rows take away may leave bounds, the best scores or all of them below 0."""
    generator = np.random.default_rng(11)
    values = generator.integers(1, 50, (documents, 5)) * (generator.random((documents, 5)) < [0.9, 0.5, 0.3, 0.6, 0.2])
    built = with_maps(monkeypatch, values)
    weights = np.concatenate([generator.integers(-9, 10, (30, 5)), [[1, 0, 0, -60, 0], [-1, 1, 0, 0, 0]]])
    (_, _, by_rows), rows = run_kernel(built, csr_array(weights), width, Sample(1, 4_000, 4_000))
    assert by_rows > 20
    for query, found in zip(weights, rows, strict=True):
        scores = values @ query
        best = np.lexsort((np.arange(documents), -scores))
        assert found == sorted(best[scores[best] != 0][:width])


def test_impact_rows_may_say_more_than_0_where_all_scores_are_below(monkeypatch: pytest.MonkeyPatch):
    values = np.random.default_rng(12).integers(1, 50, 9_000)
    built = with_maps(monkeypatch, np.stack([values, values + 1], axis=1))
    (rejected, _, by_rows), rows = run_kernel(built, csr_array(np.array([[1, -1]])), 7, Sample(1, 4_000, 4_000))
    assert (rejected, by_rows) == (1, 1)
    assert rows == [list(range(7))]


def test_a_sample_of_the_best_documents_costs_a_second_run(monkeypatch: pytest.MonkeyPatch):
    """15 of the first documents, which are looked at first, reach ten times what all others do."""
    values = np.random.default_rng(4).integers(1, 20, (9_000, 2))
    values[:15] = 200
    built = with_maps(monkeypatch, values)
    for width, reruns in ((15, 0), (20, 1)):
        (rejected, _, by_rows), rows = run_kernel(built, csr_array(np.ones((1, 2))), width, Sample(1, 50, 50))
        assert (rejected, by_rows) == (reruns, 1)
        assert rows == [sorted(np.lexsort((np.arange(9_000), -values.sum(axis=1)))[:width])]


def test_a_process_without_denormal_numbers_gets_the_same(monkeypatch: pytest.MonkeyPatch):
    """The rows after the last document bound 0, and 0 must not reach what stands for no guess."""
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(5).integers(1, 9, (1_025, 3)) * (np.random.default_rng(6).random((1_025, 3)) < 0.3)
    built = with_maps(monkeypatch, values)
    hits = np.flatnonzero(values.sum(axis=1))
    assert len(hits) < 900
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor has no such mode")
    try:
        (rejected, _, by_rows), rows = run_kernel(built, csr_array(np.ones((1, 3))), 900, Sample(1, 50, 50))
    finally:
        torch.set_flush_denormal(False)
    assert (rejected, by_rows) == (1, 1)
    assert rows == [hits.tolist()]


@pytest.mark.parametrize(("highest", "width"), [(3, 1), (3, 30), (1_000, 30)])
def test_sums_are_made_stretch_by_stretch(monkeypatch: pytest.MonkeyPatch, highest: int, width: int):
    """Ten stretches, of which the first and the ninth are sampled; terms without rows occur in all, some or one.

    One document with a very high value promises more than the best thirty keep: the search looks whether the terms with
    rows can be left out, and goes on by rows when all others have been added.
    """
    generator, documents = np.random.default_rng(8), 9 * int(STRETCH) + 4_321
    values = np.zeros((documents, 5), dtype=np.int64)
    for term, (share, most) in enumerate([(0.5, 100), (0.3, 100), (0.001, 4), (0.0005, 4)]):
        values[:, term] = generator.integers(1, most, documents) * (generator.random(documents) < share)
    values[: 3 * int(STRETCH), 3] = 0
    values[-4_000:-3_990, 4] = [highest] + 9 * [2]
    built = with_maps(monkeypatch, values)
    assert built._searcher.maps.columns.tolist() == [0, 1]
    events, rows = run_kernel(built, csr_array(np.ones((1, 5))), width, Sample.of(width, documents))
    assert events == (0, 0, 1)
    assert rows == [sorted(np.lexsort((np.arange(documents), -values.sum(axis=1)))[:width])]


@pytest.mark.parametrize(("width", "touched_rank", "failures"), [(10, 0, 0), (30, 8, 0), (30, 1, 1)])
def test_frequent_terms_that_cannot_decide_are_looked_up(
    monkeypatch: pytest.MonkeyPatch, width: int, touched_rank: int, failures: int
):
    """The rare term outweighs both others together, and those it leaves out are known from their maps."""
    generator = np.random.default_rng(6)
    values = generator.integers(1, 1000, (5_000, 3)) + np.array([0, 0, 3_000])
    documents = values * (generator.random((5_000, 3)) < [0.6, 0.3, 0.05])
    built = with_maps(monkeypatch, documents, rows=0.0)
    queries = np.array([[1, 1, 1], [0, 1, 1], [1, 1, 0]])
    (rejected, pruned, by_rows), rows = run_kernel(built, csr_array(queries), width, Sample(1, 60, touched_rank))
    assert (rejected, pruned, by_rows) == (failures, 2, 0)
    for query, found in zip(queries, rows, strict=True):
        best = np.lexsort((np.arange(5_000), -(documents @ query)))[:width]
        assert found == sorted(best)


def test_maps_and_rows_know_every_value(monkeypatch: pytest.MonkeyPatch):
    generator = np.random.default_rng(3)
    documents = generator.lognormal(0, 3, (1_000, 3)).astype(np.float32) * (generator.random((1_000, 3)) < 0.7)
    built = with_maps(monkeypatch, documents)
    found, postings = built._searcher.maps, built._searcher.postings
    bits = np.unpackbits(found.bits.view(np.uint8).reshape(3, -1), axis=1, bitorder="little")
    assert np.array_equal(bits[:, :1_000].T, documents > 0)
    codes = found.codes.reshape(3, -1, 1, maps.HALF_ROW_BLOCK) >> np.array([0, 4]).reshape(1, 1, 2, 1) & 15
    codes, levels = codes.reshape(3, -1)[:, :1_000], found.levels.reshape(3, 16)
    assert np.array_equal(codes.T > 0, documents > 0)
    assert np.all(documents <= np.take_along_axis(levels, codes, axis=1).T)
    assert np.all((documents > np.take_along_axis(levels, np.maximum(codes, 1) - 1, axis=1).T) | (codes.T == 0))
    assert found.highest.tolist() == documents.max(axis=0).tolist()
    for column in range(3):
        base = np.uint64(column * len(found.bits) // 3)
        for place, row in enumerate(np.flatnonzero(documents[:, column])):
            assert maps.rank_of(found, base, np.uint64(row)) == place
        assert np.diff(postings.columns)[column] == (documents[:, column] > 0).sum()


@pytest.mark.parametrize(
    ("documents", "query"),
    [
        ([[1, -1], [1, 1], [1, 2]], [1, 1]),  # a bound bounds nothing when a value is negative
        ([[1, 1], [1, 1], [1, 2]], [-1, -1]),
        ([[1e-20, 1], [1, 1], [1, 2]], [1, 1]),  # a sum that need not be exact
        ([[1, 1], [1, 1], [1, 2]], [1, 1e-20]),
        ([[1e-45, 0], [1e-45, 0], [1e-45, 0]], [1, 0]),  # a product that loses more than its last bit
    ],
)
def test_no_term_is_left_out_where_nothing_can_be_proved(
    monkeypatch: pytest.MonkeyPatch, documents: list[list[float]], query: list[float]
):
    built = with_maps(monkeypatch, np.array(documents))
    (_, pruned, by_rows), _ = run_kernel(built, csr_array(np.array([query])), 2, Sample(1, 3, 3))
    assert (pruned, by_rows) == (0, 0)


def test_a_frequent_dimension_of_zeros_has_no_use_for_its_row(monkeypatch: pytest.MonkeyPatch):
    stored = csr_array((np.array([0.0, 0.0, 1.0]), np.array([0, 0, 1]), np.array([0, 1, 3])), shape=(2, 2))
    with_maps(monkeypatch, np.ones((1, 1)))
    built = SparseIndex.build(stored)
    assert hits(built, [1, 0]) == []
    assert hits(built, [1, 1]) == [(1, 1.0)]


def test_a_term_that_no_document_has_is_no_row(monkeypatch: pytest.MonkeyPatch):
    documents = np.array([[4.0, 0.0, 2.0], [3.0, 0.0, 5.0], [0.0, 0.0, 1.0]])
    built = with_maps(monkeypatch, documents)
    (rejected, _, by_rows), rows = run_kernel(built, csr_array(np.array([[1.0, 8.0, 1.0]])), 2, Sample(1, 2, 2))
    assert (rejected, by_rows, rows) == (0, 1, [[0, 1]])
    assert hits(built, [1, 8, 1]) == [(1, 8.0), (0, 6.0), (2, 1.0)]


def test_queries_of_very_many_terms_are_added_as_they_are():
    documents = csr_array(np.ones((3, 600)))
    assert hits(SparseIndex.build(documents), [1] * 600) == [(0, 600.0), (1, 600.0), (2, 600.0)]


def test_maps_and_rows_stay_within_their_budget():
    generator = np.random.default_rng(4)
    documents = csr_array((generator.random((2_000, 60)) < np.linspace(0.9, 0.01, 60)).astype(np.float32))
    built = SparseIndex.build(documents)
    found = built._searcher.maps
    assert 0 < (found.rows >= 0).sum() < len(found.columns) < 60
    assert built.index_bytes <= 1.2 * 8 * documents.nnz


def test_the_workspace_is_kept_and_clean():
    built = index()
    first = hits(built, [1, 1, 1])
    (space,) = built._searcher._free
    assert not space.sums.any()
    assert hits(built, [1, 1, 1]) == first
    assert built._searcher._free == [space]
