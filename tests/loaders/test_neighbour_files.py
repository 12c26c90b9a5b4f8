"""Datasets in ann-benchmarks' HDF5: ids, judgments, splits, and the refusal of files that contradict themselves."""

from __future__ import annotations

import gzip
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from neighbour_files import entries, write_neighbour_file

from harness.data.dataset import DatasetFiles, DatasetVectors
from harness.data.types import Qrels
from harness.errors import DataError, HarnessError, MissingExtraError, UsageError
from harness.loaders import load_dataset
from harness.loaders.checks import dataset_findings
from harness.loaders.golden import load_golden
from harness.store.neighbour_file import NeighbourFile

NEIGHBOURS = entries()["neighbors"]
TRAIN = entries()["train"]


def changed(row: int, column: int, value: int) -> Any:
    rows = NEIGHBOURS.copy()
    rows[row, column] = value
    return rows


def judged_documents(qrels: Qrels) -> dict[str, dict[str, int]]:
    owner = np.repeat(np.arange(len(qrels.query_ids)), np.diff(qrels.indptr)).tolist()
    judged: dict[str, dict[str, int]] = {query: {} for query in qrels.query_ids}
    for query, row, grade in zip(owner, qrels.rows.tolist(), qrels.grades.tolist(), strict=True):
        judged[qrels.query_ids[query]][qrels.doc_ids[row]] = grade
    return judged


@pytest.mark.parametrize(
    ("distance", "similarity"),
    [("angular", "cosine"), ("cosine", "cosine"), ("euclidean", "l2"), ("dot", "dot"), (b"angular", "cosine")],
)
def test_ids_are_row_numbers_and_neighbours_are_judgments(tmp_path: Path, distance: Any, similarity: str) -> None:
    path = write_neighbour_file(tmp_path / "small.hdf5", distance)
    name = distance.decode() if isinstance(distance, bytes) else distance
    dataset = load_dataset(path)
    assert dataset.name == "small"
    assert dataset.vectors == DatasetVectors(f"precomputed:{path}", similarity, name)
    assert dataset.corpus.ids.to_list() == [str(row) for row in range(40)]
    assert dataset.queries.ids.to_list() == [str(row) for row in range(6)]
    assert dataset.qrels is not None
    with h5py.File(path) as file:
        judged = {str(query): {str(row): 1 for row in rows} for query, rows in enumerate(file["neighbors"][:].tolist())}
    assert judged_documents(dataset.qrels) == judged
    assert dataset.provenance["distance"] == name
    compared = "small.hdf5: the neighbours agree with the vectors of 6 queries and 40 documents that were compared"
    assert dataset.provenance["notes"] == compared
    assert dataset.identical_ids == "keep"
    assert dataset_findings(dataset) == []


def test_splits_judge_the_nearest(tmp_path: Path) -> None:
    path = write_neighbour_file(tmp_path / "small.h5")
    with pytest.raises(UsageError, match="there are: top1, top10, top12"):
        load_dataset(path, split="top5")
    assert load_dataset(path).provenance["split"] == "top12"
    qrels = load_dataset(path, split="top10").qrels
    assert qrels is not None
    assert judged_documents(qrels)["2"].keys() == set(map(str, NEIGHBOURS[2, :10].tolist()))


def test_a_file_without_neighbours_has_no_judgments(tmp_path: Path) -> None:
    assert load_dataset(write_neighbour_file(tmp_path / "x.hdf5", neighbors=None, distances=None)).qrels is None


def test_the_first_bytes_decide_without_an_ending(tmp_path: Path) -> None:
    assert load_dataset(write_neighbour_file(tmp_path / "vectors")).vectors is not None


