"""Precomputed vectors in ann-benchmarks' HDF5, of which only the rows of a chunk are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from neighbour_files import entries, write_neighbour_file

from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.encoders.precomputed import PrecomputedEncoder
from harness.encoders.settings import EncoderName, Role, Settings
from harness.encoders.sources import encoding_key, refuse_missing
from harness.errors import DataError, UsageError
from harness.plan.backend_spec import parse_backends

TRAIN, TEST = entries()["train"], entries()["test"]


def settings(path: Path, kind: EncoderName = "dense") -> Settings:
    backend = "flat" if kind == "dense" else "csr-splade"
    (spec,) = parse_backends(f"{backend}:model='precomputed:{path}'")
    return Settings.of(kind, spec.parameters)


def encode(path: Path, role: Role, ids: list[str], kind: EncoderName = "dense") -> Any:
    return PrecomputedEncoder(settings(path, kind)).encode(Inputs(Ids.of(ids)), role)


@pytest.mark.parametrize("rows", [[0, 1, 2, 3], [39], [5, 3, 3, 38], [2, 4, 6], []])
def test_ids_are_row_numbers(tmp_path: Path, rows: list[int]) -> None:
    path = write_neighbour_file(tmp_path / "x.hdf5")
    vectors = encode(path, "documents", list(map(str, rows)))
    np.testing.assert_array_equal(vectors, TRAIN[rows])
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    np.testing.assert_array_equal(encode(path, "queries", ["5", "0"]), TEST[[5, 0]])


@pytest.mark.parametrize("name", ["40", "-1", "00", "1.0", "x", "9999999999999999999"])
def test_ids_without_a_row_are_named(tmp_path: Path, name: str) -> None:
    path = write_neighbour_file(tmp_path / "x.hdf5")
    with pytest.raises(DataError, match=f"has no vector for 1 or more documents: {name}"):
        encode(path, "documents", ["3", name])


@pytest.mark.parametrize("kind", ["f2", "f8", "i1", "u1", "i4"])
def test_other_types_of_numbers_become_float32(tmp_path: Path, kind: str) -> None:
    train = np.abs(TRAIN * 10).astype(kind)
    path = write_neighbour_file(tmp_path / "x.hdf5", train=train)
    np.testing.assert_array_equal(encode(path, "documents", ["0", "1"]), train[:2].astype(np.float32))


def test_the_distance_is_not_needed(tmp_path: Path) -> None:
    assert encode(write_neighbour_file(tmp_path / "x.hdf5", None), "queries", ["0"]).shape == (1, 4)


def test_sparse_backends_and_other_files_are_refused(tmp_path: Path) -> None:
    path = write_neighbour_file(tmp_path / "x.hdf5")
    with pytest.raises(DataError, match="sparse vectors are wanted, and these are dense"):
        encode(path, "documents", ["0"], "splade")
    other = tmp_path / "vectors.csv"
    other.write_text("1,2")
    with pytest.raises(UsageError, match="is neither a folder nor an HDF5 file"):
        settings(other)


def test_content_and_not_the_name_is_the_key(tmp_path: Path) -> None:
    one, same = (write_neighbour_file(tmp_path / name) for name in ("x.hdf5", "y.h5"))
    different = write_neighbour_file(tmp_path / "z.hdf5", test=TEST + 1)
    keys = [encoding_key(settings(path), "documents", "digest", fetch=False) for path in (one, same, different)]
    assert keys[0] == keys[1] != keys[2]
    assert settings(one).source.display_name == "x.hdf5"
    refuse_missing(settings(one))
