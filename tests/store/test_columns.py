"""Rows of Arrow columns in several chunks, of more text than one array can hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from harness.data.arrow import take_rows
from harness.store.columns import load_table, save_table

COLUMN = pa.chunked_array([["a", "b"], [], ["c"], ["d", None, "f"], []])
VALUES = ["a", "b", "c", "d", None, "f"]


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


def test_a_table_of_several_chunks_is_saved_and_taken_from_as_it_was(tmp_path: Path) -> None:
    save_table(tmp_path / "table.arrow", pa.table({"text": COLUMN}))
    stored = load_table(tmp_path / "table.arrow").column("text")
    assert take_rows(stored, np.array([3, 2])).to_pylist() == ["d", "c"]