def test_missing_neighbours_are_filled_with_minus_one(tmp_path: Path) -> None:
    rows = NEIGHBOURS.copy()
    rows[2, 9:] = -1
    dataset = load_dataset(write_neighbour_file(tmp_path / "x.hdf5", neighbors=rows))
    assert dataset.qrels is not None
    assert {query: len(rows) for query, rows in judged_documents(dataset.qrels).items()}["2"] == 9
    assert dataset.provenance["notes"].endswith("1 query has fewer than 12 neighbours")
    filled = write_neighbour_file(tmp_path / "y.hdf5", neighbors=np.full_like(rows, -1))
    with pytest.raises(DataError, match="all values of 'neighbors' are -1, which stands for no neighbour"):
        load_dataset(filled)


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "no train": ({"train": None}, "has no dataset 'train'; its entries are 'distances', 'neighbors', 'test'"),
    "no test": ({"test": None}, "has no dataset 'test'"),
    "no distance": ({"distance": None}, "has no attribute 'distance', which names the distance between vectors"),
    "jaccard": (
        {"distance": "jaccard"},
        "its distance is 'jaccard', and the distances that can be measured are angular",
    ),
    "hamming": ({"distance": "hamming"}, "its distance is 'hamming'"),
    "numbers": ({"distance": [1, 2]}, "its distance is '[1, 2]'"),
    "bits": ({"attributes": {"point_type": "bit"}}, "holds vectors of bits (point_type 'bit')"),
    "sets": ({"attributes": {"type": "sparse"}}, "holds sets of different sizes (type 'sparse')"),
    "dimension": (
        {"attributes": {"dimension": 7}},
        "the attribute 'dimension' is 7, and 'train' has 4 dimensions",
    ),
    "booleans": ({"train": np.ones((40, 4), bool)}, "'train' holds bool of shape (40, 4), expected numbers of shape"),
    "one axis": ({"train": np.ones(40), "attributes": {"dimension": None}}, "'train' holds float64 of shape (40,)"),
    "words": ({"train": ["a"], "attributes": {"dimension": None}}, "'train' holds object of shape (1,)"),
    "empty": ({"train": np.ones((0, 4))}, "'train' is empty: its shape is (0, 4)"),
    "null": ({"test": h5py.Empty("f4")}, "has no dataset 'test'"),
    "widths": ({"test": np.ones((6, 3))}, "'train' has 4 dimensions, and 'test' has 3"),
    "beyond": ({"neighbors": changed(2, 3, 40)}, "query 2: its neighbour 40 is not a row of 'train' (0 to 39)"),
    "negative": ({"neighbors": changed(2, 3, -2)}, "query 2: its neighbour -2 is not a row of 'train'"),
    "twice": (
        {"neighbors": changed(2, 3, int(NEIGHBOURS[2, 1]))},
        f"query 2: its neighbour {NEIGHBOURS[2, 1]} occurs twice",
    ),
    "fractions": ({"neighbors": NEIGHBOURS.astype("f4")}, "expected whole numbers of shape (6, K)"),
    "few rows": ({"neighbors": NEIGHBOURS[:3]}, "'neighbors' holds int32 of shape (3, 12)"),
    "no columns": ({"neighbors": NEIGHBOURS[:, :0]}, "'neighbors' holds int32 of shape (6, 0)"),
    "counted from 1": ({"neighbors": (NEIGHBOURS + 1) % 40}, "'neighbors' contradicts the vectors by the distance"),
    "other queries": ({"neighbors": NEIGHBOURS[::-1]}, "is nearer than the last neighbour"),
    "farthest first": ({"neighbors": NEIGHBOURS[:, ::-1]}, "which comes before it"),
    "another distance": ({"attributes": {"distance": "euclidean"}}, "by the distance 'euclidean'"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_files_are_refused(tmp_path: Path, fault: str) -> None:
    content, message = FAULTS[fault]
    path = write_neighbour_file(tmp_path / "x.hdf5", **content)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        load_dataset(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert caught.value.fix


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3000])


def link(path: Path) -> None:
    write_neighbour_file(path.with_name("other.hdf5"))
    with h5py.File(path, "a") as file:
        del file["train"]
        file["train"] = h5py.ExternalLink("other.hdf5", "/train")


