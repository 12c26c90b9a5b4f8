"""Predictions as MTEB writes them: read back here, and by the library itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from installed import skip_module_without
from miniatures import miniature, mteb_tables, mteb_task, parquet_repository

import harness
from harness.data.memory import run_from_dict
from harness.data.types import Run
from harness.loaders.predictions_write import predictions_name, write_predictions
from harness.loaders.trec import read_run

SCORES = {"q1": {"39#0": 0.1, "e\u0301": 7.5, "<dbpedia:Escabeche>": 0.3}, "q2": {}, "3": {"7": -1.25}}


def as_dict(run: Run) -> dict[str, dict[str, float]]:
    bounds = zip(run.query_ids, run.indptr, run.indptr[1:], strict=False)
    return {
        query: dict(zip(run.doc_ids.take(run.rows[first:last]), map(float, run.scores[first:last]), strict=True))
        for query, first, last in bounds
    }


def test_a_run_comes_back_with_its_ids_and_scores(tmp_path: Path) -> None:
    path = tmp_path / predictions_name("Task")
    write_predictions(path, {"ko": {"dev": run_from_dict(SCORES)}}, model="org/model", revision="abc")
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert stored["mteb_model_meta"] == {"model_name": "org/model", "revision": "abc"}
    assert stored["ko"]["dev"] == SCORES
    again = as_dict(read_run(path))
    assert {query: again.get(query, {}) for query in SCORES} == {
        query: {document: float(np.float32(score)) for document, score in hits.items()}
        for query, hits in SCORES.items()
    }


def test_several_subsets_and_splits_share_a_file_and_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / predictions_name("Task")
    other = {"q9": {"d": 1.0}}
    write_predictions(
        path,
        {"ko": {"dev": run_from_dict(SCORES), "test": run_from_dict(other)}, "ja": {"dev": run_from_dict(other)}},
        model="m",
    )
    assert as_dict(read_run(f"{path}#ko/test")) == other
    assert list(read_run(f"{path}#ja").query_ids) == ["q9"]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.filterwarnings("ignore")
def test_the_library_reranks_what_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_module_without("mteb")
    import mteb

    content = miniature()
    mteb_task(monkeypatch, "Written", parquet_repository(tmp_path / "data", mteb_tables(content)), langs=["eng-Latn"])
    dataset = harness.Dataset.of(
        {name: " ".join(texts) for name, texts in content.documents.items()}, content.judged_queries("test")
    )
    result = harness.compare(["csr:analyzer=whitespace"], dataset, k=5, timing=False, isolation="none")
    run = result.run("csr:analyzer=whitespace")
    folder = tmp_path / "csr"
    folder.mkdir()
    write_predictions(folder / predictions_name("Written"), {"default": {"test": run}}, model="csr")
    task = mteb.get_task("Written").convert_to_reranking(folder, top_k=3)
    candidates = task.dataset["default"]["test"]["top_ranked"]
    hits = as_dict(run)
    assert candidates.keys() == hits.keys()
    for query, documents in candidates.items():
        assert [hits[query][document] for document in documents] == sorted(hits[query].values(), reverse=True)[:3]
