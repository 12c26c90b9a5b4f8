from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from installed import skip_without
from threadpoolctl import threadpool_info

from harness.data.types import Ids, Similarity
from harness.errors import CacheError, DataError, UsageError
from harness.exact import DenseIndex, SparseIndex
from harness.exact.dense import index as dense_index
from harness.exact.dense import on_device
from harness.exact.dense.search import single_threaded_blas

GENERATOR = np.random.default_rng(9)
DOCUMENTS = GENERATOR.standard_normal((300, 20)).astype(np.float32)
QUERIES = GENERATOR.standard_normal((6, 20)).astype(np.float32)


def test_a_worked_example():
    index = DenseIndex.build([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    found = {name: index.retrieve([1.0, 1.0], 2, similarity=name) for name in ("cosine", "dot", "l2")}
    assert found["cosine"].rows.tolist() == [0, 1]
    assert found["cosine"].scores == pytest.approx([7 / (5 * 2**0.5), 1 / 2**0.5])
    assert found["dot"].rows.tolist() == [0, 2]
    assert found["dot"].scores.tolist() == [7.0, 2.0]
    assert found["l2"].rows.tolist() == [1, 2]
    assert found["l2"].scores.tolist() == [-1.0, -2.0]


def test_a_vector_is_its_own_best_cosine_and_scores_exactly_one():
    found = DenseIndex.build(DOCUMENTS).retrieve(DOCUMENTS, 1)
    assert found.rows.tolist() == list(range(300))
    assert set(found.scores.tolist()) == {1.0}


def test_equal_scores_are_by_document_id_descending():
    ids = Ids.of(["b", "d", "a", "c"])
    index = DenseIndex.build(np.ones((4, 3)), tie_break=ids.tie_rank)
    assert ids.take(index.retrieve(np.ones(3), 3).rows) == ["d", "c", "b"]


@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
def test_truncated_dimensions_are_an_index_of_the_cut_vectors(similarity: Similarity):
    index = DenseIndex.build(DOCUMENTS)
    for dimensions in (1, 5, 16, 20):
        cut = index.truncated(dimensions)
        fresh = DenseIndex.build(DOCUMENTS[:, :dimensions])
        found, expected = (one.retrieve(QUERIES[:, :dimensions], 30, similarity=similarity) for one in (cut, fresh))
        assert [part.tolist() for part in found] == [part.tolist() for part in expected]
        assert np.shares_memory(cut.vectors, index.vectors)
        assert cut.dimensions == dimensions
    for dimensions in (0, 21):
        with pytest.raises(UsageError, match=f"cannot be cut to {dimensions}"):
            index.truncated(dimensions)


@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
def test_listed_documents_score_as_they_do_when_found(similarity: Similarity):
    index = DenseIndex.build(DOCUMENTS)
    found = index.retrieve(QUERIES, 300, similarity=similarity)
    again = index.score(QUERIES, found.indptr, found.rows, similarity=similarity)
    assert np.array_equal(again, found.scores)
    with pytest.raises(UsageError, match="outside the index"):
        index.score(QUERIES, np.array([0, 1, 1, 1, 1, 1, 1]), np.array([300], dtype=np.int32))


def test_it_comes_back_from_disk_memory_mapped(tmp_path: Path):
    ids = Ids.of(f"{n % 7}-{n}" for n in range(300))
    doubled = np.concatenate([DOCUMENTS[:150], DOCUMENTS[:150]])
    built = DenseIndex.build(doubled, tie_break=ids.tie_rank)
    built.save(tmp_path)
    loaded = DenseIndex.load(tmp_path)
    assert (len(loaded), loaded.dimensions, loaded.index_bytes) == (300, 20, built.index_bytes)
    assert isinstance(loaded._documents.base, np.memmap)
    before, after = (one.retrieve(QUERIES, 40) for one in (built, loaded))
    assert [part.tolist() for part in before] == [part.tolist() for part in after]
    built.truncated(4).save(tmp_path / "cut")
    assert DenseIndex.load(tmp_path / "cut").dimensions == 4


def test_a_damaged_folder_is_refused(tmp_path: Path):
    DenseIndex.build(DOCUMENTS, tie_break=np.arange(300, dtype=np.uint32)).save(tmp_path)
    for path in sorted(tmp_path.glob("*.npy")):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(CacheError, match=f"checksum of '{path.name}' differs"):
            DenseIndex.load(tmp_path)
        path.write_bytes(content)
    np.save(tmp_path / "lengths.npy", np.ones(299))
    with pytest.raises(CacheError, match=r"lengths\.npy"):
        DenseIndex.load(tmp_path, verify=False)
    with pytest.raises(DataError, match=r"expected harness\.reference\.sparse"):
        SparseIndex.load(tmp_path)


def test_bad_input_is_named():
    bad = DOCUMENTS.copy()
    bad[3, 1], bad[8, 0] = np.nan, np.inf
    with pytest.raises(DataError, match=r"documents(.|\n)*row 3(.|\n)*row 8"):
        DenseIndex.build(bad)
    with pytest.raises(DataError, match="row 0: NaN, infinite or beyond float32"):
        DenseIndex.build(np.full((1, 2), 1e39))
    index = DenseIndex.build(DOCUMENTS)
    for k, threads in ((0, 1), (1, 0), (2.5, 1)):
        with pytest.raises(UsageError, match="at least 1"):
            index.retrieve(QUERIES, k, threads)
    with pytest.raises(UsageError, match="queries have 3 dimensions, the index 20"):
        index.retrieve(np.ones((1, 3)), 1)
    with pytest.raises(UsageError, match="similarity is 'euclid'"):
        index.retrieve(QUERIES, 1, similarity="euclid")  # type: ignore[arg-type]
    for shape in ((2, 0), (2, 2, 2)):
        with pytest.raises(UsageError, match="shape"):
            DenseIndex.build(np.ones(shape))
    with pytest.raises(UsageError, match="shape"):
        DenseIndex.build(np.array([["a"]]))
    with pytest.raises(UsageError, match=r"documents are not an array(.|\n)*vectors of one length"):
        DenseIndex.build([[1.0], [1.0, 2.0]])
    with pytest.raises(UsageError, match="queries are not an array"):
        index.retrieve([[1.0], [1.0, 2.0]], 1)


def test_zero_vectors_have_no_cosine_and_every_other_score():
    index = DenseIndex.build([[1.0, 0.0], [0.0, 0.0]])
    with pytest.raises(DataError, match=r"documents(.|\n)*row 1: a zero vector has no cosine"):
        index.retrieve([[1.0, 1.0]], 1)
    with pytest.raises(DataError, match=r"queries(.|\n)*row 0: a zero vector"):
        DenseIndex.build([[1.0, 0.0]]).retrieve([[0.0, 0.0]], 1)
    assert index.retrieve([[0.0, 0.0]], 2, similarity="dot").scores.tolist() == [0.0, 0.0]
    assert index.retrieve([[0.0, 0.0]], 2, similarity="l2").rows.tolist() == [1, 0]


def test_scores_beyond_float32_are_refused():
    with pytest.raises(DataError, match="row 1: a score is beyond float32"):
        DenseIndex.build([[1e30, 1.0]]).retrieve([[1.0, 1.0], [1e30, 0.0]], 1, similarity="dot")


def test_nothing_to_search_and_nothing_asked():
    empty = DenseIndex.build(np.empty((0, 4), dtype=np.float32))
    assert empty.retrieve(np.ones((3, 4)), 5).indptr.tolist() == [0, 0, 0, 0]
    none = DenseIndex.build(DOCUMENTS).retrieve(np.empty((0, 20)), 5)
    assert none.indptr.tolist() == [0]
    assert len(none.rows) == 0


def test_memory_is_bounded_by_blocks_not_by_queries_times_documents():
    documents = GENERATOR.standard_normal((20_000, 4)).astype(np.float32)
    queries = GENERATOR.standard_normal((1_000, 4)).astype(np.float32)
    index = DenseIndex.build(documents)
    index.retrieve(queries[:64], 10)  # compiles
    tracemalloc.start()
    index.retrieve(queries, 10)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < queries.shape[0] * documents.shape[0] * 4 / 8


def test_blas_gets_its_threads_back():
    def threads() -> list[int]:
        return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]

    before = threads()
    with ThreadPoolExecutor(4) as pool:
        index = DenseIndex.build(DOCUMENTS)
        list(pool.map(lambda _: index.retrieve(QUERIES, 5, threads=2), range(20)))
        with single_threaded_blas():
            assert set(threads()) == {1}
    assert threads() == before


@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
@pytest.mark.parametrize("copies", [1, 40])
def test_estimates_of_pytorch_give_the_same_bits(similarity: Similarity, copies: int, monkeypatch: pytest.MonkeyPatch):
    """PyTorch on the processor stands for a GPU; with copies more documents are tied than it looks at."""
    skip_without("torch")
    monkeypatch.setattr(on_device, "_DOCUMENTS", 1000)
    monkeypatch.setattr(on_device, "_QUERIES", 4)
    index = DenseIndex.build(np.tile(DOCUMENTS, (copies, 1)))
    expected = index.retrieve(QUERIES, 7, similarity=similarity)
    monkeypatch.setattr(dense_index, "choose_device", lambda _: "cpu")
    found = index.retrieve(QUERIES, 7, similarity=similarity, device="cuda")
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]


def test_a_gpu_that_is_not_there_is_refused_and_not_chosen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(on_device, "_DRIVER", Path("/nowhere"))
    assert on_device.choose_device("auto") is None
    assert on_device.choose_device("cpu") is None
    monkeypatch.setattr(on_device, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match="PyTorch is not installed"):
        on_device.choose_device("cuda")
