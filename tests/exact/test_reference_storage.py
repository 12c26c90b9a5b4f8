from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

from harness.data.types import Ids, SparseVectors
from harness.errors import CacheError, DataError, UsageError
from harness.exact import DenseIndex, EncodedDocuments, SparseIndex, load_encoded, save_encoded

VECTORS = SparseVectors.from_scipy(csr_array(np.array([[1, 0, 2], [0, 0, 0], [0, 3, 1]], dtype=np.float32)))
QUERY = csr_array(np.array([[1, 1, 1]], dtype=np.float32))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    SparseIndex.build(VECTORS, idf="bm25", tie_break=np.arange(3, dtype=np.uint32)).save(tmp_path / "index")
    return tmp_path / "index"


def test_everything_comes_back_memory_mapped(folder: Path):
    built = SparseIndex.build(VECTORS, idf="bm25", tie_break=np.arange(3, dtype=np.uint32))
    loaded = SparseIndex.load(folder)
    assert (len(loaded), loaded.dimensions, loaded.index_bytes) == (3, 3, built.index_bytes)
    assert [column.tolist() for column in loaded.retrieve(QUERY, 5)] == [
        column.tolist() for column in built.retrieve(QUERY, 5)
    ]
    assert isinstance(loaded._searcher.postings.values, np.memmap)


def test_an_index_saved_where_it_was_loaded_from_stays_whole(folder: Path):
    loaded = SparseIndex.load(folder)
    before = [column.tolist() for column in loaded.retrieve(QUERY, 5)]
    loaded.save(folder)
    assert [column.tolist() for column in loaded.retrieve(QUERY, 5)] == before
    assert [column.tolist() for column in SparseIndex.load(folder).retrieve(QUERY, 5)] == before


def test_dense_and_encoded_vectors_saved_where_they_were_loaded_from_stay_whole(tmp_path: Path):
    rng = np.random.default_rng(0)
    DenseIndex.build(rng.random((2000, 8), dtype=np.float32), tie_break=np.arange(2000, dtype=np.uint32)).save(tmp_path)
    dense = DenseIndex.load(tmp_path)
    dense.save(tmp_path)
    assert np.array_equal(DenseIndex.load(tmp_path).vectors, dense.vectors)
    save_encoded(tmp_path / "encoded", EncodedDocuments(VECTORS, Ids.of("abc")))
    save_encoded(tmp_path / "encoded", load_encoded(tmp_path / "encoded"))
    assert load_encoded(tmp_path / "encoded").ids.to_list() == ["a", "b", "c"]


def test_another_index_saved_in_its_place_leaves_one_that_is_open_alone(folder: Path):
    loaded = SparseIndex.load(folder)
    before = [column.tolist() for column in loaded.retrieve(QUERY, 5)]
    SparseIndex.build(csr_array((1, 3), dtype=np.float32)).save(folder)
    assert [column.tolist() for column in loaded.retrieve(QUERY, 5)] == before


def test_folders_may_be_text(tmp_path: Path):
    folder = f"{tmp_path}/text"
    SparseIndex.build(VECTORS).save(folder)
    assert len(SparseIndex.load(folder)) == 3
    save_encoded(folder, EncodedDocuments(VECTORS, Ids.of("abc")))
    assert load_encoded(folder).ids.to_list() == ["a", "b", "c"]
    DenseIndex.build(np.ones((2, 4), dtype=np.float32)).save(folder)
    assert len(DenseIndex.load(folder)) == 2


def test_an_index_without_idf_and_tie_breaks_replaces_one_with(folder: Path):
    SparseIndex.build(VECTORS).save(folder)
    loaded = SparseIndex.load(folder)
    assert loaded.idf is None
    assert loaded.retrieve(QUERY, 5).scores.tolist() == [4.0, 3.0]


def test_an_index_of_another_kind_is_refused(folder: Path):
    with pytest.raises(
        DataError, match=r"holds harness\.reference\.sparse version 1, expected harness\.reference\.dense"
    ):
        DenseIndex.load(folder)


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix == ".npy")


def test_a_flipped_bit_is_noticed_in_every_file(folder: Path):
    for path in files(folder):
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(CacheError, match=f"the checksum of '{path.name}' differs"):
            SparseIndex.load(folder)
        path.write_bytes(content)
    assert len(SparseIndex.load(folder)) == 3


def test_a_short_or_missing_file_is_noticed_without_reading_it(folder: Path):
    for path in files(folder):
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        with pytest.raises(CacheError, match=f"'{path.name}' is missing or has another size"):
            SparseIndex.load(folder, verify=False)
        path.unlink()
        with pytest.raises(CacheError, match=f"'{path.name}' is missing or has another size"):
            SparseIndex.load(folder, verify=False)
        path.write_bytes(content)


@pytest.mark.parametrize("content", ["", "{", "[1]", "{}", '{"format": "harness.exact.sparse", "version": 2}'])
def test_a_strange_header(folder: Path, content: str):
    (folder / "header.json").write_text(content)
    with pytest.raises((CacheError, DataError), match=r"header\.json"):
        SparseIndex.load(folder)


def test_an_interrupted_save_and_an_empty_folder_are_no_index(folder: Path, tmp_path: Path):
    (folder / "header.json").unlink()
    for place in (folder, tmp_path / "nothing"):
        with pytest.raises(CacheError, match="there is no saved index in '"):
            SparseIndex.load(place)


def test_a_header_that_disagrees_with_its_arrays(folder: Path):
    header = json.loads((folder / "header.json").read_text())
    for changes in ({"documents": 4}, {"dimensions": 2}, {"postings": 3}):
        (folder / "header.json").write_text(json.dumps({**header, "counts": {**header["counts"], **changes}}))
        with pytest.raises(CacheError, match="damaged"):
            SparseIndex.load(folder)
    (folder / "header.json").write_text(json.dumps({key: header[key] for key in ("format", "version")}))
    with pytest.raises(CacheError, match="the header is incomplete"):
        SparseIndex.load(folder)


def test_encoded_documents_come_back(tmp_path: Path):
    encoded = EncodedDocuments(VECTORS, Ids.of(["x", "Ä", "z"]), np.ones(3, dtype=np.float32))
    save_encoded(tmp_path / "a", encoded)
    loaded = load_encoded(tmp_path / "a")
    assert loaded.ids.to_list() == ["x", "Ä", "z"]
    assert (loaded.vectors.to_scipy() != VECTORS.to_scipy()).nnz == 0
    assert loaded.idf is not None
    assert loaded.idf.tolist() == [1, 1, 1]
    save_encoded(tmp_path / "a", EncodedDocuments(VECTORS, encoded.ids))
    assert load_encoded(tmp_path / "a").idf is None


def test_ids_that_do_not_match_the_rows_are_not_written(tmp_path: Path):
    with pytest.raises(UsageError, match="2 ids for 3 rows"):
        save_encoded(tmp_path / "a", EncodedDocuments(VECTORS, Ids.of(["x", "y"])))
    assert not (tmp_path / "a").exists()


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(CacheError, match=r"nothing can be saved in '.*file'"):
        SparseIndex.build(VECTORS).save(tmp_path / "file")


def test_nothing_is_pickled(folder: Path):
    for path in files(folder):
        np.load(path, allow_pickle=False)


@pytest.mark.parametrize("kind", [SparseIndex, DenseIndex])
def test_a_folder_without_an_index_is_named(kind: type[SparseIndex], tmp_path: Path):
    with pytest.raises(CacheError, match=r"there is no saved index in '.*nowhere'"):
        kind.load(tmp_path / "nowhere")
