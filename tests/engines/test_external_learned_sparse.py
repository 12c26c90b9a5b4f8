"""Indexes of learned sparse weights that somebody else made, through the whole of a comparison."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from installed import skip_without
from small_world import DOCUMENTS, QUERIES, write_collection

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids, SparseVectors
from harness.exact import SparseIndex
from harness.results.schema import TrialResult

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
COLUMNS = 40
MODEL = """
class Letters:
    def encode_documents(self, texts):
        found = [[one for one in set(text) if one.islower()] for text in texts]
        pairs = zip(found, texts, strict=True)
        return [{ord(one) - 97: 0.25 + text.count(one) / 3 for one in letters} for letters, text in pairs]
    encode_queries = encode_documents
    dimensions = 40
"""


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A collection, a model in the module `letters`, and a cache."""
    (tmp_path / "letters.py").write_text(MODEL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "letters", raising=False)
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    return write_collection(tmp_path / "small")


def weights() -> Inputs:
    """What the model gives the documents, as somebody else would have computed it."""
    rows = [sorted({ord(one) - ord("a") for one in text if one.islower()}) for text in DOCUMENTS.values()]
    values = [
        0.25 + text.count(chr(column + ord("a"))) / 3
        for text, columns in zip(DOCUMENTS.values(), rows, strict=True)
        for column in columns
    ]
    indptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    indices = np.array([column for row in rows for column in row], dtype=np.int32)
    return Inputs(Ids.of(DOCUMENTS), sparse=SparseVectors(indptr, indices, np.array(values, np.float32), COLUMNS))


def compared(small: Path, backend: str, **parameters: object) -> TrialResult:
    given = ";".join(f"{name}={value}" for name, value in parameters.items())
    expression = f"{backend}:external=true;model=python:letters:Letters;{given}"
    comparison = harness.compare([expression], small, k=5, timing=False, isolation="none")
    (result,) = comparison.report.trials
    assert result.error is None
    return result


def saved(folder: Path, given: Inputs) -> Path:
    SparseIndex.build(given.sparse, idf=None, tie_break=given.ids.tie_rank).save(folder)
    (folder / "ids.txt").write_text("".join(f"{one}\n" for one in given.ids))
    return folder


def test_a_saved_reference_index_is_proven(small: Path, tmp_path: Path) -> None:
    found = compared(small, "csr-splade", path=saved(tmp_path / "saved", weights()))
    assert found.parity is not None, found.notes
    assert found.parity.bit_equal == len(QUERIES)
    assert found.index is not None
    assert found.index.external_index is not None
    assert found.index.external_index.files == 7


def test_a_saved_reference_index_of_another_model_has_no_oracle(small: Path, tmp_path: Path) -> None:
    given = weights()
    assert given.sparse is not None
    given.sparse.values[3] += 1
    found = compared(small, "csr-splade", path=saved(tmp_path / "saved", given))
    assert found.parity is None
    assert any("1 documents have other weights than the encoder gives" in note for note in found.notes)


def test_a_shard_of_qdrant_is_proven(small: Path, tmp_path: Path) -> None:
    skip_without("qdrant_edge")
    from qdrant_indexes import write_shard

    write_shard(tmp_path / "shard", weights(), idf=False)
    found = compared(small, "qdrant-splade", path=tmp_path / "shard", id_key="docno", vector="words")
    assert found.parity is not None, found.notes
    assert found.parity.tie_equivalent == len(QUERIES)
    assert found.index is not None
    assert found.index.external_index is not None
    assert found.index.external_index.in_dataset == len(DOCUMENTS)
