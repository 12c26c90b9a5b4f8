"""Rows of Arrow columns in several chunks, of more text than one array can hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.data.arrow import take_rows
from harness.store.columns import load_table, save_table
from harness.worker import embeddings

COLUMN = pa.chunked_array([["a", "b"], [], ["c"], ["d", None, "f"], []])
VALUES = ["a", "b", "c", "d", None, "f"]
MIB = 1 << 20


@pytest.fixture(scope="module")
def huge() -> pa.ChunkedArray:
    """2.5 GiB of text by its own account: the same MiB again and again."""
    return pa.chunked_array([pa.array(["x" * MIB])] * 2560)


@pytest.mark.parametrize("rows", [[5, 0, 2, 2, 4, 1], [0, 1, 3], [2], [], [5, 4, 3, 2, 1, 0]])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_come_in_the_order_in_which_they_were_asked_for(rows: list[int], dtype: type) -> None:
    found = take_rows(COLUMN, np.array(rows, dtype=dtype))
    assert found.to_pylist() == [VALUES[row] for row in rows]
    assert found.type == pa.string()


@pytest.mark.parametrize("row", [-1, 6])
def test_rows_outside_are_refused(row: int) -> None:
    with pytest.raises(IndexError, match=f"row {row} of a column of 6 rows"):
        take_rows(COLUMN, np.array([0, row]))
    with pytest.raises(IndexError, match="row 0 of a column of 0 rows"):
        take_rows(pa.chunked_array([], pa.string()), np.array([0]))


def test_rows_of_an_empty_column_that_nobody_asks_for() -> None:
    assert len(take_rows(pa.chunked_array([], pa.string()), np.array([], dtype=np.int64))) == 0


def test_a_sample_of_cached_vectors_reads_the_texts_of_the_sample_alone(
    huge: pa.ChunkedArray, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.table({"id": pa.chunked_array([[f"d{row}"] for row in range(len(huge))]), "text": huge})
    monkeypatch.setattr("harness.worker.embeddings.load_table", lambda _: table)
    sample = embeddings._draw_sample(tmp_path, "documents", 0.001, 7, tmp_path)
    drawn = load_table(sample.texts)
    assert drawn.column("id").to_pylist() == [f"d{row}" for row in sample.rows.tolist()]
    assert [len(text) for text in drawn.column("text").to_pylist()] == [MIB] * 3


def test_a_table_of_several_chunks_is_saved_and_taken_from_as_it_was(tmp_path: Path) -> None:
    save_table(tmp_path / "table.arrow", pa.table({"text": COLUMN}))
    stored = load_table(tmp_path / "table.arrow").column("text")
    assert take_rows(stored, np.array([3, 2])).to_pylist() == ["d", "c"]
