from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_array, csr_array, csr_matrix

from harness.data.types import SparseVectors
from harness.errors import DataError, UsageError
from harness.exact import SparseIndex, bm25_idf, document_frequencies

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
    [
        ([0, 0], "row 1: the vector has column numbers that repeat or fall"),
        ([1, 0], "repeat or fall"),
        ([0, 9], "beyond its 3 dimensions"),
        ([-1, 0], "a column number below 0"),
    ],
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
    with pytest.raises(
        DataError, match=r"documents: 1 problem\n  row 2: the vector has a value that is NaN or infinite"
    ):
        SparseIndex.build(csr_array(np.array([[1.0], [2.0], [value]])))
    with pytest.raises(DataError, match=r"queries: 1 problem\n  row 0: the vector has a value that is NaN or infinite"):
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
        (lambda built, query: built.retrieve(query, 2.5), "k is 2.5"),
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


@pytest.mark.parametrize("signs", [[1], [-1, 1]])
@pytest.mark.parametrize("k", [1, 5, 1_000, 300_000])
def test_many_blocks_of_documents_are_those_of_a_plain_product(k: int, signs: list[int]):
    """Terms from frequent to rare, whole numbers, whose sums are exact, and so are their ties.

    Most queries have a rare term that outweighs the others together: some of these are left out after the first block.
    The last block has documents that are among the best only by what is left out.
    """
    generator = np.random.default_rng(8)
    chances = np.array([0.9, 0.5, 0.1, 0.01, 0.001, 0.0001])
    values = generator.integers(1, 9, (300_000, 6)) * generator.choice(signs, (300_000, 6))
    documents = values * (generator.random((300_000, 6)) < chances)
    documents[-200:] = generator.integers(0, 9, (200, 6))
    queries = np.array([[1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 0, 2], [3, -2, 0, 0, 0, 1]])
    outweighed = generator.integers(1, 7, (3 if k > 5 else 40, 6))
    outweighed[:, 4] = generator.integers(20, 90, len(outweighed))
    queries = np.concatenate([queries, outweighed])
    found = SparseIndex.build(csr_array(documents)).retrieve(csr_array(queries), k)
    for number, scores in enumerate(queries @ documents.T):
        best = _best(scores, k)
        hits = slice(found.indptr[number], found.indptr[number + 1])
        assert found.rows[hits].tolist() == best.tolist()
        assert found.scores[hits].tolist() == scores[best].tolist()


def _best(scores: np.ndarray, k: int) -> np.ndarray:
    """Rows of the best k that are not 0, ties by row."""
    rows = np.flatnonzero(scores)
    if len(rows) > k:
        rows = rows[scores[rows] >= np.partition(scores[rows], -k)[-k]]
    return rows[np.argsort(-scores[rows], kind="stable")][:k]


def test_queries_of_very_many_terms_are_added_as_they_are():
    documents = csr_array(np.ones((3, 600)))
    assert hits(SparseIndex.build(documents), [1] * 600) == [(0, 600.0), (1, 600.0), (2, 600.0)]


def test_the_workspace_is_kept_and_clean():
    built = index()
    first = hits(built, [1, 1, 1])
    (space,) = built._searcher._free
    assert not space.sums.any()
    assert hits(built, [1, 1, 1]) == first
    assert built._searcher._free == [space]
