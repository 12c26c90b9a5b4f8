"""Going on with an encoding that was interrupted, and with one whose files were damaged meanwhile."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from harness.data.inputs import Inputs
from harness.data.progress import SilentDisplay
from harness.data.types import Ids, SparseVectors
from harness.encoders.settings import Settings
from harness.encoders.stream import encode_into, read_lengths, read_made
from harness.encoders.token_counts import TextLengths
from harness.registry.parameters import encoder_parameters
from harness.store.columns import load_vectors
from harness.worker.embeddings import _texts

TEXTS, CHUNK = 40, 8
INPUTS = Inputs(Ids.of(f"d{number}" for number in range(TEXTS)), pa.chunked_array([[""] * TEXTS]))
Kind = Literal["dense", "splade"]


class Model:
    """Vectors of the numbers in the ids; stops after so many chunks."""

    facts: dict[str, Any] = {}

    lengths: TextLengths | None = None

    def __init__(self, kind: Kind, chunks: int = 100) -> None:
        self.kind, self.chunks, self.asked = kind, chunks, 0

    def encode(self, texts: Inputs, role: str) -> Any:
        if not self.chunks:
            raise KeyboardInterrupt
        self.chunks -= 1
        self.asked += len(texts)
        rows = np.array([[float(name[1:]), 1, 2] for name in texts.ids], dtype=np.float32)
        return rows if self.kind == "dense" else SparseVectors.from_scipy(csr_array(rows))


def encode(folder: Path, model: Model) -> None:
    given = {name: one.default for name, one in encoder_parameters(model.kind).items()}
    settings = Settings.of(model.kind, {**given, "model": "python:some:model", "batch_size": 1})
    section = SilentDisplay().section("")
    encode_into(folder, INPUTS, "documents", settings, model, prompt="", progress=section, clock=lambda: 0)


def expected() -> np.ndarray:
    return np.array([[number, 1, 2] for number in range(TEXTS)], dtype=np.float32)


def found(folder: Path) -> np.ndarray:
    vectors = load_vectors(folder, "documents")
    dense = vectors.to_scipy().toarray() if isinstance(vectors, SparseVectors) else vectors
    return np.asarray(dense)


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param  # type: ignore[no-any-return]


def interrupted(folder: Path, kind: Kind) -> None:
    with pytest.raises(KeyboardInterrupt):
        encode(folder, Model(kind, chunks=3))


@pytest.mark.parametrize("kind", ["dense", "splade"], indirect=True)
def test_what_is_whole_is_not_encoded_again(tmp_path: Path, kind: Kind) -> None:
    interrupted(tmp_path, kind)
    model = Model(kind)
    encode(tmp_path, model)
    assert model.asked == TEXTS - 3 * CHUNK
    np.testing.assert_array_equal(found(tmp_path), expected())


def shorter(path: Path) -> None:
    with path.open("r+b") as stream:
        stream.truncate(path.stat().st_size - 1)


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("dense", "documents.npy"),
        ("splade", "documents.indptr.npy"),
        ("splade", "documents.indices.npy"),
        ("splade", "documents.values.npy"),
    ],
    indirect=["kind"],
)
@pytest.mark.parametrize("damage", [shorter, Path.unlink])
def test_files_that_hold_less_than_was_written_are_begun_again(
    tmp_path: Path, kind: Kind, file: str, damage: Any, caplog: pytest.LogCaptureFixture
) -> None:
    interrupted(tmp_path, kind)
    damage(tmp_path / file)
    model = Model(kind)
    with caplog.at_level(logging.WARNING, logger="harness"):
        encode(tmp_path, model)
    assert model.asked == TEXTS
    np.testing.assert_array_equal(found(tmp_path), expected())
    assert f"is damaged and is begun again: {file} holds less than the {3 * CHUNK} texts" in caplog.text
    assert read_made(tmp_path).rows == TEXTS


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b'{"rows": 24, "valu', "cannot be read"),
        (b"[24]", "cannot be read"),
        (b'{"lines": 24}', "cannot be read"),
        (b'{"rows": "24"}', "cannot be read"),
        (b'{"rows": -8}', "cannot be read"),
        (b'{"rows": 400, "dimensions": 3}', "refers to 400 texts, but there are 40"),
    ],
)
def test_an_unreadable_state_is_begun_again(
    tmp_path: Path, content: bytes, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    interrupted(tmp_path, "dense")
    (tmp_path / "progress.json").write_bytes(content)
    model = Model("dense")
    with caplog.at_level(logging.WARNING, logger="harness"):
        encode(tmp_path, model)
    assert model.asked == TEXTS
    np.testing.assert_array_equal(found(tmp_path), expected())
    assert said in caplog.text


class CountingModel(Model):
    """Reports the number in the id as a text's length, of which it reads 30."""

    def encode(self, texts: Inputs, role: str) -> Any:
        counts = [(int(name[1:]), max(0, int(name[1:]) - 30)) for name in texts.ids]
        self.lengths = TextLengths(np.array(counts, dtype=np.int32), 30, "a file")
        return super().encode(texts, role)


@pytest.mark.parametrize("kind", ["dense", "splade"], indirect=True)
def test_lengths_of_texts_are_continued_with_their_vectors(tmp_path: Path, kind: Kind) -> None:
    with pytest.raises(KeyboardInterrupt):
        encode(tmp_path, CountingModel(kind, chunks=3))
    encode(tmp_path, CountingModel(kind))
    lengths = read_lengths(tmp_path, "documents")
    assert lengths is not None
    assert lengths.counts.tolist() == [[number, max(0, number - 30)] for number in range(TEXTS)]
    assert lengths[1:] == (30, "a file", "tokens")


def test_lengths_that_were_not_counted_before_stay_unknown(tmp_path: Path) -> None:
    interrupted(tmp_path, "dense")
    encode(tmp_path, CountingModel("dense"))
    lengths = read_lengths(tmp_path, "documents")
    assert lengths is not None
    before = 3 * CHUNK
    assert lengths.counts.tolist() == [[-1, -1]] * before + [[n, max(0, n - 30)] for n in range(before, TEXTS)]


def test_a_model_that_reports_no_lengths_has_none(tmp_path: Path) -> None:
    encode(tmp_path, Model("dense"))
    assert read_lengths(tmp_path, "documents") is None
    (tmp_path / "model").mkdir()
    given = {name: one.default for name, one in encoder_parameters("dense").items()}
    of_folder = Settings.of("dense", {**given, "model": str(tmp_path / "model")})
    assert _texts(of_folder, "documents", tmp_path) == ("documents", TEXTS, None, "")
    python = Settings.of("dense", {**given, "model": "python:some:model"})
    assert "does not report" in _texts(python, "documents", tmp_path).unknown
