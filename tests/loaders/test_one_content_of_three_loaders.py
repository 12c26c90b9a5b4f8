"""One content by `irds:`, `mteb:` and `hf:`, each in the files that its library knows: one dataset, and one table.

All are held against one folder in BEIR's layout, and so against one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hub_miniatures import CONTENT, write_beir_repositories, write_mteb_repository
from hub_stub import DatasetHub, serving, use
from installed import skip_module_without
from miniatures import Content, beir_folder, beir_zip, irds_home, miniature, mteb_task

import harness
from harness.loaders.dataset import load_dataset

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore"),  # of the libraries: whatever they deprecate of one another
]

skip_module_without("ir_datasets", "mteb", "datasets")

SPECS = ("irds:beir/scifact/test", "mteb:Miniature", "hf:mteb/mini", "hf:BeIR/mini")


@pytest.fixture(params=[miniature(), CONTENT.of_splits(test="test")], ids=["odd ids", "same ids"])
def content(request: pytest.FixtureRequest) -> Content:
    chosen: Content = request.param
    return chosen


@pytest.fixture
def folder(content: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The content in BEIR's layout, after it was put where the libraries look for theirs."""
    import datasets

    monkeypatch.delenv("HARNESS_OFFLINE", raising=False)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "tables")
    archive = beir_zip(content, "scifact", tmp_path / "scifact.zip")
    with irds_home(tmp_path / "home", archive, monkeypatch), serving(DatasetHub(tmp_path / "hub")) as hub:
        use(hub, tmp_path / "hub cache", monkeypatch)
        write_beir_repositories(hub.root, content)
        write_mteb_repository(hub.root, content)
        mteb_task(monkeypatch, "Miniature", hub.root / "mteb/mini", langs=["eng-Latn"])
        yield beir_folder(content, tmp_path / "beir")


def metrics_of(dataset: str) -> pa.Table:
    compared = harness.compare("csr", dataset, k=10, identical_ids="keep", timing=False, isolation="none")
    return compared.values.drop_columns("dataset")


def test_all_are_the_same_dataset_and_end_in_the_same_metrics(content: Content, folder: Path) -> None:
    beir = load_dataset(folder)
    expected = metrics_of(str(folder))
    judged = [query for query in content.queries if query in content.qrels["test"]]
    assert len(expected) >= len(judged)
    for spec in SPECS:
        loaded = load_dataset(spec)
        assert loaded.corpus.digest == beir.corpus.digest, spec
        texts = dict(zip(loaded.queries.ids.to_list(), loaded.queries.texts.to_pylist(), strict=True))
        assert {query: texts[query] for query in judged} == content.judged_queries("test"), spec
        assert loaded.qrels is not None
        assert beir.qrels is not None
        assert loaded.qrels.query_ids.to_list() == beir.qrels.query_ids.to_list(), spec
        assert np.array_equal(loaded.qrels.rows, beir.qrels.rows), spec
        assert np.array_equal(loaded.qrels.grades, beir.qrels.grades), spec
        assert metrics_of(spec).equals(expected), spec
