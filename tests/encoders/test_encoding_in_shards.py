"""A divided encoding, in whatever order its parts are encoded, has the bits of an undivided one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from example_counts import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from harness.data.inputs import Inputs
from harness.data.progress import SilentDisplay
from harness.data.types import Ids, SparseVectors
from harness.encoders import stream
from harness.encoders.settings import Settings
from harness.encoders.stream import encode_into, join, read_made, rows_begun, shards
from harness.encoders.token_counts import TextLengths
from harness.errors import DataError
from harness.registry.parameters import encoder_parameters

Kind = Literal["dense", "splade"]


class BatchModel:
    """Vectors that depend on the whole batch, so that other batches give other bits; stops after ``chunks``."""

    facts: dict[str, Any] = {"device": "cpu"}

    def __init__(self, kind: Kind, *, chunks: int = 1000, width: int = 3) -> None:
        self.kind, self.chunks, self.width = kind, chunks, width
        self.lengths: TextLengths | None = None

    def encode(self, texts: Inputs, role: str) -> Any:
        if not self.chunks:
            raise KeyboardInterrupt
        self.chunks -= 1
        counts = np.array([[int(name[1:]), int(name[1:]) % 2] for name in texts.ids], dtype=np.int32)
        self.lengths = TextLengths(counts, 30, "a file")
        numbers = np.array([float(name[1:]) for name in texts.ids])
        rows = np.stack([numbers / (1 + numbers.sum()), np.full(len(texts), numbers.min()), numbers + 1], axis=1)
        dense = np.pad(rows, ((0, 0), (0, self.width - 3))).astype(np.float32)
        return dense if self.kind == "dense" else SparseVectors.from_scipy(csr_array(dense))


def inputs(rows: int) -> Inputs:
    return Inputs(Ids.of(f"d{number}" for number in range(rows)), pa.chunked_array([[""] * rows]))


def settings_of(kind: Kind, batch_size: int) -> Settings:
    defaults = {name: one.default for name, one in encoder_parameters(kind).items()}
    return Settings.of(kind, {**defaults, "model": "python:some:model", "batch_size": batch_size})


def encode(folder: Path, texts: Inputs, of: Settings, model: BatchModel) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    section = SilentDisplay().section("")
    encode_into(folder, texts, "documents", of, model, prompt="", progress=section, clock=lambda: 0)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@settings(max_examples=examples(15))
@given(
    rows=st.integers(1, 100),
    batch_size=st.integers(1, 3),
    shard_chunks=st.integers(1, 4),
    before=st.integers(0, 4),
    stopped=st.integers(0, 3),
    kind=st.sampled_from(["dense", "splade"]),
    data=st.data(),
)
def test_shards_are_joined_to_the_bits_of_one_encoding(
    rows: int, batch_size: int, shard_chunks: int, before: int, stopped: int, kind: Kind, data: st.DataObject
) -> None:
    of, texts = settings_of(kind, batch_size), inputs(rows)
    with tempfile.TemporaryDirectory() as work, pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "_SHARD_CHUNKS", shard_chunks)
        whole, divided = Path(work, "whole"), Path(work, "divided")
        encode(whole, texts, of, BatchModel(kind))
        try:  # an earlier run here began it, in one piece
            encode(divided, texts, of, BatchModel(kind, chunks=before))
        except KeyboardInterrupt:
            parts = shards(divided, rows, "documents", of)
            assert [part.start for part in parts] == [rows_begun(divided), *(part.stop for part in parts[:-1])]
            assert parts[-1].stop == rows
            for part in data.draw(st.permutations(parts)):
                mine = texts.slice(part.start, part.stop)
                try:
                    encode(part.folder, mine, of, BatchModel(kind, chunks=stopped))
                except KeyboardInterrupt:
                    encode(part.folder, mine, of, BatchModel(kind))
            join(divided, parts, "documents", of, "")
        assert content(divided) == content(whole)


def test_shards_of_another_batch_size_are_not_taken_for_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_SHARD_CHUNKS", 1)
    small = shards(tmp_path, 64, "documents", settings_of("dense", 1))
    large = shards(tmp_path, 64, "documents", settings_of("dense", 2))
    assert [part.stop - part.start for part in small] == [8] * 8
    assert {part.folder for part in small}.isdisjoint(part.folder for part in large)


def test_shards_by_models_of_different_widths_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "_SHARD_CHUNKS", 1)
    of, texts = settings_of("dense", 1), inputs(16)
    parts = shards(tmp_path, 16, "documents", of)
    for part, width in zip(parts, (3, 4), strict=True):
        encode(part.folder, texts.slice(part.start, part.stop), of, BatchModel("dense", width=width))
    with pytest.raises(DataError, match="4 dimensions from text 8 on, 3 before"):
        join(tmp_path, parts, "documents", of, "")


def test_an_undivided_run_that_completes_a_divided_one_removes_its_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_SHARD_CHUNKS", 1)
    of, texts = settings_of("dense", 1), inputs(16)
    part = shards(tmp_path, 16, "documents", of)[1]
    encode(part.folder, texts.slice(part.start, part.stop), of, BatchModel("dense"))
    encode(tmp_path, texts, of, BatchModel("dense"))
    assert sorted(content(tmp_path)) == ["documents.lengths.npy", "documents.npy", "made.json"]
    made = read_made(tmp_path)
    assert (made.rows, made.chunks) == (16, 2)
