"""A sample of cached vectors, encoded again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from harness.encoders.sampled_check import draw_sample
from harness.store.columns import load_table

MIB = 1 << 20


def test_a_sample_of_cached_vectors_reads_the_texts_of_the_sample_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    huge = pa.chunked_array([pa.array(["x" * MIB])] * 2560)  # 2.5 GiB of text by its own account
    table = pa.table({"id": pa.chunked_array([[f"d{row}"] for row in range(len(huge))]), "text": huge})
    monkeypatch.setattr("harness.encoders.sampled_check.load_table", lambda _: table)
    sample = draw_sample(tmp_path, "documents", 0.001, 7, tmp_path)
    drawn = load_table(sample.texts)
    assert drawn.column("id").to_pylist() == [f"d{row}" for row in sample.rows.tolist()]
    assert [len(text) for text in drawn.column("text").to_pylist()] == [MIB] * 3
