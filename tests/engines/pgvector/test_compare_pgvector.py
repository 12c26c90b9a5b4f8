"""A table of sparse vectors that somebody else made, in a comparison, and asked a golden set."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
import psycopg
import pytest
from installed import skip_module_without
from postgres_server import write_table
from small_world import DOCUMENTS, QUERIES, write_collection

import harness
from harness.data.inputs import Inputs
from harness.data.types import Ids, SparseVectors
from harness.encoders.bm25 import document_weights
from harness.engines.interface import ExpectedContent
from harness.engines.pgvector.engine import PgvectorSparseEngine
from harness.errors import BackendError
from harness.registry.lookup import find_cards
from harness.registry.parameters import ParameterValue
from harness.testing import RecordingProgress
from harness.text import count_terms, create_analyzer

skip_module_without("psycopg")

pytestmark = pytest.mark.integration
DEFAULTS = find_cards("backends")["pgvector-sparse"].defaults
COUNTS = count_terms(create_analyzer("whitespace"), [list(DOCUMENTS.values())], list(QUERIES.values()))
WEIGHTS = document_weights(COUNTS)
TABLE = "terms"
QUICK: Mapping[str, Any] = {"timing": False, "isolation": "none"}


@pytest.fixture(autouse=True)
def _table(postgres_url: str) -> Iterator[None]:
    write_table(postgres_url, TABLE, Inputs(Ids.of(DOCUMENTS), sparse=WEIGHTS), texts=list(DOCUMENTS.values()))
    yield
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"DROP TABLE {TABLE}")


def attach(work: Path, url: str, **parameters: ParameterValue) -> PgvectorSparseEngine:
    work.mkdir()
    engine = PgvectorSparseEngine(
        {**DEFAULTS, "idf": False, "external": True, "url": url, "table": TABLE, **parameters}
    )
    try:
        engine.attach(work, RecordingProgress())
    except BackendError:
        engine.close()
        raise
    return engine


def test_it_is_held_against_plain_dot_products_and_answers_a_golden_set(tmp_path: Path, postgres_url: str) -> None:
    data = write_collection(tmp_path / "data")
    backend = f"theirs=pgvector-sparse:external=true;idf=false;url={postgres_url};table={TABLE};analyzer=whitespace"
    trial = harness.compare([backend], data, k=3, **QUICK).trial("theirs")
    assert trial.parity is not None, trial.notes
    assert trial.parity.tie_equivalent == trial.parity.queries == len(QUERIES)
    golden = tmp_path / "golden.jsonl"
    asked = [{"id": name, "question": text, "expected_relevant_doc_ids": [name]} for name, text in DOCUMENTS.items()]
    golden.write_text("\n".join(json.dumps(line) for line in asked if line["question"]))
    checked = harness.check(golden, corpus=data / "corpus.jsonl", backends=backend, k=3, metrics=["Hit@3"], **QUICK)
    (trial,) = checked.report.trials
    assert trial.error is None
    assert trial.metrics["Hit@3"].mean == 1.0


def test_columns_that_a_table_lacks_are_left_out_and_other_weights_are_noticed(
    tmp_path: Path, postgres_url: str
) -> None:
    last = WEIGHTS.dimensions
    indices, weights = np.array([last - 1, last + 7, last + 7], np.int32), np.ones(3, np.float32)
    asked = Inputs(Ids.of(["both", "neither"]), sparse=SparseVectors(np.array([0, 2, 3]), indices, weights, last + 8))
    documents, ids = (
        WEIGHTS.indptr.searchsorted(np.flatnonzero(WEIGHTS.indices == last - 1), "right") - 1,
        list(DOCUMENTS),
    )
    with closing(attach(tmp_path / "work", postgres_url)) as engine:
        answer = engine.search(asked, 6, perf_counter_ns)
        assert {engine.ids[row] for row in answer.rows.tolist()} == {ids[row] for row in documents.tolist()}
        assert np.diff(answer.indptr).tolist() == [len(documents), 0]
        rows = np.arange(len(ids), dtype=np.int32)
        expected = Inputs(Ids.of(DOCUMENTS), sparse=WEIGHTS)
        assert engine.mismatch(ExpectedContent(rows, expected, asked), RecordingProgress()) is None
        other = replace(WEIGHTS, values=WEIGHTS.values * np.float32(2))
        reason = engine.mismatch(ExpectedContent(rows, replace(expected, sparse=other), asked), RecordingProgress())
        assert reason == "5 documents have other weights than the encoder gives, 'd1' first"
        stored = engine.stored_documents(2)
        assert stored.sparse is not None
        assert np.array_equal(stored.sparse.row(0)[1], WEIGHTS.row(0)[1])
        assert stored.texts[0] == DOCUMENTS["d1"]


def test_idf_and_an_index_for_another_similarity_are_refused(tmp_path: Path, postgres_url: str) -> None:
    with pytest.raises(BackendError, match="say idf=false"):
        attach(tmp_path / "idf", postgres_url, idf=True)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE INDEX ON {TABLE} USING hnsw (embedding sparsevec_l2_ops)")
    with pytest.raises(BackendError, match=r"is for similarity=l2(?s:.*)or with one for dot products: vector_column="):
        attach(tmp_path / "l2", postgres_url)