def state_much(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["train"]
        file.create_dataset("train", shape=(10**9, 4), dtype="f4", chunks=(1000, 4))


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut": (cut, "cannot be read as HDF5: .*truncated"),
    "another format": (lambda path: path.write_text('{"id": 1}'), "cannot be read as HDF5: "),
    "nothing": (lambda path: path.write_bytes(b""), "cannot be read as HDF5: "),
    "a link": (link, "the numbers of 'train' are in another file"),
    "a huge shape": (state_much, "'train' states 16,000,000,000 bytes of numbers"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_files_are_refused(tmp_path: Path, damage: str) -> None:
    change, message = DAMAGE[damage]
    path = write_neighbour_file(tmp_path / "x.hdf5")
    change(path)
    with pytest.raises(DataError, match=message):
        load_dataset(path)
    with pytest.raises(DataError, match=message):
        NeighbourFile(path)


def test_only_a_dataset_may_be_hdf5(tmp_path: Path) -> None:
    path = write_neighbour_file(tmp_path / "x.hdf5")
    packed = tmp_path / "x.hdf5.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for read in (lambda: load_golden(path), lambda: load_dataset(packed)):
        with pytest.raises(
            DataError, match="is an HDF5 file, which is not read\n  a file of ann-benchmarks is read as"
        ):
            read()


def test_an_hdf5_file_has_no_columns(tmp_path: Path) -> None:
    path = write_neighbour_file(tmp_path / "x.hdf5")
    with pytest.raises(UsageError, match="is an HDF5 file, without fields to name"):
        load_dataset(path, files=DatasetFiles(columns={"id": "x"}))


def test_without_h5py_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_neighbour_file(tmp_path / "x.hdf5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(HarnessError) as caught:
        load_dataset(path)
    assert isinstance(caught.value, MissingExtraError)
    assert str(caught.value) == (
        "'x.hdf5', an HDF5 file, needs the Python module 'h5py', which cannot be imported\n"
        "  pip install 'retrieval-harness[files]'"
    )


def test_faults_of_vectors_do_not_hinder_the_check_of_neighbours(tmp_path: Path) -> None:
    """They are named when the vectors are encoded."""
    train = TRAIN.copy()
    train[39] = np.nan
    rows = np.where(NEIGHBOURS == 39, -1, NEIGHBOURS)
    assert load_dataset(write_neighbour_file(tmp_path / "x.hdf5", train=train, neighbors=rows)).qrels is not None


def test_compressed_chunks_are_read_as_plain_vectors_are(tmp_path: Path) -> None:
    path = write_neighbour_file(tmp_path / "x.hdf5", train=None)
    with h5py.File(path, "a") as file:
        file.attrs["dimension"] = 4
        file.create_dataset("train", data=TRAIN, chunks=(7, 3), compression="gzip")
    assert load_dataset(path).qrels is not None
    with NeighbourFile(path) as vectors:
        np.testing.assert_array_equal(vectors.vectors("documents", np.array([30, 2, 2])), TRAIN[[30, 2, 2]])


def test_more_documents_than_are_compared(tmp_path: Path) -> None:
    """Blocks that are spread over the documents are compared, so that a nearer document in most of them shows."""
    train = np.tile(TRAIN, (300, 1)) + np.arange(12_000, dtype=np.float32)[:, None] * 1e-3
    cosines = (entries()["test"] @ train.T) / np.linalg.norm(train, axis=1)
    nearest = np.argsort(-cosines, axis=1)[:, :5]
    path = write_neighbour_file(tmp_path / "x.hdf5", train=train, neighbors=nearest)
    assert "6 queries and 10,000 documents" in load_dataset(path).provenance["notes"]
    with pytest.raises(DataError, match="is nearer than the last neighbour"):
        load_dataset(
            write_neighbour_file(tmp_path / "y.hdf5", train=train, neighbors=np.flip(np.argsort(-cosines)[:, -5:]))
        )
