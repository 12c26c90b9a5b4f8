"""Qdrant Edge gives the reference's rankings up to ties, on whole collections."""

from __future__ import annotations

import gzip
import json
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from installed import skip_module_without
from qdrant_trial import Counted, count, try_qdrant

from harness.data.dataset import Dataset
from harness.data.types import Ids
from harness.loaders import load_dataset
from harness.registry.parameters import ParameterValue

skip_module_without("qdrant_edge")
pytestmark = pytest.mark.integration


def counted(dataset: Dataset, analyzer: str) -> Counted:
    corpus, queries = dataset.corpus, dataset.queries
    return count(analyzer, corpus.ids, corpus.batches(1000), queries.ids, queries.texts.to_pylist())


@pytest.fixture(scope="module")
def cacm() -> Counted:
    return counted(load_dataset("cacm"), "snowball-english")


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({}, id="defaults"),
        pytest.param({"k1_plus_1": False}, id="without (k1 + 1)"),
        pytest.param({"idf": False}, id="without idf"),
        pytest.param({"indexing_threshold_kb": 1}, id="optimised"),
        pytest.param(
            {"indexing_threshold_kb": 1, "optimize_every": 500, "default_segment_number": 4, "on_disk": True},
            id="several segments on disk",
        ),
    ],
)
def test_cacm_is_tie_equivalent(cacm: Counted, tmp_path: Path, changed: dict[str, ParameterValue]) -> None:
    trial = try_qdrant(tmp_path, cacm, 1000, **changed)
    assert trial.report.indexed == 3204
    assert trial.run.hits > 40_000
    assert trial.parity.queries == 64
    assert trial.parity.tie_equivalent == 64
    assert trial.parity.max_rel_score_diff <= 4e-7
    assert trial.parity.causes == {}


@pytest.mark.parametrize("datatype", ["float16", "uint8"])
def test_a_smaller_datatype_is_named_as_the_cause(cacm: Counted, tmp_path: Path, datatype: str) -> None:
    trial = try_qdrant(tmp_path, cacm, 1000, datatype=datatype, indexing_threshold_kb=1)
    assert trial.report.state["datatype_in_effect"] == datatype
    assert trial.parity.max_rel_score_diff > 1e-5
    assert trial.parity.causes == {f"{datatype} weights": 64}


def test_a_datatype_without_effect_is_reported(cacm: Counted, tmp_path: Path) -> None:
    trial = try_qdrant(tmp_path, cacm, 1000, datatype="float16")
    assert trial.report.state["datatype_in_effect"] == "float32"
    assert trial.report.state["index_types"] == "MutableRam 1"
    assert trial.parity.tie_equivalent == 64


def test_repeatable_once_optimised(cacm: Counted, tmp_path: Path) -> None:
    one, other = (try_qdrant(tmp_path / name, cacm, 1000, indexing_threshold_kb=1).run for name in ("one", "other"))
    assert np.array_equal(one.rows, other.rows)
    assert np.array_equal(one.scores, other.scores)


def test_cranfield_holds_empty_documents_that_the_idf_does_not_count(shared_collections: Path, tmp_path: Path) -> None:
    dataset = load_dataset(str(shared_collections / "cranfield"))
    trial = try_qdrant(tmp_path, counted(dataset, "snowball-english"), 1000)
    assert (trial.report.sent, trial.report.indexed, len(trial.report.missing_rows)) == (1400, 1400, 0)
    assert (trial.report.state["idf_documents"], trial.report.state["empty_vectors"]) == (1398, 2)
    assert trial.parity.tie_equivalent == trial.parity.queries == 225
    assert trial.parity.max_rel_score_diff <= 4e-7


@pytest.mark.slow
def test_arxiv_titles_are_tie_equivalent(shared_collections: Path, tmp_path: Path) -> None:
    with gzip.open(shared_collections / "arxiv-50k" / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        records = [json.loads(line) for line in islice(lines, 20_000)]
    document_ids = Ids.of(record["_id"] for record in records)
    texts = [f"{record['title']} {record['text']}" for record in records]
    titles = [record["title"] for record in records[::200]]
    batches = (texts[start : start + 1000] for start in range(0, len(texts), 1000))
    query_ids = Ids.of(f"t{number}" for number in range(len(titles)))
    trial = try_qdrant(tmp_path, count("snowball-english", document_ids, batches, query_ids, titles), 1000)
    assert trial.report.indexed == 20_000
    assert trial.parity.tie_equivalent == trial.parity.queries == 100
    assert trial.parity.max_rel_score_diff <= 4e-7
