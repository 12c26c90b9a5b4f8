"""Milvus Lite beside the exact reference, and a file of somebody else's in a comparison."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from installed import skip_module_without
from milvus_indexes import COLLECTION, write_file
from small_world import DOCUMENTS, write_collection

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids
from harness.testing.expected import embed_words

skip_module_without("pymilvus")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
WORDS = "model=python:word_vectors:Words"


def test_it_ranks_as_exact_search_does_and_so_does_a_file_that_is_there(tmp_path: Path) -> None:
    ids = list(DOCUMENTS)
    vectors = embed_words(list(DOCUMENTS.values()))
    file = tmp_path / "theirs.db"
    write_file(file, Inputs(Ids.of(ids), dense=vectors), metric="IP")
    external = f"theirs=milvus:external=true;path={file};collection={COLLECTION};id_key=docno;{WORDS}"
    comparison = harness.compare(
        dataset=str(write_collection(tmp_path / "data")),
        backends=[f"own=milvus:similarity=dot;{WORDS}", external],
        k=3,
        out=tmp_path / "out",
    )
    for label in ("own", "theirs"):
        trial = comparison.trial(label)
        assert trial.parity is not None, f"{label} has no reference: {trial}"
        assert trial.parity.tie_equivalent == trial.parity.queries
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".db"] == ["theirs.db"]


def test_sparse_vectors_are_held_against_plain_dot_products(tmp_path: Path) -> None:
    comparison = harness.compare(
        dataset=str(write_collection(tmp_path / "data")),
        backends=["own=milvus-sparse:model=python:word_vectors:SparseWords"],
        k=3,
        out=tmp_path / "out",
    )
    parity = comparison.trial("own").parity
    assert parity is not None
    assert parity.tie_equivalent == parity.queries


def test_a_file_that_analyses_texts_itself_answers_a_golden_set(tmp_path: Path) -> None:
    """Milvus gets the questions as they are, and makes terms of them as it did of the documents."""
    file, golden = tmp_path / "theirs.db", tmp_path / "golden.jsonl"
    texts = pa.chunked_array([list(DOCUMENTS.values())])
    write_file(file, Inputs(Ids.of(DOCUMENTS), texts=texts))
    asked = [(doc_id, text) for doc_id, text in DOCUMENTS.items() if text]
    lines = [{"id": doc_id, "question": text, "expected_relevant_doc_ids": [doc_id]} for doc_id, text in asked]
    golden.write_text("\n".join(map(json.dumps, lines)))
    external = f"milvus-bm25:external=true;path={file};collection={COLLECTION};id_key=docno"
    (trial,) = harness.check(golden, against=external, k=1, metrics=["Hit@1"]).report.trials
    assert trial.error is None
    assert trial.metrics["Hit@1"].mean == 1.0
    assert trial.parity is None
    assert trial.index is not None
    assert (trial.index.state["bm25_k1"], trial.index.state["bm25_b"]) == ("0.9", "0.4")
