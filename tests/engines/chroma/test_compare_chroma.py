"""Chroma in whole comparisons: one build for several searches, and a server beside the engine in the process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from installed import skip_module_without
from small_world import DOCUMENTS, QUERIES, write_collection

import harness
from harness.testing.samples import random_texts

skip_module_without("chromadb")

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("warm_workers")]
HITS = len(DOCUMENTS) * len(QUERIES)


def test_ef_search_is_swept_on_one_build(tmp_path: Path) -> None:
    swept = harness.compare(
        "chroma:model=random",
        str(write_collection(tmp_path / "small")),
        k=10,
        sweep="chroma:model=random;ef_search=10,400",
        timing=False,
    )
    assert [backend.status for backend in swept.report.trials] == ["ok", "ok", "ok"]
    built_by = [backend.index.built_by for backend in swept.report.trials if backend.index is not None]
    assert built_by == [None, "chroma:model=random", "chroma:model=random"]
    states = [backend.index.state for backend in swept.report.trials if backend.index is not None]
    assert [state["ef_search"] for state in states] == [100, 10, 400], "each says what it was searched with"
    assert [backend.search.hits for backend in swept.report.trials if backend.search is not None] == [HITS] * 3


def test_a_server_answers_like_the_engine_in_the_process(chroma_url: str, tmp_path: Path) -> None:
    collection = str(write_collection(tmp_path / "small"))
    both = [f"chroma:url={chroma_url};model=random", "chroma:model=random"]
    compared = harness.compare(both, collection, k=10, timing=False)
    served, embedded = (compared.run(label) for label in both)
    assert served.rows.tolist() == embedded.rows.tolist()
    engines = [backend.engine for backend in compared.report.trials if backend.engine is not None]
    assert [(one.name, one.mode) for one in engines] == [("Chroma", "server"), ("Chroma", "embedded")]
    states = [backend.index.state for backend in compared.report.trials if backend.index is not None]
    assert [state["vectors_in_graph"] for state in states] == [len(DOCUMENTS)] * 2


def test_fewer_hits_than_asked_for_are_reported(tmp_path: Path) -> None:
    """Where lengths differ, a graph by the dot product leaves documents out of reach."""
    documents = {f"d{row}": text for row, text in enumerate(random_texts(11, 300))}
    collection = write_collection(tmp_path / "small", documents=documents)
    compared = harness.compare(
        "chroma:model=python:word_vectors:Words;similarity=dot", str(collection), k=300, timing=False
    )
    (backend,) = compared.report.trials
    assert any("of 4 queries got fewer than the 300 requested hits" in note for note in backend.notes)
    assert np.diff(compared.run(backend.label).indptr).max() <= 300
